"""Coefficients with a covariance: against references without noise, and the privacy of weighted rows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import poisson

from discreet.accounting.exact.objective_perturbation import objective_profile
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.geometry import L2Ball
from discreet.losses import CappedPoisson, Huber, Logistic, Poisson, SmoothedHinge, Softmax, Squared
from discreet.measurements.perturbed_minimum import PerturbedMinimum
from discreet.measurements.program import drive
from discreet.noise.bits import Bits
from discreet.queries.mapped import MappedRows
from discreet.queries.minimiser.extended_precision import minimise_in_decimals
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.queries.whitened import Whitening, WorkingRows, stretches
from discreet.recipes.intervals import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.base import Partition
from discreet.solvers.parts.average_slope import _whole_mean
from discreet.solvers.parts.count_cap import best_cap, cap_for_mean, excess
from discreet.solvers.parts.whitening import design
from discreet.units import Unit

ADD = Unit("add-remove")
ROWS = RowSpec(2, 3.0, 1.0)
GIVEN = RowSpec(2, 5.0)


def table(loss: Any, n: int = 3000, seed: int = 0) -> tuple[Any, Any]:
    """Rows and targets of a model that is well specified."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    X *= np.minimum(1, 3.0 / np.linalg.norm(X, axis=1))[:, None]
    score = 0.3 + X @ [0.5, -0.4]
    if isinstance(loss, Logistic):
        return X, np.where(rng.random(n) < expit(score), 1.0, -1.0)
    if isinstance(loss, Poisson):
        return X, rng.poisson(np.exp(score)).astype(float)
    return X, (score + 0.5 * rng.normal(size=n)) / 4


def run(solver: Any, problem: Problem, X: Any, y: Any, seed: int = 0) -> Any:
    data, bits = in_memory(X, y, problem.rows), Bits.seeded(seed)
    return drive(solver.estimated(problem), lambda measurement: measurement.sample(data, ADD, bits))


def reference(loss: Any, X: Any, y: Any, robust: bool) -> tuple[Any, Any]:
    """(coefficients, covariance) by Newton's method and the textbook formulas."""
    Z = np.column_stack([X, np.ones(len(X))])
    theta = np.linalg.lstsq(Z, y, rcond=None)[0] if isinstance(loss, Squared | Huber) else np.zeros(3)
    for _ in range(50):
        a, k = loss.slope(Z @ theta, y), loss.curvature(Z @ theta, y)
        theta = theta - np.linalg.solve((Z * k[:, None]).T @ Z, Z.T @ a)
    a, k = loss.slope(Z @ theta, y), loss.curvature(Z @ theta, y)
    H = (Z * k[:, None]).T @ Z
    V = (Z * a[:, None] ** 2).T @ Z if robust else H
    if not robust and not isinstance(loss, Logistic | Poisson):
        V = H * (a @ a) / k.sum() * len(y) / (len(y) - 3)
    return theta, np.linalg.inv(H) @ V @ np.linalg.inv(H)


def population_slope(loss: Any) -> float:
    """E g'(score) over the rows of `table`."""
    X = table(loss, 200_000, 77)[0]
    score = 0.3 + X @ [0.5, -0.4]
    if isinstance(loss, Logistic):
        return float(np.mean(expit(score) * expit(-score)))
    return float(np.mean(np.exp(score))) if isinstance(loss, Poisson) else 1.0


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("loss", [Logistic(), Squared(), Huber(0.2), Poisson()], ids=lambda loss: type(loss).__name__)
def test_without_noise_estimate_and_covariance_are_the_textbook_s(loss: Any, robust: bool) -> None:
    X, y = table(loss)
    problem = Problem(RowSpec(2, math.inf, 1.0), loss, float(len(y)), robust=robust)
    solver = recipe(problem, Guarantee(math.inf, 0.0, ADD))
    found = run(solver, problem, X, y)
    theta, covariance = reference(loss, X, y, robust)
    np.testing.assert_allclose(found.theta, theta, rtol=1e-6)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-5)
    assert found.quality == math.inf


