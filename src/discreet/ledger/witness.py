"""A second file that remembers how far a book was read, so that going back in it is noticed."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from discreet.errors import LedgerUnavailable
from discreet.ledger.lines import START, Head
from discreet.text import checked_path

__all__ = ["Witness"]


class Witness:
    """The last head that was seen of a book, in a file of its own.

    It is replaced as a whole, after the book's transaction: a crash between the two leaves an older head, which the
    book still has. Two processes may replace it at once; the one that ends later may leave the smaller head of the two,
    which is a valid witness of a shorter past.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(checked_path(path)).expanduser().resolve()

    def head(self) -> Head:
        """The head that was kept; the start where there is no file yet.

        Raises:
            LedgerUnavailable: the file cannot be understood.
        """
        try:
            return Head.read(self.path.read_text(encoding="ascii").strip())
        except FileNotFoundError:
            return START
        except (OSError, ValueError) as problem:
            raise self._unavailable("cannot be read", problem) from None

    def keep(self, head: Head) -> None:
        """Write a head, unless the file has a later one.

        Raises:
            LedgerUnavailable: it cannot be written.
        """
        if self.head().number >= head.number:
            return
        name = None
        try:
            handle, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(f"{head}\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, self.path)
        except OSError as problem:
            if name is not None:
                with suppress(OSError):
                    os.unlink(name)
            raise self._unavailable("cannot be written", problem) from None

    def _unavailable(self, why: str, problem: Exception) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"the ledger's witness {self.path} {why}: {problem}. Nothing was released; what was being charged may stay "
            "charged."
        )
