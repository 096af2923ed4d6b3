"""Calibration that rehearses little keeps what rehearsing every candidate keeps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from discreet.accounting import epsilon
from discreet.calibration import Guarantee
from discreet.calibration.calibrate import calibrated
from discreet.calibration.rehearse import rehearse
from discreet.events import compose
from discreet.losses import Logistic
from discreet.measurements import Noisy, PoissonSampling
from discreet.mechanisms import Gaussian
from discreet.queries.sums.gradient import GradientSum
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit

PROBLEM = Problem(RowSpec(2, 1.0), Logistic(), 100.0)
GUARANTEE = Guarantee(1.0, 1e-6, Unit("add-remove"))
SHAPES = {
    "the noise itself": lambda noise: [noise] * 3,
    "the noise beside other noise": lambda noise: [noise, 7.0, noise],
    "multiples of the noise, which one rehearsal does not show": lambda noise: [noise, 2 * noise],
}


@dataclass(frozen=True)
class Plan:
    noises: tuple[float, ...]
    sampling: PoissonSampling | None = None

    def steps(self, problem):
        for noise in self.noises:
            yield Noisy(GradientSum(problem.rows, problem.loss, np.zeros(2), 1.0), Gaussian(noise), self.sampling)
        return np.zeros(2)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_every_plan_meets_its_guarantee_with_nothing_to_spare(shape):
    solver = calibrated(lambda noise: Plan(tuple(shape(noise))), PROBLEM, GUARANTEE)
    event = compose(rehearse(solver, PROBLEM, GUARANTEE.unit))
    spent = epsilon(event, GUARANTEE.delta, GUARANTEE.unit).upper
    assert spent <= GUARANTEE.epsilon
    assert spent > 0.999 * GUARANTEE.epsilon


def test_a_plan_whose_steps_depend_on_the_noise_keeps_its_guarantee():
    solver = calibrated(lambda noise: Plan((noise,) * (9 if noise > 3 else 5)), PROBLEM, GUARANTEE)
    event = compose(rehearse(solver, PROBLEM, GUARANTEE.unit))
    assert epsilon(event, GUARANTEE.delta, GUARANTEE.unit).upper <= GUARANTEE.epsilon


def test_noise_is_found_inside_sampled_events():
    solver = calibrated(lambda noise: Plan((noise,) * 4, PoissonSampling(0.1)), PROBLEM, GUARANTEE)
    event = compose(rehearse(solver, PROBLEM, GUARANTEE.unit))
    assert 0.999 < epsilon(event, GUARANTEE.delta, GUARANTEE.unit).upper <= 1.0
