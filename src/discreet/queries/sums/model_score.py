"""The score of a released model: one number, the sum of a bounded score of each row.

Claim: a row's score is in [0, 1], 0 or 1 for a wrong or right label, 1 − (error/range)² for a number, and it
contributes its score less ½: a whole number of at most 2^19 steps of 2^−20 in absolute value, for every row content
whatever. The ½ is the same for all models, so it changes no choice among them; it halves the bound. θ is rounded to
whole steps, so ⟨x, θ⟩ is exact in any order of summation and a row's contribution depends on nothing but the row and
the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset
from discreet.errors import InvalidInput
from discreet.losses import Loss
from discreet.queries.base import Integers, Norm
from discreet.queries.parameters import linear_predictors
from discreet.rows import RowSpec

__all__ = ["ModelScore"]

_STEPS = 2**20  # in a score of 1


@dataclass(frozen=True, eq=False)
class ModelScore:
    """Σ_i (score − ½) of row scores in [0, 1].

    Args:
        rows: public facts about the rows.
        loss: whose ``mean`` turns scores ⟨x, θ⟩ into predicted targets in [−1, 1].
        theta: the model, of shape ``rows.shape``.
        labels: whether targets are labels (±1, or 0 … K − 1) and not numbers in [−1, 1].
    """

    rows: RowSpec
    loss: Loss
    theta: NDArray[np.float64]
    labels: bool

    norm: ClassVar[Norm] = "l1"
    bound: ClassVar[int] = _STEPS // 2
    grid: ClassVar[float] = 1.0 / _STEPS
    shape: ClassVar[tuple[int, ...]] = ()

    def __post_init__(self) -> None:
        if self.theta.shape != self.rows.shape:
            raise InvalidInput(f"θ has shape {self.theta.shape}, the rows need {self.rows.shape}.")

    def integers(self, data: Dataset) -> Integers:
        """The exact sum in grid steps."""
        if not self.rows.bounded:
            raise InvalidInput("a private score needs rows of bounded length: give row_norm or a schema.")

        def block_sum(block: Block) -> Integers:
            scores = self._scores(block, rounded=True)
            steps = np.rint(np.clip(scores, 0.0, 1.0) * _STEPS).astype(np.int64) - self.bound
            return np.asarray(steps.sum())

        return data.map_sum(block_sum, self.shape)

    def unrounded(self, data: Dataset) -> NDArray[np.float64]:
        """The sum of row scores less ½ in floating point."""
        return np.asarray(sum(data.map_blocks(lambda block: float((self._scores(block, rounded=False) - 0.5).sum()))))

    def _scores(self, block: Block, *, rounded: bool) -> NDArray[np.float64]:
        scores = np.zeros(len(block.y))
        for part, predictors in linear_predictors(block, self.theta, rounded=rounded):
            scores[part] = self._of(predictors, block.y[part])
        return scores

    def _of(self, z: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[Any]:
        """Scores from ⟨x, θ⟩ and targets; a row without a target scores 0."""
        if self.labels:
            return (z.argmax(axis=1) if z.ndim == 2 else np.where(z > 0, 1.0, -1.0)) == y
        known = np.isfinite(y)
        with np.errstate(over="ignore"):
            error = np.clip(self.loss.mean(z), -1.0, 1.0) - np.clip(np.where(known, y, 0.0), -1.0, 1.0)
        return np.where(known & ~np.isnan(error), 1.0 - (error / 2) ** 2, 0.0)
