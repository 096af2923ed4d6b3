"""Rules of events that state a guarantee: pure, approximate, concentrated and Rényi DP."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.bounds import sum_up
from discreet.accounting.exact.pairs import DiscretePair
from discreet.accounting.rules.base import (
    MOST_LOSS,
    NOTHING,
    Rho,
    Rule,
    Unbounded,
    both,
    from_profile,
    rule,
    two_atoms,
)
from discreet.accounting.upper.stated import group
from discreet.errors import NotCertifiable
from discreet.events import ZCDP, ApproxDP, Promise, PureDP, RenyiDP
from discreet.units import Unit

__all__: list[str] = []

Array = NDArray[Any]


@rule.register
def _(event: PureDP, unit: Unit) -> Rule:
    loss = sum_up([(event.epsilon, unit.rows_per_unit)])
    if loss > MOST_LOSS:
        return Unbounded()
    return both(two_atoms(loss)) if loss > 0 else NOTHING


@rule.register
def _(event: ApproxDP, unit: Unit) -> Rule:
    k, epsilon = unit.rows_per_unit, event.epsilon
    if event.delta >= 1:
        return Unbounded()
    if epsilon == 0 and event.delta == 0:
        return NOTHING
    loss, failure = group(epsilon, event.delta, k)
    if failure >= 1 or loss > MOST_LOSS:
        return Unbounded()
    if epsilon == 0:
        return both(DiscretePair(np.array([0.0]), np.array([1 - failure]), failure, 0.0, 1.0))
    return both(two_atoms(loss, failure))


@rule.register
def _(event: Promise, unit: Unit) -> Rule:
    if unit.rows_per_unit > event.rows_per_unit:
        raise NotCertifiable(f"this promise is made for units of up to {event.rows_per_unit} rows, not for {unit}.")
    return rule(ApproxDP(event.epsilon, event.delta), Unit(unit.relation))


@rule.register
def _(event: ZCDP, unit: Unit) -> Rule:
    rho = sum_up([(event.rho, unit.rows_per_unit**2)])
    return Unbounded() if rho > MOST_LOSS else Rho(rho)


@rule.register
def _(event: RenyiDP, unit: Unit) -> Rule:
    """δ(ε) ≤ e^{(α−1)(τ−ε)}/(α − 1)·(1 − 1/α)^α (Canonne–Kamath–Steinke 2020, Proposition 12)."""
    if unit.rows_per_unit > event.rows_per_unit:
        raise NotCertifiable(f"this bound is stated for units of up to {event.rows_per_unit} rows, not for {unit}.")
    alpha, tau = event.order, event.divergence * (1 + 1e-12)
    if tau > MOST_LOSS:
        return Unbounded()
    constant = alpha * math.log1p(-1 / alpha) - math.log(alpha - 1)

    def bound(epsilon: Array) -> Array:
        return np.exp(np.clip((alpha - 1) * (tau - np.asarray(epsilon, dtype=float)) + constant, -746.0, 0.0))

    return from_profile(bound, tau + (745.0 + max(constant, 0.0)) / (alpha - 1))
