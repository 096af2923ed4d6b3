"""What is given to ``fit`` in place of a table that does not fit in memory: which files, and how much memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

from discreet.data.columns import Column
from discreet.data.delimited import Delimited
from discreet.data.files import bytes_of, found_files
from discreet.data.sources import Source

__all__ = ["CSV", "Parquet", "Scan", "scan_of"]

_PARQUET = (".parquet", ".pq")
_TEXT = tuple(ending + packed for ending in (".csv", ".tsv", ".txt", ".data") for packed in ("", ".gz"))


@dataclass(frozen=True)
class Scan(ABC):
    """Files of one table, to be read at every step of a fit.

    Args:
        paths: a file, a folder, a pattern such as ``"year=*/part-*.parquet"``, a url that fsspec knows, or a list of
            these. Folders named ``name=value`` are columns. The order of the rows is that of the paths.
        target: the column to predict.
        memory: bytes that encoded rows may take, such as ``"2GB"``; the blocks at work come on top.
        cache: a folder, on a disk that may hold the rows, for encoded rows that do not fit in memory; by default they
            are read and encoded again at every step.
        dask: the address of a Dask scheduler, a `distributed.Client`, or True for workers on this machine, one a core:
            they then read and hold the rows. None reads them in this process.
        device: a GPU such as ``"cuda"``, on which encoded rows are then held; they must fit. Needs PyTorch.
        storage_options: what the file system of a url is told, such as a key.
    """

    paths: Any
    _: KW_ONLY
    target: str | None = None
    memory: int | float | str = "1GB"
    cache: str | Path | None = None
    dask: Any = None
    device: Any = None
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def bytes(self) -> int:
        """The memory that was declared."""
        return bytes_of(self.memory)

    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The columns' names in the first file."""

    @abstractmethod
    def source(self, schema: Mapping[str, Column], target: str, client: Any = None) -> Source:
        """The opened files; they are refused if one cannot be read or lacks a declared column.

        Args:
            schema: the declared columns.
            target: the column to predict.
            client: of the cluster whose workers will read the rows, if they will.
        """


@dataclass(frozen=True)
class Parquet(Scan):
    """Parquet files of one table, larger than memory.

    Example:
        >>> import discreet as dp
        >>> rows = dp.Parquet("claims/", target="fraud", memory="500MB")
        >>> rows.bytes
        500000000
    """

    def names(self) -> tuple[str, ...]:
        """The columns' names in the first file."""
        from discreet.data.parquet import parquet_names

        return parquet_names(found_files(self.paths, _PARQUET, dict(self.storage_options))[0])

    def source(self, schema: Mapping[str, Column], target: str, client: Any = None) -> Source:
        """The opened files: all footers have been read."""
        from discreet.data.parquet import ParquetSource

        return ParquetSource(found_files(self.paths, _PARQUET, dict(self.storage_options)), schema, target)


@dataclass(frozen=True)
class CSV(Scan):
    """Delimited text files of one table, larger than memory; also packed by gzip.

    Args:
        paths: as for `Parquet`, and all other arguments.
        separator: what separates the cells; by default a comma, and a tab in ``.tsv``.
        decimal: the decimal point of numeric columns, "." or ",".

    Example:
        >>> import discreet as dp
        >>> dp.CSV("claims/*.csv", target="fraud", separator=";").separator
        ';'
    """

    separator: str | None = None
    decimal: str = "."

    def names(self) -> tuple[str, ...]:
        """The columns' names on the first line of the first file."""
        from discreet.data.text_files import text_names

        first = found_files(self.paths, _TEXT, dict(self.storage_options))[0]
        return text_names(first, Delimited(self.separator, self.decimal))

    def source(self, schema: Mapping[str, Column], target: str, client: Any = None) -> Source:
        """The opened files: lines have been counted."""
        from discreet.data.text_files import TextSource

        files = found_files(self.paths, _TEXT, dict(self.storage_options))
        return TextSource(files, schema, target, Delimited(self.separator, self.decimal))


def scan_of(paths: Iterable[str], **settings: Any) -> Scan:
    """The scan of paths of a command: text files if all end so, or folders that hold no Parquet; else Parquet."""
    listed = list(paths)
    separator, decimal = settings.pop("separator", None), settings.pop("decimal", ".")
    folders = [Path(path) for path in listed if Path(path).is_dir()]
    text = [folder for folder in folders if not any(True for end in _PARQUET for _ in folder.rglob(f"*{end}"))]
    if all(path.lower().endswith(_TEXT) or Path(path) in text for path in listed):
        return CSV(listed, separator=separator, decimal=decimal, **settings)
    return Parquet(listed, **settings)
