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
    ZCDP,
    Allocation,
    ApproxDP,
    Compose,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    NonPrivate,
    ObjectivePerturbation,
    Poisson,
    PureDP,
    RandomizedResponse,
    RenyiDP,
    Repeat,
    Selection,
    WithReplacement,
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


@pytest.mark.parametrize(
    ("event", "loss"),
    [
        (PureDP(1e305), 1e305),
        (ApproxDP(1e305, 0.25), math.inf),
        (RandomizedResponse(1e305), 1e305),
        (RandomizedResponse(1e305, 5), 1e305),
        (Selection(1e305), 1e305),
        (Selection(1e305, "permute-and-flip"), 1e305),
        (Laplace(1e-305), 2.1e305),
        (DiscreteLaplace(1e-305), 2.1e305),
        (ZCDP(1e305), math.inf),
        (Compose([PureDP(1e305), Gaussian(1.0)]), 1.001e305),
        (NonPrivate(), math.inf),
    ],
    ids=repr,
)
def test_lower_bounds_of_large_losses_are_true(event: Event, loss: float) -> None:
    """ε is at most the greatest loss, and δ(ε) at most 0.25 (a stated failure) or a Gaussian's tail from there on."""
    for delta in (0.0, 1e-9, 0.5, math.nextafter(1.0, 0.0)):
        found = accounting.epsilon(event, delta, "replace-one")
        assert found.lower <= loss
        assert found.upper >= 1e299
    assert accounting.delta(event, 1e307, "replace-one").lower <= (1.0 if isinstance(event, NonPrivate) else 0.25)
    assert accounting.delta(event, 1e307, "replace-one").upper == 1.0


def test_lower_bounds_of_samples_that_tell_all_are_true() -> None:
    """At rate q the row is in the batch with probability q: δ(ε) = q at every ε, so that ε(δ) = 0 for δ ≥ q."""
    for event in (Poisson(0.01, NonPrivate()), FixedSize(1, 100, NonPrivate()), Poisson(0.01, PureDP(1e305))):
        for relation in ("add-remove", "replace-one"):
            assert accounting.epsilon(event, 0.5, relation).lower == 0.0
            assert accounting.delta(event, 1.0, relation).lower <= 0.01


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


@pytest.mark.parametrize(
    ("event", "unit"),
    [
        (FixedSize(1, 7, Gaussian(3.7)), Unit("replace-one", 2)),
        (FixedSize(10, 1000, Gaussian(1.0)), Unit("add-remove", 70)),
        (WithReplacement(1, 7, Gaussian(3.7)), Unit("add-remove", 2)),
        (Allocation(5, Gaussian(1.0)), Unit("add-remove", 2)),
        (Poisson(0.1, ZCDP(0.1)), Unit("replace-one")),
        (ObjectivePerturbation(5.0, 0.1), Unit("add-remove")),
        (RenyiDP(2.0, 0.1), Unit("add-remove")),
        (Compose([FixedSize(1, 7, Gaussian(3.7)), PureDP(0.1)]), Unit("replace-one", 2)),
    ],
)
def test_a_delta_below_all_doubles_is_not_none(event: Event, unit: Unit) -> None:
    """Gaussian noise has no greatest loss: that a bound of its δ underflows proves no pure guarantee."""
    assert accounting.epsilon(event, 0.0, unit).upper == math.inf
    assert accounting.delta(event, 900.0, unit).upper > 0


def test_pure_releases_keep_their_greatest_loss() -> None:
    for event, unit, truth in (
        (Poisson(0.1, PureDP(1.0)), Unit("replace-one", 2), 2.0),
        (FixedSize(2, 20, PureDP(1.0)), Unit("replace-one", 2), 2 * math.log1p(0.1 * math.expm1(1.0))),
        (Selection(1.0, "exponential"), Unit("add-remove"), 1.0),
    ):
        assert truth <= accounting.epsilon(event, 0.0, unit).upper <= truth * (1 + 1e-12)


@pytest.mark.parametrize("level", [18.7, 18.8, 18.9, 19.0, 19.1])
def test_tails_that_underflow_count_on_the_safe_side(level: float) -> None:
    """Where Q(L > ε) is below 5e-311 it is computed as 0, and e^ε times it may be most of P(L > ε)."""
    sigma, event = mpmath.mpf("3.7228135188878073"), FixedSize(1, 7, Gaussian(3.7228135188878073))
    with mpmath.workdps(60):
        shift, share = 2 / sigma, mpmath.mpf(2) / 7
        at = (mpmath.log((mpmath.exp(level) - 1 + share) / share) + shift**2 / 2) / shift
        seen = share * mpmath.ncdf(shift - at) + (1 - share) * mpmath.ncdf(-at)
        truth = seen - mpmath.exp(level) * mpmath.ncdf(-at)
    for relation in ("replace-one", "add-remove"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = accounting.delta(event, level, Unit(relation, 2))
        assert found.lower <= truth <= found.upper
