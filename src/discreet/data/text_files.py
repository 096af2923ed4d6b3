"""Delimited text files of one table, streamed by runs of lines.

A row is a physical line, as for one file (`discreet.data.lines`). The first reading counts the lines and notes where
every 4096th begins, so that later ones begin in the middle of a file; compressed files are read from their beginning.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from discreet.data.columns import Column
from discreet.data.delimited import ColumnParts, Delimited, names_on_first_line, read_lines, require_names
from discreet.data.files import DataFile
from discreet.data.frames import Table
from discreet.data.sources import TableOf, Wanted, constant_column, declared_kinds
from discreet.errors import InvalidInput

__all__ = ["TextSource", "text_names"]

_NOTED = 4096
_PIECE = 1 << 23


@dataclass(frozen=True, eq=False)
class _File:
    file: DataFile
    stamp: tuple[Any, ...]
    first: int  # row of the table
    rows: int
    noted: NDArray[np.int64]  # where every `_NOTED`-th row begins, and where the last ends
    mark: str
    slots: NDArray[np.int64]
    kinds: dict[str, bool]
    id_slots: NDArray[np.int64]


class TextSource:
    """Opened text files: lines have been counted, first lines have been read.

    Args:
        files: the files, whose rows follow each other.
        schema: the declared columns.
        target: the column to predict.
        form: separator and decimal point.

    Raises:
        InvalidInput: a file cannot be read, or its first line does not name the declared columns.
    """

    def __init__(self, files: list[DataFile], schema: Mapping[str, Column], target: str, form: Delimited) -> None:
        self.schema, self.target, self.form = dict(schema), target, form
        self.files: list[_File] = []
        self.n = 0
        for file in files:
            opened = self._opened(file)
            self.files.append(opened)
            self.n += opened.rows

    def _opened(self, file: DataFile) -> _File:
        with _content(file) as content:
            stamp = file.stamp()
            header, mark = _header(content, file, self.form)
            kinds, ids = declared_kinds(file, header, self.schema, self.target)
            rows, noted = _counted(content)
        own = {name: kind for name, kind in kinds.items() if name in header}
        if self.files and set(own) != set(self.files[0].kinds):
            raise InvalidInput(
                f"{file.name!r} has other columns than {self.files[0].file.name!r}: files of one table have the same "
                "columns. Nothing was released."
            )
        slots = _slots(header, list(own))
        return _File(file, stamp, self.n, rows, noted, mark, slots, own, _slots(header, [ids] if ids in header else []))

    def tables(self, wanted: Wanted) -> Iterator[tuple[int, TableOf]]:
        """For each run, in order, its number and what makes its table."""
        open_files = _Lines()
        try:
            for number, first, last in wanted:
                pieces = []
                for known in self.files:
                    low, high = max(first - known.first, 0), min(last - known.first, known.rows)
                    if low < high:
                        pieces.append((known, open_files.between(known, low, high), high - low))
                yield number, partial(self._table, pieces)
        finally:
            open_files.close()

    def _table(self, pieces: list[tuple[_File, bytes, int]]) -> Table:
        names = dict(sorted(self.files[0].kinds.items()))
        parts = ColumnParts(names)
        for known, lines, rows in pieces:
            found, columns = read_lines(lines, known.mark, self.form.decimal, known.slots, tuple(known.kinds.values()))
            if found != rows:
                raise InvalidInput(f"{known.file.name!r} has other lines than when it was opened.")
            by_name = dict(zip(known.kinds, columns, strict=True))
            parts.add((rows, [by_name[name] for name in names]))
        whole: dict[str, Any] = dict(parts.joined())
        for name in {name for known, _, _ in pieces for name, _ in known.file.partition}:
            if name in self.schema and name not in whole:
                values = [dict(known.file.partition).get(name) for known, _, _ in pieces]
                whole[name] = constant_column(values, self.schema[name], [rows for _, _, rows in pieces])
        return Table(whole)

    def ids(self, name: str) -> Iterator[list[Any]]:
        """All cells of the column that says whose a row is, some lines after others."""
        for known in self.files:
            reading, inside = _Lines(), (known.id_slots >= 0).any()
            for low in range(0, known.rows, _NOTED * 64):
                high = min(known.rows, low + _NOTED * 64)
                if not inside:
                    yield [dict(known.file.partition)[name]] * (high - low)
                    continue
                parts = ColumnParts({name: False})
                lines = reading.between(known, low, high)
                parts.add(read_lines(lines, known.mark, self.form.decimal, known.id_slots, (False,)))
                yield parts.joined()[name].tolist()
            reading.close()


def text_names(file: DataFile, form: Delimited) -> tuple[str, ...]:
    """The names of a file's columns."""
    with _content(file) as content:
        return tuple(_header(content, file, form)[0])


