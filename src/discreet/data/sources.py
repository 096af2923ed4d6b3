"""Tables that are read piece by piece: what streaming and clusters ask of files and frames."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from discreet.data.cells import read_floats
from discreet.data.columns import Column, Ignore, Numeric, Person
from discreet.data.files import DataFile
from discreet.data.frames import Table, wanted_columns
from discreet.data.repeated import Repeated
from discreet.errors import InvalidInput

__all__ = ["Source", "TableOf", "Wanted", "constant_column", "cut", "declared_kinds", "row_ranges"]

P = TypeVar("P")
TableOf = Callable[[], Table]
"""Makes a table from what was read; called on any core."""
Wanted = Sequence[tuple[int, int, int]]
"""(number, first row, row after the last) of runs, rising."""


class Source(Protocol):
    """A table whose rows are numbered, and read by runs of them. It can be sent to another process."""

    @property
    def n(self) -> int:
        """The number of rows."""
        ...

    def tables(self, wanted: Wanted) -> Iterator[tuple[int, TableOf]]:
        """For each run, in order, its number and what makes its table; no more of the files is read than is needed."""
        ...

    def ids(self, name: str) -> Iterator[list[Any]]:
        """All cells of the column that says whose a row is, some after others."""
        ...


def declared_kinds(
    file: DataFile, found: Sequence[str], schema: Mapping[str, Column], target: str
) -> tuple[dict[str, bool], str | None]:
    """The columns to read of a file, with whether they are numbers, and the column of ids.

    Partitions are columns, too.

    Raises:
        InvalidInput: a column is missing, or unknown to the schema; it names the file.
    """
    folders = [name for name, _ in file.partition if name in schema and name not in found]
    columns = [name for name, column in schema.items() if not isinstance(column, Ignore)]
    if target not in schema:
        raise InvalidInput(f"the schema has no column {target!r}, which is to be predicted. Nothing was released.")
    try:
        kinds = wanted_columns([*found, *folders], schema, columns)
    except InvalidInput as problem:
        raise InvalidInput(f"{file.name!r}: {problem}") from None
    ids = next((name for name, column in schema.items() if isinstance(column, Person)), None)
    return {name: kind for name, kind in kinds.items() if name != ids}, ids


def constant_column(values: Sequence[str | None], column: Column, rows: Sequence[int]) -> Any:
    """Values of partitions, each for so many rows, as a reader of a file would give them."""
    if isinstance(column, Numeric):
        return np.repeat(read_floats(values), rows)
    return Repeated(values, np.repeat(np.arange(len(values)), rows))


def row_ranges(wanted: Wanted) -> list[tuple[int, int]]:
    """The rows of runs, neighbours joined."""
    joined: list[tuple[int, int]] = []
    for _, first, last in wanted:
        if joined and joined[-1][1] == first:
            joined[-1] = (joined[-1][0], last)
        elif last > first:
            joined.append((first, last))
    return joined


def cut(
    pieces: Iterable[tuple[int, int, P]], wanted: Wanted, part: Callable[[P, int, int], P]
) -> Iterator[tuple[int, list[P]]]:
    """Cut consecutive pieces of a table at the edges of runs.

    Args:
        pieces: (first row, row after the last, piece), rising; rows that no run wants may be missing.
        wanted: the runs.
        part: rows of a piece, from and to which of its own.

    Yields:
        The number of each run, and its pieces.
    """
    queue, begun = deque(wanted), list[P]()
    for start, stop, piece in pieces:
        while queue and queue[0][1] < stop:
            number, first, last = queue[0]
            low, high = max(first, start), min(last, stop)
            if low < high:
                begun.append(part(piece, low - start, high - start))
            if last > stop:
                break
            queue.popleft()
            yield number, begun
            begun = []
    if queue or begun:
        raise InvalidInput("a file has fewer rows than it had when it was opened.")
