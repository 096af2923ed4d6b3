"""Rules of events that state a guarantee: pure, approximate, concentrated and Rényi DP."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.exact.pairs import DiscretePair
from discreet.accounting.rules.base import NOTHING, Rho, Rule, Unbounded, both, from_profile, rule, two_atoms
from discreet.errors import NotCertifiable
from discreet.events import ZCDP, ApproxDP, Promise, PureDP, RenyiDP
from discreet.units import Unit

__all__: list[str] = []

Array = NDArray[Any]


@rule.register
def _(event: PureDP, unit: Unit) -> Rule:
    return both(two_atoms(unit.rows_per_unit * event.epsilon)) if event.epsilon > 0 else NOTHING


@rule.register
def _(event: ApproxDP, unit: Unit) -> Rule:
    k, epsilon = unit.rows_per_unit, event.epsilon
    if event.delta >= 1:
        return Unbounded()
    if epsilon == 0 and event.delta == 0:
        return NOTHING
    growth = k if epsilon == 0 else math.expm1(min(k * epsilon, 700.0)) / math.expm1(min(epsilon, 700.0 / k))
    failure = event.delta * growth * (1 + 1e-14) if k > 1 else event.delta  # group privacy
    if failure >= 1:
        return Unbounded()
    if epsilon == 0:
        return both(DiscretePair(np.array([0.0]), np.array([1 - failure]), failure, 0.0, 1.0))
    return both(two_atoms(k * epsilon, failure))


@rule.register
def _(event: Promise, unit: Unit) -> Rule:
    if unit.rows_per_unit > event.rows_per_unit:
        raise NotCertifiable(f"this promise is made for units of up to {event.rows_per_unit} rows, not for {unit}.")
    return rule(ApproxDP(event.epsilon, event.delta), Unit(unit.relation))


@rule.register
def _(event: ZCDP, unit: Unit) -> Rule:
    return Rho(event.rho * unit.rows_per_unit**2)


@rule.register
def _(event: RenyiDP, unit: Unit) -> Rule:
    """δ(ε) ≤ e^{(α−1)(τ−ε)}/(α − 1)·(1 − 1/α)^α (Canonne–Kamath–Steinke 2020, Proposition 12)."""
    if unit.rows_per_unit > event.rows_per_unit:
        raise NotCertifiable(f"this bound is stated for units of up to {event.rows_per_unit} rows, not for {unit}.")
    alpha, tau = event.order, event.divergence * (1 + 1e-12)
    constant = alpha * math.log1p(-1 / alpha) - math.log(alpha - 1)

    def bound(epsilon: Array) -> Array:
        return np.exp(np.clip((alpha - 1) * (tau - np.asarray(epsilon, dtype=float)) + constant, -746.0, 0.0))

    return from_profile(bound, tau + (745.0 + max(constant, 0.0)) / (alpha - 1))
