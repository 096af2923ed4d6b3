"""Expected maxima of independent variables, by quadrature; the closed forms behind Gaussian widths."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from discreet.geometry.base import Array, Width

__all__ = ["expected_chi", "expected_max_abs_normal", "expected_max_chi", "expected_max_normal", "monte_carlo_width"]

_NODES = 400


def expected_chi(d: int) -> float:
    """E‖g‖₂ = √2·Γ((d + 1)/2)/Γ(d/2)."""
    return math.sqrt(2.0) * math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2))


def expected_max_abs_normal(d: int) -> float:
    """E max_i |g_i| = ∫₀^∞ 1 − (1 − 2Q(t))^d dt, with Q the normal tail."""
    from scipy.special import log_ndtr

    def survival(t: Array) -> Array:
        return -np.expm1(d * np.log1p(-2.0 * np.minimum(np.exp(log_ndtr(-t)), 0.5 * (1 - 1e-16))))

    return _integrate(survival, 0.0, _tail_limit(d))


def expected_max_normal(d: int) -> float:
    """E max_i g_i = ∫₀^∞ 1 − Φ(t)^d dt − ∫_{−∞}^0 Φ(t)^d dt."""
    from scipy.special import log_ndtr

    def above(t: Array) -> Array:
        return -np.expm1(d * log_ndtr(t))

    def below(t: Array) -> Array:
        return np.exp(d * log_ndtr(t))

    limit = _tail_limit(d)
    return _integrate(above, 0.0, limit) - _integrate(below, -limit, 0.0)


def expected_max_chi(sizes: Array) -> float:
    """E max_g ‖g_G‖₂ over groups of these sizes: ∫₀^∞ 1 − Π_G F_G(t) dt, F the chi distribution functions."""
    from scipy.special import gammaincc

    distinct, counts = np.unique(sizes, return_counts=True)

    def survival(t: Array) -> Array:
        # ln(1 − Q) through log1p keeps the far tail, where the product is within rounding of one.
        tails = gammaincc(distinct[:, None] / 2.0, t[None, :] ** 2 / 2.0)
        return -np.expm1((counts[:, None] * np.log1p(-np.minimum(tails, 1 - 1e-16))).sum(axis=0))

    # A chi variable of k degrees stays within about 9 of √k, so the survival is 1 below the window and 0 above it.
    middle, limit = math.sqrt(float(distinct.max())), _tail_limit(len(sizes))
    low = max(0.0, middle - limit)
    return low + _integrate(survival, low, middle + limit)


def monte_carlo_width(support: Callable[[Array], float], d: int, draws: int, seed: int = 20_150_608) -> Width:
    """The mean of the support function over ``draws`` normal vectors, with its standard error.

    The seed is fixed, so the answer is a function of the set alone; nothing here protects anybody's data.
    """
    from discreet.noise import Bits, rounded_gaussian

    steps, bits = 2.0**40, Bits.seeded(seed)
    values = np.asarray([support(rounded_gaussian(steps, d, bits=bits) / steps) for _ in range(draws)])
    return Width(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(draws))


def _tail_limit(count: int) -> float:
    """Beyond this, the largest of ``count`` normals has a tail mass under 1e-16."""
    return math.sqrt(2.0 * math.log(count + 1.0)) + 9.0


def _integrate(function: Callable[[Array], Array], low: float, high: float) -> float:
    """Gauss–Legendre on four panels."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES // 4)
    edges = np.linspace(low, high, 5)
    total = 0.0
    for left, right in pairwise(edges):
        half = (right - left) / 2
        total += half * float(weights @ function(left + half * (nodes + 1)))
    return total
