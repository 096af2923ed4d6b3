"""The protocol every backend implements: rows in blocks, summed in integers; and row samples."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet import rows as limits
from discreet.rows import RowSpec

__all__ = ["Block", "Dataset", "DenseBlock", "SparseBlock", "TakenBlock", "exact_sum"]

Integers = NDArray[np.int64]
Floats = NDArray[Any]
T = TypeVar("T")


class _Remembering:
    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """compute(), the first time; what a query derives from the rows alone need not be derived at every step."""
        known: dict[Hashable, T] = self.__dict__.setdefault("_known", {})
        if key not in known:
            known[key] = compute()
        return known[key]

    def per_row(self, key: Hashable, compute: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        """compute(block), one number a row, the first time."""
        return self.once(key, lambda: compute(self))

    def latest(self, place: str, key: Hashable, compute: Callable[[], T]) -> T:
        """compute(), unless it was the last to be computed for this place: so one value is held, and not all."""
        known: dict[str, tuple[Hashable, Any]] = self.__dict__.setdefault("_latest", {})
        if place not in known or known[place][0] != key:
            known[place] = (key, compute())
        value: T = known[place][1]
        return value


@dataclass(frozen=True, eq=False)
class DenseBlock(_Remembering):
    """A run of rows held as a C-contiguous array.

    ``scale[i]·x`` rounded to the nearest integer is row i on the grid (non-finite entries are 0), and
    ``squared_length[i]`` its squared length in grid steps, constant column included.
    """

    rows: RowSpec
    X: Floats
    y: NDArray[np.float64]
    scale: Floats
    squared_length: Integers


@dataclass(frozen=True, eq=False)
class SparseBlock(_Remembering):
    """A run of rows held as compressed sparse rows; ``indptr`` is relative to ``values`` and ``indices``."""

    rows: RowSpec
    values: Floats
    indices: NDArray[np.int32] | NDArray[np.int64]
    indptr: Integers
    y: NDArray[np.float64]
    scale: Floats
    squared_length: Integers


class TakenBlock(_Remembering):
    """Some rows of a block, such as a batch: what is derived from the block's rows is derived once for all batches.

    To whoever reads ``values``, ``indices`` and ``indptr`` it is a `SparseBlock`, made then.
    """

    def __init__(self, source: DenseBlock | SparseBlock, chosen: Integers) -> None:
        self.source, self.chosen = source, chosen
        self.rows, self.y = source.rows, source.y[chosen]
        self.scale, self.squared_length = source.scale[chosen], source.squared_length[chosen]

    def per_row(self, key: Hashable, compute: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        """One number for each row that was taken, computed for the source's rows once."""
        return self.source.per_row(key, compute)[self.chosen]

    @cached_property
    def _compressed(self) -> sp.csr_array:
        source = self.source
        if isinstance(source, DenseBlock):
            return sp.csr_array(source.X[self.chosen])
        shape = (len(source.y), source.rows.n_features)
        return sp.csr_array((source.values, source.indices, source.indptr), shape=shape)[self.chosen]

    @property
    def values(self) -> Floats:
        """Stored entries as they were given."""
        return np.asarray(self._compressed.data)

    @property
    def indices(self) -> NDArray[np.int32] | NDArray[np.int64]:
        """The column of each stored entry."""
        return np.asarray(self._compressed.indices)

    @property
    def indptr(self) -> Integers:
        """Where each row's stored entries begin and end."""
        return np.asarray(self._compressed.indptr, np.int64)

    def copied(self) -> DenseBlock | SparseBlock:
        """The rows by themselves, dense or sparse as their source is."""
        facts = (self.y, self.scale, self.squared_length)
        if isinstance(self.source, DenseBlock):
            return DenseBlock(self.rows, self.source.X[self.chosen], *facts)
        return SparseBlock(self.rows, self.values, np.asarray(self._compressed.indices), self.indptr, *facts)


Block = DenseBlock | SparseBlock | TakenBlock


def exact_sum(parts: Iterable[Integers], shape: tuple[int, ...], n: int) -> Integers:
    """Σ parts over ``n`` rows, exact; each part is of at most `MOST_ROWS` rows, so that int64 holds it.

    A sum of more rows may exceed int64, and is an array of integers of Python, to which noise is added as to others.
    """
    total = np.zeros(shape, np.int64 if n <= limits.MOST_ROWS else object)
    for part in parts:
        total += part
    return total


class Dataset(Protocol):
    """Rows that can be summed over and sampled from; nothing else is asked of a backend."""

    @property
    def rows(self) -> RowSpec:
        """Public facts about the rows."""
        ...

    def map_sum(self, function: Callable[[Block], Integers], shape: tuple[int, ...]) -> Integers:
        """Σ function(block) over a partition into blocks; exact, so independent of the partition."""
        ...

    def map_blocks(self, function: Callable[[Block], Any]) -> list[Any]:
        """function(block) for each block of a partition, in row order."""
        ...

    def fold(self, function: Callable[[Block], T], add: Callable[[T, T], T]) -> T | None:
        """The values of ``function`` added over fixed runs of rows in a fixed tree (`discreet.data.runs`).

        So sums of floats have the same bits in every backend. Blocks are never `TakenBlock`; runs without rows are
        left out, and None is the sum of no runs.
        """
        ...

    def take(self, indices: Integers) -> Dataset:
        """The dataset of the given rows."""
        ...

    def gather(self, indices: Integers) -> Dataset:
        """Rows in memory, given by their rising places; few enough to be held beside everything else."""
        ...

    def held(self) -> Dataset | None:
        """All rows in memory, the same object at every call; None where they do not fit."""
        ...

    @property
    def sparse(self) -> bool:
        """Whether rows are held by their stored entries."""
        ...

    def __len__(self) -> int: ...
