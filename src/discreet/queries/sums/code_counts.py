"""In how many rows a column has each of a few public codes, where a row with many codes counts for few of them.

Claim: a row with p columns that have a code adds min(1, c/p), rounded down to whole steps of 2^−20, to the count of
each of them: c in ℓ1 norm at most. If p > c it adds 1 to one more count, and where rows are counted 1 to a last one. So
its contribution has ℓ1 norm at most c + 1, or c + 2 where rows are counted, whatever it contains. Two rows'
contributions are at most 2c + 1 from each other in ℓ1: the count of rows is the same for both, and that of rows with
many codes differs by 1 at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset, DenseBlock
from discreet.errors import InvalidInput
from discreet.queries.base import Integers, Norm
from discreet.rows import RowSpec

__all__ = ["CodeCounts", "rows_of_codes"]

_STEPS = 2**20  # in a count of 1


def rows_of_codes(columns: int, codes: int) -> RowSpec:
    """Public facts about rows of so many codes, none of which is long enough to be clipped."""
    return RowSpec(columns, norm=codes * math.sqrt(columns) * (1 + 1e-6))


@dataclass(frozen=True)
class CodeCounts:
    """For each column, how many rows have the code 1, 2, …; other entries, 0 among them, are not counted.

    After columns × codes counts the answer has the number of rows with more than ``most`` codes and, if ``count_rows``,
    the number of all rows.

    Args:
        rows: public facts about the rows, without a constant column.
        codes: how many codes there are.
        most: c above: a row with more codes counts for each by so much less.
        count_rows: whether rows are counted too.
    """

    rows: RowSpec
    codes: int
    most: int = 1
    count_rows: bool = False

    norm: ClassVar[Norm] = "l1"
    grid: ClassVar[float] = 1.0 / _STEPS

    def __post_init__(self) -> None:
        if not 1 <= self.most <= max(1, self.rows.n_features):
            raise InvalidInput(f"a row counts for 1 to {self.rows.n_features} columns, got {self.most}.")

    @property
    def bound(self) -> int:
        """c + 1, or c + 2 where rows are counted, in steps."""
        return (self.most + 1 + self.count_rows) * _STEPS

    @property
    def replace_one_factor(self) -> float:
        """(2c + 1) over c + 1 or c + 2, rounded up."""
        return math.nextafter((2 * self.most + 1) / (self.most + 1 + self.count_rows), 2.0)

    @property
    def shape(self) -> tuple[int, ...]:
        """(columns × codes + 1 or 2,)."""
        return (self.rows.n_features * self.codes + 1 + self.count_rows,)

    def integers(self, data: Dataset) -> Integers:
        """The counts in steps."""
        if not self.rows.bounded:
            raise InvalidInput("a private count needs rows of bounded length.")
        return data.map_sum(self._counts, self.shape)

    def unrounded(self, data: Dataset) -> NDArray[Any]:
        """The counts, with the same weights, which are rounded to steps of 2^−20."""
        return self.grid * np.sum(data.map_blocks(self._counts), axis=0).astype(np.float64)

    def _counts(self, block: Block) -> Integers:
        from discreet.data.steps import chunks

        columns = self.rows.n_features
        counts, many = np.zeros((columns, self.codes), np.int64), 0
        for _, steps in chunks(block, rounded=True):
            # codes are whole numbers, and an entry is off by half a step of the rows at most
            entries = np.rint((steps if isinstance(block, DenseBlock) else steps.toarray()) * self.rows.unit)
            coded = (entries >= 1) & (entries <= self.codes)
            found = coded.sum(axis=1)
            weights = np.minimum(_STEPS, _STEPS * self.most // np.maximum(found, 1))
            many += int((found > self.most).sum())
            for code in range(1, self.codes + 1):
                counts[:, code - 1] += weights @ (entries == code)
        everybody = [_STEPS * len(block.y)] if self.count_rows else []
        return np.concatenate([counts.ravel(), [_STEPS * many], everybody]).astype(np.int64)
