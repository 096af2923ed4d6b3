"""A sum over rows that a public map makes from the given ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from discreet.data.base import Dataset
from discreet.queries.base import Integers, Norm, Query, replace_one_factor
from discreet.queries.mapped import MappedRows, RowMap
from discreet.rows import RowSpec

__all__ = ["MappedSum"]


@dataclass(frozen=True, eq=False)
class MappedSum:
    """The sum of another query over the rows that ``through`` makes; norm, bound and grid are those of that query.

    The map makes each row from one row alone and keeps it within the bounds of its own facts, for which the query's
    claim holds: so one given row more, less or other moves the sum by no more than the query says.

    Args:
        rows: public facts about the given rows.
        query: a sum about the rows that the map makes.
        through: the map.
    """

    rows: RowSpec
    query: Query
    through: RowMap

    @property
    def norm(self) -> Norm:
        """The norm in which a row's contribution is bounded."""
        return self.query.norm

    @property
    def bound(self) -> int:
        """Largest norm of one row's contribution, in grid steps."""
        return self.query.bound

    @property
    def replace_one_factor(self) -> float:
        """Largest distance of two rows' contributions over the bound."""
        return replace_one_factor(self.query)

    @property
    def grid(self) -> float:
        """Value of one grid step."""
        return self.query.grid

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the answer."""
        return self.query.shape

    def integers(self, data: Dataset) -> Integers:
        """The exact sum in grid steps."""
        return self.query.integers(MappedRows(data, self.through, True))

    def unrounded(self, data: Dataset) -> NDArray[Any]:
        """The sum in floating point, without rounding to the grid."""
        return self.query.unrounded(MappedRows(data, self.through, False))
