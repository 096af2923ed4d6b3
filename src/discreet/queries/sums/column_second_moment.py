"""Second moments of the columns, without the products of different columns.

Claim: a row on the grid contributes (x_1², …, x_d²), scaled down to ℓ2 norm at most `ColumnSecondMoment.bound` whole
steps, each entry rounded toward zero and the sum of squares verified in whole numbers, for every row content whatever.
No entry is negative, so two rows' contributions are at most √2 times that from each other.

A row of length L whose squared length is spread evenly over k entries has ‖(x_j²)‖₂ = L²/√k, so that sparse rows of
many entries, such as word counts, allow a bound far below L².
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset, DenseBlock
from discreet.errors import InvalidInput
from discreet.queries.base import ACUTE_FACTOR, Norm
from discreet.queries.sums.base import ExactSum
from discreet.rows import RowSpec

__all__ = ["ColumnSecondMoment"]


@dataclass(frozen=True)
class ColumnSecondMoment(ExactSum):
    """Σ_i (x_ij²)_j, each row's vector cut to ℓ2 norm L²/√``spread``; the constant column is left out.

    Args:
        rows: public facts about the rows.
        spread: over how many entries a row's squared length is expected to be spread; rows of fewer are cut.
    """

    rows: RowSpec
    spread: float = 1.0

    norm: ClassVar[Norm] = "l2"
    bound: ClassVar[int] = 2**20
    replace_one_factor: ClassVar[float] = ACUTE_FACTOR

    def __post_init__(self) -> None:
        if not 1 <= self.spread < math.inf:
            raise InvalidInput(f"spread must be finite and at least 1, got {self.spread!r}.")

    @property
    def grid(self) -> float:
        """Value of one step: the largest contribution L²/√spread is `bound` steps."""
        return self.rows.norm**2 / (math.sqrt(self.spread) * self.bound)

    def unrounded(self, data: Dataset) -> NDArray[np.float64]:
        """The sum of squares in floating point, no row cut."""
        return self._total(data, rounded=False)

    def _block(self, block: Block, *, rounded: bool) -> tuple[Any, NDArray[np.float64]]:
        """Contributions of a block's entries, or their sums for dense rows; not in steps where rows are not rounded."""
        if not rounded:
            return self._squares(block)
        from discreet.data.entries import entries, mostly_zero
        from discreet.queries.kernels import column_sums

        limits = (self.rows.unit**2 / self.grid, float(self.bound))
        if isinstance(block, DenseBlock):
            total = np.zeros(self.shape)
            if mostly_zero(block):
                column_sums.add_stored_squares(*entries(block, rounded=True), *limits, total)
            else:
                column_sums.add_squares(block.X, block.scale, *limits, total)
            return slice(None), total
        squares = np.empty(len(block.values))
        column_sums.cut_squares(block.values, block.indptr, block.scale, *limits, squares)
        return block.indices, squares

    def _squares(self, block: Block) -> tuple[Any, NDArray[np.float64]]:
        if isinstance(block, DenseBlock):
            n, width = block.X.shape
            values, row = block.X.reshape(-1), np.repeat(np.arange(n), width)
        else:
            n, values = len(block.y), block.values
            row = np.repeat(np.arange(n), np.diff(block.indptr))
        with np.errstate(over="ignore", invalid="ignore"):
            steps = values * block.scale[row]
        squares = (np.where(np.isfinite(steps), steps, 0.0).astype(np.float64) * self.rows.unit) ** 2
        if isinstance(block, DenseBlock):
            return slice(None), squares.reshape(n, self.rows.n_features).sum(axis=0)
        return block.indices, squares
