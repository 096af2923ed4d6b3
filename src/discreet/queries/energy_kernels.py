"""The compiled loops of `ColumnEnergy` and `RowSum`: over dense rows, and over the entries of mostly empty ones."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def add_energies(X, scale, factor, bound, total):  # type: ignore[no-untyped-def]
    """total += ⌊c·squares⌋ of every row, with one c ≤ ``factor`` a row such that no row is longer than ``bound``.

    Sums run in column order, as those over stored entries do, so a dense row and the same row held sparse agree.
    """
    n, d = X.shape
    squares = np.empty(d)
    for i in range(n):
        length = 0.0
        for j in range(d):
            step = np.float64(np.rint(np.float64(X[i, j] * scale[i])))
            squares[j] = step * step if abs(step) < np.inf else 0.0
            length += squares[j] * squares[j]
        c = min(factor, bound / max(np.sqrt(length), 1.0))
        length = 0.0
        for j in range(d):
            squares[j] = np.floor(squares[j] * c)
            length += squares[j] * squares[j]
        if length <= bound * bound:  # but for float rounding, always
            for j in range(d):
                total[j] += squares[j]


@njit(cache=True, nogil=True)
def add_stored_energies(values, indices, indptr, factor, bound, total):  # type: ignore[no-untyped-def]
    """The same from entries in column order: those left out would have added 0."""
    squares = np.empty(max(1, total.shape[0]))
    for i in range(indptr.shape[0] - 1):
        first, stored = indptr[i], indptr[i + 1] - indptr[i]
        length = 0.0
        for k in range(stored):
            step = np.float64(values[first + k])
            squares[k] = step * step
            length += squares[k] * squares[k]
        c = min(factor, bound / max(np.sqrt(length), 1.0))
        length = 0.0
        for k in range(stored):
            squares[k] = np.floor(squares[k] * c)
            length += squares[k] * squares[k]
        if length <= bound * bound:  # but for float rounding, always
            for k in range(stored):
                total[indices[first + k]] += squares[k]


@njit(cache=True, nogil=True)
def add_stored(values, indices, total):  # type: ignore[no-untyped-def]
    """total[column] += entry; whole numbers add up exactly in any order."""
    for k in range(values.shape[0]):
        total[indices[k]] += np.float64(values[k])
