"""Rows in memory, dense or sparse."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.data.base import Block, DenseBlock, SparseBlock, TakenBlock
from discreet.data.runs import RunTree, pairs, run_edges, run_rows
from discreet.data.threads import in_order, on_all_cores, split
from discreet.errors import InvalidInput
from discreet.rows import MOST_ROWS, ROW_BITS, RowSpec

__all__ = ["Dense", "InMemory", "Sparse", "in_memory", "single_block"]

T = TypeVar("T")

_LEAST_ENTRIES = 1 << 19  # a core needs about 0.1 ms for these; less is not worth handing over


class InMemory(ABC):
    """What dense and sparse rows share: sums over blocks on all cores."""

    def __init__(self, rows: RowSpec, y: NDArray[np.float64]) -> None:
        if len(y) > MOST_ROWS:
            raise InvalidInput(
                f"at most {MOST_ROWS} rows are held in memory; dp.Parquet takes more. Nothing was released."
            )
        self.rows, self.y = rows, y
        self._blocks: dict[int, list[Block]] = {}  # by their number, so that blocks remember from step to step
        self.edges: list[int] | None = None  # of the runs; where rows were taken, those of the runs of their source

    def __len__(self) -> int:
        return len(self.y)

    @property
    def sparse(self) -> bool:
        """Whether rows are held by their stored entries."""
        return False

    @property
    @abstractmethod
    def _entries(self) -> int:
        """Stored entries."""

    @property
    def _least_rows(self) -> int:
        """The fewest rows worth a thread of their own."""
        return 1 + _LEAST_ENTRIES * len(self) // max(1, self._entries)

    @cached_property
    def _grid(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Scale and squared length of each row."""
        return self._made_grid(split(len(self), self._least_rows))

    @abstractmethod
    def _made_grid(self, parts: list[slice]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Scale and squared length of each row, prepared in parts."""

    @abstractmethod
    def _block(self, part: slice) -> Block:
        """A run of rows."""

    @abstractmethod
    def take(self, indices: NDArray[np.int64]) -> Dense | Sparse:
        """The dataset of the given rows."""

    @abstractmethod
    def gather(self, indices: NDArray[np.int64]) -> Dense | Sparse:
        """Some rows by themselves."""

    def parts(self) -> tuple[list[slice], list[Any]]:
        """Runs of rows, one a core, and their blocks, the same ones at every step."""
        parts = split(len(self), self._least_rows)
        if len(parts) not in self._blocks:
            _ = self._grid  # prepared here: a worker that prepared it would wait for the pool it occupies
            self._blocks[len(parts)] = [self._block(part) for part in parts]
        return parts, self._blocks[len(parts)]

    def map_blocks(self, function: Callable[[Block], Any]) -> list[Any]:
        """function(block) on one block a core."""
        return on_all_cores(function, self.parts()[1])

    def map_sum(self, function: Callable[[Block], NDArray[np.int64]], shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Σ function(block), exact in int64."""
        total = np.zeros(shape, np.int64)
        for part in self.map_blocks(function):
            total += part
        return total

    def run_edges(self) -> list[int]:
        """Where runs begin, and where the last ends."""
        if self.edges is None:
            self.edges = run_edges(len(self), run_rows(len(self), self.rows, sparse=self.sparse))
        return self.edges

    @cached_property
    def _run_blocks(self) -> list[Block | None]:
        if len(self.run_edges()) == 2 and len(self) and len(self.parts()[1]) == 1:
            return list(self.parts()[1])  # the same blocks: what is derived from them is held once
        _ = self._grid  # prepared here, as for `parts`
        return [self._block(part) if part.stop > part.start else None for part in pairs(self.run_edges())]

    def fold(self, function: Callable[[Block], T], add: Callable[[T, T], T]) -> T | None:
        """The values of ``function``, added over fixed runs of rows in a fixed tree."""
        tree = RunTree(add)
        found = in_order(lambda block: None if block is None else function(block), self._run_blocks)
        for index, value in enumerate(found):
            tree.push(index, value)
        return tree.total()

    def held(self) -> InMemory:
        """All rows in memory: these."""
        return self

    def _copied(self, indices: NDArray[np.int64], taken: Dense | Sparse) -> Dense | Sparse:
        """Rows that were copied, with what is known of them."""
        scale, squared = self._grid
        taken.__dict__["_grid"] = (scale[indices], squared[indices])
        if _rising(indices, strictly=False):
            taken.edges = np.searchsorted(indices, self.run_edges()).tolist()
        return taken


def _prepared(rows: RowSpec, dtype: np.dtype[Any], n: int) -> tuple[NDArray[Any], NDArray[np.int64], tuple[Any, ...]]:
    arguments = (rows.norm, rows.grid, rows.constant**2, float(4**ROW_BITS))
    return np.zeros(n, dtype), np.zeros(n, np.int64), arguments


@dataclass(eq=False)
class Dense(InMemory):
    """A C-contiguous float32 or float64 array and one target a row. Use `in_memory` to build one."""

    rows: RowSpec
    X: NDArray[Any]
    y: NDArray[np.float64]

    def __post_init__(self) -> None:
        InMemory.__init__(self, self.rows, self.y)

    @property
    def _entries(self) -> int:
        return int(self.X.size)

    def _made_grid(self, parts: list[slice]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        scale, squared, arguments = _prepared(self.rows, self.X.dtype, len(self))
        if not self.rows.bounded:
            return np.ones_like(scale), squared
        from discreet.data.prepare import prepare_dense

        on_all_cores(lambda part: prepare_dense(self.X[part], *arguments, scale[part], squared[part]), parts)
        return scale, squared

    def _block(self, part: slice) -> DenseBlock:
        scale, squared = self._grid
        return DenseBlock(self.rows, self.X[part], self.y[part], scale[part], squared[part])

    @cached_property
    def _few_entries(self) -> bool:
        from discreet.data.entries import few_entries

        return few_entries(self.X)

    def take(self, indices: NDArray[np.int64]) -> Dense | Sparse:
        """The dataset of the given rows."""
        if self._few_entries and _rising(indices):
            return Taken(self, indices)
        return self._copied(indices, Dense(self.rows, self.X[indices], self.y[indices]))

    def gather(self, indices: NDArray[np.int64]) -> Dense:
        """Some rows by themselves."""
        gathered = Dense(self.rows, self.X[indices], self.y[indices])
        scale, squared = self._grid
        gathered.__dict__["_grid"] = (scale[indices], squared[indices])
        return gathered


@dataclass(eq=False)
class Sparse(InMemory):
    """Compressed sparse rows and one target a row; never made dense. Use `in_memory` to build one."""

    rows: RowSpec
    X: sp.csr_array
    y: NDArray[np.float64]

    def __post_init__(self) -> None:
        InMemory.__init__(self, self.rows, self.y)

    @property
    def sparse(self) -> bool:
        """Whether rows are held by their stored entries: they are."""
        return True

    @property
    def _entries(self) -> int:
        return int(self.X.nnz)

    def _made_grid(self, parts: list[slice]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        scale, squared, arguments = _prepared(self.rows, self.X.dtype, len(self))
        if not self.rows.bounded:
            return np.ones_like(scale), squared
        from discreet.data.prepare import prepare_sparse

        indptr = self.X.indptr.astype(np.int64)

        def prepare(part: slice) -> None:
            edges = indptr[part.start : part.stop + 1]
            prepare_sparse(self.X.data, edges, *arguments, scale[part], squared[part])

        on_all_cores(prepare, parts)
        return scale, squared

    def _block(self, part: slice) -> SparseBlock:
        scale, squared = self._grid
        edges = self.X.indptr[part.start : part.stop + 1].astype(np.int64)
        within = slice(int(edges[0]), int(edges[-1]))
        return SparseBlock(
            self.rows,
            self.X.data[within],
            self.X.indices[within],
            edges - edges[0],
            self.y[part],
            scale[part],
            squared[part],
        )

    def take(self, indices: NDArray[np.int64]) -> Dense | Sparse:
        """The dataset of the given rows."""
        if _rising(indices):
            return Taken(self, indices)
        return self._copied(indices, Sparse(self.rows, self.X[indices], self.y[indices]))

    def gather(self, indices: NDArray[np.int64]) -> Dense | Sparse:
        """Some rows by themselves."""
        gathered = Sparse(self.rows, self.X[indices], self.y[indices])
        scale, squared = self._grid
        gathered.__dict__["_grid"] = (scale[indices], squared[indices])
        return gathered


class Taken(Sparse):
    """Some rows of a dataset in their order, such as a batch; entries are copied only for those who ask for X."""

    def __init__(self, source: Dense | Sparse, indices: NDArray[np.int64]) -> None:
        InMemory.__init__(self, source.rows, source.y[indices])
        self.source, self.indices = source, indices
        self.edges = np.searchsorted(indices, source.run_edges()).tolist()

    @property
    def sparse(self) -> bool:
        """Whether the rows are held sparse that these were taken from."""
        return self.source.sparse

    @cached_property
    def X(self) -> sp.csr_array:
        """Compressed sparse rows."""
        return sp.csr_array(self.source.X[self.indices])

    def parts(self) -> tuple[list[slice], list[Any]]:
        """What was taken of each of the source's blocks."""
        parts, blocks = self.source.parts()
        key = len(parts)
        edges = np.searchsorted(self.indices, [0, *(part.stop for part in parts)]).tolist()
        within = [slice(a, b) for a, b in itertools.pairwise(edges)]
        if key not in self._blocks:
            chosen = [self.indices[mine] - part.start for mine, part in zip(within, parts, strict=True)]
            self._blocks[key] = [TakenBlock(*both) for both in zip(blocks, chosen, strict=True)]
        return within, self._blocks[key]

    @cached_property
    def _run_blocks(self) -> list[Block | None]:
        """Copies, dense or sparse as the source is: how rows were taken must not decide how they are added."""
        blocks = self.source._run_blocks
        found: list[Block | None] = []
        for block, part, whole in zip(blocks, pairs(self.run_edges()), pairs(self.source.run_edges()), strict=True):
            assert not isinstance(block, TakenBlock)
            chosen = self.indices[part] - whole.start
            found.append(None if block is None or not len(chosen) else TakenBlock(block, chosen).copied())
        return found

    def take(self, indices: NDArray[np.int64]) -> Dense | Sparse:
        """The dataset of the given rows."""
        return self.source.take(self.indices[indices])

    def gather(self, indices: NDArray[np.int64]) -> Dense | Sparse:
        """Some rows by themselves."""
        return self.source.gather(self.indices[indices])


def _rising(indices: NDArray[np.int64], *, strictly: bool = True) -> bool:
    """Whether rows are taken in their order and, ``strictly``, none twice."""
    if indices.ndim != 1:
        return False
    return bool((indices[1:] > indices[:-1]).all() if strictly else (indices[1:] >= indices[:-1]).all())


def in_memory(X: Any, y: Any, rows: RowSpec, *, owned: bool = False) -> Dense | Sparse:
    """Hold rows in memory, dense ones as float32 or float64, sparse ones as CSR, in a copy that nobody else can write.

    Every row is verified to obey its bound once, and read again at each query. If those were the caller's arrays, which
    another thread or process (a memory map) may write, a row could be changed in between and exceed the bound. The copy
    takes as much memory as X.

    Args:
        X: a dense or sparse matrix of numbers.
        y: one target a row.
        rows: the public facts about the rows.
        owned: X was made by the library and is known to nobody else: it is not copied.

    Raises:
        InvalidInput: the shapes do not fit together or the entries are not numbers.
    """
    y = np.array(y, dtype=np.float64, order="C")
    if X.ndim != 2 or X.shape[1] != rows.n_features or X.shape[0] != y.shape[0] or y.ndim != 1:
        raise InvalidInput(f"X and y must have one row a person, and X {rows.n_features} columns.")
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    if sp.issparse(X):
        return Sparse(rows, _compressed(X, rows, dtype, copy=not owned), y)
    return Dense(rows, np.array(X, dtype=dtype, order="C", copy=None if owned else True), y)


def single_block(X: Any, y: NDArray[np.float64], rows: RowSpec) -> DenseBlock | SparseBlock:
    """Rows that nobody else knows as one block, prepared by the calling thread alone."""
    data = in_memory(X, y, rows, owned=True)
    whole = slice(0, len(data))
    data.__dict__["_grid"] = data._made_grid([whole])
    return data._block(whole)


def _compressed(X: Any, rows: RowSpec, dtype: np.dtype[Any], *, copy: bool) -> sp.csr_array:
    given = sp.csr_array(X, dtype=dtype)
    # made anew from its arrays, so that nothing is taken from what scipy remembers about the caller's
    try:
        parts = (given.data, given.indices, given.indptr)
        compressed = sp.csr_array(parts, shape=X.shape, copy=copy)
    except ValueError:
        raise InvalidInput("sparse rows do not fit together; X is damaged.") from None
    rising = bool((np.diff(compressed.indptr) >= 0).all())
    indices = compressed.indices
    if not rising or (indices.size and not (indices.min() >= 0 and indices.max() < rows.n_features)):
        raise InvalidInput(f"sparse rows name columns beyond the {rows.n_features} that X has; X is damaged.")
    if not compressed.has_canonical_format:
        compressed = compressed if copy else compressed.copy()
        compressed.sum_duplicates()
    return compressed
