"""Rows of which the s largest entries are kept: sparsity as a rule that is enforced, and not an assumption.

Claim: the row made depends on the given row alone and has at most s entries that are not 0, beside its constant column.
A gradient slope·x of a linear model with K outputs then has at most (s + 1)·K entries, so its ℓ1 norm is at most
√((s + 1)·K) times its ℓ2 norm (Cauchy–Schwarz), for every row content whatever.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.data.base import Block, DenseBlock
from discreet.errors import InvalidInput
from discreet.queries.mapped import RowMap, prepared
from discreet.queries.sums.sparse_sum import kept_entries
from discreet.rows import RowSpec

__all__ = ["LargestEntries"]


@dataclass(frozen=True, eq=False)
class LargestEntries(RowMap):
    """Each row with all but its ``sparsity`` largest entries set to 0, the leftmost of equals kept first.

    Args:
        rows: public facts about the rows given and made.
        sparsity: s, at least 1. A row with no more entries stays as it is.

    Example:
        >>> LargestEntries(RowSpec(10, 1.0, 0.5), 2).entries
        3
    """

    rows: RowSpec
    sparsity: int

    def __post_init__(self) -> None:
        if not self.sparsity >= 1:
            raise InvalidInput(f"sparsity must be at least 1, got {self.sparsity!r}.")

    @property
    def entries(self) -> int:
        """Most entries other than 0 of one row's gradient: those kept and the constant's, for each output."""
        kept = min(self.sparsity, self.rows.n_features) + (self.rows.intercept > 0)
        return kept * self.rows.outputs

    def _made(self, block: Block, rounded: bool) -> Block:
        _, steps, _ = kept_entries(block, self.sparsity, rounded=rounded)
        if isinstance(block, DenseBlock):
            values = np.where(steps.reshape(block.X.shape) != 0, block.X, 0.0).astype(np.float64)
            return prepared(self.rows, np.ascontiguousarray(values), block.y)
        values = np.where(steps != 0, block.values, 0.0).astype(np.float64)
        return prepared(self.rows, values, block.y, block.indices, block.indptr)
