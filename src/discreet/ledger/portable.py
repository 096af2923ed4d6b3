"""A whole book as text, to move it from one store to another, and its verification from the first line to the last."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

from discreet.errors import InvalidInput, LedgerUnavailable
from discreet.ledger.adaptive import Accountant
from discreet.ledger.book import Book
from discreet.ledger.lines import START, Head, Line
from discreet.ledger.places import store_at
from discreet.text import checked_text, read_json

__all__ = ["export_book", "import_book", "verify_book"]

_FIRST = {"discreet ledger": 3}


def export_book(url: str | os.PathLike[str]) -> Iterator[str]:
    """The book as lines of JSON; the last digest names all of them.

    Raises:
        LedgerUnavailable: there is no book, or it cannot be read.
    """
    store = store_at(url)
    with store.transaction(write=False) as lines:
        if lines.head() == START:
            raise LedgerUnavailable(f"there is no book at {store.url}.")
        yield json.dumps(_FIRST)
        for line in lines.after(0):
            yield json.dumps(line)


def import_book(url: str | os.PathLike[str], text: Iterable[str]) -> Head:
    """Write an exported book to a store that has none yet.

    Returns:
        Its head, equal to that of the book that was exported.

    Raises:
        InvalidInput: the text is no book, or not as it was exported; nothing is written.
        LedgerUnavailable: there is a book already, or the store cannot be written.
    """
    found = _read(text)
    keys = [line.key for line in found if line.key is not None]
    if len(set(keys)) < len(keys):
        raise InvalidInput("this is not a book as it was exported: a key names two lines.")
    store, book = store_at(url), Book(Accountant())
    for line in found:
        try:
            book.take(line, "in this text")
        except LedgerUnavailable as problem:
            raise InvalidInput(f"this is not a book as it was exported: {problem}") from None
    with store.transaction(write=True) as lines:
        if lines.head() != START:
            raise LedgerUnavailable(f"{store.url} has a book already, which is never written over.")
        for line in found:
            lines.append(line)
    return book.head


def _read(text: Iterable[str]) -> list[Line]:
    first, *rows = [row for row in text if row.strip()] or [""]
    try:
        if read_json(first, "the first line") != _FIRST:
            raise InvalidInput("it does not begin as one of this version of discreet does")
        return [_line(read_json(row, f"line {number}")) for number, row in enumerate(rows, start=1)]
    except (InvalidInput, TypeError) as problem:
        raise InvalidInput(f"this is no exported ledger: {str(problem).rstrip('.')}. Nothing was written.") from None


def _line(values: Any) -> Line:
    """A line that every database can hold."""
    if not isinstance(values, list) or len(values) != len(Line._fields):
        raise TypeError(f"a line has {len(Line._fields)} values")
    found = Line(*values)
    for number in (found.number, 0 if found.charge is None else found.charge):
        if type(number) is not int or not 0 <= number < 1 << 63:
            raise TypeError("a number of a line is a whole one, and not too large")
    for word in (found.at, found.dataset, found.kind, "" if found.key is None else found.key, found.body, found.digest):
        checked_text("a part of a line", word)
    return found


def verify_book(url: str | os.PathLike[str], head: str | None = None) -> Head:
    """Read every line, and check each against the one before it; with ``head``, that the book contains it.

    Args:
        url: where the book is.
        head: a ``number:digest`` from a certificate or a witness.

    Raises:
        InvalidInput: ``head`` is none.
        LedgerUnavailable: there is no book, a line is not as it was written, or the book does not contain ``head``.
    """
    wanted = None if head is None else _head(head)
    store, book = store_at(url), Book(Accountant())
    with store.transaction(write=False) as lines:
        for line in lines.after(0):
            book.take(line, store.url)
        if book.head == START:
            raise LedgerUnavailable(f"there is no book at {store.url}.")
        if wanted is not None and lines.digest(wanted.number) != wanted.digest:
            raise LedgerUnavailable(
                f"the book {store.url} does not contain the line {wanted}: it is another one, or an older copy."
            )
    return book.head


def _head(text: str) -> Head:
    try:
        return Head.read(text)
    except ValueError as problem:
        raise InvalidInput(f"{problem}: a certificate and `discreet ledger verify` state it.") from None
