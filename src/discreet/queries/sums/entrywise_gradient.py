"""The gradient sum of a linear model whose rows are bounded entry by entry instead of in length.

Claim: every entry, less a public centre, is shrunk to |x_j| ≤ ``entry_bound`` and rounded to at most 2^15 steps, every
slope clipped to ±``slope_bound`` and rounded to at most 2^16 steps, so each row contributes to every coordinate a whole
number of at most 2^31 steps, for every row content whatever: an ℓ∞ bound, where the ℓ2 bound would be √d times as
large.

It reads the rows as they were given, not as the ℓ2 clip would scale them: one outlying entry is cut, and the rest of
its row stays. θ is rounded to whole steps with ‖θ‖₁ ≤ 2^37, so ⟨x, θ⟩ is exact in float64 in any order of summation,
and a row's contribution depends on nothing but the row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset
from discreet.errors import InvalidInput
from discreet.losses import Loss
from discreet.queries.base import Integers, Norm
from discreet.queries.entries import ENTRY_BITS, Shrinkage
from discreet.queries.parameters import whole_parameter
from discreet.rows import RowSpec

__all__ = ["EntrywiseGradientSum"]

_SLOPE_BITS = 16
_MOST_OFFSET = 2.0**60


@dataclass(frozen=True, eq=False)
class EntrywiseGradientSum:
    """offset + Σ_i clip(slope(z_i, y_i − b), ``slope_bound``)·u_i, u = shrink(x_i − c), |u_j| ≤ ``entry_bound``.

    z = ⟨u, θ⟩; c and b are public or were released before, 0 where they are not given.

    Args:
        rows: public facts about the rows; their ℓ2 norm is not used.
        loss: pointwise loss, one output.
        theta: where the gradient is taken.
        entry_bound: every entry, and the constant column, is shrunk to ± this.
        slope_bound: every slope is clipped to ± this.
        target_bound: targets are clipped to ± this; inf leaves them.
        offset: a public vector that is added to the sum.
        constant: value of the constant column, where rows have one; None takes that of ``rows``.
        centre: c, one entry a column, the constant one left out; None for 0.
        target_centre: b, subtracted from targets after they were clipped.
    """

    rows: RowSpec
    loss: Loss
    theta: NDArray[np.float64]
    entry_bound: float
    slope_bound: float
    target_bound: float = math.inf
    offset: NDArray[np.float64] | None = None
    constant: float | None = None
    centre: NDArray[np.float64] | None = None
    target_centre: float = 0.0

    norm: ClassVar[Norm] = "linf"
    bound: ClassVar[int] = 2 ** (ENTRY_BITS + _SLOPE_BITS)

    def __post_init__(self) -> None:
        for name in ("entry_bound", "slope_bound", "target_bound"):
            if not getattr(self, name) > 0:
                raise InvalidInput(f"{name} must be positive, got {getattr(self, name)!r}.")
        if self.rows.outputs != 1 or self.theta.shape != self.rows.shape:
            raise InvalidInput(f"θ has shape {self.theta.shape}, one output for rows of {self.rows.shape} is needed.")
        if self.centre is not None and self.centre.shape != (self.rows.n_features,):
            raise InvalidInput(f"a centre of shape {self.centre.shape} does not fit {self.rows.n_features} columns.")

    @property
    def grid(self) -> float:
        """Value of one step."""
        return self.entry_bound * self.slope_bound / self.bound

    @property
    def shape(self) -> tuple[int, ...]:
        """The parameter's shape."""
        return self.rows.shape

    def integers(self, data: Dataset) -> Integers:
        """The exact sum in grid steps."""
        if not math.isfinite(self.entry_bound * self.slope_bound):
            raise InvalidInput("a private gradient sum needs a finite entry_bound and a finite slope_bound.")
        shrinkage = self._shrinkage
        theta, z_unit = whole_parameter(self.theta, shrinkage.unit, "l1")

        def block_sum(block: Block) -> Integers:
            total = np.zeros(self.shape, np.int64)
            for part, rows in shrinkage.chunks(block, whole=True):
                slopes = self._slopes(rows.scores(theta) * z_unit, block.y[part])
                slopes = np.rint(slopes / self.slope_bound * 2.0**_SLOPE_BITS)
                total += rows.weighted_sum(slopes).astype(np.int64)
            return total

        total = data.map_sum(block_sum, self.shape)
        if self.offset is None:
            return total
        return total + np.rint(np.clip(self.offset / self.grid, -_MOST_OFFSET, _MOST_OFFSET)).astype(np.int64)

    def unrounded(self, data: Dataset) -> NDArray[np.float64]:
        """The gradient sum in floating point; infinite bounds shrink nothing."""

        def block_sum(block: Block) -> NDArray[np.float64]:
            total = np.zeros(self.shape)
            for part, rows in self._shrinkage.chunks(block, whole=False):
                total += rows.weighted_sum(self._slopes(rows.scores(self.theta), block.y[part]))
            return total

        total = np.sum(data.map_blocks(block_sum), axis=0)
        return np.asarray(total if self.offset is None else total + self.offset)

    @property
    def _shrinkage(self) -> Shrinkage:
        value = self.rows.intercept if self.constant is None else self.constant
        return Shrinkage(self.rows, self.entry_bound, self.centre, value if self.rows.intercept else 0.0, True)

    def _slopes(self, z: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        known = np.isfinite(y)
        targets = np.clip(np.where(known, y, 0.0), -self.target_bound, self.target_bound)
        slopes = np.clip(self.loss.slope(z, targets - self.target_centre), -self.slope_bound, self.slope_bound)
        return np.where(known & np.isfinite(slopes), slopes, 0.0)
