"""Sets as a user declares them: every solver that takes a set ends in it, every other one says why not."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet as dp
from discreet import geometry
from discreet.errors import InvalidInput

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (300, 3)) / np.sqrt(3)
Y = np.clip(X @ [1.0, -0.5, 0.2] + 0.1 * RNG.normal(size=300), -1, 1)
CORNERS = [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, -1.0, 1.0]]
SETS = [
    geometry.L1Ball(0.8),
    geometry.L2Ball(0.5),
    geometry.Box(-0.3, 0.6),
    geometry.Simplex(),
    geometry.Polytope(CORNERS),
    geometry.GroupL1Ball([0, 0, 1], 0.7),
    geometry.GroupInfL1Ball([0, 0, 1], 0.7),
    geometry.SparseSet(2),
    geometry.SparseSet(2, 0.5),
]
SELECTABLE = (geometry.L1Ball, geometry.Simplex, geometry.Polytope, geometry.GroupInfL1Ball)
PROJECTING = ["descent", "bias_reduced", "objective_perturbation", "output_perturbation"]


def model(solver, domain, epsilon=1.0, **settings):
    settings = {"row_norm": 1.0, "target_bounds": (-1, 1), "fit_intercept": False, "random_state": 0} | settings
    return dp.LinearRegression(epsilon, 1e-6, solver=solver, domain=domain, **settings)


@pytest.mark.parametrize("epsilon", [1.0, float("inf")])
@pytest.mark.parametrize("domain", SETS, ids=str)
@pytest.mark.parametrize(
    "solver", ["auto", *PROJECTING, "exponential_mechanism", "frank_wolfe", "hard_threshold", "heavy_tailed"]
)
def test_the_model_is_in_its_set(solver, domain, epsilon):
    suits = {"frank_wolfe": SELECTABLE, "hard_threshold": geometry.SparseSet, "heavy_tailed": geometry.SparseSet}
    asked = model(solver, domain, epsilon)
    if math.isinf(epsilon):  # without privacy Frank–Wolfe needs no vertices
        suits["frank_wolfe"] = tuple({type(set_) for set_ in SETS if set_.convex})
    unsuited = solver in suits and not isinstance(domain, suits[solver])
    if unsuited or (solver in PROJECTING and not isinstance(domain, geometry.Projectable)):
        with pytest.raises(InvalidInput, match=r"L1Ball|SparseSet|projection"):
            asked.fit(X, Y)
        return
    assert domain.contains(asked.fit(X, Y).coef_, 1e-9)


@pytest.mark.parametrize("iterate", ["last", "average", "suffix"])
def test_no_average_leaves_a_set_that_is_not_convex(iterate):
    asked = model("descent", geometry.SparseSet(1), solver_options={"iterate": iterate, "iterations": 9})
    assert np.count_nonzero(asked.fit(X, Y).coef_) == 1


@pytest.mark.parametrize("solver", ["auto", "hard_threshold", "heavy_tailed", "descent", "objective_perturbation"])
def test_every_sparse_solver_is_within_reach_of_the_sparse_estimator(solver):
    found = dp.SparseLinearRegression(
        1.0, 1e-6, sparsity=2, row_norm=1.0, target_bounds=(-1, 1), fit_intercept=False, solver=solver
    ).fit(X, Y)
    assert np.count_nonzero(found.coef_) <= 2


def test_hard_thresholding_stays_inside_the_declared_set():
    smaller = model("hard_threshold", geometry.SparseSet(2, 1.0), solver_options={"radius": 0.1}).fit(X, Y)
    assert np.linalg.norm(smaller.coef_) <= 0.1 + 1e-12
    with pytest.raises(InvalidInput, match="leave the problem's set"):
        model("hard_threshold", geometry.SparseSet(2, 0.1), solver_options={"radius": 1.0}).fit(X, Y)


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ([[0.9, 0.0, 0.0]], "not in the domain"),
        ([[0.1, 0.0]], "3 finite numbers"),
        ([[0.1, 0.0, np.nan]], "3 finite numbers"),
        ("grid", "3 finite numbers"),
        ([], "3 finite numbers"),
    ],
)
def test_candidates_are_parameters_in_the_set(candidates, message):
    with pytest.raises(InvalidInput, match=message):
        model("exponential_mechanism", geometry.L2Ball(0.5), solver_options={"candidates": candidates}).fit(X, Y)


@pytest.mark.parametrize(
    "domain", [geometry.GroupL1Ball([0, 0, 1]), geometry.Polytope(CORNERS), geometry.Box([0] * 3, 1)]
)
def test_a_set_of_another_dimension_is_told_where_coefficients_come_from(domain):
    with pytest.raises(InvalidInput, match="There are 4 coefficients, one for each of 3 features and last the interc"):
        model("auto", domain, fit_intercept=True).fit(X, Y)
    with pytest.raises(InvalidInput, match=r"There are 9 coefficients, .* for each of 3 classes in turn"):
        dp.LogisticRegression(row_norm=1.0, classes=[0, 1, 2], domain=domain, fit_intercept=False).fit(X, Y > 0)
