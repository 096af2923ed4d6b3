"""Charges that are chosen one after another: which rule bounds them, and that each rule keeps what it claims."""

from __future__ import annotations

import math

import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from discreet.accounting.bounds import Bounds
from discreet.accounting.histories import histories
from discreet.errors import NotCertifiable
from discreet.events import ApproxDP, Compose, Event, Gaussian, Parallel, Poisson, PureDP, Repeat
from discreet.ledger import Accountant, Budget
from discreet.ledger.adaptive import Entry, Shares, orders
from discreet.ledger.tally import Tally
from discreet.units import Unit

REPLACE = Unit("replace-one")
BUDGET = Budget(1.0, 1e-6, REPLACE)
EVEN = Shares(1 / 4, 1 / 4, 1 / 4, 1 / 4)


def mu_of(event: Event, unit: Unit) -> float:
    totals = [
        sum(count * (leaf.unit.sensitivity(1.0) / leaf.event.noise_multiplier) ** 2 for leaf, count in history.items())  # type: ignore[attr-defined]
        for history in histories(event, unit)
    ]
    return math.sqrt(max(totals))


def gaussian_delta(epsilon: float, mu: float) -> float:
    return float(norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2))


def exact(event: Event, delta: float, unit: Unit) -> Bounds:
    """Exact for Gaussian runs, and for pure events by basic composition."""
    if isinstance(event, PureDP):
        return Bounds(event.epsilon, event.epsilon)
    if isinstance(event, ApproxDP):
        return Bounds(0.0, event.epsilon if event.delta <= delta else math.inf)
    if isinstance(event, Poisson):
        raise NotCertifiable("no sampled events here")
    mu = mu_of(event, unit)
    epsilon = brentq(lambda e: gaussian_delta(e, mu) - delta, 0.0, 500.0)
    return Bounds(epsilon, epsilon)


def divergence(event: Event, order: float, unit: Unit) -> float:
    if isinstance(event, PureDP):
        return min(event.epsilon, order * event.epsilon**2 / 2)
    return order * mu_of(event, unit) ** 2 / 2


def none(event: Event, order: float, unit: Unit) -> float:
    return math.inf


def test_nothing_costs_nothing() -> None:
    assert Tally(Accountant(exact, divergence), BUDGET).spent([]) == Bounds(0.0, 0.0)


def test_a_first_charge_has_the_whole_delta() -> None:
    event = Repeat(Gaussian(40.0), 20)
    assert Tally(Accountant(exact, none), BUDGET).spent([event]) == exact(event, 1e-6, REPLACE)


def test_gaussians_compose_at_a_quarter_of_delta() -> None:
    first, second = Repeat(Gaussian(40.0), 20), Compose([Gaussian(30.0), Parallel([Gaussian(20.0), Gaussian(25.0)])])
    spent = Tally(Accountant(exact, none), BUDGET).spent([first, second])
    assert spent.upper == pytest.approx(exact(Compose([first, second]), 2.5e-7, REPLACE).upper)
    basic = (
        exact(first, 2.5e-7 * 6 / math.pi**2, REPLACE).upper
        + exact(second, 2.5e-7 * 6 / (2 * math.pi) ** 2, REPLACE).upper
    )
    assert spent.upper < 0.8 * basic


def test_pure_charges_add_up() -> None:
    spent = Tally(Accountant(exact, none), Budget(1.0, 0.0, REPLACE)).spent([PureDP(0.25)] * 4)
    assert spent.upper == 1.0


def test_stated_failures_may_take_a_quarter_of_delta() -> None:
    accountant = Accountant(exact, none)
    assert Tally(accountant, BUDGET).spent([ApproxDP(0.25, 1.2e-7), ApproxDP(0.5, 1.2e-7)]).upper == 0.75
    assert Tally(accountant, BUDGET).spent([ApproxDP(0.25, 1.3e-7), ApproxDP(0.5, 1.3e-7)]).upper == math.inf
    assert Tally(accountant, BUDGET).spent([ApproxDP(0.5, 1e-6)]).upper == 0.5


def test_the_shares_of_delta_sum_to_delta() -> None:
    asked: list[float] = []

    def spy(event: Event, delta: float, unit: Unit) -> Bounds:
        asked.append(delta)
        return Bounds(0.0, 0.1)

    Tally(Accountant(spy, none), BUDGET).basic([Entry(e, e) for e in [ApproxDP(0.1, 2.49e-11)] * 10_000])
    assert 0.4e-6 < math.fsum(asked) <= 0.5e-6
    asked.clear()
    Tally(Accountant(spy, none), BUDGET).spent([Gaussian(1.0)] * 2)
    assert asked[-1] == 0.25e-6
    for shares in (EVEN, Shares(15 / 16, 1 / 32, 1 / 64, 1 / 64)):
        assert sum(shares) == 1
        assert math.fsum(order.share for order in orders(BUDGET, shares)) == pytest.approx(shares.renyi, rel=1e-15)


def test_many_small_charges_are_cheaper_by_the_renyi_rule() -> None:
    events = [PureDP(0.01)] * 400
    by_hand = [
        400 * min(0.01, order * 0.01**2 / 2) + math.log1p(-1 / order) - math.log(1e-6 * share * order) / (order - 1)
        for order, share in orders(BUDGET, EVEN)
    ]
    spent = Tally(Accountant(exact, divergence), BUDGET).spent(events)
    assert spent.upper == pytest.approx(min(by_hand))
    assert spent.upper < 0.5 * 4.0


def test_a_sampled_run_is_bounded_by_the_renyi_rule_alone() -> None:
    sampled = Poisson(0.5, Gaussian(50.0))

    def halved(event: Event, order: float, unit: Unit) -> float:
        return (
            divergence(event.event, order, unit) / 2 if isinstance(event, Poisson) else divergence(event, order, unit)
        )

    assert 0 < Tally(Accountant(exact, halved), BUDGET).spent([Gaussian(50.0), sampled]).upper < 1.0
    with pytest.raises(NotCertifiable, match="no sampled events"):
        Tally(Accountant(exact, none), BUDGET).spent([Gaussian(50.0), sampled])


def test_every_rule_grows_with_every_charge() -> None:
    events: list[Event] = [Gaussian(60.0), Gaussian(80.0), Repeat(Gaussian(200.0), 3), Gaussian(500.0)]
    accountants = (Accountant(exact, none), Accountant(exact, divergence))
    for accountant in accountants:  # with the Gaussian rule, and with a Rényi rule that is never the least
        costs = [Tally(accountant, BUDGET).spent(events[:count]).upper for count in range(2, len(events) + 1)]
        assert costs == sorted(costs)
        assert len(set(costs)) == len(costs)
    basic = [Tally(accountants[0], BUDGET).basic([Entry(e, e) for e in events[:n]]) for n in range(1, len(events) + 1)]
    assert basic == sorted(basic)


def test_the_order_is_the_best_for_a_run_that_spends_the_budget() -> None:
    for budget in (BUDGET, Budget(0.1, 1e-9, REPLACE), Budget(8.0, 1e-5, REPLACE)):

        def epsilon(order: float, rho: float, delta: float = budget.delta / 4) -> float:
            return rho * order + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)

        def best(rho: float) -> float:
            return min(epsilon(1 + math.exp(t / 50), rho) for t in range(-200, 500))

        rho = brentq(lambda r, best=best, target=budget.epsilon: best(r) - target, 1e-7, 10.0)
        assert epsilon(orders(budget, EVEN)[0].alpha, rho) <= 1.1 * budget.epsilon
