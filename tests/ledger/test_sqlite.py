"""The SQLite file: durable, exclusive among processes, and clear about what is wrong with it."""

from __future__ import annotations

import math
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from discreet.accounting import BandedMatrix, LastIterate
from discreet.accounting.bounds import Bounds
from discreet.errors import BudgetExceeded, InvalidInput, LedgerUnavailable
from discreet.events import Event, PureDP
from discreet.ledger import Accountant, Ledger
from discreet.ledger.sqlite import SQLiteStore
from discreet.units import Unit

SPENDER = """
    import sys, time
    from pathlib import Path
    from discreet.accounting.bounds import Bounds
    from discreet.errors import BudgetExceeded
    from discreet.events import PureDP
    from discreet.ledger import Accountant, Ledger

    def slow(event, delta, unit):
        time.sleep(0.02)   # a wide window between reading the past and writing the charge
        return Bounds(event.epsilon, event.epsilon)

    def no_order(event, order, unit):
        return float("inf")

    def wait_for(path):
        while not Path(path).exists():
            time.sleep(0.002)

    ledger = Ledger("sqlite:///" + sys.argv[1], accountant=Accountant(slow, no_order))
"""


def pure(event: Event, delta: float, unit: Unit) -> Bounds:
    assert isinstance(event, PureDP)
    return Bounds(event.epsilon, event.epsilon)


def no_order(event: Event, order: float, unit: Unit) -> float:
    return math.inf


PURE = Accountant(pure, no_order)


def opened(path: Path, **changes: object) -> Ledger:
    arguments = {"epsilon": 1.0, "delta": 1e-6, "adjacency": "replace-one", "accountant": PURE} | changes
    return Ledger(f"sqlite:///{path}", **arguments)  # type: ignore[arg-type]


