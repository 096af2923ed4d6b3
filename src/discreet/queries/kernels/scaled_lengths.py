"""Squared lengths of centred and scaled rows: sums of whole numbers below 2^53, exact in any order."""

from __future__ import annotations

import numpy as np
from numba import njit

from discreet.data.prepare import LARGEST_STEP


@njit(cache=True, nogil=True)
def dense_lengths(X, scale, rounded, squares, centre, own, out):  # type: ignore[no-untyped-def]
    """out[i] = own + Σ_j squares[j]·(x_ij − centre[j])²; an entry that is not finite counts as 0."""
    largest = LARGEST_STEP if rounded else np.inf
    for i in range(X.shape[0]):
        total = own
        for j in range(X.shape[1]):
            step = np.float64(np.rint(X[i, j] * scale[i]) if rounded else X[i, j] * scale[i])
            if not (abs(step) <= largest and abs(step) < np.inf):
                step = np.float64(0.0)
            away = step - centre[j]
            total += squares[j] * (away * away)
        out[i] = total


@njit(cache=True, nogil=True)
def sparse_lengths(values, indices, indptr, squares, centre, own, out):  # type: ignore[no-untyped-def]
    """out[i] = own + Σ_j squares[j]·(x_ij − centre[j])² from stored entries.

    An entry x takes the place of a 0: (x − c)² − c² = x·(x − 2c).
    """
    empty = own
    for j in range(centre.shape[0]):
        empty += squares[j] * centre[j] * centre[j]
    for i in range(out.shape[0]):
        total = empty
        for k in range(indptr[i], indptr[i + 1]):
            step, j = np.float64(values[k]), indices[k]
            total += squares[j] * (step * (step - 2.0 * centre[j]))
        out[i] = max(total, 0.0)
