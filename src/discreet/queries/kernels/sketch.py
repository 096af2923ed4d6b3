"""Compiled loops of a public random sketch, whose entries are hashed from a seed whenever they are needed."""

from __future__ import annotations

import numpy as np
from numba import njit

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _33 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(33)
_ONE = np.uint64(1)


@njit(cache=True, nogil=True, inline="always")
def _hash(seed, j, k):  # type: ignore[no-untyped-def]
    """splitmix64 of (seed, column j, block k): 64 well mixed public bits."""
    z = seed + (np.uint64(j) * np.uint64(64) + np.uint64(k) + _ONE) * _GOLDEN
    z = (z ^ (z >> _30)) * _MIX_1
    z = (z ^ (z >> _27)) * _MIX_2
    return z ^ (z >> _31)


@njit(cache=True, nogil=True, inline="always")
def _place(bits, width):  # type: ignore[no-untyped-def]
    """A bucket from the upper 31 bits; the lowest bit is the sign."""
    return np.int64(((bits >> _33) * np.uint64(width)) >> _31)


@njit(cache=True, nogil=True)
def apply(x, seed, blocks, width, out):  # type: ignore[no-untyped-def]
    """out = A x for the unscaled sketch: column j has one ±1 in each of ``blocks`` blocks of ``width`` rows."""
    for j in range(x.size):
        if x[j] != 0.0:
            for k in range(blocks):
                bits = _hash(seed, j, k)
                at = k * width + _place(bits, width)
                out[at] += x[j] if bits & _ONE else -x[j]


@njit(cache=True, nogil=True)
def apply_adjoint(y, seed, blocks, width, out):  # type: ignore[no-untyped-def]
    """out = Aᵀ y for the unscaled sketch."""
    for j in range(out.size):
        total = 0.0
        for k in range(blocks):
            bits = _hash(seed, j, k)
            value = y[k * width + _place(bits, width)]
            total += value if bits & _ONE else -value
        out[j] = total


@njit(cache=True, nogil=True)
def bucket_loads(d, seed, blocks, width, out):  # type: ignore[no-untyped-def]
    """out[r] += the number of columns that fall on row r of the sketch."""
    for j in range(d):
        for k in range(blocks):
            out[k * width + _place(_hash(seed, j, k), width)] += 1


@njit(cache=True, nogil=True)
def sketch_rows(steps, indices, indptr, seed, blocks, width, most_squared, rounded, out):  # type: ignore[no-untyped-def]
    """Add each row's sketch, cut to squared length ``most_squared``, to ``out``."""
    row = np.zeros(blocks * width)
    touched = np.empty(blocks * max(1, np.max(np.diff(indptr))) if indptr.size > 1 else 1, np.int64)
    for i in range(indptr.size - 1):
        count = 0
        for e in range(indptr[i], indptr[i + 1]):
            if steps[e] != 0.0:
                for k in range(blocks):
                    bits = _hash(seed, indices[e], k)
                    at = k * width + _place(bits, width)
                    row[at] += steps[e] if bits & _ONE else -steps[e]
                    touched[count] = at
                    count += 1
        _add_cut(row, touched[:count], most_squared, rounded, out)


@njit(cache=True, nogil=True)
def sketch_rows_densely(steps, indices, indptr, columns, most_squared, rounded, out):  # type: ignore[no-untyped-def]
    """Add each row's product with a matrix, given by its columns, truncated to whole steps and cut to ``most_squared``.

    Entries of the matrix are whole multiples of 2^−11, so that products and their sums are exact in doubles.
    """
    m = columns.shape[1]
    row, everywhere = np.zeros(m), np.arange(m)
    for i in range(indptr.size - 1):
        empty = True
        for e in range(indptr[i], indptr[i + 1]):
            if steps[e] != 0.0:
                empty = False
                for r in range(m):
                    row[r] += steps[e] * np.float64(columns[indices[e], r])
        if empty:
            continue
        if rounded:
            for r in range(m):
                row[r] = np.trunc(row[r])
        _add_cut(row, everywhere, most_squared, rounded, out)


@njit(cache=True, nogil=True)
def _add_cut(row, touched, most_squared, rounded, out):  # type: ignore[no-untyped-def]
    """Cut one row's sketch and add it. Values are moved out of the row, so that a place met again counts once.

    Values are whole and their squares are summed in doubles: a length is known up to rounding, which is allowed for.
    """
    values = np.empty(touched.size)
    for t in range(touched.size):
        values[t] = row[touched[t]]
        row[touched[t]] = 0.0
    # beyond 2^53 a sum of so many squares is too small by at most this share
    most = most_squared * (1.0 - values.size * 2.0**-52)
    squared = 0.0
    for t in range(values.size):
        squared += values[t] * values[t]
    if squared > most:
        factor = np.sqrt(most / squared) * (1.0 - 1e-12)
        squared = 0.0
        for t in range(values.size):
            values[t] = np.trunc(values[t] * factor) if rounded else values[t] * factor
            squared += values[t] * values[t]
        if squared > most:  # cannot happen but by float rounding
            values[:] = 0.0
    for t in range(values.size):
        out[touched[t]] += values[t]
