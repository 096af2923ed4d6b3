"""CSV and other delimited text files, read in blocks of whole lines by the columns' declared kinds.

What is a row and what is a cell is said in `discreet.data.lines`. A block is cut at a line feed, so it holds whole
lines, and nothing of one block decides how another is read. Columns that nobody asked for are skipped; numbers become
float64 at once, other cells are held once each (`Repeated`). So memory is that of the wanted columns and of a few
blocks, and cores work on different blocks.
"""

from __future__ import annotations

import gzip
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from discreet.data.cells import read_floats
from discreet.data.lines import cells_of_line, has_open_quote, text_of_header
from discreet.data.repeated import Repeated, numbered
from discreet.data.threads import cores
from discreet.errors import InvalidInput

__all__ = [
    "ColumnParts",
    "Delimited",
    "Notify",
    "names_on_first_line",
    "read_delimited",
    "read_header",
    "read_lines",
    "require_names",
]

Notify: TypeAlias = Callable[[float, int], None]
"""Called with (share of the file that was read, rows so far) after each block of rows."""

_BLOCK = 1 << 23
"""Bytes of a block: large enough that few calls are made, small enough that all blocks at work fit beside the rows."""
_MARKS = ";\t|,"
"""Separators that a first line with none of the expected ones may have instead, the commonest first."""


@dataclass(frozen=True)
class Delimited:
    """How cells are separated and numbers are written.

    Args:
        separator: one ASCII character; None for a comma, unless the first line tells that it is another.
        decimal: the decimal point of numeric columns, "." or ",".

    Raises:
        InvalidInput: a separator that is a quote, a blank, a line end, a letter, a digit or not one ASCII character;
            another decimal point; both the same.
    """

    separator: str | None = None
    decimal: str = "."

    def __post_init__(self) -> None:
        mark = self.separator
        if mark is not None and not (len(mark) == 1 and mark.isascii() and not mark.isalnum() and mark not in '" \r\n'):
            raise InvalidInput(
                f"the separator must be one character such as ',', ';', '|' or a tab, got {mark!r}; columns that are "
                "separated by blanks must be written anew."
            )
        if self.decimal not in (".", ","):
            raise InvalidInput(f"the decimal point must be '.' or ',', got {self.decimal!r}.")
        if mark is not None:
            self.over(mark)

    def over(self, default: str) -> str:
        """The separator, or the default where none was declared."""
        mark = self.separator or default
        if mark == self.decimal:
            raise InvalidInput(
                f"numbers with a decimal {mark!r} need another separator: give --separator ';' (separator=';' in "
                "Python), or what separates the columns. Nothing was released."
            )
        return mark


@contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """The file's content, unpacked, and the file itself, whose place tells how much has been read."""
    try:
        with path.open("rb") as file:
            if path.suffix.lower() == ".gz":
                with gzip.open(file) as content:
                    yield content, file  # type: ignore[misc]
            else:
                yield file, file
    except (OSError, EOFError, zlib.error) as problem:
        raise InvalidInput(f"{path.name!r} cannot be read: {type(problem).__name__}. Nothing was released.") from None


def read_header(path: Path, form: Delimited, default: str) -> list[str]:
    """The columns' names on the first line, which are public."""
    with _opened(path) as (content, _):
        return names_on_first_line(content, path, form, default)[0]


def names_on_first_line(content: IO[bytes], path: Path, form: Delimited, default: str) -> tuple[list[str], str]:
    """The names, and the separator between them."""
    first = text_of_header(content.readline())
    mark = form.over(default)
    if "\r" in first:
        raise InvalidInput(f"lines of {path.name!r} end in carriage returns alone: save it with line feeds.")
    if has_open_quote(first, mark):
        raise InvalidInput(f"the first line of {path.name!r} has a quote that it does not close; names take one line.")
    header = [name.strip() for name in cells_of_line(first, mark)] if first else []
    if form.separator is None and len(header) == 1:
        others = [other for other in _MARKS if other in first and other != mark]
        if others:  # without showing the line: in a file without names it is somebody's
            shown = "a tab" if others[0] == "\t" else repr(others[0])
            given = "'\\t'" if others[0] == "\t" else f"'{others[0]}'"
            raise InvalidInput(
                f"the first line of {path.name!r} has no {mark!r}, but {shown} in it: if that separates the columns, "
                f"give --separator {given} (separator={given} in Python). Nothing was released."
            )
    return header, mark


def require_names(header: Sequence[str], path: Path) -> None:
    """Refuse names that are missing or come twice; without showing any, for they may be somebody's."""
    missing = not header or "" in header
    if missing or len(set(header)) < len(header):
        raise InvalidInput(
            f"the first line of {path.name!r} must name the columns, each once; "
            + ("a name is missing." if missing else "a name comes more than once.")
        )


