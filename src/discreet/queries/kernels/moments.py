"""The compiled second moment of compressed sparse rows: stored entries alone, exact in float64 and moved to int64."""

from __future__ import annotations

import numpy as np
from numba import njit

_FLUSH = 1 << 16  # 2^16 rows × 4^15 < 2^53


@njit(cache=True, nogil=True)
def _coarse_row(values, constant, step, most, row):  # type: ignore[no-untyped-def]
    """The row and its constant in steps of ``step``: the nearest where its squared length allows, else toward zero."""
    squared = np.rint(constant / step) ** 2
    for k in range(values.shape[0]):
        row[k] = np.rint(np.float64(values[k]) / step)
        squared += row[k] * row[k]
    if squared <= most:
        return np.rint(constant / step)
    for k in range(values.shape[0]):
        row[k] = np.trunc(np.float64(values[k]) / step)
    return np.trunc(constant / step)


@njit(cache=True, nogil=True)
def gram_sparse(values, indices, indptr, constant, step, most, out):  # type: ignore[no-untyped-def]
    """out += Σ xxᵀ over prepared rows brought to the coarse grid; the constant column is the last.

    Columns of a row are in increasing order, so one triangle is summed and mirrored.
    """
    n, d = indptr.shape[0] - 1, out.shape[0]
    upper = np.zeros((d, d))
    row = np.zeros(np.max(indptr[1:] - indptr[:-1]) if n else 0)
    for i in range(n):
        first, length = indptr[i], indptr[i + 1] - indptr[i]
        last = _coarse_row(values[first : first + length], constant, step, most, row)
        for k in range(length):
            target = upper[indices[first + k]]
            for m in range(k, length):
                target[indices[first + m]] += row[k] * row[m]
            if constant > 0.0:
                target[d - 1] += row[k] * last
        if constant > 0.0:
            upper[d - 1, d - 1] += last * last
        if (i + 1) % _FLUSH == 0 or i + 1 == n:
            for j in range(d):
                out[j, j] += np.int64(upper[j, j])
                for k in range(j + 1, d):
                    out[j, k] += np.int64(upper[j, k])
                    out[k, j] += np.int64(upper[j, k])
            upper[:] = 0.0
