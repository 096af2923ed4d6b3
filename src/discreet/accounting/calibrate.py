"""Calibration: the inverse of accounting, always on the certified upper bound.

Each search ends at a value that was itself accounted and found within the target, next to one that was not.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from discreet.accounting.curve import _real, curve
from discreet.errors import InvalidInput, NotCertifiable
from discreet.events import Event
from discreet.units import Adjacency

__all__ = ["calibrate", "calibrate_rate", "calibrate_steps"]

_LEAST, _MOST = 1e-6, 1e12


def _upper(event: Event, delta: float, adjacency: Adjacency) -> float:
    return curve(event, adjacency).epsilon(delta).upper


def calibrate(
    make_event: Callable[[float], Event],
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    *,
    tolerance: float = 1e-7,
) -> float:
    """The least noise multiplier for which ``make_event(noise_multiplier)`` is proved (ε, δ)-DP.

    Args:
        make_event: noise multiplier ↦ event; more noise must not mean less privacy.
        epsilon: target, positive; infinite asks for no noise at all and is refused.
        delta: target, in [0, 1].
        adjacency: ``"replace-one"``, ``"add-remove"`` or a `Unit`.
        tolerance: the result is within this relative distance of a noise that fails.

    Raises:
        InvalidInput: a target is out of range.
        NotCertifiable: no noise multiplier up to 1e12 meets the target.

    Example:
        >>> from discreet.events import Gaussian, Poisson, Repeat
        >>> noise = calibrate(lambda s: Repeat(Poisson(0.01, Gaussian(s)), 10_000), 1.0, 1e-5, "add-remove")
        >>> round(noise, 4)
        3.8128
    """
    epsilon = _target(epsilon)
    delta = _real("delta", delta, 0.0, 1.0)

    def excess(log_noise: float) -> float:
        return _log_ratio(_upper(make_event(math.exp(log_noise)), delta, adjacency), epsilon)

    return math.exp(_search(excess, 0.0, math.log(_LEAST), math.log(_MOST), tolerance, "noise multiplier"))


def _target(epsilon: float) -> float:
    epsilon = _real("epsilon", epsilon, 0.0, math.inf)
    if epsilon == 0 or math.isinf(epsilon):
        raise InvalidInput(f"epsilon must be positive and finite to calibrate for, got {epsilon!r}.")
    return epsilon


def _log_ratio(found: float, wanted: float) -> float:
    """log(found/wanted), kept finite: the search needs signs everywhere and slopes only near 0."""
    if found <= 0:
        return -50.0
    return min(50.0, math.log(found / wanted)) if math.isfinite(found) else 50.0


def _search(
    excess: Callable[[float], float], start: float, least: float, most: float, tolerance: float, what: str
) -> float:
    """The least x, up to ``tolerance``, with excess(x) ≤ 0, for a decreasing excess."""
    x, step = start, 1.0
    value = excess(x)
    good, bad = (x, math.nan) if value <= 0 else (math.nan, x)
    seen = [(x, value)]
    while math.isnan(good) or math.isnan(bad):
        x = min(most, x + step) if math.isnan(good) else max(least, x - step)
        # log ε falls about linearly in log noise: let the secant lead, within bounds
        if len(seen) > 1 and seen[-1][1] != seen[-2][1]:
            (x0, v0), (x1, v1) = seen[-2:]
            lead = x1 - v1 * (x1 - x0) / (v1 - v0)
            side = 1.0 if math.isnan(good) else -1.0
            if abs(v1) < 49 and side * (lead - x1) > 0:
                lead += side * max(0.02 * abs(lead - x1), 2 * tolerance)
                x = min(max(lead, x1 - 4), x1 + 4, most) if side > 0 else max(min(lead, x1 + 4), x1 - 4, least)
        value = excess(x)
        seen.append((x, value))
        if value <= 0:
            good = x
            if x <= least:
                return x
        else:
            bad = x
            if x >= most:
                raise NotCertifiable(f"no {what} up to {math.exp(most):g} was proved to meet the target.")
        step *= 2
    points = {at: v for at, v in seen}
    for round_ in range(200):
        if good - bad <= tolerance:
            break
        vg, vb = points[good], points[bad]
        middle = (good + bad) / 2
        if vg > -49 and vb < 49 and vg != vb and round_ % 4 != 3:
            lead = _inverse_quadratic(points, good, bad)
            # aim just past the crossing, so that the next point closes the bracket from the other side
            margin = min(0.45 * tolerance, 0.1 * (good - bad))
            middle = lead + margin if good - lead > lead - bad else lead - margin
            middle = min(max(middle, bad + 0.01 * (good - bad)), good - 0.01 * (good - bad))
        value = excess(middle)
        points[middle] = value
        if value <= 0:
            good = middle
        else:
            bad = middle
    return good


def _inverse_quadratic(points: dict[float, float], good: float, bad: float) -> float:
    """Where excess is 0: through the three points nearest to it, or the two that bracket it."""
    near = sorted(points.items(), key=lambda item: abs(item[1]))[:3]
    if len({v for _, v in near}) == 3 and good in dict(near) and bad in dict(near):
        (x0, f0), (x1, f1), (x2, f2) = near
        lead = x0 * f1 * f2 / ((f0 - f1) * (f0 - f2))
        lead += x1 * f0 * f2 / ((f1 - f0) * (f1 - f2)) + x2 * f0 * f1 / ((f2 - f0) * (f2 - f1))
        if bad < lead < good:
            return lead
    vg, vb = points[good], points[bad]
    return bad + (good - bad) * vb / (vb - vg)


def calibrate_steps(
    make_event: Callable[[int], Event], epsilon: float, delta: float, adjacency: Adjacency, *, most: int = 10**9
) -> int:
    """The most steps for which ``make_event(steps)`` is proved (ε, δ)-DP; 0 when not even one is.

    Args:
        make_event: number of steps ↦ event; more steps must not mean more privacy.
        epsilon: target, positive.
        delta: target, in [0, 1].
        adjacency: ``"replace-one"``, ``"add-remove"`` or a `Unit`.
        most: never answer more than this.

    Example:
        >>> from discreet.events import Gaussian, Repeat
        >>> calibrate_steps(lambda t: Repeat(Gaussian(10.0), t), 1.0, 1e-5, "add-remove")
        7
    """
    epsilon = _target(epsilon)
    delta = _real("delta", delta, 0.0, 1.0)
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise InvalidInput(f"most must be a positive integer, got {most!r}.")

    def fits(steps: int) -> bool:
        return _upper(make_event(steps), delta, adjacency) <= epsilon

    low, high = 0, 1
    while fits(high):
        low = high
        if high == most:
            return most
        high = min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def calibrate_rate(
    make_event: Callable[[float], Event],
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    *,
    tolerance: float = 1e-7,
) -> float:
    """The greatest sampling rate for which ``make_event(rate)`` is proved (ε, δ)-DP; 1 when every rate is.

    Args:
        make_event: rate in (0, 1] ↦ event; a higher rate must not mean more privacy.
        epsilon: target, positive.
        delta: target, in [0, 1].
        adjacency: ``"replace-one"``, ``"add-remove"`` or a `Unit`.
        tolerance: the result is within this relative distance of a rate that fails.

    Raises:
        NotCertifiable: not even a rate of 1e-12 meets the target.

    Example:
        >>> from discreet.events import Gaussian, Poisson, Repeat
        >>> rate = calibrate_rate(lambda q: Repeat(Poisson(q, Gaussian(4.0)), 10_000), 1.0, 1e-5, "add-remove")
        >>> 0.0105 < rate < 0.0106
        True
    """
    epsilon = _target(epsilon)
    delta = _real("delta", delta, 0.0, 1.0)

    def excess(minus_log_rate: float) -> float:
        return _log_ratio(_upper(make_event(min(1.0, math.exp(-minus_log_rate))), delta, adjacency), epsilon)

    return min(1.0, math.exp(-_search(excess, 0.0, 0.0, -math.log(1e-12), tolerance, "inverse rate")))
