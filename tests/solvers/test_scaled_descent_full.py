"""Descent through a second moment, a private Newton method: for every loss, and least squares over a set."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog, minimize
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from tests.solvers.test_sufficient_statistics import fitted, regression

import discreet as dp
from discreet import events
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.geometry import L1Ball, L2Ball, Polytope, SparseSet
from discreet.ledger import Ledger
from discreet.losses import Huber, Logistic, Poisson, Quantile, SmoothedHinge, Softmax, Squared
from discreet.noise.bits import Bits
from discreet.recipes import scaled_descent
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.parts.private_scales import Full
from discreet.solvers.scaled_descent import ScaledDescent
from discreet.units import Unit
from discreet.vault import Vault

ADD_REMOVE = Unit("add-remove")
recipe = partial(scaled_descent.recipe, scales="full")


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
    found = fitted(ScaledDescent(Full(0.0, 1.0), 0.0, 2, math.inf), X, y, RowSpec(5, math.inf), ridge=0.3)
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
    plan = rehearse(ScaledDescent(Full(7.0, 1.0), 3.0, 4, 1.0), problem, ADD_REMOVE)
    assert [event.noise_multiplier for event in plan] == [7.0, 3.0, 3.0, 3.0, 3.0]
    assert plan[1:] == [events.Gaussian(3.0)] * 4


def test_counts_release_their_mean_first():
    problem = Problem(RowSpec(5, 1.0, 0.5), Poisson(), 4000.0)
    plan = rehearse(
        ScaledDescent(Full(7.0, 2.0, target_multiplier=9.0, target_reach=4.0), 3.0, 2, 1.0), problem, ADD_REMOVE
    )
    assert [event.noise_multiplier for event in plan] == [9.0, 7.0, 3.0, 3.0]


@pytest.mark.parametrize("high", [20.0, 1000.0])
def test_counts_far_below_their_bound_are_learnt(high: float) -> None:
    """8000 counts of mean 2 under a bound of 20 or 1000, ε = 8: nine tenths of what can be learnt."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, size=(8000, 4)) / 2
    z = X @ np.array([2.0, -1.0, 0.5, 0.0])
    y = rng.poisson(np.exp(0.5 + z)).astype(float)
    model = dp.PoissonRegression(
        8.0, 1e-8, adjacency="add-remove", n_public=8000, row_norm=1.0, target_bounds=(0.0, high), random_state=0
    ).fit(X, y)

    def risk(log_mean: np.ndarray) -> float:
        return float(np.mean(np.exp(log_mean) - np.exp(0.5 + z) * log_mean))

    truth, constant, found = (risk(s) for s in (0.5 + z, np.full(8000, np.log(y.mean())), np.log(model.predict(X))))
    assert found - truth < 0.1 * (constant - truth)


class Corners(Polytope):
    project = None  # type: ignore[assignment]


def test_a_set_without_a_projection_is_refused():
    rows, solver = RowSpec(2, 1.0), ScaledDescent(Full(1.0, 1.0), 1.0, 2, 1.0)
    with pytest.raises(InvalidInput, match="projection on the constraint"):
        rehearse(solver, Problem(rows, Squared(), 10.0, Corners(np.eye(rows.dimension))), ADD_REMOVE)


# --- every loss -----------------------------------------------------------------------------------------------------


