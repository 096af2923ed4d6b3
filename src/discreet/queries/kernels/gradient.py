"""Compiled gradient sums: one read of each row, no n × d temporary, integers that are exact in float64.

A prepared row is rint(scale·x), at most 2^18 long; θ is rounded to integers at most 2^35 long, so by Cauchy–Schwarz
every partial sum of ⟨x, θ⟩ is an integer below 2^53 and exact in any order. The slope is rounded to an integer at most
``cap`` and each contribution slope·x is again an integer, at most 2^34 in every coordinate, so sums of `FLUSH` rows
are exact in float64 too before they go to int64. Hence the result does not depend on row order, partition, number of
threads, vector width or dense / sparse storage, and reassociation is harmless.

Reading X from memory takes about as long as the arithmetic may, so the dense sum works on tiles of `TILE` rows that
stay in the first-level cache: scores first, then all slopes of the tile at once, then the tile is added to the sum.

With ``rounded`` false the same code runs in plain floating point: the baseline without privacy.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from discreet.data.prepare import LARGEST_STEP
from discreet.losses._kernels import LOGISTIC, SQUARED, exp, logistic_slope, slope_of, softmax_slopes
from discreet.queries.kernels.inner_products import REASSOCIATED, stored_inner
from discreet.queries.kernels.vectors import (
    LANES,
    QUAD,
    TILE,
    add_classes,
    add_rows,
    class_scores,
    float_row_score,
    layout,
    padded,
    whole_row_score,
)

FLUSH = 1 << 18  # 2^18 rows × 2^34 < 2^53
SPARSE_TILE = 128  # sparse rows worked on together


@njit(cache=True, nogil=True, fastmath=REASSOCIATED)
def _quantise(x, scale, rounded, row):  # type: ignore[no-untyped-def]
    if rounded:
        for j in range(x.shape[0]):
            step = np.rint(x[j] * scale)
            row[j] = step if abs(step) <= LARGEST_STEP else 0.0
    else:
        for j in range(x.shape[0]):
            step = x[j] * scale
            row[j] = step if abs(step) < np.inf else 0.0


@njit(cache=True, nogil=True, fastmath=False, inline="always")
def _clipped_steps(slope, steps, cap, rounded):  # type: ignore[no-untyped-def]
    a = slope * steps
    a = cap if a > cap else a
    a = -cap if a < -cap else a
    a = np.rint(a) if rounded else a
    return a if a == a else 0.0  # an unknown target contributes nothing


@njit(cache=True, nogil=True, fastmath=False)
def slope_steps(kind, z, y, parameter, smoothing, steps, cap, rounded):  # type: ignore[no-untyped-def]
    """The slope of one row in steps, at most ``cap``; 0 where the target is unknown."""
    return _clipped_steps(slope_of(kind, z, y, parameter, smoothing), steps, cap, rounded)


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _tile_slopes(loss, z, start, z_unit, y, steps, cap, rounded, slopes):  # type: ignore[no-untyped-def]
    """Slopes of a tile's rows from their scores; those beyond the last row are 0."""
    kind, parameter, smoothing = loss
    if kind == LOGISTIC:  # the commonest two; told apart outside the loop, the loop runs in vectors
        for b in range(y.shape[0]):
            slopes[b] = _clipped_steps(logistic_slope((z[b] + start) * z_unit, y[b]), steps, cap[b], rounded)
    elif kind == SQUARED:
        for b in range(y.shape[0]):
            slopes[b] = _clipped_steps((z[b] + start) * z_unit - y[b], steps, cap[b], rounded)
    else:
        for b in range(y.shape[0]):
            score = (z[b] + start) * z_unit
            slopes[b] = slope_steps(kind, score, y[b], parameter, smoothing, steps, cap[b], rounded)
    slopes[y.shape[0] :] = 0.0


@njit(cache=True, nogil=True, fastmath=False)
def _careful_row(x, factor, rounded, columns, theta, row):  # type: ignore[no-untyped-def]
    """row = x·factor; returns its score. For narrow rows, and where entries are not finite, which count as 0."""
    score = 0.0
    for place in range(columns.shape[0]):
        row[place] = 0.0
        if columns[place] >= 0:
            step = x[columns[place]] * factor
            if rounded:
                step = np.rint(step)
            if abs(step) < np.inf:
                row[place] = step
                score += row[place] * theta[place]
    return score


