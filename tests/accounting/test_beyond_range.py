"""Losses at and beyond the range of doubles, and the last digit of pure guarantees.

A release that tells all has δ = 1 and ε = ∞, however its parameters are written; and a proved ε at δ = 0 is compared in
exact rational or 60-digit arithmetic, where one rounding the wrong way is a false claim.
"""

from __future__ import annotations

import math
import random
import warnings
from fractions import Fraction

import mpmath
import pytest

from discreet import accounting
from discreet.accounting.adaptive import GDPFilter
from discreet.accounting.upper.stated import group
from discreet.errors import BudgetExceeded, NotCertifiable
from discreet.events import (
    ApproxDP,
    Compose,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    ObjectivePerturbation,
    Poisson,
    PureDP,
    RandomizedResponse,
    Repeat,
    Selection,
)
from discreet.ledger import Ledger
from discreet.units import Unit

_TELLS_ALL: list[Event] = [
    PureDP(1.7e308),
    ApproxDP(1.7e308, 1e-9),
    RandomizedResponse(1.7e308),
    RandomizedResponse(1.2e308, 5),
    Selection(1.7e308),
    Selection(1.7e308, "permute-and-flip"),
    Laplace(5e-324),
    DiscreteLaplace(5e-324),
    DiscreteLaplace(1e-308),
    DiscreteLaplace(3e-309, 7),
    DiscreteGaussian(1e-300),
    DiscreteGaussian(8e-201, 7),
]
_METHODS = ("auto", "contour", "fourier", "renyi", "zcdp", "basic", "advanced")


@pytest.mark.parametrize("event", _TELLS_ALL, ids=repr)
@pytest.mark.parametrize("method", _METHODS)
def test_no_method_says_that_a_release_without_noise_is_private(event: Event, method: str) -> None:
    around = [event, Compose([event, Gaussian(20.0)]), Repeat(event, 3), FixedSize(9, 10, event)]
    for whole in around:
        for k in (1, 2):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    found = accounting.epsilon(whole, 0.01, Unit("replace-one", k), method=method)
            except NotCertifiable:
                continue
            assert found.upper > 1e290, (whole, k)


@pytest.mark.parametrize("event", _TELLS_ALL, ids=repr)
def test_a_ledger_refuses_a_release_without_noise(event: Event) -> None:
    ledger = Ledger("memory:", epsilon=1.0, delta=1e-6, adjacency="replace-one")
    with pytest.raises(BudgetExceeded):
        ledger.charge(event, "replace-one")


def test_group_privacy_of_large_losses_keeps_its_failure() -> None:
    """Two rows of (ε, δ): S with P₂(S) = 0, P₁(S) = δ, P₀(S) = e^ε·δ + δ is possible, so that δ₂(∞) ≥ e^ε·δ."""
    for epsilon, delta in ((500.0, 1e-300), (360.0, 1e-200), (690.0, 1e-305)):
        with mpmath.workdps(40):
            least = mpmath.exp(epsilon) * mpmath.mpf(delta)
            for at in (0.0, 2 * epsilon, 5000.0):
                assert accounting.delta(ApproxDP(epsilon, delta), at, Unit("add-remove", 2)).upper >= least


def test_group_privacy_rounds_up() -> None:
    rng = random.Random(81)
    with mpmath.workdps(400):
        for _ in range(300):
            epsilon, rows = math.exp(rng.uniform(-690.0, 4.0)), rng.randint(2, 9)
            delta = math.exp(rng.uniform(-60.0, -20.0))
            exact = mpmath.mpf(epsilon)
            truth = mpmath.mpf(delta) * mpmath.expm1(rows * exact) / mpmath.expm1(exact)
            assert group(epsilon, delta, rows).delta >= min(truth, 1)


def test_pure_guarantees_are_rounded_up() -> None:
    """ε at δ = 0 against the exact greatest loss, for noise, stated and sampled guarantees and several rows."""
    rng = random.Random(82)
    for _ in range(200):
        x, k = rng.choice([rng.uniform(0.1, 60.0), math.exp(rng.uniform(-15.0, 15.0))]), rng.choice([1, 2, 3, 7])
        relation = rng.choice(["add-remove", "replace-one"])
        quotient = Fraction(k * (2 if relation == "replace-one" else 1)) / Fraction(x)
        for event, truth in (
            (Laplace(x), quotient),
            (DiscreteLaplace(x, rng.choice([1, 3])), quotient),
            (PureDP(x), k * Fraction(x)),
            (Selection(x), k * Fraction(x)),
        ):
            assert Fraction(accounting.epsilon(event, 0.0, Unit(relation, k)).upper) >= truth, (event, k, relation)


def test_sampled_pure_guarantees_are_rounded_up() -> None:
    rng = random.Random(83)
    for _ in range(200):
        x, n = rng.choice([rng.uniform(0.1, 60.0), math.exp(rng.uniform(-15.0, 5.0))]), rng.randint(2, 100)
        batch = rng.randint(1, n - 1)
        with mpmath.workdps(60):
            truth = mpmath.log1p(mpmath.mpf(batch) / n * mpmath.expm1(x))
            found = accounting.epsilon(FixedSize(batch, n, PureDP(x)), 0.0, "replace-one").upper
            assert found >= truth, (batch, n, x)
            sampled = accounting.epsilon(Poisson(batch / n, PureDP(x)), 0.0, "add-remove").upper
            assert sampled >= mpmath.log1p(mpmath.mpf(batch / n) * mpmath.expm1(x)), (batch, n, x)


@pytest.mark.parametrize(
    "event",
    [
        Poisson(0.1, DiscreteGaussian(1e5)),
        Poisson(0.1, DiscreteGaussian(7e159, 2)),
        Poisson(0.3, DiscreteGaussian(1e-309)),
        DiscreteLaplace(1.0, 10**400),
        DiscreteGaussian(1.0, 10**400),
        ObjectivePerturbation(1.0, 1e300, 1, 1e300, 1e300),
    ],
    ids=lambda event: repr(event)[:60],
)
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_extreme_parameters_raise_nothing_undeclared(event: Event, relation: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for method in _METHODS:
            try:
                accounting.epsilon(event, 1e-6, relation, method=method)
            except NotCertifiable:
                continue


def test_a_gdp_filter_refuses_almost_no_noise() -> None:
    with pytest.raises(BudgetExceeded):
        GDPFilter(1.0, "add-remove").spend(Gaussian(1e-200))
