"""A store on a PostgreSQL server, for teams.

A writing transaction first takes an advisory lock and an exclusive lock on the table: whoever reads the book also holds
the right to add to it, and no two clients can both take the last of a budget. Readers see one snapshot. A commit
returns when the line is on the server's disk (``synchronous_commit``; a server that runs with ``fsync = off`` is
refused, because a power cut would give budgets back).

A connection that breaks during a commit leaves its outcome unknown. The locks of the broken transaction are held until
the server has ended it, so a second try with the same key finds the line, or knows that there is none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from discreet.errors import InvalidInput, LedgerUnavailable
from discreet.ledger.base import ConnectionLost
from discreet.ledger.lines import START, Head, Line, Lines
from discreet.ledger.memory import ListOfLines
from discreet.text import without_passwords

__all__ = ["PostgresStore"]

_FORMAT = 3
_LOCK = 0x64697363  # "disc", as in the files
_COLUMNS = "number, at, dataset, kind, charge, key, body, digest"
_TABLES = (
    """CREATE TABLE IF NOT EXISTS discreet_lines (
        number  BIGINT PRIMARY KEY,
        at      TEXT NOT NULL,
        dataset TEXT NOT NULL,
        kind    TEXT NOT NULL,
        charge  BIGINT,
        key     TEXT UNIQUE,
        body    TEXT NOT NULL,
        digest  TEXT NOT NULL
    )""",
    "CREATE INDEX IF NOT EXISTS discreet_lines_charge ON discreet_lines (charge) WHERE charge IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS discreet_lines_summary ON discreet_lines (number) WHERE kind = 'summary'",
    "CREATE TABLE IF NOT EXISTS discreet_format (format INTEGER NOT NULL)",
)


class PostgresStore:
    """A book in the table ``discreet_lines`` of a PostgreSQL database.

    Args:
        url: ``postgresql://user:password@host:port/database``, as SQLAlchemy reads it.
        patience: seconds to wait for the server and for other writers.
    """

    durable = True

    def __init__(self, url: str, *, patience: float = 60.0) -> None:
        try:
            from sqlalchemy import make_url
            from sqlalchemy.exc import ArgumentError
        except ImportError:
            raise InvalidInput(
                "a ledger on a server needs SQLAlchemy and psycopg: pip install 'discreet[postgres]'."
            ) from None
        try:
            self._parsed = make_url(url).set(drivername="postgresql+psycopg")
        except (ArgumentError, ValueError):
            raise InvalidInput("this is no address of a PostgreSQL server: postgresql://user@host/database.") from None
        if "@" in (self._parsed.host or ""):
            raise InvalidInput("an @ in a user's name or a password is written %40 in the address of a server.")
        self._patience = patience

    @property
    def url(self) -> str:
        """Where the book is, without the password."""
        return without_passwords(self._parsed.set(drivername="postgresql").render_as_string(hide_password=True))

    @property
    def address(self) -> str:
        """What opens the same store again, the password included."""
        return self._parsed.set(drivername="postgresql").render_as_string(hide_password=False)

    def _connections(self) -> Any:
        return _pool(self.address, os.getpid(), int(self._patience))

    @contextmanager
    def transaction(self, *, write: bool, create: bool = True) -> Iterator[Lines]:
        """All-or-nothing access; see `Store`."""
        from sqlalchemy.exc import DBAPIError, SQLAlchemyError

        try:
            with self._connections().connect() as connection, connection.begin():
                found = self._begin(connection, write, create)
                yield found
        except DBAPIError as problem:
            kind = ConnectionLost if problem.connection_invalidated or _is_lost(problem) else LedgerUnavailable
            raise self._unavailable(_words(problem), kind) from None
        except SQLAlchemyError as problem:
            raise self._unavailable(_words(problem)) from None

    def _begin(self, connection: Any, write: bool, create: bool) -> Lines:
        run = _Runner(connection)
        if not write:
            run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            if run("SELECT to_regclass('discreet_lines')").scalar() is None:
                return ListOfLines([])
            self._check_format(run)
            return _PostgresLines(run)
        run("SET LOCAL synchronous_commit = on")
        run(f"SET LOCAL lock_timeout = {int(self._patience * 1000)}")
        if run("SHOW fsync").scalar() != "on":
            raise self._unavailable("runs with fsync = off, so that a power cut would give spent budgets back")
        run(f"SELECT pg_advisory_xact_lock({_LOCK})")
        if run("SELECT to_regclass('discreet_lines')").scalar() is None:
            if not create:
                raise self._unavailable("has no book any more")
            for statement in _TABLES:
                run(statement)
            run(f"INSERT INTO discreet_format VALUES ({_FORMAT})")
        run("LOCK TABLE discreet_lines IN EXCLUSIVE MODE")
        self._check_format(run)
        return _PostgresLines(run)

    def _check_format(self, run: _Runner) -> None:
        version = run("SELECT max(format) FROM discreet_format").scalar()
        if version != _FORMAT:
            raise self._unavailable(f"has ledger format {version}; this version of discreet reads format {_FORMAT}")

    def _unavailable(self, why: str, kind: type[LedgerUnavailable] = LedgerUnavailable) -> LedgerUnavailable:
        return kind(
            f"the ledger {self.url} {why}. Nothing was released; what was being charged may stay charged. Check the "
            "address, the server and its permissions."
        )


@lru_cache(maxsize=64)
def _pool(address: str, process: int, patience: int) -> Any:
    """One pool of connections for each address and process: a fork must not speak on its parent's connections."""
    from sqlalchemy import create_engine, make_url

    return create_engine(
        make_url(address).set(drivername="postgresql+psycopg"), pool_size=1, max_overflow=8, pool_pre_ping=True,
        connect_args={"connect_timeout": patience, "application_name": "discreet"},
    )  # fmt: skip


