"""Compiled loops for scores: the largest entry of each row, and the largest slope that it allows."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from discreet.data.prepare import LARGEST_STEP
from discreet.queries.kernels import LARGEST_FLOAT

__all__ = ["caps", "largest_dense", "largest_sparse"]


@njit(cache=True, nogil=True)
def _largest(values, scale, start, rounded):  # type: ignore[no-untyped-def]
    limit = LARGEST_STEP if rounded else LARGEST_FLOAT
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
    """out[i]: the largest |entry| of row i in steps, its constant column included."""
    for i in range(out.shape[0]):
        out[i] = _largest(X[i], scale[i], constant, rounded)


@njit(cache=True, nogil=True)
def largest_sparse(values, indptr, scale, constant, rounded, out):  # type: ignore[no-untyped-def]
    """The same for compressed sparse rows."""
    for i in range(out.shape[0]):
        out[i] = _largest(values[indptr[i] : indptr[i + 1]], scale[i], constant, rounded)


def caps(largest: NDArray[np.float64], bound: float, rounded: bool) -> NDArray[np.float64]:
    """The largest slope a with a·largest ≤ bound; integers divide without error. A row of zeros gets slope 0."""
    if rounded:
        whole = largest.astype(np.int64)
        return np.where(whole > 0, int(bound) // np.maximum(whole, 1), 0).astype(np.float64)
    return np.divide(bound, largest, out=np.zeros_like(largest), where=largest > 0)
