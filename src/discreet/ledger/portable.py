"""A whole book as text, to move it from one store to another, and its verification from the first line to the last."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator

from discreet.errors import InvalidInput, LedgerUnavailable
from discreet.ledger.adaptive import Accountant
from discreet.ledger.book import Book
from discreet.ledger.lines import START, Head, Line
from discreet.ledger.places import store_at

__all__ = ["export_book", "import_book", "verify_book"]

_FIRST = {"discreet ledger": 3}


def export_book(url: str | os.PathLike[str]) -> Iterator[str]:
    """The book as lines of JSON; the last digest names all of them."""
    store = store_at(url)
    with store.transaction(write=False) as lines:
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
    rows = [row for row in text if row.strip()]
    try:
        if not rows or json.loads(rows[0]) != _FIRST:
            raise InvalidInput("this is no exported ledger of this version of discreet.")
        found = [Line(*json.loads(row)) for row in rows[1:]]
    except (ValueError, TypeError):
        raise InvalidInput("this is no exported ledger: a line is not as it was written.") from None
    kinds: tuple[type | tuple[type, ...], ...] = (int, str, str, str, (int, type(None)), (str, type(None)), str, str)
    for line in found:
        if not all(isinstance(value, kind) for value, kind in zip(line, kinds, strict=True)):
            raise InvalidInput("this is no exported ledger: a line is not as it was written.")
    return found


def verify_book(url: str | os.PathLike[str], head: str | None = None) -> Head:
    """Read every line, and check each against the one before it; with ``head``, that the book contains it.

    Args:
        url: where the book is.
        head: a ``number:digest`` from a certificate or a witness.

    Raises:
        LedgerUnavailable: a line is not as it was written, or the book does not contain ``head``.
    """
    store, book = store_at(url), Book(Accountant())
    with store.transaction(write=False) as lines:
        for line in lines.after(0):
            book.take(line, store.url)
        if head is not None:
            number, _, digest = head.partition(":")
            if not number.isdigit() or lines.digest(int(number)) != digest:
                raise LedgerUnavailable(
                    f"the book {store.url} does not contain the line {head}: it is another one, or an older copy."
                )
    return book.head
