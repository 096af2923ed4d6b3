"""Slopes for compiled kernels: the formulas of the loss classes, on scalars.

In a file of its own because it needs numba, which ``import discreet.losses`` must not load. The agreement of the
two is tested to 1e-12. ``fastmath=False`` is said everywhere: unsaid, a function takes over the flags of whatever calls
it first, and dense and sparse sums could then round a slope differently.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from discreet.losses.base import Array
from discreet.losses.capped_poisson import CappedPoisson
from discreet.losses.hinge import SmoothedHinge
from discreet.losses.huber import Huber
from discreet.losses.logistic import Logistic
from discreet.losses.poisson import Poisson
from discreet.losses.quantile import Quantile
from discreet.losses.sigmoid import Sigmoid
from discreet.losses.softmax import Softmax
from discreet.losses.squared import Squared
from discreet.losses.tukey import Tukey
from discreet.losses.welsch import Welsch

__all__ = [
    "CAPPED_POISSON",
    "HUBER",
    "LOGISTIC",
    "POISSON",
    "QUANTILE",
    "SIGMOID",
    "SMOOTHED_HINGE",
    "SOFTMAX",
    "SQUARED",
    "TUKEY",
    "WELSCH",
    "capped_curvature",
    "exp",
    "logistic_slope",
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
CAPPED_POISSON = CappedPoisson.kind
WELSCH = Welsch.kind
TUKEY = Tukey.kind
SIGMOID = Sigmoid.kind


@njit(cache=True, inline="always", error_model="numpy", fastmath=False)
def _squared_slope(z: float, y: float) -> float:
    return z - y


@njit(cache=True, error_model="numpy", fastmath=False)
def exp(x: float) -> float:
    """e^x to 4e-16 without a call or a branch, so that loops over rows run in vectors.

    x = k·ln 2 + r with |r| ≤ 0.35, and e^r by its Taylor polynomial of degree 13, grouped so that the chain of
    dependent operations is short. Plain operations in a fixed order: the same bits on every machine. Beyond ±708 it
    stays put.
    """
    x = -708.0 if x < -708.0 else x
    x = 708.0 if x > 708.0 else x
    k = np.rint(x * 1.4426950408889634)
    r = (x - k * 0.6931471803691238) - k * 1.9082149292705877e-10
    r2 = r * r
    r4 = r2 * r2
    p0 = (1.0 + r) + r2 * (1 / 2 + r * (1 / 6))
    p4 = (1 / 24 + r * (1 / 120)) + r2 * (1 / 720 + r * (1 / 5040))
    p8 = (1 / 40320 + r * (1 / 362880)) + r2 * (1 / 3628800 + r * (1 / 39916800))
    p12 = 1 / 479001600 + r * (1 / 6227020800)
    power = np.int64((np.int64(k) + 1023) << 52).view(np.float64)
    return (p0 + r4 * (p4 + r4 * (p8 + r4 * p12))) * power


@njit(cache=True, inline="always", error_model="numpy", fastmath=False)
def logistic_slope(z: float, y: float) -> float:
    """−y/(1 + e^(yz))."""
    return -y / (1.0 + exp(y * z))


@njit(cache=True, inline="always", error_model="numpy", fastmath=False)
def _huber_slope(z: float, y: float, width: float) -> float:
    return min(max(z - y, -width), width)


@njit(cache=True, inline="always", error_model="numpy", fastmath=False)
def _smoothed_hinge_slope(z: float, y: float, width: float) -> float:
    return -y * min(max((1.0 - y * z) / width, 0.0), 1.0)


@njit(cache=True, inline="always", error_model="numpy", fastmath=False)
def _poisson_slope(z: float, y: float) -> float:
    return math.exp(z) - y


@njit(cache=True, inline="always", error_model="numpy", fastmath=False)
def _quantile_slope(z: float, y: float, level: float, width: float) -> float:
    residual = z - y
    if width > 0.0:
        return min(max(residual / width + (0.5 - level), -level), 1.0 - level)
    if residual > 0.0:
        return 1.0 - level
    if residual < 0.0:
        return -level
    return 0.0


@njit(cache=True, inline="always", error_model="numpy", fastmath=False)
def _welsch_slope(z: float, y: float, width: float) -> float:
    residual = z - y
    ratio = residual / width
    square = ratio * ratio
    return residual * exp(-square) if square < 700.0 else 0.0


@njit(cache=True, inline="always", error_model="numpy", fastmath=False)
def _tukey_slope(z: float, y: float, width: float) -> float:
    ratio = min(max((z - y) / width, -1.0), 1.0)
    rest = 1.0 - ratio * ratio
    return width * ratio * (rest * rest)


@njit(cache=True, inline="always", error_model="numpy", fastmath=False)
def _sigmoid_slope(z: float, y: float, steepness: float) -> float:
    margin = steepness * (y * z)
    return -steepness * y / ((1.0 + exp(margin)) * (1.0 + exp(-margin)))


@njit(cache=True, error_model="numpy", fastmath=False)
def _capped_poisson_slope(z: float, y: float, cap: float, largest: float) -> float:
    mean = exp(min(max(z, -700.0), 7.0))
    term, total = exp(-mean), 0.0
    for j in range(int(cap)):
        total += (cap - j) * term
        term *= mean / (j + 1)
    return (max(cap - total, 0.0) - min(max(y, 0.0), cap)) / largest


@njit(cache=True, error_model="numpy", fastmath=False)
def capped_curvature(z: float, cap: float, largest: float) -> float:
    """e^z·P(Y < cap)/largest for Poisson counts Y of mean e^z, at most 1."""
    if z > 7.0:
        return 0.0
    mean = exp(max(z, -700.0))
    term, total = exp(-mean), 0.0
    for j in range(int(cap)):
        total += term
        term *= mean / (j + 1)
    return min(mean * total / largest, 1.0)


@njit(cache=True, error_model="numpy", fastmath=False)
def slope_of(kind: int, z: float, y: float, parameter: float, smoothing: float) -> float:
    """The slope of a scalar loss: ``slope_of(loss.kind, z, y, loss.parameter, loss.smoothing)``.

    Softmax has a vector of slopes (`softmax_slopes`); its kind, like any unknown one, gives NaN here.
    """
    if kind == LOGISTIC:
        return logistic_slope(z, y)
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
    if kind == CAPPED_POISSON:
        return _capped_poisson_slope(z, y, parameter, smoothing)
    if kind == WELSCH:
        return _welsch_slope(z, y, parameter)
    if kind == TUKEY:
        return _tukey_slope(z, y, parameter)
    if kind == SIGMOID:
        return _sigmoid_slope(z, y, parameter)
    return np.nan


@njit(cache=True, error_model="numpy", fastmath=False)
def softmax_slopes(z: Array, code: int, slopes: Array) -> None:
    """Write the K softmax slopes p − e_code at the scores ``z`` into ``slopes`` (which may be ``z`` itself)."""
    top = z[0]
    for k in range(1, z.shape[0]):
        top = max(top, z[k])
    for k in range(z.shape[0]):
        slopes[k] = exp(z[k] - top)
    total = 0.0
    for k in range(z.shape[0]):
        total += slopes[k]
    for k in range(z.shape[0]):
        slopes[k] /= total
    slopes[code] -= 1.0