def test_without_noise_the_average_slope_is_the_delta_method_s() -> None:
    """A, its covariance with coefficients and its variance, by derivatives taken as differences."""
    X, y = table(Logistic())
    problem = Problem(RowSpec(2, math.inf, 1.0), Logistic(), float(len(y)))
    found = run(recipe(problem, Guarantee(math.inf, 0.0, ADD)), problem, X, y)
    Z = np.column_stack([X, np.ones(len(X))])

    def average(theta: Any) -> float:
        return float(np.mean(expit(Z @ theta) * expit(-Z @ theta)))

    step = 1e-5 * np.eye(3)
    slope = np.array([(average(found.theta + e) - average(found.theta - e)) / 2e-5 for e in step])
    value = average(found.theta)
    assert found.average_slope.value == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(found.average_slope.covariance, found.covariance @ slope, rtol=1e-5)
    expected = slope @ found.covariance @ slope + value * (0.25 - value) / len(y)
    assert found.average_slope.variance == pytest.approx(expected, rel=1e-5)
    counts = table(Poisson())[1]
    problem = Problem(problem.rows, Poisson(), float(len(y)))
    found = run(recipe(problem, Guarantee(math.inf, 0.0, ADD)), problem, X, counts)
    assert found.average_slope.value == pytest.approx(counts.mean())
    assert found.average_slope.variance == pytest.approx(counts.var() / len(y))


@pytest.mark.parametrize("loss", [Logistic(), Squared(), Poisson()], ids=lambda loss: type(loss).__name__)
def test_standard_errors_are_those_of_estimates_over_rows_and_noise(loss: Any) -> None:
    """(θ̂ − θ)/se over 150 runs × 3 coefficients has mean 0 and variance 1: each test errs with probability 1e-3.

    The variance of a mean of k squares of normals is 2/k; those of one run are correlated, so k = 150 is taken. Those
    of average marginal effects hold at least: their mean square is not above 1.
    """
    problem = Problem(ROWS, loss, 4000.0, largest_count=40.0)
    solver = recipe(problem, Guarantee(2.0, 1e-6, ADD))
    scores, effects, share = [], [], population_slope(loss)
    for seed in range(150):
        X, y = table(loss, 4000, seed)
        found = run(solver, problem, X, y, seed)
        assert found.quality > 1
        truth = np.array([0.5, -0.4, 0.3]) / (4 if isinstance(loss, Squared) else 1)
        scores.append((found.theta - truth) / np.sqrt(np.diag(found.covariance)))
        average, theta = found.average_slope, found.theta
        variance = average.value**2 * np.diag(found.covariance) + average.variance * theta**2
        variance += 2 * average.value * theta * average.covariance
        effects.append(((average.value * theta - share * truth) / np.sqrt(variance))[:2])
    assert np.abs(np.mean(effects, axis=0)).max() < 3.6 / math.sqrt(150)
    assert np.mean(np.square(effects)) < 1 + 3.1 * math.sqrt(2 / 150)
    assert np.abs(np.mean(scores, axis=0)).max() < 3.6 / math.sqrt(150)
    assert abs(np.mean(np.square(scores)) - 1) < 3.3 * math.sqrt(2 / 150)


@pytest.mark.parametrize("loss", [Logistic(), Squared(), Huber(0.2), Poisson()], ids=lambda loss: type(loss).__name__)
def test_the_plan_does_not_depend_on_any_answer(loss: Any) -> None:
    """Whatever was answered, the same events in the same order: also to answers as wild as noise can make them."""
    problem = Problem(RowSpec(6, 3.0, 1.0), loss, 100.0, robust=True, partitions=(Partition(0, 4),), largest_count=40.0)
    solver = recipe(problem, Guarantee(0.5, 1e-6, ADD))
    plan, rng = rehearse(solver, problem, ADD), np.random.default_rng(0)
    for size in (0.0, 1.0, 1e3, 1e9):
        events: list[Any] = []

        def answer(measurement: Any, size: float = size, events: list[Any] = events) -> Any:
            events.append(measurement.event(ADD))
            return rng.normal(size=np.shape(measurement.blank())) * size

        drive(solver.steps(problem), answer)
        assert events == plan


