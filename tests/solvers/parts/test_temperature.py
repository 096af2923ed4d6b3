"""The temperature of several classes: bounded contributions, a claim that an attack cannot break, and a better loss."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from tests.solvers.claims import Case, check, rows

import discreet as dp
from discreet import events
from discreet.calibration import Guarantee
from discreet.calibration.calibrate import calibrated
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.geometry import L2Ball
from discreet.losses import Softmax
from discreet.queries.sums.scale_slopes import ScaleSlopes
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.parts.temperature import found_scale, slope_clip, tempered
from discreet.units import Unit

ADD = Unit("add-remove")
ROWS = RowSpec(2, 1.0, 0.5, outputs=3)
THETA = np.array([[40.0, -3.0, 1.0], [-40.0, 7.0, -2.0], [1.0, 2.0, 3.0]])
PROBLEM = Problem(ROWS, Softmax(3), 500.0)


def longest(query: Any) -> float:
    """The largest ℓ2 norm of a row's contribution over the bound that is claimed: all directions, all labels."""
    angles = np.linspace(0, 2 * math.pi, 200, endpoint=False)
    found = [
        query.integers(in_memory(np.array([[math.cos(a), math.sin(a)]]), np.array([y]), ROWS)).astype(float)
        for a in angles
        for y in (0.0, 1.0, 2.0, 0.5, math.nan, -1.0, 3.0)
    ]
    return max(float(np.linalg.norm(each)) for each in found) / query.bound


@dataclass(frozen=True, eq=False)
class Unclipped(ScaleSlopes):
    """A planted bug: slopes at α = 2 are not clipped."""

    def _of(self, scores: Any, codes: Any) -> Any:
        wide = ScaleSlopes(self.rows, self.theta, 1e3)._of(scores, codes)
        found = super()._of(scores, codes)
        found[2] = wide[2] * 1e3 / self.clip
        return found


def test_no_row_contributes_more_than_is_claimed_and_a_forgotten_clip_is_found() -> None:
    query = ScaleSlopes(ROWS, THETA, 2.0)
    assert 0.95 < longest(query) <= 1
    assert longest(Unclipped(ROWS, THETA, 2.0)) > 1


def test_sums_are_the_slopes_of_the_loss() -> None:
    """By differences of the mean loss of α·z; a row without a label of the three counts as nothing."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.7, 0.7, (300, 2)), rng.integers(0, 3, 300).astype(float)
    data, theta, loss = in_memory(X, y, ROWS), THETA / 20, Softmax(3)
    z = np.column_stack([X, np.full(300, 0.5)]) @ theta.T

    def total(scale: float) -> float:
        return float(loss.value(scale * z, y).sum())

    expected = [(total(a + 1e-5) - total(a - 1e-5)) / 2e-5 for a in (0.5, 1.0, 2.0)]
    spread = float((1 - (loss.mean(z) ** 2).sum(axis=1)).sum())
    query = ScaleSlopes(ROWS, theta, 100.0)
    np.testing.assert_allclose(query.unrounded(data), [*expected, 50 * spread], rtol=1e-5)
    np.testing.assert_allclose(query.integers(data) * query.grid, [*expected, 50 * spread], atol=0.1)
    unlabelled = in_memory(X, np.full(300, np.nan), ROWS)
    assert not query.integers(unlabelled).any()


@dataclass(frozen=True)
class Alone:
    """The release of the temperature, and nothing else, for a model of great scores."""

    noise_multiplier: float

    def steps(self, problem: Problem) -> Generator[Any, Any, Any]:
        return (yield from tempered(problem, np.array([[50.0], [-50.0]]), self.noise_multiplier, 0.0))


def alone(problem: Problem, guarantee: Guarantee) -> Alone:
    return calibrated(Alone, problem, guarantee)


def test_an_attack_stays_below_the_claim_and_breaks_it_when_noise_is_halved() -> None:
    """A row whose slopes are all at the clip, or no row."""
    problem = Problem(RowSpec(1, 1.0, outputs=2), Softmax(2), 2.0)
    check(Case("temperature", "alone", problem, (rows((1, 1)), rows()), ADD, make=alone))


def test_the_release_is_charged_with_its_multiplier() -> None:
    assert rehearse(Alone(7.0), Problem(RowSpec(1, 1.0, outputs=2), Softmax(2), 50.0), ADD) == [events.Gaussian(7.0)]


@pytest.mark.parametrize("wrong", [0.4, 0.8, 1.0, 1.7])
def test_scores_of_a_wrong_scale_get_the_right_one(wrong: float) -> None:
    """Labels drawn by the scores themselves, which are then multiplied; without noise."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-0.7, 0.7, (20_000, 2))
    z = np.column_stack([X, np.full(len(X), 0.5)]) @ (THETA / 10).T
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1).astype(float)
    query = ScaleSlopes(ROWS, THETA / 10 * wrong, slope_clip(20_000.0, 0.0))
    scale = found_scale(query.unrounded(in_memory(X, y, ROWS))[:3] / len(X), 0.0)
    assert scale * wrong == pytest.approx(1.0, abs=0.1)


def test_under_much_noise_scores_stay_and_slopes_that_fall_are_made_to_rise() -> None:
    rng = np.random.default_rng(0)
    assert {found_scale(rng.normal(size=3), 1e6) for _ in range(20)} == {1.0}
    for slopes in ([0.3, 0.1, 0.5], [-0.5, 0.2, 0.1], [0.4, 0.2, -0.3], [0.1, -0.5, 0.3], [-0.2, 0.9, -0.4]):
        assert 0.25 <= found_scale(np.array(slopes), 0.1) <= 4
    assert found_scale(np.array([1.0, 2.0, 3.0]), 0.0) == pytest.approx(0.25, abs=1e-9)
    assert found_scale(np.array([-3.0, -2.0, -1.0]), 0.0) == pytest.approx(4.0, abs=1e-9)


@pytest.mark.parametrize("problem", [replace(PROBLEM, domain=L2Ball(1.0)), replace(PROBLEM, ridge=0.1)], ids=str)
def test_a_constraint_or_a_ridge_is_refused(problem: Problem) -> None:
    with pytest.raises(InvalidInput, match="temperature"):
        next(tempered(problem, THETA, 1.0, 0.0))


def test_probabilities_of_several_classes_are_better_and_accuracy_is_the_same() -> None:
    """ε = 8, 5 seeds: log-loss 0.51 with the temperature, 0.54 without; accuracies within half a point."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((5500, 20)) * np.arange(1.0, 21) ** -0.5
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    z = X @ rng.normal(size=(20, 3)) * 3
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)

    def scores(share: float) -> Any:
        found = []
        for seed in range(5):
            model = dp.LogisticRegression(
                8.0, 1e-7, classes=[0, 1, 2], row_norm=1.0, n_public=1500, adjacency="add-remove", random_state=seed,
                solver="scaled_descent", solver_options={"scales": "diagonal", "recalibration_share": share},
            )  # fmt: skip
            chances = model.fit(X[:1500], y[:1500]).predict_proba(X[1500:])
            own = chances[np.arange(4000), y[1500:]]
            found.append((-np.log(own).mean(), (chances.argmax(axis=1) == y[1500:]).mean()))
        return np.mean(found, axis=0)

    (before, right_before), (after, right_after) = scores(0.0), scores(0.05)
    assert after < before - 0.01
    assert abs(right_after - right_before) < 0.005
