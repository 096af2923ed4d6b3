"""Descent in one private scale: what it learns with thousands of columns, and that it is no worse than a constant."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet as dp
from discreet.calibration import Guarantee
from discreet.losses import Squared
from discreet.recipes.scaled_descent import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit

ADD, REPLACE = Unit("add-remove"), Unit("replace-one")
COLUMNS = 1200
WIDE = Problem(RowSpec(COLUMNS, 1.0, 0.5), Squared(), 300.0)


def wide_rows(n: int, seed: int, norm: float = 1.0):
    """Rows of two strong directions among many columns, and a target that they explain by nine tenths."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((n, 2))
    X = factors @ rng.standard_normal((2, COLUMNS)) + 0.3 * rng.standard_normal((n, COLUMNS))
    X *= norm / 3 / math.sqrt(COLUMNS)
    return X, 7.0 + factors @ [1.0, -1.0] / math.sqrt(2) + 0.3 * rng.standard_normal(n)


def model(eps: float, **changes):
    facts = {"target_bounds": (0.0, 10.0), "row_norm": 1.0, "adjacency": "add-remove", "random_state": 1}
    n = changes.pop("n", 300)
    return dp.LinearRegression(eps, **{**facts, "n_public": n, "delta": 1 / n**2, **changes})


def test_weights_are_learnt_where_noise_allows():
    X, y = wide_rows(4300, 0)
    fitted = model(8.0).fit(X[:300], y[:300])
    assert fitted.privacy_.settings["scales"]["kind"] == "single"
    assert fitted.score(X[300:], y[300:]) > 0.6


def test_under_strong_noise_the_model_is_a_constant_near_the_centre():
    X, y = wide_rows(4300, 0)
    fits = [model(0.1, random_state=seed).fit(X[:300], y[:300]) for seed in range(5)]
    assert not any(fitted.coef_.any() for fitted in fits)
    assert len({fitted.n_iter_ for fitted in fits}) == 1
    scores = [fitted.score(X[300:], y[300:]) for fitted in fits]
    assert np.mean(scores) > -0.3  # the middle of the bounds is at −3.6
    assert 1 - ((y[300:] - 5.0) ** 2).mean() / y[300:].var() < -3


def test_targets_that_rows_say_nothing_of_cost_little_more_than_a_constant():
    X, y = wide_rows(4300, 0)
    y = np.random.default_rng(5).permutation(y)
    scores = [model(4.0, random_state=seed).fit(X[:300], y[:300]).score(X[300:], y[300:]) for seed in range(5)]
    assert np.mean(scores) > -0.15
    assert model(4.0).fit(X[:300], y[:300]).coef_.any()


def test_the_offset_is_of_the_mean_though_gradients_are_of_the_median():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((2000, COLUMNS)) / math.sqrt(COLUMNS) / 2
    y = rng.exponential(size=2000)  # mean 1, median 0.69
    fitted = model(8.0, n=2000).fit(X, y)
    assert float(np.mean(fitted.predict(X))) == pytest.approx(1.0, abs=0.1)


def test_units_of_rows_and_targets_do_not_matter():
    """Rows in other units and a target in other units, with bounds to match: the same noise, the same predictions."""
    X, y = wide_rows(320, 2)
    plain = model(2.0).fit(X[:300], y[:300]).predict(X[300:])
    longer = model(2.0, row_norm=256.0).fit(256 * X[:300], y[:300]).predict(256 * X[300:])
    shifted = model(2.0, target_bounds=(100.0, 140.0)).fit(X[:300], 100 + 4 * y[:300]).predict(X[300:])
    np.testing.assert_allclose(longer, plain, rtol=1e-9)
    np.testing.assert_allclose(shifted, 100 + 4 * plain, rtol=1e-4)  # rounding of coded targets
    bounded = recipe(WIDE, Guarantee(8.0, 1e-6, ADD), scales="single", target_bound=3.0)
    assert bounded.scales.target_bound == 3.0


def test_without_privacy_it_is_plain_descent():
    X, y = wide_rows(120, 4)
    options = {"scales": "single", "iterations": 3000}
    free = model(math.inf, solver="scaled_descent", solver_options=options, n=120).fit(X, y)
    assert free.score(X, y) > 0.9
    assert free.n_iter_ == 3000
