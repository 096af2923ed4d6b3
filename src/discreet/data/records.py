"""Files of typed records, read by the columns' declared kinds: Parquet, Feather (Arrow) and Excel.

A row is a record, or a row of the first sheet. What a record holds decides nothing about others: columns are read cell
by cell (`discreet.data.cells`), and a file that is damaged is refused as a whole.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from discreet.data.cells import column_cells, read_floats
from discreet.data.delimited import Notify, require_names
from discreet.data.repeated import FEW, Repeated, numbered
from discreet.errors import InvalidInput

__all__ = [
    "NO_KIND",
    "GrowingColumn",
    "is_records",
    "is_text",
    "kind_of_cells",
    "missing_cells",
    "read_records",
    "record_names",
    "require_cells",
]

Wanted: TypeAlias = Callable[[Sequence[str]], Mapping[str, bool]]
"""From all names to those of the columns to read, with whether they are numbers."""
Batches: TypeAlias = Callable[[list[str]], Iterator[tuple[Any, float, int]]]

NO_KIND = "null"
"""The kind of a column that has no type, because every cell is missing."""
_READABLE = ("numbers", "text", "truth values", NO_KIND)
_PARQUET, _FEATHER, _EXCEL = (".parquet", ".pq"), (".feather", ".arrow"), (".xlsx", ".xlsm")


def is_records(kind: str) -> bool:
    """Whether files of this ending hold records."""
    return kind in (*_PARQUET, *_FEATHER, *_EXCEL)


def record_names(path: Path, kind: str) -> list[str]:
    """The names of the columns."""
    if kind in _EXCEL:
        with _sheet(path) as rows:
            return _first_row(rows)
    with _arrow(path, kind) as (names, _, _):
        return names


def read_records(
    path: Path,
    kind: str,
    wanted: Wanted,
    notify: Notify | None = None,
    ids: Collection[str] = (),
    *,
    declared: bool = False,
) -> dict[str, Any]:
    """Read some columns of a file of records; those of ``ids`` cell by cell, never by way of floats.

    Columns that were ``declared`` must be of types whose cells can be read.
    """
    if kind in _EXCEL:
        return _excel(path, wanted)
    with _arrow(path, kind) as (names, total, batches):
        require_names(names, path)
        columns = dict(wanted(names))
        growing = {name: GrowingColumn(numeric, total, name in ids) for name, numeric in columns.items()}
        for batch, share, rows in batches(list(columns)):
            for name, column in growing.items():
                cells = batch.column(batch.schema.get_field_index(name))
                if declared:
                    require_cells(path.name, name, cells.type)
                column.add(cells)
            if notify:
                notify(share, rows)
    return {name: column.joined() for name, column in growing.items()}


class GrowingColumn:
    """A column that grows batch by batch: numbers, numbers of different cells, or cells as they are.

    Args:
        numeric: whether its cells are numbers.
        rows: how many there will be, where that is known: then nothing is copied twice.
        exact: whether cells stay as they are: with a missing cell among them whole numbers would become floats, in
            which long ones are equal.
    """

    def __init__(self, numeric: bool, rows: int, exact: bool = False) -> None:
        self.numeric, self.exact, self._filled = numeric, exact, 0
        self._whole: Any = np.empty(rows, dtype=np.float64 if numeric else np.uint8)
        self._cells: list[Any] = []
        self._known: dict[Any, int] = {}

    def add(self, cells: Any) -> None:
        """Take the cells of a batch, an Arrow array."""
        if self.numeric:
            numbers = column_cells(cells)
            self._append(numbers if numbers.dtype.kind in "biuf" else read_floats(numbers))
        elif is_text(cells.type):
            self._append(self._coded(cells))
        elif self.exact and _is_whole(cells.type):
            self._cells.append(np.fromiter(cells.to_pylist(), dtype=object, count=len(cells)))
        elif _is_whole(cells.type) or _is_truth(cells.type):
            # as floats, with a missing cell or without: the type of the column must not tell whether there is one
            self._cells.append(read_floats(column_cells(cells)))
        else:
            self._cells.append(column_cells(cells))

    def _append(self, values: Any) -> None:
        end = self._filled + len(values)
        if len(self._known) > FEW and self._whole.dtype == np.uint8:
            self._whole = self._whole.astype(np.int32)
        if end > len(self._whole):
            self._whole = np.concatenate([self._whole[: self._filled], np.empty(end, dtype=self._whole.dtype)])
        with np.errstate(all="ignore"):
            self._whole[self._filled : end] = values
        self._filled = end

    def _coded(self, cells: Any) -> Any:
        import pyarrow

        if not pyarrow.types.is_dictionary(cells.type):
            cells = cells.dictionary_encode()
        different = [*column_cells(cells.dictionary).tolist(), None]
        codes = numbered(different, self._known)
        places = cells.indices.cast(pyarrow.int64())  # a narrow type may have no room for one more
        return codes[np.asarray(places.fill_null(len(different) - 1))]

    def joined(self) -> Any:
        """The whole column."""
        if self._cells:
            return np.concatenate(self._cells)
        whole = self._whole[: self._filled]
        return whole if self.numeric else Repeated(list(self._known), whole)


def kind_of_cells(kind: Any) -> str:
    """What a column of an Arrow type holds, in a word; types are public."""
    from pyarrow import types

    inner = kind.value_type if types.is_dictionary(kind) else kind
    if is_text(kind) or str(inner) == "extension<arrow.uuid>":  # ids
        return "text"
    tests = (("truth values", types.is_boolean), ("dates", types.is_temporal), ("bytes", _is_bytes))
    for word, test in (*tests, (NO_KIND, types.is_null), ("lists or records", types.is_nested)):
        if test(inner):
            return word
    numbers = types.is_integer(inner) or types.is_floating(inner) or types.is_decimal(inner)
    return "numbers" if numbers else str(inner)


def require_cells(file: str, name: str, kind: Any) -> None:
    """Refuse a column of whose type no cell can be read, by its type alone, which is public.

    Args:
        file: the file's name.
        name: the column.
        kind: its Arrow type.

    Raises:
        InvalidInput: it holds dates, bytes, lists or records.
    """
    word = kind_of_cells(kind)
    if word not in _READABLE:
        raise InvalidInput(
            f"column {name!r} of {file!r} holds {word}, of which every cell would count as missing: write it as "
            "numbers or text, or declare it `ignore`. Nothing was released."
        )


def missing_cells(rows: int, kind: str) -> Any:
    """So many missing cells of a kind, as an Arrow array."""
    import pyarrow

    types = {"numbers": pyarrow.int64(), "text": pyarrow.string(), "truth values": pyarrow.bool_()}
    return pyarrow.nulls(rows, types.get(kind, pyarrow.null()))


def is_text(kind: Any) -> bool:
    """Whether an Arrow type is text, by itself or by a dictionary."""
    import pyarrow

    inner = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
    return bool(pyarrow.types.is_string(inner) or pyarrow.types.is_large_string(inner))


def _is_bytes(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))


def _is_truth(kind: Any) -> bool:
    import pyarrow

    return bool(pyarrow.types.is_boolean(kind))


def _is_whole(kind: Any) -> bool:
    import pyarrow

    inner = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
    return bool(pyarrow.types.is_integer(inner))


@contextmanager
def _arrow(path: Path, kind: str) -> Iterator[tuple[list[str], int, Batches]]:
    """The names of a file's columns, the number of rows (0: not known), and batches with share and rows so far."""
    try:
        from pyarrow import ArrowException, ipc, memory_map, parquet
    except ImportError:
        raise InvalidInput("reading Parquet and Feather needs pyarrow: pip install 'discreet[parquet]'.") from None
    try:
        if kind in _PARQUET:
            with parquet.ParquetFile(path) as file:
                schema = file.schema_arrow
            texts = [field.name for field in schema if is_text(field.type)]
            with parquet.ParquetFile(
                path, read_dictionary=texts, memory_map=True
            ) as file:  # the file holds their different cells
                yield list(schema.names), file.metadata.num_rows, lambda names: _parquet_batches(file, names)
        else:
            with memory_map(str(path)) as source, ipc.open_file(source) as reader:
                yield list(reader.schema.names), 0, lambda names: _feather_batches(reader, names)
    except (OSError, ValueError, ArrowException) as problem:  # about the file's structure, not about a cell
        if isinstance(problem, InvalidInput):
            raise
        what = "Parquet" if kind in _PARQUET else "Feather"
        raise InvalidInput(f"{path.name!r} cannot be read as {what}: {type(problem).__name__}.") from None


