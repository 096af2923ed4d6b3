"""Tables of any make as named columns: pandas, Polars, Arrow, numpy, scipy.sparse, mappings, CSV and Parquet files.

Column names and the number of columns are public; what is in a cell is not. So this module raises for the former only.
Files are read as text, without guessing types: a guess would depend on the rows, and the schema knows better.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from discreet.data.columns import untyped
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
        series = {str(name): frame.get_column(name) for name in frame.columns if str(name) not in skip}
        if frame.implementation.is_polars():  # where lists are the quick way out for text
            return Table({k: s.to_list() if s.dtype == narwhals.String else s.to_numpy() for k, s in series.items()})
        return Table({name: one.to_numpy() for name, one in series.items()})
    return _matrix(data, names, skip)


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
        return values
    cells = list(values)
    return np.fromiter(cells, dtype=object, count=len(cells))  # np.array would unpack cells that are lists


def read_table(path: str | Path, names: Sequence[str] | None = None) -> Table:
    """Read a CSV (``.csv``, ``.tsv``, ``.txt``, ``.data``, or those with ``.gz``) or Parquet file.

    No cell makes it fail: short lines are missing their last cells, long lines lose what is too much, bytes that are
    not UTF-8 are replaced.

    Args:
        path: the file.
        names: the columns' names when the file has no line of names.

    Raises:
        InvalidInput: no such file, an unknown kind, or names that are missing or not distinct.
    """
    path = Path(path)
    if not path.is_file():
        raise InvalidInput(f"there is no file {str(path)!r}.")
    kinds = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    kind = kinds[-1] if kinds else ""
    if kind in (".parquet", ".pq"):
        return _parquet(path)
    if kind in (".csv", ".data", ".test", ".tsv", ".txt"):
        with _open_text(path) as lines:
            return _csv(lines, names, path, delimiter="\t" if kind == ".tsv" else ",")
    raise InvalidInput(f"{path.name!r} is neither .csv, .tsv nor .parquet.")


def _open_text(path: Path) -> TextIO:
    # newline="" because quoted cells may contain line ends, which the csv module reads itself
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", errors="replace", newline="")
    return path.open(encoding="utf-8-sig", errors="replace", newline="")


def _csv(lines: TextIO, names: Sequence[str] | None, path: Path, delimiter: str) -> Table:
    limit = csv.field_size_limit(sys.maxsize)  # or one long cell would stop the reading
    try:
        reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
        header = [name.strip() for name in (next(reader, []) if names is None else names)]
        missing = not header or "" in header
        if missing or len(set(header)) < len(header):
            raise InvalidInput(  # without showing any: in a file without names, the first line is somebody's
                f"the first line of {path.name!r} must name the columns, each once; "
                + ("a name is missing." if missing else "a name comes more than once.")
            )
        width = len(header)
        rows = (row if len(row) == width else (row + [""] * width)[:width] for row in reader if row)
        flat = list(chain.from_iterable(rows))
    finally:
        csv.field_size_limit(limit)
    return Table({name: flat[j::width] for j, name in enumerate(header)})


def _parquet(path: Path) -> Table:
    try:
        from pyarrow import parquet
    except ImportError:
        raise InvalidInput("reading Parquet needs pyarrow: pip install 'discreet[parquet]'.") from None
    try:
        return as_table(parquet.read_table(path))
    except (OSError, ValueError) as problem:  # pyarrow's errors about a file's structure are of these kinds
        raise InvalidInput(f"{path.name!r} cannot be read as Parquet: {type(problem).__name__}.") from None
