"""Compiled sums by column: of entries, and of their squares with a bound on each row's vector of squares."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def add_stored(values, indices, total):  # type: ignore[no-untyped-def]
    """total[column] += entry; whole numbers add up exactly in any order."""
    for k in range(values.shape[0]):
        total[indices[k]] += np.float64(values[k])


@njit(cache=True, nogil=True)
def _cut_squares(values, scale, factor, bound, out):  # type: ignore[no-untyped-def]
    """out = ⌊c·squares⌋ of one row's rounded entries, with the largest c ≤ ``factor`` such that ‖out‖₂ ≤ ``bound``.

    Sums run in column order, and an entry of 0 adds nothing, so a dense row and the same row held sparse agree.
    """
    length = 0.0
    for k in range(values.shape[0]):
        step = np.float64(np.rint(np.float64(values[k] * scale)))
        out[k] = step * step if abs(step) < np.inf else 0.0
        length += out[k] * out[k]
    c = min(factor, bound / max(np.sqrt(length), 1.0))
    length = 0.0
    for k in range(values.shape[0]):
        out[k] = np.floor(out[k] * c)
        length += out[k] * out[k]
    if length > bound * bound:  # only by float rounding
        out[: values.shape[0]] = 0.0


@njit(cache=True, nogil=True)
def add_squares(X, scale, factor, bound, total):  # type: ignore[no-untyped-def]
    """total += the cut squares of every dense row."""
    squares = np.empty(X.shape[1])
    for i in range(X.shape[0]):
        _cut_squares(X[i], scale[i], factor, bound, squares)
        for j in range(X.shape[1]):
            total[j] += squares[j]


@njit(cache=True, nogil=True)
def add_stored_squares(values, indices, indptr, factor, bound, total):  # type: ignore[no-untyped-def]
    """total += the cut squares of every row, from its stored entries on the grid."""
    squares = np.empty(max(1, total.shape[0]))
    for i in range(indptr.shape[0] - 1):
        first, last = indptr[i], indptr[i + 1]
        _cut_squares(values[first:last], 1.0, factor, bound, squares)
        for k in range(last - first):
            total[indices[first + k]] += squares[k]


@njit(cache=True, nogil=True)
def cut_squares(values, indptr, scale, factor, bound, out):  # type: ignore[no-untyped-def]
    """out = the cut squares of every stored entry of compressed sparse rows."""
    for i in range(indptr.shape[0] - 1):
        first, last = indptr[i], indptr[i + 1]
        _cut_squares(values[first:last], scale[i], factor, bound, out[first:last])