def _is_lost(problem: Any) -> bool:
    """Whether the server ended the connection, or could not be reached."""
    state = getattr(problem.orig, "sqlstate", None)
    return state is None or state[:2] in ("08", "57")


def _words(problem: Exception) -> str:
    """The first line of what the driver says; its further lines may repeat the statement and its values."""
    cause = getattr(problem, "orig", None) or problem
    return f"cannot be used: {str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__}"


class _Runner:
    """Statements on one connection; values are always bound, never written into the statement."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __call__(self, statement: str, **values: object) -> Any:
        from sqlalchemy import text

        return self._connection.execute(text(statement), values)


class _PostgresLines:
    def __init__(self, run: _Runner) -> None:
        self._run = run

    def _lines(self, where: str, **values: object) -> Iterator[Line]:
        rows = self._run(f"SELECT {_COLUMNS} FROM discreet_lines WHERE {where}", **values)
        return (Line(*row) for row in rows)

    def head(self) -> Head:
        row = self._run("SELECT number, digest FROM discreet_lines ORDER BY number DESC LIMIT 1").fetchone()
        return START if row is None else Head(*row)

    def digest(self, number: int) -> str | None:
        found: str | None = self._run("SELECT digest FROM discreet_lines WHERE number = :n", n=number).scalar()
        return found

    def after(self, number: int) -> Iterator[Line]:
        return self._lines("number > :n ORDER BY number", n=number)

    def about(self, charge: int) -> list[Line]:
        return list(self._lines("charge = :c ORDER BY number", c=charge))

    def of_datasets(self, datasets: tuple[str, ...]) -> Iterator[Line]:
        return self._lines("charge IS NOT NULL AND dataset = ANY(:names) ORDER BY number", names=list(datasets))

    def keyed(self, key: str) -> Line | None:
        return next(self._lines("key = :k", k=key), None)

    def last_summary(self) -> Line | None:
        return next(self._lines("kind = 'summary' ORDER BY number DESC LIMIT 1"), None)

    def append(self, line: Line) -> None:
        names = ", ".join(f":{name}" for name in Line._fields)
        self._run(f"INSERT INTO discreet_lines ({_COLUMNS}) VALUES ({names})", **line._asdict())
