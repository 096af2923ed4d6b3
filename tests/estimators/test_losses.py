"""Other losses in an estimator: by name, by object, and where convexity is needed."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import discreet as dp
from discreet.cli import app
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.estimators.planned import compared, planned
from discreet.losses import Sigmoid, Tukey
from discreet.planning.predicted import predicted_bound
from discreet.theory.stationarity import SQUARED_GRADIENT

NUMBERS = {"row_norm": 1.0, "target_bounds": (-1.0, 1.0)}
LABELS = {"row_norm": 1.0, "classes": [0, 1]}


class Cauchy:
    convex = False

    def value(self, z, y):
        return 0.5 * np.log1p((z - y) ** 2)

    def slope(self, z, y):
        return (z - y) / (1 + (z - y) ** 2)

    def lipschitz(self, domain):
        return 0.5

    def smoothness(self, domain):
        return 1.0


def contaminated(n=20_000, seed=0):
    """A line, three of ten targets at the upper bound whatever the row."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.7, 0.7, (n, 2))
    y = np.where(rng.random(n) < 0.3, 1.0, X @ [0.5, -0.3] + 0.05 * rng.normal(size=n))
    return X, y


@pytest.mark.parametrize("loss", ["welsch", Tukey(0.9)])
def test_robust_losses_ignore_outliers_that_pull_least_squares(loss):
    X, y = contaminated()
    fits = {
        name: dp.LinearRegression(4.0, 1e-6, **NUMBERS, loss=name, random_state=1).fit(X, y) for name in ("huber", loss)
    }
    clean = X @ [0.5, -0.3]
    errors = {name: float(np.sqrt(np.mean((model.predict(X) - clean) ** 2))) for name, model in fits.items()}
    assert errors[loss] < 0.5 * errors["huber"]
    assert fits[loss].privacy_.solver == "descent"


def test_the_sigmoid_ignores_wrong_labels_far_from_the_boundary():
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (20_000, 1))
    y = (X[:, 0] > 0).astype(int)
    y[X[:, 0] > 0.8] = 0  # a tenth of the rows, the ones farthest inside, with the wrong label
    robust = dp.LinearSVC(8.0, 1e-6, **LABELS, loss="sigmoid:4", random_state=0).fit(X, y)
    assert np.mean(robust.predict(X[X[:, 0] < 0.8]) == y[X[:, 0] < 0.8]) > 0.95
    assert robust.privacy_.solver == "descent"


@pytest.mark.parametrize("solver", ["objective_perturbation", "output_perturbation", "weighted_perturbation"])
@pytest.mark.parametrize("loss", [Sigmoid(), "sigmoid"])
def test_solvers_that_need_convexity_refuse(solver, loss):
    model = dp.LinearSVC(1.0, 1e-6, **LABELS, loss=loss, solver=solver)
    with pytest.raises((HypothesisViolated, InvalidInput), match="convex"):
        planned(model, 1000, 3)


def test_certified_minimisers_are_for_the_library_s_own_losses():
    class LogCosh(Cauchy):
        convex = True

        def value(self, z, y):
            return np.log(np.cosh(z - y))

        def slope(self, z, y):
            return np.tanh(z - y)

        def lipschitz(self, domain):
            return 1.0

    model = dp.LinearRegression(1.0, 1e-6, **NUMBERS, loss=LogCosh(), solver="objective_perturbation")
    with pytest.raises(HypothesisViolated, match="own losses"):
        planned(model, 1000, 3)
    assert planned(model.set_params(solver="auto"), 1000, 3).name == "descent"


@pytest.mark.parametrize(
    ("settings", "columns", "name"),
    [
        ({}, 3, "descent"),
        ({"domain": dp.geometry.L2Ball(2.0)}, 3, "descent"),
        ({"delta": 0.0}, 2, "exponential_mechanism"),
        ({"delta": 0.0, "domain": dp.geometry.L1Ball(1.0)}, 30, "frank_wolfe"),
        ({"epsilon": float("inf")}, 3, "descent"),
    ],
)
@pytest.mark.parametrize("loss", ["welsch", Cauchy()])
def test_auto_takes_a_solver_that_holds(settings, columns, name, loss):
    model = dp.LinearRegression(**({"epsilon": 1.0, "delta": 1e-6} | settings), **NUMBERS, loss=loss)
    if settings.get("epsilon"):
        model.set_params(delta=None)
    assert planned(model, 5000, columns).name == name


