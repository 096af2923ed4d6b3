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

from discreet.data.base import Block, DenseBlock
from discreet.errors import InvalidInput
from discreet.queries.base import Integers
from discreet.queries.sums.base import ExactSum
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
    from discreet.queries.kernels.trimmed_rows import trimmed_sparse

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
class SparseSum(ExactSum):
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

    def _block(self, block: Block, *, rounded: bool) -> tuple[Any, NDArray[np.float64]]:
        """The kept entries of a block, or their sums for dense rows: 2^27 rows of up to 2^18 steps stay below 2^53."""
        if isinstance(block, DenseBlock):
            from discreet.queries.kernels.trimmed_rows import trimmed_dense

            total = np.zeros(self.shape)
            trimmed_dense(block.X, block.scale, self.sparsity, rounded, total)
            return slice(None), total
        indices, steps, _ = kept_entries(block, self.sparsity, rounded=rounded)
        return indices, steps
