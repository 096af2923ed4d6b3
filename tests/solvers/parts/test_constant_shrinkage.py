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
from discreet.solvers.parts.constant_shrinkage import NoisyMinimiser, posterior_variance, released_share

PROBLEM = Problem(RowSpec(3, 1.0, 0.5), Logistic(), 1000.0)


def sent(theta, labels, solver=ObjectivePerturbation(40.0, 60.0, 0.5 * PROBLEM.rows.radius, label_multiplier=30.0)):  # noqa: B008
    """What the solver makes of a sum of labels and of a minimiser (a function of the ridge's centre)."""
    steps = solver.steps(PROBLEM)
    next(steps)
    centre = steps.send(labels).centre
    with pytest.raises(StopIteration) as ended:
        steps.send(theta(centre))
    return centre, ended.value.value


@pytest.mark.parametrize("labels", [-900.0, -300.0, 0.0, 500.0])
def test_a_minimiser_that_found_nothing_predicts_the_share_for_every_row(labels):
    _, found = sent(lambda centre: centre, labels)
    assert found[:-1].tolist() == [0.0, 0.0, 0.0]
    assert 0.5 * found[-1] == pytest.approx(math.log((1000 + labels) / (1000 - labels)), abs=1e-3)


def test_what_the_minimiser_adds_to_the_constant_is_scaled_by_one_factor():
    added = np.array([0.4, -0.8, 0.2, 0.3])
    _, found = sent(lambda centre: centre + added, -300.0)
    constant = np.append(np.zeros(3), math.log(700 / 1300) / 0.5)
    ratio = (found - constant) / added
    assert ratio == pytest.approx(np.full(4, ratio[0]))
    assert ratio[0] > 0
    # at this noise λ‖θ̂ − θ₀‖ of the tilt alone is about 22·√3: what is much shorter counts for less than what is longer
    _, longer = sent(lambda centre: centre + 3 * added, -300.0)
    assert ((longer - constant) / added)[0] > 3 * ratio[0]


@pytest.mark.parametrize("cut", [0.25, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.45, 0.6, 0.95])
def test_the_constant_is_that_of_the_loss_with_cut_slopes(cut, share):
    """Where the mean cut slope vanishes, found by bisection."""
    low, high = -20.0, 20.0
    for _ in range(80):
        odds = (low + high) / 2
        chance = expit(odds)
        slope = (1 - share) * min(chance, cut) - share * min(1 - chance, cut)
        low, high = (odds, high) if slope < 0 else (low, odds)
    assert NoisyMinimiser(1000.0, 3, 1.0, 20.0, 15.0, cut).constant(share) == pytest.approx(odds, abs=1e-6)


def test_the_posterior_variance_is_that_of_numerical_integration():
    values = np.linspace(0.0, 400.0, 2_000_001)
    for estimate, deviation in ((3.0, 0.5), (-4.0, 2.0), (10.0, 8.0), (0.0, 30.0)):
        weights = np.exp(-(((values - estimate) / deviation) ** 2) / 2 - values / (math.pi**2 / 3))
        exact = float((values * weights).sum() / weights.sum())
        assert posterior_variance(estimate, deviation) == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize(("share", "cut"), [(0.5, 0.5), (0.3, 0.5), (0.1, 0.5), (0.3, 1.0)])
def test_the_factor_is_the_regression_of_log_odds_on_the_scores_added(share, cut):
    """20 minimisers under so much ridge that they are one gradient step, columns as the model supposes; fixed seeds."""
    rng, n, d, noise, ridge = np.random.default_rng(3), 6000, 30, 60.0, 4000.0
    judged = NoisyMinimiser(float(n), d, 1.0, ridge, noise, cut)
    moments = np.arange(1.0, d + 1) ** -0.75
    moments /= moments.sum()
    given, best, spread = [], [], []
    for _ in range(20):
        X = rng.standard_normal((n, d)) * np.sqrt(moments)
        odds = math.log(share / (1 - share)) + X @ rng.standard_normal(d) * 1.5
        low = float(np.mean(expit(odds)))  # the share of the classes is not that of the mean log-odds
        y, chance = rng.random(n) < expit(odds), float(expit(judged.constant(low)))
        slopes = np.where(y, -min(1 - chance, cut), min(chance, cut))
        added = -(X.T @ slopes + noise * rng.standard_normal(d)) / ridge
        scores = X @ added
        given.append(judged.scale(low, float(added @ added)))
        best.append(float(np.cov(odds, scores)[0, 1]))
        spread.append(float(scores.var()))
    assert np.mean(given) == pytest.approx(np.sum(best) / np.sum(spread), rel=0.35)


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
