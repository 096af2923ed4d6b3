"""Reading a table for a command: separator and decimal point as options, declared columns alone, progress."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.common import errors
from discreet.data.columns import Ignore, Person
from discreet.data.delimited import Notify
from discreet.data.frames import Table, column_names, read_table
from discreet.data.schema import Schema

if TYPE_CHECKING:
    from discreet.data.scans import Scan

__all__ = [
    "Decimal",
    "File",
    "Files",
    "Separator",
    "as_mark",
    "declared_columns",
    "names_in",
    "read_declared",
    "scan_for",
]

File = Annotated[Path, typer.Argument(help="CSV (also .gz), Parquet, Feather or Excel file.")]
Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...",
        help="CSV (also .gz), Parquet, Feather or Excel file; or several CSV or Parquet files, a folder or a url.",
    ),
]
Separator = Annotated[str | None, typer.Option(help="What separates the cells of a text file; default: a comma.")]
Decimal = Annotated[str, typer.Option(help="Decimal point of the numbers in a text file: . or ,")]


def names_in(file: Path, separator: str | None) -> Callable[[], tuple[str, ...]]:
    """The names of a file's columns, when they are asked for."""
    return lambda: column_names(file, separator=as_mark(separator))


def scan_for(
    files: list[str],
    separator: str | None,
    decimal: str,
    *,
    memory: str | None,
    cache: Path | None,
    dask: str | None,
    device: str | None = None,
) -> Scan | None:
    """The files that are read at every step; None for one file, where no memory, cluster or GPU is asked for."""
    if len(files) == 1 and Path(files[0]).is_file() and not (memory or cache or dask or device):
        return None
    from discreet.data.scans import scan_of

    settings = {"memory": memory} if memory else {}
    where = True if dask == "local" else dask
    places = {"cache": cache, "dask": where, "device": device}
    return scan_of(files, separator=as_mark(separator), decimal=decimal, **places, **settings)


def declared_columns(schema: Schema) -> list[str]:
    """The columns that a schema declares and does not ignore."""
    return [name for name, column in schema.items() if not isinstance(column, Ignore)]


def as_mark(separator: str | None) -> str | None:
    """The separator that was meant: shells have no easy way to write a tab."""
    return "\t" if separator in ("\\t", "tab") else separator


def read_declared(
    file: Path,
    schema: Schema,
    columns: Collection[str],
    separator: str | None,
    decimal: str,
    *,
    shown: bool,
    count_rows: bool,
) -> Table:
    """Read declared columns of a file; a missing one is refused before a row is read.

    Args:
        file: the file.
        schema: the declarations of its columns.
        columns: which to read.
        separator: between the cells of a text file, as `as_mark` reads it.
        decimal: the decimal point.
        shown: whether to show progress on the error stream.
        count_rows: whether progress says how many rows there are, which under add-remove is private; so it is where a
            column says whose a row is, for then the number of a person's rows is.
    """
    count_rows = count_rows and not any(isinstance(column, Person) for column in schema.values())
    with _progress(file, shown, count_rows) as notify:
        return read_table(
            file, schema=schema, columns=columns, separator=as_mark(separator), decimal=decimal, notify=notify
        )


@contextmanager
def _progress(file: Path, shown: bool, count_rows: bool) -> Iterator[Notify | None]:
    if not shown:
        yield None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from discreet.text import printable

    columns = (
        TextColumn("reading {task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rows]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=errors) as bar:
        task = bar.add_task(printable(file.name), total=1.0, rows="")

        def notify(share: float, rows: int) -> None:
            bar.update(task, completed=share, rows=f"{rows:,} rows" if count_rows else "")

        yield notify
