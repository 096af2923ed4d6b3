"""How many rows are in each cell of each column: one histogram a column, released at once.

Claim: a row adds 1 to one cell of each of m columns, whatever it contains: its contribution has ℓ2 norm √m, and no
negative entry.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset
from discreet.errors import InvalidInput
from discreet.queries.base import ACUTE_FACTOR, Integers, Norm
from discreet.queries.refined_rows import encoded
from discreet.refinement import Cells, ColumnBlock, Groups, places
from discreet.rows import RowSpec

__all__ = ["ColumnCells", "ColumnCounts"]

_STEPS = 2**10  # in a count of 1, so that the bound √m·2^10 is nearly a whole number


@dataclass(frozen=True)
class ColumnCells:
    """A public rule from an encoded row to one cell of each column.

    Args:
        columns: where the columns are in an encoded row.
        views: the cells of each column.
    """

    columns: tuple[ColumnBlock, ...]
    views: tuple[Cells | Groups, ...]

    def __post_init__(self) -> None:
        if len(self.views) != len(self.columns) or not self.columns:
            raise InvalidInput(f"there are {len(self.views)} views of {len(self.columns)} columns.")

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many cells each column has."""
        return tuple(view.width for view in self.views)

    def codes(self, block: Block) -> NDArray[np.int32]:
        """The cell of each row (columns × rows), found once for a block."""
        return block.once((self.columns, self.views), lambda: self._codes(block))

    def _codes(self, block: Block) -> NDArray[np.int32]:
        found = np.zeros((len(self.columns), len(block.y)), np.int32)
        shares = np.ones((len(block.y), 1))
        for j, (place, view) in enumerate(zip(places(encoded(block), self.columns), self.views, strict=True)):
            view.fill(place, found[j][:, None], shares)
        return found


@dataclass(frozen=True)
class ColumnCounts:
    """The histograms of all columns, one after another.

    Args:
        rows: public facts about the rows.
        cells: the rule that finds a row's cells.
    """

    rows: RowSpec
    cells: ColumnCells

    norm: ClassVar[Norm] = "l2"
    grid: ClassVar[float] = 1.0 / _STEPS
    replace_one_factor: ClassVar[float] = ACUTE_FACTOR

    @property
    def bound(self) -> int:
        """√m in steps, rounded up."""
        return math.isqrt(_STEPS**2 * len(self.cells.columns) - 1) + 1

    @property
    def shape(self) -> tuple[int, ...]:
        """(number of all cells,)."""
        return (sum(self.cells.sizes),)

    def integers(self, data: Dataset) -> Integers:
        """The counts in steps."""
        return _STEPS * data.map_sum(self._counts, self.shape)

    def unrounded(self, data: Dataset) -> NDArray[Any]:
        """The counts."""
        return np.sum(data.map_blocks(self._counts), axis=0).astype(np.float64)

    def _counts(self, block: Block) -> Integers:
        codes = self.cells.codes(block)
        counted = [np.bincount(code, minlength=size) for code, size in zip(codes, self.cells.sizes, strict=True)]
        return np.concatenate(counted).astype(np.int64)
