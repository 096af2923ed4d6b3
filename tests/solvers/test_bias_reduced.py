"""The bias-reduced estimator: unbiased up to its largest batch, stopped by its filter, as private as it says."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import discreet as dp
from discreet import events
from discreet.accounting import epsilon
from discreet.accounting.adaptive.filters import RenyiFilter
from discreet.accounting.upper.renyi import divergence
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.ledger import Ledger
from discreet.losses import Logistic
from discreet.measurements import SplitBatch
from discreet.mechanisms import Gaussian
from discreet.noise import Bits
from discreet.queries.sums.gradient import GradientSum
from discreet.recipes.bias_reduced import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.bias_reduced import BiasReduced
from discreet.units import Unit
from discreet.vault import Vault

REPLACE, ADD = Unit("replace-one"), Unit("add-remove")
N, D = 64, 40
RNG = np.random.default_rng(3)


def sparse_rows(n=N, d=D):
    X = np.zeros((n, d))
    for row in X:
        row[RNG.integers(0, d // 4, 2)] = 0.7
    return X


ROWS = RowSpec(D, 1.0)
X = sparse_rows()
Y = np.where(X[:, 0] + 0.1 * RNG.standard_normal(N) > 0, 1.0, -1.0)
DATA = in_memory(X, Y, ROWS)
PROBLEM = Problem(ROWS, Logistic(), float(N))
SOLVER = BiasReduced(0.4, 30, 1.0, 0.5, smallest=2, levels=4, sparsity=2)


class Projecting(BiasReduced):
    """At every level, so that there is much bias to be reduced; the bounds hold for that too."""

    def projects(self, problem, rows):
        return True


def true_gradient(theta):
    slopes = -Y / (1 + np.exp(Y * (X @ theta)))
    return slopes @ X / N


def estimates(solver, theta, runs, unit, seed, data=DATA):
    """Estimates at θ with levels drawn as in a run."""
    bits, found = Bits.seeded(seed), []
    for t in range(runs):
        steps = solver.estimate(PROBLEM, theta, solver.level(t))
        try:
            steps.send(next(steps).sample(data, unit, bits))
        except StopIteration as stop:
            found.append(stop.value)
    return np.array(found)


def mean_of_largest(solver, theta, runs, unit, seed):
    """E G at the largest batch, by the plain mean of its draws."""
    bits, rows = Bits.seeded(seed), solver.smallest << solver.levels
    total = []
    for _ in range(runs):
        query = GradientSum(ROWS, Logistic(), theta, solver.clip)
        batch = solver._sampling(rows, PROBLEM.n).draw(DATA, bits)
        of_batch = solver.noise_multiplier * math.sqrt(rows / solver.smallest)  # the noise of all its leaves
        noisy = Gaussian(of_batch).perturb(query.integers(batch), query, bits)
        total.append(solver._mean(noisy, rows, PROBLEM))
    return np.array(total)


def leaf_sums(solver, theta, runs, unit):
    query, bits = GradientSum(ROWS, Logistic(), theta, solver.clip), Bits.seeded(3)
    leaf = SplitBatch(query, Gaussian(solver.noise_multiplier), solver._sampling(solver.smallest, PROBLEM.n), 1)
    return [leaf.sample(DATA, unit, bits)[0] for _ in range(runs)]


@pytest.mark.parametrize(("batches", "unit"), [("fixed-size", REPLACE), ("poisson", ADD)])
def test_the_estimator_has_the_expectation_of_its_largest_batch(batches, unit):
    """Along five fixed directions the two means agree within 4.5 standard errors (false alarm < 1e-4 in all).

    Power: the same test tells the mean of a leaf, what the estimator would have without its correction, apart.
    """
    solver = Projecting(1.0, 30, 1.0, 0.5, smallest=2, levels=3, sparsity=2, batches=batches, seed=11)
    theta = np.linspace(-1, 1, D)
    reduced = estimates(solver, theta, 2_500, unit, 1)
    largest = mean_of_largest(solver, theta, 1_500, unit, 2)
    leaf = np.array([solver._mean(x, 2, PROBLEM) for x in leaf_sums(solver, theta, 3_000, unit)])
    gradient = true_gradient(theta)
    directions = [gradient / np.linalg.norm(gradient), *np.eye(D)[[0, 3, 7, 20]]]

    def gap(one, other, direction):
        a, b = one @ direction, other @ direction
        return abs(a.mean() - b.mean()) / math.sqrt(a.var() / len(a) + b.var() / len(b))

    assert max(gap(reduced, largest, v) for v in directions) < 4.5
    assert max(gap(reduced, leaf, v) for v in directions) > 5
    # the bias is below its bound even with 4.5 standard errors added to what was measured
    bias = gradient - reduced.mean(axis=0)
    standard_error = math.sqrt(reduced.var(axis=0).sum() / len(reduced))
    assert np.linalg.norm(bias) + 4.5 * standard_error <= solver.bias_bound(PROBLEM)
    assert (reduced**2).sum(axis=1).mean() <= solver.second_moment_bound(PROBLEM)


def test_levels_have_their_probabilities():
    solver = replace(SOLVER, levels=5)
    probabilities = [solver.probability(k) for k in range(5)]
    assert sum(probabilities) == pytest.approx(1.0)
    assert [p / probabilities[0] for p in probabilities] == pytest.approx([1, 0.5, 0.25, 0.125, 0.0625])
    drawn = np.bincount([solver.level(t) for t in range(20_000)], minlength=5)
    chi = (((drawn - 20_000 * np.array(probabilities)) ** 2) / (20_000 * np.array(probabilities))).sum()
    assert chi < 23.5  # 4 degrees of freedom: exceeded with probability 1e-4


def test_without_projection_the_estimate_is_the_mean_of_the_batch():
    """The correction is then exactly 0, so that debiasing costs no variance; with it it is not."""
    for kind, projected in ((BiasReduced, False), (Projecting, True)):
        solver = kind(4.0, 30, 1.0, 0.5, smallest=2, levels=4, sparsity=2)
        assert solver.projects(PROBLEM, solver.smallest << 3) is projected
        steps = solver.estimate(PROBLEM, np.zeros(D), 2)
        sums = next(steps).sample(DATA, REPLACE, Bits.seeded(1))
        assert len(sums) == 8
        try:
            steps.send(sums)
        except StopIteration as stop:
            same = np.allclose(stop.value, np.sum(sums, axis=0) / 16, atol=1e-12)
        assert same is not projected
    assert BiasReduced(4.0, 30, 1.0, 0.5, smallest=2, levels=4, sparsity=2).bias_bound(PROBLEM) == 0


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_a_run_stops_with_its_filter_and_never_overspends(relation):
    unit = Unit(relation)
    guarantee = Guarantee(2.0, 1e-5, unit)
    solver = recipe(PROBLEM, guarantee, sparsity=2, smallest=2, levels=3, noise_multiplier=8.0, recalibration_share=0.0)
    for seed in range(4):
        ledger, made = Ledger(), replace(solver, seed=seed)
        budget, done = made.filter(unit), []
        theta = Vault(DATA, unit, ledger, Bits.seeded(seed)).run_filtered(
            made, PROBLEM, budget, progress=lambda count, planned, done=done: done.append(count)
        )
        assert theta.shape == (D,)
        steps = [next(made.estimate(PROBLEM, np.zeros(D), made.level(t))).event(unit) for t in range(len(done) + 1)]
        costs = [divergence(event, made.order, unit) for event in steps]
        assert math.fsum(costs[:-1]) <= budget.budget * (1 + 1e-9)
        assert len(done) == made.iterations or math.fsum(costs) > budget.budget
        (charge,) = ledger.history()
        assert charge.event == budget.event()
        assert epsilon(charge.event, 1e-5, unit).upper <= 2.0 * (1 + 1e-9)
    # what was really done costs no more than what was charged, by an accountant that knows the whole run
    assert epsilon(events.compose(sorted(steps[:-1], key=repr)), 1e-5, unit).upper <= 2.0


def test_without_noise_it_descends_to_the_minimiser():
    """ε = ∞: the same code, whose gradient of all rows is exact once batches hold them all."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    table = rng.normal(size=(32, 2))
    table *= 0.9 / np.linalg.norm(table, axis=1, keepdims=True)  # shorter than row_norm: nothing is clipped
    labels = np.where(table[:, 0] + 0.3 * rng.normal(size=32) > 0, 1.0, -1.0)
    rows, ridge = RowSpec(2, 1.0), 0.5
    problem = Problem(rows, Logistic(), 32.0, ridge=ridge)
    # with G_{b₀} and both halves inside the balls nothing is projected, and ĝ is the mean over b₀ = 32 of 32 rows
    solver = BiasReduced(0.0, 400, 1.0, 1.0, smallest=32, levels=1, sparsity=2)
    with pytest.raises(InvalidInput, match="batch"):
        rehearse(solver, problem, REPLACE)  # 64 of 32 rows
    half = replace(solver, smallest=16, iterations=4000, step=0.05)
    theta = Vault(in_memory(table, labels, rows), REPLACE, Ledger(), Bits.seeded(0)).run(half, problem)
    expected = (
        LogisticRegression(C=1 / (ridge * 32), fit_intercept=False, tol=1e-12, solver="newton-cholesky")
        .fit(table, labels)
        .coef_[0]
    )
    np.testing.assert_allclose(theta, expected, atol=0.02)
    # one estimate on a batch of all rows is the gradient itself, to rounding
    sums = next(half.estimate(problem, expected, 0)).sample(in_memory(table, labels, rows), REPLACE, Bits.seeded(0))
    np.testing.assert_allclose(np.sum(sums, axis=0) / 32 + ridge * expected, 0.0, atol=1e-6)


