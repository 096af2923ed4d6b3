"""Prepared rows by their stored entries alone, in the form that repeated passes read fastest.

On the grid an entry is a whole number of at most 2^18 steps, which float32 holds exactly; columns take 32 bits. Half
the memory of the given rows, or less, and nothing left to scale, round or check at each pass.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from discreet.data.base import Block, DenseBlock, TakenBlock
from discreet.data.prepare import LARGEST_STEP

__all__ = [
    "Entries",
    "chosen_rows",
    "entries",
    "few_entries",
    "mostly_zero",
    "row_entries",
    "whole_rows",
    "with_constant",
]

_SAMPLED = 64
_FEW = 0.5
"""Above this share of non-zero entries a dense row is read faster as it is."""


class Entries(NamedTuple):
    """Compressed sparse rows, without the constant column; entries are in row steps."""

    values: NDArray[Any]
    indices: NDArray[np.uint32]
    indptr: NDArray[np.int64]


def entries(block: Block, *, rounded: bool) -> Entries:
    """A block's entries, made at the first pass: whole numbers in float32 if ``rounded``, else float64."""
    return block.once(("entries", rounded), lambda: _made(block, rounded))


def row_entries(block: Block, *, rounded: bool) -> tuple[Any, Any, Any, Any]:
    """Values and columns, and where each row's begin and end among them; those of a batch are not copied."""
    if isinstance(block, TakenBlock):
        stored, chosen = entries(block.source, rounded=rounded), block.chosen
        return stored.values, stored.indices, stored.indptr[chosen], stored.indptr[chosen + 1]
    stored = entries(block, rounded=rounded)
    return stored.values, stored.indices, stored.indptr[:-1], stored.indptr[1:]


def mostly_zero(block: DenseBlock) -> bool:
    """Whether the entries of dense rows are worth storing."""
    return block.once("mostly zero", lambda: few_entries(block.X))


def few_entries(X: NDArray[Any]) -> bool:
    """Whether most entries are 0, judged by about 64 rows. It decides speed, and no result."""
    some = X[:: max(1, len(X) // _SAMPLED)]
    return bool(np.count_nonzero(some) < _FEW * some.size)


def with_constant(stored: Entries, column: int, constant: float) -> Entries:
    """Every row with one more entry at its end."""
    n = len(stored.indptr) - 1
    values = np.empty(len(stored.values) + n, stored.values.dtype)
    indices = np.empty(len(stored.indices) + n, np.uint32)
    _append(*stored, column, constant, values, indices)
    return Entries(values, indices, stored.indptr + np.arange(n + 1))


def chosen_rows(stored: Entries, chosen: NDArray[np.bool_]) -> Entries:
    """The rows that are chosen, in their order; copied only if some are left out."""
    if chosen.all():
        return stored
    lengths = np.diff(stored.indptr)
    kept = np.repeat(chosen, lengths)
    indptr = np.concatenate([[0], np.cumsum(lengths[chosen])]).astype(np.int64)
    return Entries(stored.values[kept], stored.indices[kept], indptr)


def whole_rows(block: DenseBlock) -> NDArray[np.float32]:
    """Dense rows on the grid, the constant column last if they have one."""
    rows = np.empty((len(block.y), block.rows.dimension), np.float32)
    _fill(block.X, block.scale, block.rows.constant, rows)
    return rows


def _made(block: Block, rounded: bool) -> Entries:
    kind = np.float32 if rounded else np.float64
    if isinstance(block, DenseBlock):
        indptr = np.zeros(len(block.X) + 1, np.int64)
        _count(block.X, indptr)
        values, indices = np.empty(indptr[-1], kind), np.empty(indptr[-1], np.uint32)
        _take_dense(block.X, block.scale, rounded, values, indices, indptr)
        return Entries(values, indices, indptr)
    values = np.empty(len(block.values), kind)
    _take_sparse(block.values, block.indptr, block.scale, rounded, values)
    columns = block.indices.view(np.uint32) if block.indices.dtype == np.int32 else block.indices.astype(np.uint32)
    return Entries(values, columns, block.indptr)


@njit(cache=True, nogil=True)
def _count(X, indptr):  # type: ignore[no-untyped-def]
    for i in range(X.shape[0]):
        count = 0
        for j in range(X.shape[1]):
            count += X[i, j] != 0.0
        indptr[i + 1] = indptr[i] + count


@njit(cache=True, nogil=True)
def _step(value, scale, rounded):  # type: ignore[no-untyped-def]
    """A prepared entry; the product is taken in the precision of the rows, and what is not finite counts as 0."""
    if rounded:
        whole = np.float64(np.rint(value * scale))
        return whole if abs(whole) <= LARGEST_STEP else 0.0
    plain = np.float64(value * scale)
    return plain if abs(plain) < np.inf else 0.0


@njit(cache=True, nogil=True)
def _take_dense(X, scale, rounded, values, indices, indptr):  # type: ignore[no-untyped-def]
    for i in range(X.shape[0]):
        place = indptr[i]
        for j in range(X.shape[1]):
            if X[i, j] != 0.0:
                values[place] = _step(X[i, j], scale[i], rounded)
                indices[place] = j
                place += 1


@njit(cache=True, nogil=True)
def _take_sparse(given, indptr, scale, rounded, values):  # type: ignore[no-untyped-def]
    for i in range(indptr.shape[0] - 1):
        for k in range(indptr[i], indptr[i + 1]):
            values[k] = _step(given[k], scale[i], rounded)


@njit(cache=True, nogil=True)
def _append(given, columns, indptr, column, constant, values, indices):  # type: ignore[no-untyped-def]
    for i in range(indptr.shape[0] - 1):
        for k in range(indptr[i], indptr[i + 1]):
            values[k + i], indices[k + i] = given[k], columns[k]
        values[indptr[i + 1] + i], indices[indptr[i + 1] + i] = constant, column


@njit(cache=True, nogil=True)
def _fill(X, scale, constant, rows):  # type: ignore[no-untyped-def]
    d = X.shape[1]
    for i in range(X.shape[0]):
        for j in range(d):
            whole = np.float64(np.rint(X[i, j] * scale[i]))
            rows[i, j] = whole if abs(whole) <= LARGEST_STEP else 0.0
        if rows.shape[1] > d:
            rows[i, d] = constant
