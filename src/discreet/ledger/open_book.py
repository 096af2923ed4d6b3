"""A book that is kept open: read to its end at every use, checked against all that was seen before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import RLock
from typing import Any

from discreet.errors import LedgerUnavailable
from discreet.ledger.adaptive import Accountant
from discreet.ledger.base import Store
from discreet.ledger.book import Book
from discreet.ledger.lines import START, Head, Kind, Lines, as_text, next_line, random_name
from discreet.ledger.witness import Witness

__all__ = ["OpenBook"]

_SUMMARY_EVERY = 512  # lines; whoever opens the book reads about as many


class OpenBook:
    """The store, what was read of it, and the last line that is known to be there."""

    dataset: str
    analyst: str

    def _attach(
        self,
        dataset: str,
        analyst: str,
        store: Store,
        accountant: Accountant,
        witness: str | os.PathLike[str] | None,
        seen: Head,
    ) -> None:
        self.dataset, self.analyst = dataset, analyst
        self._store, self._accountant = store, accountant
        self._witness = None if witness is None else Witness(witness)
        self._seen = seen
        self._book = Book(accountant)
        self._lock = RLock()

    @property
    def url(self) -> str:
        """Where the book is kept."""
        return self._store.url

    @property
    def durable(self) -> bool:
        """Whether the book outlives this process."""
        return self._store.durable

    @property
    def head(self) -> Head:
        """The number of lines in the book, and the digest of the last: it names the whole past."""
        with self._lines(write=False) as lines:
            return lines.head()

    @property
    def id(self) -> str:
        """The digest of the book's first line, which no other book has, wherever it is moved to; "" for no book."""
        with self._lines(write=False) as lines:
            return lines.digest(1) or ""

    @contextmanager
    def _lines(self, *, write: bool) -> Iterator[Lines]:
        """The store's lines, after a check that nothing of what was seen before is missing, and read to their end."""
        with self._lock:
            marks = [self._seen, self._witness.head() if self._witness else START]
            with self._store.transaction(write=write, create=marks == [START, START]) as lines:
                for mark in marks:
                    self._require(lines, mark)
                self._follow(lines)
                yield lines
                head = lines.head()
            self._seen = head
            if self._witness:
                self._witness.keep(head)

    def _follow(self, lines: Lines) -> None:
        """Read on; a book in which a line was read by halves, because of an interrupt or an error, is read anew."""
        try:
            self._book.follow(lines, self.url)
        except BaseException:
            self._book = Book(self._accountant)
            raise

    def _require(self, lines: Lines, mark: Head) -> None:
        if mark != START and lines.digest(mark.number) != mark.digest:
            raise LedgerUnavailable(
                f"the book {self.url} is not the one that was read before: charges that were there, or uses of their "
                "promises, are not, or it is another file or an older copy. What was spent is unknown. Nothing more "
                "was charged and nothing was released; restore the file, or open the ledger anew (without its witness) "
                "if it was exchanged on purpose."
            )

    def _write(
        self,
        lines: Lines,
        kind: Kind,
        body: dict[str, Any],
        charge: int | None = None,
        key: str | None = None,
        dataset: str | None = None,
    ) -> None:
        """Add a line about this ledger's dataset, or about ``dataset``; the first line of all names the book."""
        head, now = lines.head(), datetime.now(UTC).isoformat(timespec="microseconds")
        if head == START:
            first = next_line(head, now, "", "store", as_text({"name": random_name()}))
            lines.append(first)
            head = first.head
        name = self.dataset if dataset is None else dataset
        lines.append(next_line(head, now, name, kind, as_text(body), charge, key))

    def _due_for_a_summary(self) -> bool:
        since = self._book.head.number - self._book.summarised
        return since >= _SUMMARY_EVERY and self.durable and self._accountant == Accountant()
