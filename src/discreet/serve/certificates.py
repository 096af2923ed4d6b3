"""A folder of certificates: only files named ``*.json`` directly inside it are ever opened."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.errors import DiscreetError, InvalidInput
from discreet.ledger.places import store_at
from discreet.report.certificate import Certificate
from discreet.text import read_bounded

__all__ = ["Folder", "Kept", "style_of"]

_MOST_BYTES = 1 << 22


@dataclass(frozen=True)
class Kept:
    """A certificate's file, and what it says of itself; ``summary`` is "" where it cannot be read."""

    name: str
    summary: str = ""
    dataset: str = ""
    issued: str = ""
    head: str = ""
    charges: tuple[int, ...] = ()


class Folder:
    """The certificates of one folder.

    Args:
        path: the folder; None has no certificates.

    Raises:
        InvalidInput: it is not a folder.
    """

    def __init__(self, path: Path | None) -> None:
        if path is not None and not path.is_dir():
            raise InvalidInput(f"{path} is not a folder of certificates.")
        self.path = None if path is None else path.resolve()
        self._read: dict[tuple[str, int, int], Kept] = {}

    def files(self) -> dict[str, Path]:
        """Files by their names. Links are left out: they may lead elsewhere."""
        if self.path is None:
            return {}
        found = sorted(self.path.glob("*.json"))
        return {file.name: file for file in found if file.is_file() and not file.is_symlink()}

    def certificate(self, name: str) -> Certificate | None:
        """The certificate in a file of the folder; None where there is no such file. No path is made of ``name``.

        Raises:
            InvalidInput: the file holds no certificate.
        """
        file = self.files().get(name)
        return None if file is None else _certificate(file)

    def kept(self) -> list[Kept]:
        """All files and what they hold."""
        return [self._kept(file) for file in self.files().values()]

    def for_charges(self, place: str | Path) -> dict[int, str]:
        """By the numbers of charges of the book at ``place``: the file of the certificate that names them.

        A certificate counts where the book contains the head that it names, so that it is of this book.
        """
        found: dict[int, str] = {}
        kept = [one for one in self.kept() if one.head and one.charges]
        if not kept:
            return found
        with store_at(place).transaction(write=False) as lines:
            for one in kept:
                number, _, digest = one.head.partition(":")
                if number.isascii() and number.isdigit() and len(number) < 16 and lines.digest(int(number)) == digest:
                    found |= dict.fromkeys(one.charges, one.name)
        return found

    def _kept(self, file: Path) -> Kept:
        try:
            facts = file.stat()
            key = (file.name, facts.st_mtime_ns, facts.st_size)
            if key not in self._read:
                self._read[key] = _summary(file.name, _certificate(file))
            return self._read[key]
        except (DiscreetError, OSError):
            return Kept(file.name)


def _certificate(file: Path) -> Certificate:
    return Certificate.from_json(read_bounded(file, _MOST_BYTES).decode("utf-8", errors="replace"))


def _summary(name: str, found: Certificate) -> Kept:
    ledger = found.record.get("ledger")
    ledger = ledger if isinstance(ledger, dict) else {}
    charges: Any = ledger.get("charges")
    numbers = [number for number in charges if type(number) is int] if isinstance(charges, list) else []
    dataset, issued = (found.record.get(key) for key in ("dataset", "issued"))
    return Kept(
        name,
        str(found),
        dataset if isinstance(dataset, str) else "",
        issued if isinstance(issued, str) else "",
        str(ledger.get("head") or ""),
        tuple(numbers),
    )


def style_of(page: str) -> str:
    """The source of the style sheet inside a certificate's page, as a content security policy writes it."""
    style = page.split("<style>", 1)[1].split("</style>", 1)[0]
    return f"'sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}'"
