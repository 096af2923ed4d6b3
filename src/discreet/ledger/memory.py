"""A store that lives and dies with its process: for notebooks, experiments and tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

from discreet.errors import LedgerUnavailable
from discreet.ledger.lines import START, Head, Line, Lines

__all__ = ["ListOfLines", "MemoryStore"]


class MemoryStore:
    """Lines in memory, one writer at a time among the threads of the process that made it.

    A forked process has a copy of the lines, in which it could spend the whole budget once more: it may read them,
    not write.
    """

    durable = False
    url = address = "memory:"

    def __init__(self) -> None:
        self._lock = RLock()
        self._process = os.getpid()
        self._lines: list[Line] = []

    @contextmanager
    def transaction(self, *, write: bool, create: bool = True) -> Iterator[Lines]:
        """All-or-nothing access; see `Store`."""
        if write and os.getpid() != self._process:
            raise LedgerUnavailable(
                "a ledger in memory belongs to the process that made it, and this is a fork of it: each could spend "
                "the whole budget. Nothing was charged and nothing was released. Use Ledger('sqlite:///budget.db', …)."
            )
        with self._lock:
            found = ListOfLines(self._lines)
            yield found
            if write:
                self._lines += found.new


class ListOfLines:
    """Lines of a list; what is appended waits in ``new``."""

    def __init__(self, lines: list[Line]) -> None:
        self._lines = lines
        self.new: list[Line] = []

    def head(self) -> Head:
        """The end of the book."""
        return self.new[-1].head if self.new else self._lines[-1].head if self._lines else START

    def digest(self, number: int) -> str | None:
        """The digest of a line."""
        return self._lines[number - 1].digest if 0 < number <= len(self._lines) else None

    def after(self, number: int) -> Iterator[Line]:
        """All lines after ``number``."""
        return iter(self._lines[number:])

    def about(self, charge: int) -> list[Line]:
        """The lines about one charge."""
        return [line for line in self._lines if line.charge == charge]

    def of_datasets(self, datasets: tuple[str, ...]) -> Iterator[Line]:
        """The lines about charges of these datasets."""
        return (line for line in self._lines if line.charge is not None and line.dataset in datasets)

    def keyed(self, key: str) -> Line | None:
        """The charge with this key."""
        return next((line for line in self._lines if line.key == key), None)

    def last_summary(self) -> Line | None:
        """None: whoever reads a list has all of it."""
        return None

    def append(self, line: Line) -> None:
        """Add the next line."""
        self.new.append(line)
