"""Compiled test of positive definiteness: whether Cholesky's method runs to its end in float64."""

from __future__ import annotations

import numpy as np
from numba import njit

from discreet.queries.kernels.inner_products import REASSOCIATED


@njit(cache=True, nogil=True, fastmath=REASSOCIATED)
def _dot(a, b, n):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(n):
        total += a[k] * b[k]
    return total


@njit(cache=True, nogil=True)
def factors(matrix, lower):  # type: ignore[no-untyped-def]
    """Whether every pivot of ``matrix`` is positive; ``lower`` is overwritten with the factor.

    Row by row: l_ij = (m_ij − Σ_{k<j} l_ik·l_jk)/l_jj for j < i, then the pivot m_ii − Σ_{k<i} l_ik². Only the order
    of additions within a sum is left to the compiler.
    """
    for i in range(matrix.shape[0]):
        row = lower[i]
        for j in range(i):
            row[j] = (matrix[i, j] - _dot(row, lower[j], j)) / lower[j, j]
        pivot = matrix[i, i] - _dot(row, row, i)
        if not pivot > 0.0:
            return False
        row[i] = np.sqrt(pivot)
    return True
