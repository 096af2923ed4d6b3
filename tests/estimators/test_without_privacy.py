"""ε = ∞: the same solvers without noise are the models of scikit-learn and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.optimize
import sklearn.linear_model as reference

import discreet as dp
from discreet import geometry

INF = math.inf
RNG = np.random.default_rng(1)
X = RNG.uniform(-0.5, 0.5, (400, 4))
SLOPES = X @ [2.0, -2.0, 1.0, 0.4]
PRICES = 50 + 30 * SLOPES + 5 * RNG.normal(size=400)  # far outside [−1, 1]
LABELS = (SLOPES + RNG.logistic(size=400) > 0.3).astype(int)
GRADES = np.digitize(SLOPES + RNG.logistic(size=400), [-0.8, 0.8])
COUNTS = RNG.poisson(np.exp(1 + SLOPES))
ALL_FEATURES = {"hard_threshold": {"sparsity": 5}}


def fitted(kind, y, solver, **settings):
    options = ALL_FEATURES.get(solver)
    model = kind(epsilon=INF, row_norm=2.0, solver=solver, solver_options=options, **settings).fit(X, y)
    assert not model.privacy_.private
    return model


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("bounds", [None, (-200.0, 300.0)])
@pytest.mark.parametrize(
    "solver",
    [
        "auto",
        "bias_reduced",
        "descent",
        "hard_threshold",
        "objective_perturbation",
        "output_perturbation",
        "scaled_descent",
        "sparse_descent",
        "sufficient_statistics",
    ],
)
def test_least_squares(solver, bounds, intercept):
    model = fitted(dp.LinearRegression, PRICES, solver, target_bounds=bounds, fit_intercept=intercept)
    truth = reference.LinearRegression(fit_intercept=intercept).fit(X, PRICES)
    np.testing.assert_allclose(model.coef_, truth.coef_, rtol=1e-6)
    np.testing.assert_allclose(model.intercept_, truth.intercept_, rtol=1e-6)


@pytest.mark.parametrize(
    ("solver", "y"),
    [
        ("auto", LABELS),
        ("bias_reduced", LABELS),
        ("descent", LABELS),
        ("hard_threshold", LABELS),
        ("objective_perturbation", LABELS),
        ("output_perturbation", LABELS),
        ("scaled_descent", LABELS),
        ("sparse_descent", LABELS),
        ("auto", GRADES),
        ("bias_reduced", GRADES),
        ("descent", GRADES),
        ("objective_perturbation", GRADES),
        ("output_perturbation", GRADES),
        ("scaled_descent", GRADES),
        ("sparse_descent", GRADES),
    ],
)
def test_logistic_regression(solver, y):
    model = fitted(dp.LogisticRegression, y, solver, classes=np.unique(y), alpha=0.01, fit_intercept=False)
    truth = reference.LogisticRegression(C=1 / (0.01 * len(y)), tol=1e-12, max_iter=10_000, fit_intercept=False)
    np.testing.assert_allclose(model.coef_, truth.fit(X, y).coef_, rtol=0, atol=1e-6)


@pytest.mark.parametrize("solver", ["bias_reduced", "hard_threshold", "sparse_descent", "weighted_perturbation"])
def test_logistic_regression_with_an_intercept_and_without_a_penalty(solver):
    model = dp.LogisticRegression(
        epsilon=INF, row_norm=1.0, classes=[0, 1], solver=solver, solver_options=ALL_FEATURES.get(solver)
    ).fit(X[:399], LABELS[:399])  # an odd number of rows has no two halves
    truth = reference.LogisticRegression(C=np.inf, tol=1e-12, max_iter=10_000).fit(X[:399], LABELS[:399])
    np.testing.assert_allclose(model.coef_, truth.coef_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(model.intercept_, truth.intercept_, rtol=0, atol=1e-6)


@pytest.mark.parametrize("solver", ["auto", "objective_perturbation", "output_perturbation"])
@pytest.mark.parametrize("bounds", [None, (0, 60)])
def test_counts(solver, bounds):
    model = fitted(dp.PoissonRegression, COUNTS, solver, target_bounds=bounds)
    truth = reference.PoissonRegressor(alpha=0, tol=1e-12, max_iter=10_000).fit(X, COUNTS)
    np.testing.assert_allclose(model.coef_, truth.coef_, atol=1e-6)
    np.testing.assert_allclose(model.intercept_, truth.intercept_, atol=1e-6)


def test_counts_without_an_intercept():
    model = dp.PoissonRegression(epsilon=INF, fit_intercept=False).fit(X, COUNTS)
    truth = reference.PoissonRegressor(alpha=0, tol=1e-12, max_iter=10_000, fit_intercept=False).fit(X, COUNTS)
    np.testing.assert_allclose(model.coef_, truth.coef_, atol=1e-6)
    with pytest.raises(dp.errors.InvalidInput, match="fit_intercept=True"):
        dp.PoissonRegression(row_norm=1.0, target_bounds=(0, 60), fit_intercept=False).fit(X, COUNTS)


@pytest.mark.parametrize("smoothing", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("solver", ["auto", "output_perturbation", "scaled_descent"])
def test_a_support_vector_classifier_leaves_the_flat_part_where_it_starts(solver, smoothing):
    model = fitted(dp.LinearSVC, LABELS, solver, classes=[0, 1], smoothing=smoothing, alpha=0.01, fit_intercept=False)
    signs, loss = 2.0 * LABELS - 1, dp.losses.SmoothedHinge(smoothing)

    def objective(theta):
        value = loss.value(X @ theta, signs).mean() + 0.005 * theta @ theta
        return value, X.T @ loss.slope(X @ theta, signs) / len(X) + 0.01 * theta

    truth = scipy.optimize.minimize(objective, np.zeros(4), jac=True, method="BFGS", options={"gtol": 1e-10}).x
    np.testing.assert_allclose(model.coef_.ravel(), truth, atol=1e-6)


def test_frank_wolfe_clips_nothing_without_privacy():
    ball = geometry.L1Ball(100.0)
    model = fitted(dp.LinearRegression, PRICES, "frank_wolfe", domain=ball, fit_intercept=False)
    descent = fitted(dp.LinearRegression, PRICES, "descent", domain=ball, fit_intercept=False)
    np.testing.assert_allclose(model.coef_, descent.coef_, atol=0.02 * np.abs(descent.coef_).max())


def test_the_best_candidate_is_found_however_large_its_loss():
    candidates = np.array([[60.0, -60.0, 30.0, 12.0], [0.0, 0.0, 0.0, 0.0], [-60.0, 60.0, -30.0, -12.0]])
    for order in ([0, 1, 2], [2, 1, 0]):
        model = dp.LinearRegression(
            epsilon=INF,
            fit_intercept=False,
            solver="exponential_mechanism",
            solver_options={"candidates": candidates[order]},
        )
        np.testing.assert_array_equal(model.fit(X, PRICES - 50).coef_, candidates[0])


ALIKE = {
    "constant": np.ones((60, 2)),
    "zero": np.zeros((60, 2)),
    "equal": np.repeat(RNG.normal(size=(60, 1)), 2, axis=1),
}


@pytest.mark.parametrize("columns", ALIKE)
@pytest.mark.parametrize("solver", ["auto", "objective_perturbation", "output_perturbation", "scaled_descent"])
def test_columns_that_tell_nothing_apart_leave_the_predictions_of_the_others(columns, solver):
    """Minimisers are not unique there; what they predict is."""
    rows, y = ALIKE[columns], PRICES[:60]
    model = dp.LinearRegression(epsilon=INF, solver=solver).fit(rows, y)
    truth = reference.LinearRegression().fit(rows, y)
    np.testing.assert_allclose(model.predict(rows), truth.predict(rows), rtol=1e-6)
    labels = dp.LogisticRegression(epsilon=INF, solver=solver, classes=[0, 1]).fit(rows, LABELS[:60])
    truth = reference.LogisticRegression(C=np.inf, tol=1e-12, max_iter=10_000).fit(rows[:, :1], LABELS[:60])
    np.testing.assert_allclose(labels.predict_proba(rows), truth.predict_proba(rows[:, :1]), atol=1e-6)


@pytest.mark.parametrize("bound", [None, 2.0])
def test_the_lasso_is_scikit_learn_s_at_the_radius_of_its_solution(bound):
    truth = reference.Lasso(alpha=1.0, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(X, PRICES - 50)
    radius = np.abs(truth.coef_).sum()
    assert np.count_nonzero(truth.coef_) == 3  # the penalty binds, and drops a feature
    model = dp.Lasso(epsilon=INF, radius=radius, row_norm=bound, fit_intercept=False).fit(X, PRICES - 50)
    np.testing.assert_allclose(model.coef_, truth.coef_, rtol=0, atol=1e-6)


def test_sparse_regression_is_least_squares_on_the_best_features_without_any_bound():
    columns = np.column_stack([X, RNG.uniform(-0.5, 0.5, (400, 6))])
    model = dp.SparseLinearRegression(epsilon=INF, sparsity=3, fit_intercept=False).fit(columns, PRICES - 50)
    truth = reference.LinearRegression(fit_intercept=False).fit(X[:, :3], PRICES - 50)
    np.testing.assert_allclose(model.coef_, [*truth.coef_, *[0.0] * 7], rtol=0, atol=1e-6)
    assert model.privacy_.settings["scales"]["kind"] == "full"


def test_indicators_that_add_up_to_one_and_rare_levels_leave_the_best_predictions():
    """8000 rows of three columns as indicators, some levels in a few rows only: no minimiser is the only one."""
    rng = np.random.default_rng(3)
    levels = np.minimum(rng.geometric(0.45, size=(8000, 3)), 9) - 1
    rows = np.hstack([np.eye(9)[column] for column in levels.T]) / np.sqrt(3)
    y = (rng.random(8000) < 1 / (1 + np.exp(-(levels @ [0.5, -0.7, 0.2])))).astype(int)
    model = dp.LogisticRegression(epsilon=INF, classes=[0, 1]).fit(rows, y)
    truth = reference.LogisticRegression(C=1e9, tol=1e-12, max_iter=10_000, solver="newton-cg").fit(rows, y)
    assert np.isfinite(model.coef_).all()
    np.testing.assert_allclose(model.predict_proba(rows), truth.predict_proba(rows), atol=1e-4)
