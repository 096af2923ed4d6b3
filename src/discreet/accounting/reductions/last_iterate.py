"""Privacy of noisy gradient descent when only the *last* iterate is shown.

Two runs on neighbouring data drift apart by at most s a step and are pulled together by a factor c ≤ 1, and the noise
of later steps hides the drift of earlier ones. Interpolating between the runs with shifts a_1, …, a_m
(Bok–Su–Altschuler 2024) gives, for any start of the interpolation m steps before the end where the runs are at most D
apart,

    μ² = min Σ a_t²/ν²  subject to  Σ c^{m−t}·a_t = c^m·D + s·(1 − c^m)/(1 − c),

ν the noise's standard deviation in an iterate. Cauchy–Schwarz solves it: a_t ∝ c^{m−t}, so

    μ² = (c^m·D + s·(1 − c^m)/(1 − c))²·(1 − c²)/(1 − c^{2m})/ν².

m = T, D = 0 is the strongly convex formula of the paper; m < T with the diameter is the convex, bounded one.

*Cyclic batches* (`last_iterate_mu` with ``batches`` = l > 1): a row moves one step in l, so that drifts arrive at steps
T, T − l, T − 2l, … in the worst case, and none may be absorbed before it arrived. *Sampled batches*
(`absorbed_distance`): a row moves a step with a small probability, which composition accounts for, and only the
distance at the start of the last m steps is absorbed. Proofs: ``docs/maths/last_iterate.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from discreet.errors import HypothesisViolated

__all__ = ["absorbed_distance", "contraction_of", "last_iterate_mu"]


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
    steps: int,
    shift: float,
    noise: float,
    contraction: float,
    *,
    diameter: float = math.inf,
    rounding: float = 0.0,
    batches: int = 1,
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
        batches: l fixed batches taken in turn, of which one contains the row; 1 takes all rows each step.

    Raises:
        HypothesisViolated: a map that expands, or a value that is no number of its kind.

    Example:
        >>> round(last_iterate_mu(10**6, 0.1, 1.0, 0.9), 6)  # a million steps cost as much as nineteen
        0.43589
    """
    _require_numbers(steps, shift, noise, contraction, diameter, rounding, batches)
    count, turns = int(steps), int(batches)
    if turns == 1:
        least = _least(count, diameter, shift + 2 * rounding, contraction)
    else:  # shifts that absorb the row's drifts, and shifts that absorb what rounding adds: lengths of sums
        least = _least_cyclic(count, turns, diameter, shift, contraction)
        least += _interpolated(count, 0.0, 2 * rounding, contraction)
    return least / noise * (1 + 1e-12)


def absorbed_distance(
    steps: int, window: int, contraction: float, *, diameter: float = math.inf, rounding: float = 0.0
) -> float:
    """√(Σ a_t²), in units of s, of the shifts that absorb how far apart the runs are before the last steps.

    For *sampled* batches: before the last ``window`` steps the runs are at most min(D, (s + 2ϱ)(1 + c + c² + …)) apart,
    for a row may have been in every batch so far; within the window what rounding displaces is absorbed as well, while
    the row's own drifts are paid for by composition.

    Args:
        steps: T ≥ 1.
        window: m ≤ T, the steps in which every sampled batch is accounted for.
        contraction: c ≤ 1 of a noiseless step, whatever the batch.
        diameter: in units of s.
        rounding: in units of s.

    Raises:
        HypothesisViolated: a map that expands, or a window that is longer than the run.

    Example:
        >>> absorbed_distance(1000, 1000, 0.9)  # the whole run is accounted for, and both begin at the same point
        0.0
        >>> round(absorbed_distance(10**6, 200, 0.9), 12)
        3.075e-09
    """
    _require_numbers(steps, 1.0, 1.0, contraction, diameter, rounding, 1)
    if not 1 <= window <= steps:
        raise HypothesisViolated(f"a window has between 1 and {steps} steps, got {window!r}.")
    before, drift = int(steps) - int(window), 1.0 + 2 * rounding
    if contraction == 0:
        apart = drift * min(before, 1)
    else:
        apart = drift * _sum_of_powers(before, math.log(contraction))
    return _interpolated(int(window), min(diameter, apart), 2 * rounding, contraction) * (1 + 1e-9)