@njit(cache=True, nogil=True, fastmath=False)
def _drain(total, columns, out):  # type: ignore[no-untyped-def]
    """Move float64 sums, whole while ``out`` is whole, to ``out``."""
    moved = total.astype(out.dtype)
    for place in range(columns.shape[0]):
        if columns[place] >= 0:
            out[columns[place]] += moved[place]
    total[:] = 0.0


@njit(cache=True, nogil=True, fastmath=False)
def gradient_dense(X, y, scale, cap, theta, constant, loss, z_unit, steps, rounded, out):  # type: ignore[no-untyped-def]
    """out += Σ slope·row over a dense block; the last entry of theta and out belongs to the constant column."""
    n, d = X.shape
    columns = layout(d)
    rows, laid_theta, total = np.zeros((TILE, padded(d)), X.dtype), np.zeros(padded(d)), np.zeros(padded(d))
    for place in range(padded(d)):
        if columns[place] >= 0:
            laid_theta[place] = theta[columns[place]]
    z, slopes, slope_sums, start = np.zeros(TILE), np.zeros(TILE), np.zeros(TILE), constant * theta[d]
    for low in range(0, n, TILE):
        high = min(n, low + TILE)
        for i in range(low, high):
            b = i - low
            if d < LANES:
                z[b] = _careful_row(X[i], scale[i], rounded, columns, laid_theta, rows[b])
                continue
            if rounded:
                z[b] = whole_row_score(X, i, scale[i], rows, b, laid_theta)
            else:
                z[b] = float_row_score(X, i, scale[i], rows, b, laid_theta)
            if not abs(z[b]) < np.inf:  # one entry that is not finite makes the score so
                z[b] = _careful_row(X[i], scale[i], rounded, columns, laid_theta, rows[b])
        _tile_slopes(loss, z, start, z_unit, y[low:high], steps, cap[low:high], rounded, slopes)
        add_rows(rows, slopes, total)
        slope_sums += slopes
        if (low + TILE) % FLUSH == 0 or high == n:
            _drain(total, columns, out)
            constant_total = np.array([slope_sums.sum() * constant])
            out[d] += constant_total.astype(out.dtype)[0]
            slope_sums[:] = 0.0


@njit(cache=True, nogil=True, fastmath=REASSOCIATED)
def gradient_sparse(values, indices, starts, stops, y, cap, theta, constant, loss, z_unit, steps, rounded, out):  # type: ignore[no-untyped-def]
    """out += Σ slope·row over prepared compressed sparse rows (`discreet.data.entries`); touches stored entries only.

    Rows are taken by tiles, like dense ones: their scores and additions depend on memory, their slopes on arithmetic.
    """
    n, d = y.shape[0], theta.shape[0] - 1
    start, columns, total, constant_total = constant * theta[d], np.arange(d + 1), np.zeros(d + 1), 0.0
    z, slopes = np.zeros(SPARSE_TILE), np.zeros(SPARSE_TILE)
    for low in range(0, n, SPARSE_TILE):
        high = min(n, low + SPARSE_TILE)
        for i in range(low, high):
            z[i - low] = stored_inner(values[starts[i] : stops[i]], indices[starts[i] : stops[i]], theta)
        _tile_slopes(loss, z, start, z_unit, y[low:high], steps, cap[low:high], rounded, slopes)
        for i in range(low, high):
            a = slopes[i - low]
            constant_total += a
            for k in range(starts[i], stops[i]):
                total[indices[k]] += a * np.float64(values[k])
        if (low + SPARSE_TILE) % FLUSH == 0 or high == n:
            total[d] = constant_total * constant
            constant_total = 0.0
            _drain(total, columns, out)


