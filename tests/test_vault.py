"""The vault answers nothing that was not charged, and nothing but what was planned."""

from __future__ import annotations

import copy
import os
import pickle
from dataclasses import dataclass

import numpy as np
import pytest

from discreet import events
from discreet.accounting.adaptive.filters import ZCDPFilter
from discreet.data.memory import in_memory
from discreet.errors import BudgetExceeded, InvalidInput, PlanViolation
from discreet.ledger import Ledger
from discreet.losses import Logistic
from discreet.measurements import FixedSizeSampling, Noisy, PoissonSampling
from discreet.mechanisms import Choice, Gaussian, Laplace
from discreet.noise import Bits
from discreet.queries.sums.count import RowCount
from discreet.queries.sums.gradient import GradientSum
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.descent import Descent
from discreet.units import Unit
from discreet.updates import Sgd
from discreet.vault import Payment, Vault

ROWS = RowSpec(2, 1.0)
UNIT = Unit("add-remove")


class Untouchable:
    """A dataset that fails the test when anything is asked of it."""

    rows = ROWS

    def __len__(self):
        pytest.fail("rows were touched")

    def __getattr__(self, name):
        pytest.fail(f"rows were touched: {name}")


def vault(ledger=None, data=None, unit=UNIT):
    X = np.array([[0.6, 0.8], [-1.0, 0.0], [0.0, 1.0]])
    data = data if data is not None else in_memory(X, np.array([1.0, -1.0, 1.0]), ROWS)
    return Vault(data, unit, ledger or Ledger(), Bits.seeded(0))


def gradient(noise=2.0, sampling=None):
    return Noisy(GradientSum(ROWS, Logistic(), np.zeros(2), 1.0), Gaussian(noise), sampling)


PROBLEM = Problem(ROWS, Logistic(), 3.0)


def test_a_refused_release_touches_no_row():
    ledger = Ledger(epsilon=0.1, delta=1e-6, adjacency="add-remove")
    with pytest.raises(BudgetExceeded):
        vault(ledger, Untouchable()).release(gradient(0.5))
    with pytest.raises(BudgetExceeded):
        vault(ledger, Untouchable()).run(Descent(0.5, 5, 1.0, Sgd(1.0)), PROBLEM)
    assert ledger.history() == ()


def test_the_charge_comes_before_the_answer():
    class Witness(Ledger):
        charged = False

        def charge(self, *args, **kwargs):
            self.charged = True
            return super().charge(*args, **kwargs)

    ledger = Witness()

    @dataclass(frozen=True)
    class Curious:
        def event(self, unit):
            return events.Gaussian(1.0)

        def sample(self, data, unit, bits):
            assert ledger.charged
            return 1.0

        def blank(self):
            return 0.0

    assert vault(ledger).release(Curious()) == 1.0


def test_a_run_is_charged_once_and_whole():
    ledger = Ledger()
    vault(ledger).run(Descent(2.0, 7, 1.0, Sgd(0.1)), PROBLEM)
    (charge,) = ledger.history()
    assert charge.event == events.Repeat(events.Gaussian(2.0), 7)
    assert charge.status == "completed"


@dataclass(frozen=True)
class Greedy:
    """A solver that asks for more than it rehearsed, once it has seen a real answer."""

    noise: float = 2.0
    more: int = 0

    def steps(self, problem):
        first = yield gradient(2.0)
        if np.any(first):  # a rehearsal's blank answer is zero
            yield gradient(self.noise)
            for _ in range(self.more):
                yield gradient(2.0)
        else:
            yield gradient(2.0)
        return np.zeros(2)


def test_a_solver_may_not_deviate_from_its_plan():
    for cheat in (Greedy(noise=1.0), Greedy(more=1)):
        with pytest.raises(PlanViolation):
            vault().run(cheat, PROBLEM)
    vault().run(Greedy(), PROBLEM)


def test_a_solver_may_stop_early():
    @dataclass(frozen=True)
    class Tired:
        def steps(self, problem):
            first = yield gradient()
            if not np.any(first):
                yield gradient()
            return np.ones(2)

    ledger = Ledger()
    assert vault(ledger).run(Tired(), PROBLEM).tolist() == [1.0, 1.0]
    (charge,) = ledger.history()
    assert charge.status == "stopped-early"
    assert charge.event == events.Repeat(events.Gaussian(2.0), 2)