def _require_numbers(
    steps: int, shift: float, noise: float, contraction: float, diameter: float, rounding: float, batches: int
) -> None:
    if not 0 <= contraction <= 1:
        raise HypothesisViolated(f"last-iterate accounting needs a contraction c in [0, 1], got {contraction!r}.")
    if not (shift >= 0 and 0 < noise < math.inf and rounding >= 0 and diameter >= 0 and steps >= 1 and batches >= 1):
        raise HypothesisViolated(
            "last-iterate accounting needs shift, rounding, diameter ≥ 0, noise > 0, steps ≥ 1 and batches ≥ 1, got "
            f"shift={shift!r}, rounding={rounding!r}, diameter={diameter!r}, noise={noise!r}, steps={steps!r}, "
            f"batches={batches!r}."
        )


def _least(steps: int, diameter: float, drift: float, c: float) -> float:
    """μ·ν where every step drifts: from the common start, or from the diameter if that is less."""
    whole = _interpolated(steps, 0.0, drift, c)
    if math.isinf(diameter) or drift == 0:
        return whole
    return min(whole, _search(steps, lambda m: _interpolated(m, diameter, drift, c)))


def _least_cyclic(steps: int, batches: int, diameter: float, shift: float, c: float) -> float:
    """μ·ν where every ``batches``-th step drifts, the last one among them."""
    times = -(-steps // batches) - 1  # drifts before that of the last step
    whole = _cyclic(times, batches, 0.0, shift, c)
    if math.isinf(diameter) or shift == 0:
        return whole
    started = min(_cyclic(0, batches, diameter, shift, c), whole)
    return min(started, _search(times, lambda e: _cyclic(e, batches, diameter, shift, c))) if times else started


def _cyclic(times: int, batches: int, distance: float, shift: float, c: float) -> float:
    """μ·ν of an interpolation that begins before a drift, ``times``·``batches`` steps before the last step.

    With k = T − t the weight of a shift is c^k. What arrives before the last step, X = c^(el+1)·D + s·Σ c^(il), is
    absorbed over el steps of squared weights U = Σ c^(2k) at a cost of X²/U, the last drift by the last step; if that
    would absorb more than its share of the last one, all together cost (X + s)²/(U + 1).
    """
    if times == 0:
        return c * distance + shift
    if c == 0:
        return shift
    earlier, log_c = times * batches, math.log(c)
    arrived = math.exp((earlier + 1) * log_c) * distance
    arrived += shift * math.exp(batches * log_c) * _sum_of_powers(times, batches * log_c)
    weights = math.exp(2 * log_c) * _sum_of_powers(earlier, 2 * log_c)
    if shift * weights >= arrived:
        return math.hypot(shift, arrived / math.sqrt(weights)) if weights > 0 else shift
    return (arrived + shift) / math.sqrt(weights + 1)


def _interpolated(m: int, distance: float, drift: float, c: float) -> float:
    """μ·ν of an interpolation over the last m steps."""
    if c == 0:
        return drift
    log_c = math.log(c)
    travelled = math.exp(m * log_c) * distance + drift * _sum_of_powers(m, log_c)
    return travelled / math.sqrt(_sum_of_powers(m, 2 * log_c))


def _sum_of_powers(terms: int, log_c: float) -> float:
    """1 + c + … + c^(terms − 1) for c = exp(log_c)."""
    return float(terms) if log_c == 0 or terms == 0 else math.expm1(terms * log_c) / math.expm1(log_c)


def _search(most: int, cost: Callable[[int], float]) -> float:
    """The least cost of 1, …, most: any is valid, so a search by powers and then around their best is enough."""
    powers = sorted({min(most, 2**j) for j in range(most.bit_length() + 1)})
    start = min(powers, key=cost)
    low, high = max(1, start // 2), min(most, 2 * start)
    stride = max(1, (high - low) // 512)
    return min(cost(m) for m in {*range(low, high + 1, stride), start})
