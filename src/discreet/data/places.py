"""Rows with a public order of places that differs from the order in which they are held.

Who is at which place decides about batches and parts, and must follow from the draw of the places alone. Where a row is
held decides how fast it is read. So places are numbers beside the rows, which stay in the order of their source.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from discreet.data.base import Block, Dataset, Integers
from discreet.rows import RowSpec

__all__ = ["Placed", "placed"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Placed:
    """A dataset whose place k is row ``position[k]`` of ``given``. Use `placed` to make one."""

    given: Dataset
    position: Integers

    @property
    def rows(self) -> RowSpec:
        """Public facts about the rows."""
        return self.given.rows

    @property
    def sparse(self) -> bool:
        """Whether rows are held by their stored entries."""
        return self.given.sparse

    def __len__(self) -> int:
        return len(self.position)

    def map_sum(self, function: Callable[[Block], Integers], shape: tuple[int, ...]) -> Integers:
        """Σ function(block), exact in integers."""
        return self.given.map_sum(function, shape)

    def map_blocks(self, function: Callable[[Block], Any]) -> list[Any]:
        """function(block) for each block, in the order in which rows are held."""
        return self.given.map_blocks(function)

    def fold(self, function: Callable[[Block], T], add: Callable[[T, T], T]) -> T | None:
        """The values of ``function``, added over fixed runs of rows as they are held."""
        return self.given.fold(function, add)

    def take(self, indices: Integers) -> Placed:
        """The rows at these places, whose places are as the indices say."""
        return placed(self.given, self.position[indices])

    def gather(self, indices: Integers) -> Dataset:
        """The rows at these places, in memory, in the order in which they are held."""
        return self.given.gather(np.sort(self.position[indices]))

    def held(self) -> Dataset | None:
        """All rows in memory."""
        return self.given.held()


def placed(data: Dataset, rows: Integers) -> Placed:
    """The given rows, row ``rows[k]`` at place k; a row may come more than once."""
    order = np.argsort(rows, kind="stable")
    position = np.empty(len(rows), np.int64)
    position[order] = np.arange(len(rows))
    return Placed(data.take(rows[order]), position)
