"""What can go wrong around a charge, put in on purpose, on both durable stores.

Whatever happens, a charge that was acknowledged is there afterwards, the book can be read, and no more than the budget
was ever granted.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import resource
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.ledger.kills import PURE, UNIT, kill_charges, no_order, opened, pure

from discreet.accounting.bounds import Bounds
from discreet.errors import BudgetExceeded, DiscreetError, LedgerUnavailable
from discreet.events import Event, PureDP
from discreet.ledger import Accountant, Ledger, open_book
from discreet.report.record import record_of
from discreet.units import Unit

InChildren = Callable[[list[Callable[[], object]]], list[int]]


KILLS = 500
"""Charges that are killed on each store: a thousand on both."""


def test_killed_anywhere(place: str) -> None:
    """Charges are killed (−9) after a random time, from before they begin until after they have ended."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        acknowledged, killed = pool.apply(kill_charges, (place, KILLS))
    assert killed == KILLS
    there = len(opened(place, epsilon=1e6).history())
    assert acknowledged <= there <= acknowledged + killed
    assert acknowledged > 5, "no charge ended: nothing was killed after its commit"
    assert opened(place, epsilon=1e6).spent().upper == there


def test_sixteen_processes_race_for_the_last_of_the_budget(place: str, in_children: InChildren) -> None:
    opened(place, epsilon=1.0)

    def spend() -> int:
        paid = 0
        while True:
            try:
                Ledger(place, accountant=PURE).charge(PureDP(1 / 32), UNIT)
                paid += 1
            except BudgetExceeded:
                return paid

    paid = in_children([spend] * 16)
    assert sum(paid) == 32
    assert len(opened(place).history()) == 32


def test_a_ledger_opened_before_a_fork_serves_both(place: str, in_children: InChildren) -> None:
    ledger = opened(place)
    ledger.charge(PureDP(0.25), UNIT)

    def spend() -> int:
        ledger.charge(PureDP(0.25), UNIT)
        return 0

    assert in_children([spend, spend]) == [0, 0]
    ledger.charge(PureDP(0.25), UNIT)
    with pytest.raises(BudgetExceeded):
        ledger.charge(PureDP(0.25), UNIT)


def test_a_clock_that_goes_backwards_changes_nothing(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = opened(place)

    class Backwards(open_book.datetime):  # type: ignore[name-defined, misc]
        year_now = 2030

        @classmethod
        def now(cls, tz: Any = None) -> Any:
            cls.year_now -= 1
            return cls(cls.year_now, 1, 1, tzinfo=tz)

    monkeypatch.setattr(open_book, "datetime", Backwards)
    for epsilon in (0.5, 0.25, 0.125):
        ledger.charge(PureDP(epsilon), UNIT)
    history = opened(place).history()
    assert [charge.event for charge in history] == [PureDP(0.5), PureDP(0.25), PureDP(0.125)]
    assert [charge.at for charge in history] == sorted((charge.at for charge in history), reverse=True)
    assert opened(place).spent().upper == 0.875


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_full_disk_refuses_and_leaves_the_book_as_it_was(tmp_path: Path, in_children: InChildren) -> None:
    place = f"sqlite:///{tmp_path / 'budget.db'}"
    opened(place).charge(PureDP(0.25), UNIT)
    size = (tmp_path / "budget.db").stat().st_size

    def spend() -> int:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))  # no file may grow or be written beyond
        try:
            Ledger(place, accountant=PURE).charge(PureDP(0.25), UNIT, note="x" * 100_000)
        except LedgerUnavailable:
            return 7
        return 0

    assert in_children([spend]) == [7]
    assert [charge.event for charge in opened(place).history()] == [PureDP(0.25)]
    opened(place).charge(PureDP(0.25), UNIT)


def test_a_torn_write_is_undone_from_the_journal(tmp_path: Path) -> None:
    """A writer dies with its journal complete and half of a page written: the next reader undoes it."""
    path = tmp_path / "budget.db"
    ledger = opened(f"sqlite:///{path}")
    ledger.charge(PureDP(0.25), UNIT)
    child = os.fork()
    if child == 0:
        raw = sqlite3.connect(path, isolation_level=None)
        raw.execute("PRAGMA cache_size = 1")
        raw.execute("BEGIN IMMEDIATE")
        for number in range(100, 160):
            raw.execute("INSERT INTO lines VALUES (?, '', '', 'charge', NULL, NULL, ?, '')", (number, "x" * 3000))
        raw.execute("UPDATE lines SET body = 'torn'")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert path.with_name("budget.db-journal").exists()
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(os.urandom(2048))
    assert [charge.event for charge in Ledger(path, accountant=PURE).history()] == [PureDP(0.25)]
    ledger.charge(PureDP(0.25), UNIT)


