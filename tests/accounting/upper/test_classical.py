"""Closed forms against exact enumeration and against each other."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting.upper.classical import (
    advanced_composition,
    advanced_epsilon_upper,
    amplify,
    approximate,
    basic_epsilon_upper,
    group,
    optimal_composition,
    pure_epsilon,
    zcdp_epsilon_upper,
    zcdp_rho,
    zcdp_to_epsilon,
)
from discreet.accounting.upper.renyi import epsilon_upper
from discreet.errors import HypothesisViolated, InvalidInput, NotCertifiable
from discreet.events import (
    ZCDP,
    ApproxDP,
    Compose,
    DiscreteGaussian,
    FixedSize,
    Gaussian,
    Laplace,
    Poisson,
    PrivateSelection,
    PureDP,
    RandomizedResponse,
    Repeat,
    Selection,
    WithReplacement,
)
from discreet.units import Unit


def gaussian_delta(mu, epsilon):
    with mp.workdps(30):
        mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
        return mp.ncdf(-epsilon / mu + mu / 2) - mp.exp(epsilon) * mp.ncdf(-epsilon / mu - mu / 2)


def composed_response_delta(epsilon, delta, times, total):
    """δ of ``times`` randomised responses that fail with probability ``delta``, with 40 digits."""
    with mp.workdps(40):
        e = mp.mpf(epsilon)
        sure = sum(
            mp.binomial(times, wins)
            * max(0, mp.exp(wins * e) - mp.exp(total + (times - wins) * e))
            / (1 + mp.exp(e)) ** times
            for wins in range(times + 1)
        )
        return 1 - (1 - mp.mpf(delta)) ** times * (1 - sure)


@pytest.mark.parametrize(
    ("epsilon", "delta", "times", "target"),
    [(0.1, 0.0, 100, 1e-5), (1.0, 1e-8, 10, 1e-6), (math.log(3), 0.0, 100, 1e-5), (0.01, 1e-9, 1000, 1e-5)],
)
def test_optimal_composition_is_exact(epsilon, delta, times, target):
    found = optimal_composition(epsilon, delta, times, target)
    assert composed_response_delta(epsilon, delta, times, found) <= target
    assert composed_response_delta(epsilon, delta, times, found * (1 - 1e-6)) > target


def test_a_hundred_randomised_responses_are_not_one():
    """A peer ignored the count and said 1.0987."""
    assert optimal_composition(math.log(3), 0.0, 100, 1e-6) == pytest.approx(94.29, abs=0.005)
    run = Repeat(RandomizedResponse(math.log(3)), 100)
    assert epsilon_upper(run, 1e-6, "replace-one") > 94.28
    assert basic_epsilon_upper(run, 0.0, "replace-one") == pytest.approx(100 * math.log(3))


@settings(max_examples=50, deadline=None)
@given(epsilon=st.floats(1e-3, 2), times=st.integers(1, 60), target=st.floats(1e-9, 0.1))
def test_optimal_is_at_most_advanced_is_at_most_basic(epsilon, times, target):
    run = Repeat(PureDP(epsilon), times)
    best = optimal_composition(epsilon, 0.0, times, target)
    advanced = advanced_epsilon_upper(run, target, "add-remove")
    assert best <= advanced * (1 + 1e-9)
    assert advanced <= basic_epsilon_upper(run, target, "add-remove") * (1 + 1e-9) == pytest.approx(times * epsilon)


def test_optimal_composition_limits():
    assert optimal_composition(1.0, 0.1, 2, 0.1) == math.inf
    assert optimal_composition(0.0, 0.0, 5, 0.0) == 0
    assert optimal_composition(0.3, 0.0, 0, 0.0) == 0
    assert optimal_composition(0.3, 0.0, 7, 0.0) == pytest.approx(2.1)
    with pytest.raises(InvalidInput, match="times"):
        optimal_composition(0.3, 0.0, -1, 0.0)


def test_advanced_composition_has_the_theorem_s_constant_not_the_notes_misprint():
    """Mean term ε·(e^ε − 1)/(e^ε + 1): with e^{ε+1} instead it would be smaller, and wrong for large T."""
    epsilon, times, slack = 0.5, 400, 1e-6
    right = math.sqrt(2 * times * math.log(1 / slack)) * epsilon + times * epsilon * (
        math.expm1(epsilon) / (math.exp(epsilon) + 1)
    )
    assert advanced_composition([(epsilon, times)], slack) == pytest.approx(right)
    misprinted = math.sqrt(2 * times * math.log(1 / slack)) * epsilon + times * epsilon * (
        math.expm1(epsilon) / math.exp(epsilon + 1)
    )
    assert misprinted < right
    with pytest.raises(HypothesisViolated, match="slack"):
        advanced_composition([(0.1, 1)], 0.0)


def test_heterogeneous_advanced_composition_reduces_to_homogeneous():
    split = advanced_composition([(0.1, 30), (0.1, 70)], 1e-6)
    assert split == pytest.approx(advanced_composition([(0.1, 100)], 1e-6))
    mixed = Compose([Repeat(Gaussian(20.0), 10), Repeat(ApproxDP(0.05, 1e-8), 20), Repeat(Laplace(30.0), 10)])
    certified = epsilon_upper(mixed, 1e-5, "add-remove")
    assert (
        certified < advanced_epsilon_upper(mixed, 1e-5, "add-remove") <= basic_epsilon_upper(mixed, 1e-5, "add-remove")
    )
    assert basic_epsilon_upper(mixed, 1e-7, "add-remove") == math.inf


@pytest.mark.parametrize("rows", [2, 5])
def test_group_privacy_bounds_the_gaussian_of_a_group(rows):
    mu, epsilon = 0.3, 0.8
    delta = float(gaussian_delta(mu, epsilon))
    grouped = group(epsilon, delta, rows)
    assert grouped.delta == pytest.approx(delta * math.expm1(rows * epsilon) / math.expm1(epsilon))
    assert gaussian_delta(rows * mu, grouped.epsilon) <= grouped.delta
    assert group(0.0, 0.01, 3).delta == pytest.approx(0.03)
    assert group(800.0, 1e-9, 3).delta == 1.0


def test_amplification_is_exact_for_randomised_response():
    epsilon, rate = 1.3, 0.07
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    sampled = rate * p + (1 - rate) * (1 - p), 1 - p
    assert amplify(epsilon, 0.0, rate).epsilon == pytest.approx(math.log(sampled[0] / sampled[1]))
    assert amplify(800.0, 1e-6, 0.5).epsilon == pytest.approx(800 + math.log(0.5))
    assert amplify(1.0, 1e-6, 0.0) == (0.0, 0.0)
    with pytest.raises(InvalidInput, match="rate"):
        amplify(1.0, 0.0, 1.5)


def test_pure_epsilons_of_leaves():
    two = Unit("replace-one", 2)
    assert pure_epsilon(Laplace(8.0), two) == 0.5
    assert pure_epsilon(Selection(0.2), two) == pytest.approx(0.4)
    assert pure_epsilon(Gaussian(1.0), two) == math.inf
    assert pure_epsilon(PrivateSelection(PureDP(0.1), 30.0), "add-remove") == pytest.approx(0.3)
    assert pure_epsilon(PrivateSelection(PureDP(0.1), 30.0, "poisson"), "add-remove") == math.inf
    assert pure_epsilon(FixedSize(10, 1000, PureDP(1.0)), "replace-one") == pytest.approx(
        math.log1p(0.01 * math.expm1(1))
    )
    # Under add-remove a batch of fixed size exchanges rows, which costs two steps of the stated guarantee.
    assert pure_epsilon(FixedSize(10, 1000, PureDP(1.0)), "add-remove") == pytest.approx(
        math.log1p(0.01 * math.expm1(2))
    )
    assert pure_epsilon(Poisson(0.01, Laplace(2.0)), "replace-one") == pytest.approx(math.log1p(0.01 * math.expm1(1)))
    assert pure_epsilon(Poisson(0.01, PureDP(1.0)), "replace-one") == 1.0
    assert pure_epsilon(WithReplacement(2, 100, PureDP(0.1)), "replace-one") < 0.2
    assert pure_epsilon(FixedSize(10, 10, PureDP(1.0)), "replace-one") == 1.0


def test_approximate_leaves_on_samples():
    assert approximate(Gaussian(1.0), "add-remove") is None
    sampled = approximate(Poisson(0.1, ApproxDP(1.0, 1e-6)), "add-remove")
    assert sampled is not None
    assert sampled.delta == pytest.approx(1e-7)
    assert sampled.epsilon == pytest.approx(math.log1p(0.1 * math.expm1(1)))
    nested = approximate(Poisson(0.5, Poisson(0.2, ApproxDP(1.0, 1e-6))), "add-remove")
    assert nested == (pytest.approx(sampled.epsilon), pytest.approx(sampled.delta))
    assert epsilon_upper(Poisson(0.5, Poisson(0.2, ApproxDP(1.0, 1e-6))), 1e-5, "add-remove") <= sampled.epsilon * 1.001
    replaced = approximate(Poisson(0.1, ApproxDP(1.0, 1e-6)), "replace-one")
    assert replaced is not None
    assert replaced.epsilon == 1.0


def test_zcdp_of_leaves_and_refusals():
    run = Compose([Repeat(Gaussian(10.0), 4), Selection(0.4), DiscreteGaussian(5.0), ZCDP(0.01), PureDP(0.2)])
    expected = Fraction(4, 200) + Fraction(16, 800) + Fraction(1, 50) + Fraction(1, 100) + Fraction(2, 100)
    assert zcdp_rho(run, "add-remove") == pytest.approx(float(expected))
    assert zcdp_rho(Gaussian(1.0), "replace-one") == 2.0
    assert zcdp_rho(ZCDP(0.1), Unit("add-remove", 3)) == pytest.approx(0.9)
    assert zcdp_rho(Poisson(1.0, Gaussian(1.0)), "add-remove") == 0.5
    with pytest.raises(NotCertifiable, match="Poisson sampling of Gaussian is not zCDP"):
        zcdp_rho(Poisson(0.01, Gaussian(1.0)), "add-remove")
    with pytest.raises(NotCertifiable, match="ApproxDP"):
        zcdp_rho(ApproxDP(0.1, 1e-6), "add-remove")


@pytest.mark.parametrize("rho", [1e-8, 0.01, 0.5, 30.0])
def test_zcdp_conversion_beats_the_textbook_and_bounds_the_gaussian(rho):
    delta = 1e-6
    found = zcdp_to_epsilon(rho, delta)
    assert found < rho + 2 * math.sqrt(rho * math.log(1 / delta))
    assert gaussian_delta(math.sqrt(2 * rho), found) <= delta
    sigma = 1 / math.sqrt(2 * rho)
    assert zcdp_epsilon_upper(Gaussian(sigma), delta, "add-remove") == pytest.approx(found, rel=1e-6)


def test_bad_guarantees_are_refused():
    for wrong in (-1.0, math.nan):
        with pytest.raises(InvalidInput, match="epsilon"):
            group(wrong, 0.0, 2)
    with pytest.raises(InvalidInput, match="delta"):
        amplify(1.0, 2.0, 0.5)
    with pytest.raises(InvalidInput, match="row"):
        group(1.0, 0.0, 0)
    with pytest.raises(InvalidInput, match="delta"):
        basic_epsilon_upper(Gaussian(1.0), -0.1, "add-remove")
