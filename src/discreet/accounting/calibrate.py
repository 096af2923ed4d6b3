"""Calibration: the inverse of accounting, always on the certified upper bound.

Each search ends at a value that was itself accounted and found within the target, next to one that was not.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from discreet.accounting.curve import Curve, _real, curve
from discreet.errors import InvalidInput, NotCertifiable
from discreet.events import Allocation, Compose, Event, Poisson, Repeat
from discreet.units import Adjacency

__all__ = ["calibrate", "calibrate_rate", "calibrate_steps"]

_LEAST, _MOST = 1e-6, 1e12


def _estimate(event: Event, delta: float, adjacency: Adjacency) -> float:
    return curve(event, adjacency).estimate(delta)


def _in_poisson_batches(event: Event) -> Event:
    """A similar event that is quickly accounted for: random allocations replaced by as many Poisson batches."""
    match event:
        case Allocation(batches, inner):
            return Repeat(Poisson(1 / batches, _in_poisson_batches(inner)), batches)
        case Repeat(inner, times):
            return Repeat(_in_poisson_batches(inner), times)
        case Compose(events):
            return Compose([_in_poisson_batches(part) for part in events])
        case _:
            return event


class _Nearby:
    """ε of the first history alone, on the contour of the event that was asked before: close, and it proves nothing."""

    def __init__(self) -> None:
        self.last: Curve | None = None

    def __call__(self, event: Event, delta: float, adjacency: Adjacency) -> float:
        self.last = curve(event, adjacency).start_from(self.last)
        return self.last.upper(delta, 0.0)

    @property
    def is_cheap(self) -> bool:
        """Whether the last answer came from a contour."""
        return self.last is not None and self.last.has_contour


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
        tolerance: the result is within this relative distance of a noise that fails, or 3e-4 for random allocation
            under replace-one, whose bounds are no finer.

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

    def excess(of: Callable[[Event, float, Adjacency], float], log_noise: float) -> float:
        return _log_ratio(of(make_event(math.exp(log_noise)), delta, adjacency), epsilon)

    def upper(event: Event, delta: float, adjacency: Adjacency) -> float:
        return curve(event, adjacency).stated_upper(delta, epsilon)

    def similar(event: Event, delta: float, adjacency: Adjacency) -> float:
        return curve(_in_poisson_batches(event), adjacency).upper(delta, 0.0)

    ends = math.log(_LEAST), math.log(_MOST)
    start, slope = 0.0, -1.0
    if (example := make_event(1.0)) != _in_poisson_batches(example):
        start, slope = _approach(lambda x: excess(similar, x), start, slope, *ends)
    start, slope = _approach(lambda x: excess(_estimate, x), start, slope, *ends)
    start, slope = _polish(excess, start, slope, *ends, tolerance)
    tolerance = max(tolerance, curve(make_event(math.exp(start)), adjacency).resolution)
    return math.exp(_search(lambda x: excess(upper, x), start, slope, *ends, tolerance, "noise multiplier"))


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


def _approach(
    excess: Callable[[float], float], x: float, slope: float, least: float, most: float
) -> tuple[float, float]:
    """A first guess of where a decreasing excess crosses 0, and its slope there: a few secant steps, proving
    nothing.
    """
    value = excess(x)
    for _ in range(12):
        step = min(max(-value / slope, -3.0), 3.0)
        nxt = min(max(x + step, least), most)
        if abs(nxt - x) < 1e-5:
            break
        new = excess(nxt)
        if abs(value) < 49 and abs(new) < 49 and (new - value) / (nxt - x) < -0.05:
            slope = (new - value) / (nxt - x)
        x, value = nxt, new
        if abs(value) < 2e-3:
            break
    return min(max(x - value / slope, least), most), slope


def _polish(
    excess: Callable[[Callable[[Event, float, Adjacency], float], float], float],
    x: float,
    slope: float,
    least: float,
    most: float,
    tolerance: float,
) -> tuple[float, float]:
    """A better guess and slope, where accounting along a contour makes two more questions cheap; it proves nothing."""
    nearby = _Nearby()
    last = math.nan, math.nan
    for _ in range(2):
        value = excess(nearby, x)
        if not nearby.is_cheap or abs(value) > 0.1:
            break
        found = (value - last[1]) / (x - last[0]) if x != last[0] else math.nan
        slope = found if found < -1e-3 else slope
        last = x, value
        x = min(max(x - (value + 0.4 * tolerance) / slope, least), most)
    return x, slope


def _search(
    excess: Callable[[float], float],
    x: float,
    slope: float,
    least: float,
    most: float,
    tolerance: float,
    what: str,
) -> float:
    """The least x, up to ``tolerance``, with excess(x) ≤ 0, for a decreasing excess of log ε.

    Ends at an x that was found within the target, and either misses it by a relative ``tolerance`` or lies that close
    to an x that was found beyond it.
    """
    good, bad = math.nan, math.nan
    last: tuple[float, float] | None = None
    step = 1e-6
    for _ in range(300):
        value = excess(x)
        if value <= 0:
            if value > -tolerance:
                return x
            good = x
            if x <= least:
                return x
        else:
            bad = x
            if x >= most:
                raise NotCertifiable(f"no {what} up to {math.exp(most):g} was proved to meet the target.")
        if good - bad <= tolerance:
            return good
        if last is not None and abs(value) < 49 and abs(last[1]) < 49 and x != last[0]:
            found = (value - last[1]) / (x - last[0])
            slope = found if found < -1e-3 else slope
        last = x, value
        nxt = x - (value + 0.4 * tolerance) / slope  # aim inside the band of answers
        if math.isnan(good) or math.isnan(bad):
            step *= 4
            ahead = x + step if math.isnan(good) else x - step
            inward = nxt > x if math.isnan(good) else nxt < x
            nxt = nxt if inward and abs(nxt - x) < max(10 * step, 0.5) and abs(value) < 49 else ahead
        elif not bad < nxt < good or abs(value) >= 49:
            nxt = (good + bad) / 2
        x = min(max(nxt, least), most)
    return good


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
        return curve(make_event(steps), adjacency).stated_upper(delta, epsilon) <= epsilon

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

    def excess(of: Callable[[Event, float, Adjacency], float], minus_log_rate: float) -> float:
        return _log_ratio(of(make_event(min(1.0, math.exp(-minus_log_rate))), delta, adjacency), epsilon)

    def upper(event: Event, delta: float, adjacency: Adjacency) -> float:
        return curve(event, adjacency).stated_upper(delta, epsilon)

    if excess(upper, 0.0) <= 0:
        return 1.0
    most = -math.log(1e-12)
    start, slope = _approach(lambda x: excess(_estimate, x), 3.0, -1.0, 0.0, most)
    start, slope = _polish(excess, start, slope, 0.0, most, tolerance)
    return math.exp(-_search(lambda x: excess(upper, x), start, slope, 0.0, most, tolerance, "inverse rate"))
