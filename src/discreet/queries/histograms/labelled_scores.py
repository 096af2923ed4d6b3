"""Counts of rows by score, the sum of labels, and the sum of the places of each label's scores, for a public θ.

These are all that a logistic fit of scale and offset needs of binned scores: with z_b = α·s_b + β, Σ log(1 + e^z)
depends on the counts alone, and Σ y·z on the number of rows of either label and on the sum of their scores. Noise in
three sums does not grow with the number of bins, as noise in counts of each bin and label would.

Claim: a row's score ⟨x, θ⟩ is a sum of whole numbers, exact in any order, so it is a function of that row alone. With B
bins, S = B − 1 and p_b = 2b − S the place of bin b, |p_b| ≤ S, a row of label y in bin b contributes (S·e_b, S·y) and
p_b to the sum of its own label: whole numbers, of squared ℓ2 norm at most 3S². Rows of opposite labels differ by at
most 2S², 4S² and 2S² in the three squares, rows of one label by 2S², 0 and 4S², and a row without a label, which
contributes nothing, is nearer: two rows are at most √8·S apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset
from discreet.errors import InvalidInput
from discreet.queries.base import Integers, Norm
from discreet.queries.parameters import linear_predictors
from discreet.rows import RowSpec

__all__ = ["LabelledScores"]


@dataclass(frozen=True, eq=False)
class LabelledScores:
    """Counts of scores between ``edges``, the sum of labels, and the sums of places from −1 to 1, one for each label.

    Args:
        rows: public facts about the rows, which have one score each and labels −1 and +1.
        theta: the parameter, with the constant column's entry.
        edges: increasing finite numbers, one more than there are bins; scores beyond the first and last are counted in
            the outermost bins. The place of bin b of B is 2b/(B − 1) − 1.

    Rows without a finite label contribute nothing.
    """

    rows: RowSpec
    theta: NDArray[np.float64]
    edges: NDArray[np.float64]

    norm: ClassVar[Norm] = "l2"

    def __post_init__(self) -> None:
        if self.rows.outputs != 1 or self.theta.shape != self.rows.shape:
            raise InvalidInput(
                f"theta of shape {self.theta.shape} does not give one score to rows of {self.rows.shape}."
            )
        if not (len(self.edges) >= 3 and np.isfinite(self.edges).all() and (np.diff(self.edges) >= 0).all()):
            raise InvalidInput("edges must be finite and increasing, at least three.")

    @property
    def bins(self) -> int:
        """B, the number of bins."""
        return len(self.edges) - 1

    @property
    def _steps(self) -> int:
        """S: what one row is counted as."""
        return self.bins - 1

    @property
    def bound(self) -> int:
        """The least whole number that is at least √3·S."""
        return math.isqrt(3 * self._steps**2 - 1) + 1

    @property
    def replace_one_factor(self) -> float:
        """√8·S over the bound, rounded up."""
        return math.sqrt(8.0) * self._steps / self.bound * (1 + 1e-15)

    @property
    def grid(self) -> float:
        """1/S."""
        return 1 / self._steps

    @property
    def shape(self) -> tuple[int, ...]:
        """(bins + 3,): counts, the sum of labels, the sum of places of label −1, and of label +1."""
        return (self.bins + 3,)

    def integers(self, data: Dataset) -> Integers:
        """The counts and the three sums."""
        if not self.rows.bounded:
            raise InvalidInput("a private sum needs rows of bounded length: give row_norm.")
        return data.map_sum(lambda block: self._sums(block, rounded=True), self.shape)

    def unrounded(self, data: Dataset) -> NDArray[Any]:
        """The counts and sums by scores of rows that are not rounded."""
        sums = np.sum(data.map_blocks(lambda block: self._sums(block, rounded=False)), axis=0)
        return np.asarray(sums * self.grid)

    def _sums(self, block: Block, *, rounded: bool) -> Integers:
        sums, inner = np.zeros(self.shape, np.int64), self.edges[1:-1]
        for part, scores in linear_predictors(block, self.theta, rounded=rounded):
            y = block.y[part]
            known = np.isfinite(y)
            where = np.searchsorted(inner, scores[known], side="right")
            signs = np.sign(y[known]).astype(np.int64)
            places = 2 * where - self._steps
            sums[:-3] += self._steps * np.bincount(where, minlength=self.bins)
            sums[-3] += self._steps * signs.sum()
            sums[-2] += places[signs < 0].sum()
            sums[-1] += places[signs > 0].sum()
        return sums
