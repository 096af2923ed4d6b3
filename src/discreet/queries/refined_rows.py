"""Rows seen through a public refinement of their columns (`discreet.refinement`).

Claim: the refinement is made of public facts and released values, and makes each row from one encoded row alone. The
row made is clipped to its own row norm and rounded to its own grid, as every row that a map makes
(`discreet.queries.mapped`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from discreet.data.base import Block, DenseBlock
from discreet.queries.mapped import RowMap, prepared
from discreet.refinement import Refinement
from discreet.rows import RowSpec

__all__ = ["RefinedRows", "encoded"]


def encoded(block: Block) -> sp.csr_array | np.ndarray:
    """The rows of a block as they were given."""
    if isinstance(block, DenseBlock):
        return block.X
    return sp.csr_array((block.values, block.indices, block.indptr), shape=(len(block.y), block.rows.n_features))


@dataclass(frozen=True, eq=False)
class RefinedRows(RowMap):
    """The refined rows of encoded ones.

    Args:
        rows: public facts about the rows made.
        refinement: the map.
    """

    rows: RowSpec
    refinement: Refinement

    def _made(self, block: Block, rounded: bool) -> Block:
        made = self.refinement.apply(encoded(block))
        return prepared(self.rows, made.data, block.y, made.indices, made.indptr.astype(np.int64))