def _parquet_batches(file: Any, names: list[str]) -> Iterator[tuple[Any, float, int]]:
    rows, total = 0, max(1, file.metadata.num_rows)
    for group in range(file.num_row_groups):
        for batch in file.read_row_group(group, columns=names).to_batches():
            rows += batch.num_rows
            yield batch, rows / total, rows


def _feather_batches(reader: Any, names: list[str]) -> Iterator[tuple[Any, float, int]]:
    rows, total = 0, reader.num_record_batches
    for k in range(total):
        batch = reader.get_batch(k).select(names)
        rows += batch.num_rows
        yield batch, (k + 1) / total, rows


@contextmanager
def _sheet(path: Path) -> Iterator[Iterator[tuple[Any, ...]]]:
    """The rows of the first sheet. What the reader has to say about a cell is not shown."""
    try:
        import openpyxl
    except ImportError:
        raise InvalidInput("reading Excel files needs openpyxl: pip install 'discreet[excel]'.") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
            try:
                sheet = book.worksheets[0]
                sheet.reset_dimensions()  # what the file says of its size may be wrong
                yield sheet.iter_rows(values_only=True)
            finally:
                book.close()
    except InvalidInput:
        raise
    except Exception as problem:
        raise InvalidInput(f"{path.name!r} cannot be read as Excel: {type(problem).__name__}.") from None


def _first_row(rows: Iterator[tuple[Any, ...]]) -> list[str]:
    found = ["" if name is None else str(name).strip() for name in next(rows, ())]
    while found and found[-1] == "":
        found.pop()
    return found


def _excel(path: Path, wanted: Wanted) -> dict[str, Any]:
    with _sheet(path) as rows:
        names = _first_row(rows)
        require_names(names, path)
        columns = dict(wanted(names))
        places = [names.index(name) for name in columns]
        kept = [[row[j] if j < len(row) else None for j in places] for row in rows]
    cells = [np.fromiter((row[k] for row in kept), dtype=object, count=len(kept)) for k in range(len(places))]
    return {name: read_floats(c) if columns[name] else c for name, c in zip(columns, cells, strict=True)}
