"""Privacy of noisy gradient descent when only the *last* iterate is shown.

Two runs on neighbouring data drift apart by at most s a step and are pulled together by a factor c ≤ 1, and the noise
of later steps hides the drift of earlier ones. Interpolating between the runs with shifts a_1, …, a_m
(Bok–Su–Altschuler 2024) gives, for any start of the interpolation m steps before the end where the runs are at most D
apart,

    μ² = min Σ a_t²/ν²  subject to  Σ c^{m−t}·a_t = c^m·D + s·(1 − c^m)/(1 − c),

ν the noise's standard deviation in an iterate. Cauchy–Schwarz solves it: a_t ∝ c^{m−t}, so

    μ² = (c^m·D + s·(1 − c^m)/(1 − c))²·(1 − c²)/(1 − c^{2m})/ν².

m = T, D = 0 is the strongly convex formula of the paper; m < T with the diameter is the convex, bounded one.
"""

from __future__ import annotations

import math

from discreet.errors import HypothesisViolated

__all__ = ["contraction_of", "last_iterate_mu"]


def contraction_of(step_size: float, smoothness: float, strong_convexity: float = 0.0) -> float:
    """The factor c = max(|1 − ηλ|, |1 − ηβ|) by which a gradient step brings two points together.

    Args:
        step_size: η.
        smoothness: β of the whole objective that the step descends.
        strong_convexity: λ of the same, 0 for a merely convex one.

    Raises:
        HypothesisViolated: the objective is not convex and smooth, or the step exceeds 2/β, so steps may expand.

    Example:
        >>> contraction_of(0.5, 1.0, 0.5)
        0.75
    """
    if not (0 < smoothness < math.inf and 0 <= strong_convexity <= smoothness):
        raise HypothesisViolated(
            f"last-iterate accounting needs 0 ≤ λ ≤ β < ∞ and β > 0, got λ={strong_convexity!r}, β={smoothness!r}."
        )
    if not 0 < step_size <= 2 / smoothness:
        raise HypothesisViolated(
            f"a step of {step_size!r} may expand distances; last-iterate accounting needs 0 < η ≤ 2/β = "
            f"{2 / smoothness:g}."
        )
    return max(abs(1 - step_size * strong_convexity), abs(1 - step_size * smoothness))


def last_iterate_mu(
    steps: int, shift: float, noise: float, contraction: float, *, diameter: float = math.inf, rounding: float = 0.0
) -> float:
    """The μ for which the last iterate is μ-GDP.

    Args:
        steps: T ≥ 1 noisy steps θ ← Π(θ − η·g(θ) + noise) from the same public start, Π a projection or nothing.
        shift: s, how far one step differs between neighbours at the same θ: η times the sensitivity of the mean
            gradient.
        noise: ν, standard deviation of the Gaussian noise in an iterate: η times that in the mean gradient.
        contraction: c ≤ 1 of a noiseless step, the same for both neighbours (`contraction_of`).
        diameter: of the set that iterates are projected on, if any.
        rounding: the most by which an iterate is displaced by rounding, ‖round(θ) − θ‖; it drifts both runs, so s +
            2·rounding.

    Raises:
        HypothesisViolated: a map that expands, or a value that is no number of its kind.

    Example:
        >>> round(last_iterate_mu(10**6, 0.1, 1.0, 0.9), 6)  # a million steps cost as much as nineteen
        0.43589
    """
    if not 0 <= contraction <= 1:
        raise HypothesisViolated(f"last-iterate accounting needs a contraction c in [0, 1], got {contraction!r}.")
    if not (shift >= 0 and 0 < noise < math.inf and rounding >= 0 and diameter >= 0 and steps >= 1):
        raise HypothesisViolated(
            "last-iterate accounting needs shift, rounding, diameter ≥ 0, noise > 0 and steps ≥ 1, got "
            f"shift={shift!r}, rounding={rounding!r}, diameter={diameter!r}, noise={noise!r}, steps={steps!r}."
        )
    drift = shift + 2 * rounding
    whole = _interpolated(int(steps), 0.0, drift, contraction)
    if math.isinf(diameter) or drift == 0:
        return whole / noise * (1 + 1e-12)
    return min(whole, _least_from_diameter(int(steps), diameter, drift, contraction)) / noise * (1 + 1e-12)


def _interpolated(m: int, distance: float, drift: float, c: float) -> float:
    """μ·ν of an interpolation over the last m steps."""
    if c == 1:
        return (distance + m * drift) / math.sqrt(m)
    if c == 0:
        return drift
    log_c = math.log(c)
    travelled = math.exp(m * log_c) * distance + drift * math.expm1(m * log_c) / math.expm1(log_c)
    return travelled * math.sqrt(math.expm1(2 * log_c) / math.expm1(2 * m * log_c))


def _least_from_diameter(steps: int, diameter: float, drift: float, c: float) -> float:
    """The best m: any is valid, so a search by powers and then around their best is enough."""
    powers = sorted({min(steps, 2**j) for j in range(steps.bit_length() + 1)})
    start = min(powers, key=lambda m: _interpolated(m, diameter, drift, c))
    low, high = max(1, start // 2), min(steps, 2 * start)
    stride = max(1, (high - low) // 512)
    return min(_interpolated(m, diameter, drift, c) for m in {*range(low, high + 1, stride), start})
