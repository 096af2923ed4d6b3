"""The printed formulas and what they are worth, against 40-digit arithmetic and the certified accountant."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
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
    assert len({(e.name, e.adjacency) for e in entries}) == len(entries) == 14
    for entry in entries:
        assert entry.noise > 0
        assert entry.truth.upper >= entry.truth.lower
        assert (entry.ratio < 1) == (not entry.holds) or entry.ratio == pytest.approx(1, rel=1e-6)
    assert isinstance(next(iter(histories(entries[0].event, Unit(entries[0].adjacency))[0])).event, Gaussian)


def test_the_printed_lambda_of_peeling_is_too_small_inside_the_unit_ball():
    """λ = K²η₀·C(√s + 1) against the largest coordinate of a shrunken row's gradient, K·|⟨x, θ⟩ − y|, at K = 1."""
    s = 25
    for radius in (0.1, 0.5, 1.0, 3.0):
        theta = np.full(s, radius / math.sqrt(s))  # the worst θ of length C: all entries equal
        reached = float(np.abs(theta).sum()) + 1
        right, printed = math.sqrt(s) * radius + 1, radius * (math.sqrt(s) + 1)
        assert reached == pytest.approx(right)
        entry = textbook.peeling_heavy_tailed(0.5, 1e-5, s, radius)
        assert entry.noise / textbook.peeling_laplace(0.5, 1e-5, s).noise == pytest.approx(printed / right)
        assert (printed < reached - 1e-9) == (radius < 1)
    assert textbook.peeling_heavy_tailed(0.5, 1e-5, s, 0.1).truth.lower > 0.5
    assert not textbook.peeling_heavy_tailed(0.5, 1e-5, s, 0.1).holds


def test_laplace_for_the_linf_projection_has_a_root_of_two_to_spare():
    """The ℓ1 distance of two minimisers of a least-squares problem with sparse rows, against the bound on it."""
    rng, n, d, s, ridge = np.random.default_rng(0), 20, 30, 3, 0.5
    X = np.zeros((n, d))
    for row in X:
        row[rng.choice(d, s, replace=False)] = 1 / math.sqrt(s)
    y = rng.choice([-1.0, 1.0], n)
    lipschitz, smoothness, farthest = 2.0, 1.0, 0.0  # |⟨x, θ⟩ − y| ≤ 2 for the θ at hand, ‖x‖ = 1

    def minimiser(X, y):
        return np.linalg.solve(X.T @ X / n + ridge * np.eye(d), X.T @ y / n)

    start = minimiser(X, y)
    for _ in range(200):
        other, label = X.copy(), y.copy()
        other[0] = 0
        other[0, rng.choice(d, s, replace=False)] = rng.choice([-1, 1], s) / math.sqrt(s)
        label[0] = rng.choice([-1.0, 1.0])
        farthest = max(farthest, float(np.abs(minimiser(other, label) - start).sum()))
    right = 2 * lipschitz * math.sqrt(s) * (1 + smoothness / ridge) / (ridge * n)
    assert 0 < farthest <= right
    entry = textbook.output_perturbation_linf_laplace(0.7)
    assert entry.noise * right / 2 == pytest.approx(math.sqrt(2) * right / 0.7)
    assert entry.holds
    assert entry.ratio == pytest.approx(math.sqrt(2), rel=1e-6)


def test_recovery_from_a_sketch_pays_for_the_failure_of_its_matrix():
    entry = textbook.l1_recovery_gaussian(0.5, 1e-5)
    mu = mp.mpf(2) / entry.noise
    assert entry.true_delta.upper == pytest.approx(float(exact_delta(mu, mp.mpf("0.5"))) + 5e-6, rel=1e-3)
    assert entry.holds
    assert not textbook.l1_recovery_gaussian(16.0, 1e-5).holds


@pytest.mark.parametrize("rank", [1, 5, 14, 50, 1000])
def test_the_rank_enters_by_its_root(rank):
    """T = n²ε² steps with the printed noise: √(L² + rank·σ²)·D/√T against what is printed and what is right."""
    n, epsilon, delta = 1000, 0.5, 1e-6
    steps = (n * epsilon) ** 2
    sigma = 2 * math.sqrt(steps * math.log(1 / delta)) / (n * epsilon)
    factor = math.sqrt(1 + rank * sigma**2) / math.sqrt(steps) * n * epsilon
    found = textbook.rank_factor_misprint(delta, rank)
    assert found.right == pytest.approx(factor)
    assert found.holds == (2 * rank >= factor)
    assert (found.ratio < 1) == (not found.holds)


def test_sampled_steps_cost_the_root_of_their_number_over_n():
    from discreet.accounting import epsilon
    from discreet.events import FixedSize, Repeat

    n, steps, each = 400, 100, 0.5
    found = textbook.sampled_composition_misprint(each, steps, n)
    truth = epsilon(Repeat(FixedSize(1, n, PureDP(each)), steps), 1e-6, "replace-one").upper
    assert found.right < truth < 10 * found.right < found.printed  # up to constants and a logarithm
    assert textbook.misprints(1e-6, steps, n, rank=2)[1].printed_formula == "ε√(T/n)"


@pytest.mark.parametrize(("epsilon", "delta", "steps"), [(0.0, 1e-5, 1), (1.0, 0.0, 1), (1.0, 1.0, 1), (1.0, 1e-5, 0)])
def test_bad_targets(epsilon, delta, steps):
    with pytest.raises(InvalidInput, match="textbook"):
        textbook.noisy_descent_rank(epsilon, delta, steps)