@pytest.mark.parametrize("loss", ["welsch", Cauchy()])
def test_the_bound_on_the_gradient_holds(loss):
    """E‖∇𝓛‖² over 10 runs against the plan's bound, which also must not be vacuous."""
    X, y = contaminated(2000)
    model = dp.LinearRegression(1.0, 1e-6, **NUMBERS, loss=loss, random_state=0)
    plan = planned(model, len(X), 2)
    bound = predicted_bound(plan.solver, plan.problem)
    assert bound.quantity == SQUARED_GRADIENT
    rows = np.column_stack([X, np.full(len(X), plan.problem.rows.constant * plan.problem.rows.unit)])
    squares = []
    for seed in range(10):
        model.set_params(random_state=seed).fit(X, y)
        theta = np.append(model.coef_, model.intercept_ / rows[0, -1])
        slopes = plan.problem.loss.slope(rows @ theta, y)
        squares.append(float(np.sum((rows.T @ slopes / len(X)) ** 2)))
    assert 0 < np.mean(squares) + 3 * np.std(squares) / np.sqrt(10) <= bound.value < 0.1


def test_the_comparison_states_it_and_says_of_what_it_is_one():
    _, found = compared(dp.LinearRegression(1.0, 1e-6, **NUMBERS, loss="welsch"), 5000, 3)
    assert found[0].chosen
    assert np.isnan(found[0].predicted_risk)
    assert found[0].predicted_gradient > 0
    reasons = {option.name: option.reason for option in found if option.plan is None}
    assert "not convex" in reasons["objective_perturbation"]
    command = ["plan", "--n", "5000", "--d", "3", "--epsilon", "1", "--model", "linear", "--param", "loss=welsch"]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0
    assert "E‖∇‖² ≤" in shown.output
    facts = json.loads(CliRunner().invoke(app, [*command, "--json"]).output)["options"]
    assert facts[0]["predicted_excess_risk"] is None
    assert facts[0]["predicted_squared_gradient"] == pytest.approx(found[0].predicted_gradient, rel=0.2)
    assert (
        CliRunner().invoke(app, ["plan", "--n", "5000", "--d", "3", "--epsilon", "1", "--loss", "tukey"]).exit_code == 0
    )


def test_a_model_of_another_loss_is_saved_and_knows_it(tmp_path):
    X, y = contaminated(500)
    labels = (y > 0).astype(int)
    for loss in ("sigmoid", Sigmoid(2.0)):
        model = dp.LogisticRegression(1.0, 1e-6, **LABELS, loss=loss, random_state=0).fit(X, labels)
        with pytest.raises(InvalidInput, match="no probabilities"):
            model.predict_proba(X)
        model.save(tmp_path / "model.npz")
        read = dp.load(tmp_path / "model.npz")
        np.testing.assert_array_equal(read.predict(X), model.predict(X))
        with pytest.raises(InvalidInput, match="no probabilities"):
            read.predict_proba(X)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (dp.LinearRegression(1.0, 1e-6, **NUMBERS, loss="sigmoid"), "no loss 'sigmoid' for numbers"),
        (dp.LinearRegression(1.0, 1e-6, **NUMBERS, loss=Sigmoid()), "two classes"),
        (dp.LinearSVC(1.0, 1e-6, **LABELS, loss=Tukey()), "numbers"),
        (dp.LinearRegression(1.0, 1e-6, **NUMBERS, loss=Tukey), "is a class"),
        (dp.LinearRegression(1.0, 1e-6, **NUMBERS, loss=3.0), "no method"),
        (dp.LinearRegression(1.0, 1e-6, **NUMBERS, loss="custom"), "again"),
        (dp.PoissonRegression(1.0, 1e-6, row_norm=1.0, target_bounds=(0, 9), loss="welsch"), "log link"),
        (dp.LogisticRegression(1.0, 1e-6, row_norm=1.0, classes=[0, 1, 2], loss="sigmoid"), "two classes"),
        (dp.LinearRegression(float("inf"), row_norm=1.0, loss=Cauchy()), "target_bounds"),
    ],
)
def test_losses_that_do_not_fit_are_refused_before_anything_is_charged(model, words):
    ledger = dp.Ledger()
    model.set_params(ledger=ledger)
    with pytest.raises(InvalidInput, match=words):
        model.fit(np.zeros((10, 2)), np.arange(10) % 2)
    assert not ledger.history()