@njit(cache=True, nogil=True, fastmath=False)
def gradient_patterns(found, y, cap, theta, constant, loss, z_unit, steps, out):  # type: ignore[no-untyped-def]
    """out += Σ slope·row over whole rows by their patterns (`discreet.data.patterns`): each pattern is summed once.

    A slope times any entry of its row is at most 2^34 and entries are whole, so that sums of `FLUSH` slopes are exact,
    and so are their products with an entry.
    """
    values, columns, codes, starts, rest = found
    left, left_columns, left_starts = rest
    n, d, known = y.shape[0], theta.shape[0] - 1, values.shape[0]
    start, places, total, constant_total = constant * theta[d], np.arange(d + 1), np.zeros(d + 1), 0.0
    z, slopes, scores, sums = np.zeros(SPARSE_TILE), np.zeros(SPARSE_TILE), np.zeros(known), np.zeros(known)
    for r in range(known):
        scores[r] = stored_inner(values[r], columns[r], theta)
    for low in range(0, n, SPARSE_TILE):
        high = min(n, low + SPARSE_TILE)
        for i in range(low, high):
            score = 0.0
            for k in range(starts[i], starts[i + 1]):
                score += scores[codes[k]]
            for k in range(left_starts[i], left_starts[i + 1]):
                score += np.float64(left[k]) * theta[left_columns[k]]
            z[i - low] = score
        _tile_slopes(loss, z, start, z_unit, y[low:high], steps, cap[low:high], True, slopes)
        for i in range(low, high):
            a = slopes[i - low]
            constant_total += a
            for k in range(starts[i], starts[i + 1]):
                sums[codes[k]] += a
            for k in range(left_starts[i], left_starts[i + 1]):
                total[left_columns[k]] += a * np.float64(left[k])
        if (low + SPARSE_TILE) % FLUSH == 0 or high == n:
            total[d] = constant_total * constant
            constant_total = 0.0
            _drain(total, places, out)
            for r in range(known):
                for e in range(values.shape[1]):
                    out[columns[r, e]] += np.int64(sums[r] * np.float64(values[r, e]))
            sums[:] = 0.0


@njit(cache=True, nogil=True, fastmath=False)
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
    if not squared < np.inf:  # scores beyond all floats have no slopes
        slopes[:] = 0.0
        return
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


@njit(cache=True, nogil=True, fastmath=False)
def _row_classes(values, indices, first, last, y, cap, theta, constant, z_unit, steps, rounded, z, slopes, total):  # type: ignore[no-untyped-def]
    """Scores of one row, its slopes, and their product with it added to total; lanes beyond the last class hold 0."""
    classes, d = slopes.shape[0], theta.shape[0] - 1
    class_scores(values, indices, first, last, theta, z)
    for k in range(classes):
        z[k] = (z[k] + constant * theta[d, k]) * z_unit
    _softmax_steps(z[:classes], y, steps, cap, rounded, slopes)
    z[:classes] = slopes
    z[classes:] = 0.0
    add_classes(values, indices, first, last, z, total)
    for k in range(classes):
        total[d, k] += slopes[k] * constant


