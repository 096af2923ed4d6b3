"""A store in one SQLite file, safe for many processes on one machine.

A writing transaction begins with ``BEGIN IMMEDIATE``: SQLite grants the write lock to one connection at a time, so
whoever reads the charges also holds the right to add one, and no two processes can both take the last of a budget.
``synchronous = EXTRA`` syncs the file *and* the directory entry of the rollback journal before a commit returns, so a
charge survives a power cut that follows it at once.

A half-written transaction is undone from the rollback journal, which SQLite finds by the *file's name*. A file with two
names (hard links) would have two journals, and a crash under one name could lose charges that were committed under the
other; so a file with more than one name is refused, symbolic links are followed once, when the store is opened, and a
file that is renamed or exchanged while it is written to is refused too.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from discreet.errors import DiscreetError, InvalidInput, LedgerUnavailable
from discreet.events import Event, from_json
from discreet.ledger.base import Budget, Charge, Past, Records, Stated, Status
from discreet.noise.bits import process_bits
from discreet.text import checked_path
from discreet.units import Unit

__all__ = ["SQLiteStore", "require_readable"]

_APPLICATION_ID = 0x64697363  # "disc": tells a ledger from any other SQLite file
_FORMAT = 2
_TABLES = """
CREATE TABLE datasets (
    name          TEXT PRIMARY KEY,
    epsilon       REAL,                -- NULL: recorded only, no budget
    delta         REAL,
    relation      TEXT,
    rows_per_unit INTEGER
) STRICT;
CREATE TABLE charges (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    dataset       TEXT NOT NULL REFERENCES datasets (name),
    at            TEXT NOT NULL,
    event         TEXT NOT NULL,       -- JSON: what was done, from which any ε can be computed again
    relation      TEXT NOT NULL,
    rows_per_unit INTEGER NOT NULL,
    note          TEXT NOT NULL,
    status        TEXT NOT NULL CHECK (status IN ('charged', 'completed', 'stopped-early')),
    stated_epsilon REAL,               -- NULL: the event speaks for itself
    stated_delta  REAL,
    ran           TEXT                 -- JSON: what a promise was used for
) STRICT;
"""
_NAME = "CREATE TABLE store (name TEXT NOT NULL) STRICT"
"""One random name, by which a ledger tells its own file from another that took its place. Files written before there
were names get one when something is written to them; versions that know of no names ignore it."""
_SINCE_FORMAT_1 = ("stated_epsilon REAL", "stated_delta REAL", "ran TEXT")


class SQLiteStore:
    """Records in one SQLite file.

    Args:
        path: the file; it is created by the first writing transaction.
        patience: seconds to wait for another process that is writing.
    """

    durable = True

    def __init__(self, path: str | Path, *, patience: float = 60.0) -> None:
        try:
            self.path = checked_path(path).expanduser().resolve()
        except (OSError, RuntimeError) as problem:  # a circle of symbolic links, or no home
            raise LedgerUnavailable(f"the ledger {path} cannot be found: {problem}. Nothing was released.") from None
        self._patience = patience

    @property
    def url(self) -> str:
        """Where the records are."""
        return f"sqlite:///{self.path}"

    @contextmanager
    def transaction(self, *, write: bool, create: bool = True) -> Iterator[Records]:
        """All-or-nothing access; see `Store`."""
        before = self._file()
        if not write and before is None:
            yield _EmptyRecords()
            return
        if not create and before is None:
            raise self._unavailable("is not there any more")
        try:
            with closing(self._connect(write)) as connection:
                connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                try:
                    found = self._check_format(connection, write)
                    yield _SQLiteRecords(connection, self.path, found)
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
        except sqlite3.Error as problem:
            raise self._unavailable(f"cannot be {'written' if write else 'read'}: {problem}") from problem
        if before is not None and self._file() != before:
            raise self._unavailable("was moved or exchanged while it was in use")

    def _file(self) -> tuple[int, int] | None:
        """Which file lies at the path; None where there is none."""
        try:
            found = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as problem:
            raise self._unavailable(f"cannot be found: {problem}") from None
        if not stat.S_ISREG(found.st_mode):
            raise self._unavailable("is not a plain file")
        if found.st_nlink > 1:
            raise self._unavailable(
                f"has {found.st_nlink} names (hard links); after a crash, a charge that was paid under one of them "
                "could be lost. Keep one name, or a symbolic link"
            )
        return found.st_dev, found.st_ino

    def _unavailable(self, why: str) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"the ledger {self.path} {why}. Nothing more was charged and nothing was released. Check the path, its "
            "permissions, free disk space and other running fits; restore a damaged or lost file from its backup."
        )

    def _connect(self, write: bool) -> sqlite3.Connection:
        # A reader that may write can also roll back what a killed writer left half done.
        mode = "rwc" if write else "rw" if os.access(self.path, os.W_OK) else "ro"
        connection = sqlite3.connect(
            f"{self.path.as_uri()}?mode={mode}", uri=True, timeout=self._patience, isolation_level=None
        )
        try:
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA fullfsync = ON")
            connection.execute("PRAGMA foreign_keys = ON")
            if write:  # a write-ahead log that somebody chose would keep charges in a second file
                (journal,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
                if journal != "delete":
                    raise sqlite3.OperationalError(f"its journal mode is {journal!r}, and cannot be changed now")
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_format(self, connection: sqlite3.Connection, write: bool) -> int:
        """The file's format; a writer makes a new file, and brings an older one up to date."""
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if write and (application, version, tables) == (0, 0, 0):
            for statement in filter(str.strip, _TABLES.split(";\n")):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {_FORMAT}")
        elif application != _APPLICATION_ID:
            raise LedgerUnavailable(
                f"{self.path} is not a ledger of discreet (application id {application:#x}). It was left as it was; "
                "choose another path."
            )
        elif version not in range(1, _FORMAT + 1):
            raise LedgerUnavailable(
                f"{self.path} has ledger format {version}; this version of discreet reads formats up to {_FORMAT}. It "
                "was left as it was; use the version of discreet that wrote it, or choose another path."
            )
        elif version == 1:
            if not write:
                return 1
            for column in _SINCE_FORMAT_1:
                connection.execute(f"ALTER TABLE charges ADD COLUMN {column}")
            connection.execute(f"PRAGMA user_version = {_FORMAT}")
        if write and not _is_named(connection):
            connection.execute(_NAME)
            connection.execute("INSERT INTO store VALUES (?)", (process_bits().words(2).tobytes().hex(),))
        return _FORMAT


