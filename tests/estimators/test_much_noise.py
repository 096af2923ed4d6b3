"""Under much noise defaults hold the model back, by public facts alone: a fit of nothing predicts nothing."""

import math

import numpy as np
import pytest

import discreet as dp


@pytest.mark.parametrize(("n", "d"), [(300, 100), (60, 1500)])
def test_a_regression_on_nothing_predicts_the_middle(n, d):
    """Targets of mean 0 that no column explains. A fit to noise alone has R² far below 0; chance alone is ± 0.05."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(2 * n, d)) / math.sqrt(d)
    y = rng.choice([-0.5, 0.5], size=2 * n)
    y[:n] -= y[:n].mean()
    y[n:] -= y[n:].mean()
    scores = [
        dp.LinearRegression(0.1, delta=1e-6, row_norm=1.0, target_bounds=(-1, 1), random_state=seed)
        .fit(X[:n], y[:n])
        .score(X[n:], y[n:])
        for seed in range(5)
    ]
    assert np.mean(scores) > -0.25


def test_a_budget_that_buys_nothing_leaves_the_majority():
    """90 % of one class, columns that say nothing: predictions are not worse than the majority by more than 3 %."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(1200, 200)) / math.sqrt(200)
    y = np.arange(1200) % 10 == 0
    scores = [
        dp.LogisticRegression(0.2, delta=1e-6, row_norm=1.0, classes=[False, True], random_state=seed)
        .fit(X[:600], y[:600])
        .score(X[600:], y[600:])
        for seed in range(5)
    ]
    assert np.mean(scores) > 0.87
