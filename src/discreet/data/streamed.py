"""Rows that do not fit in memory: read, encoded and forgotten, block by block, at every query.

Claim: a dataset of streamed rows answers as the same rows in memory do. Integer sums are exact in any order; sums of
floats are taken over the same runs of rows in the same order (`discreet.data.runs`); batches are drawn by place before
anything is read, and of files only what holds drawn rows is read. Each row is clipped and its length verified whenever
it is read, so that it obeys its bound at every query, whatever has become of the file.

Memory: the blocks at work, one a core and two more, each of at most 8 MB of numbers and about five times that while it
is encoded; encoded blocks are kept for the next query as long as they fit into the memory that was declared, and where
a cache folder is named the others go to a file in it that has no name, which the system deletes when the process ends.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, TypeVar
from weakref import finalize

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset, DenseBlock, Integers, SparseBlock, TakenBlock, exact_sum
from discreet.data.encoding import Encoder
from discreet.data.frames import Table
from discreet.data.memory import InMemory, in_memory, single_block
from discreet.data.places import placed
from discreet.data.runs import RunTree, run_edges, run_rows
from discreet.data.sources import Source, TableOf, Wanted
from discreet.data.threads import in_order
from discreet.errors import InvalidInput
from discreet.rows import MOST_ROWS_IN_PARTS, RowSpec

__all__ = ["BlockReader", "Coding", "RowCoding", "Streamed", "TargetCoding", "joined_rows"]

T = TypeVar("T")
_Single = DenseBlock | SparseBlock
_ROOM = 4
"""A dataset that takes at most this share of the memory is kept with all that queries derive from it."""


class TargetCoding(Protocol):
    """How cells of the target become numbers, by public facts."""

    def encode(self, y: Any) -> NDArray[np.float64]:
        """One number a row."""
        ...


class RowCoding(Protocol):
    """How a table becomes rows, by public facts; it can be sent to another process."""

    @property
    def rows(self) -> RowSpec:
        """Public facts about the rows."""
        ...

    @property
    def sparse(self) -> bool:
        """Whether rows are held by their stored entries."""
        ...

    def block(self, table: Table) -> _Single:
        """The rows of a table."""
        ...


@dataclass(frozen=True, eq=False)
class Coding:
    """How a table becomes rows and coded targets, by public facts; it can be sent to another process.

    Args:
        encoder: makes the features.
        target: the column to predict.
        targets: makes its numbers.
        rows: public facts about the rows.
    """

    encoder: Encoder
    target: str
    targets: TargetCoding
    rows: RowSpec

    @property
    def sparse(self) -> bool:
        """Whether rows are held by their stored entries."""
        return self.encoder.sparse

    def block(self, table: Table) -> _Single:
        """The rows of a table."""
        y = self.targets.encode(table.cells(self.target))
        return single_block(self.encoder.transform(table), y, self.rows)


class BlockReader:
    """The runs of a source, each as a block: read and encoded when it is asked for, or kept.

    Args:
        source: the table.
        coding: how it becomes rows.
        memory: bytes that encoded blocks may take.
        cache: a folder for blocks that do not fit; None reads them again.
        part: (first, one after the last) of the runs that this reader is for; by default all.
        size: rows of a run; by default what `run_rows` says.
        workers: cores to use; by default all.

    Raises:
        InvalidInput: there are no rows, or more than integer sums can hold.
    """

    def __init__(
        self,
        source: Source,
        coding: RowCoding,
        memory: int,
        cache: Path | None = None,
        *,
        part: tuple[int, int] | None = None,
        size: int | None = None,
        workers: int | None = None,
    ) -> None:
        if source.n == 0:
            raise InvalidInput("Found array with 0 sample(s) while a minimum of 1 is required.")
        if source.n > MOST_ROWS_IN_PARTS:
            raise InvalidInput(f"at most {MOST_ROWS_IN_PARTS} rows can be read; nothing was released.")
        self.source, self.coding, self.rows, self.sparse = source, coding, coding.rows, coding.sparse
        self.edges = run_edges(source.n, size or run_rows(source.n, coding.rows, sparse=self.sparse))
        self.part = part or (0, len(self.edges) - 1)
        self._workers, self._memory, self._cache = workers, memory, None if cache is None else _Cache(cache)
        self._kept: dict[int, _Single] = {}
        self._used = 0
        self._remember = False

    @property
    def first(self) -> int:
        """The first row."""
        return self.edges[self.part[0]]

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.edges[self.part[1]] - self.first

    def open(self) -> BlockReader:
        """Read everything once, so that what cannot be read is found before anything is charged."""
        sizes = [size for _, size in self.each(lambda _, block: _bytes(block), range(*self.part))]
        self._remember = len(self._kept) == len(sizes) and _ROOM * sum(sizes) <= self._memory
        return self

    def fits(self, rows: int) -> bool:
        """Whether so many rows fit into the memory that was declared, beside those that are kept."""
        kept = sum(len(block.y) for block in self._kept.values())
        each = self._used / kept if kept else self._memory
        return self._used + rows * each <= self._memory

    def each(self, function: Callable[[int, _Single], T], wanted: Sequence[int]) -> Iterator[tuple[int, T]]:
        """(number, function(number, block)) of runs, in order, on all cores, while the next are read."""

        def work(item: tuple[int, TableOf | None]) -> tuple[int, T]:
            number, make = item
            return number, function(number, self._block(number, make))

        missing: Wanted = [(k, self.edges[k], self.edges[k + 1]) for k in wanted if k not in self._kept]
        if not missing:
            return in_order(work, [(number, None) for number in wanted], workers=self._workers)
        absent = {number for number, _, _ in missing}
        reading = self.source.tables(missing)
        items = (next(reading) if number in absent else (number, None) for number in wanted)
        return in_order(work, items, workers=self._workers)

    def _block(self, number: int, make: TableOf | None) -> _Single:
        if make is None:
            kept = self._kept[number]
            return kept if self._remember else replace(kept)  # a copy forgets what is derived from it
        block = self.coding.block(make())
        if len(block.y) != self.edges[number + 1] - self.edges[number]:
            raise InvalidInput("a file has other rows than it had when it was opened.")
        size = _bytes(block)
        if self._used + size <= self._memory:  # threads may see it early and keep one block more each
            self._used += size
            self._kept[number] = block
        elif self._cache is not None:
            self._kept[number] = self._cache.stored(block)
        return block


def _arrays(block: _Single) -> dict[str, NDArray[Any]]:
    names = ("X",) if isinstance(block, DenseBlock) else ("values", "indices", "indptr")
    return {name: np.asarray(getattr(block, name)) for name in (*names, "y", "scale", "squared_length")}


def _bytes(block: _Single) -> int:
    return sum(array.nbytes for array in _arrays(block).values())


class _Cache:
    """Blocks in a file without a name: nobody else can open it, and it is gone when the process ends."""

    def __init__(self, folder: Path) -> None:
        try:
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - as long as the rows are
        except OSError as problem:
            raise InvalidInput(f"nothing can be kept in {str(folder)!r}: {type(problem).__name__}.") from None
        self._lock = Lock()  # several cores have blocks to store
        finalize(self, self._file.close)

    def stored(self, block: _Single) -> _Single:
        """The block, its arrays mapped from the file."""
        mapped: dict[str, Any] = {}
        for name, array in _arrays(block).items():
            with self._lock:
                start = self._file.seek(0, 2)
                start += -start % 64
                self._file.truncate(start + max(array.nbytes, 1))
            room = np.memmap(self._file, array.dtype, "r+", start, array.shape) if array.size else array
            room[...] = array
            mapped[name] = room
        return replace(block, **mapped)


class Streamed:
    """Rows of a `BlockReader`, all of them or some: the `Dataset` of what does not fit in memory."""

    def __init__(self, reader: BlockReader, indices: Integers | None = None) -> None:
        self.reader, self.indices, self.rows, self.sparse = reader, indices, reader.rows, reader.sparse
        first, last = reader.part
        if indices is None:
            self._edges: list[int] | None = None
            self.wanted: Sequence[int] = range(first, last)
        else:
            self._edges = np.searchsorted(indices, np.asarray(reader.edges[first : last + 1])).tolist()
            self.wanted = [first + k for k in np.flatnonzero(np.diff(self._edges)).tolist()]
        self._all: Dataset | None = None

    def __len__(self) -> int:
        return self.reader.n if self.indices is None else len(self.indices)

    def _own(self, number: int, block: _Single) -> _Single | TakenBlock:
        """The rows of a run that belong to the dataset."""
        if self.indices is None or self._edges is None:
            return block
        k = number - self.reader.part[0]
        chosen = self.indices[self._edges[k] : self._edges[k + 1]] - self.reader.edges[number]
        return TakenBlock(block, chosen)

    def map_blocks(self, function: Callable[[Block], Any]) -> list[Any]:
        """function(block) for each run that has rows, in row order."""
        return [value for _, value in self.reader.each(lambda k, block: function(self._own(k, block)), self.wanted)]

    def map_sum(self, function: Callable[[Block], Integers], shape: tuple[int, ...]) -> Integers:
        """Σ function(block), exact."""
        found = self.reader.each(lambda k, block: function(self._own(k, block)), self.wanted)
        return exact_sum((part for _, part in found), shape, len(self))

    def nodes(self, function: Callable[[Block], T], add: Callable[[T, T], T]) -> RunTree[T]:
        """The tree of the values of ``function`` over this dataset's runs."""

        def of_run(number: int, block: _Single) -> T:
            own = self._own(number, block)
            return function(own.copied() if isinstance(own, TakenBlock) else own)

        tree = RunTree(add)
        found = self.reader.each(of_run, self.wanted)
        present = set(self.wanted)
        for number in range(*self.reader.part):
            tree.push(number, next(found)[1] if number in present else None)
        return tree

    def fold(self, function: Callable[[Block], T], add: Callable[[T, T], T]) -> T | None:
        """The values of ``function``, added over fixed runs of rows in a fixed tree."""
        return self.nodes(function, add).total()

    def take(self, indices: Integers) -> Dataset:
        """The dataset of the given rows."""
        if (np.diff(indices) < 0).any():
            return placed(self, indices)
        return Streamed(self.reader, indices + self.reader.first if self.indices is None else self.indices[indices])

    def pieces(self) -> list[tuple[Any, NDArray[np.float64]]]:
        """Matrix and targets of each run's rows."""

        def copied(block: Block) -> tuple[Any, NDArray[np.float64]]:
            single = block.copied() if isinstance(block, TakenBlock) else block
            if isinstance(single, DenseBlock):
                return np.array(single.X), single.y
            shape = (len(single.y), self.rows.n_features)
            return sp.csr_array((single.values, single.indices, single.indptr), shape=shape, copy=True), single.y

        return self.map_blocks(copied)

    def gather(self, indices: Integers) -> Dataset:
        """Rows in memory, given by their rising places."""
        chosen = self.take(indices)
        assert isinstance(chosen, Streamed)
        return joined_rows(chosen.pieces(), self.rows, sparse=self.sparse)

    def held(self) -> Dataset | None:
        """All rows in memory, where they fit into what was declared."""
        if self._all is None and self.reader.fits(len(self)):
            self._all = joined_rows(self.pieces(), self.rows, sparse=self.sparse)
        return self._all


def joined_rows(pieces: list[tuple[Any, NDArray[np.float64]]], rows: RowSpec, *, sparse: bool) -> InMemory:
    """Pieces of rows, one after another, in memory."""
    if not pieces:
        none = np.zeros((0, rows.n_features))
        return in_memory(sp.csr_array(none) if sparse else none, np.zeros(0), rows, owned=True)
    matrices, targets = [X for X, _ in pieces], np.concatenate([y for _, y in pieces])
    whole = sp.csr_array(sp.vstack(matrices, format="csr")) if sparse else np.concatenate(matrices)
    return in_memory(whole, targets, rows, owned=True)
