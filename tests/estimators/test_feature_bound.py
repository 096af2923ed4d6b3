"""A declared bound on entries: what sparse regression gains by it, and that it is enforced."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet as dp
from discreet.errors import InvalidInput

RNG = np.random.default_rng(0)
N, D = 6000, 300
X = RNG.uniform(-1, 1, (N, D))
THETA = np.where(np.arange(D) < 4, [0.5, -0.5, 0.5, -0.5] + [0.0] * (D - 4), 0.0)
Y = 1.0 + X @ THETA + 0.1 * RNG.standard_normal(N)
FACTS = {"row_norm": math.sqrt(D), "target_bounds": (-2.0, 3.0), "sparsity": 5, "random_state": 1}


def error(**options):
    model = dp.SparseLinearRegression(8.0, 1e-6, **FACTS, **options).fit(X, Y)
    return model, float(np.mean((X[:1000] @ (model.coef_ - THETA) + model.intercept_ - 1.0) ** 2))


def test_a_bound_on_entries_takes_hard_thresholding_and_divides_the_error():
    plain, without = error()
    bounded, with_bound = error(feature_bound=1.0)
    assert (plain.privacy_.solver, bounded.privacy_.solver) == ("scaled_descent", "hard_threshold")
    assert with_bound < without / 3
    assert set(np.flatnonzero(bounded.coef_)) <= {0, 1, 2, 3}


def test_the_bound_is_enforced_on_every_row():
    """A row of entries far beyond the bound counts as one of entries at the bound."""
    wild, cut = X.copy(), X.copy()
    wild[0], cut[0] = 1e9 * np.sign(X[0]), np.sign(X[0])
    found = [
        dp.SparseLinearRegression(8.0, 1e-6, **FACTS, feature_bound=1.0).fit(rows[:500], Y[:500]).coef_
        for rows in (wild, cut)
    ]
    assert np.array_equal(*found)


@pytest.mark.parametrize("options", [{"feature_bound": 0.0}, {"feature_bound": 1.0, "solver": "descent"}])
def test_refused(options):
    with pytest.raises(InvalidInput, match="feature_bound"):
        dp.SparseLinearRegression(8.0, 1e-6, **FACTS, **options).fit(X, Y)


def test_short_rows_and_few_columns_take_the_newton_method_whatever_the_bound():
    model = dp.SparseLinearRegression(8.0, 1e-6, **FACTS | {"row_norm": 2.0}, feature_bound=1.0).fit(X[:, :20], Y)
    assert model.privacy_.solver == "scaled_descent"
