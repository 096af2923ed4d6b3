"""scikit-learn's own conformance checks, with the few that privacy makes impossible named and justified."""

from __future__ import annotations

import pytest
from sklearn.base import is_regressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import discreet as dp

# A seeded ε of 50 exercises the private path (clipping, integers, noise) with enough signal for accuracy checks.
PRIVATE = {"epsilon": 50.0, "delta": 1e-5, "random_state": 0, "row_norm": 10.0}
REGRESSION = {**PRIVATE, "target_bounds": (-4.0, 4.0)}
MODELS = [
    dp.LogisticRegression(**PRIVATE),
    dp.LinearSVC(**PRIVATE),
    dp.LinearRegression(**REGRESSION),
    dp.HuberRegression(**REGRESSION),
    dp.QuantileRegression(**REGRESSION),
    dp.PoissonRegression(**{**PRIVATE, "target_bounds": (0.0, 8.0), "row_norm": 5.0}),
    dp.LogisticRegression(epsilon=float("inf"), row_norm=10.0),
    dp.LinearRegression(epsilon=float("inf"), row_norm=10.0),
]

NO_ROW_EXCEPTIONS = "an exception must not depend on a row's value: rows with missing targets contribute nothing"


def expected_failures(estimator: object) -> dict[str, str]:
    """Classifiers that are not told their classes read the labels, with a warning, and refuse missing ones."""
    missing = {"check_supervised_y_no_nan": NO_ROW_EXCEPTIONS} if is_regressor(estimator) else {}
    return missing | {"check_dtype_object": NO_ROW_EXCEPTIONS}


@pytest.mark.filterwarnings("ignore::discreet.PrivacyWarning")
@parametrize_with_checks(MODELS, expected_failed_checks=expected_failures)
def test_scikit_learn_check(estimator, check):
    check(estimator)
