"""Files of formats 1 and 2, which had a table of datasets and one of charges, read as lines."""

from __future__ import annotations

import sqlite3
from typing import Any

from discreet.errors import InvalidInput, LedgerUnavailable
from discreet.ledger.lines import START, Head, Kind, Line, as_text, next_line

__all__ = ["older_lines"]


def older_lines(connection: sqlite3.Connection, version: int, path: str) -> list[Line]:
    """All that an older file says, as the lines that a writer will put in its place.

    Datasets come first, then the charges, then how they ended; each line's time is that of its charge.

    Raises:
        LedgerUnavailable: a value is not what such a file can hold.
    """
    try:
        return _lines(connection, version)
    except (ValueError, TypeError, KeyError, InvalidInput) as problem:
        raise LedgerUnavailable(
            f"the ledger {path}, of format {version}, cannot be understood ({problem}). What was spent is unknown, so "
            "nothing more can be charged and nothing was released; restore the file from its backup."
        ) from problem


def _lines(connection: sqlite3.Connection, version: int) -> list[Line]:
    found: list[Line] = []
    head = START

    def add(at: str, dataset: str, kind: Kind, body: dict[str, Any], charge: int | None = None) -> None:
        nonlocal head
        found.append(next_line(Head(*head), at, dataset, kind, as_text(body), charge))
        head = found[-1].head

    named = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'store'").fetchone()
    name = connection.execute("SELECT name FROM store").fetchone() if named else None
    add("", "", "store", {"name": "" if name is None else name[0]})
    datasets = "SELECT name, epsilon, delta, relation, rows_per_unit FROM datasets ORDER BY rowid"
    for dataset, epsilon, delta, relation, rows in connection.execute(datasets):
        budget = {"epsilon": epsilon, "delta": delta, "relation": relation, "rows": rows}
        add("", dataset, "dataset", {"budget": None if epsilon is None else budget, "parents": []})
    later = "NULL, NULL, NULL" if version == 1 else "stated_epsilon, stated_delta, ran"
    charges = connection.execute(
        f"SELECT dataset, at, event, relation, rows_per_unit, note, status, {later} FROM charges ORDER BY id"
    ).fetchall()
    for number, (dataset, at, event, relation, rows, note, _, epsilon, delta, _) in enumerate(charges, start=1):
        stated = None if epsilon is None else [epsilon, delta]
        facts = {"event": event, "relation": relation, "rows": rows, "note": note, "stated": stated}
        add(at, dataset, "charge", facts, number)
    for number, (dataset, at, *_, status, _, _, ran) in enumerate(charges, start=1):
        if ran is not None:
            add(at, dataset, "use", {"event": ran}, number)
        if status != "charged":
            add(at, dataset, "end", {"status": status}, number)
    return found
