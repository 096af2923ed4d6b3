"""How the spent ε of every budget grew, read from the book itself."""

from __future__ import annotations

import os
from threading import Lock
from typing import NamedTuple

from discreet.errors import LedgerUnavailable
from discreet.ledger.adaptive import Accountant
from discreet.ledger.book import Book
from discreet.ledger.lines import START
from discreet.ledger.places import store_at

__all__ = ["Course", "Point"]


class Point(NamedTuple):
    """The certified ε of all charges up to a time, at the budget's δ."""

    at: str
    spent: float


class Course:
    """The spent ε of each dataset with a budget, after its charges.

    The book is read from its first line, and every line is checked against the one before it. A further `read` goes on
    from where the last one ended.

    Args:
        url: where the ledger is; see `Ledger`.
        points: about how many points of a book are computed; a longer book has points at equal numbers of lines.

    Example:
        >>> Course("memory:").read()
        {}
    """

    def __init__(self, url: str | os.PathLike[str], points: int = 200) -> None:
        self._store, self._points = store_at(url), points
        self._book = Book(Accountant())
        self._found: dict[str, list[Point]] = {}
        self._lock = Lock()

    def read(self) -> dict[str, list[Point]]:
        """Every dataset with a budget, and its points in the order of the book.

        Raises:
            LedgerUnavailable: the book cannot be read, or is not the one that was read before.
        """
        with self._lock, self._store.transaction(write=False) as lines:
            seen = self._book.head
            if seen != START and lines.digest(seen.number) != seen.digest:
                raise LedgerUnavailable(f"the book {self._store.url} is not the one that was read before.")
            end = lines.head().number
            every = max(1, end // self._points)
            for line in lines.after(seen.number):
                self._book.take(line, self._store.url)
                due = line.kind in ("charge", "use") and line.number % every == 0
                if due or line.kind == "dataset" or line.number == end:
                    self._note(line.at)
            return {name: list(points) for name, points in self._found.items()}

    def _note(self, at: str) -> None:
        for name, facts in self._book.datasets.items():
            if facts.budget is None:
                continue
            limit = self._book.limits(name)[0]
            points = self._found.setdefault(name, [])
            spent = limit.tally.spent().upper
            if not points or points[-1].spent != spent:
                points.append(Point(at, spent))
