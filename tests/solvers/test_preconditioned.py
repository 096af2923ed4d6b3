"""The private Newton method: what it releases, and least squares over a set."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from tests.solvers.test_sufficient_statistics import fitted, regression

from discreet import events
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.geometry import L1Ball, L2Ball, Polytope, SparseSet
from discreet.ledger import Ledger
from discreet.losses import Logistic, Poisson, Softmax, Squared
from discreet.noise.bits import Bits
from discreet.recipes.preconditioned import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.preconditioned import Preconditioned
from discreet.units import Unit
from discreet.vault import Vault

ADD_REMOVE = Unit("add-remove")


def rows_and_targets(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(n, 5))
    X[:, 1] = 0.7 * X[:, 0] + 0.3 * X[:, 1]
    return X, np.clip(X @ [0.4, 0.3, -0.3, 0.0, 0.0] + 0.05 * rng.normal(size=n), -1, 1)


def test_without_noise_it_is_least_squares_over_the_set():
    X, y = rows_and_targets(400)
    rows, domain = RowSpec(5, math.inf), L1Ball(0.6)
    problem = Problem(rows, Squared(), float(len(y)), domain)
    solver = recipe(problem, Guarantee(math.inf, 0.0, Unit("add-remove")))
    theta = Vault(in_memory(X, y, rows), Unit("add-remove"), Ledger(), Bits.seeded(0)).run(solver, problem)
    gradient = X.T @ (X @ theta - y) / len(y)
    assert np.abs(theta).sum() == pytest.approx(0.6, abs=1e-9)
    assert gradient @ (domain.linear_minimiser(gradient) - theta) > -1e-6


@pytest.mark.parametrize("domain", [L1Ball(0.6), SparseSet(2), L2Ball(0.3)], ids=str)
def test_with_noise_the_model_lies_in_the_set(domain):
    X, y = rows_and_targets(2000)
    rows, unit = RowSpec(5, math.sqrt(5)), Unit("replace-one")
    problem = Problem(rows, Squared(), 2000.0, domain)
    solver = recipe(problem, Guarantee(2.0, 1e-7, unit))
    theta = Vault(in_memory(X, y, rows), unit, Ledger(), Bits.seeded(0)).run(solver, problem)
    np.testing.assert_allclose(domain.project(theta), theta, atol=1e-9)
    assert np.mean((X @ theta - y) ** 2) < 0.7 * np.var(y)


@pytest.mark.parametrize("domain", [L1Ball(0.6), SparseSet(2)], ids=str)
def test_a_set_costs_no_privacy(domain):
    """The releases over a set are those without one, and so is the whole transcript up to the end."""
    X, y = rows_and_targets(300)
    rows, unit, guarantee = RowSpec(5, math.sqrt(5)), Unit("replace-one"), Guarantee(1.0, 1e-6, Unit("replace-one"))
    free, within = Problem(rows, Squared(), 300.0), Problem(rows, Squared(), 300.0, domain)
    solver = recipe(free, guarantee)
    assert recipe(within, guarantee) == solver
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


@pytest.mark.parametrize("rows", [RowSpec(5, math.inf, 1.0), RowSpec(5, 1.0, 0.5)], ids=["unbounded", "bounded"])
def test_the_twin_without_noise_is_least_squares(rows):
    X, y = regression()
    problem = Problem(rows, Squared(), float(len(y)))
    expected = LinearRegression().fit(X, y)
    solver = recipe(problem, Guarantee(math.inf, 0.0, ADD_REMOVE))
    assert all(isinstance(event, events.NonPrivate) for event in rehearse(solver, problem, ADD_REMOVE))
    theta = fitted(solver, X, y, rows)
    np.testing.assert_allclose(theta[:-1], expected.coef_, atol=1e-6)
    np.testing.assert_allclose(theta[-1] * rows.constant * rows.unit, expected.intercept_, atol=1e-6)


def test_the_twin_without_noise_is_ridge_regression():
    X, y = regression()
    expected = Ridge(alpha=0.3 * len(y), fit_intercept=False).fit(X, y).coef_
    found = fitted(Preconditioned(0.0, 0.0, 2, math.inf), X, y, RowSpec(5, math.inf), ridge=0.3)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_newton_twin_is_logistic_regression():
    X, y = regression()
    labels = np.where(y > np.median(y), 1.0, -1.0)
    rows, n = RowSpec(5, math.inf, 1.0), len(y)
    problem = Problem(rows, Logistic(), float(n), ridge=0.01)
    theta = fitted(
        recipe(problem, Guarantee(math.inf, 0.0, ADD_REMOVE)),
        X,
        labels,
        rows,
        loss=Logistic(),
        ridge=0.01,
    )
    augmented = np.hstack([X, np.ones((n, 1))])
    reference = LogisticRegression(C=1 / (0.01 * n), fit_intercept=False, tol=1e-12, max_iter=10_000)
    np.testing.assert_allclose(theta, reference.fit(augmented, labels).coef_[0], atol=1e-6)


def test_releases_are_a_second_moment_and_gradients():
    problem = Problem(RowSpec(5, 1.0, 0.5), Squared(), 4000.0)
    plan = rehearse(Preconditioned(3.0, 7.0, 4, 1.0), problem, ADD_REMOVE)
    assert [event.noise_multiplier for event in plan] == [7.0, 3.0, 3.0, 3.0, 3.0]
    assert plan[1:] == [events.Gaussian(3.0)] * 4


def test_rows_of_prior_add_their_curvature_to_the_ridge():
    """λ/T grows by β·k·r²/n with k rows of prior: as if each direction had k rows more."""
    problem = Problem(RowSpec(5, 2.0), Squared(), 100.0)
    without, with_prior = (Preconditioned(3.0, 7.0, 4, 1.0, prior_rows=k).added_curvature(problem) for k in (0.0, 3.0))
    assert (with_prior - without) / 4 == pytest.approx(3 * 2.0**2 / 100)


@pytest.mark.parametrize("wrong", [{"iterations": 0}, {"damping": 0.0}], ids=repr)
def test_settings_without_meaning_are_refused(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        Preconditioned(**{"noise_multiplier": 1.0, "moment_multiplier": 1.0, "iterations": 2, "clip": 1.0} | wrong)


def test_problems_that_it_is_not_for_are_refused():
    rows, solver = RowSpec(2, 1.0), Preconditioned(1.0, 1.0, 2, 1.0)
    with pytest.raises(InvalidInput, match="no curvature bound"):
        rehearse(solver, Problem(rows, Poisson(), 10.0), ADD_REMOVE)
    with pytest.raises(InvalidInput, match="no curvature bound"):
        rehearse(solver, Problem(RowSpec(2, 1.0, outputs=3), Softmax(3), 10.0), ADD_REMOVE)

    class Corners(Polytope):
        project = None  # type: ignore[assignment]

    with pytest.raises(InvalidInput, match="projection on the constraint"):
        rehearse(solver, Problem(rows, Squared(), 10.0, Corners(np.eye(rows.dimension))), ADD_REMOVE)
