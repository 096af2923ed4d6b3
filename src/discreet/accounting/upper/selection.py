"""The price of keeping only the best of K private runs.

Reporting the best of a *fixed* number of runs costs all of them. If K is random with a heavy enough tail, seeing a good
result says little about how many were tried, and the price is a constant factor (Liu–Talwar 2019; Papernot–Steinke
2022). The runs must be independent given the data, and nothing but the best one may be shown.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from discreet.accounting.run_count import log_inverse_gamma
from discreet.accounting.upper.renyi import delta_upper, divergence, leaf_divergence, remembered
from discreet.accounting.upper.stated import pure_epsilon
from discreet.errors import InvalidInput
from discreet.events import PrivateSelection
from discreet.units import Adjacency, Unit

__all__ = ["selection_divergence", "selection_pure_epsilon"]


def selection_pure_epsilon(epsilon: float, eta: float = 1.0) -> float:
    """ε-DP runs give a (2 + η)ε-DP selection; 3ε for geometric K, whatever its mean (Papernot–Steinke 2022, cor. 3).

    Example:
        >>> selection_pure_epsilon(0.5)
        1.5
    """
    if not eta > -1:
        raise InvalidInput(f"the shape eta must exceed −1, got {eta!r}.")
    return (2 + eta) * epsilon


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
    unit = Unit.of(adjacency)
    if event.distribution == "poisson":
        return _poisson(event, order, unit)
    higher = [order, *(1 + (order - 1) * np.geomspace(1.2, 1000, 12)).tolist()]
    tilt, log_mean = _tilt(event, unit), math.log(event.mean)
    best = min(divergence(event.event, at, unit) + log_mean / (at - 1) for at in higher)
    return min(pure_epsilon(event, unit), best + tilt)


def _poisson(event: PrivateSelection, order: float, unit: Unit) -> float:
    failure = delta_upper(event.event, math.log1p(1 / (order - 1)), unit)
    some = math.log(event.mean) + (order - 1) * (divergence(event.event, order, unit) + event.mean * failure)
    return float(np.logaddexp(-event.mean, some)) / (order - 1)


@lru_cache(maxsize=256)
def _tilt(event: PrivateSelection, unit: Unit) -> float:
    """(1 + η)·((1 − 1/λ̂)·ε(λ̂) + log(1/γ)/λ̂) at the best second order λ̂ found."""
    log_gamma = log_inverse_gamma(event.mean, event.eta)

    def price(second: float) -> float:
        inner = divergence(event.event, second, unit) if second > 1 else 0.0
        return (1 + event.eta) * ((1 - 1 / second) * inner + log_gamma / second)

    seconds = [1.0, *(1 + np.geomspace(0.05, 1e5, 40))]
    best = min(range(len(seconds)), key=lambda i: price(float(seconds[i])))
    around = np.linspace(seconds[max(best - 1, 0)], seconds[min(best + 1, len(seconds) - 1)], 15)
    return min(price(float(second)) for second in around)


@leaf_divergence.register(PrivateSelection)
@remembered
def _(event: PrivateSelection, order: float, unit: Unit) -> float:
    return selection_divergence(event, order, unit)
