"""Tables of any make as named columns: pandas, Polars, Arrow, numpy, scipy.sparse and mappings; files by `read_table`.

Column names, the types that columns declare and the number of columns are public; what is in a cell is not. So this
module raises for the former only. Files are read by the kinds that a schema declares, or as text, without guessing
types: a guess would depend on the rows. A row is a physical line of a text file (`discreet.data.lines`), a record of a
Parquet or Feather file, a row of a sheet, frame or matrix, a position in a mapping's columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.data.cells import column_cells, untyped
from discreet.data.columns import Column, Ignore, Numeric, Person
from discreet.data.delimited import Delimited, Notify, read_delimited, read_header, require_names
from discreet.data.records import is_records, read_records, record_names
from discreet.data.repeated import Repeated
from discreet.errors import InvalidInput

__all__ = [
    "NamedColumn",
    "Table",
    "as_table",
    "column_names",
    "column_names_of",
    "has_column_names",
    "read_table",
    "unknown_columns",
    "wanted_columns",
]

Cells = npt.NDArray[Any]


class NamedColumn(np.ndarray[Any, Any]):
    """A column that remembers its name, as a series does: so a schema's declaration of a target is found."""

    name: str | None

    def __array_finalize__(self, source: Any) -> None:
        """Keep the name in slices and copies."""
        self.name = getattr(source, "name", None)

    @classmethod
    def of(cls, table: Table, name: str, schema: Mapping[str, Column]) -> NamedColumn:
        """A column of a table; without it, the refusal names those columns only that the schema names."""
        if name not in table:
            there = ", ".join(column for column in schema if column in table)
            raise InvalidInput(
                f"the first line of the file has no column {name!r}; of the schema's columns it has {there or 'none'}."
            )
        return table[name]


class Table(Mapping[str, Cells]):
    """Named columns of equal length. A column keeps its name, so that it can be passed as y.

    Example:
        >>> table = Table({"age": [30, 41, 25], "job": ["clerk", "nurse", None]})
        >>> table.shape, table.take([0, 2])["job"].tolist()
        ((3, 2), ['clerk', None])
    """

    def __init__(self, columns: Mapping[str, Iterable[Any]]) -> None:
        self._columns = {str(name): _cells(values) for name, values in columns.items()}
        lengths = {name: len(cells) for name, cells in self._columns.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidInput("columns must have one length, as many cells as there are rows.")
        self._rows = next(iter(lengths.values()), 0)

    def __getitem__(self, name: str) -> NamedColumn:
        column = np.asarray(self._columns[name]).view(NamedColumn)
        column.name = name
        return column

    def cells(self, name: str) -> Cells | Repeated:
        """A column as it is held, which may be in less memory than an array takes."""
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self._columns)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._rows, len(self._columns)

    def take(self, rows: Any) -> Table:
        """The rows of a slice, mask or list of positions."""
        return Table({name: cells[rows] for name, cells in self._columns.items()})

    def drop(self, *names: str) -> Table:
        """The table without some columns."""
        return Table({name: cells for name, cells in self._columns.items() if name not in names})

    def __repr__(self) -> str:
        return f"Table({self.shape[0]} rows; {', '.join(self._columns)})"


def has_column_names(data: Any) -> bool:
    """Whether ``data`` is a table of named columns rather than a plain matrix."""
    # a scipy dictionary-of-keys matrix is a mapping too, but not of columns
    return (isinstance(data, Mapping) and not hasattr(data, "tocsr")) or _is_frame(data)


def column_names_of(data: Any) -> list[str]:
    """The names of a table's columns; no cell is looked at."""
    if isinstance(data, Mapping):
        return [str(name) for name in data]
    import narwhals

    return [str(name) for name in narwhals.from_native(data, eager_only=True).columns]


