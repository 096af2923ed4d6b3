"""Counts of rows by their residual, for a public θ.

Claim: θ is rounded to whole steps, so ⟨x, θ⟩ is exact in any order of summation and y − ⟨x, θ⟩ is a function of that
row alone. A row is counted in one bin at most, a row without a finite target in none: its contribution has ℓ2 norm 1,
whatever it contains. Replacing it takes one from one bin and adds one to another: an ℓ2 distance of √2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset
from discreet.errors import InvalidInput
from discreet.queries.base import ACUTE_FACTOR, Integers, Norm
from discreet.queries.parameters import linear_predictors
from discreet.rows import RowSpec

__all__ = ["ResidualHistogram"]


@dataclass(frozen=True, eq=False)
class ResidualHistogram:
    """Counts of y − ⟨x, θ⟩ between ``edges``, those beyond the first and last in the outermost bins.

    Args:
        rows: public facts about the rows, which have one score each.
        theta: the parameter, with the constant column's entry.
        edges: increasing finite numbers, one more than there are bins.
    """

    rows: RowSpec
    theta: NDArray[np.float64]
    edges: NDArray[np.float64]

    norm: ClassVar[Norm] = "l2"
    bound: ClassVar[int] = 1
    replace_one_factor: ClassVar[float] = ACUTE_FACTOR
    grid: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if self.rows.outputs != 1 or self.theta.shape != self.rows.shape:
            raise InvalidInput(
                f"residuals are of one output: θ has shape {self.theta.shape}, {self.rows.shape} needed."
            )
        if not (len(self.edges) >= 2 and np.isfinite(self.edges).all() and (np.diff(self.edges) >= 0).all()):
            raise InvalidInput("edges must be finite and increasing, at least two.")

    @property
    def shape(self) -> tuple[int, ...]:
        """One count a bin."""
        return (len(self.edges) - 1,)

    def integers(self, data: Dataset) -> Integers:
        """The counts."""
        if not self.rows.bounded:
            raise InvalidInput("a private sum needs rows of bounded length: give row_norm.")
        return data.map_sum(lambda block: self._counts(block, rounded=True), self.shape)

    def unrounded(self, data: Dataset) -> NDArray[Any]:
        """The counts by residuals of rows that are not rounded."""
        return np.sum(data.map_blocks(lambda block: self._counts(block, rounded=False)), axis=0).astype(np.float64)

    def _counts(self, block: Block, *, rounded: bool) -> Integers:
        counts, inner = np.zeros(self.shape, np.int64), self.edges[1:-1]
        for part, predicted in linear_predictors(block, self.theta, rounded=rounded):
            y = block.y[part]
            known = np.isfinite(y)
            with np.errstate(all="ignore"):  # a score that is not a number is taken for 0
                residuals = y[known] - np.nan_to_num(predicted[known])
            counts += np.bincount(np.searchsorted(inner, residuals, side="right"), minlength=len(counts))
        return counts
