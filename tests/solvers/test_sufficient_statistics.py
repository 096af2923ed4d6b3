"""AdaSSP and the private Newton method solve what they claim, at their price."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from discreet import events
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.geometry import L2Ball
from discreet.ledger import Ledger
from discreet.losses import Logistic, Squared
from discreet.noise.bits import Bits
from discreet.queries.sums.moments import CrossMoment, SecondMoment, TargetMoment
from discreet.recipes import scaled_descent, sufficient_statistics
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.sufficient_statistics import SufficientStatistics
from discreet.units import Unit
from discreet.vault import Vault

ADD_REMOVE, REPLACE_ONE = Unit("add-remove"), Unit("replace-one")
EXTREMES = [0.0, -0.0, 1.0, -1.0, 1e308, -1e308, 5e-324, 1e-310, 1e-8, 1e16, np.nan, np.inf, -np.inf, 0.1, 1 / 3]
ROWS = RowSpec(4, 1.5, 0.7)


def regression(n=4000, d=5, noise=0.1, seed=4):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d)) / math.sqrt(d)
    return X, X @ rng.uniform(-1, 1, d) + 0.2 + noise * rng.uniform(-1, 1, n)


def fitted(solver, X, y, rows, *, loss=None, ridge=0.0, unit=ADD_REMOVE, seed=0):
    problem = Problem(rows, loss or Squared(), float(len(y)), ridge=ridge)
    return Vault(in_memory(X, y, rows), unit, Ledger(), Bits.seeded(seed)).run(solver, problem)


@pytest.mark.parametrize("rows", [RowSpec(5, math.inf, 1.0), RowSpec(5, 1.0, 0.5)], ids=["unbounded", "bounded"])
def test_twins_without_noise_are_least_squares(rows):
    X, y = regression()
    problem = Problem(rows, Squared(), float(len(y)))
    free = Guarantee(math.inf, 0.0, ADD_REMOVE)
    expected = LinearRegression().fit(X, y)
    constant = rows.constant * rows.unit
    solver = sufficient_statistics.recipe(problem, free)
    assert all(isinstance(event, events.NonPrivate) for event in rehearse(solver, problem, ADD_REMOVE))
    theta = fitted(solver, X, y, rows)
    np.testing.assert_allclose(theta[:-1], expected.coef_, atol=1e-6)
    np.testing.assert_allclose(theta[-1] * constant, expected.intercept_, atol=1e-6)


def test_twins_without_noise_are_ridge_regression():
    X, y = regression()
    rows = RowSpec(5, math.inf)
    expected = Ridge(alpha=0.3 * len(y), fit_intercept=False).fit(X, y).coef_
    solver = SufficientStatistics(0.0, math.inf, 0.05)
    np.testing.assert_allclose(fitted(solver, X, y, rows, ridge=0.3), expected, atol=1e-6)


def r2(theta, X, y, rows):
    residual = y - X @ theta[:-1] - theta[-1] * rows.constant * rows.unit
    return 1 - residual @ residual / ((y - y.mean()) @ (y - y.mean()))


def test_the_newton_method_beats_adassp_where_privacy_is_dear():
    """Means over five seeds, many standard errors apart."""
    X, y = regression(n=2000)
    rows = RowSpec(5, 1.0, 0.5)
    problem = Problem(rows, Squared(), 2000.0)
    guarantee = Guarantee(0.3, 1e-6, ADD_REMOVE)
    mean = {
        recipe: np.mean(
            [r2(fitted(recipe.recipe(problem, guarantee), X, y, rows, seed=s), X, y, rows) for s in range(5)]
        )
        for recipe in (sufficient_statistics, scaled_descent)
    }
    ceiling = LinearRegression().fit(X, y).score(X, y)
    assert mean[scaled_descent] > mean[sufficient_statistics] + 0.1
    assert mean[scaled_descent] > ceiling - 0.2


def test_adassp_needs_no_ridge_where_the_data_suffice():
    """λ̃ exceeds the noise's norm, so λ = 0 and the answer is least squares on noisy moments."""
    X, y = regression(n=200_000, d=2)
    rows = RowSpec(2, 1.0, 0.5)
    theta = fitted(SufficientStatistics(1.0, 1.5, 0.05), X, y, rows)
    np.testing.assert_allclose(theta[:-1], LinearRegression().fit(X, y).coef_, atol=2e-3)


def test_bad_input():
    rows, loose = RowSpec(2, 1.0), RowSpec(2, math.inf)
    data = in_memory(np.zeros((3, 2)), np.zeros(3), loose)
    with pytest.raises(InvalidInput, match="target_bound must be positive"):
        CrossMoment(rows, 0.0)
    with pytest.raises(InvalidInput, match="at most 8192 columns"):
        SecondMoment(RowSpec(10_000, 1.0))
    with pytest.raises(InvalidInput, match="finite row_norm"):
        SecondMoment(loose).integers(data)
    with pytest.raises(InvalidInput, match="finite target_bound"):
        TargetMoment(math.inf).integers(data)
    with pytest.raises(InvalidInput, match="failure"):
        SufficientStatistics(1.0, 1.0, failure=0.0)
    with pytest.raises(InvalidInput, match="least squares"):
        rehearse(SufficientStatistics(1.0, 1.0, 0.05), Problem(rows, Logistic(), 10.0), ADD_REMOVE)
    with pytest.raises(InvalidInput, match="constraint"):
        rehearse(SufficientStatistics(1.0, 1.0, 0.05), Problem(rows, Squared(), 10.0, L2Ball(1.0)), ADD_REMOVE)
