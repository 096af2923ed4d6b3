"""The clipped gradient sum of a generalised linear model.

Claim: each row contributes slope(⟨x, θ⟩, y)·x in integer grid steps with ℓ2 norm at most 2^(ROW_BITS + SLOPE_BITS), for
every row content whatever. One row more or less moves the sum by at most that; one row replaced by at most twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset, DenseBlock
from discreet.data.slope_sums import SlopeCaps, SlopeSum
from discreet.errors import InvalidInput
from discreet.losses import Loss, Tabulated
from discreet.queries.base import Integers, Norm
from discreet.queries.parameters import whole_parameter
from discreet.rows import ROW_BITS, RowSpec

__all__ = ["SLOPE_BITS", "ClippedGradient", "GradientSum", "block_gradient"]

SLOPE_BITS = 16
_LONGEST_CHANGE = 2.0**100  # far above every cap; its square is finite


class ClippedGradient:
    """Norm, bound and grid of gradient sums whose rows are clipped in ℓ2. A subclass is a dataclass with these fields.

    Attributes:
        rows: public facts about the given rows.
        loss: pointwise loss.
        theta: where the gradient is taken, of shape ``rows.shape``.
        clip: ℓ2 bound on a row's gradient.
    """

    rows: RowSpec
    loss: Loss
    theta: NDArray[np.float64]
    clip: float

    norm: ClassVar[Norm] = "l2"
    bound: ClassVar[int] = 2 ** (ROW_BITS + SLOPE_BITS)

    def __post_init__(self) -> None:
        if not self.clip > 0:
            raise InvalidInput(f"the gradient clip must be positive, got {self.clip!r}.")
        if self.theta.shape != self.rows.shape:
            raise InvalidInput(f"θ has shape {self.theta.shape}, the rows need {self.rows.shape}.")

    @property
    def grid(self) -> float:
        """Value of one step: the clip is `bound` steps."""
        return self.clip / self.bound

    @property
    def shape(self) -> tuple[int, ...]:
        """The parameter's shape."""
        return self.rows.shape

    def _slope_steps(self) -> float:
        """A slope of 1 in whole steps, where slope steps times row steps are grid steps.

        Raises:
            InvalidInput: rows or gradients have no bound.
        """
        if not self.rows.bounded or not math.isfinite(self.clip):
            raise InvalidInput("a private gradient sum needs a finite row_norm and a finite clip.")
        return self.rows.unit / self.grid


@dataclass(frozen=True, eq=False)
class GradientSum(ClippedGradient):
    """Σ_i clip(slope(z_i, y_i)·x_i, ``clip``), z = ⟨x, θ⟩, without ever forming a row's gradient.

    Args:
        rows: public facts about the rows.
        loss: pointwise loss.
        theta: where the gradient is taken, of shape ``rows.shape``.
        clip: ℓ2 bound on a row's gradient.
        anchor: if given, the sum is of gradients at θ *minus* those at the anchor, the difference being clipped.
    """

    rows: RowSpec
    loss: Loss
    theta: NDArray[np.float64]
    clip: float
    anchor: NDArray[np.float64] | None = None

    def integers(self, data: Dataset) -> Integers:
        """The exact sum in grid steps."""
        self._slope_steps()  # refuses what has no bound
        plain = self.anchor is None and self.rows.outputs == 1
        return data.map_sum(_GradientBlocks(self) if plain else self._block_sum, self.shape)

    def _block_sum(self, block: Block) -> Integers:
        from discreet.queries.kernels.slope_caps import whole_slope_caps

        cap = block.per_row(
            ("largest slopes", self.bound), lambda whole: whole_slope_caps(whole.squared_length, self.bound)
        )
        return self._sum(block, cap, self._slope_steps(), rounded=True)

    def unrounded(self, data: Dataset) -> NDArray[Any]:
        """The gradient sum in floating point, rows and gradients clipped where a bound is given."""
        unit = self.rows.unit

        def block_sum(block: Block) -> NDArray[np.float64]:
            largest = self.clip / unit if self.rows.bounded else math.inf
            cap = block.per_row(
                ("float slopes", largest), lambda whole: largest / np.sqrt(np.maximum(whole.squared_length, 1.0))
            )
            return self._sum(block, cap, 1.0, rounded=False)

        return unit * np.sum(data.map_blocks(block_sum), axis=0)

    def _sum(self, block: Block, cap: NDArray[np.float64], steps: float, *, rounded: bool) -> NDArray[Any]:
        if self.anchor is not None:
            return self._difference_sum(block, self.anchor, cap, steps, rounded=rounded)
        theta, z_unit = whole_parameter(self.theta, self.rows.unit) if rounded else (self.theta, self.rows.unit)
        return block_gradient(block, self.loss, theta, z_unit, cap, steps, rounded=rounded)

    def _difference_sum(
        self, block: Block, anchor: NDArray[np.float64], cap: NDArray[np.float64], steps: float, *, rounded: bool
    ) -> NDArray[Any]:
        from discreet.data.steps import chunks

        out = np.zeros(self.shape, np.int64 if rounded else np.float64)
        for part, rows in chunks(block, rounded=rounded):
            with np.errstate(all="ignore"):  # slopes beyond all floats differ by NaN, which counts as no change
                slopes = self._slopes(rows, self.theta, block.y[part], rounded) - self._slopes(
                    rows, anchor, block.y[part], rounded
                )
                slopes = np.atleast_2d(slopes.T * steps)
            slopes = np.clip(np.nan_to_num(slopes, nan=0.0), -_LONGEST_CHANGE, _LONGEST_CHANGE)
            length = np.sqrt((slopes**2).sum(axis=0))
            slopes *= np.minimum(1.0, cap[part] / np.maximum(length, 1e-300))
            if rounded:
                slopes = np.trunc(slopes)
                slopes[:, (slopes**2).sum(axis=0) > cap[part] ** 2] = 0.0  # cannot happen but by float rounding
            out += np.asarray(slopes @ rows).reshape(self.shape).astype(out.dtype)
        return out

    def _slopes(
        self, rows: Any, theta: NDArray[np.float64], y: NDArray[np.float64], rounded: bool
    ) -> NDArray[np.float64]:
        theta, z_unit = whole_parameter(theta, self.rows.unit) if rounded else (theta, self.rows.unit)
        if theta.ndim == 1:
            known = np.isfinite(y)
            return np.where(known, self.loss.slope((rows @ theta.T) * z_unit, np.where(known, y, 0.0)), 0.0)
        known = (y >= 0) & (y < len(theta))  # an unknown label contributes nothing
        labels = np.where(known, y, 0.0).astype(np.int64)
        return np.where(known[:, None], self.loss.slope((rows @ theta.T) * z_unit, labels), 0.0)


