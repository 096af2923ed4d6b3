"""The least noise of one perturbed minimiser that keeps a guarantee, by its exact privacy profile."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from discreet.calibration.guarantee import Guarantee
from discreet.errors import HypothesisViolated
from discreet.measurements.perturbed_minimum import PerturbedMinimum

__all__ = ["least_multiplier"]


def least_multiplier(
    make: Callable[[float], PerturbedMinimum], guarantee: Guarantee, guess: float, precision: float = 1e-6
) -> float:
    """The least noise multiplier whose single release keeps the guarantee, to a relative ``precision`` from above.

    Raises:
        HypothesisViolated: log det alone exceeds ε, so that no noise is enough.
    """
    from scipy.optimize import brentq

    excess = _excess(make, guarantee)
    low = high = math.log(guess)
    step = 0.02
    while excess(low) <= 0:
        high, low, step = low, low - step, 4 * step
    while excess(high) > 0:
        low, high, step = high, high + step, 4 * step
        if high > 80:
            raise HypothesisViolated(
                f"no noise reaches ε={guarantee.epsilon:g} with this regularisation: its log det is too large. "
                "Raise regularisation, or leave it out."
            )
    root = float(brentq(excess, low, high, xtol=precision / 4, rtol=1e-15)) if low < high else high
    while excess(root) > 0:
        root += precision / 4
    return math.exp(root)


def _excess(make: Callable[[float], PerturbedMinimum], guarantee: Guarantee) -> Callable[[float], float]:
    """A function of the log of the multiplier, positive where the noise is too little.

    It is √ln(1/δ) − √ln(1/δ(ε)), nearly linear, so that a secant finds its zero fast; for pure ε it is ε'/ε − 1.
    """
    from discreet.accounting.exact.objective_perturbation import objective_profile
    from discreet.events import ObjectivePerturbation, PureDP

    target, unit = np.array([guarantee.epsilon]), guarantee.unit

    @cache
    def excess(log_multiplier: float) -> float:
        event = make(math.exp(log_multiplier)).event(unit)
        if isinstance(event, PureDP):
            return event.epsilon * unit.rows_per_unit / guarantee.epsilon - 1
        assert isinstance(event, ObjectivePerturbation)
        delta = float(objective_profile(event, unit)(target)[0])
        return math.sqrt(-math.log(guarantee.delta)) - math.sqrt(-math.log(max(delta, 1e-320)))

    return excess
