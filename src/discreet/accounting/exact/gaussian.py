"""The Gaussian mechanism, exactly: closed forms good to the last digits, with those digits accounted for.

A release whose neighbouring outputs are N(0, 1) and N(μ, 1) has (Balle–Wang 2018, Theorem 8)

    δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) = φ(t)·(R(t) − R(t + μ)),   t = ε/μ − μ/2,

with R = (1 − Φ)/φ the Mills ratio; the second form keeps its relative accuracy down to the smallest doubles. Adaptive
releases compose to μ = √(Σ μ_i²) (Dong–Roth–Su 2022, Corollary 3.3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
from scipy.special import erfcx, ndtr, ndtri

from discreet.accounting.bounds import Bounds
from discreet.floats import UNIT_ROUNDOFF

__all__ = ["delta_bounds", "epsilon_bounds", "log_delta", "profile", "root_of_squares"]

_LARGEST_MU = 1e150
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_NODES, _WEIGHTS = (array.tolist() for array in np.polynomial.legendre.leggauss(8))


def _mills(t: float) -> float:
    return 1.2533141373155003 * float(erfcx(t * 0.7071067811865476))


def log_delta(epsilon: float, mu: float) -> tuple[float, float]:
    """log δ(ε) for ε ≥ 0, and a bound on its absolute error.

    Rounding: μ is granted a relative 8u, so that t is off by at most η = 12u(ε/μ + μ). At fixed μ, |d log δ/dt| ≤ |t| +
    2: it is t + (g(t) − g(t + μ))/∫g over (t, t + μ) with g = −R' = 1 − yR, so at most t + max −g'/g = R/g, which is
    below y + 1.26 for y ≥ 0 and below 1.26 else. At fixed t, d log δ/dμ = g(t + μ)/∫g ≤ 1/μ, as g falls: 8u more. φ(t)
    adds t²u, and the sum of logarithms some units of itself. A Mills ratio is off by 10u (erfcx, granted 8u, a constant
    and a product) and by 3u|y|g/R ≤ 3u(1 + y² + |y|) for its argument y, above 0 by 3u. Their difference multiplies
    that by R(t)/(R(t) − R(t + μ)), twice; where g is integrated instead (eight Gauss nodes on a span below 0.1 err by
    less than 1e-20), 1 − yR loses a factor 1 + y². Where μ ≥ 10 and t < −5, 1 − δ = Φ(t) + φ(t)R(t + μ) ≤ 3φ(t), and
    what t is off by costs that many times as much.
    """
    if mu == 0:
        return -math.inf, 0.0
    t = epsilon / mu - mu / 2
    shift = 12 * UNIT_ROUNDOFF * (epsilon / mu + mu)
    if t > 1e8 and t > 2 * shift:  # δ ≤ e^{−t²/8}
        return -math.inf, 0.0
    if t + shift < -40:
        return 0.0, 1e-300
    if shift > 1:  # nothing is known of so large an ε but that 0 ≤ δ ≤ 1
        return 0.0, math.inf
    slack = shift * (abs(t) + 2 + shift) + 4 * UNIT_ROUNDOFF * (6 + t * t)
    if t < -5:
        lost = float(ndtr(t)) + math.exp(-t * t / 2 - _HALF_LOG_2PI) * _mills(t + mu)
        return math.log1p(-lost), lost * 4 * slack + 4 * UNIT_ROUNDOFF
    if mu < 0.1:
        gap, half = 0.0, mu / 2
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            y = t + half * (1 + node)
            gap += weight * (1 - y * _mills(y))
        gap *= half
        slack += 24 * UNIT_ROUNDOFF * (2 + t * t)
    else:
        first, second = _mills(t), _mills(t + mu)
        gap = first - second
        mills = 10 + 3 * (1 + t * t + abs(t) if t < 0 else 1)
        slack += 2 * mills * UNIT_ROUNDOFF * first / gap if gap > 0 else math.inf
    if not gap > 0:  # far beyond the smallest double
        return -math.inf, 0.0
    value = -t * t / 2 - _HALF_LOG_2PI + math.log(gap)
    return value, slack + 4 * UNIT_ROUNDOFF * abs(value)


def _log_slope(t: float, mu: float) -> float:
    """log of −dδ/dε = e^ε·Φ(−t − μ) = φ(t)R(t + μ)."""
    return -t * t / 2 - _HALF_LOG_2PI + math.log(max(_mills(t + mu), 1e-300))


def profile(epsilon: float, mu: float) -> float:
    """δ(ε) of the pair for any real ε, in plain floating point."""
    if epsilon < 0:
        return -math.expm1(epsilon) + math.exp(epsilon) * profile(-epsilon, mu)
    value = log_delta(epsilon, mu)[0]
    return min(1.0, math.exp(value)) if value > -745 else 0.0


def delta_bounds(epsilon: float, mu: float) -> Bounds:
    """Certified δ(ε)."""
    if epsilon < 0:
        low, high = delta_bounds(-epsilon, mu)
        scale, base = math.exp(epsilon), -math.expm1(epsilon)
        return Bounds(
            (base + scale * low) * (1 - 8 * UNIT_ROUNDOFF), min(1.0, (base + scale * high) * (1 + 8 * UNIT_ROUNDOFF))
        )
    if math.isinf(mu):
        return Bounds(1.0, 1.0)
    value, slack = log_delta(epsilon, mu)
    if value == -math.inf:
        return Bounds(0.0, 0.0 if mu == 0 else 5e-324)
    low = math.exp(value - slack) * (1 - 8 * UNIT_ROUNDOFF) if value - slack > -700 else 0.0
    high = math.exp(min(max(value + slack, -700.0), 0.0)) * (1 + 8 * UNIT_ROUNDOFF)
    return Bounds(min(low, 1.0), min(1.0, high))


def epsilon_bounds(delta: float, mu: float) -> Bounds:
    """Certified ε(δ): the least ε ≥ 0 with δ(ε) ≤ δ.

    Example:
        >>> round(epsilon_bounds(1e-6, 1000**0.5 / 10).upper, 7)
        19.4236565
    """
    if mu == 0 or delta >= 1:
        return Bounds(0.0, 0.0)
    if delta <= 0 or math.isinf(mu):
        return Bounds(math.inf, math.inf)
    if mu > _LARGEST_MU:  # t < −40 at ε = 1e299, where δ exceeds every double below 1; ε itself is beyond range
        return Bounds(1e299, math.inf)
    target = math.log(delta)
    unsure = 4 * UNIT_ROUNDOFF * (1 + abs(target))
    at_zero, slack = log_delta(0.0, mu)
    if at_zero + slack <= target - unsure:
        return Bounds(0.0, 0.0)

    # δ(ε) ≤ 1 − Φ(t), so the quantile of δ is an upper end; log δ decreases strictly from there to ε = 0.
    high = mu * (mu / 2 + max(-float(ndtri(delta)) if delta > 1e-300 else math.sqrt(-2 * target), -mu / 2))
    low, guess = 0.0, high
    for _ in range(100):
        value, _ = log_delta(guess, mu)
        t = guess / mu - mu / 2
        slope = -math.exp(min(_log_slope(t, mu) - value, 700.0)) if value > -math.inf else 0.0
        if value > target:
            low = max(low, guess)
        else:
            high = min(high, guess)
        step = (target - value) / slope if slope < 0 else math.nan
        nxt = guess + step
        if not low <= nxt <= high:
            nxt = (low + high) / 2
        if abs(nxt - guess) <= 4 * UNIT_ROUNDOFF * guess or nxt == guess:
            guess = nxt
            break
        guess = nxt

    def upper_holds(e: float) -> bool:
        value, slack = log_delta(e, mu)
        return value + slack <= target - unsure

    def lower_holds(e: float) -> bool:
        value, slack = log_delta(e, mu)
        return value - slack >= target + unsure

    value, slack = log_delta(guess, mu)
    t = guess / mu - mu / 2
    rate = math.exp(min(700.0, _log_slope(t, mu) - value)) if value > -math.inf else 1.0
    step = 2 * (slack + unsure + abs(value - target)) / max(rate, 1e-300) + 8 * UNIT_ROUNDOFF * guess
    if not math.isfinite(step):
        step = max(guess, 1.0) * 1e-9
    return Bounds(_walk(lower_holds, guess, -step), _walk(upper_holds, guess, step))


def _walk(holds: Callable[[float], bool], start: float, step: float) -> float:
    """The first of start + step, start + 2·step, start + 4·step, … where ``holds``; 0 when the walk passes it."""
    while True:
        point = start + step
        if point <= 0:
            return 0.0
        if holds(point) or math.isinf(point):
            return point
        step *= 2


def root_of_squares(mus: Iterable[tuple[float, int]]) -> float:
    """√(Σ nμ²) to 8 units, without over- or underflow of the squares; where it exceeds 1e200 itself, 1e200.

    From μ = 1e150 on δ is 1 to the last digit and ε beyond all doubles.
    """
    mus = list(mus)
    most = max((mu for mu, n in mus if n > 0), default=0.0)
    if most == 0 or most > 1e200:
        return min(most, 1e200)
    total = math.fsum(n * (mu / most) ** 2 for mu, n in mus)
    return min(most * math.sqrt(total), 1e200)
