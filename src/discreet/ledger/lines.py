"""The lines of a ledger's book: each is bound to the one before it by a hash, so that none can be changed or left out.

A ledger is one append-only list of lines. Datasets, charges, how runs ended and what promises were used for are all
lines; nothing is ever changed in place. A line's digest covers its own text and the digest of the line before it, so
the last digest, the *head*, names the whole past: whoever has kept a head can tell a restored backup from the book.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from discreet.noise.bits import process_bits

__all__ = ["START", "Head", "Kind", "Line", "Lines", "as_text", "next_line", "random_name"]

Kind: TypeAlias = Literal["store", "dataset", "allocation", "charge", "use", "end", "freeze", "thaw", "summary"]

_HEAD = re.compile(r"([1-9][0-9]{0,17}):([0-9a-f]{1,64})", re.ASCII)  # numbers that every database can hold


class Head(NamedTuple):
    """How many lines a book has, and the digest of the last."""

    number: int
    digest: str

    @classmethod
    def read(cls, text: str) -> Head:
        """The head in a text such as ``"12:5c1a…"``, as `__str__` writes it.

        Raises:
            ValueError: it is none.

        Example:
            >>> str(Head.read("12:5c1a"))
            '12:5c1a'
        """
        found = _HEAD.fullmatch(text)
        if found is None:
            raise ValueError("a head is number:digest, and this is none")
        return cls(int(found[1]), found[2])

    def __str__(self) -> str:
        return f"{self.number}:{self.digest}"


START = Head(0, "")


class Line(NamedTuple):
    """One line. ``charge`` is the id of the charge that it is about, and ``key`` names a charge for its retries."""

    number: int
    at: str
    dataset: str
    kind: str
    charge: int | None
    key: str | None
    body: str
    digest: str

    @property
    def head(self) -> Head:
        """The head of a book that ends with this line."""
        return Head(self.number, self.digest)

    def follows(self, head: Head) -> bool:
        """Whether this line, as it is, was written after ``head``."""
        return self.number == head.number + 1 and self.digest == _digest(head.digest, self)


def random_name() -> str:
    """A name that no other has: of a book, or of a charge for its retries."""
    return process_bits().words(2).tobytes().hex()


def as_text(facts: dict[str, Any]) -> str:
    """The body of a line."""
    return json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False)


def next_line(
    head: Head, at: str, dataset: str, kind: Kind, body: str, charge: int | None = None, key: str | None = None
) -> Line:
    """The line that follows ``head``.

    Example:
        >>> first = next_line(START, "2026-01-01", "", "store", "{}")
        >>> first.follows(START), first._replace(body="[]").follows(START)
        (True, False)
    """
    line = Line(head.number + 1, at, dataset, kind, charge, key, body, "")
    return line._replace(digest=_digest(head.digest, line))


def _digest(before: str, line: Line) -> str:
    return hashlib.sha256(json.dumps([before, *line[:-1]]).encode()).hexdigest()


class Lines(Protocol):
    """The lines inside one transaction."""

    def head(self) -> Head:
        """The end of the book."""

    def digest(self, number: int) -> str | None:
        """The digest of a line; None when there is no such line."""

    def after(self, number: int) -> Iterator[Line]:
        """All lines after ``number``, in order."""

    def about(self, charge: int) -> list[Line]:
        """The lines about one charge, in order."""

    def of_datasets(self, datasets: tuple[str, ...]) -> Iterator[Line]:
        """The lines of charges, their uses and their ends, of these datasets, in order."""

    def keyed(self, key: str) -> Line | None:
        """The charge with this key."""

    def last_summary(self) -> Line | None:
        """The last line of kind ``summary``."""

    def append(self, line: Line) -> None:
        """Write the next line."""
