"""Noisy gradient descent: what it releases, that everything else is post-processing, and which iterate it returns."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from discreet import events
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.geometry import L2Ball, Polytope, SparseSet
from discreet.ledger import Ledger
from discreet.losses import Logistic, Softmax, Squared
from discreet.measurements import FixedSizeSampling, PoissonSampling
from discreet.noise import Bits
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.descent import Descent
from discreet.units import Unit
from discreet.updates import Adam, Momentum, Sgd, Svrg
from discreet.vault import Vault

ADD, REPLACE = Unit("add-remove"), Unit("replace-one")
ROWS = RowSpec(3, 1.0)
RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (60, 3))
Y = np.clip(X @ [0.8, -0.4, 0.2], -1, 1)
PROBLEM = Problem(ROWS, Squared(), 60.0)


def run(solver: Descent, problem: Problem = PROBLEM, seed: int = 0, unit: Unit = ADD) -> np.ndarray:
    return Vault(in_memory(X, Y, problem.rows), unit, Ledger(), Bits.seeded(seed)).run(solver, problem)


def by_hand(steps: int, size: float, problem: Problem = PROBLEM) -> list[np.ndarray]:
    """The iterates of projected gradient descent on the ridged mean loss."""
    theta, found = np.zeros(3), []
    for _ in range(steps):
        gradient = X.T @ (X @ theta - Y) / 60 + problem.ridge * theta
        theta = np.asarray(problem.domain.project(theta - size * gradient))  # type: ignore[attr-defined]
        found.append(theta)
    return found


@pytest.mark.parametrize("problem", [PROBLEM, replace(PROBLEM, domain=L2Ball(0.2), ridge=0.1)], ids=["free", "ball"])
@pytest.mark.parametrize("iterate", ["last", "average", "suffix"])
def test_without_noise_it_is_projected_gradient_descent(problem: Problem, iterate: str) -> None:
    path = by_hand(7, 0.5, problem)
    expected = {"last": path[-1], "average": np.mean(path, axis=0), "suffix": np.mean(path[3:], axis=0)}[iterate]
    found = run(Descent(0.0, 7, math.inf, Sgd(0.5), iterate=iterate), problem)  # type: ignore[arg-type]
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("update", [Sgd(0.5), Momentum(0.2, 0.8), Adam(0.1)], ids=lambda u: type(u).__name__)
def test_one_gaussian_release_a_step_whatever_the_update(update) -> None:
    assert rehearse(Descent(3.0, 5, 1.0, update), PROBLEM, ADD) == [events.Gaussian(3.0)] * 5


def test_batches_are_charged_as_samples() -> None:
    poisson = rehearse(Descent(3.0, 2, 1.0, Sgd(0.5), PoissonSampling(0.1)), PROBLEM, ADD)
    assert poisson == [events.Poisson(0.1, events.Gaussian(3.0))] * 2
    (fixed, _) = rehearse(Descent(3.0, 2, 1.0, Sgd(0.5), FixedSizeSampling(6, 60)), PROBLEM, REPLACE)
    assert fixed == events.FixedSize(6, 60, events.Gaussian(3.0))


def test_svrg_takes_its_anchor_from_all_rows_and_differences_from_batches() -> None:
    solver = Descent(3.0, 5, 1.0, Svrg(0.5, period=4), PoissonSampling(0.1))
    whole, batch = events.Gaussian(3.0), events.Poisson(0.1, events.Gaussian(3.0))
    assert rehearse(solver, PROBLEM, ADD) == [whole, batch, batch, batch, whole]


def test_a_clip_bounds_what_a_row_does() -> None:
    """One step of size n from θ = 0 is minus the sum of clipped gradients."""
    found = run(Descent(0.0, 1, 0.05, Sgd(60.0), iterate="last"))
    gradients = -Y[:, None] * X
    gradients *= np.minimum(1.0, 0.05 / np.linalg.norm(gradients, axis=1))[:, None]
    np.testing.assert_allclose(found, -gradients.sum(axis=0), atol=1e-4)


def test_noise_has_the_scale_that_is_charged() -> None:
    """One step of size n on 200 seeds: noise of deviation 3·clip, within 12 % but with probability below 1e-6."""
    exact = run(Descent(0.0, 1, 0.5, Sgd(60.0), iterate="last"))
    noisy = [run(Descent(3.0, 1, 0.5, Sgd(60.0), iterate="last"), seed=seed) - exact for seed in range(200)]
    assert np.std(noisy) == pytest.approx(1.5, rel=0.15)


def test_an_average_of_sparse_points_is_made_sparse() -> None:
    problem = replace(PROBLEM, domain=SparseSet(1))
    assert np.count_nonzero(run(Descent(2.0, 6, 0.5, Sgd(2.0)), problem)) <= 1


def test_every_output_of_several_has_its_gradient() -> None:
    problem = Problem(RowSpec(3, 1.0, outputs=4), Softmax(4), 60.0)
    found = run(Descent(1.0, 3, 0.5, Sgd(0.5)), problem)
    assert found.shape == (4, 3)
    assert np.abs(found).min() > 0


def test_bad_input() -> None:
    class Corners(Polytope):
        project = None  # type: ignore[assignment]

    with pytest.raises(InvalidInput, match="iterations"):
        Descent(1.0, 0, 1.0, Sgd(0.1))
    with pytest.raises(InvalidInput, match="iterate"):
        Descent(1.0, 1, 1.0, Sgd(0.1), iterate="best")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="Corners has no projection"):
        rehearse(Descent(1.0, 1, 1.0, Sgd(0.1)), Problem(ROWS, Logistic(), 9.0, Corners(np.eye(3))), ADD)


def test_an_epoch_is_charged_as_an_allocation_and_walks_as_far_as_single_steps_do() -> None:
    """Steps 1 to 5 in epochs of 2 batches: the last epoch asks for one batch only, and is charged for both."""
    solver = Descent(3.0, 5, 1.0, Momentum(0.2, 0.8), batches=2)
    epoch = events.Allocation(2, events.Gaussian(3.0))
    assert rehearse(solver, PROBLEM, ADD) == [epoch] * 3
    assert rehearse(solver, PROBLEM, REPLACE) == [epoch] * 3
    one_batch = run(Descent(0.0, 6, math.inf, Momentum(0.2, 0.8), iterate="suffix", batches=1))
    all_rows = run(Descent(0.0, 6, math.inf, Momentum(0.2, 0.8), iterate="suffix"))
    np.testing.assert_array_equal(one_batch, all_rows)


def test_an_epoch_without_noise_uses_every_row_once() -> None:
    """From θ = 0 with a tiny step the sum of an epoch's mean gradients is 1/t of all rows' each time, times t."""
    step = 1e-6
    found = run(Descent(0.0, 4, math.inf, Sgd(step), iterate="last", batches=4))
    np.testing.assert_allclose(found / step, 4 * X.T @ Y / 60, atol=1e-4)


def test_epochs_refuse_what_they_cannot_be() -> None:
    for bad in ({"batches": 0}, {"batches": 2, "sampling": PoissonSampling(0.5)}):
        with pytest.raises(InvalidInput, match="epoch"):
            Descent(1.0, 2, 1.0, Sgd(0.1), **bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="SVRG"):
        Descent(1.0, 2, 1.0, Svrg(0.1, 2), batches=2)


def test_a_difference_is_clipped_to_what_a_row_can_change() -> None:
    """Its clip follows the distance from the anchor, which is released; its noise is relative to that clip."""
    solver = Descent(3.0, 5, 1.0, Svrg(0.1, period=4), differences=(2.0, 0.25))
    assert rehearse(solver, PROBLEM, ADD) == [events.Gaussian(z) for z in (3.0, 6.0, 6.0, 6.0, 3.0)]
    steps = solver.steps(PROBLEM)
    anchor, total, clips = PROBLEM.start, None, []
    for _ in range(3):
        measurement = steps.send(total)
        clips.append(measurement.query.clip)
        expected = 1.0 if total is None else 0.25 * float(np.linalg.norm(measurement.query.theta - anchor))
        assert clips[-1] == pytest.approx(expected)
        total = np.full(PROBLEM.rows.shape, 6.0)
    assert clips[1] < clips[2] < 0.1
    far = Descent(3.0, 5, 1.0, Svrg(1e6, period=4), differences=(2.0, 0.25)).steps(PROBLEM)
    next(far)
    assert far.send(np.full(PROBLEM.rows.shape, 6.0)).query.clip == 1.0


def test_without_privacy_differences_are_not_clipped() -> None:
    exact = [run(Descent(0.0, 12, math.inf, Svrg(0.5, 4), differences=(2.0, c))) for c in (1e-3, math.inf)]
    np.testing.assert_array_equal(*exact)
