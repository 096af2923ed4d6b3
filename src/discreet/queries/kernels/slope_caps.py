"""The largest slopes with which rows keep a bound: in ℓ2 by their length, in ℓ∞ by their largest entry."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from discreet.data.prepare import LARGEST_STEP

__all__ = ["entry_caps", "largest_dense", "largest_sparse", "slope_caps", "whole_slope_caps"]

_LARGEST_FLOAT = 1.7e308
_BELOW = 1.0 - 2.0**-50
"""bound/√N is computed with three roundings of relative size 2^-53 each, which this factor outweighs."""


@njit(cache=True, nogil=True)
def slope_caps(squared_length, bound, out):  # type: ignore[no-untyped-def]
    """out[i] ≤ bound/‖row i‖; 0 for a row of length 0."""
    for i in range(squared_length.shape[0]):
        out[i] = bound / np.sqrt(np.float64(squared_length[i])) * _BELOW if squared_length[i] > 0 else 0.0


@njit(cache=True, nogil=True, fastmath=False)
def whole_slope_caps(squared_length, bound):  # type: ignore[no-untyped-def]
    """For each row a whole slope a, the largest up to rounding, with a²·‖row‖² ≤ bound² in integers."""
    slopes = np.empty(squared_length.shape[0])
    slope_caps(squared_length, bound, slopes)
    return np.floor(slopes)


@njit(cache=True, nogil=True)
def _largest(values, scale, start, rounded):  # type: ignore[no-untyped-def]
    limit = LARGEST_STEP if rounded else _LARGEST_FLOAT
    top = start
    for value in values:
        step = abs(value * scale)
        if rounded:
            step = np.rint(step)
        if step <= limit and step > top:
            top = np.float64(step)
    return top


@njit(cache=True, nogil=True)
def largest_dense(X, scale, constant, rounded, out):  # type: ignore[no-untyped-def]
    """out[i] = the largest |entry| of dense row i in steps, its constant column included."""
    for i in range(out.shape[0]):
        out[i] = _largest(X[i], scale[i], constant, rounded)


@njit(cache=True, nogil=True)
def largest_sparse(values, indptr, scale, constant, rounded, out):  # type: ignore[no-untyped-def]
    """out[i] = the largest |entry| of compressed sparse row i in steps, its constant column included."""
    for i in range(out.shape[0]):
        out[i] = _largest(values[indptr[i] : indptr[i + 1]], scale[i], constant, rounded)


def entry_caps(largest: NDArray[np.float64], bound: float, rounded: bool) -> NDArray[np.float64]:
    """The largest slope a with a·largest ≤ bound; integers divide without error. A row of zeros gets slope 0."""
    if rounded:
        whole = largest.astype(np.int64)
        return np.where(whole > 0, int(bound) // np.maximum(whole, 1), 0).astype(np.float64)
    return np.divide(bound, largest, out=np.zeros_like(largest), where=largest > 0)
