"""Compiled loops of lazy selection for Frank–Wolfe on compressed sparse rows. All sums are of whole numbers."""

from __future__ import annotations

import numpy as np
from numba import njit

from discreet.data.prepare import LARGEST_STEP
from discreet.noise.weighted_rejection import record_in
from discreet.queries.kernels.gradient import slope_steps


@njit(cache=True, nogil=True)
def columns(values, indices, indptr, scale, d):  # type: ignore[no-untyped-def]
    """The rows on the grid, listed by column: (first entry of each column, row of each entry, steps)."""
    starts = np.zeros(d + 2, np.int64)
    for k in range(indptr[0], indptr[-1]):
        starts[indices[k] + 2] += 1
    for j in range(2, d + 2):
        starts[j] += starts[j - 1]
    rows = np.empty(indptr[-1] - indptr[0], np.int32)
    steps = np.empty(indptr[-1] - indptr[0], np.int32)
    for i in range(scale.shape[0]):
        for k in range(indptr[i], indptr[i + 1]):
            step = np.rint(values[k] * scale[i])
            slot = starts[indices[k] + 1]
            starts[indices[k] + 1] = slot + 1
            rows[slot] = i
            steps[slot] = np.int32(step) if abs(step) <= LARGEST_STEP else 0
    return starts[: d + 1], rows, steps


@njit(cache=True, nogil=True)
def add_column(starts, rows, steps, j, weight, score, moved, count):  # type: ignore[no-untyped-def]
    """score += weight·column j; lists the rows that leave 0 for the first time. Returns how many are listed."""
    for k in range(starts[j], starts[j + 1]):
        i = rows[k]
        if score[i, 1] == 0:
            score[i, 1] = 1
            moved[count] = i
            count += 1
        score[i, 0] += weight * steps[k]
    return count


@njit(cache=True, nogil=True)
def add_constant(weight, score, moved, count):  # type: ignore[no-untyped-def]
    """score += weight for every row; lists the rows that leave 0 for the first time. Returns how many are listed."""
    for i in range(score.shape[0]):
        if score[i, 1] == 0:
            score[i, 1] = 1
            moved[count] = i
            count += 1
        score[i, 0] += weight
    return count


@njit(cache=True, nogil=True)
def rows_of(starts, rows, steps, tier, which, n):  # type: ignore[no-untyped-def]
    """The entries in columns of one tier, listed by row: (first entry of each row, column of each entry, steps)."""
    first = np.zeros(n + 2, np.int64)
    for j in range(starts.shape[0] - 1):
        if tier[j] == which:
            for k in range(starts[j], starts[j + 1]):
                first[rows[k] + 2] += 1
    for i in range(2, n + 2):
        first[i] += first[i - 1]
    columns_of = np.empty(first[n + 1], np.int32)
    steps_of = np.empty(first[n + 1], np.int32)
    for j in range(starts.shape[0] - 1):
        if tier[j] == which:
            for k in range(starts[j], starts[j + 1]):
                slot = first[rows[k] + 1]
                first[rows[k] + 1] = slot + 1
                columns_of[slot] = j
                steps_of[slot] = steps[k]
    return first[: n + 1], columns_of, steps_of


@njit(cache=True, nogil=True)
def update_slopes(moved, score, y, cap, loss, z_unit, steps, slope):  # type: ignore[no-untyped-def]
    """Slopes of the listed rows; returns their total change."""
    kind, parameter, smoothing = loss
    change = np.int64(0)
    for k in range(moved.shape[0]):
        i = moved[k]
        z = np.float64(score[i, 0]) * z_unit
        a = np.int64(slope_steps(kind, z, y[i], parameter, smoothing, steps, cap[i], True))
        change += a - slope[i]
        slope[i] = a
    return change


@njit(cache=True, nogil=True)
def pending(moved, slope, recorded, largest, least, first):  # type: ignore[no-untyped-def]
    """(sum, maximum) of |slope − recorded|·(largest entry) over the listed rows, and the entries of those ≥ least.

    A row that is not recorded misplaces every column by at most that product.
    """
    total, most, entries = np.int64(0), np.int64(0), np.int64(0)
    for k in range(moved.shape[0]):
        i = moved[k]
        size = abs(slope[i] - recorded[i]) * largest[i]
        total += size
        most = max(most, size)
        if size >= least:
            entries += first[i + 1] - first[i]
    return total, most, entries


@njit(cache=True, nogil=True)
def record_pending(moved, first, columns, steps, largest, slope, recorded, least, gradient, signed, sampler, waits):  # type: ignore[no-untyped-def]
    """Records the pending changes of at least ``least`` of the listed rows in the gradient.

    The sampler follows, unless it ``waits`` to be told afterwards. Returns whether it could.
    """
    d, follows = gradient.shape[0], True
    for m in range(moved.shape[0]):
        i = moved[m]
        change = slope[i] - recorded[i]
        if change == 0 or abs(change) * largest[i] < least:
            continue
        recorded[i] = slope[i]
        for k in range(first[i], first[i + 1]):
            j = columns[k]
            gradient[j] += change * steps[k]
            if not waits:
                follows &= record_in(sampler, j, -gradient[j])
                if signed:
                    follows &= record_in(sampler, d + j, gradient[j])
    return follows


@njit(cache=True, nogil=True)
def record_columns(columns_of, gradient, signed, sampler):  # type: ignore[no-untyped-def]
    """Tells the sampler the recorded gradient of these columns; returns whether it could follow."""
    d, follows = gradient.shape[0], True
    for j in columns_of:
        follows &= record_in(sampler, j, -gradient[j])
        if signed:
            follows &= record_in(sampler, d + j, gradient[j])
    return follows


@njit(cache=True, nogil=True)
def column_sum(starts, rows, steps, j, slope):  # type: ignore[no-untyped-def]
    """Σ slope·x_j, exactly, from column j alone."""
    total = np.int64(0)
    for k in range(starts[j], starts[j + 1]):
        total += slope[rows[k]] * steps[k]
    return total
