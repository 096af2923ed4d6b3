"""Offset before a descent, scale and offset after it: what is released, and what it mends."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, special
from tests.solvers.test_sparse_descent import words

import discreet as dp
from discreet import events
from discreet.accounting import epsilon
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.events import compose
from discreet.geometry import L2Ball
from discreet.ledger import Ledger
from discreet.losses import Huber, Logistic, Loss, Poisson, SmoothedHinge, Softmax, Squared
from discreet.measurements.program import drive
from discreet.noise import Bits
from discreet.recipes import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.parts.recalibration import Recalibration, fits, recalibrated
from discreet.solvers.sparse_descent import SparseDescent
from discreet.units import Unit
from discreet.vault import Vault

ADD, REPLACE = Unit("add-remove"), Unit("replace-one")
PROBLEM = Problem(RowSpec(30, 1.0, 0.5), Logistic(), 500.0)
SOLVER = SparseDescent(20.0, 3, 0.5, 1.0, 30, "lazy", recalibration_multiplier=7.0)


def test_its_releases_cost_together_what_one_of_its_noise_costs() -> None:
    with_fits, without = (
        rehearse(SOLVER, PROBLEM, ADD),
        rehearse(replace(SOLVER, recalibration_multiplier=0.0), PROBLEM, ADD),
    )
    assert without == [events.Gaussian(20.0)] * 3
    assert with_fits[1:4] == without  # the offset, 3 gradients, where scores lie, scale and offset
    fits = [with_fits[0], *with_fits[4:]]
    assert len(fits) == 3
    factors = [event.replace_one_factor for event in fits]  # type: ignore[attr-defined]
    assert factors == [math.sqrt(2), math.sqrt(2), pytest.approx(math.sqrt(8 / 3), rel=1e-3)]
    assert sum(event.noise_multiplier**-2 for event in fits) == pytest.approx(7.0**-2)  # type: ignore[attr-defined]
    for unit in (ADD, REPLACE):
        alone = epsilon(Recalibration(7.0).event(Logistic()), 1e-6, unit).upper
        assert epsilon(compose(fits), 1e-6, unit).upper == pytest.approx(alone)
    no_constant = rehearse(SOLVER, replace(PROBLEM, rows=RowSpec(30, 1.0)), ADD)
    assert len(no_constant) == 3 + 2


def answers(problem: Problem, X: np.ndarray, y: np.ndarray, steps, seed: int = 0) -> np.ndarray:
    data, bits = in_memory(X, y, problem.rows), Bits.seeded(seed)
    return drive(steps, lambda measurement: measurement.sample(data, ADD, bits))


def test_the_offset_alone_is_the_log_odds_and_slopes_then_add_up_to_nothing() -> None:
    """2000 rows of which a fifth are positive; the clip is not met, and noise moves the odds by a hundredth."""
    problem = replace(PROBLEM, n=2000.0)
    X, y = np.zeros((2000, 30)), np.where(np.arange(2000) < 400, 1.0, -1.0)
    start = answers(problem, X, y, Recalibration(2.0).before(problem))
    assert start[-1] * 0.5 == pytest.approx(math.log(0.25), abs=0.1)
    assert not start[:-1].any()


@pytest.mark.parametrize("size", [0.01, 1.0, 50.0])
def test_scale_and_offset_are_found_whatever_the_descent_left(size: float) -> None:
    """Labels of a logistic model in one column; θ is its direction, of any length and off centre."""
    problem, X = column()
    y = np.where(np.random.default_rng(1).random(len(X)) < 1 / (1 + np.exp(-(6 * X[:, 0] - 2))), 1.0, -1.0)
    theta = np.zeros(31)
    theta[0], theta[-1] = 0.5 * size, 3.0 * size
    found = answers(problem, X, y, Recalibration(3.0).after(problem, theta, 0.0))
    assert found[0] == pytest.approx(6.0, rel=0.2)
    assert found[-1] * 0.5 / found[0] == pytest.approx(-1 / 3, abs=0.05)


@pytest.mark.parametrize("loss", [Squared(), Huber(0.2)], ids=lambda loss: type(loss).__name__)
def test_numbers_get_scale_and_offset_too(loss: Loss) -> None:
    problem, X = column()
    problem = replace(problem, loss=loss)
    y = np.clip(0.4 * X[:, 0] - 0.3 + 0.2 * np.random.default_rng(1).normal(size=len(X)), -1, 1)
    theta = np.zeros(31)
    theta[0], theta[-1] = 0.01, 0.7
    start = answers(problem, X, y, Recalibration(3.0).before(problem))
    assert start[-1] * 0.5 == pytest.approx(-0.3, abs=0.03)
    found = answers(problem, X, y, Recalibration(3.0).after(problem, theta, 0.0))
    assert found[0] == pytest.approx(0.4, rel=0.2)
    assert found[-1] * 0.5 == pytest.approx(-0.3, abs=0.03)


def column() -> tuple[Problem, np.ndarray]:
    X = np.zeros((20_000, 30))
    X[:, 0] = np.random.default_rng(0).uniform(-1, 1, 20_000)
    return replace(PROBLEM, n=20_000.0), X


def test_noise_never_turns_a_direction_round() -> None:
    """100 rows under a noise of 100: nothing can be seen, and in 40 fits the sign stays, or nothing is left."""
    problem = replace(PROBLEM, n=100.0)
    X, y = np.full((100, 30), 0.1), np.where(np.arange(100) < 50, 1.0, -1.0)
    theta = np.append(np.ones(30), 0.0)
    for seed in range(40):
        found = answers(problem, X, y, Recalibration(100.0).after(problem, theta, 0.0), seed)
        assert (found[:30] >= 0.0).all()


def test_fewer_bins_under_more_noise() -> None:
    asked, problem = [], replace(PROBLEM, loss=SmoothedHinge(1.0))
    for noise in (0.1, 20.0, 100.0):
        steps = Recalibration(noise).after(problem, np.ones(31), 0.0)
        place = next(steps)
        fit = steps.send(place.blank())
        asked.append(fit.query.shape)
        assert place.query.shape == (2 * math.ceil(math.log2(PROBLEM.n)) + 1,)  # octaves on either side, and between
    assert asked == [(2, 6), (2, 3), (2, 2)]


def test_a_score_that_only_remembers_its_own_labels_leaves_the_larger_class_to_everybody() -> None:
    """300 rows, 200 columns, labels by coins of 30 %. One gradient step fits them well, and nothing else.

    A step of 4 moves each score by 4 of its own slopes, and half of the leverage is charged; without it the fit trusts
    the score. With it nothing of the score is left but what noise in the sums of labels would allow, a tenth.
    """
    rng = np.random.default_rng(0)
    problem, n = Problem(RowSpec(200, 1.0, 0.5), Logistic(), 300.0), 300
    X = rng.normal(size=(2 * n, 200))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(rng.random(2 * n) < 0.3, 1.0, -1.0)
    slope = np.where(y[:n] > 0, 0.7, -0.3)
    theta = np.append(4 * X[:n].T @ slope, 2 * math.log(3 / 7))
    naive, aware = (
        answers(problem, X[:n], y[:n], Recalibration(1.0).after(problem, theta, float(k))) for k in (0, 8 * n)
    )

    def right(found: np.ndarray) -> float:
        return float((np.sign(X[n:] @ found[:200] + 0.5 * found[-1]) == y[n:]).mean())

    assert right(theta) < 0.68
    assert right(naive) < 0.68
    assert right(aware) == (y[n:] < 0).mean()
    assert np.linalg.norm(aware[:200]) < 0.1 * np.linalg.norm(theta[:200])


@pytest.mark.parametrize("share", [0.005, 0.03])
def test_a_rare_class_gets_its_scale(share: float) -> None:
    """20 000 rows, scores of half the true log-odds, a class of 0.5 or 3 %: scale and share within a quarter.

    Most of the class lies beyond the ninth decile of scores. Noise moves the number of its rows by 3 of 100 or 600, and
    the scale by a tenth; bins from the first to the ninth decile find a scale of 3 to 4 where 2 is right.
    """
    rng, n = np.random.default_rng(2), 20_000
    scores = rng.normal(size=n)
    offset = optimize.brentq(lambda b: special.expit(2 * scores + b).mean() - share, -20.0, 0.0)
    y = np.where(rng.random(n) < special.expit(2 * scores + offset), 1.0, -1.0)
    X = np.zeros((n, 30))
    X[:, 0] = np.clip(scores / 6, -1, 1)
    theta = np.zeros(31)
    theta[0] = 6.0
    problem = replace(PROBLEM, n=float(n))
    found = answers(problem, X, y, recalibrated(problem, theta, 3.0, 3.0))
    chances = special.expit(found[0] * X[:, 0] + 0.5 * found[-1])
    assert found[0] / 6 == pytest.approx(2.0, rel=0.25)
    assert chances.mean() == pytest.approx(share, rel=0.25)


def test_a_class_rarer_than_the_noise_gets_a_share_of_about_the_noise() -> None:
    """1000 rows, none of the second class, noise of 43 rows in its number: a share that is neither 0 nor large."""
    problem = replace(PROBLEM, n=1000.0)
    X, y, theta = np.zeros((1000, 30)), -np.ones(1000), np.append(np.ones(30), 0.0)
    for seed in range(20):
        found = answers(problem, X, y, recalibrated(problem, theta, 50.0, 50.0), seed)
        assert 0.001 < special.expit(0.5 * found[-1]) < 0.2  # beyond 3.5 deviations in one of 20 runs: 1 %


@pytest.mark.parametrize("name", ["sparse_descent", "bias_reduced"])
def test_a_small_class_is_found_among_many_words(name: str) -> None:
    """4000 rows, 20 000 words, ε = 4, a class of 30 %: without the fits hardly anything beyond the larger class."""
    X, y = words(8000, 20_000, 30)
    test, truth, X, y = X[4000:], y[4000:], X[:4000], y[:4000]
    scores = {}
    for share in (None, 0.0):
        model = dp.LogisticRegression(
            4.0, 1e-7, adjacency="add-remove", n_public=4000, row_norm=1.0, classes=[-1, 1], random_state=0,
            solver=name, solver_options={"sparsity": 30, "iterations": 40, "recalibration_share": share},
        ).fit(X, y)  # fmt: skip
        scores[share] = model.score(test, truth)
    assert scores[None] > 0.85
    assert scores[None] > scores[0.0] + 0.1


def test_a_filter_keeps_enough_for_the_fits() -> None:
    X, y = words(400, 30, 5)
    problem, unit = Problem(RowSpec(30, 1.0, 0.5), Logistic(), 400.0), REPLACE
    # at most 400 steps; noise for which the filter stops the run long before
    solver = recipe("bias_reduced")(problem, Guarantee(2.0, 1e-5, unit), noise_multiplier=8.0, smallest=50, levels=2)
    budget, done = solver.filter(unit), []
    vault = Vault(in_memory(X, y, problem.rows), unit, Ledger(), Bits.seeded(0))
    vault.run_filtered(solver, problem, budget, progress=lambda count, planned: done.append(count))
    steps = len(done) - 3
    assert 1 <= steps < 400
    paid = [solver.costs[solver.level(t)] for t in range(steps + 1)]
    assert math.fsum(paid[:-1]) + solver.costs[-1] <= budget.budget < math.fsum(paid) + solver.costs[-1]
    assert budget.spent == pytest.approx(math.fsum(paid[:-1]) + solver.costs[-1], rel=1e-6)


def test_where_it_may_be_fitted() -> None:
    guarantee = Guarantee(1.0, 1e-6, ADD)
    assert fits(PROBLEM)
    constrained, ridged = replace(PROBLEM, domain=L2Ball(1.0)), replace(PROBLEM, ridge=0.1)
    unbounded = replace(PROBLEM, loss=Poisson())
    several = Problem(RowSpec(5, 1.0, 0.5, 3), Softmax(3), 100.0)
    for problem in (constrained, ridged, unbounded, several):
        assert not fits(problem)
        assert recipe("sparse_descent")(problem, guarantee).recalibration_multiplier == 0
        for name in ("sparse_descent", "bias_reduced"):
            with pytest.raises(InvalidInput, match="recalibration_share"):
                recipe(name)(problem, guarantee, recalibration_share=0.1)
    with pytest.raises(InvalidInput, match="recalibration_share"):
        recipe("sparse_descent")(PROBLEM, guarantee, recalibration_share=1.0)
    with pytest.raises(InvalidInput, match="positive"):
        Recalibration(0.0)
