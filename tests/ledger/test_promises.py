"""A promise is paid before it is known what it will be used for, used once, and for nothing that costs more."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet import accounting
from discreet.data.memory import in_memory
from discreet.errors import BudgetExceeded, InvalidInput, NotCertifiable, PlanViolation
from discreet.events import ApproxDP, Compose, Event, Gaussian, Laplace, Promise, PureDP, Repeat
from discreet.ledger import Ledger
from discreet.measurements import Noisy
from discreet.mechanisms import Laplace as LaplaceNoise
from discreet.noise import Bits
from discreet.queries.sums.count import RowCount
from discreet.rows import RowSpec
from discreet.units import Unit
from discreet.vault import Payment, Vault

UNIT = Unit("add-remove")
COUNTED = Compose([Laplace(50.0), Promise(0.97, 1e-6)])
WITHIN, BEYOND = Gaussian(5.0), Gaussian(4.0)


@pytest.fixture(params=["memory:", "sqlite"])
def ledger(request: Any, tmp_path: Path) -> Ledger:
    url = request.param if request.param == "memory:" else f"sqlite:///{tmp_path / 'budget.db'}"
    return Ledger(url, epsilon=1.0, delta=1e-6, adjacency=UNIT)


def promised(ledger: Ledger, event: Event = COUNTED) -> int:
    return ledger.charge(event, UNIT, stated=(0.99, 1e-6))


def test_the_events_of_these_tests_are_on_either_side_of_the_promise() -> None:
    assert accounting.epsilon(WITHIN, 1e-6, UNIT).upper < 0.97 < accounting.epsilon(BEYOND, 1e-6, UNIT).lower


def test_a_promise_is_used_for_what_it_covers_and_the_record_says_both(ledger: Ledger) -> None:
    charge = promised(ledger)
    assert ledger.history()[0].ran is None
    ledger.fulfil(charge, WITHIN)
    ledger.release(charge)
    (record,) = ledger.history()
    assert (record.event, record.ran, record.stated) == (COUNTED, Compose([Laplace(50.0), WITHIN]), (0.99, 1e-6))
    assert ledger.spent().upper == 0.99  # what was promised stays charged


def test_nothing_beyond_the_promise_is_run_and_it_may_still_be_kept(ledger: Ledger) -> None:
    charge = promised(ledger)
    for beyond in (BEYOND, Repeat(WITHIN, 2), ApproxDP(0.9, 2e-6), ApproxDP(0.98, 1e-6)):
        with pytest.raises(PlanViolation, match=r"0\.97 at δ = 1e-06"):
            ledger.fulfil(charge, beyond)
    assert ledger.history()[0].ran is None
    ledger.fulfil(charge, ApproxDP(0.97, 1e-6))


def test_a_promise_is_used_once(ledger: Ledger) -> None:
    charge = promised(ledger)
    ledger.fulfil(charge, WITHIN)
    with pytest.raises(PlanViolation, match="has been used"):
        ledger.fulfil(charge, Gaussian(1e6))
    ledger.release(charge)
    with pytest.raises(InvalidInput, match="already completed"):
        ledger.fulfil(charge, WITHIN)


def test_only_an_open_promise_can_be_used(ledger: Ledger) -> None:
    charge = ledger.charge(PureDP(0.1), UNIT)
    with pytest.raises(InvalidInput, match="promises nothing"):
        ledger.fulfil(charge, PureDP(0.01))
    with pytest.raises(InvalidInput, match="no charge 99"):
        ledger.fulfil(99, PureDP(0.01))
    with pytest.raises(InvalidInput, match="used for an event"):
        ledger.fulfil(charge, 0.5)  # type: ignore[arg-type]


def test_a_promise_that_the_budget_cannot_pay_is_refused(ledger: Ledger) -> None:
    for event in (Compose([Laplace(50.0), Promise(0.99, 1e-6)]), Promise(0.5, 2e-6)):
        with pytest.raises(BudgetExceeded):
            ledger.charge(event, UNIT)
    assert ledger.history() == ()


def test_a_promise_protects_units_of_the_size_it_was_made_for() -> None:
    promise = Promise(0.5, 1e-6, 3)
    for rows in (1, 3):
        assert accounting.epsilon(promise, 1e-6, Unit("replace-one", rows)).upper == 0.5
        assert accounting.delta(promise, 0.5, Unit("replace-one", rows)).upper == 1e-6
    assert accounting.epsilon(promise, 1e-6, Unit("replace-one", 4)).upper == math.inf
    assert accounting.epsilon(promise, 1e-6, UNIT) == accounting.epsilon(ApproxDP(0.5, 1e-6), 1e-6, UNIT)
    assert accounting.epsilon(Promise(0.5, 0.0), 0.0, UNIT).upper == 0.5
    with pytest.raises(NotCertifiable):
        accounting.renyi.divergence(promise, 8.0, UNIT)


def test_runs_that_used_their_promise_add_up_to_less_than_their_sum() -> None:
    ledgers = [Ledger(epsilon=4.0, delta=1e-4, adjacency=UNIT) for _ in range(2)]
    for ledger in ledgers:
        charges = [promised(ledger) for _ in range(4)]
        assert ledger.spent().upper == pytest.approx(4 * 0.99)
    for charge in charges:
        ledger.fulfil(charge, WITHIN)
    assert ledger.spent().upper < 0.6 * 4
    for ledger, refused in zip(ledgers, (True, False), strict=True):
        if refused:
            with pytest.raises(BudgetExceeded, match=r"\(up to 0\.04 at a delta of 9\.573e-05 is certain\)"):
                ledger.charge(WITHIN, UNIT)
        else:
            ledger.charge(WITHIN, UNIT)  # what is known adds up to less


class Counted:
    """A measurement that notes whether it was sampled."""

    def __init__(self, event: Event) -> None:
        self.own, self.sampled = event, False

    def event(self, unit: Unit) -> Event:
        return self.own

    def sample(self, data: Any, unit: Unit, bits: Any) -> float:
        self.sampled = True
        return 1.0

    def blank(self) -> float:
        return 0.0


def vault(ledger: Ledger) -> Vault:
    rows = RowSpec(1, 1.0)
    return Vault(in_memory(np.ones((3, 1)), np.ones(3), rows), UNIT, ledger, Bits.secure())


def test_the_vault_charges_count_and_promise_before_it_counts(ledger: Ledger) -> None:
    safe = vault(ledger)
    count = Counted(Laplace(50.0))
    with pytest.raises(BudgetExceeded):
        safe.release_first(count, Promise(0.99, 1e-6), Payment("model"))  # type: ignore[arg-type]
    assert not count.sampled
    assert ledger.history() == ()
    answer, payment = safe.release_first(Noisy(RowCount(), LaplaceNoise(50.0)), Promise(0.97, 1e-6), Payment("model"))
    assert float(answer).is_integer()
    (charge,) = ledger.history()
    assert (charge.event, charge.note, charge.status) == (COUNTED, "model", "charged")
    too_much, kept = Counted(BEYOND), Counted(WITHIN)
    with pytest.raises(PlanViolation):
        safe.release(too_much, payment=payment)  # type: ignore[arg-type]
    assert not too_much.sampled
    assert safe.release(kept, payment=payment) == 1.0  # type: ignore[arg-type]
    assert [c.status for c in ledger.history()] == ["completed"]
    again = Counted(WITHIN)
    with pytest.raises(InvalidInput, match="already completed"):
        safe.release(again, payment=payment)  # type: ignore[arg-type]
    assert not again.sampled
