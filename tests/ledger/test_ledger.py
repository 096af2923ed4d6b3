"""The rule of spending, over every store."""

from __future__ import annotations

import copy
import math
import pickle
import threading
from pathlib import Path

import pytest

from discreet.accounting.bounds import Bounds
from discreet.errors import BudgetExceeded, InvalidInput
from discreet.events import Compose, Event, Gaussian, PureDP, Repeat
from discreet.ledger import Accountant, Budget, Ledger
from discreet.units import Unit


def basic(event: Event, delta: float, unit: Unit) -> Bounds:
    """Basic composition of pure events: an accountant whose answers are obvious."""
    match event:
        case PureDP(epsilon):
            return Bounds(epsilon, epsilon)
        case Repeat(inner, times):
            return Bounds(*(times * bound for bound in basic(inner, delta, unit)))
        case Compose(events):
            total = math.fsum(basic(part, delta, unit).upper for part in events)
            return Bounds(total, total)
        case _:
            return Bounds(0.0, math.inf)


def no_order(event: Event, order: float, unit: Unit) -> float:
    return math.inf


BASIC = Accountant(epsilon=basic, divergence=no_order)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        found: str = request.getfixturevalue("database")
        return found
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'budget.db'}"


def opened(url: str, **changes: object) -> Ledger:
    arguments = {"epsilon": 1.0, "delta": 1e-6, "adjacency": "replace-one", "accountant": BASIC} | changes
    return Ledger(url, **arguments)  # type: ignore[arg-type]


def test_charges_until_the_budget_is_spent_and_no_further(url: str) -> None:
    ledger = opened(url)
    assert ledger.spent() == Bounds(0.0, 0.0)
    assert [ledger.charge(PureDP(0.5), "replace-one") for _ in range(2)] == [1, 2]
    assert ledger.remaining() == 0.0
    with pytest.raises(BudgetExceeded):
        ledger.charge(PureDP(1e-9), "replace-one")
    assert len(ledger.history()) == 2
    assert ledger.spent().upper == 1.0


def test_refusal_names_spent_requested_remaining_and_the_way_on(url: str) -> None:
    ledger = opened(url)
    ledger.charge(PureDP(0.75), "replace-one")
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.charge(PureDP(0.5), "replace-one")
    message = str(refusal.value)
    for part in ("Spent: ε = 0.75", "remaining: ε = 0.25", "would be ε = 1.25", "δ = 1e-06", "replace-one"):
        assert part in message
    assert "nothing was released" in message
    assert "start over" in message


def test_a_smaller_run_fits_after_a_refusal(url: str) -> None:
    ledger = opened(url)
    ledger.charge(PureDP(0.75), "replace-one")
    with pytest.raises(BudgetExceeded):
        ledger.charge(PureDP(0.5), "replace-one")
    assert ledger.charge(PureDP(0.25), "replace-one") == 2


def test_an_accountant_that_fails_or_cannot_say_charges_nothing(url: str) -> None:
    def lost(event: Event, delta: float, unit: Unit) -> Bounds:
        raise ArithmeticError("no bound")

    ledger = opened(url, accountant=Accountant(lost, no_order))
    with pytest.raises(ArithmeticError):
        ledger.charge(PureDP(0.1), "replace-one")
    unsure = opened(url, dataset="other", accountant=Accountant(lambda *_: Bounds(0.0, math.nan), no_order))
    with pytest.raises(BudgetExceeded):
        unsure.charge(PureDP(0.1), "replace-one")
    assert ledger.history() == unsure.history() == ()


def test_stores_the_event_itself(url: str) -> None:
    ledger = Ledger(url)
    event = Compose([Repeat(Gaussian(2.5), 40), PureDP(0.1)])
    ledger.charge(event, Unit("add-remove", rows_per_unit=3), note="model A")
    (charge,) = ledger.history()
    assert (charge.event, charge.unit, charge.note) == (event, Unit("add-remove", 3), "model A")
    assert charge.status == "charged"


def test_a_run_ends_once_and_is_never_refunded(url: str) -> None:
    ledger = opened(url)
    first, second = (ledger.charge(PureDP(0.5), "replace-one") for _ in range(2))
    ledger.release(first)
    ledger.release(second, "stopped-early")
    assert [charge.status for charge in ledger.history()] == ["completed", "stopped-early"]
    assert ledger.spent().upper == 1.0
    with pytest.raises(InvalidInput, match="already completed"):
        ledger.release(first, "stopped-early")
    with pytest.raises(InvalidInput, match="no charge 99"):
        ledger.release(99)
    with pytest.raises(InvalidInput, match="'refunded'"):
        ledger.release(first, "refunded")  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", ["add-remove", Unit("replace-one", rows_per_unit=2)])
def test_refuses_another_unit_than_the_budgets(url: str, unit: Unit) -> None:
    ledger = opened(url)
    with pytest.raises(InvalidInput, match="replace-one"):
        ledger.charge(PureDP(0.1), unit)
    assert ledger.history() == ()


