"""Counts of rows by score, and by target, for a public θ.

Claim: a row's score ⟨x, θ⟩ is a sum of whole numbers, exact in any order, so it is a function of that row alone. A row
is counted in one bin at most: its contribution has ℓ1 and ℓ2 norm 1, whatever it contains. Replacing it takes one from
one bin and adds one to another: an ℓ2 distance of √2.
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

__all__ = ["ScoreHistogram"]


@dataclass(frozen=True, eq=False)
class ScoreHistogram:
    """Counts of scores between ``edges``, those beyond the first and last in the outermost bins.

    Args:
        rows: public facts about the rows, which have one score each.
        theta: the parameter, with the constant column's entry.
        edges: increasing finite numbers, one more than there are bins.
        targets: where given, rows of targets between these edges are counted apart, one row of the answer each; those
            beyond the first and last in the outermost, those without a finite target not at all.
    """

    rows: RowSpec
    theta: NDArray[np.float64]
    edges: NDArray[np.float64]
    targets: NDArray[np.float64] | None = None

    norm: ClassVar[Norm] = "l2"
    bound: ClassVar[int] = 1
    replace_one_factor: ClassVar[float] = ACUTE_FACTOR
    grid: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if self.rows.outputs != 1 or self.theta.shape != self.rows.shape:
            raise InvalidInput(
                f"theta of shape {self.theta.shape} does not give one score to rows of {self.rows.shape}."
            )
        for edges in (self.edges,) if self.targets is None else (self.edges, self.targets):
            if not (len(edges) >= 2 and np.isfinite(edges).all() and (np.diff(edges) >= 0).all()):
                raise InvalidInput("edges must be finite and increasing, at least two.")

    @property
    def shape(self) -> tuple[int, ...]:
        """(bins,), or (bins of targets, bins)."""
        bins = len(self.edges) - 1
        return (bins,) if self.targets is None else (len(self.targets) - 1, bins)

    def integers(self, data: Dataset) -> Integers:
        """The counts."""
        if not self.rows.bounded:
            raise InvalidInput("a private sum needs rows of bounded length: give row_norm.")
        return data.map_sum(lambda block: self._counts(block, rounded=True), self.shape)

    def unrounded(self, data: Dataset) -> NDArray[Any]:
        """The counts by scores of rows that are not rounded."""
        return np.sum(data.map_blocks(lambda block: self._counts(block, rounded=False)), axis=0).astype(np.float64)

    def _counts(self, block: Block, *, rounded: bool) -> Integers:
        counts = np.zeros(self.shape, np.int64)
        inner, bins = self.edges[1:-1], self.shape[-1]
        for part, scores in linear_predictors(block, self.theta, rounded=rounded):
            where = np.searchsorted(inner, scores, side="right")
            if self.targets is not None:
                y = block.y[part]
                known = np.isfinite(y)
                where = where[known] + bins * np.searchsorted(self.targets[1:-1], y[known], side="right")
            counts += np.bincount(where, minlength=counts.size).reshape(self.shape)
        return counts
