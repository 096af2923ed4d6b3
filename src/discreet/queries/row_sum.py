"""The sum of the rows.

Claim: a row on the grid, with its constant column c, has squared length at most 4^ROW_BITS, verified in whole numbers:
its features alone are at most √(4^ROW_BITS − c²) steps long, for every row content whatever.
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
from discreet.rows import ROW_BITS, RowSpec

__all__ = ["RowSum"]


@dataclass(frozen=True)
class RowSum:
    """Σ_i x_i, without the constant column."""

    rows: RowSpec

    norm: ClassVar[Norm] = "l2"

    @property
    def bound(self) -> int:
        """The longest features in steps, rounded up."""
        return math.isqrt(4**ROW_BITS - int(self.rows.constant) ** 2) + 1

    @property
    def grid(self) -> float:
        """Value of one step."""
        return self.rows.unit

    @property
    def shape(self) -> tuple[int, ...]:
        """One entry a feature."""
        return (self.rows.n_features,)

    def integers(self, data: Dataset) -> Integers:
        """The exact sum in grid steps."""
        if not self.rows.bounded:
            raise InvalidInput("a private sum needs rows of bounded length: give row_norm.")
        return self._sum(data, rounded=True).astype(np.int64)

    def unrounded(self, data: Dataset) -> NDArray[Any]:
        """The sum in floating point."""
        return self._sum(data, rounded=False) * self.rows.unit

    def _sum(self, data: Dataset, *, rounded: bool) -> NDArray[np.float64]:
        """Whole numbers: 2^27 rows of up to 2^18 stay below 2^53, so float64 adds them exactly."""
        parts = data.map_blocks(lambda block: self._part(block, rounded=rounded))
        return np.sum([np.zeros(self.shape), *parts], axis=0)

    def _part(self, block: Block, *, rounded: bool) -> NDArray[np.float64]:
        from discreet.data.entries import entries, mostly_zero
        from discreet.data.steps import chunks
        from discreet.queries.energy_kernels import add_stored

        total, d = np.zeros(self.shape), self.rows.n_features
        if isinstance(block, DenseBlock) and rounded and mostly_zero(block):
            stored = entries(block, rounded=True)
            add_stored(stored.values, stored.indices, total)
            return total
        if isinstance(block, DenseBlock):
            for _, steps in chunks(block, rounded=rounded):
                total += steps[:, :d].sum(axis=0)
            return total
        for _, steps in chunks(block, rounded=rounded):
            total += np.bincount(steps.indices, steps.data, minlength=self.rows.dimension)[:d]
        return total
