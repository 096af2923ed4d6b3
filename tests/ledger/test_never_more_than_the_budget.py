"""Admitted charges never exceed the budget: fixed ones by exact composition, adaptive ones by the best attack."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from discreet import accounting
from discreet.errors import BudgetExceeded
from discreet.events import ApproxDP, Compose, Event, Gaussian, Laplace, Promise, compose
from discreet.ledger import Accountant, Budget, Ledger, Stated, adaptive
from discreet.ledger.adaptive import RESERVE, Entry, Shares
from discreet.ledger.tally import Tally
from discreet.units import Unit

UNIT = Unit("add-remove")
DELTA = 1e-4

releases = st.one_of(
    st.builds(Gaussian, st.floats(2.0, 60.0)),
    st.builds(Laplace, st.floats(2.0, 60.0)),
    st.builds(ApproxDP, st.floats(0.02, 0.5), st.sampled_from([DELTA / 2, DELTA / 3, DELTA / 10, DELTA / 1000])),
)
charges = st.tuples(releases, st.sampled_from(["plain", "stated", "promised"]), st.sampled_from([0.5, 0.3, 0.05]))


def charge(ledger: Ledger, event: Event, how: str, share: float) -> Event | None:
    """Charge an event in one of three ways; what was released, or None if that was refused."""
    delta = event.delta if isinstance(event, ApproxDP) else share * DELTA
    epsilon = accounting.epsilon(event, delta, UNIT).upper
    try:
        if how == "promised":
            whole = Compose([Laplace(100.0), Promise(epsilon * (1 + 1e-9), delta)])
            ledger.fulfil(ledger.charge(whole, UNIT, stated=(epsilon + 0.01001, delta)), event)
            return Compose([Laplace(100.0), event])
        ledger.charge(event, UNIT, stated=(epsilon, delta) if how == "stated" else None)
    except BudgetExceeded:
        return None
    return event


@settings(max_examples=40, deadline=None)
@given(st.lists(charges, min_size=2, max_size=7))
def test_whatever_was_admitted_keeps_the_budget(asked: list[tuple[Event, str, float]]) -> None:
    ledger = Ledger(epsilon=1.0, delta=DELTA, adjacency=UNIT)
    released = [done for one in asked if (done := charge(ledger, *one)) is not None]
    assert ledger.spent().upper <= 1.0
    assert len(ledger.history()) == len(released)
    if released:
        assert accounting.delta(compose(released), 1.0, UNIT).lower <= DELTA


@settings(max_examples=30, deadline=None)
@given(st.lists(charges, min_size=2, max_size=5))
def test_what_is_spent_never_shrinks_when_something_is_charged(asked: list[tuple[Event, str, float]]) -> None:
    ledger = Ledger(epsilon=50.0, delta=DELTA, adjacency=UNIT)
    spent = []
    for event, how, share in asked:
        if charge(ledger, event, "stated" if how == "stated" else "plain", share) is not None:
            spent.append(ledger.spent().upper)
    for before, after in pairwise(spent[1:]):  # a first charge has all of δ to itself
        assert before <= after


@given(
    st.lists(st.tuples(st.floats(1e-3, 1.0), st.floats(1e-3, 1.0)), min_size=2, max_size=8),
    st.floats(0.05, 5.0),
    st.sampled_from([1e-3, 1e-6, 1e-9]),
)
@settings(max_examples=60, deadline=None)
def test_statements_that_add_up_to_the_budget_are_admitted_and_more_are_not(
    parts: list[tuple[float, float]], epsilon: float, delta: float
) -> None:
    whole = [math.fsum(column) for column in zip(*parts, strict=True)]
    budget = Budget(epsilon, delta, UNIT)
    for reserve in (0.0, RESERVE):
        claims = [
            Stated(epsilon * e / whole[0] * (1 - 1e-12), delta * d / whole[1] * (1 - reserve - 1e-12)) for e, d in parts
        ]
        entries = [Entry(ApproxDP(*claim), ApproxDP(*claim), claim) for claim in claims]
        if reserve:  # a first release for which other rules than basic composition have their share of δ
            noisy = Gaussian(accounting.calibrate(Gaussian, *claims[0], UNIT))
            entries[0] = Entry(noisy, noisy, claims[0])
        assert Tally(Accountant(), budget).spent(entries).upper <= epsilon
        more = ApproxDP(1e-3 * epsilon, 0.2 * delta)
        assert (
            Tally(Accountant(), budget).spent([*entries, Entry(more, more, Stated(more.epsilon, more.delta))]).upper
            > epsilon
        )


# --- the best attack in two steps: the second charge is chosen by looking at what the first released -----------------

Profile = Callable[[Any], Any]
"""t ↦ the largest P(S) − e^t·Q(S)."""


def gaussian_profile(mu: float) -> Profile:
    return lambda t: norm.cdf(mu / 2 - t / mu) - np.exp(np.minimum(t + norm.logcdf(-t / mu - mu / 2), 0.0))


def stated_profile(epsilon: float, delta: float) -> Profile:
    yes = (1 - delta) / (1 + math.exp(-epsilon))

    def profile(t: Any) -> Any:
        inside = yes * np.maximum(-np.expm1(t - epsilon), 0) + (1 - delta - yes) * np.maximum(-np.expm1(t + epsilon), 0)
        return delta + inside

    return profile


def largest(admitted: Callable[[float], bool], low: float, high: float) -> float:
    """The largest size that is still admitted, from above on a geometric scale; 0 if none is."""
    if not admitted(low):
        return 0.0
    for _ in range(30):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if admitted(middle) else (low, middle)
    return low


def best_attack(first_epsilon: float, first_delta: float, says_so: bool, budget: Budget) -> float:
    """δ at the budget's ε for an analyst whose second charge is the worst admitted one, given what was released."""
    accountant = Accountant()
    noise = accounting.calibrate(Gaussian, first_epsilon, first_delta, UNIT)
    mu = 1 / noise
    first = Entry(Gaussian(noise), Gaussian(noise), Stated(first_epsilon, first_delta) if says_so else None)

    def admitted(event: Event, stated: Stated | None) -> bool:
        return Tally(accountant, budget).spent([first, Entry(event, event, stated)]).upper <= budget.epsilon

    choices: list[Profile] = [lambda t: np.maximum(-np.expm1(t), 0.0)]  # nothing at all
    if second := largest(lambda m: admitted(Gaussian(1 / m), None), 1e-4, 10.0):
        choices.append(gaussian_profile(second))
    for share in (0.05, 0.3, 0.5, 0.8, 0.95):
        delta = share * (budget.delta - first_delta)

        def fits(e: float, delta: float = delta) -> bool:
            return admitted(ApproxDP(e, delta), Stated(e, delta))

        if second := largest(fits, 1e-4, 10.0):
            choices.append(stated_profile(second, delta))
    losses = np.linspace(-12 * mu, 12 * mu, 20_001) + mu * mu / 2
    weights = norm.pdf((losses - mu * mu / 2) / mu)
    worst = np.max([profile(budget.epsilon - losses) for profile in choices], axis=0)
    return float(np.sum(worst * weights) / np.sum(weights))


ATTACKS = [
    (first, share, says_so, epsilon)
    for epsilon in (0.5, 2.0)
    for first, share in ((0.5, 0.5), (0.1, 0.05), (0.9, 0.9), (0.6, 0.2))
    for says_so in (True, False)
]


@pytest.mark.parametrize(("first", "share", "says_so", "epsilon"), ATTACKS)
def test_no_second_charge_chosen_by_the_first_answer_exceeds_the_budget(
    first: float, share: float, says_so: bool, epsilon: float
) -> None:
    budget = Budget(epsilon, DELTA, UNIT)
    assert best_attack(first * epsilon, share * DELTA, says_so, budget) <= DELTA


def test_the_attack_finds_rules_that_have_more_than_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adaptive, "_MOSTLY_STATED", Shares(1.0, 1.0, 1.0, 1.0))
    budget = Budget(0.5, DELTA, UNIT)
    assert best_attack(0.25, 0.5 * DELTA, True, budget) > 1.1 * DELTA
