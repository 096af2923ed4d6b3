"""Filters under attack: analysts that choose each next event by the answers so far."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr

from discreet.accounting import epsilon as accounted
from discreet.accounting.adaptive import (
    ApproxFilter,
    GDPFilter,
    PureFilter,
    RenyiFilter,
    RenyiOdometer,
    ZCDPFilter,
)
from discreet.accounting.upper.renyi import divergence
from discreet.errors import BudgetExceeded, InvalidInput, NotCertifiable
from discreet.events import ApproxDP, Compose, Gaussian, Laplace, Poisson, PureDP, RenyiDP, Repeat, Selection
from discreet.units import Unit

EXACT_RHO = {  # under add-remove, as fractions
    Gaussian(2.0): Fraction(1, 8),
    Gaussian(5.0): Fraction(1, 50),
    Selection(0.5): Fraction(1, 32),
    PureDP(0.125): Fraction(1, 128),
    Repeat(Gaussian(8.0), 3): Fraction(3, 128),
}


def test_ten_thousand_adaptive_runs_never_overspend():
    """The analyst walks through the menu by its answers, and tries again with cheaper events when refused."""
    rng = np.random.default_rng(7)
    menu = list(EXACT_RHO)
    refused = 0
    for _ in range(10_000):
        budget = ZCDPFilter(0.3, "add-remove")
        truth, answer = Fraction(0), 0.0
        for _ in range(12):
            event = menu[int(abs(answer) * 7) % len(menu)]
            answer = rng.normal()
            if budget.affords(event):
                budget.spend(event)
                truth += EXACT_RHO[event]
            else:
                refused += 1
                with pytest.raises(BudgetExceeded):
                    budget.spend(event)
                answer *= 3
        assert truth <= Fraction(3, 10)
        assert float(truth) <= budget.spent <= float(truth) + 1e-12
    assert refused > 10_000


def test_an_adaptive_gaussian_run_keeps_its_curve():
    """Noise chosen by the realised loss; E[(1 − e^{ε − L})₊] ≤ δ(ε) of μ-GDP, to 4 standard errors (one in 30 000)."""
    rng = np.random.default_rng(11)
    mu, runs = 1.0, 10_000
    losses = np.zeros(runs)
    for run in range(runs):
        budget, loss = GDPFilter(mu, "add-remove"), 0.0
        for _ in range(30):
            # Ahead of expectation: bet big. Behind: bet small and wait.
            event = Gaussian(1.5) if loss > 0.2 else Gaussian(5.0)
            if not budget.affords(event):
                event = Gaussian(8.0)
                if not budget.affords(event):
                    break
            budget.spend(event)
            shift = 1 / event.noise_multiplier
            loss += shift * rng.normal() + shift**2 / 2
        losses[run] = loss
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        sample = np.maximum(0, -np.expm1(np.minimum(0, epsilon - losses)))
        delta = ndtr(-epsilon / mu + mu / 2) - math.exp(epsilon) * ndtr(-epsilon / mu - mu / 2)
        assert sample.mean() <= delta + 4 * sample.std() / math.sqrt(runs)
        assert sample.mean() > 0.5 * delta  # the budget is used, so the test could fail


def test_the_odometer_holds_at_every_time():
    """P(∃t: L_t > ε_t) ≤ δ = 0.1, for an analyst who looks after each step; 4 standard errors."""
    rng = np.random.default_rng(3)
    runs, delta = 1000, 0.1
    crossed = np.zeros(runs, dtype=bool)
    for run in range(runs):
        odometer, loss = RenyiOdometer(delta, "add-remove", orders=[3.0]), 0.0
        for _ in range(25):
            event = Gaussian(1.5) if loss > 1.0 else Gaussian(3.0)
            odometer.add(event)
            shift = 1 / event.noise_multiplier
            loss += shift * rng.normal() + shift**2 / 2
            crossed[run] |= loss > odometer.epsilon
    assert 0 < crossed.mean() <= delta + 4 * math.sqrt(delta * (1 - delta) / runs)


def test_odometer_reads_the_best_order():
    odometer = RenyiOdometer(1e-5, "replace-one", orders=[2.0, 32.0])
    assert odometer.epsilon == 0
    odometer.add(Poisson(0.01, Gaussian(2.0)))
    odometer.add(Laplace(10.0))
    spent = divergence(Compose([Poisson(0.01, Gaussian(2.0)), Laplace(10.0)]), 32.0, "replace-one")
    assert odometer.epsilon == pytest.approx(spent + math.log(2 / 1e-5) / 31)


def test_refusal_charges_nothing_and_says_so():
    budget = RenyiFilter(4.0, 0.1, "add-remove")
    budget.spend(Gaussian(5.0))
    before = budget.spent
    with pytest.raises(BudgetExceeded, match="Nothing was released"):
        budget.spend(Gaussian(1.0))
    assert budget.spent == before
    assert budget.remaining == pytest.approx(0.1 - before)


def test_a_budget_can_be_spent_to_the_end():
    budget = PureFilter(1.0, "add-remove")
    for _ in range(10):
        budget.spend(PureDP(0.1))
    assert budget.remaining == pytest.approx(0.0, abs=1e-12)
    assert not budget.affords(PureDP(1e-6))
    exact = ZCDPFilter(0.5, "add-remove")
    exact.spend(Gaussian(1.0))
    assert not exact.affords(Gaussian(1e4))


def test_renyi_filter_for_a_target_keeps_it():
    budget = RenyiFilter.for_target(20.0, 1.0, 1e-5, "replace-one")
    assert budget.epsilon(1e-5) <= 1.0
    assert budget.epsilon(1e-5) == pytest.approx(1.0)
    with pytest.raises(InvalidInput, match="larger order"):
        RenyiFilter.for_target(1.5, 1.0, 1e-5, "replace-one")


def test_zcdp_filter_reports_its_whole_budget():
    budget = ZCDPFilter(0.125, "replace-one")
    assert budget.epsilon(1e-6) == pytest.approx(2.4, abs=0.2)
    assert budget.event().rho == pytest.approx(0.125)


def test_approx_filter_counts_both_currencies():
    budget = ApproxFilter(1.0, 1e-5, "add-remove", slack=4e-6)
    budget.spend(Repeat(ApproxDP(0.02, 1e-7), 50))
    assert budget.delta_spent == pytest.approx(5e-6)
    assert budget.epsilon_spent == pytest.approx(math.sqrt(2 * math.log(1 / 4e-6) * 0.02) + 0.01)
    assert not budget.affords(ApproxDP(1e-3, 2e-6))
    with pytest.raises(BudgetExceeded, match="left of δ"):
        budget.spend(ApproxDP(1e-3, 2e-6))
    spent = budget.spent
    with pytest.raises(BudgetExceeded):
        budget.spend(PureDP(0.5))
    assert (budget.spent, budget.delta_spent) == (spent, pytest.approx(5e-6))
    full = ApproxFilter(1.0, 1e-5, "add-remove")
    width = math.sqrt(2 * math.log(1 / 5e-6))
    assert width * math.sqrt(full.budget) + full.budget / 2 == pytest.approx(1.0)


@pytest.mark.parametrize(("delta", "slack", "spent"), [(1e-5, 1e-20, 1e-5 * (1 + 5e-13)), (1e-5, 1e-25, 1e-5)])
def test_an_approx_filter_never_spends_more_than_its_delta(delta: float, slack: float, spent: float) -> None:
    """The promise is (ε, δ); the releases' δ_i and the slack δ' add up to no more, exactly."""
    budget = ApproxFilter(1.0, delta, "add-remove", slack=slack)
    assert Fraction(spent) + Fraction(slack) > Fraction(budget.event().delta)
    assert not budget.affords(ApproxDP(1e-3, spent))
    with pytest.raises(BudgetExceeded):
        budget.spend(ApproxDP(1e-3, spent))


def test_filters_refuse_currencies_they_cannot_count():
    with pytest.raises(NotCertifiable, match="Gaussian releases only"):
        GDPFilter(1.0, "add-remove").spend(Laplace(1.0))
    with pytest.raises(NotCertifiable, match="pure"):
        PureFilter(1.0, "add-remove").spend(Gaussian(1.0))
    with pytest.raises(NotCertifiable, match="zCDP"):
        ZCDPFilter(1.0, "add-remove").spend(Poisson(0.1, Gaussian(1.0)))
    with pytest.raises(NotCertifiable, match="states no"):
        ApproxFilter(1.0, 1e-5, "add-remove").spend(Gaussian(1.0))


@pytest.mark.parametrize("wrong", [-1.0, math.inf, math.nan])
def test_bad_budgets(wrong):
    with pytest.raises(InvalidInput):
        ZCDPFilter(wrong, "add-remove")
    with pytest.raises(InvalidInput):
        GDPFilter(wrong, "add-remove")
    with pytest.raises(InvalidInput):
        RenyiFilter(wrong, 1.0, "add-remove")
    with pytest.raises(InvalidInput):
        RenyiOdometer(wrong, "add-remove")
    with pytest.raises(InvalidInput):
        ApproxFilter(wrong, 1e-5, "add-remove", slack=1e-4)


@pytest.mark.parametrize(
    "budget",
    [
        ZCDPFilter(0.1, "replace-one"),
        RenyiFilter(8.0, 0.5, "replace-one"),
        RenyiFilter(8.0, 0.5, Unit("add-remove", 3)),
        GDPFilter(0.7, "replace-one"),
        PureFilter(1.0, "add-remove"),
        ApproxFilter(1.0, 1e-5, "add-remove"),
    ],
    ids=lambda budget: f"{type(budget).__name__}, {budget.unit}",
)
def test_the_event_of_a_budget_costs_what_was_promised(budget):
    """A ledger that charges the event has charged at least what the filter promises, and little more."""
    spent = accounted(budget.event(), 1e-5, budget.unit).upper
    promised = {
        "ZCDPFilter": lambda: budget.epsilon(1e-5),
        "RenyiFilter": lambda: budget.epsilon(1e-5),
        "GDPFilter": lambda: accounted(Gaussian(2 / 0.7), 1e-5, "replace-one").lower,
        "PureFilter": lambda: 1.0 - 2e-5,
        "ApproxFilter": lambda: 1.0,
    }[type(budget).__name__]()
    assert promised * (1 - 1e-6) <= spent <= promised * (1 + 2e-3)


def test_a_renyi_bound_says_nothing_of_higher_orders_or_larger_units():
    event = RenyiDP(8.0, 0.5)
    assert divergence(event, 8.0, "add-remove") == divergence(event, 2.0, "add-remove") == 0.5
    assert math.isinf(divergence(event, 8.1, "add-remove"))
    assert math.isinf(divergence(event, 2.0, Unit("add-remove", 2)))
    assert math.isinf(accounted(event, 1e-5, Unit("add-remove", 2)).upper)
    for bad in ({"order": 1.0, "divergence": 0.1}, {"order": 2.0, "divergence": -0.1}):
        with pytest.raises(InvalidInput):
            RenyiDP(**bad)


def test_renyi_bounds_compose_with_other_events():
    """Order by order: the bound at 8 and a Gaussian's curve, converted at the best order up to 8."""
    both = Compose((RenyiDP(8.0, 0.5), Gaussian(5.0)))
    proved = accounted(both, 1e-5, "add-remove").upper
    alone = accounted(RenyiDP(8.0, 0.5), 1e-5, "add-remove").upper
    assert alone < proved < alone + accounted(Gaussian(5.0), 1e-6, "add-remove").upper
