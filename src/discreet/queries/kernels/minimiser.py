"""Compiled gradients of a ridge objective at full float64 precision: one read of each prepared row.

Rows are whole numbers, so only four things round: ⟨row, θ⟩, the slope, the sum over rows and the final additions. Sums
over rows are flushed every `FLUSH` rows into a pair (high, low) by exact addition (Knuth's two-sum), so that their
error grows with `FLUSH` and not with the number of rows; `discreet.queries.minimiser.objective` adds the four up.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from discreet.losses._kernels import HUBER, LOGISTIC, POISSON, QUANTILE, SMOOTHED_HINGE, slope_of
from discreet.queries.kernels.inner_products import REASSOCIATED, dense_inner, stored_inner

FLUSH = 256


@njit(cache=True, nogil=True)
def known_target(kind, y):  # type: ignore[no-untyped-def]
    """Whether the target is usable: classifiers need −1 or +1, whose slope has the label's sign and at most size 1."""
    if kind in (LOGISTIC, SMOOTHED_HINGE):
        return y in (1.0, -1.0)
    return abs(y) < np.inf


@njit(cache=True, nogil=True)
def curvature_of(loss, a, y, cap):  # type: ignore[no-untyped-def]
    """The derivative of the clipped slope, read off the slope ``a`` itself (and for counts the target)."""
    kind, parameter, smoothing = loss
    size = abs(a)
    if size >= cap:
        return 0.0
    if kind == LOGISTIC:
        return size * (1.0 - size)
    if kind == SMOOTHED_HINGE:
        return 1.0 / parameter if 0.0 < size < 1.0 else 0.0
    if kind == POISSON:
        return a + y
    if kind == HUBER:
        return 1.0 if size < parameter else 0.0
    if kind == QUANTILE:
        return 1.0 / smoothing if -parameter < a < 1.0 - parameter else 0.0
    return 1.0


@njit(cache=True, nogil=True)
def _row(loss, z, y, cap, i, weights):  # type: ignore[no-untyped-def]
    kind, parameter, smoothing = loss
    weights[i] = 0.0
    if not known_target(kind, y):
        return 0.0
    a = slope_of(kind, z, y, parameter, smoothing)
    if a != a:
        return 0.0
    a = min(max(a, -cap), cap)
    weights[i] = curvature_of(loss, a, y, cap)
    return a


@njit(cache=True, nogil=True)
def move_exactly(total, high, low):  # type: ignore[no-untyped-def]
    """high + low += total without error in high, and total = 0."""
    for j in range(total.shape[0]):
        s = high[j] + total[j]
        t = s - high[j]
        low[j] += (high[j] - (s - t)) + (total[j] - t)
        high[j] = s
        total[j] = 0.0


@njit(cache=True, nogil=True, fastmath=REASSOCIATED)
def _add4(total, rows, a0, a1, a2, a3):  # type: ignore[no-untyped-def]
    for j in range(total.shape[0]):
        total[j] += (
            a0 * np.float64(rows[0, j])
            + a1 * np.float64(rows[1, j])
            + (a2 * np.float64(rows[2, j]) + a3 * np.float64(rows[3, j]))
        )


@njit(cache=True, nogil=True)
def gradient_dense(rows, y, cap, theta, loss, unit, weights, high, low):  # type: ignore[no-untyped-def]
    """high + low += Σ slope·row, weights[i] = curvature, over prepared dense rows."""
    n, d = rows.shape
    total = np.zeros(d)
    for begin in range(0, n, FLUSH):
        end = min(n, begin + FLUSH)
        i = begin
        while i + 4 <= end:
            a0 = _row(loss, dense_inner(rows[i], theta) * unit, y[i], cap[i], i, weights)
            a1 = _row(loss, dense_inner(rows[i + 1], theta) * unit, y[i + 1], cap[i + 1], i + 1, weights)
            a2 = _row(loss, dense_inner(rows[i + 2], theta) * unit, y[i + 2], cap[i + 2], i + 2, weights)
            a3 = _row(loss, dense_inner(rows[i + 3], theta) * unit, y[i + 3], cap[i + 3], i + 3, weights)
            _add4(total, rows[i : i + 4], a0, a1, a2, a3)
            i += 4
        while i < end:
            a0 = _row(loss, dense_inner(rows[i], theta) * unit, y[i], cap[i], i, weights)
            for j in range(d):
                total[j] += a0 * np.float64(rows[i, j])
            i += 1
        move_exactly(total, high, low)


@njit(cache=True, nogil=True)
def gradient_sparse(values, indices, indptr, y, cap, theta, loss, unit, weights, high, low, flush):  # type: ignore[no-untyped-def]
    """high + low += Σ slope·row, weights[i] = curvature, over stored entries; sums of ``flush`` rows at a time."""
    total = np.zeros(theta.shape[0])
    for i in range(y.shape[0]):
        first, last = indptr[i], indptr[i + 1]
        a = _row(loss, stored_inner(values[first:last], indices[first:last], theta) * unit, y[i], cap[i], i, weights)
        for k in range(first, last):
            total[indices[k]] += a * np.float64(values[k])
        if (i + 1) % flush == 0:
            move_exactly(total, high, low)
    move_exactly(total, high, low)


@njit(cache=True, nogil=True)
def gradient_very_sparse(values, indices, indptr, y, cap, theta, loss, unit, weights, high, low):  # type: ignore[no-untyped-def]
    """high + low += Σ slope·row, each stored entry added exactly, so that no other place is touched."""
    for i in range(y.shape[0]):
        first, last = indptr[i], indptr[i + 1]
        a = _row(loss, stored_inner(values[first:last], indices[first:last], theta) * unit, y[i], cap[i], i, weights)
        if a == 0.0:
            continue
        for k in range(first, last):
            j, term = indices[k], a * np.float64(values[k])
            s = high[j] + term
            t = s - high[j]
            low[j] += (high[j] - (s - t)) + (term - t)
            high[j] = s


@njit(cache=True, nogil=True)
def hessian_sparse(values, indices, indptr, weights, out):  # type: ignore[no-untyped-def]
    """out += Σ weight·row rowᵀ over stored entries, whose columns are in increasing order: one triangle, mirrored."""
    d = out.shape[0]
    upper = np.zeros((d, d))
    for i in range(weights.shape[0]):
        w = weights[i]
        if w == 0.0:
            continue
        for k in range(indptr[i], indptr[i + 1]):
            wk, row = w * np.float64(values[k]), upper[indices[k]]
            for m in range(k, indptr[i + 1]):
                row[indices[m]] += wk * np.float64(values[m])
    for j in range(d):
        out[j, j] += upper[j, j]
        for k in range(j + 1, d):
            out[j, k] += upper[j, k]
            out[k, j] += upper[j, k]


@njit(cache=True, nogil=True)
def product_sparse(values, indices, indptr, weights, direction, out):  # type: ignore[no-untyped-def]
    """out += Σ weight·⟨row, direction⟩·row."""
    for i in range(weights.shape[0]):
        if weights[i] != 0.0:
            first, last = indptr[i], indptr[i + 1]
            a = weights[i] * stored_inner(values[first:last], indices[first:last], direction)
            for k in range(first, last):
                out[indices[k]] += a * np.float64(values[k])


@njit(cache=True, nogil=True)
def diagonal_sparse(values, indices, indptr, weights, out):  # type: ignore[no-untyped-def]
    """out += Σ weight·row², entry by entry."""
    for i in range(weights.shape[0]):
        for k in range(indptr[i], indptr[i + 1]):
            value = np.float64(values[k])
            out[indices[k]] += weights[i] * value * value
