"""Compiled loops of an incremental Frank–Wolfe walk on compressed sparse rows. All sums are of whole numbers."""

from __future__ import annotations

import numpy as np
from numba import njit

from discreet.data.prepare import LARGEST_STEP
from discreet.noise.urn import record_in
from discreet.queries.kernels import _slope_steps


@njit(cache=True, nogil=True)
def columns(values, indices, indptr, scale, d):  # type: ignore[no-untyped-def]
    """The same rows on the grid, listed by column: (first entry of each column, row of each entry, steps)."""
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
def move(starts, rows, steps, j, weight, score, moved, count):  # type: ignore[no-untyped-def]
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
def move_all(weight, score, moved, count):  # type: ignore[no-untyped-def]
    """The same for the constant column."""
    for i in range(score.shape[0]):
        if score[i, 1] == 0:
            score[i, 1] = 1
            moved[count] = i
            count += 1
        score[i, 0] += weight
    return count


@njit(cache=True, nogil=True)
def refresh(moved, score, y, cap, largest, loss, z_unit, steps, slope, recorded):  # type: ignore[no-untyped-def]
    """Slopes of the listed rows. Returns their total change, and the sum and maximum of what is not yet recorded.

    A row that is not recorded misplaces every column by at most |slope − recorded|·(its largest entry).
    """
    kind, parameter, smoothing = loss
    change, total, most = np.int64(0), np.int64(0), np.int64(0)
    for k in range(moved.shape[0]):
        i = moved[k]
        z = np.float64(score[i, 0]) * z_unit
        a = np.int64(_slope_steps(kind, z, y[i], parameter, smoothing, steps, cap[i], True))
        change += a - slope[i]
        slope[i] = a
        pending = abs(a - recorded[i]) * largest[i]
        total += pending
        most = max(most, pending)
    return change, total, most


@njit(cache=True, nogil=True)
def settle(moved, values, indices, indptr, scale, largest, slope, recorded, least, gradient, signed, urn, urn_waits):  # type: ignore[no-untyped-def]
    """Records the pending changes of at least ``least`` of the listed rows in the gradient.

    The urn follows, unless it ``urn_waits`` to be filled anew. Returns the sum and maximum of what stays pending, and
    whether the urn could follow.
    """
    d = gradient.shape[0]
    total, most, follows = np.int64(0), np.int64(0), True
    for m in range(moved.shape[0]):
        i = moved[m]
        change = slope[i] - recorded[i]
        pending = abs(change) * largest[i]
        if pending < least:
            total += pending
            most = max(most, pending)
            continue
        recorded[i] = slope[i]
        if change == 0:
            continue
        for k in range(indptr[i], indptr[i + 1]):
            step = np.rint(values[k] * scale[i])
            if not abs(step) <= LARGEST_STEP:
                continue
            j = indices[k]
            gradient[j] += change * np.int64(step)
            if not urn_waits:
                follows &= record_in(urn, j, -gradient[j])
                if signed:
                    follows &= record_in(urn, d + j, gradient[j])
    return total, most, follows


@njit(cache=True, nogil=True)
def column_sum(starts, rows, steps, j, slope):  # type: ignore[no-untyped-def]
    """Σ slope·x_j, exactly, from column j alone."""
    total = np.int64(0)
    for k in range(starts[j], starts[j + 1]):
        total += slope[rows[k]] * steps[k]
    return total
