"""Where a ledger lives: an address and the store that opens it."""

from __future__ import annotations

import os

from discreet.errors import InvalidInput
from discreet.ledger.base import Store
from discreet.ledger.memory import MemoryStore
from discreet.ledger.sqlite import SQLiteStore
from discreet.text import checked_path, shortened

__all__ = ["store_at"]


def store_at(url: str | os.PathLike[str]) -> Store:
    """The store at an address.

    Raises:
        InvalidInput: it is no address of a ledger.
    """
    if url == "memory:":
        return MemoryStore()
    if isinstance(url, str) and url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        return SQLiteStore(url.removeprefix("sqlite:///"))
    if isinstance(url, str) and url.startswith(("postgresql://", "postgres://")):
        from discreet.ledger.postgres import PostgresStore

        return PostgresStore(url)
    named = isinstance(url, str) and ":" not in url and os.path.splitext(url)[1]  # a name with an ending is a file's
    if named or isinstance(url, os.PathLike):
        return SQLiteStore(checked_path(url))
    raise InvalidInput(
        "a ledger lives in a file, such as 'budget.db', on a server, 'postgresql://user@host/database', or at "
        f"'memory:', got {shortened(url)}."
    )
