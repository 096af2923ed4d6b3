"""The best lower bound that a family of attained pairs has for repetitions of one release."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import gammaln

from discreet.accounting.bounds import guarded
from discreet.accounting.exact.fourier import Fourier
from discreet.accounting.exact.pairs import DiscretePair
from discreet.accounting.exact.single_release import epsilon_of_one
from discreet.errors import NotCertifiable

__all__ = ["best_of_family"]

_GOLDEN = (math.sqrt(5) - 1) / 2
_MOST_TIMES = 10**6


def best_of_family(family: Callable[[float], DiscretePair], times: int, delta: float) -> float:
    """A certified lower bound of ε(δ) of ``times`` releases of the pair that loses most, the same one each time.

    The pair is sought on a grid and by golden sections in plain floating point, which proves nothing; the bound is that
    of the Fourier accountant for the pair that was found, or 0.

    Args:
        family: a number in (0, 1) ↦ a pair of two losses that some neighbours reach.
        times: how often.
        delta: in (0, 1).
    """
    if times > _MOST_TIMES:
        return 0.0

    def loses(log_rest: float) -> float:
        return _rough(family(-math.expm1(log_rest)), times, delta)

    grid = np.concatenate([np.linspace(math.log(1e-9), math.log(0.02), 30), np.log(np.linspace(0.04, 0.7, 34))])
    best_at = int(np.argmax([loses(float(u)) for u in grid]))  # of log(1 − share): the best share may be close to 1
    low, high = float(grid[max(best_at - 1, 0)]), float(grid[min(best_at + 1, len(grid) - 1)])
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = loses(left), loses(right)
    for _ in range(24):
        if at_left >= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = loses(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = loses(right)
    best = family(-math.expm1(left if at_left >= at_right else right))
    if times == 1:
        return min(epsilon_of_one(best, delta).lower, float(best.losses.max()))
    try:
        return guarded(lambda: Fourier([(best, times)]).epsilon(delta).lower)
    except NotCertifiable:
        return 0.0


def _rough(pair: DiscretePair, times: int, delta: float) -> float:
    """ε(δ) of so many releases of a pair of two losses, from the binomial law; it proves nothing."""
    (below, above), (miss, hit) = pair.losses.tolist(), pair.probabilities.tolist()
    if not 0 < hit < 1:
        return 0.0
    spread = 12 * math.sqrt(times * hit * miss) + 40
    hits = np.arange(max(0, math.floor(times * hit - spread)), min(times, math.ceil(times * hit + spread)) + 1)
    log_mass = gammaln(times + 1) - gammaln(hits + 1) - gammaln(times - hits + 1)
    mass = np.exp(log_mass + hits * math.log(hit) + (times - hits) * math.log(miss))
    losses = below * (times - hits) + above * hits
    # δ is straight in e^ε between losses: at each loss its value, then the root on the line that holds δ
    tail, weighted = np.cumsum(mass[::-1])[::-1], np.cumsum((mass * np.exp(-losses))[::-1])[::-1]
    with np.errstate(over="ignore", invalid="ignore"):  # of losses beyond 700: a pair that is not sought
        values = tail - np.exp(losses) * weighted
    positive = np.flatnonzero(values > delta)
    at = int(positive[-1]) + 1 if len(positive) else 0
    if at >= len(losses) or tail[at] <= delta or weighted[at] == 0:
        return max(float(losses[min(at, len(losses) - 1)]), 0.0) if len(positive) else 0.0
    return max(math.log(tail[at] - delta) - math.log(weighted[at]), 0.0)
