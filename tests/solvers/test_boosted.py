"""The best of a random number of runs: K is geometric, one value is shown, and the plan is that of one run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from discreet import events
from discreet.accounting import epsilon
from discreet.accounting.upper.selection import selection_divergence
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.ledger import Ledger
from discreet.losses import Logistic
from discreet.measurements import Noisy
from discreet.mechanisms import Gaussian
from discreet.noise import Bits
from discreet.queries.sums.candidate_scores import OneScore
from discreet.queries.sums.gradient import GradientSum
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.bias_reduced import BiasReduced
from discreet.solvers.boosted import Boosted
from discreet.solvers.descent import Descent
from discreet.units import Unit
from discreet.updates import Sgd
from discreet.vault import Vault

UNIT = Unit("replace-one")
ROWS = RowSpec(2, 1.0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2)) / 3
Y = np.where(X[:, 0] > 0, 1.0, -1.0)
DATA = in_memory(X, Y, ROWS)
PROBLEM = Problem(ROWS, Logistic(), 200.0)


def test_boosting_costs_what_selection_costs_and_no_more_is_charged():
    inner = BiasReduced(8.0, 5, 1.0, 0.5, smallest=8, levels=2, sparsity=2)
    ledger = Ledger()
    theta = Vault(DATA, UNIT, ledger, Bits.seeded(0)).run(Boosted(inner, 3.0, 50.0, 2.0), PROBLEM)
    assert theta.shape == (2,)
    (charge,) = ledger.history()
    assert isinstance(charge.event, events.PrivateSelection)
    assert selection_divergence(charge.event, 4.0, UNIT) > 0
    once = charge.event.event
    assert epsilon(once, 1e-5, UNIT).upper < epsilon(charge.event, 1e-5, UNIT).upper


@dataclass(frozen=True)
class Unlucky:
    """Good or bad by the sign of one noisy count: bad with probability about a half."""

    def steps(self, problem):
        noisy = yield Noisy(GradientSum(ROWS, Logistic(), np.zeros(2), 1.0), Gaussian(500.0))
        return np.array([5.0, 0.0]) if noisy[1] > 0 else np.array([-5.0, 0.0])


def test_boosting_makes_failure_rare():
    """P(all bad) = p/(p + m(1 − p)) = 1/6 at p = ½, m = 5; 400 runs exceed 0.25 with probability below 1e-4."""
    vault = Vault(DATA, UNIT, Ledger(), Bits.seeded(2))
    solver = Boosted(Unlucky(), 5.0, 1.0, 4.0)
    bad = np.mean([vault.run(solver, PROBLEM)[0] < 0 for _ in range(400)])
    alone = np.mean([vault.run(Unlucky(), PROBLEM)[0] < 0 for _ in range(400)])
    assert bad < 0.25
    assert alone > 0.4


def test_without_noise_nothing_is_claimed():
    ledger = Ledger()
    quiet = Boosted(Descent(0.0, 5, 1.0, Sgd(0.5)), 2.0, 0.0, 2.0)
    Vault(DATA, UNIT, ledger, Bits.seeded(0)).run(quiet, PROBLEM)
    (charge,) = ledger.history()
    assert charge.event == events.NonPrivate()


def test_one_parameter_is_scored_at_a_time():
    with pytest.raises(InvalidInput, match="one parameter"):
        OneScore(ROWS, Logistic(), np.zeros((2, 2)), 1.0)


def test_a_run_that_diverges_unseen_does_not_raise():
    @dataclass(frozen=True)
    class Diverging:
        def steps(self, problem):
            yield Noisy(GradientSum(problem.rows, problem.loss, problem.start, 1.0), Gaussian(5.0))
            return np.array([np.nan, np.inf])

    theta = Vault(DATA, UNIT, Ledger(), Bits.seeded(2)).run(Boosted(Diverging(), 3.0, 5.0, 1.0), PROBLEM)
    assert np.isfinite(theta).all()


def test_a_certificate_can_name_what_a_run_asks():
    vault = Vault(DATA, UNIT, Ledger(), Bits.seeded(0))
    vault.run(Boosted(Descent(20.0, 2, 1.0, Sgd(0.5)), 3.0, 50.0, 2.0), PROBLEM)
    assert {question.query for question in vault.asked} == {"GradientSum", "OneScore"}