@njit(cache=True, nogil=True, fastmath=False)
def _by_column(theta):  # type: ignore[no-untyped-def]
    """θ with one row a column and its classes beside each other, as many as lanes need."""
    laid = np.zeros((theta.shape[1], QUAD * ((theta.shape[0] + QUAD - 1) // QUAD)))
    for k in range(theta.shape[0]):
        laid[:, k] = theta[k]
    return laid


@njit(cache=True, nogil=True, fastmath=False)
def _drain_classes(total, out):  # type: ignore[no-untyped-def]
    moved = total.astype(out.dtype)
    for k in range(out.shape[0]):
        out[k] += moved[:, k]
    total[:] = 0.0


@njit(cache=True, nogil=True, fastmath=False)
def softmax_dense(X, y, scale, cap, theta, constant, z_unit, steps, rounded, out):  # type: ignore[no-untyped-def]
    """out += Σ slope ⊗ row over a dense block for K classes; theta and out have shape (K, d + 1)."""
    n, d = X.shape
    row, values, indices = np.empty(d, X.dtype), np.empty(d), np.empty(d, np.uint32)
    laid = _by_column(theta)
    z, slopes, total = np.zeros(laid.shape[1]), np.empty(theta.shape[0]), np.zeros(laid.shape)
    common = (constant, z_unit, steps, rounded, z, slopes, total)
    for i in range(n):
        _quantise(X[i], scale[i], rounded, row)
        stored = 0
        for j in range(d):  # without a branch: an entry of 0 is overwritten by the next
            values[stored] = row[j]
            indices[stored] = j
            stored += row[j] != 0.0
        _row_classes(values, indices, 0, stored, y[i], cap[i], laid, *common)
        if (i + 1) % FLUSH == 0 or i + 1 == n:
            _drain_classes(total, out)


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _tile_softmax(z, y, steps, cap, rounded, slopes, total, squared):  # type: ignore[no-untyped-def]
    """`_softmax_steps` for a tile of rows, in the same operations; classes outside, so that rows go in vectors.

    ``z`` and ``slopes`` have shape (K, SPARSE_TILE); ``total`` and ``squared`` are work space.
    """
    classes, n = slopes.shape[0], y.shape[0]
    for b in range(n):
        total[b] = z[0, b]
    for k in range(1, classes):
        for b in range(n):
            total[b] = max(total[b], z[k, b])
    for k in range(classes):
        for b in range(n):
            slopes[k, b] = exp(z[k, b] - total[b])
    total[:] = 0.0
    for k in range(classes):
        for b in range(n):
            total[b] += slopes[k, b]
    squared[:] = 0.0
    for k in range(classes):
        for b in range(n):
            slope = slopes[k, b] / total[b]
            slope = slope - 1.0 if np.floor(y[b]) == k else slope
            slopes[k, b] = slope * steps
            squared[b] += slopes[k, b] * slopes[k, b]
    for b in range(n):
        length = np.sqrt(squared[b])
        total[b] = cap[b] / length if length > cap[b] else 1.0
        known = 0 <= y[b] < classes and squared[b] < np.inf
        total[b] = total[b] if known else 0.0  # an unknown label, or scores beyond all floats
    squared[:] = 0.0
    for k in range(classes):
        for b in range(n):
            slope = slopes[k, b] * total[b]
            slope = np.trunc(slope) if rounded else slope
            slopes[k, b] = slope if total[b] > 0.0 else 0.0
            squared[b] += slopes[k, b] * slopes[k, b]
    if rounded:
        for b in range(n):
            while squared[b] > cap[b] * cap[b]:  # float rounding of the clip alone could do this
                squared[b] = 0.0
                for k in range(classes):
                    slopes[k, b] -= np.sign(slopes[k, b])
                    squared[b] += slopes[k, b] * slopes[k, b]


@njit(cache=True, nogil=True, fastmath=False)
def softmax_sparse(values, indices, starts, stops, y, cap, theta, constant, z_unit, steps, rounded, out):  # type: ignore[no-untyped-def]
    """out += Σ slope ⊗ row over prepared compressed sparse rows for K classes."""
    laid, classes, d = _by_column(theta), theta.shape[0], theta.shape[1] - 1
    lanes, total = np.zeros(laid.shape[1]), np.zeros(laid.shape)
    z, slopes = np.zeros((classes, SPARSE_TILE)), np.zeros((classes, SPARSE_TILE))
    sums, squared = np.zeros(SPARSE_TILE), np.zeros(SPARSE_TILE)
    for low in range(0, y.shape[0], SPARSE_TILE):
        high = min(y.shape[0], low + SPARSE_TILE)
        for i in range(low, high):
            class_scores(values, indices, starts[i], stops[i], laid, lanes)
            for k in range(classes):
                z[k, i - low] = (lanes[k] + constant * laid[d, k]) * z_unit
        _tile_softmax(z, y[low:high], steps, cap[low:high], rounded, slopes, sums, squared)
        lanes[:] = 0.0
        for i in range(low, high):
            for k in range(classes):
                lanes[k] = slopes[k, i - low]
                total[d, k] += lanes[k] * constant
            add_classes(values, indices, starts[i], stops[i], lanes, total)
        if (low + SPARSE_TILE) % FLUSH == 0 or high == y.shape[0]:
            _drain_classes(total, out)  # whole numbers are exact for FLUSH rows, and added to out as integers