@dataclass(frozen=True, eq=False)
class _GradientBlocks(SlopeSum):
    """The sums of a `GradientSum` of one output, for backends that compute them in their own way."""

    query: GradientSum

    @property
    def loss(self) -> Loss:
        """The query's loss."""
        return self.query.loss

    @property
    def steps(self) -> float:
        """A slope of 1 in whole steps."""
        return self.query._slope_steps()

    def parameter(self) -> tuple[NDArray[np.float64], float]:
        """θ in whole steps, and the unit of scores."""
        return whole_parameter(self.query.theta, self.query.rows.unit)

    def caps(self) -> SlopeCaps:
        """Slopes with which the rows themselves keep the bound."""
        return SlopeCaps(("largest slopes", self.query.bound), self.query.bound)

    def __call__(self, block: Block) -> Integers:
        """The sum of a block."""
        return self.query._block_sum(block)


def block_gradient(
    block: Block,
    loss: Loss,
    theta: NDArray[np.float64],
    z_unit: float,
    cap: NDArray[np.float64],
    steps: float,
    *,
    rounded: bool,
) -> NDArray[Any]:
    """Σ slope·row over a block, each slope at most ``cap`` in steps; θ is given in steps of ``z_unit`` / row unit."""
    from discreet.data.entries import mostly_zero, row_entries
    from discreet.data.patterns import patterns
    from discreet.queries.kernels import gradient as kernels

    if isinstance(loss, Tabulated):
        return _tabulated_gradient(block, loss, theta, z_unit, cap, steps, rounded=rounded)
    # the kernels always carry a constant column; without an intercept it is multiplied by 0 and dropped
    rows, width = block.rows, block.rows.n_features + 1
    padded = np.zeros((*theta.shape[:-1], width))
    padded[..., : theta.shape[-1]] = theta
    out = np.zeros(padded.shape, np.int64 if rounded else np.float64)
    slope = (loss.kind, loss.parameter, loss.smoothing)
    several = rows.outputs > 1
    if isinstance(block, DenseBlock) and not (several and mostly_zero(block)):
        given = (block.X, block.y, block.scale, cap, padded, rows.constant)
        if several:
            kernels.softmax_dense(*given, z_unit, steps, rounded, out)
        else:
            kernels.gradient_dense(*given, slope, z_unit, steps, rounded, out)
        return out[..., : theta.shape[-1]]
    found = patterns(block) if rounded and not several else None
    if found is not None:
        kernels.gradient_patterns(found, block.y, cap, padded, rows.constant, slope, z_unit, steps, out)
        return out[..., : theta.shape[-1]]
    stored = (*row_entries(block, rounded=rounded), block.y, cap, padded, rows.constant)
    if several:
        kernels.softmax_sparse(*stored, z_unit, steps, rounded, out)
    else:
        kernels.gradient_sparse(*stored, slope, z_unit, steps, rounded, out)
    return out[..., : theta.shape[-1]]


def _tabulated_gradient(
    block: Block,
    loss: Tabulated,
    theta: NDArray[np.float64],
    z_unit: float,
    cap: NDArray[np.float64],
    steps: float,
    *,
    rounded: bool,
) -> NDArray[Any]:
    """`block_gradient` for a loss without a compiled slope, in the same whole numbers.

    A chunk has at most 2^16 rows, each slope times entry is at most 2^34: sums are whole and below 2^53, so exact.
    """
    from discreet.data.steps import chunks

    out = np.zeros(theta.shape, np.int64 if rounded else np.float64)
    for part, rows in chunks(block, rounded=rounded):
        with np.errstate(all="ignore"):  # a warning must not depend on a row
            y = block.y[part]
            slopes = loss.slope(np.asarray(rows @ theta) * z_unit, y) * steps
            slopes = np.where(np.isfinite(y) & ~np.isnan(slopes), np.clip(slopes, -cap[part], cap[part]), 0.0)
        slopes = np.rint(slopes) if rounded else slopes
        out += np.asarray(slopes @ rows).reshape(theta.shape).astype(out.dtype)
    return out
