"""Rows that a public map makes from the given ones.

Claim: the map is public and makes each row from one row alone, which is then clipped to its own row norm and rounded to
its own grid, of squared length at most 4^ROW_BITS in whole numbers. Whatever a query claims for every row holds for
such rows, and so does its event.
"""

from __future__ import annotations

import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset, DenseBlock, SparseBlock
from discreet.errors import InvalidInput
from discreet.queries.base import Integers
from discreet.rows import ROW_BITS, RowSpec

__all__ = ["ColumnWeights", "MappedRows", "RowMap", "prepared"]

T = TypeVar("T")


_COUNT = itertools.count()


class RowMap(ABC):
    """A public rule from one row to another. Blocks remember the rows that it made, by its number."""

    rows: RowSpec
    _number: tuple[int, int]

    def __new__(cls, *_: Any, **__: Any) -> Any:
        """A map with a number of its own, which a copy in another process keeps."""
        made = super().__new__(cls)
        object.__setattr__(made, "_number", (os.getpid(), next(_COUNT)))
        return made

    def block(self, block: Block, *, rounded: bool) -> Block:
        """The rows that it makes, made once."""
        return block.once(("made by", self._number, rounded), lambda: self._made(block, rounded))

    @abstractmethod
    def _made(self, block: Block, rounded: bool) -> Block: ...


@dataclass(frozen=True, eq=False)
class ColumnWeights(RowMap):
    """Every column times a positive finite weight; the constant column stays as it is.

    Args:
        rows: public facts about the rows given and made.
        weights: one a feature.
        centre: subtracted from each clipped row first, where given. Sparse rows then become dense ones.
    """

    rows: RowSpec
    weights: NDArray[np.float64]
    centre: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        if self.weights.shape != (self.rows.n_features,):
            raise InvalidInput(f"weights of shape {self.weights.shape} do not fit {self.rows.n_features} columns.")
        if not (np.isfinite(self.weights) & (self.weights > 0)).all():
            raise InvalidInput("column weights must be positive and finite.")
        if self.centre is not None and not (self.centre.shape == self.weights.shape and np.isfinite(self.centre).all()):
            raise InvalidInput(f"the centre must have {self.rows.n_features} finite entries.")

    def _made(self, block: Block, rounded: bool) -> Block:
        if self.centre is not None:
            return prepared(self.rows, self._centred(block, self.centre, rounded), block.y)
        with np.errstate(over="ignore", invalid="ignore"):  # what is no longer finite counts as 0, as in any row
            if isinstance(block, DenseBlock):
                return prepared(self.rows, np.ascontiguousarray(block.X * self.weights, dtype=np.float64), block.y)
            values = np.asarray(block.values * self.weights[block.indices], dtype=np.float64)
        return prepared(self.rows, values, block.y, block.indices, block.indptr)

    def _centred(self, block: Block, centre: NDArray[np.float64], rounded: bool) -> NDArray[np.float64]:
        """(x − centre)·weights, entry by entry."""
        from discreet.data.steps import chunks

        d = self.rows.n_features
        made = np.empty((len(block.y), d))
        with np.errstate(over="ignore", invalid="ignore"):
            for part, steps in chunks(block, rounded=rounded):
                rows = steps[:, :d] if isinstance(block, DenseBlock) else steps.toarray()[:, :d]
                made[part] = (rows * self.rows.unit - centre) * self.weights
        return made


@dataclass(frozen=True, eq=False)
class MappedRows:
    """A dataset seen through a map, block by block: O(entries) more memory."""

    given: Dataset
    through: RowMap
    rounded: bool

    @property
    def rows(self) -> RowSpec:
        """Public facts about the rows made."""
        return self.through.rows

    def __len__(self) -> int:
        return len(self.given)

    def map_blocks(self, function: Callable[[Block], Any]) -> list[Any]:
        """function(block) for each block of rows made."""
        return self.given.map_blocks(self._after(function))

    def map_sum(self, function: Callable[[Block], Integers], shape: tuple[int, ...]) -> Integers:
        """Σ function(block) over blocks of rows made."""
        return self.given.map_sum(self._after(function), shape)

    def fold(self, function: Callable[[Block], T], add: Callable[[T, T], T]) -> T | None:
        """The values of ``function``, added over runs of rows made."""
        return self.given.fold(self._after(function), add)

    def _after(self, function: Callable[[Block], T]) -> Callable[[Block], T]:
        """The function of a given block, which knows the map and no rows: it may be sent to where they are."""
        through, rounded = self.through, self.rounded
        return lambda block: function(through.block(block, rounded=rounded))

    def take(self, indices: Integers) -> Dataset:
        """The given rows, seen through the same map."""
        return MappedRows(self.given.take(indices), self.through, self.rounded)

    def gather(self, indices: Integers) -> Dataset:
        """Some of the rows, seen through the same map, in memory."""
        return MappedRows(self.given.gather(indices), self.through, self.rounded)

    def held(self) -> Dataset | None:
        """All rows, seen through the same map, in memory."""
        given = self.given.held()
        return None if given is None else MappedRows(given, self.through, self.rounded)

    @property
    def sparse(self) -> bool:
        """Whether the given rows are held sparse."""
        return self.given.sparse


def prepared(
    rows: RowSpec, values: NDArray[np.float64], y: NDArray[np.float64], indices: Any = None, indptr: Any = None
) -> Block:
    """A block of new rows, each clipped and verified by itself."""
    from discreet.data.prepare import prepare_dense, prepare_sparse

    scale, squared = np.ones(len(y)), np.zeros(len(y), np.int64)
    limits = (rows.norm, rows.grid, rows.constant**2, float(4**ROW_BITS)) if rows.bounded else None
    if indptr is None:
        if limits:
            prepare_dense(values, *limits, scale, squared)
        return DenseBlock(rows, values, y, scale, squared)
    if limits:
        prepare_sparse(values, indptr, *limits, scale, squared)
    return SparseBlock(rows, values, indices, indptr, y, scale, squared)
