"""The printed formulas and what they are worth, against 40-digit arithmetic and the certified accountant."""

from __future__ import annotations

import math

import mpmath as mp
import pytest

from discreet.accounting import textbook
from discreet.accounting.histories import histories
from discreet.errors import InvalidInput
from discreet.events import Gaussian, PureDP
from discreet.units import Unit


def total_mu(entry):
    """√Σμ² of an all-Gaussian event."""
    (history,) = histories(entry.event, Unit(entry.adjacency))
    reach = Unit(entry.adjacency).sensitivity(1.0)
    return mp.sqrt(sum(count * (mp.mpf(reach) / leaf.event.noise_multiplier) ** 2 for leaf, count in history.items()))


def exact_delta(mu, epsilon):
    return mp.ncdf(-epsilon / mu + mu / 2) - mp.exp(epsilon) * mp.ncdf(-epsilon / mu - mu / 2)


def exact_epsilon(mu, delta):
    with mp.workdps(40):
        low, high = mp.mpf(0), mp.mpf(100)
        for _ in range(140):
            middle = (low + high) / 2
            low, high = (middle, high) if exact_delta(mu, middle) > delta else (low, middle)
        return high


FIGURES = [  # (calibration, true ε at the claimed δ, its rounding)
    (textbook.noisy_descent_rank(1.0, 1e-5, 50), 1.11, 0.005),
    (textbook.noisy_descent_rank(1.0, 1e-6, 50), 1.15, 0.005),
    (textbook.noisy_descent_rank(1.0, 1e-9, 7), 1.22, 0.005),
    (textbook.noisy_descent_rank(8.0, 1e-5, 1), 12.3, 0.05),
    (textbook.noisy_descent_stochastic(16.0, 1e-5, 10), 19.1, 0.05),
    (textbook.classic_gaussian(16.0, 1e-5), 18.9, 0.05),
    (textbook.classic_gaussian(16.0, 1e-5, "add-remove"), 18.9, 0.05),
    (textbook.noisy_descent_union(1.0, 1e-5, 1000), 0.038, 0.0005),
    (textbook.objective_perturbation_gaussian(0.9, 1e-5), 0.60, 0.005),
    (textbook.objective_perturbation_gaussian(0.9, 1e-5, "add-remove"), 0.28, 0.005),
]


@pytest.mark.parametrize(("entry", "epsilon", "rounding"), FIGURES)
def test_true_epsilon(entry, epsilon, rounding):
    exact = exact_epsilon(total_mu(entry), entry.claimed_delta)
    assert float(exact) == pytest.approx(epsilon, abs=rounding)
    assert entry.truth.lower <= exact <= entry.truth.upper
    assert entry.truth.upper == pytest.approx(float(exact), rel=1e-6)


@pytest.mark.parametrize(("delta", "factor", "rounding"), [(1e-5, 4.3, 0.05), (1e-6, 10.6, 0.05), (1e-9, 193, 0.5)])
def test_the_rank_bound_formula_misses_its_delta(delta, factor, rounding):
    entry = textbook.noisy_descent_rank(1.0, delta, 20)
    with mp.workdps(40):
        exact = exact_delta(total_mu(entry), mp.mpf(1))
    assert float(exact) / delta == pytest.approx(factor, abs=rounding)
    assert entry.true_delta.lower <= exact <= entry.true_delta.upper
    assert not entry.holds
    assert entry.ratio < 1


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_the_stochastic_formula_holds_up_to_four(epsilon):
    entry = textbook.noisy_descent_stochastic(epsilon, 1e-5, 10)
    assert entry.holds
    assert entry.ratio > 1


def test_which_claims_hold():
    assert not textbook.noisy_descent_stochastic(8.5, 1e-5, 10).holds
    assert textbook.classic_gaussian(0.9, 1e-5).holds
    assert not textbook.classic_gaussian(16.0, 1e-5).holds
    assert not textbook.objective_perturbation_gaussian(0.9, 1e-5).holds
    assert textbook.objective_perturbation_gaussian(0.9, 1e-5, "add-remove").holds
    assert textbook.projection_laplace(0.7).holds


def test_the_union_bound_wastes_twenty_to_thirty_four_times_the_noise():
    for steps in (10, 1000, 10**5):
        entry = textbook.noisy_descent_union(1.0, 1e-5, steps)
        assert entry.holds
        assert 15 < entry.ratio < 40


def test_needed_noise_meets_the_claim_and_less_does_not():
    entry = textbook.classic_gaussian(1.0, 1e-5)
    mu = mp.mpf(2) / entry.needed
    assert exact_epsilon(mu, 1e-5) <= 1.0
    assert exact_epsilon(mu * (1 + mp.mpf("1e-5")), 1e-5) > 1.0


def test_frank_wolfe_spends_twice_what_it_says_each_step():
    entry = textbook.frank_wolfe_laplace(1.0, 1e-5, 25)
    claimed_step = 1.0 / math.sqrt(8 * 25 * math.log(1e5))
    ((leaf, count),) = histories(entry.event, Unit(entry.adjacency))[0].items()
    assert isinstance(leaf.event, PureDP)
    assert (leaf.event.epsilon, count) == (pytest.approx(2 * claimed_step), 25)


def test_advanced_composition_misprint_claims_less_than_the_theorem():
    from discreet.accounting.upper.classical import advanced_composition

    entry = textbook.advanced_composition_misprint(0.5, 1e-6, 400)
    assert entry.claimed_epsilon < advanced_composition([(0.5, 400)], 1e-6)


def test_the_table_has_every_formula_once_a_relation():
    entries = textbook.table(1.0, 1e-5, 10)
    assert len({(e.name, e.adjacency) for e in entries}) == len(entries) == 11
    for entry in entries:
        assert entry.noise > 0
        assert entry.truth.upper >= entry.truth.lower
        assert (entry.ratio < 1) == (not entry.holds) or entry.ratio == pytest.approx(1, rel=1e-6)
    assert isinstance(next(iter(histories(entries[0].event, Unit(entries[0].adjacency))[0])).event, Gaussian)


@pytest.mark.parametrize(("epsilon", "delta", "steps"), [(0.0, 1e-5, 1), (1.0, 0.0, 1), (1.0, 1.0, 1), (1.0, 1e-5, 0)])
def test_bad_targets(epsilon, delta, steps):
    with pytest.raises(InvalidInput, match="textbook"):
        textbook.noisy_descent_rank(epsilon, delta, steps)
