"""The clipped gradient sum of a linear model over rows of at most s entries, bounded in the ℓ1 norm.

Claim: of each row only its s largest entries are kept (`discreet.queries.largest_entries`), so a contribution, of ℓ2
norm at most 2^(ROW_BITS + SLOPE_BITS) in whole steps, has at most m = (s + 1)·outputs entries and an ℓ1 norm of at most
√m·2^(ROW_BITS + SLOPE_BITS), for every row content whatever. Laplace noise on it is pure ε-DP.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Dataset
from discreet.errors import InvalidInput
from discreet.losses import Loss
from discreet.queries.base import Integers, Norm
from discreet.queries.largest_entries import LargestEntries
from discreet.queries.mapped import MappedRows
from discreet.queries.sums.gradient import GradientSum
from discreet.rows import RowSpec

__all__ = ["SparseGradientSum"]


@dataclass(frozen=True, eq=False)
class SparseGradientSum:
    """Σ_i clip(slope(z_i, y_i)·x_i, ``clip``) over rows of which the largest entries are kept.

    Args:
        rows: public facts about the rows.
        loss: pointwise loss.
        theta: where the gradient is taken, of shape ``rows.shape``.
        clip: ℓ2 bound on a row's gradient.
        through: which entries are kept. One map for all steps of a run, so that rows are cut once.
    """

    rows: RowSpec
    loss: Loss
    theta: NDArray[np.float64]
    clip: float
    through: LargestEntries

    norm: ClassVar[Norm] = "l1"

    def __post_init__(self) -> None:
        if self.through.rows != self.rows:
            raise InvalidInput("the map makes other rows than the gradient is about, so its bound would not hold.")

    @property
    def _dense(self) -> GradientSum:
        return GradientSum(self.rows, self.loss, self.theta, self.clip)

    @property
    def bound(self) -> int:
        """√entries times the ℓ2 bound, rounded up."""
        return math.isqrt(self.through.entries * GradientSum.bound**2 - 1) + 1

    @property
    def grid(self) -> float:
        """Value of one step."""
        return self._dense.grid

    @property
    def shape(self) -> tuple[int, ...]:
        """The parameter's shape."""
        return self.rows.shape

    def integers(self, data: Dataset) -> Integers:
        """The exact sum in grid steps."""
        return self._dense.integers(MappedRows(data, self.through, True))

    def unrounded(self, data: Dataset) -> NDArray[Any]:
        """The gradient sum in floating point, of the entries kept."""
        return self._dense.unrounded(MappedRows(data, self.through, False))
