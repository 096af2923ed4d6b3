"""One rehearsal calibrates a plan whose noise is in proportion; any other plan is refused by the vault."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from discreet.accounting import epsilon
from discreet.calibration import Guarantee
from discreet.calibration.calibrate import calibrated
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import PlanViolation
from discreet.events import compose
from discreet.ledger import Ledger
from discreet.losses import Logistic
from discreet.measurements import Noisy, PoissonSampling
from discreet.mechanisms import Gaussian
from discreet.noise.bits import Bits
from discreet.queries.sums.gradient import GradientSum
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit
from discreet.vault import Payment, Vault

PROBLEM = Problem(RowSpec(2, 1.0), Logistic(), 100.0)
GUARANTEE = Guarantee(1.0, 1e-6, Unit("add-remove"))
SHAPES = {
    "the noise itself": lambda noise: [noise] * 3,
    "multiples of the noise": lambda noise: [noise, 2 * noise],
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


@pytest.mark.parametrize(
    "shape",
    [lambda noise: [noise, 7.0, noise], lambda noise: [noise] * (9 if noise > 3 else 5)],
    ids=["fixed noise beside it", "more steps with more noise"],
)
@pytest.mark.parametrize("budget", [None, 10.0])
def test_a_plan_out_of_proportion_is_refused_before_it_is_charged(shape, budget):
    """One rehearsal cannot tell such a plan: the vault accounts for what it rehearses itself."""
    solver = calibrated(lambda noise: Plan(tuple(shape(noise))), PROBLEM, GUARANTEE)
    event = compose(rehearse(solver, PROBLEM, GUARANTEE.unit))
    assert epsilon(event, GUARANTEE.delta, GUARANTEE.unit).upper > GUARANTEE.epsilon
    declared = {} if budget is None else {"epsilon": budget, "delta": 1e-3, "adjacency": "add-remove"}
    ledger = Ledger(**declared)
    vault = Vault(in_memory(np.ones((3, 2)), np.ones(3), PROBLEM.rows), GUARANTEE.unit, ledger, Bits.secure())
    with pytest.raises(PlanViolation, match="It was not charged, and nothing of it was released"):
        vault.run(solver, PROBLEM, payment=Payment("", GUARANTEE.stated))
    assert ledger.history() == ()
    assert vault.charged == []


def test_noise_is_found_inside_sampled_events():
    solver = calibrated(lambda noise: Plan((noise,) * 4, PoissonSampling(0.1)), PROBLEM, GUARANTEE)
    event = compose(rehearse(solver, PROBLEM, GUARANTEE.unit))
    assert 0.999 < epsilon(event, GUARANTEE.delta, GUARANTEE.unit).upper <= 1.0