def test_a_filtered_run_spends_its_budget_and_no_more():
    @dataclass(frozen=True)
    class Endless:
        seen: list

        def steps(self, problem):
            try:
                while True:
                    noise = 3.0 if len(self.seen) % 2 else 5.0
                    self.seen.append(noise)
                    yield gradient(noise)
            except BudgetExceeded:
                self.seen.pop()
                return np.full(2, float(len(self.seen)))

    ledger, seen = Ledger(), []
    theta = vault(ledger).run_filtered(Endless(seen), PROBLEM, ZCDPFilter(1.0, UNIT))
    spent = sum(1 / (2 * noise**2) for noise in seen)
    assert theta[0] == len(seen) > 10
    assert spent <= 1.0 < spent + 1 / (2 * 3.0**2)
    (charge,) = ledger.history()
    assert isinstance(charge.event, events.ZCDP)
    assert 1.0 <= charge.event.rho < 1.001


def test_a_used_or_foreign_filter_is_refused():
    used = ZCDPFilter(1.0, UNIT)
    used.spend(events.Gaussian(3.0))
    for budget in (used, ZCDPFilter(1.0, "replace-one")):
        with pytest.raises(PlanViolation):
            vault().run_filtered(Greedy(), PROBLEM, budget)


def test_sampler_and_event_are_one_object():
    assert gradient(2.0, PoissonSampling(0.25)).event(UNIT) == events.Poisson(0.25, events.Gaussian(2.0))
    fixed = gradient(2.0, FixedSizeSampling(2, 3))
    assert fixed.event(Unit("replace-one")) == events.FixedSize(2, 3, events.Gaussian(2.0))
    with pytest.raises(InvalidInput, match="reveal n"):
        fixed.event(UNIT)


def test_poisson_batches_may_be_empty_and_still_release_noise():
    answers = [vault().release(gradient(2.0, PoissonSampling(1e-9))) for _ in range(3)]
    assert all(np.any(a != 0) for a in answers)


def test_selection_costs_twice_the_score_sensitivity_over_the_scale():
    @dataclass(frozen=True)
    class Scores:
        norm = "linf"
        bound = 10
        grid = 1.0
        shape = (3,)

    assert Choice(40.0).event(Scores(), UNIT) == events.Selection(0.05)
    assert Choice(40.0).event(Scores(), Unit("replace-one")) == events.Selection(0.1)
    with pytest.raises(InvalidInput, match="linf"):
        Gaussian(1.0).event(Scores(), UNIT)
    with pytest.raises(InvalidInput, match="l2"):
        Choice(1.0).event(gradient().query, UNIT)
    with pytest.raises(InvalidInput, match="l1"):
        Gaussian(1.0).event(RowCount(), UNIT)


def test_without_noise_the_event_says_so():
    assert gradient(0.0).event(UNIT) == events.NonPrivate()
    assert gradient(0.0, PoissonSampling(0.5)).event(UNIT) == events.NonPrivate()
    assert Noisy(RowCount(), Laplace(0.0)).event(UNIT) == events.NonPrivate()
    assert vault().release(Noisy(RowCount(), Laplace(0.0))) == 3.0


def test_a_run_that_was_charged_cannot_be_copied():
    run = vault().open([gradient().event(UNIT)] * 2, Payment("two"))
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(PlanViolation, match="cannot be copied"):
            copied(run)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks beside threads
def test_a_fork_does_not_go_through_a_plan_once_more(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path / 'book.db'}")
    held = Vault(in_memory(np.eye(2), np.ones(2), ROWS), UNIT, ledger, Bits.secure())
    run = held.open([gradient().event(UNIT)] * 2, Payment("two"))
    child = os.fork()
    if child == 0:
        try:
            run.answer(gradient())
        except PlanViolation:
            run.close()
            os._exit(17)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
    assert ledger.history()[0].status == "charged"  # the child has not ended the parent's run
    run.answer(gradient())
    run.answer(gradient())
    run.close()
    assert ledger.history()[0].status == "completed"
