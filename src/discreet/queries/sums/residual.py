"""The sum of clipped residuals of a linear model: divided by the number of rows, the error of its intercept.

Claim: each row contributes clip(y − ⟨x, θ⟩, ±clip) as a whole number of steps, of −2^20 … 2^20, for every row content
whatever. θ is rounded to whole steps, so ⟨x, θ⟩ is exact in any order of summation and a row's contribution depends on
nothing but the row and θ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset
from discreet.errors import InvalidInput
from discreet.queries.base import Integers, Norm
from discreet.queries.parameters import linear_predictors
from discreet.rows import RowSpec

__all__ = ["ResidualSum"]


@dataclass(frozen=True, eq=False)
class ResidualSum:
    """Σ_i clip(y_i − ⟨x_i, θ⟩, ±``clip``); a row without a target contributes 0.

    Args:
        rows: public facts about the rows.
        theta: the model, of shape ``rows.shape``; one output.
        clip: bound on a row's residual.
    """

    rows: RowSpec
    theta: NDArray[np.float64]
    clip: float

    norm: ClassVar[Norm] = "l2"
    bound: ClassVar[int] = 2**20
    shape: ClassVar[tuple[int, ...]] = ()

    def __post_init__(self) -> None:
        if not self.clip > 0:
            raise InvalidInput(f"the bound on residuals must be positive, got {self.clip!r}.")
        if self.rows.outputs != 1 or self.theta.shape != self.rows.shape:
            raise InvalidInput(
                f"residuals are of one output: θ has shape {self.theta.shape}, {self.rows.shape} needed."
            )

    @property
    def grid(self) -> float:
        """Value of one step: the clip is `bound` steps."""
        return self.clip / self.bound

    def integers(self, data: Dataset) -> Integers:
        """The exact sum in grid steps."""
        if not self.rows.bounded or not math.isfinite(self.clip):
            raise InvalidInput("a private sum of residuals needs a finite row_norm and a finite clip.")

        def block_sum(block: Block) -> Integers:
            steps = np.rint(self._residuals(block, rounded=True) / self.clip * self.bound)
            return np.asarray(np.clip(steps, -self.bound, self.bound).astype(np.int64).sum())

        return data.map_sum(block_sum, self.shape)

    def unrounded(self, data: Dataset) -> NDArray[np.float64]:
        """The sum of clipped residuals in floating point."""
        return np.asarray(sum(data.map_blocks(lambda block: float(self._residuals(block, rounded=False).sum()))))

    def _residuals(self, block: Block, *, rounded: bool) -> NDArray[np.float64]:
        residuals = np.zeros(len(block.y))
        for part, predicted in linear_predictors(block, self.theta, rounded=rounded):
            y = block.y[part]
            with np.errstate(all="ignore"):  # what is not finite counts as no residual
                residuals[part] = np.where(np.isfinite(y), y - predicted, 0.0)
        return np.clip(np.nan_to_num(residuals), -self.clip, self.clip)