# --- privacy of weighted rows -------------------------------------------------------------------------------------


def weighted(loss: Any, X: Any, y: Any, matrix: Any, ridge: float) -> tuple[RidgeMinimiser, Any]:
    through = Whitening(GIVEN, RowSpec(2, 1.0), matrix)
    return RidgeMinimiser(through.rows, loss, ridge, through=through, weighted=True), in_memory(X, y, GIVEN)


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5), CappedPoisson(3)], ids=lambda loss: type(loss).__name__)
def test_a_weighted_minimiser_is_that_of_whole_rows_with_weights(loss: Any) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 2))
    y = rng.choice([-1.0, 1.0], 200) if isinstance(loss, Logistic) else rng.poisson(1.0, 200).astype(float)
    matrix = np.array([[0.8, 0.3], [-0.2, 0.6]])
    query, data = weighted(loss, X, y, matrix, 5.0)
    tilt, tolerance = np.array([3.0, -2.0]), query.least_tolerance(10.0)
    found = query.minimise(data, tilt, tolerance)
    Z = X @ matrix.T
    w = np.minimum(1, 1 / (Z**2).sum(axis=1))
    assert (w < 1).sum() > 30
    gradient = Z.T @ (w * loss.slope(Z @ found, y)) + 5.0 * found + tilt
    assert np.abs(gradient).max() < 200 * 2.0**-15  # rows are rounded to 2^-18 of their length
    exact = minimise_in_decimals(query, MappedRows(data, query.through, True), tilt, np.zeros(2), tolerance)
    assert np.linalg.norm(exact - found) <= 2 * tolerance / 5.0


def test_a_ridge_about_a_point_is_a_ridge_about_zero_with_another_tilt() -> None:
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(100, 2)), rng.choice([-1.0, 1.0], 100)
    query, data = weighted(Logistic(), X, y, np.eye(2) / 2, 1e5)
    centre, tolerance = np.array([2.0, -1.0]), 1e-3
    release = PerturbedMinimum(query, 1.0, 1e-3, tolerance, centre=centre)
    assert release.event(ADD) == replace(release, centre=None).event(ADD)
    np.testing.assert_allclose(release.sample(data, ADD, Bits.seeded(0)), centre, atol=2e-3)


def hockey_stick(one: Any, other: Any, epsilon: float, step: float) -> float:
    return float(np.maximum(one - math.exp(epsilon) * other, 0).sum() * step)


@pytest.mark.parametrize("ridge", [0.2, 1.0, 4.0])
@pytest.mark.parametrize("stretch", [1.0, 1.5, 3.0, 10.0])
def test_the_linked_profile_holds_for_weighted_rows(stretch: float, ridge: float) -> None:
    """δ(ε) of the minimiser's own density, with and without one weighted row beside many of the other label.

    The row has length 1 and stands for one ``stretch`` times as long: in one dimension the density of the minimiser is
    φ(b(θ))·J''(θ), integrated on a grid.
    """
    noise, theta = 1.5, np.linspace(-60, 60, 120_001)
    step = theta[1] - theta[0]

    def density(rows: list[tuple[float, float]]) -> Any:
        tilt, bend = -ridge * theta, np.full_like(theta, ridge)
        for y, t in rows:
            s = expit(-y * t * theta)
            tilt += y * s / t
            bend += s * (1 - s)
        found = np.exp(-((tilt / noise) ** 2) / 2) * bend
        return found / (found.sum() * step)

    query = RidgeMinimiser(
        RowSpec(1, 1.0),
        Logistic(),
        ridge,
        through=Whitening(RowSpec(1, 1.0), RowSpec(1, 1.0), np.eye(1)),
        weighted=True,
    )
    event = PerturbedMinimum(query, noise, 1e-9, query.least_tolerance(1e9)).event(ADD)
    epsilons = np.array([0.0, 0.2, 0.5, 1.0, 2.0, 4.0])
    claimed = objective_profile(replace(event, deviation=0.0), ADD)(epsilons)
    largest = 0.0
    for others in ([], [(-1.0, 1.0)] * 20, [(-1.0, stretch)] * 20, [(1.0, stretch)] * 3):
        without, both = density(others), density([*others, (1.0, stretch)])
        for epsilon, most in zip(epsilons, claimed, strict=True):
            for pair in ((both, without), (without, both)):
                found = hockey_stick(*pair, epsilon, step)
                assert found <= most + 1e-9
                largest = max(largest, found / most)
    assert stretch > 1 or largest > 0.7  # rows that are not weighted come near the claim: it is not empty