def _header(content: IO[bytes], file: DataFile, form: Delimited) -> tuple[list[str], str]:
    default = "\t" if ".tsv" in file.name.lower() else ","
    header, mark = names_on_first_line(content, Path(file.name), form, default)
    require_names(header, Path(file.name))
    return header, mark


def _slots(header: list[str], names: list[str]) -> NDArray[np.int64]:
    """For each column of the file, which of the wanted ones it is; −1 for none."""
    slots = np.full(len(header), -1, np.int64)
    for slot, name in enumerate(names):
        slots[header.index(name)] = slot
    return slots


@contextmanager
def _content(file: DataFile) -> Iterator[IO[bytes]]:
    """A file's content, unpacked."""
    try:
        with file.open() as opened:
            if file.name.lower().endswith(".gz"):
                with gzip.open(opened) as unpacked:
                    yield unpacked  # type: ignore[misc]
            else:
                yield opened
    except InvalidInput:
        raise
    except file.failures as problem:
        raise InvalidInput(f"{file.name!r} cannot be read: {type(problem).__name__}. Nothing was released.") from None


def _counted(content: IO[bytes]) -> tuple[int, NDArray[np.int64]]:
    """The number of lines from here on, and where every `_NOTED`-th begins; the last may lack its line feed."""
    place = content.tell()
    rows, noted, whole = 0, [place], True
    while piece := content.read(_PIECE):
        ends = np.flatnonzero(np.frombuffer(piece, np.uint8) == 10)
        begun = rows + 1 + np.arange(len(ends))  # the number of the row that begins after each
        noted += (place + 1 + ends[begun % _NOTED == 0]).tolist()
        rows, place, whole = rows + len(ends), place + len(piece), piece.endswith(b"\n")
    rows += not whole
    return rows, np.array([*noted[: -(-rows // _NOTED)], place], np.int64)


class _Lines:
    """Lines of files by their numbers, each file being read forward."""

    def __init__(self) -> None:
        self._known: _File | None = None
        self._opened: Any = None
        self._content: IO[bytes] | None = None

    def between(self, known: _File, low: int, high: int) -> bytes:
        """The lines from ``low`` on, up to ``high``."""
        if self._known is not known:
            self.close()
            known.file.require_unchanged(known.stamp)
            self._opened, self._known = _content(known.file), known
            self._content = self._opened.__enter__()
        assert self._content is not None
        begin, end = known.noted[low // _NOTED], known.noted[-(-high // _NOTED)]
        try:
            self._content.seek(begin)
            text = self._content.read(end - begin)
        except known.file.failures as problem:
            raise InvalidInput(f"{known.file.name!r} cannot be read: {type(problem).__name__}.") from None
        skip, count = low % _NOTED, high - low
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == 10) + 1
        first = int(ends[skip - 1]) if skip else 0
        last = int(ends[skip + count - 1]) if skip + count <= len(ends) else len(text)
        return text[first:last]

    def close(self) -> None:
        """Close the file that is open."""
        if self._opened is not None:
            self._opened.__exit__(None, None, None)
        self._known = self._opened = self._content = None
