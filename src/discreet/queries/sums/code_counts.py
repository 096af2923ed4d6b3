"""Counts of codes, column by column: in how many rows a column has each of a few public codes.

Claim: an entry of a row counts for one code of its column at most. So a row of m columns contributes a vector of zeros
and ones of ℓ1 norm at most m and of ℓ2 norm at most √m, whatever it contains; no entry is negative, so two rows are at
most √2 times that bound from each other in ℓ2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset, DenseBlock
from discreet.errors import InvalidInput
from discreet.queries.base import ACUTE_FACTOR, Integers
from discreet.rows import RowSpec

__all__ = ["CodeCounts", "rows_of_codes"]

_STEPS = 2**10  # in a count of 1: the bound √m is rounded up to a whole step


def rows_of_codes(columns: int, codes: int) -> RowSpec:
    """Public facts about rows of so many codes, none of which is long enough to be clipped."""
    return RowSpec(columns, norm=codes * math.sqrt(columns) * (1 + 1e-9))


@dataclass(frozen=True)
class CodeCounts:
    """For each column, how many rows have the code 1, 2, …; other entries, 0 among them, are not counted.

    Args:
        rows: public facts about the rows, without a constant column.
        codes: how many codes there are.
        norm: in which the bound is stated: "l1" for Laplace noise, "l2" for Gaussian noise.
    """

    rows: RowSpec
    codes: int
    norm: Literal["l1", "l2"]

    @property
    def bound(self) -> int:
        """One count a column, in steps: m in ℓ1, √m in ℓ2 (rounded up)."""
        columns = self.rows.n_features
        return columns * _STEPS if self.norm == "l1" else math.isqrt(columns * _STEPS**2 - 1) + 1

    @property
    def replace_one_factor(self) -> float:
        """√2 in ℓ2, as no entry is negative; 2 in ℓ1."""
        return ACUTE_FACTOR if self.norm == "l2" else 2.0

    @property
    def grid(self) -> float:
        """Value of one step."""
        return 1.0 / _STEPS

    @property
    def shape(self) -> tuple[int, ...]:
        """(columns, codes)."""
        return self.rows.n_features, self.codes

    def integers(self, data: Dataset) -> Integers:
        """The counts in steps."""
        if not self.rows.bounded:
            raise InvalidInput("a private count needs rows of bounded length.")
        return _STEPS * data.map_sum(self._counts, self.shape)

    def unrounded(self, data: Dataset) -> NDArray[Any]:
        """The counts."""
        return np.sum(data.map_blocks(self._counts), axis=0).astype(np.float64)

    def _counts(self, block: Block) -> Integers:
        from discreet.data.steps import chunks

        counts = np.zeros(self.shape, np.int64)
        for _, steps in chunks(block, rounded=True):
            # codes are whole numbers, and an entry is off by half a step of the rows at most
            entries = np.rint((steps if isinstance(block, DenseBlock) else steps.toarray()) * self.rows.unit)
            for code in range(1, self.codes + 1):
                counts[:, code - 1] += (entries[:, : self.rows.n_features] == code).sum(axis=0)
        return counts