def test_the_random_iterate_is_one_of_the_points_visited():
    solver = replace(SOLVER, iterate="random", iterations=12)
    vault = Vault(DATA, REPLACE, Ledger(), Bits.seeded(4))
    chosen = vault.run(solver, PROBLEM)
    visited = [np.zeros(D)]
    bits = Bits.seeded(4)
    for t in range(12):
        steps = solver.estimate(PROBLEM, visited[-1], solver.level(t))
        try:
            steps.send(next(steps).sample(DATA, REPLACE, bits))
        except StopIteration as stop:
            visited.append(visited[-1] - solver.step * stop.value)
    assert any(np.array_equal(chosen, point) for point in visited[:-1])


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_an_estimator_runs_it_under_its_filter(relation):
    model = dp.LogisticRegression(
        4.0, 1e-5, adjacency=relation, n_public=N, solver="bias_reduced", solver_options={"sparsity": 2},
        row_norm=1.0, classes=[-1, 1], random_state=0,
    ).fit(X, Y)  # fmt: skip
    assert isinstance(model.privacy_.event, events.RenyiDP)
    assert model.n_iter_ >= 1
    assert model.privacy_.recompute().upper <= 4.0 * (1 + 1e-9)


def test_bad_input():
    for bad in (
        {"levels": 0}, {"smallest": 0}, {"step": 0.0}, {"clip": math.inf}, {"batches": "shuffled"}, {"iterate": "first"}
    ):  # fmt: skip
        with pytest.raises(InvalidInput):
            replace(SOLVER, **bad)
    assert SOLVER.filter(REPLACE) is None
    filtered = replace(SOLVER, budget=0.1)
    assert isinstance(filtered.filter(REPLACE), RenyiFilter)
