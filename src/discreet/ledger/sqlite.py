"""A store in one SQLite file, safe for many processes on one machine.

A writing transaction begins with ``BEGIN IMMEDIATE``: SQLite grants the write lock to one connection at a time, so
whoever reads the book also holds the right to add one, and no two processes can both take the last of a budget.
``synchronous = EXTRA`` syncs the file *and* the directory entry of the rollback journal before a commit returns, so a
charge survives a power cut that follows it at once.

A half-written transaction is undone from the rollback journal, which SQLite finds by the *file's name*. A file with two
names (hard links) would have two journals, and a crash under one name could lose charges that were committed under the
other; so a file with more than one name is refused, symbolic links are followed once, when the store is opened, and a
file that is renamed or exchanged while it is written to is refused too.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from discreet.errors import InvalidInput, LedgerUnavailable
from discreet.events import Event, from_json
from discreet.ledger.lines import START, Head, Line, Lines
from discreet.ledger.memory import ListOfLines
from discreet.ledger.older_files import older_lines
from discreet.text import checked_path

__all__ = ["SQLiteStore", "require_readable"]

_APPLICATION_ID = 0x64697363  # "disc": tells a ledger from any other SQLite file
_FORMAT = 3
_TABLES = (
    """CREATE TABLE lines (
        number  INTEGER PRIMARY KEY,
        at      TEXT NOT NULL,
        dataset TEXT NOT NULL,
        kind    TEXT NOT NULL,
        charge  INTEGER,
        key     TEXT UNIQUE,
        body    TEXT NOT NULL,
        digest  TEXT NOT NULL
    ) STRICT""",
    "CREATE INDEX lines_of_charges ON lines (charge) WHERE charge IS NOT NULL",
    "CREATE INDEX summaries ON lines (number) WHERE kind = 'summary'",
)
_COLUMNS = "number, at, dataset, kind, charge, key, body, digest"


class SQLiteStore:
    """A book in one SQLite file.

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
        """Where the book is."""
        return f"sqlite:///{self.path}"

    address = url

    @contextmanager
    def transaction(self, *, write: bool, create: bool = True) -> Iterator[Lines]:
        """All-or-nothing access; see `Store`."""
        before = self._file()
        if not write and before is None:
            yield ListOfLines([])
            return
        if not create and before is None:
            raise self._unavailable("is not there any more")
        try:
            with closing(self._connect(write)) as connection:
                connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                try:
                    version = self._check_format(connection, write)
                    if version < _FORMAT:
                        yield ListOfLines(older_lines(connection, version, str(self.path)))
                    else:
                        yield _SQLiteLines(connection)
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
        except (sqlite3.Error, UnicodeDecodeError) as problem:  # the latter where SQLite's own words have wrong bytes
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
            self._create(connection, [])
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
        elif version < _FORMAT:
            if not write:
                return int(version)
            lines = older_lines(connection, version, str(self.path))
            for table in ("charges", "datasets", "store"):
                connection.execute(f"DROP TABLE IF EXISTS {table}")
            self._create(connection, lines)
        return _FORMAT

    def _create(self, connection: sqlite3.Connection, lines: list[Line]) -> None:
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {_FORMAT}")
        for line in lines:
            _SQLiteLines(connection).append(line)


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


class _SQLiteLines:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def _lines(self, where: str, *values: object) -> Iterator[Line]:
        return map(Line._make, self._connection.execute(f"SELECT {_COLUMNS} FROM lines WHERE {where}", values))

    def head(self) -> Head:
        row = self._connection.execute("SELECT number, digest FROM lines ORDER BY number DESC LIMIT 1").fetchone()
        return START if row is None else Head(*row)

    def digest(self, number: int) -> str | None:
        row = self._connection.execute("SELECT digest FROM lines WHERE number = ?", (number,)).fetchone()
        return None if row is None else row[0]

    def after(self, number: int) -> Iterator[Line]:
        return self._lines("number > ? ORDER BY number", number)

    def about(self, charge: int) -> list[Line]:
        return list(self._lines("charge = ? ORDER BY number", charge))

    def of_datasets(self, datasets: tuple[str, ...]) -> Iterator[Line]:
        places = ", ".join("?" * len(datasets))
        return self._lines(f"charge IS NOT NULL AND dataset IN ({places}) ORDER BY number", *datasets)

    def keyed(self, key: str) -> Line | None:
        return next(self._lines("key = ?", key), None)

    def last_summary(self) -> Line | None:
        return next(self._lines("kind = 'summary' ORDER BY number DESC LIMIT 1"), None)

    def append(self, line: Line) -> None:
        self._connection.execute(f"INSERT INTO lines ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", line)
