"""The nearest point of a set in the metric of a quadratic, and least squares over a set by private Newton steps."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.geometry import Box, L1Ball, L2Ball, Polytope, SparseSet
from discreet.ledger import Ledger
from discreet.losses import Squared
from discreet.noise.bits import Bits
from discreet.rows import RowSpec
from discreet.solvers import Problem, preconditioned
from discreet.solvers.parts.metric_projection import nearest
from discreet.units import Unit
from discreet.vault import Vault


def quadratic(seed: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(2 * d, d))
    return rng.normal(size=d) * 2, root.T @ root / d + 0.1 * np.eye(d)


@pytest.mark.parametrize("domain", [L1Ball(1.5), L2Ball(0.7), Box(-0.3, 0.4)], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_no_point_of_a_convex_set_is_nearer(domain, seed):
    """The optimality condition: the gradient there has no descent direction into the set."""
    point, metric = quadratic(seed, 8)
    found = nearest(domain, point, metric)
    np.testing.assert_allclose(domain.project(found), found, atol=1e-9)
    gradient = metric @ (found - point)
    assert gradient @ (domain.linear_minimiser(gradient) - found) > -1e-6
    projected = domain.project(point)  # the Euclidean projection is another point, and further in the metric
    assert (found - point) @ metric @ (found - point) < (projected - point) @ metric @ (projected - point)


def test_a_point_of_the_set_stays():
    point, metric = quadratic(0, 5)
    np.testing.assert_array_equal(nearest(L2Ball(100.0), point, metric), point)


def test_sparse_vectors_are_refitted():
    """Never further than the largest entries as they are, and least squares on the columns it keeps."""
    gaps = []
    for seed in range(20):
        point, metric = quadratic(seed, 6)
        found = nearest(SparseSet(2), point, metric)
        kept = np.flatnonzero(found)
        assert len(kept) <= 2

        def distance(theta: np.ndarray, point: np.ndarray = point, metric: np.ndarray = metric) -> float:
            return float((theta - point) @ metric @ (theta - point))

        def fitted(pair: tuple[int, ...], point: np.ndarray = point, metric: np.ndarray = metric) -> np.ndarray:
            theta = np.zeros(6)
            theta[list(pair)] = np.linalg.solve(metric[np.ix_(pair, pair)], (metric @ point)[list(pair)])
            return theta

        np.testing.assert_allclose(found, fitted(tuple(kept)), atol=1e-6)
        assert distance(found) <= distance(SparseSet(2).project(point)) + 1e-9
        best = min(distance(fitted(pair)) for pair in itertools.combinations(range(6), 2))
        gaps.append(distance(found) / best - 1)
    assert np.median(gaps) < 1e-6


def test_a_set_without_projection_is_refused():
    class Corners(Polytope):
        project = None  # type: ignore[assignment]

    with pytest.raises(InvalidInput, match="Corners has no projection"):
        nearest(Corners(np.eye(2)), np.ones(2), np.eye(2))


def rows_and_targets(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(n, 5))
    X[:, 1] = 0.7 * X[:, 0] + 0.3 * X[:, 1]
    return X, np.clip(X @ [0.4, 0.3, -0.3, 0.0, 0.0] + 0.05 * rng.normal(size=n), -1, 1)


def test_without_noise_it_is_least_squares_over_the_set():
    X, y = rows_and_targets(400)
    rows, domain = RowSpec(5, math.inf), L1Ball(0.6)
    problem = Problem(rows, Squared(), float(len(y)), domain)
    solver = preconditioned.default(problem, Guarantee(math.inf, 0.0, Unit("add-remove")))
    theta = Vault(in_memory(X, y, rows), Unit("add-remove"), Ledger(), Bits.seeded(0)).run(solver, problem)
    gradient = X.T @ (X @ theta - y) / len(y)
    assert np.abs(theta).sum() == pytest.approx(0.6, abs=1e-9)
    assert gradient @ (domain.linear_minimiser(gradient) - theta) > -1e-6


@pytest.mark.parametrize("domain", [L1Ball(0.6), SparseSet(2), L2Ball(0.3)], ids=str)
def test_with_noise_the_model_lies_in_the_set(domain):
    X, y = rows_and_targets(2000)
    rows, unit = RowSpec(5, math.sqrt(5)), Unit("replace-one")
    problem = Problem(rows, Squared(), 2000.0, domain)
    solver = preconditioned.default(problem, Guarantee(2.0, 1e-7, unit))
    theta = Vault(in_memory(X, y, rows), unit, Ledger(), Bits.seeded(0)).run(solver, problem)
    np.testing.assert_allclose(domain.project(theta), theta, atol=1e-9)
    assert np.mean((X @ theta - y) ** 2) < 0.7 * np.var(y)


@pytest.mark.parametrize("domain", [L1Ball(0.6), SparseSet(2)], ids=str)
def test_a_set_costs_no_privacy(domain):
    """The releases over a set are those without one, and so is the whole transcript up to the end."""
    X, y = rows_and_targets(300)
    rows, unit, guarantee = RowSpec(5, math.sqrt(5)), Unit("replace-one"), Guarantee(1.0, 1e-6, Unit("replace-one"))
    free, within = Problem(rows, Squared(), 300.0), Problem(rows, Squared(), 300.0, domain)
    solver = preconditioned.default(free, guarantee)
    assert preconditioned.default(within, guarantee) == solver
    assert rehearse(solver, within, unit) == rehearse(solver, free, unit)
    data = in_memory(X, y, rows)
    ends = []
    for problem in (free, within):
        steps, bits, answers = solver.steps(problem), Bits.seeded(7), []
        try:
            measurement = next(steps)
            while True:
                answers.append(measurement.sample(data, unit, bits))
                measurement = steps.send(answers[-1])
        except StopIteration as end:
            ends.append((answers, end.value))
    for one, other in zip(ends[0][0], ends[1][0], strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(domain.project(ends[1][1]), ends[1][1], atol=1e-9)
