"""Compiled slopes and curvatures of rows that are weighted instead of shortened.

A prepared row x that was shortened by a factor 1/t ≤ 1 stands for the row t·x with weight 1/t²: at θ its score is
t·⟨x, θ⟩, its loss ℓ(t·⟨x, θ⟩, y)/t², the slope of that in ⟨x, θ⟩ a/t, and the curvature κ, with a and κ those of ℓ. No
loop here depends on the order of rows, so a row's slope is a function of the row and θ, to the last bit.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from discreet.losses._kernels import CAPPED_POISSON, capped_curvature, slope_of
from discreet.queries.kernels.inner_products import dense_inner
from discreet.queries.kernels.minimiser import FLUSH, curvature_of, known_target, move_exactly

__all__ = ["gradient_weighted", "slopes_and_curvatures"]


@njit(cache=True, nogil=True, fastmath=False)
def _state(loss, z, y, cap):  # type: ignore[no-untyped-def]
    """(slope, curvature) at the score z, slopes cut at ``cap``; both 0 where the target is unknown."""
    kind, parameter, smoothing = loss
    if not known_target(kind, y):
        return 0.0, 0.0
    a = slope_of(kind, z, y, parameter, smoothing)
    if a != a:
        return 0.0, 0.0
    a = min(max(a, -cap), cap)
    if abs(a) >= cap:
        return a, 0.0
    if kind == CAPPED_POISSON:
        return a, capped_curvature(z, parameter, smoothing)
    return a, curvature_of(loss, a, y, cap)


@njit(cache=True, nogil=True, fastmath=False)
def gradient_weighted(rows, y, cap, stretch, theta, loss, unit, weights, high, low):  # type: ignore[no-untyped-def]
    """high + low += Σ (a/t)·row, weights[i] = κ, over prepared dense rows; a/t is at most ``cap``."""
    n, d = rows.shape
    total = np.zeros(d)
    for i in range(n):
        t = stretch[i]
        a, weights[i] = _state(loss, dense_inner(rows[i], theta) * unit * t, y[i], cap[i] * t)
        a /= t
        for j in range(d):
            total[j] += a * np.float64(rows[i, j])
        if (i + 1) % FLUSH == 0:
            move_exactly(total, high, low)
    move_exactly(total, high, low)


@njit(cache=True, nogil=True, fastmath=False)
def slopes_and_curvatures(z, y, loss, slopes, curvatures):  # type: ignore[no-untyped-def]
    """The slope and the curvature of each row at its score."""
    for i in range(z.shape[0]):
        slopes[i], curvatures[i] = _state(loss, z[i], y[i], np.inf)
