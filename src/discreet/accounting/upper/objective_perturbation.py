"""The Rényi divergence of objective perturbation, from its privacy profile.

With δ(ε) a bound on the profile in both orders of every two neighbours,

    E_Q (P/Q)^α = 1 + α(α − 1)·∫₀^∞ (e^{(α−1)ε}·δ_{P‖Q}(ε) + e^{−αε}·δ_{Q‖P}(ε)) dε,

because t^α is 1 + α(t − 1) plus a mixture of the functions (t − s)₊ for s ≥ 1 and (s − t)₊ for s < 1 with weights
α(α − 1)s^{α−2}, and E_Q (s − P/Q)₊ = s·δ_{Q‖P}(log 1/s). The integral is bounded from above:

- a profile falls, and is convex in e^ε: between two nodes it lies below the chord in e^ε of bounds at the nodes;
- the chord is concave in ε, so that its mean under any weight is at most its value at the mean of ε (Jensen);
- beyond the last node P(loss > ε) ≤ Σ n·e^{−(β−1)(ε−kc)}·e^{β(β−1)μ²/2} over the vertices, for every β > α.

Another bound is better where a unit has several rows, or log det is large beside μ. Let z be the normal vector of the
noise under P, ν = mμ the length of all moved gradients together, and φ(L) = e^{(α−1)L} − 1 − (α−1)(1 − e^{−L}), which
is convex, least at 0, and has E_P φ(L) = E_P e^{(α−1)L} − 1 since E_P e^{−L} = 1. The loss is L = ⟨z, v⟩ + ‖v‖²/2 + log
det with v a sum of m vectors, each in the hull of 0 and D fixed ones of length μ. So L ≤ a + Σ_i μ·max_d ⟨u_id, z⟩₊ and
L ≥ −kc − Σ_i μ·max_d ⟨u_id, z⟩₋, with a = kc + ν²/2. φ grows on either side of 0, the sum is a mean of m terms
ν·max_d ⟨u_id, z⟩₊, and a maximum over d costs at most D times what one of them adds:

    E_P φ(L) ≤ φ(a) + D·E(φ(a + νw₊) − φ(a)) + φ(−kc) + D·E(φ(−kc − νw₋) − φ(−kc)),   w normal.

Where α·μ is large, D_α ≤ kc + log(1 + Σ n·e^{α(α−1)μ²/2})/(α − 1), which is then as good. The deviation of the released
point from the minimiser is one more Gaussian release of that μ, and divergences add.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr

from discreet.accounting.exact.objective_perturbation import objective_profile, vertices
from discreet.accounting.upper.moments import log_one_plus
from discreet.events import ObjectivePerturbation
from discreet.units import Unit

__all__ = ["objective_divergence"]

_NODES = 1 << 10
_LARGE = 30.0  # α·μ beyond which losses of many deviations matter, where profiles underflow
_MOST_EXPONENT = 600.0  # of a term, with room for sums and products below the largest double
_ROUNDING = 1e-9  # relative, of the integral: a thousand sums and products, each good to 1e-12


def objective_divergence(event: ObjectivePerturbation, order: float, unit: Unit) -> float:
    """An upper bound on D_order between neighbours.

    Example:
        >>> plain = ObjectivePerturbation(10.0, 0.0)  # without a determinant it is a Gaussian release
        >>> round(objective_divergence(plain, 8.0, Unit("add-remove")), 5)
        0.04
    """
    shift, parts = vertices(event, unit)
    longest = max(mu for _, mu in parts)
    beside = order * event.deviation**2 / 2
    # the loss is at most kc plus the largest of the vertices' losses and 0
    logs_of_vertices = [math.log(n) + order * (order - 1) / 2 * mu * mu for n, mu in parts]
    closed = shift + float(logsumexp([0.0, *logs_of_vertices])) / (order - 1)
    if order * longest > _LARGE:
        return (closed + beside) * (1 + _ROUNDING)
    excess = _excess(order - 1, shift, longest, event.directions)
    by_moments = math.log1p(excess) / (order - 1) if excess < math.inf else math.inf
    return (min(closed, by_moments, _by_profile(event, order, unit, shift, parts)) + beside) * (1 + _ROUNDING)


def _excess(k: float, shift: float, length: float, directions: int) -> float:
    """The bound on E_P φ(L) of the module's docstring, k = α − 1, ν = ``length``, kc = ``shift``; rounded up.

    Infinite where it would leave the range of doubles.
    """
    exponent = max(k, 1.0) * (shift + length * length / 2) + (max(k, 1.0) * length) ** 2 / 2
    if exponent + math.log(max(k, 1.0)) > _MOST_EXPONENT:
        return math.inf

    def half(rate: float) -> float:  # E e^{rate·w} over w > 0
        return math.exp(rate * rate / 2) * float(ndtr(rate))

    total = 0.0
    for end, sign in ((shift + length * length / 2, 1.0), (-shift, -1.0)):
        here = math.expm1(k * end) + k * math.expm1(-end)
        grown = math.exp(k * end) * half(sign * k * length) - 0.5 + k * (math.exp(-end) * half(-sign * length) - 0.5)
        terms = math.exp(k * end) * (1 + half(sign * k * length)) + k * math.exp(-end) * (1 + half(-sign * length))
        total += here + directions * max(0.0, grown - here / 2) + 1e-14 * directions * (terms + 1 + k)
    return total


def _by_profile(
    event: ObjectivePerturbation, order: float, unit: Unit, shift: float, parts: list[tuple[float, float]]
) -> float:
    longest = max(mu for _, mu in parts)
    # the losses that matter are those under which e^{(α−1)·loss} has its mass: around α·μ² with deviation μ
    nodes = np.linspace(0.0, 1.0, _NODES) ** 2 * (shift + order * longest**2 + 14 * longest)
    bounds = np.minimum.accumulate(objective_profile(replace(event, deviation=0.0), unit)(nodes))
    logs = [
        _log_integral(nodes, bounds, order - 1),
        _log_integral(nodes, bounds, -order),
        _log_tail(order, nodes[-1], shift, parts),
        math.log(max(bounds[-1], 5e-324)) - math.log(order) - order * nodes[-1],
    ]
    excess = float(logsumexp(logs)) + math.log(order) + math.log(order - 1) + _ROUNDING
    return log_one_plus(excess) / (order - 1)


def _log_integral(nodes: NDArray[np.float64], bounds: NDArray[np.float64], rate: float) -> float:
    """log of ∫ e^{rate·ε}·δ(ε) dε between the first and the last node, from above."""
    steps = np.diff(nodes)
    far = nodes[1:] if rate > 0 else nodes[:-1]  # the end of a step at which the weight is larger
    products = abs(rate) * steps
    log_weights = rate * far + np.log(-np.expm1(-products)) - math.log(abs(rate))
    with np.errstate(over="ignore"):
        # 1/rate − step/(e^{rate·step} − 1): how far the mean is from that end; a little nearer to ε = 0 is larger
        away = np.where(products < 1e-4, steps / 2 * (1 - products / 6), 1 / abs(rate) - steps / np.expm1(products))
    place = (steps - away if rate > 0 else away) * (1 - 1e-9)
    heights = bounds[:-1] - (bounds[:-1] - bounds[1:]) * np.expm1(np.clip(place, 0, steps)) / np.expm1(steps)
    return float(logsumexp(log_weights + np.log(np.maximum(heights, 5e-324))))


def _log_tail(order: float, top: float, shift: float, parts: list[tuple[float, float]]) -> float:
    """log of ∫ e^{(order−1)ε}·δ(ε) dε beyond ``top``, by the best of many β."""
    beyond = (order + 1) * np.geomspace(1e-3, 1e3, 61)
    beta = order + beyond
    counts, mus = np.array(parts).T
    log_moments = logsumexp(np.multiply.outer(beta * (beta - 1) / 2, mus**2), axis=1, b=counts)
    return float(np.min(log_moments + (beta - 1) * shift - beyond * top - np.log(beyond)))
