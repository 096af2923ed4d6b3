"""From a guarantee to a solver by zCDP alone, for runs of many private selections.

A long plan of Gaussian releases and bounded-range selections is accounted by its zCDP to within a part in a hundred of
ε of the numerical accountants, in a thousandth of their time, and in closed form where every noise scales together. Of
a few releases alone it takes up to a tenth of ε too much.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from discreet.calibration.guarantee import PURE_REFUSED, Guarantee
from discreet.calibration.rehearse import foresee
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.events import Event, compose
from discreet.solvers.base import Problem, Solver

__all__ = ["calibrated_by_zcdp"]

S = TypeVar("S", bound=Solver)


def calibrated_by_zcdp(make: Callable[[float], S], problem: Problem, guarantee: Guarantee) -> S:
    """make(noise) with the least noise whose zCDP keeps the guarantee; without noise for ε = ∞.

    Every noise of ``make(noise)`` must be in proportion to ``noise``, so that ρ is proportional to noise^−2.

    Raises:
        InvalidInput: δ = 0 asks for pure DP.
        HypothesisViolated: no zCDP proves so small an ε at so small a δ.
    """
    if not guarantee.private:
        return make(0.0)
    if guarantee.delta == 0:
        raise InvalidInput(PURE_REFUSED)
    from discreet.accounting.upper.classical import zcdp_epsilon_upper, zcdp_rho

    def event(noise: float) -> Event:
        return compose(foresee(make(noise), problem, guarantee.unit))

    most = _largest_rho(guarantee)
    if not most:
        raise HypothesisViolated(
            f"no zCDP proves ε = {guarantee.epsilon:g} at δ = {guarantee.delta:g}, whatever the noise; ask for a "
            "larger epsilon or delta."
        )
    noise = math.sqrt(zcdp_rho(event(1.0), guarantee.unit) / most)
    while zcdp_epsilon_upper(event(noise), guarantee.delta, guarantee.unit) > guarantee.epsilon:
        noise *= 1 + 1e-9  # rounding in the square root, the sum or the conversion
    return make(noise)


def _largest_rho(guarantee: Guarantee) -> float:
    """The largest ρ that proves (ε, δ), by bisection."""
    from discreet.accounting.upper.zcdp import zcdp_to_epsilon

    low, high = 0.0, guarantee.epsilon  # ρ-zCDP proves no ε below ρ
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if zcdp_to_epsilon(middle, guarantee.delta) <= guarantee.epsilon else (low, middle)
    return low
