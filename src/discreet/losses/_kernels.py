"""Slopes for compiled kernels: the same formulas as the loss classes, on scalars.

Kept apart from the classes because it needs numba, which ``import discreet.losses`` must not load. The agreement of the
two is tested to 1e-12.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from discreet.losses.base import Array
from discreet.losses.hinge import SmoothedHinge
from discreet.losses.huber import Huber
from discreet.losses.logistic import Logistic
from discreet.losses.poisson import Poisson
from discreet.losses.quantile import Quantile
from discreet.losses.softmax import Softmax
from discreet.losses.squared import Squared

__all__ = [
    "HUBER",
    "LOGISTIC",
    "POISSON",
    "QUANTILE",
    "SMOOTHED_HINGE",
    "SOFTMAX",
    "SQUARED",
    "slope_of",
    "softmax_slopes",
]

SQUARED = Squared.kind
LOGISTIC = Logistic.kind
HUBER = Huber.kind
SMOOTHED_HINGE = SmoothedHinge.kind
POISSON = Poisson.kind
QUANTILE = Quantile.kind
SOFTMAX = Softmax.kind


@njit(cache=True, inline="always", error_model="numpy")
def _squared_slope(z: float, y: float) -> float:
    return z - y


@njit(cache=True, inline="always", error_model="numpy")
def _logistic_slope(z: float, y: float) -> float:
    return -y / (1.0 + math.exp(y * z))


@njit(cache=True, inline="always", error_model="numpy")
def _huber_slope(z: float, y: float, width: float) -> float:
    return min(max(z - y, -width), width)


@njit(cache=True, inline="always", error_model="numpy")
def _smoothed_hinge_slope(z: float, y: float, width: float) -> float:
    return -y * min(max((1.0 - y * z) / width, 0.0), 1.0)


@njit(cache=True, inline="always", error_model="numpy")
def _poisson_slope(z: float, y: float) -> float:
    return math.exp(z) - y


@njit(cache=True, inline="always", error_model="numpy")
def _quantile_slope(z: float, y: float, level: float, width: float) -> float:
    residual = z - y
    if width > 0.0:
        return min(max(residual / width, -level), 1.0 - level)
    if residual > 0.0:
        return 1.0 - level
    if residual < 0.0:
        return -level
    return 0.0


@njit(cache=True, error_model="numpy")
def slope_of(kind: int, z: float, y: float, parameter: float, smoothing: float) -> float:
    """The slope of a scalar loss: ``slope_of(loss.kind, z, y, loss.parameter, loss.smoothing)``.

    Softmax has a vector of slopes (`softmax_slopes`); its kind, like any unknown one, gives NaN here.
    """
    if kind == LOGISTIC:
        return _logistic_slope(z, y)
    if kind == SQUARED:
        return _squared_slope(z, y)
    if kind == HUBER:
        return _huber_slope(z, y, parameter)
    if kind == SMOOTHED_HINGE:
        return _smoothed_hinge_slope(z, y, parameter)
    if kind == POISSON:
        return _poisson_slope(z, y)
    if kind == QUANTILE:
        return _quantile_slope(z, y, parameter, smoothing)
    return np.nan


@njit(cache=True, error_model="numpy")
def softmax_slopes(z: Array, code: int, slopes: Array) -> None:
    """Write the K softmax slopes p − e_code at the scores ``z`` into ``slopes`` (which may be ``z`` itself)."""
    top = z[0]
    for k in range(1, z.shape[0]):
        top = max(top, z[k])
    total = 0.0
    for k in range(z.shape[0]):
        slopes[k] = math.exp(z[k] - top)
        total += slopes[k]
    for k in range(z.shape[0]):
        slopes[k] /= total
    slopes[code] -= 1.0
