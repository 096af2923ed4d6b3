"""The least noise with which T private selections keep a guarantee, and a closed form of it for plans."""

from __future__ import annotations

import math
from typing import Literal

from discreet import events
from discreet.calibration.guarantee import Guarantee
from discreet.units import Unit

__all__ = ["Kind", "rough_selection_multiplier", "selection_multiplier"]

Kind = Literal["exponential", "permute-and-flip"]


_MANY = 4096
"""Beyond so many selections the accountants have no better bound than zCDP, which is faster."""


def rough_selection_multiplier(count: int, guarantee: Guarantee, kind: Kind = "exponential") -> float:
    """The approximate noise multiplier of ``count`` selections, in closed form: to choose how many there should be.

    By basic composition, ε/T each; or, if δ > 0 and that is less noise, by zCDP, of which a selection of pure ε₀ costs
    ε₀²/8 (exponential mechanism) or ε₀²/2 (permute-and-flip).

    Example:
        >>> guarantee = Guarantee(1.0, 1e-6, Unit("add-remove"))
        >>> [round(rough_selection_multiplier(count, guarantee), 1) for count in (1, 100, 400)]
        [2.0, 53.5, 107.0]
    """
    sensitivity = guarantee.unit.sensitivity(1.0)
    pure = 2 * sensitivity * count / guarantee.epsilon
    if guarantee.delta == 0:
        return pure
    log = math.log(1 / guarantee.delta)
    root_rho = guarantee.epsilon / (math.sqrt(log + guarantee.epsilon) + math.sqrt(log))
    return min(pure, 2 * sensitivity * math.sqrt(count / (8 if kind == "exponential" else 2)) / root_rho)


def selection_multiplier(count: int, guarantee: Guarantee, kind: Kind = "exponential") -> float:
    """The least noise multiplier with which ``count`` selections keep the guarantee, to 7 digits.

    The noise multiplier is the scale of the selection over the most that one row changes a score (under replace-one,
    half of that), so one selection is 2·rows/multiplier-DP.

    Example:
        >>> pure = Guarantee(0.5, 0.0, Unit("replace-one"))
        >>> round(selection_multiplier(10, pure), 6)  # 2·(2 rows)·10 selections / ε
        80.0
    """
    one_row, epsilon = Unit(guarantee.unit.relation).sensitivity(1.0), guarantee.epsilon
    pure = math.nextafter(2 * guarantee.unit.sensitivity(1.0) * count / epsilon, math.inf)
    if guarantee.delta == 0:
        return pure

    def event(noise_multiplier: float) -> events.Event:
        return events.Repeat(events.Selection(2 * one_row / noise_multiplier, kind), count)

    if kind != "exponential" or count <= _MANY:
        from discreet.accounting import calibrate

        return min(pure, float(calibrate(event, epsilon, guarantee.delta, guarantee.unit)))
    from discreet.accounting.upper.zcdp import zcdp_epsilon_upper

    enough = rough_selection_multiplier(count, guarantee, kind)
    too_little = enough / 4
    while enough > too_little * (1 + 1e-8):
        middle = math.sqrt(enough * too_little)
        if zcdp_epsilon_upper(event(middle), guarantee.delta, guarantee.unit) <= epsilon:
            enough = middle
        else:
            too_little = middle
    return min(enough, pure)
