"""The gradient sum of a linear model whose rows are bounded entry by entry instead of in length.

Claim: every entry is shrunk to |x_j| ≤ ``entry_bound`` and rounded to at most 2^15 steps, every slope clipped to
±``slope_bound`` and rounded to at most 2^16 steps, so each row contributes to every coordinate a whole number of at
most 2^31 steps, for every row content whatever: an ℓ∞ bound, where the ℓ2 bound would be √d times as large.

It reads the rows as they were given, not as the ℓ2 clip would scale them: one outlying entry is cut, and the rest of
its row stays. θ is rounded to whole steps with ‖θ‖₁ ≤ 2^37, so ⟨x, θ⟩ is exact in float64 in any order of summation,
and a row's contribution depends on nothing but the row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset, DenseBlock
from discreet.errors import InvalidInput
from discreet.losses import Loss
from discreet.queries.base import Integers, Norm
from discreet.queries.parameters import whole_parameter
from discreet.rows import RowSpec

__all__ = ["EntrywiseGradientSum"]

_ENTRY_BITS = 15
_SLOPE_BITS = 16
_MOST_OFFSET = 2.0**60
_CHUNK = 1 << 16  # entries in a dense chunk


@dataclass(frozen=True, eq=False)
class EntrywiseGradientSum:
    """offset + Σ_i clip(slope(z_i, y_i), ``slope_bound``)·x_i with |x_ij| ≤ ``entry_bound``, z = ⟨x, θ⟩.

    Args:
        rows: public facts about the rows; their ℓ2 norm is not used.
        loss: pointwise loss, one output.
        theta: where the gradient is taken.
        entry_bound: every entry, and the constant column, is shrunk to ± this.
        slope_bound: every slope is clipped to ± this.
        target_bound: targets are clipped to ± this; inf leaves them.
        offset: a public vector that is added to the sum.
        constant: value of the constant column, where rows have one; None takes that of ``rows``.
    """

    rows: RowSpec
    loss: Loss
    theta: NDArray[np.float64]
    entry_bound: float
    slope_bound: float
    target_bound: float = math.inf
    offset: NDArray[np.float64] | None = None
    constant: float | None = None

    norm: ClassVar[Norm] = "linf"
    bound: ClassVar[int] = 2 ** (_ENTRY_BITS + _SLOPE_BITS)

    def __post_init__(self) -> None:
        for name in ("entry_bound", "slope_bound", "target_bound"):
            if not getattr(self, name) > 0:
                raise InvalidInput(f"{name} must be positive, got {getattr(self, name)!r}.")
        if self.rows.outputs != 1 or self.theta.shape != self.rows.shape:
            raise InvalidInput(f"θ has shape {self.theta.shape}, one output for rows of {self.rows.shape} is needed.")

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
        entry = self.entry_bound / 2.0**_ENTRY_BITS
        theta, z_unit = whole_parameter(self.theta, entry, "l1")

        def block_sum(block: Block) -> Integers:
            total = np.zeros(self.shape, np.int64)
            for part, rows in self._chunks(block, entry):
                slopes = self._slopes((rows @ theta) * z_unit, block.y[part])
                slopes = np.rint(slopes / self.slope_bound * 2.0**_SLOPE_BITS)
                total += np.asarray(rows.T @ slopes).astype(np.int64)
            return total

        total = data.map_sum(block_sum, self.shape)
        if self.offset is None:
            return total
        return total + np.rint(np.clip(self.offset / self.grid, -_MOST_OFFSET, _MOST_OFFSET)).astype(np.int64)

    def unrounded(self, data: Dataset) -> NDArray[np.float64]:
        """The gradient sum in floating point; infinite bounds shrink nothing."""

        def block_sum(block: Block) -> NDArray[np.float64]:
            total = np.zeros(self.shape)
            for part, rows in self._chunks(block, None):
                total += np.asarray(rows.T @ self._slopes(rows @ self.theta, block.y[part]))
            return total

        total = np.sum(data.map_blocks(block_sum), axis=0)
        return np.asarray(total if self.offset is None else total + self.offset)

    def _slopes(self, z: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        known = np.isfinite(y)
        targets = np.clip(np.where(known, y, 0.0), -self.target_bound, self.target_bound)
        slopes = np.clip(self.loss.slope(z, targets), -self.slope_bound, self.slope_bound)
        return np.where(known & np.isfinite(slopes), slopes, 0.0)

    def _chunks(self, block: Block, entry: float | None) -> Iterator[tuple[slice, Any]]:
        """(rows, their shrunken entries), in whole steps of ``entry`` if that is given; entries not finite are 0."""
        size = max(1, _CHUNK // max(1, self.rows.dimension)) if isinstance(block, DenseBlock) else 1 << 13
        for low in range(0, len(block.y), size):
            part = slice(low, min(low + size, len(block.y)))
            count = part.stop - part.start
            rows: Any
            if isinstance(block, DenseBlock):
                rows = self._shrunken(block.X[part], entry) if entry is None else self._whole(block, entry)[part]
                rows = rows.astype(np.float64, copy=False)
            else:
                edges = block.indptr[part.start : part.stop + 1]
                within = slice(edges[0], edges[-1])
                values = self._shrunken(block.values[within], entry)
                rows = sp.csr_array((values, block.indices[within], edges - edges[0]), (count, self.rows.n_features))
            if self.rows.intercept:
                value = self.rows.intercept if self.constant is None else self.constant
                constant = self._shrunken(np.full((count, 1), value), entry)
                rows = (
                    np.hstack([rows, constant]) if isinstance(block, DenseBlock) else sp.hstack([rows, constant], "csr")
                )
            yield part, rows

    def _whole(self, block: DenseBlock, entry: float) -> NDArray[np.float32]:
        """All entries in whole steps, made once for all steps of a run: at most 2^15, so float32 holds them exactly."""

        def made() -> NDArray[np.float32]:
            whole, size = np.empty(block.X.shape, np.float32), max(1, _CHUNK // max(1, block.X.shape[1]))
            for low in range(0, len(whole), size):
                whole[low : low + size] = self._shrunken(block.X[low : low + size], entry)
            return whole

        return block.once(("entries in steps", self.entry_bound), made)

    def _shrunken(self, values: NDArray[Any], entry: float | None) -> NDArray[np.float64]:
        entries = np.where(np.isfinite(values), values, 0.0).astype(np.float64)
        np.clip(entries, -self.entry_bound, self.entry_bound, out=entries)
        return entries if entry is None else np.rint(entries / entry)