def as_table(data: Any, names: Sequence[str] | None = None, *, skip: Collection[str] = ()) -> Table:
    """Any supported table as a `Table`.

    Args:
        data: a pandas, Polars or Arrow frame, a mapping from names to columns, or a matrix (numpy, scipy, lists).
        names: the names of a matrix's columns.
        skip: columns that are not needed.

    Raises:
        InvalidInput: not a table, or a matrix whose columns are not as many as the names.
    """
    if isinstance(data, Table):
        return data.drop(*skip)
    if isinstance(data, Mapping):
        return Table({name: data[name] for name in data if name not in skip})
    if _is_frame(data):
        import narwhals

        frame = narwhals.from_native(data, eager_only=True)
        return Table({str(name): _series(frame.get_column(name)) for name in frame.columns if str(name) not in skip})
    return _matrix(data, names, skip)


def _series(series: Any) -> Cells:
    import narwhals

    if series.implementation.is_polars() and series.dtype == narwhals.String:  # lists are the quick way out for text
        return _cells(series.to_list())
    if series.implementation.is_pyarrow():
        return _cells(column_cells(series.to_native()))
    try:
        return _cells(series.to_numpy())
    except InvalidInput:
        raise
    except Exception:  # it may be about one cell; each by itself then
        return _cells(column_cells(series.to_native()))


def _is_frame(data: Any) -> bool:
    if isinstance(data, np.ndarray | list | tuple) or not hasattr(data, "columns"):
        return _is_arrow(data)
    import narwhals

    try:
        return isinstance(narwhals.from_native(data, eager_only=True, pass_through=True), narwhals.DataFrame)
    except narwhals.exceptions.DuplicateError as problem:
        raise InvalidInput(f"column names must differ: {problem}") from None


def _is_arrow(data: Any) -> bool:
    return type(data).__module__.split(".")[0] == "pyarrow" and hasattr(data, "column_names")


def _matrix(data: Any, names: Sequence[str] | None, skip: Collection[str]) -> Table:
    from scipy import sparse

    if sparse.issparse(data):
        matrix: Any = data
        matrix = matrix.tocsc()
        columns: list[Any] = [matrix[:, [j]].toarray().ravel() for j in range(matrix.shape[1])]
    else:
        try:
            array = untyped(data)
        except TypeError:
            raise InvalidInput(
                f"expected a table, got {type(data).__name__}. Files larger than memory are for linear models, "
                "evaluate and check: read others by read_table. Nothing was released."
            ) from None
        if array.ndim != 2:
            raise InvalidInput(f"expected a table of two dimensions, got {array.ndim} ({type(data).__name__}).")
        columns = list(array.T)
    if names is None:
        names = [f"x{j}" for j in range(len(columns))]
    if len(columns) != len(names):
        raise InvalidInput(f"the matrix has {len(columns)} columns, but {len(names)} are declared: {', '.join(names)}.")
    return Table({name: column for name, column in zip(names, columns, strict=True) if name not in skip})


def _cells(values: Iterable[Any]) -> Any:
    if isinstance(values, Repeated):
        return values
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise InvalidInput(f"a column has one dimension, got {values.ndim}.")
        return column_cells(values)
    if hasattr(values, "dtype") or type(values).__module__.split(".")[0] == "pyarrow":
        return _cells(column_cells(values))
    cells = list(values)
    return np.fromiter(cells, dtype=object, count=len(cells))  # np.array would unpack cells that are lists


_TEXT = {".csv": ",", ".data": ",", ".test": ",", ".txt": ",", ".tsv": "\t"}
"""Delimited text files by their ending, with the separator that is taken where none is declared."""


