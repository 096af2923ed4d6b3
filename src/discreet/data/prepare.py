"""Compiled row preparation: clip each row, round it to the grid, verify its length in integers.

A row's length is summed in column order, so a dense row and the same row held sparse get the same scale to the last
bit. Most rows need no length: any order of summing shows that they are shorter than the bound, with room to spare.
"""

from __future__ import annotations

import numpy as np
from numba import njit

LARGEST_STEP = 2.0**18
"""No finite entry of a prepared row is larger: `_fit_row` verifies the sum of squares. Others count as 0."""

_TINY, _HUGE = 1e-200, 1e200
"""Between these a sum of squares has neither lost anything to underflow nor come near overflow."""
_REASSOCIATED = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True, fastmath=_REASSOCIATED)
def _roughly_squared(values):  # type: ignore[no-untyped-def]
    """The squared length in any order: d additions err by less than 2^-52·d of it."""
    total = 0.0
    for j in range(values.shape[0]):
        total += np.float64(values[j]) * np.float64(values[j])
    return total


@njit(cache=True, nogil=True, fastmath=False)
def _length(values):  # type: ignore[no-untyped-def]
    plain = 0.0
    for value in values:
        plain += np.float64(value) * np.float64(value)
    if _TINY < plain < _HUGE:
        return np.sqrt(plain)
    largest = 0.0
    for value in values:
        size = abs(np.float64(value))
        if np.isfinite(size) and size > largest:
            largest = size
    if largest == 0.0:
        return 0.0
    # dividing first keeps 1e308 and subnormal entries from over- and underflowing
    total = 0.0
    for value in values:
        ratio = np.float64(value) / largest
        if np.isfinite(ratio):
            total += ratio * ratio
    root = np.sqrt(total)
    return largest * root if root <= 1.7e308 / largest else np.inf


@njit(cache=True, nogil=True, fastmath=_REASSOCIATED)
def _squared_steps(values, scale):  # type: ignore[no-untyped-def]
    """Whole numbers: exact in any order while their sum is below 2^53, and far above every bound otherwise."""
    total = 0.0
    for j in range(values.shape[0]):
        step = np.float64(np.rint(values[j] * scale))
        total += step * step if abs(step) < np.inf else 0.0
    return total


@njit(cache=True, nogil=True, fastmath=False)
def dense_steps(X, scale, rounded, largest, constant, steps):  # type: ignore[no-untyped-def]
    """Fill ``steps`` with scale[i]·X[i, j], rounded or not; not finite ones and ones above ``largest`` are 0.

    Columns of ``steps`` beyond those of X hold ``constant``.
    """
    n, d = X.shape
    for i in range(n):
        for j in range(d):
            step = np.float64(X[i, j] * scale[i])
            step = np.rint(step) if rounded else step
            steps[i, j] = step if abs(step) <= largest and abs(step) < np.inf else 0.0
        for j in range(d, steps.shape[1]):
            steps[i, j] = constant


@njit(cache=True, nogil=True)
def _fit_row(i, values, norm, grid, intercept_squared, most, scale, squared_length):  # type: ignore[no-untyped-def]
    """Find a scale under which the rounded row obeys the bound, and its squared length in steps."""
    rough = _roughly_squared(values)
    # nothing is NaN, nothing is lost, and the length summed in order is at most the norm, too
    short = _TINY < rough <= min(norm * norm * (1.0 - 1e-6), _HUGE)
    length = norm if short else _length(values)
    scale[i] = 0.0
    if length > 0.0:
        # an overflowing length gives scale 0: such a row counts as 0
        scale[i] = (norm / length if length > norm else 1.0) / grid
        if not np.isfinite(scale[i]):
            scale[i] = 0.0
    squared = _squared_steps(values, scale[i]) + intercept_squared
    while squared > most:  # nearest rounding can lengthen a row by a few steps: shrink until the integers agree
        scale[i] *= 1.0 - 2.0**-17
        squared = _squared_steps(values, scale[i]) + intercept_squared
    squared_length[i] = np.int64(squared)


@njit(cache=True, nogil=True)
def prepare_dense(X, norm, grid, intercept_squared, most, scale, squared_length):  # type: ignore[no-untyped-def]
    """Fill scale and squared_length for each row of a dense array."""
    for i in range(X.shape[0]):
        _fit_row(i, X[i], norm, grid, intercept_squared, most, scale, squared_length)


@njit(cache=True, nogil=True)
def prepare_sparse(values, indptr, norm, grid, intercept_squared, most, scale, squared_length):  # type: ignore[no-untyped-def]
    """Fill scale and squared_length for each compressed sparse row."""
    for i in range(indptr.shape[0] - 1):
        row = values[indptr[i] : indptr[i + 1]]
        _fit_row(i, row, norm, grid, intercept_squared, most, scale, squared_length)