def targets(loss: Any, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Targets that the rows explain in part, coded as estimators code them."""
    z = X @ rng.normal(size=X.shape[1])
    if isinstance(loss, Softmax):
        return (X @ rng.normal(size=(X.shape[1], 3)) + rng.gumbel(size=(len(X), 3))).argmax(axis=1).astype(float)
    if isinstance(loss, Poisson):
        return np.minimum(rng.poisson(8 * np.exp(0.5 * z - 1.5)) / 8, 1.0)
    if loss.slope_sign_fixed:
        return np.where(z + rng.logistic(size=len(X)) > 0, 1.0, -1.0)
    return np.clip(0.3 * z + 0.1 * rng.standard_t(3, size=len(X)), -1.0, 1.0)


def mean_loss(loss: Any, theta: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
    rows = np.hstack([X, np.full((len(X), 1), 0.5)])
    codes = y.astype(int) if isinstance(loss, Softmax) else y
    return float(np.mean(loss.value(rows @ theta.T, codes)))


def minimiser(loss: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """By L-BFGS, or for a kink by a linear program."""
    rows = np.hstack([X, np.full((len(X), 1), 0.5)])
    n, d = rows.shape
    if isinstance(loss, Quantile):
        cost = np.concatenate([np.zeros(d), np.full(n, loss.level), np.full(n, 1 - loss.level)])
        bounds = [(None, None)] * d + [(0, None)] * (2 * n)
        split = sp.hstack([sp.csr_array(rows), sp.eye_array(n), -sp.eye_array(n)])
        return np.asarray(linprog(cost, A_eq=split, b_eq=y, bounds=bounds).x[:d])
    shape = (3, d) if isinstance(loss, Softmax) else (d,)
    codes = y.astype(int) if isinstance(loss, Softmax) else y

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        theta = flat.reshape(shape)
        slopes = loss.slope(rows @ theta.T, codes)
        return mean_loss(loss, theta, X, y), np.ravel(slopes.T @ rows) / n

    found = minimize(objective, np.zeros(math.prod(shape)), jac=True, method="L-BFGS-B", options={"ftol": 1e-15})
    return np.asarray(found.x.reshape(shape))


LOSSES = [Squared(), Logistic(), Softmax(3), Huber(0.2), SmoothedHinge(0.5), Poisson(), Quantile(0.7)]


@pytest.mark.parametrize("scales", ["full", "diagonal"])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_without_noise_every_loss_comes_to_its_minimiser(loss: Any, scales: str) -> None:
    """Columns of unequal scale. The diagonal may leave a direction of little curvature; a kink leaves short steps."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, size=(400, 4)) * [1.0, 0.5, 0.3, 0.2]
    y = targets(loss, X, rng)
    rows = RowSpec(4, 2.0, 0.5, outputs=3 if isinstance(loss, Softmax) else 1)
    problem = Problem(rows, loss, 400.0)
    solver = scaled_descent.recipe(problem, Guarantee(math.inf, 0.0, ADD_REMOVE), scales=scales)
    theta = Vault(in_memory(X, y, rows), ADD_REMOVE, Ledger(), Bits.seeded(0)).run(solver, problem)
    least = mean_loss(loss, minimiser(loss, X, y), X, y)
    assert least < mean_loss(loss, np.zeros(rows.shape), X, y) - 0.005
    error = 1e-3 if isinstance(loss, Quantile) else 1e-6 if scales == "full" else 1e-5
    assert mean_loss(loss, theta, X, y) < least + error


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_with_noise_every_loss_is_learnt(loss: Any) -> None:
    """ε = 8 and 20 000 rows: nine tenths of what the minimiser gains over θ = 0."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, size=(20_000, 4)) * [1.0, 0.5, 0.3, 0.2]
    y = targets(loss, X, rng)
    rows = RowSpec(4, 1.2, 0.5, outputs=3 if isinstance(loss, Softmax) else 1)
    problem = Problem(rows, loss, 20_000.0)
    solver = recipe(problem, Guarantee(8.0, 1e-9, ADD_REMOVE))
    theta = Vault(in_memory(X, y, rows), ADD_REMOVE, Ledger(), Bits.seeded(0)).run(solver, problem)
    nothing, best = (mean_loss(loss, t, X, y) for t in (np.zeros(rows.shape), minimiser(loss, X[:2000], y[:2000])))
    assert mean_loss(loss, theta, X, y) < nothing - 0.9 * (nothing - best)
