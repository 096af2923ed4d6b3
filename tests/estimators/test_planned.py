"""What a plan says is what a fit runs: solver, settings, releases, for a grid of public facts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import discreet as dp
from discreet.errors import InvalidInput
from discreet.estimators.planned import compared, planned
from discreet.geometry import L1Ball, L2Ball, Simplex, SparseSet

TWO, FIVE = {"classes": [0, 1]}, {"classes": list(range(5))}
UNIT = {"target_bounds": (-1.0, 3.0)}
DELTA = {"delta": 1e-7}
CASES = [
    (dp.LogisticRegression(1.0, **TWO), 200, 4),
    (dp.LogisticRegression(1.0, **TWO, fit_intercept=False), 200, 4),
    (dp.LogisticRegression(4.0, **TWO), 2000, 40),
    (dp.LogisticRegression(8.0, **TWO), 400, 1500),
    (dp.LogisticRegression(8.0, **TWO, rows_per_unit=3, alpha=0.01), 400, 30),
    (dp.LogisticRegression(1.0, 0.0, **TWO), 200, 3),
    (dp.LogisticRegression(2.0, **DELTA, **TWO, domain=L1Ball(3.0)), 100, 6000),
    (dp.LogisticRegression(2.0, **TWO, domain=L2Ball(3.0)), 200, 6),
    (dp.LogisticRegression(2.0, **TWO, domain=SparseSet(3)), 300, 20),
    (dp.LogisticRegression(math.inf, **TWO), 200, 3),
    (dp.LogisticRegression(math.inf, **TWO, domain=L1Ball(3.0)), 200, 3),
    (dp.LogisticRegression(1.0, **FIVE), 500, 6),
    (dp.LinearSVC(1.0, **TWO), 200, 4),
    (dp.LinearRegression(1.0, **UNIT), 2000, 5),
    (dp.LinearRegression(0.2, **UNIT), 100, 5),
    (dp.LinearRegression(0.2, **UNIT, fit_intercept=False), 100, 5),
    (dp.LinearRegression(2.0, **UNIT), 200, 1200),
    (dp.LinearRegression(2.0, **UNIT, fit_intercept=False), 200, 1200),
    (dp.LinearRegression(1.0, 0.0, **UNIT), 200, 5),
    (dp.LinearRegression(1.0, **UNIT, domain=Simplex(1.0)), 500, 7),
    (dp.HuberRegression(1.0, **UNIT), 200, 4),
    (dp.PoissonRegression(1.0, target_bounds=(0.0, 9.0)), 200, 4),
    (dp.QuantileRegression(1.0, **UNIT), 500, 4),
    (dp.QuantileRegression(1.0, 0.0, **UNIT, smoothing=0.0), 200, 2),
    (dp.Lasso(1.0, **UNIT), 500, 20),
    (dp.Lasso(1.0, **UNIT, feature_bound=0.05), 500, 600),
    (dp.Lasso(1.0, 0.0, **UNIT, feature_bound=0.2), 300, 10),
    (dp.Lasso(1.0, **UNIT, radius=2.0, alpha=0.1), 300, 10),
    (dp.SparseLinearRegression(1.0, **UNIT, sparsity=3), 500, 20),
    (dp.SparseLinearRegression(1.0, **UNIT, sparsity=3), 200, 1100),
]
RELATIONS = [{}, {"adjacency": "add-remove", "delta": 1e-7}]


def data(n, d, sparse=False):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) / math.sqrt(d)
    y = (X[:, 0] > 0).astype(float)
    return (sp.csr_array(X) if sparse else X), y


@pytest.mark.parametrize("relation", RELATIONS, ids=["replace-one", "add-remove"])
@pytest.mark.parametrize(
    ("model", "n", "d"), CASES, ids=lambda case: type(case).__name__ if hasattr(case, "fit") else case
)
def test_a_plan_is_what_is_run(model, n, d, relation):
    model = clone(model).set_params(row_norm=1.0, random_state=3)
    if relation and math.isfinite(model.epsilon):
        delta = relation["delta"] if model.delta is None else model.delta
        model.set_params(adjacency="add-remove", n_public=n, delta=delta)
    plan = planned(model, n, d)
    fitted = clone(model).fit(*data(n, d))
    assert plan.name == fitted.privacy_.solver
    assert plan.settings == fitted.privacy_.settings
    if relation:  # the comparison asks for the same plan
        return
    _, (first, *others) = compared(model, n, d)
    assert first.chosen
    assert first.name == plan.name
    assert first.plan.label == plan.label
    assert first.plan.settings == plan.settings
    if plan.name != "bias_reduced":  # which ends when its filter says so
        assert first.releases == fitted.n_iter_
    assert not any(option.chosen for option in others)
    assert first.reason


def test_the_grid_reaches_every_solver_that_auto_takes():
    """So that none of the planner's branches is left out above."""
    taken = {planned(clone(model).set_params(row_norm=1.0), n, d).label for model, n, d in CASES}
    assert taken == {
        "descent",
        "exponential_mechanism",
        "frank_wolfe",
        "hard_threshold",
        "objective_perturbation",
        "scaled_descent (diagonal)",
        "scaled_descent (full)",
        "scaled_descent (location)",
        "scaled_descent (residual)",
        "scaled_descent (single)",
        "weighted_perturbation",
    }


