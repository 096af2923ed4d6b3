"""The random number K of runs of which a private selection keeps the best: its law, its mean and its parameter γ."""

from __future__ import annotations

import math

from discreet.errors import InvalidInput

__all__ = ["log_inverse_gamma", "mean_runs"]


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
