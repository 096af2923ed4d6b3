"""Shrinking a perturbed minimiser towards the constant model: a rare class under much noise."""

import math

import numpy as np
import pytest
from scipy.special import expit

import discreet as dp
from discreet.errors import HypothesisViolated
from discreet.losses import Logistic
from discreet.planning.predicted import predicted_bound
from discreet.rows import RowSpec
from discreet.solvers.base import Problem
from discreet.solvers.objective_perturbation import ObjectivePerturbation
from discreet.solvers.parts.share_offset import kept_scale, released_share, shrunk_to_share

PROBLEM = Problem(RowSpec(3, 1.0, 0.5), Logistic(), 1000.0)


def test_shrunk_scores_lie_between_the_minimiser_and_the_constant():
    theta, X = np.array([1.0, -2.0, 0.5, 3.0]), np.random.default_rng(0).standard_normal((20, 3))
    for share in (0.5, 0.2, 0.01, 0.9):
        kept = kept_scale(PROBLEM, share, 20.0, 15.0)
        found = shrunk_to_share(theta, PROBLEM, share, 20.0, 15.0)
        before, after = (X @ t[:3] + 0.5 * t[3] for t in (theta, found))
        np.testing.assert_allclose(after, kept * before + (1 - kept) * math.log(share / (1 - share)))
    assert kept_scale(PROBLEM, 0.5, 20.0, 15.0) == 1
    assert kept_scale(PROBLEM, 0.01, 20.0, 15.0) == pytest.approx(kept_scale(PROBLEM, 0.99, 20.0, 15.0))


def test_nothing_is_shrunk_without_noise_or_ridge_and_less_for_commoner_classes():
    assert kept_scale(PROBLEM, 0.01, 0.0, 0.0) == 1
    kept = [kept_scale(PROBLEM, p, 20.0, 15.0) for p in (0.001, 0.01, 0.1, 0.3, 0.5)]
    assert kept == sorted(kept)


def test_the_share_is_that_of_label_one():
    """1000 rows, 100 of label 1: the sum of labels is −800, and its noise is 3."""
    steps = released_share(PROBLEM, 3.0)
    query = next(steps).query
    assert (query.norm, query.bound * query.grid) == ("l2", 1.0)  # a row moves the sum by its label at most
    with pytest.raises(StopIteration) as ended:
        steps.send(-800.0)
    assert ended.value.value == pytest.approx(0.1)


@pytest.mark.parametrize(("share", "most"), [(0.01, 0.4), (0.1, 0.08)])
def test_a_rare_class_under_much_noise_is_predicted_about_as_well_as_by_the_constant(share, most):
    """The mean excess of the expected log-loss over that of the true share, in units of its entropy; fixed seeds.

    With noise of 0.018·n in a count, the share is released with a deviation of 0.028. Without the share the excess is
    1.24 (1 % of the second class) and 0.11 (10 %); with it, it is 0.24 and 0.05.
    """
    rng = np.random.default_rng(1)
    X, n = rng.standard_normal((3000, 30)), 3000
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = (rng.random(n) < share).astype(int)  # nothing to be learnt but the share
    entropy = -(share * math.log(share) + (1 - share) * math.log(1 - share))
    losses = []
    for seed in range(10):
        model = dp.LogisticRegression(
            0.1, 1e-7, classes=[0, 1], row_norm=1.0, n_public=n, random_state=seed, solver="objective_perturbation",
            adjacency="add-remove", solver_options={"label_share": 0.1},
        )  # fmt: skip
        chances = expit(model.fit(X, y).decision_function(X))
        losses.append(-float(np.mean(share * np.log(chances) + (1 - share) * np.log(1 - chances))))
    assert np.mean(losses) - entropy < most * entropy


def test_no_bound_is_claimed_for_shrunk_scores():
    """The bound on the excess risk is about the minimiser itself."""
    assert predicted_bound(ObjectivePerturbation(10.0, 8.0), PROBLEM).value < 1
    with pytest.raises(HypothesisViolated, match="label_share"):
        predicted_bound(ObjectivePerturbation(10.0, 8.0, label_multiplier=30.0), PROBLEM)