def test_sparse_rows_are_a_public_fact():
    model = dp.LogisticRegression(8.0, **TWO, row_norm=1.0, random_state=0)
    plan = planned(model, 400, 1500, sparse=True)
    fitted = clone(model).fit(*data(400, 1500, sparse=True)).privacy_
    assert plan.name == fitted.solver == "weighted_perturbation"
    assert plan.solver.slope_bound == fitted.settings["slope_bound"]
    assert getattr(planned(model, 400, 1500).solver, "slope_bound", None) != plan.solver.slope_bound


def test_a_private_number_of_rows_costs_its_share():
    """The same share as in a fit, whose noisy count is about n: the solver is set up for what is left."""
    n = 5000
    model = dp.LogisticRegression(1.0, 1e-7, **TWO, row_norm=1.0, adjacency="add-remove", random_state=0)
    plan = planned(model, n, 4)
    assert plan.guarantee.epsilon == pytest.approx(0.98)
    fitted = clone(model).fit(*data(n, 4))
    assert plan.name == fitted.privacy_.solver
    assert fitted.privacy_.settings["noise_multiplier"] == pytest.approx(plan.solver.noise_multiplier, rel=0.02)
    public = planned(clone(model).set_params(n_public=n), n, 4)
    assert public.solver.noise_multiplier < plan.solver.noise_multiplier


@pytest.mark.parametrize("name", ["descent", "frank_wolfe", "scaled_descent (full)", "objective_perturbation"])
def test_other_solvers_are_what_a_fit_by_their_name_runs(name):
    """The Lasso has another set and another constant column for each."""
    model = dp.Lasso(1.0, **UNIT, row_norm=1.0, feature_bound=0.3, random_state=0)
    (option,) = [option for option in compared(model, 300, 10)[1] if option.label == name]
    fitted = clone(model).set_params(solver=option.name).fit(*data(300, 10))
    assert option.plan.settings == fitted.privacy_.settings


@pytest.mark.parametrize(("n", "d"), [(0, 3), (2**27 + 1, 3), (10, 0), (10, 10**9 + 1)])
def test_sizes_that_no_fit_can_have_are_refused(n, d):
    with pytest.raises(InvalidInput, match=r"between 1 and"):
        planned(dp.LogisticRegression(1.0, row_norm=1.0, **TWO), n, d)


def test_a_model_is_left_as_it_is():
    model = dp.Lasso(1.0, **UNIT, row_norm=1.0)
    before = dict(vars(model))
    compared(model, 100, 3)
    assert vars(model) == before