def test_without_a_budget_it_records(url: str) -> None:
    ledger = Ledger(url, accountant=BASIC)
    ledger.charge(PureDP(50.0), "replace-one")
    ledger.charge(PureDP(50.0), "replace-one")
    assert ledger.budget is None
    assert ledger.remaining() == math.inf
    assert ledger.spent(delta=0.0, adjacency="replace-one").upper == 100.0
    with pytest.raises(InvalidInput, match="delta and adjacency"):
        ledger.spent()
    ledger.charge(PureDP(50.0), "add-remove")
    with pytest.raises(InvalidInput, match="add-remove"):
        ledger.spent(delta=0.0, adjacency="replace-one")


def test_spent_is_stated_as_the_budget_is(url: str) -> None:
    ledger = opened(url)
    ledger.charge(PureDP(0.5), "replace-one")
    assert ledger.spent(delta=1e-6, adjacency="replace-one") == ledger.spent()
    with pytest.raises(InvalidInput, match="as the budget is"):
        ledger.spent(delta=1e-5)
    with pytest.raises(InvalidInput, match="as the budget is"):
        ledger.spent(adjacency="add-remove")


def test_seeded_runs_only_in_memory(tmp_path: Path) -> None:
    durable = opened(f"sqlite:///{tmp_path / 'budget.db'}")
    with pytest.raises(InvalidInput, match="seed"):
        durable.charge(PureDP(0.1), "replace-one", protective=False)
    assert durable.history() == ()
    in_memory = opened("memory:")
    in_memory.charge(PureDP(0.1), "replace-one", protective=False)
    assert [charge.protective for charge in in_memory.history()] == [False]


@pytest.mark.parametrize(
    "arguments",
    [
        {"epsilon": 1.0},
        {"epsilon": 1.0, "delta": 1e-6},
        {"delta": 1e-6, "adjacency": "replace-one"},
        {"epsilon": 0.0, "delta": 1e-6, "adjacency": "replace-one"},
        {"epsilon": math.nan, "delta": 1e-6, "adjacency": "replace-one"},
        {"epsilon": math.inf, "delta": 1e-6, "adjacency": "replace-one"},
        {"epsilon": "much", "delta": 1e-6, "adjacency": "replace-one"},
        {"epsilon": "1", "delta": 1e-6, "adjacency": "replace-one"},
        {"epsilon": True, "delta": 1e-6, "adjacency": "replace-one"},
        {"epsilon": 1.0, "delta": False, "adjacency": "replace-one"},
        {"epsilon": 1.0, "delta": 1.0, "adjacency": "replace-one"},
        {"epsilon": 1.0, "delta": -1e-9, "adjacency": "replace-one"},
        {"epsilon": 1.0, "delta": 1e-6, "adjacency": "neighbours"},
        {"dataset": " "},
        {"dataset": None},
    ],
)
def test_bad_budgets(url: str, arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        Ledger(url, **arguments)  # type: ignore[arg-type]


STATEMENTS = ["ab", (1.0,), (1.0, 1e-7, 2.0), 5, (True, 1e-7), ("1", "0"), (math.nan, 0.0), (-1.0, 0.0), (1.0, 2.0), ()]


@pytest.mark.parametrize("stated", STATEMENTS)
def test_a_statement_is_a_pair_of_numbers(stated: object) -> None:
    for ledger in (opened("memory:"), Ledger("memory:")):
        with pytest.raises(InvalidInput, match="pair"):
            ledger.charge(PureDP(0.1), "replace-one", stated=stated)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="pair"):
            ledger.keeps(PureDP(0.1), Unit("replace-one"), stated)  # type: ignore[arg-type]
        assert not ledger.history()


@pytest.mark.parametrize("bad", [True, "1e-7", None, -1e-9, 1.1, math.nan])
def test_a_portion_is_asked_of_a_number(bad: object) -> None:
    with pytest.raises(InvalidInput):
        opened("memory:").portion(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", ["", "budget", "sqlite:///", "mysql://host/db", "sqlite:", 3, None])
def test_bad_urls(bad: object) -> None:
    with pytest.raises(InvalidInput, match="memory:"):
        Ledger(bad)  # type: ignore[arg-type]


def test_only_events_are_charged(url: str) -> None:
    with pytest.raises(InvalidInput, match="events"):
        Ledger(url).charge(1.0, "replace-one")  # type: ignore[arg-type]


def test_copies_are_the_same_ledger() -> None:
    ledger = opened("memory:")
    copy.deepcopy({"ledger": ledger})["ledger"].charge(PureDP(0.6), "replace-one")
    with pytest.raises(BudgetExceeded):
        copy.copy(ledger).charge(PureDP(0.6), "replace-one")
    with pytest.raises(InvalidInput, match="memory"):
        pickle.dumps(ledger)


def test_a_durable_ledger_travels_by_its_address(tmp_path: Path) -> None:
    ledger = opened(f"sqlite:///{tmp_path / 'budget.db'}")
    ledger.charge(PureDP(0.6), "replace-one")
    arrived: Ledger = pickle.loads(pickle.dumps(ledger))
    assert arrived.spent().upper == 0.6
    assert arrived.budget == Budget(1.0, 1e-6, Unit("replace-one"))


def test_threads_cannot_overspend(url: str) -> None:
    ledger = opened(url, epsilon=1.0)
    outcomes: list[str] = []

    def spend() -> None:
        try:
            ledger.charge(PureDP(0.25), "replace-one")
            outcomes.append("paid")
        except BudgetExceeded:
            outcomes.append("refused")

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["paid"] * 4 + ["refused"] * 4