def read_table(
    path: str | Path,
    names: Sequence[str] | None = None,
    *,
    schema: Mapping[str, Column] | None = None,
    columns: Collection[str] | None = None,
    separator: str | None = None,
    decimal: str = ".",
    notify: Notify | None = None,
) -> Table:
    """Read a file: CSV (``.csv``, ``.tsv``, ``.txt``, ``.data``, or those with ``.gz``), Parquet, Feather or Excel.

    Each physical line of a text file is a row, a blank line too; quoted cells end with their line. No cell makes it
    fail: short lines are missing their last cells, long lines lose what is too much, bytes that are not UTF-8 are
    replaced.

    Args:
        path: the file.
        names: the columns' names when a text file has no line of names.
        schema: the declared columns. Those that it ignores are not read; numeric ones are read as numbers.
        columns: which columns to read; by default all, or with a schema all that it does not ignore.
        separator: what separates the cells of a text file; by default a comma, and a tab in ``.tsv``.
        decimal: the decimal point of the numeric columns of a text file, "." or ",".
        notify: called now and then with the share of the file that was read and the rows so far.

    Raises:
        InvalidInput: no such file, an unknown kind, damaged compression, a first line that does not name columns, a
            name that the schema does not know, or no column of a name in ``columns``.
    """
    path, form = Path(path), Delimited(separator, decimal)
    if decimal != "." and schema is None:
        raise InvalidInput(f"decimal={decimal!r} is about numeric columns: give the schema that declares them.")

    def wanted(found: Sequence[str]) -> dict[str, bool]:
        return wanted_columns(found, schema, columns)

    kind = _kind(path)
    if is_records(kind):
        ids = {name for name, column in (schema or {}).items() if isinstance(column, Person)}
        return Table(read_records(path, kind, wanted, notify, ids, declared=schema is not None))
    found: Mapping[str, Any] = read_delimited(path, form, _TEXT[kind], names, wanted, notify)
    return Table(found if schema is not None else {name: np.asarray(cells) for name, cells in found.items()})


def wanted_columns(
    found: Sequence[str], schema: Mapping[str, Column] | None, columns: Collection[str] | None
) -> dict[str, bool]:
    """The columns to read of a file that has ``found``, with whether they are numbers.

    Raises:
        InvalidInput: a name that the schema does not know, or no column of a name in ``columns``.
    """
    if schema is not None:
        unknown_columns(found, schema)
    ignored = {name for name, column in (schema or {}).items() if isinstance(column, Ignore)}
    chosen = [name for name in found if (name in columns if columns is not None else name not in ignored)]
    missing = [name for name in columns or () if name not in found]
    if missing:
        there = ", ".join(name for name in (schema or found) if name in found)
        raise InvalidInput(
            f"the first line of the file has no column {', '.join(map(repr, missing))}; of the schema's columns it "
            f"has {there or 'none'}. Nothing was released."
        )
    return {name: isinstance((schema or {}).get(name), Numeric) for name in chosen}


def column_names(path: str | Path, *, separator: str | None = None) -> tuple[str, ...]:
    """The names of a file's columns; nothing else of it is read.

    Raises:
        InvalidInput: as `read_table`.
    """
    path = Path(path)
    kind = _kind(path)
    found = record_names(path, kind) if is_records(kind) else read_header(path, Delimited(separator), _TEXT[kind])
    require_names(found, path)
    return tuple(found)


def unknown_columns(found: Iterable[str], schema: Mapping[str, Column], needed: Iterable[str] = ()) -> None:
    """Refuse a table by its columns' names, which are public.

    Args:
        found: the names.
        schema: the declared columns; all names must be among them.
        needed: columns that must be there.

    Raises:
        InvalidInput: a name is unknown to the schema, or a needed column is missing.
    """
    found = list(found)
    missing, unknown = [name for name in needed if name not in found], [name for name in found if name not in schema]
    if len(unknown) == len(found):  # what stands for names may be the first person of a file without them
        raise InvalidInput(
            f"the table has none of the schema's columns: {', '.join(map(repr, schema))}. Its first line must "
            "name them; it is not shown here, as it could be somebody's."
        )
    if missing or unknown:
        raise InvalidInput(
            (f"the table has no column {', '.join(map(repr, missing))}. " if missing else "")
            + (f"the schema does not know {', '.join(map(repr, unknown))}. " if unknown else "")
            + "Declare every column in the schema; those that are not to be used as `ignore`."
        )


def _kind(path: Path) -> str:
    """The kind of a file that is there, by its ending."""
    if not path.is_file():
        raise InvalidInput(f"there is no file {str(path)!r}.")
    kinds = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    kind = kinds[-1] if kinds else ""
    if kind not in _TEXT and not is_records(kind):
        raise InvalidInput(f"{path.name!r} is neither .csv, .tsv, .parquet, .feather nor .xlsx.")
    return kind
