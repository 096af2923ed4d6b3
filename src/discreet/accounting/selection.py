"""The price of keeping only the best of K private runs.

Reporting the best of a *fixed* number of runs costs all of them. If K is random with a heavy enough tail, seeing a good
result says little about how many were tried, and the price is a constant factor (Liu–Talwar 2019; Papernot–Steinke
2022). The runs must be independent given the data, and nothing but the best one may be shown.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from discreet.errors import InvalidInput
from discreet.events import Event, PrivateSelection
from discreet.units import Adjacency, Unit

__all__ = ["log_inverse_gamma", "mean_runs", "selection_divergence", "selection_pure_epsilon"]


def selection_pure_epsilon(epsilon: float, eta: float = 1.0) -> float:
    """ε-DP runs give a (2 + η)ε-DP selection; 3ε for geometric K, whatever its mean (Papernot–Steinke 2022, cor. 3).

    Example:
        >>> selection_pure_epsilon(0.5)
        1.5
    """
    if not eta > -1:
        raise InvalidInput(f"the shape eta must exceed −1, got {eta!r}.")
    return (2 + eta) * epsilon


def mean_runs(gamma: float, eta: float) -> float:
    """E[K] of the negative binomial truncated at K ≥ 1: η(1 − γ)/(γ(1 − γ^η)), and (1/γ − 1)/log(1/γ) at η = 0.

    Example:
        >>> round(mean_runs(0.01, 1.0), 9)
        100.0
    """
    if not 0 < gamma < 1:
        raise InvalidInput(f"gamma must be in (0, 1), got {gamma!r}.")
    return _mean(-math.log(gamma), eta)


def _mean(x: float, eta: float) -> float:
    """E[K] at γ = e^{−x}; grows with x."""
    if eta == 0:
        return math.expm1(x) / x if x < 700 else math.inf
    if x > 700:
        return math.inf
    # η(e^x − 1)/(1 − e^{−ηx}); for η < 0 both factors of the denominator's sign cancel.
    return eta * math.expm1(x) / -math.expm1(-eta * x)


def log_inverse_gamma(mean: float, eta: float) -> float:
    """log(1/γ), rounded up, of the truncated negative binomial with the given mean of K.

    Example:
        >>> round(log_inverse_gamma(100.0, 1.0), 6)
        4.60517
    """
    if not mean >= 1:
        raise InvalidInput(f"the mean number of runs must be at least 1, got {mean!r}.")
    if mean == 1:
        return 0.0
    low, high = 0.0, 1.0
    while _mean(high, eta) < mean:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if _mean(middle, eta) < mean else (low, middle)
    return high * (1 + 1e-12)


def selection_divergence(event: PrivateSelection, order: float, adjacency: Adjacency) -> float:
    """D_λ of the best of K runs.

    Truncated negative binomial (Papernot–Steinke 2022, theorem 2): for any second order λ̂ ≥ 1,

        ε'(λ) = ε(λ) + (1 + η)(1 − 1/λ̂)·ε(λ̂) + (1 + η)·log(1/γ)/λ̂ + log E[K]/(λ − 1).

    Poisson (theorem 6): with δ̂ the inner δ at ε̂ = log(1 + 1/(λ − 1)),

        ε'(λ) = log(e^{−μ} + μ·exp((λ − 1)(ε(λ) + μδ̂)))/(λ − 1),

    where e^{−μ} is the chance that nothing is run. Divergences grow with the order, so a bound at any higher λ serves.

    Args:
        event: the selection.
        order: λ > 1.
        adjacency: the relation, or a `Unit`; the inner runs are read under the same.

    Example:
        >>> from discreet.events import Gaussian
        >>> round(selection_divergence(PrivateSelection(Gaussian(5.0), 10.0), 10.0, "add-remove"), 2)
        1.27
    """
    from discreet.accounting.renyi import divergence

    unit = Unit.of(adjacency)
    if event.distribution == "poisson":
        return _poisson(event, order, unit)
    higher = [order, *(1 + (order - 1) * np.geomspace(1.2, 1000, 12)).tolist()]
    tilt, log_mean = _tilt(event, unit), math.log(event.mean)
    best = min(divergence(event.event, at, unit) + log_mean / (at - 1) for at in higher)
    return min(_pure(event, unit), best + tilt)


def _poisson(event: PrivateSelection, order: float, unit: Unit) -> float:
    from discreet.accounting.renyi import delta_upper, divergence

    failure = delta_upper(event.event, math.log1p(1 / (order - 1)), unit)
    some = math.log(event.mean) + (order - 1) * (divergence(event.event, order, unit) + event.mean * failure)
    return float(np.logaddexp(-event.mean, some)) / (order - 1)


@lru_cache(maxsize=256)
def _tilt(event: PrivateSelection, unit: Unit) -> float:
    """(1 + η)·((1 − 1/λ̂)·ε(λ̂) + log(1/γ)/λ̂) at the best second order λ̂ found."""
    from discreet.accounting.renyi import divergence

    log_gamma = log_inverse_gamma(event.mean, event.eta)

    def price(second: float) -> float:
        inner = divergence(event.event, second, unit) if second > 1 else 0.0
        return (1 + event.eta) * ((1 - 1 / second) * inner + log_gamma / second)

    seconds = [1.0, *(1 + np.geomspace(0.05, 1e5, 40))]
    best = min(range(len(seconds)), key=lambda i: price(float(seconds[i])))
    around = np.linspace(seconds[max(best - 1, 0)], seconds[min(best + 1, len(seconds) - 1)], 15)
    return min(price(float(second)) for second in around)


def _pure(event: Event, unit: Unit) -> float:
    from discreet.accounting.classical import pure_epsilon

    return pure_epsilon(event, unit)