def process(script: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SPENDER) + textwrap.dedent(script), *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_processes_cannot_both_take_the_last_of_a_budget(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    opened(path, epsilon=1.0)
    script = """
        print("ready", flush=True)
        wait_for(sys.argv[2])
        paid = 0
        for _ in range(3):
            try:
                ledger.charge(PureDP(0.25), "replace-one")
                paid += 1
            except BudgetExceeded:
                pass
        print(paid)
    """
    workers = [process(script, path, tmp_path / "go") for _ in range(4)]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    (tmp_path / "go").touch()
    paid = [int(worker.communicate(timeout=60)[0]) for worker in workers]
    assert sum(paid) == 4
    assert len(opened(path).history()) == 4


def test_a_charge_outlives_a_killed_process(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    opened(path)
    worker = process(
        """
        ledger.charge(PureDP(0.75), "replace-one", note="killed afterwards")
        print("charged", flush=True)
        time.sleep(60)
        """,
        path,
    )
    assert worker.stdout is not None
    assert worker.stdout.readline() == "charged\n"
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    with pytest.raises(BudgetExceeded):
        opened(path).charge(PureDP(0.5), "replace-one")
    assert [charge.note for charge in opened(path).history()] == ["killed afterwards"]


def test_a_process_killed_inside_a_charge_leaves_a_usable_ledger(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    opened(path)
    worker = process(
        """
        with ledger._store.transaction(write=True) as records:
            from discreet.ledger.lines import next_line
            records.append(next_line(records.head(), "now", "default", "charge", "{}", 1))
            print("inside", flush=True)
            time.sleep(60)
        """,
        path,
    )
    assert worker.stdout is not None
    assert worker.stdout.readline() == "inside\n"
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    assert opened(path).history() == ()
    opened(path).charge(PureDP(1.0), "replace-one")


def test_a_busy_ledger_says_so(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    opened(path)
    impatient = SQLiteStore(path, patience=0.05)
    with (
        SQLiteStore(path).transaction(write=True),
        pytest.raises(LedgerUnavailable, match="locked"),
        impatient.transaction(write=True),
    ):
        pass


def test_reopening_reads_the_budget(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    opened(path).charge(PureDP(0.5), "replace-one")
    again = Ledger(path, accountant=PURE)
    assert again.budget is not None
    assert again.budget.unit == Unit("replace-one")
    assert again.remaining() == 0.5
    assert opened(path).budget == again.budget
    assert [entry.name for entry in tmp_path.iterdir()] == ["budget.db"]


@pytest.mark.parametrize(
    "change", [{"epsilon": 2.0}, {"delta": 1e-5}, {"adjacency": "add-remove"}, {"adjacency": Unit("replace-one", 2)}]
)
def test_a_budget_cannot_be_changed(tmp_path: Path, change: dict[str, object]) -> None:
    opened(tmp_path / "budget.db")
    with pytest.raises(InvalidInput, match="cannot be changed"):
        opened(tmp_path / "budget.db", **change)


def test_a_record_cannot_become_a_budget(tmp_path: Path) -> None:
    Ledger(tmp_path / "budget.db").charge(PureDP(5.0), "replace-one")
    with pytest.raises(InvalidInput, match="without a budget"):
        opened(tmp_path / "budget.db")


def test_datasets_have_budgets_of_their_own_and_typos_get_none(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    opened(path).charge(PureDP(1.0), "replace-one")
    opened(path, dataset="clinic").charge(PureDP(1.0), "replace-one")
    assert Ledger.datasets(path) == ("default", "clinic")
    with pytest.raises(InvalidInput, match="'default', 'clinic'"):
        Ledger(path, dataset="clinc")


def test_looking_creates_no_file(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.db")
    assert ledger.history() == ()
    assert ledger.budget is None
    assert list(tmp_path.iterdir()) == []


def test_the_address_does_not_move_with_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("sqlite:///budget.db")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    ledger.charge(PureDP(0.1), "replace-one")
    assert (tmp_path / "budget.db").exists()


def test_not_a_database(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    path.write_text("age,income\n" * 1000)
    with pytest.raises(LedgerUnavailable, match="not a database"):
        Ledger(path)
    assert path.read_text() == "age,income\n" * 1000


def test_a_database_of_someone_else(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE people (name TEXT)")
    other.close()
    with pytest.raises(LedgerUnavailable, match="not a ledger"):
        opened(path)


def test_a_format_of_the_future(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    opened(path)
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA user_version = 7")
    raw.close()
    with pytest.raises(LedgerUnavailable, match="format 7"):
        opened(path)


@pytest.mark.parametrize("text", ["{", '{"kind": "Surprise"}', '{"kind": "PureDP", "epsilon": -1}', "[]"])
def test_an_event_that_cannot_be_read_stops_all_spending(tmp_path: Path, text: str) -> None:
    path = tmp_path / "budget.db"
    opened(path).charge(PureDP(0.1), "replace-one")
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE lines SET body = ? WHERE charge = 1", (text,))
    raw.close()
    with pytest.raises(LedgerUnavailable, match="charge 1"):
        opened(path).charge(PureDP(0.1), "replace-one")


def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    opened(path).charge(PureDP(0.1), "replace-one")
    content = bytearray(path.read_bytes())
    content[100:] = os.urandom(len(content) - 100)
    path.write_bytes(content)
    with pytest.raises(LedgerUnavailable):
        Ledger(path)


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable, match="cannot be written"):
        opened(tmp_path / "missing" / "budget.db")
    with pytest.raises(LedgerUnavailable):
        opened(tmp_path)


def test_a_read_only_file_can_be_read_but_not_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "budget.db"
    opened(path).charge(PureDP(0.1), "replace-one")
    # Permissions do not bind a superuser, so the read-only mode of SQLite stands in for them.
    monkeypatch.setattr(os, "access", lambda *_: False)
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda name, **k: connect(name.replace("mode=rwc", "mode=ro"), **k))
    ledger = Ledger(path, accountant=PURE)
    assert ledger.spent().upper == 0.1
    with pytest.raises(LedgerUnavailable, match="readonly"):
        ledger.charge(PureDP(0.2), "replace-one")


@pytest.mark.parametrize("event", [BandedMatrix(3.0, (1.0, 0.5), 10), LastIterate(5.0, 10, 0.1, diameter=1.0)])
def test_every_kind_of_event_is_read_by_a_process_that_has_not_made_one(tmp_path: Path, event: Event) -> None:
    path = tmp_path / "budget.db"
    Ledger(path).charge(event, "add-remove")
    worker = process("print(ledger.history()[0].event)", path)
    assert worker.communicate(timeout=60)[0] == f"{event}\n"


def test_words_of_sqlite_with_wrong_bytes_are_an_unavailable_ledger(tmp_path: Path) -> None:
    """A damaged name of a column stands in SQLite's message, which Python cannot decode."""
    path = tmp_path / "budget.db"
    Ledger(path, epsilon=1.0, delta=1e-6, adjacency="replace-one").charge(PureDP(0.1), "replace-one")
    book = path.read_bytes()
    assert book.count(b"TEXT UNIQUE") == 1
    path.write_bytes(book.replace(b"TEXT UNIQUE", b"TEXT \x80\xff(\x80\xff\x80"))
    with pytest.raises(LedgerUnavailable):
        Ledger.datasets(path)
