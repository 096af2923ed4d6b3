"""Rényi bounds against direct integration with mpmath, known values, and their own invariants."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting.upper.moments import log_excess
from discreet.accounting.upper.renyi import delta_upper, divergence, epsilon_upper, rdp
from discreet.errors import InvalidInput, NotCertifiable
from discreet.events import (
    ZCDP,
    ApproxDP,
    Compose,
    DiscreteGaussian,
    DiscreteLaplace,
    FixedSize,
    Gaussian,
    Laplace,
    NonPrivate,
    Parallel,
    Poisson,
    PureDP,
    RandomizedResponse,
    Repeat,
    Selection,
    WithReplacement,
)
from discreet.units import Unit


def normal(x, mean, sigma):
    return mp.exp(-((x - mean) ** 2) / (2 * sigma**2)) / (sigma * mp.sqrt(2 * mp.pi))


def integrated(order, p, q, points):
    """D_order(p‖q) by quadrature with 30 digits."""
    with mp.workdps(30):
        total = mp.quad(lambda x: p(x) ** order * q(x) ** (1 - order), points)
        return float(mp.log(total) / (order - 1))


def exact_gaussian_delta(mu, epsilon):
    """δ(ε) = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2)."""
    with mp.workdps(40):
        mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
        return float(mp.ncdf(-epsilon / mu + mu / 2) - mp.exp(epsilon) * mp.ncdf(-epsilon / mu - mu / 2))


def mixture(sigma, weights, sign=1):
    return lambda x: sum(w * normal(x, sign * j, sigma) for j, w in enumerate(weights))


SIGMA_RATE_ORDER = [(1.1, 0.05, 2.5), (0.7, 0.2, 3.0), (2.0, 0.01, 17.3), (4.0, 0.3, 1.4), (30.0, 0.001, 40.0)]


@pytest.mark.parametrize(("sigma", "rate", "order"), SIGMA_RATE_ORDER)
def test_poisson_gaussian_is_the_worst_pair_to_nine_digits(sigma, rate, order):
    far = mp.mpf(12 * sigma)
    points = [-2 * order - far, -1, 0, 1, order, 2 * order + far]
    mixed, plain = mixture(sigma, (1 - rate, rate)), mixture(sigma, (1,))
    both = [integrated(order, mixed, plain, points), integrated(order, plain, mixed, points)]
    added = divergence(Poisson(rate, Gaussian(sigma)), order, "add-remove")
    assert max(both) <= added == pytest.approx(max(both), rel=1e-9)
    mirrored = integrated(order, mixed, mixture(sigma, (1 - rate, rate), -1), points)
    replaced = divergence(Poisson(rate, Gaussian(sigma)), order, "replace-one")
    assert mirrored <= replaced == pytest.approx(mirrored, rel=1e-9)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_poisson_gaussian_with_three_rows_a_unit(relation):
    sigma, rate, order, k = 3.0, 0.1, 4.5, 3
    weights = [math.comb(k, j) * rate**j * (1 - rate) ** (k - j) for j in range(k + 1)]
    mixed = mixture(sigma, weights)
    other = mixture(sigma, (1,)) if relation == "add-remove" else mixture(sigma, weights, -1)
    points = [-60, -10, 0, 3, 10, 20, 80]
    truth = max(integrated(order, mixed, other, points), integrated(order, other, mixed, points))
    assert divergence(Poisson(rate, Gaussian(sigma)), order, Unit(relation, k)) == pytest.approx(truth, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(
    x=st.lists(st.floats(-1, 1), min_size=4, max_size=4),
    rate=st.floats(0.01, 0.9),
    order=st.sampled_from([1.5, 2.0, 6.0]),
)
def test_no_pair_of_rows_beats_the_worst_poisson_pair(x, rate, order):
    """Two-dimensional rows inside the unit disc, by a product trapezoid rule."""
    sigma = 1.3
    rows = np.array(x).reshape(2, 2)
    rows /= np.maximum(1, np.linalg.norm(rows, axis=1))[:, None]
    grid = np.arange(-11, 11, 0.2)
    gx, gy = np.meshgrid(grid, grid)

    def density(row):
        def at(mean):
            return np.exp(-((gx - mean[0]) ** 2 + (gy - mean[1]) ** 2) / (2 * sigma**2)) / (2 * np.pi * sigma**2)

        return (1 - rate) * at((0, 0)) + rate * at(row)

    p, q = density(rows[0]), density(rows[1])
    found = math.log((q * (p / q) ** order).sum() * 0.04) / (order - 1)
    assert found <= divergence(Poisson(rate, Gaussian(sigma)), order, "replace-one") + 1e-9


@pytest.mark.parametrize(("shift", "order"), [(0.5, 2.0), (3.0, 1.3), (1e-3, 50.0), (8.0, 30.0)])
def test_laplace_matches_its_integral(shift, order):
    def lap(mean):
        return lambda x: mp.exp(-abs(x - mean)) / 2

    truth = integrated(order, lap(mp.mpf(shift)), lap(0), [-mp.inf, 0, shift, mp.inf])
    assert divergence(Laplace(1 / shift), order, "add-remove") == pytest.approx(truth, rel=1e-9)
    assert divergence(Laplace(2 / shift), order, "replace-one") == pytest.approx(truth, rel=1e-9)
    assert divergence(Selection(shift, "permute-and-flip"), order, "replace-one") == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize(("order", "rate"), [(2.0, 0.1), (7.5, 0.01), (1.2, 0.5)])
def test_sampled_laplace_is_dominated_and_close(order, rate):
    shift = 1.5

    def lap(mean):
        return lambda x: mp.exp(-abs(x - mean)) / 2

    def mixed(x):
        return (1 - rate) * lap(0)(x) + rate * lap(shift)(x)

    points = [-mp.inf, 0, shift, mp.inf]
    truth = max(integrated(order, mixed, lap(0), points), integrated(order, lap(0), mixed, points))
    bound = divergence(Poisson(rate, Laplace(1 / shift)), order, "add-remove")
    assert truth * (1 - 1e-12) <= bound <= truth * (1 + 1e-5)


@pytest.mark.parametrize(("shift", "scale", "order"), [(1, 2.0, 3.0), (4, 3.0, 1.7), (10, 40.0, 20.0)])
def test_discrete_laplace_matches_enumeration(shift, scale, order):
    k = np.arange(-2500, 2500)
    p = np.exp(-abs(k - shift) / scale)
    q = np.exp(-abs(k) / scale)
    keep = (p > 0) & (q > 0)
    truth = math.log(np.sum(np.exp(order * np.log(p[keep]) + (1 - order) * np.log(q[keep]))) / q.sum()) / (order - 1)
    assert divergence(DiscreteLaplace(scale / shift, shift), order, "add-remove") == pytest.approx(truth, rel=1e-8)


@pytest.mark.parametrize(("sigma", "bound"), [(0.8, 1), (3.0, 2), (5.0, 1000)])
def test_sampled_discrete_gaussian_matches_enumeration(sigma, bound):
    rate, order = 0.1, 4.0
    k = np.arange(-40 * math.ceil(sigma) * bound, 40 * math.ceil(sigma) * bound + 1)
    at = [np.exp(-((k - mean) ** 2) / (2 * (sigma * bound) ** 2)) for mean in (0, bound)]
    plain, mixed = at[0] / at[0].sum(), ((1 - rate) * at[0] + rate * at[1]) / at[0].sum()
    keep = plain > 1e-280
    plain, mixed = plain[keep], mixed[keep]
    truth = max(math.log(np.sum(b * (a / b) ** order)) / (order - 1) for a, b in ((plain, mixed), (mixed, plain)))
    assert divergence(Poisson(rate, DiscreteGaussian(sigma, bound)), order, "add-remove") == pytest.approx(
        truth, rel=1e-8
    )


def test_randomized_response_and_pure_dp_match_their_two_and_three_point_pairs():
    epsilon, order, k = 1.2, 5.0, 4
    p = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    q = (1 - p) / (k - 1)
    truth = math.log(p**order * q ** (1 - order) + q**order * p ** (1 - order) + (k - 2) * q) / (order - 1)
    assert divergence(RandomizedResponse(epsilon, k), order, "replace-one") == pytest.approx(truth, rel=1e-9)
    assert divergence(RandomizedResponse(epsilon, k), order, Unit("replace-one", 3)) == pytest.approx(
        3 * truth, rel=1e-9
    )
    t = 1 / (1 + math.exp(epsilon))
    two = math.log((1 - t) ** order * t ** (1 - order) + t**order * (1 - t) ** (1 - order)) / (order - 1)
    assert divergence(PureDP(epsilon), order, "add-remove") == pytest.approx(two, rel=1e-9)
    assert divergence(PureDP(epsilon / 2), order, Unit("add-remove", 2)) == pytest.approx(two, rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(
    epsilon=st.floats(0.01, 6),
    order=st.floats(1.05, 60),
    scores=st.lists(st.floats(-3, 3), min_size=2, max_size=6),
    moves=st.lists(st.floats(-0.5, 0.5), min_size=6, max_size=6),
)
def test_exponential_mechanism_never_exceeds_its_selection_event(epsilon, order, scores, moves):
    """Scores of sensitivity 1 (changes of at most ½ either way have range 1), weights exp(ε·score)."""
    scores = np.array(scores)
    moved = scores + np.array(moves[: len(scores)])
    logp, logq = epsilon * scores, epsilon * moved
    logp, logq = logp - np.logaddexp.reduce(logp), logq - np.logaddexp.reduce(logq)
    found = np.logaddexp.reduce(order * logp + (1 - order) * logq) / (order - 1)
    assert found <= divergence(Selection(epsilon), order, "replace-one") + 1e-9


def without_replacement_pair(sigma, rate, x, replacement):
    """One coordinate; A = N(0, σ²), B = N(x, σ²), B' = N(x', σ²) and their batches."""
    grid = np.linspace(-14 * sigma, 14 * sigma, 20001)

    def at(mean):
        return np.exp(-((grid - mean) ** 2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))

    p = (1 - rate) * at(0.0) + rate * at(x)
    q = (1 - rate) * at(0.0) + rate * at(replacement)
    return p, q, grid[1] - grid[0]


@settings(max_examples=60, deadline=None)
@given(x=st.floats(-2, 2), other=st.floats(-2, 2), rate=st.sampled_from([0.02, 0.2, 0.6]), order=st.floats(1.1, 12))
def test_fixed_size_gaussian_bounds_every_batch_pair(x, other, rate, order):
    """Rows differ from the row they displace by at most 2C, and from each other by at most 2C."""
    if abs(x - other) > 2:
        other = x + math.copysign(2.0, other - x)
    p, q, step = without_replacement_pair(2.0, rate, x, other)
    found = math.log(np.sum(q * (p / q) ** order) * step) / (order - 1)
    n = 100
    assert found <= divergence(FixedSize(round(rate * n), n, Gaussian(2.0)), order, "replace-one") + 1e-9
    p, q, step = without_replacement_pair(2.0, rate, x, 0.0)
    q = without_replacement_pair(2.0, 0.0, x, 0.0)[0]
    for a, b in ((p, q), (q, p)):
        found = math.log(np.sum(b * (a / b) ** order) * step) / (order - 1)
        assert found <= divergence(FixedSize(round(rate * n), n, Gaussian(2.0)), order, "add-remove") + 1e-9


def test_fixed_size_beats_the_published_expansion():
    """The dominating pair is at least as good as the Rényi-only theorem, here reached through the same ρ."""
    sigma = 5.0
    stated = ZCDP(2 / sigma**2)  # what Gaussian(σ) is under replace-one
    for order in (2.0, 8.0, 32.0):
        sharp = divergence(FixedSize(10, 1000, Gaussian(sigma)), order, "replace-one")
        assert sharp < divergence(FixedSize(10, 1000, stated), order, "replace-one")


def test_fixed_size_discrete_gaussian_matches_the_continuous_one_on_a_fine_grid():
    for order in (1.4, 3.0, 12.5):
        fine = divergence(FixedSize(10, 100, DiscreteGaussian(4.0, 200)), order, "replace-one")
        smooth = divergence(FixedSize(10, 100, Gaussian(4.0)), order, "replace-one")
        assert fine == pytest.approx(smooth, rel=3e-3)  # cells round the continuous one up


@pytest.mark.parametrize("order", [1.5, 2.0, 6.0])
def test_fixed_size_discrete_gaussian_bounds_every_exchange_of_rows(order):
    sigma, rate = 1.2, 0.3
    k = np.arange(-60, 61)

    def batch(x):
        at = [np.exp(-((k - mean) ** 2) / (2 * sigma**2)) for mean in (0, x)]
        return ((1 - rate) * at[0] + rate * at[1]) / at[0].sum()

    bound = divergence(FixedSize(3, 10, DiscreteGaussian(sigma)), order, "replace-one")
    worst = 0.0
    for x in (-2, -1, 0, 1, 2):
        for other in (-2, -1, 0, 1, 2):
            if abs(x - other) <= 2:
                p, q = batch(x), batch(other)
                keep = (p > 0) & (q > 0)
                worst = max(worst, math.log(np.sum(q[keep] * (p[keep] / q[keep]) ** order)) / (order - 1))
    assert 0.5 * bound < worst <= bound * (1 + 1e-9)


def test_expansion_of_a_stated_curve_bounds_the_gaussian_it_could_be():
    sigma = 2.0
    for order in (1.3, 2.0, 6.5, 20.0):
        sharp = divergence(Poisson(0.05, Gaussian(sigma)), order, "add-remove")
        stated = divergence(Poisson(0.05, ZCDP(1 / (2 * sigma**2))), order, "add-remove")
        assert sharp <= stated * (1 + 1e-9)
        assert stated <= divergence(ZCDP(1 / (2 * sigma**2)), order, "add-remove")


def test_stated_guarantee_on_a_poisson_batch_under_replace_one_is_only_linear():
    """A replace-one ε says nothing about a batch without the row: a lone worst batch shows the loss stays near ε."""
    rate, epsilon, order = 0.1, 2.0, 8.0
    t = 1 / (1 + math.exp(epsilon))
    # Batch with the row answers on {0, 1} by randomised response, without it answers 2: B, B' differ, A is elsewhere.
    p, q = np.array([rate * (1 - t), rate * t, 1 - rate]), np.array([rate * t, rate * (1 - t), 1 - rate])
    found = math.log(np.sum(q * (p / q) ** order)) / (order - 1)
    assert divergence(Poisson(rate, PureDP(epsilon)), order, "replace-one") == pytest.approx(found, rel=1e-8)


def test_nested_poisson_is_one_poisson():
    nested = divergence(Poisson(0.5, Poisson(0.1, Gaussian(1.0))), 3.0, "add-remove")
    assert nested == pytest.approx(divergence(Poisson(0.05, Gaussian(1.0)), 3.0, "add-remove"), rel=1e-12)
    assert divergence(Poisson(0.0, Gaussian(1.0)), 3.0, "add-remove") == 0
    assert divergence(Poisson(1.0, Gaussian(1.0)), 3.0, "add-remove") == divergence(Gaussian(1.0), 3.0, "add-remove")


def test_with_replacement_sits_between_fixed_size_and_the_full_data():
    once = divergence(FixedSize(10, 1000, Laplace(4.0)), 4.0, "replace-one")
    drawn = divergence(WithReplacement(10, 1000, Laplace(4.0)), 4.0, "replace-one")
    assert once * 0.9 < drawn < divergence(Laplace(4.0), 4.0, "replace-one")
    with pytest.raises(NotCertifiable, match="batch"):
        divergence(WithReplacement(20_000, 10**6, Laplace(4.0)), 4.0, "replace-one")


GOLDEN = [  # (σ, q, T, δ, certified ε under add-remove, under replace-one, Rényi ε of peers under add-remove)
    (4, 0.01, 10_000, 1e-5, 0.9468668, 1.993120, 1.035),
    (1.1, 256 / 60_000, 14_062, 1e-5, 2.3815969, 4.221297, 2.597),
    (0.8, 0.001, 100_000, 1e-6, 2.9144783, 4.620874, 3.188),
    (0.6, 1e-4, 1_000_000, 1e-8, 2.8683198, 3.337865, 3.827),
    (2, 0.05, 500, 1e-6, 2.8726257, 5.551004, 3.102),
    (0.5, 0.02, 100, 1e-5, 9.6937035, 10.285221, 11.59),
    (20, 0.1, 1_000_000, 1e-9, 41.868362, 109.17767, 43.503),
]


@pytest.mark.parametrize(("sigma", "rate", "times", "delta", "add", "replace", "peers"), GOLDEN)
def test_epsilon_is_above_the_truth_and_no_worse_than_peers(sigma, rate, times, delta, add, replace, peers):
    run = Repeat(Poisson(rate, Gaussian(sigma)), times)
    assert add < epsilon_upper(run, delta, "add-remove") <= peers * 1.0005
    assert replace < epsilon_upper(run, delta, "replace-one") < 1.35 * replace


@pytest.mark.parametrize("sigma", [1e-2, 0.3, 1.0, 10.0, 1e4, 1e6])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_gaussian_epsilon_is_above_exact_and_tight(sigma, delta):
    bound = epsilon_upper(Gaussian(sigma), delta, "add-remove")
    assert exact_gaussian_delta(1 / sigma, bound) <= delta
    assert bound == 0 or exact_gaussian_delta(1 / sigma, bound / 1.75) > delta


def test_large_noise_keeps_its_digits():
    assert 1.94e-4 < epsilon_upper(Gaussian(1e4), 1e-6, "add-remove") < 2.5e-4
    tiny = divergence(Poisson(1e-3, Gaussian(1e4)), 100.0, "add-remove")
    assert tiny == pytest.approx(100 * 1e-6 / (2 * 1e8), rel=1e-3)


def test_delta_inverts_epsilon():
    run = Compose([Repeat(Gaussian(8.0), 20), Laplace(5.0), Selection(0.3)])
    epsilon = epsilon_upper(run, 1e-6, "replace-one")
    assert delta_upper(run, epsilon, "replace-one") == pytest.approx(1e-6, rel=1e-3)


def test_pure_events_at_zero_delta_and_others_at_infinity():
    assert epsilon_upper(Compose([PureDP(0.5), Laplace(2.0)]), 0.0, "add-remove") == 1.0
    assert epsilon_upper(Gaussian(1.0), 0.0, "add-remove") == math.inf
    assert epsilon_upper(NonPrivate(), 1e-5, "add-remove") == math.inf
    assert epsilon_upper(Compose(()), 0.0, "add-remove") == 0.0
    assert epsilon_upper(Gaussian(1.0), 1.0, "add-remove") == 0.0


def test_stated_failures_are_subtracted_from_delta():
    run = Compose([Repeat(ApproxDP(0.1, 1e-7), 50), Gaussian(4.0)])
    alone = epsilon_upper(Compose([Repeat(PureDP(0.1), 50), Gaussian(4.0)]), 1e-5 - 50e-7, "add-remove")
    assert epsilon_upper(run, 1e-5, "add-remove") == pytest.approx(alone, rel=1e-4)
    assert epsilon_upper(run, 1e-6, "add-remove") == math.inf
    with pytest.raises(NotCertifiable, match="no finite Rényi"):
        divergence(run, 2.0, "add-remove")


def test_parallel_parts_count_once():
    run = Parallel([Gaussian(1.0), Gaussian(0.5)])
    assert divergence(run, 2.0, "add-remove") == divergence(Gaussian(0.5), 2.0, "add-remove")


@settings(max_examples=40, deadline=None)
@given(sigma=st.floats(0.3, 50), rate=st.floats(1e-5, 1), order=st.floats(1.05, 200), rows=st.integers(1, 4))
def test_monotone_in_everything(sigma, rate, order, rows):
    for relation in ("add-remove", "replace-one"):
        unit = Unit(relation, rows)
        base = divergence(Poisson(rate, Gaussian(sigma)), order, unit)
        assert base >= 0
        slack = 1 + 1e-6
        assert divergence(Poisson(rate, Gaussian(sigma * 1.3)), order, unit) <= base * slack
        assert divergence(Poisson(rate * 0.7, Gaussian(sigma)), order, unit) <= base * slack
        assert divergence(Poisson(rate, Gaussian(sigma)), order * 1.2, unit) >= base / slack
        assert divergence(Poisson(rate, Gaussian(sigma)), order, Unit(relation, rows + 1)) >= base / slack


@pytest.mark.parametrize("sigma", [1e-3, 0.05, 1e6])
@pytest.mark.parametrize("rate", [1e-9, 0.5, 1.0])
def test_extremes_are_numbers(sigma, rate):
    for relation in ("add-remove", "replace-one"):
        for inner in (Poisson(rate, Gaussian(sigma)), FixedSize(max(1, int(rate * 10**9)), 10**9, Gaussian(sigma))):
            value = epsilon_upper(Repeat(inner, 10**9), 1e-300, relation)
            assert value >= 0
            assert not math.isnan(value)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("inner", [Gaussian(5.0), Laplace(50.0), PureDP(0.01), DiscreteGaussian(9.0)])
def test_units_with_so_many_rows_that_every_batch_meets_them(relation, inner):
    unit = Unit(relation, 300)
    assert divergence(Poisson(0.5, inner), 2.0, unit) <= divergence(inner, 2.0, unit) * (1 + 1e-9)
    few = Unit(relation, 40)
    assert 0 < divergence(Poisson(1e-9, inner), 2.0, few) < divergence(inner, 2.0, few)
    drawn = divergence(WithReplacement(50, 41, inner), 2.0, few)
    assert drawn > 0
    assert not math.isnan(drawn)


def test_bad_input():
    with pytest.raises(InvalidInput, match="order"):
        divergence(Gaussian(1.0), 1.0, "add-remove")
    with pytest.raises(InvalidInput, match="delta"):
        epsilon_upper(Gaussian(1.0), math.nan, "add-remove")
    with pytest.raises(InvalidInput, match="epsilon"):
        delta_upper(Gaussian(1.0), -1.0, "add-remove")
    with pytest.raises(InvalidInput, match="adjacency"):
        rdp(Gaussian(1.0), [2], "bounded")  # type: ignore[arg-type]


@settings(max_examples=200, deadline=None)
@given(
    loss=st.floats(-30, 30).filter(lambda x: x == 0 or abs(x) > 1e-40),
    power=st.one_of(st.floats(1.05, 500), st.floats(-500, -0.05)),
)
def test_log_excess_matches_many_digits(loss, power):
    with mp.workdps(140):
        truth = mp.exp(mp.mpf(power) * mp.mpf(loss)) - 1 - power * mp.expm1(mp.mpf(loss))
        expected = float(mp.log(truth)) if truth > 0 else -math.inf
    got = float(log_excess(power, np.array([loss]), np.expm1(np.array([loss])))[0])
    assert got == pytest.approx(expected, rel=1e-9, abs=1e-8)
