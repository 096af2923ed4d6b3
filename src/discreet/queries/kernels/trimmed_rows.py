"""Compiled loops that keep each row's largest entries.

A row arrives as its grid steps (whole numbers) with column indices in increasing order. What is kept depends on the row
alone: the ``most`` largest in size, the leftmost of equals first.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from discreet.data.prepare import LARGEST_STEP


@njit(cache=True, nogil=True)
def _steps(values, scale, rounded, out):  # type: ignore[no-untyped-def]
    for j in range(values.size):
        step = np.float64(values[j] * scale)
        if rounded:
            step = np.rint(step)
        usable = abs(step) <= LARGEST_STEP if rounded else np.isfinite(step)
        out[j] = step if usable else 0.0


@njit(cache=True, nogil=True)
def _trim(steps, most):  # type: ignore[no-untyped-def]
    """Zero all but the ``most`` largest entries."""
    present = 0
    for j in range(steps.size):
        present += steps[j] != 0.0
    if present <= most:
        return
    level = np.sort(np.abs(steps))[steps.size - most]
    above = 0
    for j in range(steps.size):
        above += abs(steps[j]) > level
    ties = most - above
    for j in range(steps.size):
        size = abs(steps[j])
        if size == level and ties > 0:
            ties -= 1
        elif size <= level:
            steps[j] = 0.0


@njit(cache=True, nogil=True)
def trimmed_sparse(values, indptr, scale, most, rounded, out):  # type: ignore[no-untyped-def]
    """Every row's steps with all but its largest entries set to 0."""
    for i in range(indptr.size - 1):
        row = out[indptr[i] : indptr[i + 1]]
        _steps(values[indptr[i] : indptr[i + 1]], scale[i], rounded, row)
        _trim(row, most)


@njit(cache=True, nogil=True)
def trimmed_dense(X, scale, most, rounded, out):  # type: ignore[no-untyped-def]
    """out += every dense row's steps with all but its largest entries set to 0."""
    row = np.empty(X.shape[1])
    for i in range(X.shape[0]):
        _steps(X[i], scale[i], rounded, row)
        _trim(row, most)
        for j in range(row.size):
            out[j] += row[j]