def _is_named(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'store'").fetchone() is not None


def require_readable(event: Event) -> None:
    """Refuse an event that would not come back from its JSON: a charge of it would stop all spending afterwards.

    Raises:
        InvalidInput: it would not.
    """
    if from_json(event.to_json()) != event:
        raise InvalidInput(
            f"{event} does not come back from JSON as it was, so it cannot be recorded. Nothing was charged and "
            "nothing was released."
        )


class _EmptyRecords:
    """What can be read of a file that does not exist yet."""

    def datasets(self) -> tuple[str, ...]:
        return ()

    def budget(self, dataset: str) -> Budget | None:
        return None

    def charges(self, dataset: str) -> tuple[Charge, ...]:
        return ()

    def past(self, dataset: str, last: int | None = None) -> Past:
        return Past(None, 0, "")

    def create(self, dataset: str, budget: Budget | None) -> None:
        raise LedgerUnavailable("this transaction only reads.")

    def append(self, dataset: str, charge: Charge) -> int:
        raise LedgerUnavailable("this transaction only reads.")

    def mark(self, charge_id: int, status: Status) -> None:
        raise LedgerUnavailable("this transaction only reads.")

    def fulfil(self, charge_id: int, ran: Event) -> None:
        raise LedgerUnavailable("this transaction only reads.")


class _SQLiteRecords:
    def __init__(self, connection: sqlite3.Connection, path: Path, version: int) -> None:
        self._connection, self._path, self._version = connection, path, version

    def datasets(self) -> tuple[str, ...]:
        return tuple(name for (name,) in self._connection.execute("SELECT name FROM datasets ORDER BY rowid"))

    def budget(self, dataset: str) -> Budget | None:
        row = self._connection.execute(
            "SELECT epsilon, delta, relation, rows_per_unit FROM datasets WHERE name = ?", (dataset,)
        ).fetchone()
        if row is None or row == (None, None, None, None):
            return None
        try:
            return Budget(float(row[0]), float(row[1]), Unit(row[2], row[3]))
        except (InvalidInput, TypeError) as problem:
            raise self._damaged(f"the budget of {dataset!r}", problem) from problem

    def create(self, dataset: str, budget: Budget | None) -> None:
        row = (
            (None,) * 4
            if budget is None
            else (budget.epsilon, budget.delta, budget.unit.relation, budget.unit.rows_per_unit)
        )
        self._connection.execute("INSERT INTO datasets VALUES (?, ?, ?, ?, ?)", (dataset, *row))

    def charges(self, dataset: str) -> tuple[Charge, ...]:
        later = f"{self._stated}, {'NULL' if self._version == 1 else 'ran'}"
        rows = self._connection.execute(
            f"SELECT id, at, event, relation, rows_per_unit, note, status, {later} FROM charges WHERE dataset = ? "
            "ORDER BY id",
            (dataset,),
        )
        return tuple(self._charge(row) for row in rows)

    @property
    def _stated(self) -> str:
        return "NULL, NULL" if self._version == 1 else "stated_epsilon, stated_delta"

    def past(self, dataset: str, last: int | None = None) -> Past:
        named = _is_named(self._connection)
        name = self._connection.execute("SELECT name FROM store").fetchone() if named else None
        digest, seen, settled = hashlib.sha256(), 0, 0
        used = "0" if self._version == 1 else "(ran IS NOT NULL)"
        rows = self._connection.execute(
            f"SELECT id, at, event, relation, rows_per_unit, note, {self._stated}, (status <> 'charged') + {used} "
            "FROM charges WHERE dataset = ? AND (? IS NULL OR id <= ?) ORDER BY id",
            (dataset, last, last),
        )
        for *row, ends in rows:
            seen = row[0]
            settled += ends
            digest.update(repr(tuple(row)).encode())
        return Past(None if name is None else name[0], seen, digest.hexdigest(), settled)

    def _charge(self, row: tuple[Any, ...]) -> Charge:
        number, at, event, relation, rows_per_unit, note, status, epsilon, delta, ran = row
        try:
            return Charge(
                number, at, from_json(event), Unit(relation, rows_per_unit), note, status,
                stated=None if epsilon is None or delta is None else Stated(epsilon, delta),
                ran=None if ran is None else from_json(ran),
            )  # fmt: skip
        except DiscreetError as problem:
            raise self._damaged(f"charge {number}", problem) from problem

    def append(self, dataset: str, charge: Charge) -> int:
        unit = charge.unit
        row = (
            dataset,
            charge.at,
            charge.event.to_json(),
            unit.relation,
            unit.rows_per_unit,
            charge.note,
            charge.status,
        )
        cursor = self._connection.execute(
            "INSERT INTO charges (dataset, at, event, relation, rows_per_unit, note, status, stated_epsilon, "
            "stated_delta) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*row, *(charge.stated or (None, None))),
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def mark(self, charge_id: int, status: Status) -> None:
        self._connection.execute("UPDATE charges SET status = ? WHERE id = ?", (status, charge_id))

    def fulfil(self, charge_id: int, ran: Event) -> None:
        self._connection.execute("UPDATE charges SET ran = ? WHERE id = ?", (ran.to_json(), charge_id))

    def _damaged(self, part: str, problem: Exception) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"{part} in the ledger {self._path} cannot be understood ({problem}). What it spent is unknown, so "
            "nothing more can be charged and nothing was released; restore the file from its backup."
        )