def read_delimited(
    path: Path,
    form: Delimited,
    default: str,
    names: Sequence[str] | None,
    wanted: Callable[[Sequence[str]], Mapping[str, bool]],
    notify: Notify | None = None,
) -> dict[str, npt.NDArray[np.float64] | Repeated]:
    """Read some columns of a file.

    Args:
        path: the file.
        form: separator and decimal point.
        default: the separator where none was declared.
        names: the columns' names when the file has no line of names.
        wanted: from all names to those of the columns to read, with whether they are numbers.
        notify: told how far the reading is.
    """
    with _opened(path) as (content, file):
        size = max(1, path.stat().st_size)
        if names is None:
            header, mark = names_on_first_line(content, path, form, default)
            require_names(header, path)
        else:
            header, mark = [name.strip() for name in names], form.over(default)
            require_names(header, path)
        columns = dict(wanted(header))
        parts = ColumnParts(columns)
        slots = np.full(len(header), -1, dtype=np.int64)
        for slot, name in enumerate(columns):
            slots[header.index(name)] = slot
        with ThreadPoolExecutor(cores(), thread_name_prefix="discreet-reading") as pool:
            due: deque[Future[Any]] = deque()
            for block in _blocks(content, names is not None):
                due.append(pool.submit(read_lines, block, mark, form.decimal, slots, tuple(columns.values())))
                if len(due) > cores():
                    parts.add(due.popleft().result())
                    if notify:
                        notify(min(1.0, file.tell() / size), parts.rows)
            while due:
                parts.add(due.popleft().result())
        if notify:
            notify(1.0, parts.rows)
    return parts.joined()


def _blocks(content: IO[bytes], first_is_a_row: bool) -> Iterator[bytes]:
    """Whole lines; the last may lack its line feed."""
    begun: list[bytes] = []
    first = first_is_a_row
    while piece := content.read(_BLOCK):
        if first:
            piece, first = piece.removeprefix(b"\xef\xbb\xbf"), False
        cut = piece.rfind(b"\n") + 1
        if cut:
            yield b"".join([*begun, piece[:cut]])
            begun = []
        begun.append(piece[cut:])
    if any(begun):
        yield b"".join(begun)


Part: TypeAlias = tuple[int, list[Any]]


def read_lines(
    block: bytes, separator: str, decimal: str, slots: npt.NDArray[np.int64], numbers: tuple[bool, ...]
) -> Part:
    """The number of rows of a block, and for each column its numbers or its different cells and which row has which."""
    from discreet.data.decimals import read_decimals
    from discreet.data.tokens import different_cells, place_cells

    places = place_cells(block, separator, slots, len(numbers))
    found: list[Any] = []
    for column, numeric in enumerate(numbers):
        if not numeric:
            found.append(different_cells(places, column))
            continue
        starts, ends, quoted = places.starts[column], places.ends[column], places.quoted[column]
        values, doubtful = read_decimals(places.text, starts, ends, quoted, decimal)
        doubtful = doubtful[quoted[doubtful] | (ends[doubtful] > starts[doubtful])]  # an empty cell is missing
        if len(doubtful):
            cells = places.cells(column, doubtful)
            values[doubtful] = read_floats(cells if decimal == "." else [_with_point(cell) for cell in cells])
        found.append(values)
    return places.starts.shape[1] if numbers else block.count(b"\n") + (not block.endswith(b"\n")), found


def _with_point(cell: str) -> str:
    """A number with a decimal comma in Python's notation; a point would separate thousands, and is no number."""
    return "" if "." in cell else cell.replace(",", ".")


class ColumnParts:
    """Columns as they grow, block by block."""

    def __init__(self, columns: Mapping[str, bool]) -> None:
        self.rows = 0
        self._pieces: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in columns}
        self._known: list[dict[str, int] | None] = [None if numeric else {} for numeric in columns.values()]

    def add(self, part: Part) -> None:
        """Take the columns of a block, in the order of the names."""
        rows, columns = part
        self.rows += rows
        for pieces, known, column in zip(self._pieces.values(), self._known, columns, strict=True):
            if known is None:
                pieces.append(column)
            else:
                cells, which = column
                pieces.append(numbered(cells, known)[which])

    def joined(self) -> dict[str, npt.NDArray[np.float64] | Repeated]:
        """The whole columns; parts are let go one by one."""
        whole: dict[str, npt.NDArray[np.float64] | Repeated] = {}
        for (name, pieces), known in zip(self._pieces.items(), self._known, strict=True):
            kind = np.float64 if known is None else np.int32
            column: npt.NDArray[Any] = np.concatenate(pieces) if pieces else np.empty(0, dtype=kind)
            pieces.clear()
            whole[name] = column if known is None else Repeated(list(known), column)
        return whole
