"""Parquet files of one table, streamed row group by row group.

A row is a record. Files are one table in the order of their paths; all must have the declared columns, of the same
kinds. What a row group holds decides nothing about how another is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from discreet.data.columns import Column
from discreet.data.delimited import require_names
from discreet.data.files import DataFile
from discreet.data.frames import Table
from discreet.data.records import NO_KIND, GrowingColumn, is_text, kind_of_cells, missing_cells, require_cells
from discreet.data.sources import TableOf, Wanted, constant_column, cut, declared_kinds, row_ranges
from discreet.errors import InvalidInput

__all__ = ["ParquetSource", "parquet_names"]

_BATCH_ROWS, _BATCH_CELLS = 1 << 16, 1 << 20
"""Most rows, and about the most cells, that are decoded at a time: a large row group is never in memory as a whole."""
_READ, _LEAST_READ = 1 << 23, 1 << 16
"""Bytes that are read ahead of all columns together, and the least of each."""
_FETCHED = 1 << 28
"""Bytes of a row group of a url that is fetched as a whole: its columns one after another would be many requests."""


@dataclass(frozen=True)
class _File:
    file: DataFile
    stamp: tuple[Any, ...]
    first: int  # row of the table
    groups: tuple[int, ...]  # rows of each row group
    kinds: dict[str, bool]
    kind_of: dict[str, str]
    text: tuple[str, ...]
    largest: int  # bytes of the largest row group


class ParquetSource:
    """Opened Parquet files: all footers have been read, no cell has.

    Args:
        files: the files, whose rows follow each other.
        schema: the declared columns.
        target: the column to predict.

    Raises:
        InvalidInput: a file cannot be read, lacks a column, or has one of another kind than the first file.
    """

    def __init__(self, files: list[DataFile], schema: Mapping[str, Column], target: str) -> None:
        self.schema, self.target = dict(schema), target
        self.files: list[_File] = []
        self._kinds: dict[str, tuple[str, str]] = {}  # of each column, and the first file that says it
        self.n = 0
        for file in files:
            opened = self._opened(file)
            self.files.append(opened)
            self.n += sum(opened.groups)

    def _opened(self, file: DataFile) -> _File:
        stamp = file.stamp()
        with _parquet(file) as opened:
            arrow, metadata = opened.schema_arrow, opened.metadata
            names = list(arrow.names)
            found = [metadata.row_group(k) for k in range(metadata.num_row_groups)]
            groups = tuple(group.num_rows for group in found)
            largest = max((group.total_byte_size for group in found), default=0)
            text = tuple(field.name for field in arrow if is_text(field.type))
        require_names(names, Path(file.name))
        kinds, ids = declared_kinds(file, names, self.schema, self.target)
        read = [*kinds, *([ids] if ids else [])]
        there = [name for name in read if name in names]
        for name in there:
            require_cells(file.name, name, arrow.field(name).type)
        kind_of = {name: kind_of_cells(arrow.field(name).type) for name in there}
        self._require_same(file, kinds, kind_of)
        return _File(file, stamp, self.n, groups, kinds, kind_of, text, largest)

    def _require_same(self, file: DataFile, kinds: Mapping[str, bool], kind_of: Mapping[str, str]) -> None:
        """Refuse a file whose columns are of other kinds than those of the files before; types are public.

        A column without a type, of which every cell is missing, may be of any kind.
        """
        for name, kind in kind_of.items():
            if kind == NO_KIND:
                continue
            before, first = self._kinds.setdefault(name, (kind, file.name))
            if before != kind:
                raise InvalidInput(
                    f"column {name!r} is {before} in {first!r} and {kind} in {file.name!r}: files of one table have "
                    "the same columns. Nothing was released."
                )
        if self.files and (set(kinds) != set(self.files[0].kinds) or set(kind_of) != set(self.files[0].kind_of)):
            raise InvalidInput(
                f"{file.name!r} has other columns than {self.files[0].file.name!r}: files of one table have the same "
                "columns. Nothing was released."
            )

    def tables(self, wanted: Wanted) -> Iterator[tuple[int, TableOf]]:
        """For each run, in order, its number and what makes its table."""
        for number, pieces in cut(self._batches(wanted), wanted, _slice):
            yield number, partial(self._table, pieces)

    def _batches(self, wanted: Wanted, names: list[str] | None = None) -> Iterator[tuple[int, int, Any]]:
        """Decoded rows of the row groups that runs have rows of."""
        ranges = np.array(row_ranges(wanted), np.int64).reshape(-1, 2)
        for number, known in enumerate(self.files):
            edges = known.first + np.concatenate([[0], np.cumsum(known.groups)]).astype(np.int64)
            before = np.searchsorted(ranges[:, 0], edges[1:])  # ranges that begin before a group ends; they are rising
            ends = np.concatenate([[0], ranges[:, 1]])[before]
            needed = np.flatnonzero((before > 0) & (ends > edges[:-1])).tolist()
            if not needed:
                continue
            known.file.require_unchanged(known.stamp)
            columns = [name for name in names or known.kinds if name in known.kind_of]
            rows = max(1, min(_BATCH_ROWS, _BATCH_CELLS // max(1, len(columns))))
            with _parquet(known.file, known.text, known.largest, len(columns)) as opened:
                for group in needed:
                    start = int(edges[group])
                    if not columns:  # all that is asked for is in the names of the folders
                        yield start, int(edges[group + 1]), (number, int(edges[group + 1]) - start)
                        continue
                    for batch in opened.iter_batches(rows, row_groups=[group], columns=columns):
                        yield start, start + batch.num_rows, (number, batch)
                        start += batch.num_rows

    def _table(self, pieces: list[tuple[int, Any]]) -> Table:
        rows = sum(_rows(batch) for _, batch in pieces)
        columns: dict[str, Any] = {}
        for name, numeric in self.files[0].kinds.items():
            if name not in self.files[0].kind_of:
                columns[name] = self._partition(name, pieces)
                continue
            growing = GrowingColumn(numeric, rows)
            for _, batch in pieces:
                growing.add(self._cells(batch, name))
            columns[name] = growing.joined()
        return Table(columns)

    def _cells(self, batch: Any, name: str) -> Any:
        """A column of a batch; where it has no type, missing cells of the kind that it has in other files."""
        cells = batch.column(batch.schema.get_field_index(name))
        kind = kind_of_cells(cells.type)
        return missing_cells(len(cells), self._kinds.get(name, (kind,))[0]) if kind == NO_KIND else cells

    def _partition(self, name: str, pieces: list[tuple[int, Any]]) -> Any:
        """A column that the names of folders hold."""
        values = [dict(self.files[number].file.partition)[name] for number, _ in pieces]
        return constant_column(values, self.schema[name], [_rows(batch) for _, batch in pieces])

    def ids(self, name: str) -> Iterator[list[Any]]:
        """All cells of the column that says whose a row is, batch by batch."""
        for _, _, (number, batch) in self._batches([(0, 0, self.n)], [name]):
            if name in self.files[number].kind_of:
                growing = GrowingColumn(False, batch.num_rows, True)
                growing.add(self._cells(batch, name))
                yield np.asarray(growing.joined()).tolist()
            else:
                yield [dict(self.files[number].file.partition)[name]] * batch


def parquet_names(file: DataFile) -> tuple[str, ...]:
    """The names of a file's columns."""
    with _parquet(file) as opened:
        names = tuple(opened.schema_arrow.names)
    require_names(names, Path(file.name))
    return names