# --- servers ----------------------------------------------------------------------------------------------------------


def test_a_connection_dropped_before_the_commit_charges_once(database: str) -> None:
    ledger = opened(database)
    dropped = []

    def drop(event: Event, delta: float, unit: Unit) -> Bounds:
        if not dropped:
            dropped.append(True)
            import psycopg

            with psycopg.connect(database, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name = 'discreet' AND datname = current_database()"
                )
        return pure(event, delta, unit)

    unlucky = Ledger(database, accountant=Accountant(drop, no_order))
    assert unlucky.charge(PureDP(0.25), UNIT) == 1
    assert dropped
    assert len(ledger.history()) == 1


def test_a_connection_lost_after_the_commit_charges_once(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server has written the line, and the client does not hear of it."""
    from psycopg import OperationalError
    from sqlalchemy.engine.default import DefaultDialect

    ledger = opened(database)
    commit, lost = DefaultDialect.do_commit, []

    def unheard(self: Any, connection: Any) -> None:
        commit(self, connection)
        if not lost and ledger._lock._is_owned():  # type: ignore[attr-defined]
            lost.append(True)
            connection.dbapi_connection.close()
            raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(DefaultDialect, "do_commit", unheard)
    number = ledger.charge(PureDP(0.25), UNIT)
    assert lost
    assert number == 1
    assert [charge.id for charge in opened(database).history()] == [1]
    assert ledger.spent().upper == 0.25


def test_a_server_that_stops_and_starts(server: Any, database: str) -> None:
    ledger = opened(database)
    ledger.charge(PureDP(0.25), UNIT)
    server.control("stop")  # at once, as in a power cut
    try:
        with pytest.raises(LedgerUnavailable, match="cannot be used"):
            ledger.charge(PureDP(0.25), UNIT)
    finally:
        server.control("start")
    assert len(ledger.history()) == 1
    ledger.charge(PureDP(0.5), UNIT)
    with pytest.raises(BudgetExceeded):
        ledger.charge(PureDP(0.5), UNIT)


def test_a_server_without_a_disk_to_rely_on_is_refused(server: Any, database: str) -> None:
    import psycopg

    opened(database)
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")
    try:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            while connection.execute("SHOW fsync").fetchone() != ("off",):
                time.sleep(0.05)
        with pytest.raises(LedgerUnavailable, match="fsync"):
            Ledger(database, accountant=PURE).charge(PureDP(1e-3), UNIT)
    finally:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM RESET fsync")
            connection.execute("SELECT pg_reload_conf()")
            while connection.execute("SHOW fsync").fetchone() != ("on",):
                time.sleep(0.05)


def test_passwords_are_not_shown(database: str) -> None:
    ledger = Ledger(database.replace("@/", ":hunter2@/"))
    assert "hunter2" not in repr(ledger) + ledger.url
    with pytest.raises(LedgerUnavailable) as refused:
        Ledger("postgresql://nobody:hunter2@127.0.0.1:1/none")
    assert "hunter2" not in str(refused.value)


def test_passwords_among_the_options_are_not_shown(database: str) -> None:
    """They were, in messages, on pages and in certificates."""
    address = f"{database}&password=hunter2"
    ledger = opened(address)
    assert "hunter2" not in repr(ledger) + ledger.url
    record = record_of("Mean", ledger, [ledger.charge(PureDP(0.1), UNIT)], protective=True, rows=10)
    assert "hunter2" not in str(record)
    assert pickle.loads(pickle.dumps(Ledger(address))).spent() == Ledger(address).spent()
    for wrong in ("postgresql://nobody@127.0.0.1:1/none?password=hunter2", "postgresql://nobody:x@hunter2@127.0.0.1/"):
        with pytest.raises(DiscreetError) as refused:
            Ledger(wrong)
        assert "hunter2" not in str(refused.value)


def test_lost_tables_and_other_databases_are_noticed(database: str) -> None:
    import psycopg

    ledger = opened(database)
    ledger.charge(PureDP(0.5), UNIT)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("DELETE FROM discreet_lines WHERE number = 3")
    with pytest.raises(LedgerUnavailable, match="not the one"):
        ledger.charge(PureDP(0.1), UNIT)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("DROP TABLE discreet_lines")
    for write in (lambda: ledger.charge(PureDP(0.1), UNIT), ledger.spent):
        with pytest.raises(LedgerUnavailable):
            write()
