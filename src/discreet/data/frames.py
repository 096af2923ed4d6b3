"""Tables of any make as named columns: pandas, Polars, Arrow, numpy, scipy.sparse, mappings, CSV and Parquet files.

Column names, the types that columns declare and the number of columns are public; what is in a cell is not. So this
module raises for the former only. Files are read as text, without guessing types: a guess would depend on the rows, and
the schema knows better. A row is a physical line of a text file (`discreet.data.lines`), a record of a Parquet file, a
row of a frame or matrix, a position in a mapping's columns.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.data.cells import column_cells, untyped
from discreet.data.lines import cells_of_line, decoded, has_open_quote, rows_of, split_lines
from discreet.errors import InvalidInput

__all__ = ["Table", "as_table", "has_column_names", "read_table"]

Cells = npt.NDArray[Any]


class Table(Mapping[str, Cells]):
    """Named columns of equal length.

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

    def __getitem__(self, name: str) -> Cells:
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
        return Table({name: cells[rows] for name, cells in self.items()})

    def drop(self, *names: str) -> Table:
        """The table without some columns."""
        return Table({name: cells for name, cells in self.items() if name not in names})

    def __repr__(self) -> str:
        return f"Table({self.shape[0]} rows; {', '.join(self._columns)})"


def has_column_names(data: Any) -> bool:
    """Whether ``data`` is a table of named columns rather than a plain matrix."""
    # a scipy dictionary-of-keys matrix is a mapping too, but not of columns
    return (isinstance(data, Mapping) and not hasattr(data, "tocsr")) or _is_frame(data)


def as_table(data: Any, names: Sequence[str] | None = None, *, skip: Collection[str] = ()) -> Table:
    """Any supported table as a `Table`.

    Args:
        data: a pandas, Polars or Arrow frame, a mapping from names to columns, or a matrix (numpy, scipy, lists).
        names: the names of a matrix's columns.
        skip: columns that are not needed.

    Raises:
        InvalidInput: not a table, or a matrix whose columns are not as many as the names.
    """
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
        array = untyped(data)
        if array.ndim != 2:
            raise InvalidInput(f"expected a table of two dimensions, got {array.ndim} ({type(data).__name__}).")
        columns = list(array.T)
    if names is None:
        names = [f"x{j}" for j in range(len(columns))]
    if len(columns) != len(names):
        raise InvalidInput(f"the matrix has {len(columns)} columns, but {len(names)} are declared: {', '.join(names)}.")
    return Table({name: column for name, column in zip(names, columns, strict=True) if name not in skip})


def _cells(values: Iterable[Any]) -> Cells:
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise InvalidInput(f"a column has one dimension, got {values.ndim}.")
        return column_cells(values)
    if hasattr(values, "dtype") or type(values).__module__.split(".")[0] == "pyarrow":
        return _cells(column_cells(values))
    cells = list(values)
    return np.fromiter(cells, dtype=object, count=len(cells))  # np.array would unpack cells that are lists


def read_table(path: str | Path, names: Sequence[str] | None = None) -> Table:
    """Read a CSV (``.csv``, ``.tsv``, ``.txt``, ``.data``, or those with ``.gz``) or Parquet file.

    Each physical line of a text file is a row, a blank line too; quoted cells end with their line. No cell makes it
    fail: short lines are missing their last cells, long lines lose what is too much, bytes that are not UTF-8 are
    replaced.

    Args:
        path: the file.
        names: the columns' names when the file has no line of names.

    Raises:
        InvalidInput: no such file, an unknown kind, damaged compression, or a first line that does not name columns.
    """
    path = Path(path)
    if not path.is_file():
        raise InvalidInput(f"there is no file {str(path)!r}.")
    kinds = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    kind = kinds[-1] if kinds else ""
    if kind in (".parquet", ".pq"):
        return _parquet(path)
    if kind in (".csv", ".data", ".test", ".tsv", ".txt"):
        text = decoded(_content(path), header=names is None)
        return _delimited(split_lines(text), names, path, delimiter="\t" if kind == ".tsv" else ",")
    raise InvalidInput(f"{path.name!r} is neither .csv, .tsv nor .parquet.")


def _content(path: Path) -> bytes:
    try:
        if path.suffix.lower() == ".gz":
            with gzip.open(path) as file:
                return file.read()
        return path.read_bytes()
    except (OSError, EOFError, zlib.error) as problem:
        raise InvalidInput(f"{path.name!r} cannot be read: {type(problem).__name__}. Nothing was released.") from None


def _delimited(lines: list[str], names: Sequence[str] | None, path: Path, delimiter: str) -> Table:
    header = [name.strip() for name in (_header(lines[:1], path, delimiter) if names is None else names)]
    missing = not header or "" in header
    if missing or len(set(header)) < len(header):
        raise InvalidInput(  # without showing any: in a file without names, the first line is somebody's
            f"the first line of {path.name!r} must name the columns, each once; "
            + ("a name is missing." if missing else "a name comes more than once.")
        )
    width = len(header)
    flat = list(chain.from_iterable(rows_of(lines[names is None :], delimiter, width)))
    return Table({name: flat[j::width] for j, name in enumerate(header)})


def _header(first: list[str], path: Path, delimiter: str) -> list[str]:
    """The names of the first line, which is public, and so is whether it can be one."""
    if not first:
        return []
    if "\r" in first[0]:
        raise InvalidInput(f"lines of {path.name!r} end in carriage returns alone: save it with line feeds.")
    if has_open_quote(first[0], delimiter):
        raise InvalidInput(f"the first line of {path.name!r} has a quote that it does not close; names take one line.")
    return cells_of_line(first[0], delimiter)


def _parquet(path: Path) -> Table:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise InvalidInput("reading Parquet needs pyarrow: pip install 'discreet[parquet]'.") from None
    try:
        table = parquet.read_table(path)
    except (OSError, ValueError, ArrowException) as problem:  # about the file's structure: cells are not looked at yet
        raise InvalidInput(f"{path.name!r} cannot be read as Parquet: {type(problem).__name__}.") from None
    return as_table(table)