def _slice(piece: tuple[int, Any], first: int, last: int) -> tuple[int, Any]:
    number, batch = piece
    return number, last - first if isinstance(batch, int) else batch.slice(first, last - first)


def _rows(batch: Any) -> int:
    return batch if isinstance(batch, int) else int(batch.num_rows)


@contextmanager
def _parquet(file: DataFile, text: tuple[str, ...] = (), largest: int = 0, columns: int = 1) -> Iterator[Any]:
    """The opened file.

    Args:
        file: where it is.
        text: columns of text, whose different cells are read once.
        largest: bytes of its largest row group.
        columns: how many will be read.
    """
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise InvalidInput("reading Parquet files needs pyarrow: pip install 'discreet[parquet]'.") from None
    settings = {
        "page_checksum_verification": True,  # not mapped: what is mapped counts as memory
        "pre_buffer": not file.local and largest <= _FETCHED,
        "buffer_size": max((_READ if file.local else _FETCHED) // max(1, columns), _LEAST_READ),
    }
    try:
        source: Any = file.path if file.local else file.open()
        with parquet.ParquetFile(source, read_dictionary=list(text), **settings) as opened:
            yield opened
    except InvalidInput:
        raise
    except (*file.failures, ValueError, ArrowException) as problem:  # about the file's structure, not about a cell
        raise InvalidInput(
            f"{file.name!r} cannot be read as Parquet, it is damaged or another kind of file: {type(problem).__name__}."
        ) from None
