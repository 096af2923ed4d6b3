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

from discreet.data.base import Block, DenseBlock
from discreet.queries.base import Norm
from discreet.queries.sums.base import ExactSum
from discreet.rows import ROW_BITS, RowSpec

__all__ = ["RowSum"]


@dataclass(frozen=True)
class RowSum(ExactSum):
    """Σ_i x_i, without the constant column."""

    rows: RowSpec

    norm: ClassVar[Norm] = "l2"

    @property
    def bound(self) -> int:
        """The longest features in steps, rounded up."""
        return math.isqrt(4**ROW_BITS - int(self.rows.constant) ** 2) + 1

    def _block(self, block: Block, *, rounded: bool) -> tuple[Any, NDArray[np.float64]]:
        """Sums of a block: 2^27 rows of up to 2^18 steps stay below 2^53."""
        from discreet.data.entries import entries, mostly_zero
        from discreet.data.steps import chunks
        from discreet.queries.kernels.column_sums import add_stored

        total, d = np.zeros(self.shape), self.rows.n_features
        if isinstance(block, DenseBlock) and rounded and mostly_zero(block):
            stored = entries(block, rounded=True)
            add_stored(stored.values, stored.indices, total)
        elif isinstance(block, DenseBlock):
            for _, steps in chunks(block, rounded=rounded):
                total += steps[:, :d].sum(axis=0)
        else:
            for _, steps in chunks(block, rounded=rounded):
                total += np.bincount(steps.indices, steps.data, minlength=self.rows.dimension)[:d]
        return slice(None), total
