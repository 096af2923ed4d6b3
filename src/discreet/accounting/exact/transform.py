"""A moment generating function on the nodes of a contour, and what it may be off by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.floats import UNIT_ROUNDOFF

__all__ = ["OnContour", "on_contour", "short"]

Array = NDArray[Any]
_SMALLEST = math.exp(-700.0)


@dataclass
class OnContour:
    """M(c + iω) on the nodes of a contour, relative to M(c)."""

    log_moment: float  # log M(c)
    error: float  # a bound of its error
    logs: NDArray[np.complex128]  # ℓ_k with M(c + iω_k)/M(c) = e^{ℓ_k + η_k} + ξ_k
    slips: Array  # bounds of |η_k|
    errors: Array  # bounds of |ξ_k|


def on_contour(log_moment: float, error: float, changes: NDArray[np.complex128], errors: Array) -> OnContour:
    """The moments along a contour from M(c + iω)/M(c) − 1 = x + iy, known to within ``errors``.

    log|1 + x + iy| is ½log1p(x(2 + x) + y²) only where |x| + |y| < ½: there the argument is off by at most
    u(7.5|x| + |y|), and |1 + x + iy|² ≥ ¼. Elsewhere it is log hypot(1 + x, y), to 8u(1 + |log|): the difference
    x(2 + x) + y² would lose half the digits of a small modulus. Moduli below e^−700 are taken for e^−700.
    """
    x, y = changes.real, changes.imag
    size = np.abs(x) + np.abs(y)
    near = size < 0.5
    one = 1 + x
    inner = 0.5 * np.log1p(np.where(near, x * (2 + x) + y * y, 0.0))
    outer = np.log(np.maximum(np.hypot(one, y), _SMALLEST))
    logs = np.empty(len(changes), dtype=np.complex128)
    logs.real = np.where(near, inner, outer)
    logs.imag = np.arctan2(y, one)
    slips = UNIT_ROUNDOFF * (np.where(near, 16 * size, 8.0) + 4 * (np.abs(logs.real) + np.abs(logs.imag)))
    return OnContour(log_moment, error, logs, slips, errors + 2 * _SMALLEST)


def short(value: float, bits: int) -> float:
    """The largest number of that many bits not above ``value``: its small multiples are exact."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.floor(math.ldexp(mantissa, bits)), exponent - bits)
