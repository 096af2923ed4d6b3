"""Files of one table: where they are, whether they have changed, and what their folders' names say.

Names of files, their sizes and the parts of their paths of the form ``name=value`` (partitions, as Hive and Spark write
them) are public; what is in them is not.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

from discreet.errors import InvalidInput

__all__ = ["DataFile", "bytes_of", "found_files"]

_HIVE_MISSING = "__HIVE_DEFAULT_PARTITION__"
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def bytes_of(memory: int | float | str) -> int:
    """A number of bytes, given as a number or as text.

    Example:
        >>> bytes_of("1.5 GB"), bytes_of(4096)
        (1500000000, 4096)
    """
    text = str(memory).strip().upper()
    digits = text.rstrip("KMGTB ")
    try:
        found = float(digits) * _UNITS[text[len(digits) :].strip()]
    except (KeyError, ValueError):
        raise InvalidInput(f"memory is a number of bytes, or text such as '2GB', got {memory!r}.") from None
    if not 1 <= found < 2**62:
        raise InvalidInput(f"memory must be positive, got {memory!r}.")
    return int(found)


@dataclass(frozen=True)
class DataFile:
    """One file: a local path or a url that fsspec knows.

    Args:
        path: where it is.
        partition: names and texts of its folders of the form name=value; None for a missing value.
        options: what its file system is told, such as a key.
    """

    path: str
    partition: tuple[tuple[str, str | None], ...] = ()
    options: tuple[tuple[str, Any], ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        """The last part of the path, for messages."""
        return self.path.rstrip("/").rsplit("/", 1)[-1]

    @property
    def local(self) -> bool:
        """Whether it is a file of this machine."""
        return "://" not in self.path

    def open(self) -> IO[bytes]:
        """The file's bytes."""
        if self.local:
            return Path(self.path).open("rb")
        opened: IO[bytes] = _filesystem(self.path, dict(self.options))[0].open(self.path, "rb")
        return opened

    def stamp(self) -> tuple[Any, ...]:
        """What is different after the file has been written: compared before every reading."""
        if self.local:
            facts = os.stat(self.path)
            return facts.st_size, facts.st_mtime_ns, facts.st_ino
        known = _filesystem(self.path, dict(self.options))[0].info(self.path)
        return tuple(str(known.get(name)) for name in ("size", "ETag", "etag", "mtime", "LastModified", "created"))


def found_files(
    paths: str | Path | Iterable[str | Path], endings: Sequence[str], options: dict[str, Any]
) -> list[DataFile]:
    """The files of a folder, a pattern, a url or a list of them; each folder's in the order of their names.

    Files whose name, or one of whose folders' names, begins with ``_`` or ``.`` are no data, as for Spark and Arrow.

    Raises:
        InvalidInput: there is no such file, or a file comes twice.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    if not given:
        raise InvalidInput("there are no files to read: the list of paths is empty.")
    found: list[DataFile] = []
    for path in map(str, given):
        several = _remote(path, endings, options) if "://" in path else _local(path, endings)
        if not several:
            raise InvalidInput(f"there is no file {path!r}, or no file in it ends in {', '.join(endings)}.")
        found += several
    places = [os.path.realpath(file.path) if file.local else file.path for file in found]
    if len(set(places)) < len(places):
        raise InvalidInput("a file comes twice among those to be read: its rows would count twice.")
    return found


def _local(path: str, endings: Sequence[str]) -> list[DataFile]:
    place = Path(path)
    if place.is_file():
        return [DataFile(str(place), _partition(place.parts[:-1]))]
    if place.is_dir():
        inside = sorted(file for file in place.rglob("*") if file.is_file())
        relative = [(file, file.relative_to(place).parts) for file in inside]
        return [
            DataFile(str(file), _partition((*place.parts, *parts[:-1])))
            for file, parts in relative
            if _is_data(parts, endings)
        ]
    matches = sorted(Path(match) for match in glob.glob(path, recursive=True) if Path(match).is_file())
    return [DataFile(str(match), _partition(match.parts[:-1])) for match in matches]


def _remote(path: str, endings: Sequence[str], options: dict[str, Any]) -> list[DataFile]:
    system, root = _filesystem(path, options)
    if system.isdir(root):
        inside = [(file, file[len(root) :].strip("/").split("/")) for file in sorted(system.find(root))]
        files = [file for file, parts in inside if _is_data(parts, endings)]
    elif system.exists(root):
        files = [root]
    else:
        files = sorted(system.glob(root))
    told = tuple(options.items())
    return [DataFile(system.unstrip_protocol(file), _partition(file.split("/")[:-1]), told) for file in files]


def _filesystem(path: str, options: dict[str, Any]) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError:
        raise InvalidInput(f"reading {path.split('://', 1)[0]}:// needs fsspec: pip install fsspec.") from None
    try:
        system, root = fsspec.core.url_to_fs(path, **options)
    except (ImportError, ValueError) as problem:
        raise InvalidInput(f"{path.split('://', 1)[0]}:// cannot be read: {problem}") from None
    return system, root


def _is_data(parts: Sequence[str], endings: Sequence[str]) -> bool:
    shown = not any(part.startswith(("_", ".")) for part in parts)
    return shown and parts[-1].lower().endswith(tuple(endings))


def _partition(folders: Iterable[str]) -> tuple[tuple[str, str | None], ...]:
    pairs = (folder.partition("=") for folder in folders)
    return tuple(
        (unquote(name), None if value == _HIVE_MISSING else unquote(value)) for name, sign, value in pairs if sign
    )
