"""Compiled gradient sums: one read of each row, no n × d temporary, integers that are exact in float64.

A prepared row is rint(scale·x), at most 2^18 long; θ is rounded to integers at most 2^35 long, so by Cauchy–Schwarz
every partial sum of ⟨x, θ⟩ is an integer below 2^53 and exact in any order. The slope is rounded to an integer at most
``cap`` and each contribution slope·x is again an integer, at most 2^34 in every coordinate, so sums of `FLUSH` rows
are exact in float64 too before they go to int64. Hence the result does not depend on row order, partition, number of
threads, vector width or dense / sparse storage, and reassociation is harmless.

With ``rounded`` false the same code runs in plain floating point: the baseline without privacy.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from discreet.data.prepare import LARGEST_STEP
from discreet.losses._kernels import slope_of, softmax_slopes

FLUSH = 1 << 18  # 2^18 rows × 2^34 < 2^53
LARGEST_FLOAT = 1.7e308
EXACT = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True, fastmath=EXACT)
def _quantise(x, scale, rounded, row):  # type: ignore[no-untyped-def]
    if rounded:
        for j in range(x.shape[0]):
            step = np.rint(x[j] * scale)
            row[j] = step if abs(step) <= LARGEST_STEP else 0.0
    else:
        for j in range(x.shape[0]):
            step = x[j] * scale
            row[j] = step if abs(step) < np.inf else 0.0


@njit(cache=True, nogil=True, fastmath=EXACT)
def _score(row, theta, start):  # type: ignore[no-untyped-def]
    total = start
    for j in range(row.shape[0]):
        total += np.float64(row[j]) * theta[j]
    return total


@njit(cache=True, nogil=True)
def _slope_steps(kind, z, y, parameter, smoothing, steps, cap, rounded):  # type: ignore[no-untyped-def]
    a = slope_of(kind, z, y, parameter, smoothing) * steps
    a = min(max(a, -cap), cap)
    if a != a:  # an unknown target contributes nothing
        return 0.0
    return np.rint(a) if rounded else a


@njit(cache=True, nogil=True, fastmath=EXACT)
def gradient_dense(X, y, scale, cap, theta, constant, loss, z_unit, steps, rounded, out):  # type: ignore[no-untyped-def]
    """out += Σ slope·row over a dense block; the last entry of theta and out belongs to the constant column."""
    kind, parameter, smoothing = loss
    n, d = X.shape
    rows = np.empty((4, d), X.dtype)
    r0, r1, r2, r3 = rows[0], rows[1], rows[2], rows[3]
    total, constant_total, start = np.zeros(d), 0.0, constant * theta[d]
    i = 0
    while i < n:
        stop = min(n, i + FLUSH)
        while i + 4 <= stop:
            _quantise(X[i], scale[i], rounded, r0)
            _quantise(X[i + 1], scale[i + 1], rounded, r1)
            _quantise(X[i + 2], scale[i + 2], rounded, r2)
            _quantise(X[i + 3], scale[i + 3], rounded, r3)
            z0, z1 = _score(r0, theta, start), _score(r1, theta, start)
            z2, z3 = _score(r2, theta, start), _score(r3, theta, start)
            a0 = _slope_steps(kind, z0 * z_unit, y[i], parameter, smoothing, steps, cap[i], rounded)
            a1 = _slope_steps(kind, z1 * z_unit, y[i + 1], parameter, smoothing, steps, cap[i + 1], rounded)
            a2 = _slope_steps(kind, z2 * z_unit, y[i + 2], parameter, smoothing, steps, cap[i + 2], rounded)
            a3 = _slope_steps(kind, z3 * z_unit, y[i + 3], parameter, smoothing, steps, cap[i + 3], rounded)
            for j in range(d):
                total[j] += a0 * r0[j] + a1 * r1[j] + a2 * r2[j] + a3 * r3[j]
            constant_total += (a0 + a1 + a2 + a3) * constant
            i += 4
        while i < stop:
            _quantise(X[i], scale[i], rounded, r0)
            z = _score(r0, theta, start)
            a = _slope_steps(kind, z * z_unit, y[i], parameter, smoothing, steps, cap[i], rounded)
            for j in range(d):
                total[j] += a * r0[j]
            constant_total += a * constant
            i += 1
        for j in range(d):
            out[j] += total[j]
            total[j] = 0.0
        out[d] += constant_total
        constant_total = 0.0


@njit(cache=True, nogil=True, fastmath=EXACT)
def gradient_sparse(values, indices, indptr, y, scale, cap, theta, constant, loss, z_unit, steps, rounded, out):  # type: ignore[no-untyped-def]
    """out += Σ slope·row over compressed sparse rows; touches only stored entries."""
    kind, parameter, smoothing = loss
    d = theta.shape[0] - 1
    start, largest = constant * theta[d], LARGEST_STEP if rounded else LARGEST_FLOAT
    for i in range(y.shape[0]):
        z = start
        for k in range(indptr[i], indptr[i + 1]):
            step = values[k] * scale[i]
            if rounded:
                step = np.rint(step)
            if not abs(step) <= largest:
                continue
            z += np.float64(step) * theta[indices[k]]
        a = _slope_steps(kind, z * z_unit, y[i], parameter, smoothing, steps, cap[i], rounded)
        if a == 0.0:
            continue
        for k in range(indptr[i], indptr[i + 1]):
            step = values[k] * scale[i]
            if rounded:
                step = np.rint(step)
            if not abs(step) <= largest:
                continue
            out[indices[k]] += a * np.float64(step)
        out[d] += a * constant


@njit(cache=True, nogil=True)
def _softmax_steps(z, y, steps, cap, rounded, slopes):  # type: ignore[no-untyped-def]
    """The K slopes in steps, their ℓ2 norm at most cap. Rounding toward zero lengthens no vector."""
    if not (0 <= y < z.shape[0]):  # an unknown label contributes nothing
        slopes[:] = 0.0
        return
    softmax_slopes(z, int(y), slopes)
    squared = 0.0
    for k in range(z.shape[0]):
        slopes[k] *= steps
        squared += slopes[k] * slopes[k]
    length = np.sqrt(squared)
    if length > cap:
        slopes *= cap / length
    if rounded:
        squared = 0.0
        for k in range(z.shape[0]):
            slopes[k] = np.trunc(slopes[k])
            squared += slopes[k] * slopes[k]
        while squared > cap * cap:  # float rounding of the clip alone could do this
            squared = 0.0
            for k in range(z.shape[0]):
                slopes[k] -= np.sign(slopes[k])
                squared += slopes[k] * slopes[k]


@njit(cache=True, nogil=True, fastmath=EXACT)
def softmax_dense(X, y, scale, cap, theta, constant, z_unit, steps, rounded, out):  # type: ignore[no-untyped-def]
    """out += Σ slope ⊗ row over a dense block for K classes; theta and out have shape (K, d + 1)."""
    n, d = X.shape
    classes = theta.shape[0]
    row, z, slopes = np.empty(d, X.dtype), np.empty(classes), np.empty(classes)
    total = np.zeros((classes, d + 1))
    for i in range(n):
        _quantise(X[i], scale[i], rounded, row)
        for k in range(classes):
            z[k] = _score(row, theta[k], constant * theta[k, d]) * z_unit
        _softmax_steps(z, y[i], steps, cap[i], rounded, slopes)
        for k in range(classes):
            a, target = slopes[k], total[k]
            if a != 0.0:
                for j in range(d):
                    target[j] += a * row[j]
                target[d] += a * constant
        if (i + 1) % FLUSH == 0 or i + 1 == n:
            out += total.astype(out.dtype)
            total[:] = 0.0


@njit(cache=True, nogil=True, fastmath=EXACT)
def softmax_sparse(values, indices, indptr, y, scale, cap, theta, constant, z_unit, steps, rounded, out):  # type: ignore[no-untyped-def]
    """out += Σ slope ⊗ row over compressed sparse rows for K classes."""
    classes, d = theta.shape[0], theta.shape[1] - 1
    z, slopes = np.empty(classes), np.empty(classes)
    largest = LARGEST_STEP if rounded else LARGEST_FLOAT
    for i in range(y.shape[0]):
        for k in range(classes):
            z[k] = constant * theta[k, d]
        for entry in range(indptr[i], indptr[i + 1]):
            step = values[entry] * scale[i]
            if rounded:
                step = np.rint(step)
            if not abs(step) <= largest:
                continue
            for k in range(classes):
                z[k] += np.float64(step) * theta[k, indices[entry]]
        for k in range(classes):
            z[k] *= z_unit
        _softmax_steps(z, y[i], steps, cap[i], rounded, slopes)
        for entry in range(indptr[i], indptr[i + 1]):
            step = values[entry] * scale[i]
            if rounded:
                step = np.rint(step)
            if not abs(step) <= largest:
                continue
            for k in range(classes):
                out[k, indices[entry]] += slopes[k] * np.float64(step)
        for k in range(classes):
            out[k, d] += slopes[k] * constant


@njit(cache=True, nogil=True)
def largest_slopes(squared_length, bound, out):  # type: ignore[no-untyped-def]
    """out[i]: the largest integer slope a with a·‖row i‖ ≤ bound.

    bound/√N is computed with three roundings, each of relative size 2^-53; the factor (1 − 2^-50) outweighs them, so
    the floor is never above the exact quotient and a²·N ≤ bound² holds in integers.
    """
    for i in range(squared_length.shape[0]):
        if squared_length[i] > 0:
            out[i] = np.floor(bound / np.sqrt(np.float64(squared_length[i])) * (1.0 - 2.0**-50))
        else:
            out[i] = 0.0