def test_the_smaller_curvature_of_cut_slopes_is_not_claimed_for_weighted_rows() -> None:
    """A cut at L = 0.1 leaves a row of length 1 the curvature L(1 − L); one that stands for a longer row has ¼."""
    through = Whitening(RowSpec(1, 50.0), RowSpec(1, 1.0), np.eye(1))
    query = RidgeMinimiser(through.rows, Logistic(), 1.0, 0.1, through=through, weighted=True)
    made = through.block(in_memory(np.full((1, 1), 50.0), np.ones(1), RowSpec(1, 50.0)).parts()[1][0], rounded=True)
    assert stretches(made)[0] == pytest.approx(50.0, rel=1e-4)
    slope, curvature = 0.5 / 50, 0.25  # at θ = 0: far below the cut, and the largest curvature
    assert slope < 0.1
    assert curvature <= query.curvature_bound
    assert curvature > replace(query, weighted=False).curvature_bound


def test_weights_need_a_whitening_map() -> None:
    with pytest.raises(InvalidInput, match="whitening"):
        RidgeMinimiser(ROWS, Logistic(), 1.0, weighted=True)
    with pytest.raises(InvalidInput, match="shape"):
        Whitening(ROWS, RowSpec(2, 1.0), np.eye(2))
    with pytest.raises(InvalidInput, match="finite"):
        Whitening(GIVEN, RowSpec(2, 1.0), np.full((2, 2), np.inf))
    through = Whitening(GIVEN, RowSpec(2, 1.0), np.eye(2))
    with pytest.raises(InvalidInput, match="θ"):
        WorkingRows(through, Logistic(), np.zeros(3), "curvature")
    with pytest.raises(InvalidInput, match="logistic"):
        WorkingRows(through, Huber(0.5), np.zeros(2), "slope of p")


# --- settings -----------------------------------------------------------------------------------------------------


def test_a_capped_count_has_an_unbiased_slope_and_the_curvature_of_a_covariance() -> None:
    for cap, mean in ((1, 0.3), (4, 1.0), (4, 6.0), (9, 3.0)):
        y, loss = np.arange(200), CappedPoisson(cap)
        law = poisson.pmf(y, mean)
        slope = loss.slope(math.log(mean), y.astype(float))
        assert law @ slope == pytest.approx(0.0, abs=1e-12)
        covariance = law @ ((np.minimum(y, cap) - law @ np.minimum(y, cap)) * y)
        assert loss.curvature(math.log(mean), 0.0) * loss.largest_curvature == pytest.approx(covariance, rel=1e-9)


