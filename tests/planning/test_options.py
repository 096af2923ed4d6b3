"""Options of named solvers: what is refused, and in which words."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet as dp
from discreet import updates
from discreet.errors import InvalidInput
from discreet.geometry import L1Ball
from discreet.planning.options import checked_options, option_types
from discreet.recipes import RECIPES

RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (200, 3))
Y = np.clip(X @ [1.0, -0.5, 0.2], -1, 1)
NEEDED = {"hard_threshold": {"sparsity": 2}, "heavy_tailed": {"sparsity": 2}}
EVERY_OPTION = [(solver, name) for solver in RECIPES for name in option_types(solver)]


def fit(solver, options):
    if solver == "weighted_perturbation":  # for two classes alone
        model = dp.LogisticRegression(
            1.0, 1e-6, row_norm=1.0, classes=[0, 1], fit_intercept=False, solver=solver, solver_options=options
        )
        return model.fit(X, (Y > 0).astype(int))
    if solver == "interactions":  # of columns of a table
        schema = dp.Schema({"a": dp.Numeric(-1, 1), "b": dp.Numeric(-1, 1)})
        model = dp.LinearRegression(
            1.0, 1e-6, schema=schema, target_bounds=(-1, 1), solver=solver, solver_options=options, random_state=1
        )
        return model.fit({"a": X[:, 0], "b": X[:, 1]}, Y)
    return dp.LinearRegression(
        1.0,
        1e-6,
        row_norm=1.0,
        target_bounds=(-1, 1),
        fit_intercept=solver == "scaled_descent",  # which may centre rows or targets
        solver=solver,
        solver_options=NEEDED.get(solver, {}) | options,
        domain=L1Ball(2.0) if solver == "frank_wolfe" else None,
    ).fit(X, Y)


def test_shuffling_is_refused_with_its_reason():
    with pytest.raises(InvalidInput, match=r"tells where a row is.*Option batches"):
        checked_options("descent", {"shuffle": True})


@pytest.mark.parametrize(("solver", "name"), EVERY_OPTION)
@pytest.mark.parametrize("wrong", [-1, math.nan, "abc", {"a": 1}, [[1.0]]], ids=repr)
def test_nonsense_is_refused_by_name(solver, name, wrong):
    with pytest.raises(InvalidInput, match=name.removesuffix("s")):
        fit(solver, {name: wrong})


@pytest.mark.parametrize("solver", RECIPES)
def test_none_leaves_the_choice_to_theory(solver):
    every = dict.fromkeys(option_types(solver)) | NEEDED.get(solver, {})
    assert fit(solver, every).privacy_.settings == fit(solver, {}).privacy_.settings


@pytest.mark.parametrize("solver", RECIPES)
def test_an_unknown_option_is_answered_with_the_known_ones(solver):
    with pytest.raises(InvalidInput, match=", ".join(sorted(option_types(solver)))):
        fit(solver, {"sigma": 1.0})


@pytest.mark.parametrize("options", [[1], "clip=1", 3])
def test_options_are_a_dictionary(options):
    with pytest.raises(InvalidInput, match="dictionary"):
        checked_options("descent", options)


def test_whole_numbers_and_zeros():
    assert checked_options("descent", {"iterations": np.int64(3), "clip": 1}) == {"iterations": 3, "clip": 1.0}
    assert checked_options("objective_perturbation", {"regularisation": 0}) == {"regularisation": 0.0}
    for wrong in (0, True, 2.0):
        with pytest.raises(InvalidInput, match="whole number of at least 1"):
            checked_options("descent", {"iterations": wrong})
    with pytest.raises(InvalidInput, match="positive number"):
        checked_options("descent", {"clip": 0.0})


def test_schedules_and_updates_pass():
    schedule, rule = updates.inverse_sqrt(0.1), updates.Adam(0.1)
    assert checked_options("descent", {"step": schedule, "update": rule}) == {"step": schedule, "update": rule}
    with pytest.raises(InvalidInput, match="Update"):
        checked_options("descent", {"update": updates.Adam})


@pytest.mark.parametrize(
    ("solver", "options"),
    [
        ("frank_wolfe", {"clip": 1.0, "iterations": 5, "feature_bound": 1.0}),
        ("frank_wolfe", {"clip": 1.0, "iterations": 5, "target_bound": 1.0}),
        ("scaled_descent", {"scales": "full", "clip": 1.0, "target_bound": 1.0}),
        ("hard_threshold", {"clip": 1.0, "target_bound": 1.0, "peel": False}),
        ("output_perturbation", {"projection": "linf"}),
        ("descent", {"rate": 0.1, "batch_size": 10}),
        ("descent", {"step": 0.1, "update": updates.Sgd(0.1)}),
    ],
)
def test_an_option_that_would_have_no_effect_is_refused(solver, options):
    with pytest.raises(InvalidInput):
        fit(solver, options)


def lasso(solver, **settings):
    model = dp.Lasso(1.0, 1e-6, row_norm=1.0, target_bounds=(-1, 1), random_state=0, solver=solver, **settings)
    return model.fit(X, Y)


def test_the_lasso_by_name_is_the_lasso_by_default():
    wide = {"feature_bound": 0.1}  # rows ten times as long as their largest entry
    assert lasso("frank_wolfe", **wide).privacy_.settings == lasso("auto", **wide).privacy_.settings
    found = lasso("frank_wolfe", feature_bound=0.5, solver_options={"iterations": 4}).privacy_.settings
    assert (found["clip"], found["iterations"]) == (0.03, 4)
    with pytest.raises(InvalidInput, match="feature_bound"):
        lasso("descent", radius=1.0, feature_bound=0.5)


def test_a_misspelled_name_is_met_with_the_nearest_one():
    with pytest.raises(InvalidInput, match="Did you mean 'frank_wolfe'"):
        fit("frank_wolf", {})
    with pytest.raises(InvalidInput, match="Did you mean 'iterations'"):
        fit("descent", {"itterations": 3})
    with pytest.raises(InvalidInput, match=r"target_bound\.$"):  # nothing is like it
        fit("sufficient_statistics", {"xyz": 3})
