"""Inner products with a row, whose terms the compiler may add in any order."""

from __future__ import annotations

import numpy as np
from numba import njit

REASSOCIATED = {"reassoc", "contract", "nsz"}
"""For sums of whole numbers, which are exact in any order, and for sums whose error bound holds in any order. Slopes of
losses are computed strictly."""


@njit(cache=True, nogil=True, fastmath=REASSOCIATED)
def dense_inner(row, theta):  # type: ignore[no-untyped-def]
    """Σ_j row[j]·theta[j]."""
    total = 0.0
    for j in range(row.shape[0]):
        total += np.float64(row[j]) * theta[j]
    return total


@njit(cache=True, nogil=True, fastmath=REASSOCIATED)
def stored_inner(values, indices, theta):  # type: ignore[no-untyped-def]
    """Σ_k values[k]·theta[indices[k]], over the stored entries of one row."""
    total = 0.0
    for k in range(values.shape[0]):
        total += np.float64(values[k]) * theta[indices[k]]
    return total