@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("mean", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("noise", [0.05, 0.2, 0.5])
def test_counts_are_capped_where_standard_errors_are_about_least(mean: float, noise: float, spread: float) -> None:
    """Whatever the spread of log-means is: within 10 % of the least over all caps."""
    rates = mean * np.exp(spread * np.random.default_rng(0).standard_normal(20_000) - spread**2 / 2)

    def error(cap: int) -> float:
        bend = float(np.mean(rates * poisson.cdf(cap - 1, rates)))
        return math.sqrt(bend + (cap * noise) ** 2) / bend

    assert error(best_cap(mean, noise)) < 1.1 * min(map(error, range(1, 31)))


def test_a_cut_mean_and_what_it_lacks_add_up() -> None:
    rates = 1.5 * np.exp(0.8 * np.random.default_rng(1).standard_normal(400_000) - 0.32)
    counts = np.random.default_rng(2).poisson(rates)
    cap = cap_for_mean(1.5, 0.64, 0.01, 500.0)
    assert 4 < cap < 20
    beyond = np.maximum(counts - cap, 0)
    room = 5 * beyond.std() / math.sqrt(len(counts))
    assert excess(cap, 1.5, 0.64) == pytest.approx(beyond.mean(), abs=room)
    square = 0.64 + (math.log(1.5) - 0.32) ** 2  # the mean square of the scores
    value, factor = _whole_mean(1.5 - excess(cap, 1.5, 0.64), cap, square)
    assert value == pytest.approx(1.5, rel=1e-6)
    assert 1.0 < factor < 2.0
    assert cap_for_mean(1.5, 0.64, 0.0, 500.0) == 500.0
    assert cap_for_mean(0.1, 0.0, 1.0, 1.0) == 1.0


def test_robust_intervals_of_counts_take_the_whole_count() -> None:
    """A cap knows what it cuts for Poisson counts alone, so that robust intervals are capped at the declared bound."""
    problem = Problem(ROWS, Poisson(), 1e4, robust=True, largest_count=30.0)
    assert recipe(problem, Guarantee(1.0, 1e-6, ADD)).cap == 30
    assert recipe(replace(problem, robust=False), Guarantee(1.0, 1e-6, ADD)).cap == 0
    with pytest.raises(InvalidInput, match="at most 256"):
        recipe(replace(problem, largest_count=1000.0), Guarantee(1.0, 1e-6, ADD))


def test_levels_without_rows_are_joined_with_the_level_before() -> None:
    problem = Problem(RowSpec(8, 1.0, 0.5), Logistic(), 10.0, partitions=(Partition(0, 3), Partition(3, 7)))
    held = np.diag([5.0, 0.1, 5.0, 0.1, 5.0, 0.1, 5.0, 0.0, 9.0])
    found = [np.flatnonzero(row).tolist() for row in design(problem, held, 1.0)]
    assert found == [[2], [6], [7], [8]]
    assert design(problem, np.zeros((9, 9)), 1.0).shape == (2, 9)
    no_constant = Problem(RowSpec(3, 1.0), Logistic(), 10.0, partitions=(Partition(0, 3),))
    assert len(design(no_constant, np.eye(3), 0.1)) == 3


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (Problem(RowSpec(2, 1.0, outputs=3), Softmax(3), 100.0), "two classes"),
        (Problem(ROWS, SmoothedHinge(), 100.0), "intervals are for"),
        (Problem(ROWS, Logistic(), 100.0, ridge=0.1), "ridge"),
        (Problem(ROWS, Logistic(), 100.0, domain=L2Ball(1.0)), "constraint"),
        (Problem(RowSpec(2, math.inf), Logistic(), 100.0), "row_norm"),
    ],
)
def test_what_has_no_intervals_is_refused(problem: Problem, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        recipe(problem, Guarantee(1.0, 1e-6, ADD))


def test_shares_must_leave_something() -> None:
    with pytest.raises(InvalidInput, match="leave some budget"):
        recipe(Problem(ROWS, Logistic(), 100.0), Guarantee(1.0, 1e-6, ADD), hessian_share=0.95)
    with pytest.raises(InvalidInput, match="pure"):
        recipe(Problem(ROWS, Logistic(), 100.0), Guarantee(1.0, 0.0, ADD))
