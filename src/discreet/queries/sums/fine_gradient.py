"""The clipped gradient sum on a finer grid, for runs whose privacy rests on gradient steps being contractions.

Claim: as for `discreet.queries.sums.gradient.GradientSum`, with slopes in steps of 2^−``slope_bits`` of the largest:
each row contributes slope(⟨x, θ⟩, y)·x in whole steps with ℓ2 norm at most 2^(ROW_BITS + slope_bits), for every row
content whatever. Furthermore a row's contribution is within half a slope step, and `FLOAT_ERROR`, of the exact clipped
gradient of the loss at θ. A row whose label is neither −1 nor +1 contributes nothing where the loss takes labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset
from discreet.errors import InvalidInput
from discreet.losses import OWN, Loss
from discreet.queries.base import Integers, Norm
from discreet.queries.parameters import whole_parameter
from discreet.queries.sums.gradient import GradientSum
from discreet.rows import ROW_BITS, RowSpec

__all__ = ["FLOAT_ERROR", "MOST_SLOPE_BITS", "FineGradientSum"]

MOST_SLOPE_BITS = 34
"""Slopes are cut in two halves of which the lower has 16 bits: sums of 2^16 rows of either are exact in doubles."""
_LOWER_HALF = 2.0**16
FLOAT_ERROR = 2.0**-48
"""A slope in doubles is within this times (its size + curvature·(|score| + 2)) of the exact one: at most 32 roundings,
of which those of the score and the target count by the curvature."""


@dataclass(frozen=True, eq=False)
class FineGradientSum:
    """Σ_i clip(slope(⟨x_i, θ⟩, y_i)·x_i, ``clip``) for one output.

    Args:
        rows: public facts about the rows.
        loss: pointwise loss of the library's own.
        theta: where the gradient is taken, of shape ``rows.shape``.
        clip: ℓ2 bound on a row's gradient.
        slope_bits: slopes of the longest rows are whole multiples of 2^−slope_bits of the largest.
        most_rows: a public bound on the number of rows, for which sums fit 62 bits.

    Raises:
        InvalidInput: several outputs, another loss, more bits than sums of so many rows can hold.
    """

    rows: RowSpec
    loss: Loss
    theta: NDArray[np.float64]
    clip: float
    slope_bits: int
    most_rows: int

    norm: ClassVar[Norm] = "l2"

    def __post_init__(self) -> None:
        if self.rows.outputs != 1 or not self.rows.bounded or type(self.loss) not in OWN:
            raise InvalidInput("a fine gradient sum takes rows of bounded length, one output and the library's losses.")
        if self.theta.shape != self.rows.shape or not 0 < self.clip < np.inf:
            raise InvalidInput("a fine gradient sum takes θ of the rows' shape and a positive, finite clip.")
        if not 1 <= self.slope_bits <= MOST_SLOPE_BITS or self.most_rows * self.bound > 2**61:
            raise InvalidInput(f"slopes of {self.slope_bits} bits do not fit sums of {self.most_rows} rows.")

    @property
    def bound(self) -> int:
        """Largest ℓ2 norm of one row's contribution, in grid steps."""
        return int(2 ** (ROW_BITS + self.slope_bits))

    @property
    def grid(self) -> float:
        """Value of one step: the clip is `bound` steps."""
        return self.clip / self.bound

    @property
    def shape(self) -> tuple[int, ...]:
        """The parameter's shape."""
        return self.rows.shape

    def integers(self, data: Dataset) -> Integers:
        """The exact sum in grid steps.

        Raises:
            InvalidInput: more rows than were declared.
        """
        if len(data) > self.most_rows:
            raise InvalidInput(f"the sum was planned for at most {self.most_rows} rows.")
        return data.map_sum(self._block_sum, self.shape).astype(np.int64, copy=False)  # it fits, however many rows

    def unrounded(self, data: Dataset) -> NDArray[Any]:
        """The gradient sum in floating point."""
        return GradientSum(self.rows, self.loss, self.theta, self.clip).unrounded(data)

    def _block_sum(self, block: Block) -> Integers:
        from discreet.data.steps import chunks
        from discreet.queries.kernels.slope_caps import whole_slope_caps

        steps = self.rows.unit / self.grid
        cap = block.per_row(
            ("fine slopes", self.bound), lambda whole: whole_slope_caps(whole.squared_length, self.bound)
        )
        parts, out = self._parameter(), np.zeros(self.shape, np.int64)
        for part, rows in chunks(block, rounded=True):
            with np.errstate(all="ignore"):  # a warning must not depend on a row
                z = sum(np.asarray(rows @ theta) * unit for theta, unit in parts)
                slopes = np.rint(np.clip(self._slopes(z, block.y[part]) * steps, -cap[part], cap[part]))
            slopes = np.where(np.isnan(slopes), 0.0, slopes)
            upper = np.rint(slopes / _LOWER_HALF)
            lower = slopes - upper * _LOWER_HALF
            out += np.asarray(upper @ rows).astype(np.int64) * int(_LOWER_HALF) + np.asarray(lower @ rows).astype(
                np.int64
            )
        return out

    def _parameter(self) -> list[tuple[NDArray[np.float64], float]]:
        """θ as a sum of two vectors in whole steps, so that products with rows are exact: to 2^−66 of its length."""
        first, unit = whole_parameter(self.theta, self.rows.unit)
        second, rest_unit = whole_parameter(self.theta - first * (unit / self.rows.unit), self.rows.unit)
        return [(first, unit), (second, rest_unit)]

    def _slopes(self, z: Any, y: NDArray[np.float64]) -> NDArray[np.float64]:
        known = np.abs(y) == 1.0 if self.loss.slope_sign_fixed else np.isfinite(y)
        return np.where(known, self.loss.slope(z, np.where(known, y, 1.0)), 0.0)
