"""The sum of rows with at most s non-zero entries each.

Claim: of each row, clipped to ℓ2 length 2^ROW_BITS in whole grid steps, only the s largest entries are kept (the
leftmost of equals first): a rule about the row alone, so sparsity is enforced and not assumed. A contribution then has
ℓ2 norm ≤ 2^ROW_BITS, because dropping entries lengthens nothing, and by Cauchy–Schwarz ℓ1 norm ≤ √s·2^ROW_BITS.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset, DenseBlock
from discreet.errors import InvalidInput
from discreet.queries.base import Integers
from discreet.rows import ROW_BITS, RowSpec

__all__ = ["SparseSum", "check_sparsity", "kept_entries"]


def check_sparsity(rows: RowSpec, sparsity: int) -> None:
    """Rows without a constant column, and 1 ≤ s ≤ d."""
    if rows.intercept:
        raise InvalidInput("a sum of sparse rows takes no constant column.")
    if not 1 <= sparsity <= rows.n_features:
        raise InvalidInput(f"sparsity must be between 1 and {rows.n_features} features, got {sparsity!r}.")


def kept_entries(block: Block, sparsity: int, *, rounded: bool) -> tuple[NDArray[Any], NDArray[np.float64], Integers]:
    """(indices, steps, edges) of a block's kept entries; entries dropped are 0. Memory O(entries of the block)."""
    from discreet.queries.sparse_kernels import trimmed_sparse

    if isinstance(block, DenseBlock):
        width = block.X.shape[1]
        values, edges = block.X.reshape(-1), np.arange(0, block.X.size + 1, width)
        indices: NDArray[Any] = np.tile(np.arange(width), len(block.X))
    else:
        values, indices, edges = block.values, np.asarray(block.indices), block.indptr
    steps = np.empty(values.size)
    trimmed_sparse(values, edges, block.scale, sparsity, rounded, steps)
    return indices, steps, edges


@dataclass(frozen=True)
class SparseSum:
    """Σ_i of each row's ``sparsity`` largest entries, bounded in ``norm``; one bound serves each kind of noise."""

    rows: RowSpec
    sparsity: int
    norm: Literal["l1", "l2"] = "l2"

    def __post_init__(self) -> None:
        check_sparsity(self.rows, self.sparsity)

    @property
    def bound(self) -> int:
        """2^ROW_BITS in ℓ2, its product with √s (rounded up) in ℓ1."""
        return 2**ROW_BITS if self.norm == "l2" else math.isqrt(self.sparsity * 4**ROW_BITS - 1) + 1

    @property
    def grid(self) -> float:
        """Value of one step of a row."""
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

    def unrounded(self, data: Dataset) -> NDArray[np.float64]:
        """The same sum in floating point."""
        return self.rows.unit * self._sum(data, rounded=False)

    def _sum(self, data: Dataset, *, rounded: bool) -> NDArray[np.float64]:
        """Whole numbers below 2^45 add up exactly in float64. Blocks give entries, not sums: O(entries + d) memory."""

        def block_part(block: Block) -> Any:
            if isinstance(block, DenseBlock):
                from discreet.queries.sparse_kernels import trimmed_dense

                out = np.zeros(self.shape)
                trimmed_dense(block.X, block.scale, self.sparsity, rounded, out)
                return slice(None), out
            indices, steps, _ = kept_entries(block, self.sparsity, rounded=rounded)
            return indices, steps

        total = np.zeros(self.shape)
        for where, part in data.map_blocks(block_part):
            np.add.at(total, where, part)
        return total
