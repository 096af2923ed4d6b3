"""Files of one table: where they are, whether they have changed, and what their folders' names say.

Names of files, their sizes and the parts of their paths of the form ``name=value`` (partitions, as Hive and Spark write
them) are public; what is in them is not.
"""

from __future__ import annotations

import glob
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

from discreet.errors import InvalidInput

__all__ = ["DataFile", "bytes_of", "found_files"]

_HIVE_MISSING = "__HIVE_DEFAULT_PARTITION__"
_PACKED = (".zip", ".bz2", ".xz", ".zst", ".7z", ".lz4", ".br", ".gz")
_OF_THIS_MACHINE = ("file://", "local://")
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

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """What reading it may raise: file systems of urls have exceptions of their own."""
        return (OSError, EOFError, zlib.error) if self.local else (Exception,)

    def open(self) -> IO[bytes]:
        """The file's bytes."""
        if self.local:
            return Path(self.path).open("rb")
        opened: IO[bytes] = _filesystem(self.path, dict(self.options))[0].open(self.path, "rb")
        return opened

    def stamp(self) -> tuple[Any, ...]:
        """What is different after the file has been written: compared before every reading.

        Raises:
            InvalidInput: the file is not there, or may not be read.
        """
        try:
            if self.local:
                facts = os.stat(self.path)
                return facts.st_size, facts.st_mtime_ns, facts.st_ino
            known = _filesystem(self.path, dict(self.options))[0].info(self.path)
        except self.failures as problem:
            raise InvalidInput(f"{self.name!r} cannot be read: {type(problem).__name__}.") from None
        return tuple(str(known.get(name)) for name in ("size", "ETag", "etag", "mtime", "LastModified", "created"))

    def require_unchanged(self, stamp: tuple[Any, ...]) -> None:
        """Refuse a file that is not as it was when it was opened.

        Raises:
            InvalidInput: it has been written, or is gone.
        """
        if self.stamp() != stamp:
            raise InvalidInput(
                f"{self.name!r} was written after it was opened: a fit needs the same rows at every step. What was "
                "charged stays charged; nothing more was released."
            )


def found_files(
    paths: str | Path | Iterable[str | Path], endings: Sequence[str], options: dict[str, Any]
) -> list[DataFile]:
    """The files of a folder, a pattern, a url or a list of them; each folder's in the order of their names.

    Files whose name, or one of whose folders' names, begins with ``_`` or ``.`` are no data, as for Spark and Arrow.
    Links are followed, and a folder to which several lead is read once.

    Raises:
        InvalidInput: there is no such file, it is packed in a way that is not read, or a file comes twice.
    """
    given = [paths] if isinstance(paths, str | Path) else list(paths) if isinstance(paths, Iterable) else [paths]
    if not given:
        raise InvalidInput("there are no files to read: the list of paths is empty.")
    found: list[DataFile] = []
    for path in given:
        if not isinstance(path, str | Path):
            raise InvalidInput(f"a path is text or a Path, got {type(path).__name__}. Nothing was released.")
        place = _local_path(str(path))
        several = _remote(place, endings, options) if "://" in place else _local(place, endings)
        if not several:
            raise InvalidInput(f"there is no file {str(path)!r}, or no file in it ends in {', '.join(endings)}.")
        found += several
    for file in found:
        if _is_packed(file.name, endings):
            raise InvalidInput(
                f"{file.name!r} is packed in a way that is not read here: unpack it, or pack text by gzip (.csv.gz). "
                "Nothing was released."
            )
    if len({_identity(file) for file in found}) < len(found):
        raise InvalidInput("a file comes twice among those to be read: its rows would count twice.")
    return found


def _local_path(path: str) -> str:
    """The path of a url of this machine's file system; other paths as they are."""
    return next((path.removeprefix(scheme) for scheme in _OF_THIS_MACHINE if path.startswith(scheme)), path)


def _identity(file: DataFile) -> Any:
    """What two names of the same file, such as hard links, have in common."""
    if not file.local:
        return file.path
    try:
        facts = os.stat(file.path)
    except OSError:  # it is refused when it is opened
        return file.path
    return (facts.st_dev, facts.st_ino) if facts.st_ino else os.path.realpath(file.path)


def _local(path: str, endings: Sequence[str]) -> list[DataFile]:
    place = Path(path)
    if place.is_file():
        return [DataFile(str(place), _partition(place.parts[:-1]))]
    if place.is_dir():
        inside = [(file, file.relative_to(place).parts) for file in sorted(_inside(place))]
        return [
            DataFile(str(file), _partition((*place.parts, *parts[:-1])))
            for file, parts in inside
            if _is_data(parts, endings)
        ]
    matches = sorted(map(Path, glob.glob(path, recursive=True)))
    files = [DataFile(str(match), _partition(match.parts[:-1])) for match in matches if match.is_file()]
    return files or [file for match in matches if match.is_dir() for file in _local(str(match), endings)]


def _inside(place: Path) -> Iterator[Path]:
    """The files of a folder and of all its folders, also those that links lead to; links to nothing are files, too."""

    def refuse(problem: OSError) -> None:
        name = os.path.basename(str(problem.filename))
        raise InvalidInput(f"the folder {name!r} cannot be read: {type(problem).__name__}. Nothing was released.")

    seen: set[Any] = set()
    for folder, folders, names in os.walk(place, onerror=refuse, followlinks=True):
        facts = os.stat(folder)
        known = (facts.st_dev, facts.st_ino) if facts.st_ino else os.path.realpath(folder)
        folders[:] = [] if known in seen else sorted(name for name in folders if _is_shown(name))
        if known not in seen:
            seen.add(known)
            files = (Path(folder, name) for name in names)
            yield from (file for file in files if file.is_file() or file.is_symlink())


def _remote(path: str, endings: Sequence[str], options: dict[str, Any]) -> list[DataFile]:
    system, root = _filesystem(path, options)
    try:
        if system.isdir(root):
            inside = [(file, file[len(root) :].strip("/").split("/")) for file in sorted(system.find(root))]
            files = [file for file, parts in inside if _is_data(parts, endings)]
        elif system.exists(root):
            files = [root]
        else:
            files = sorted(system.glob(root))
    except Exception as problem:  # file systems have exceptions of their own
        raise InvalidInput(f"{path!r} cannot be read: {type(problem).__name__}. Nothing was released.") from None
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
    """Whether a file of a folder holds rows, by its name; one that is packed counts, so that it is not left out."""
    name = parts[-1].lower()
    return all(map(_is_shown, parts)) and (name.endswith(tuple(endings)) or _is_packed(name, endings, within=True))


def _is_shown(name: str) -> bool:
    return not name.startswith(("_", "."))


def _is_packed(name: str, endings: Sequence[str], *, within: bool = False) -> bool:
    """Whether a file is packed and not read so; ``within`` a folder only where it would be read unpacked."""
    inner, dot, last = name.lower().rpartition(".")
    read = last == "gz" and any(ending.endswith(".gz") for ending in endings)
    return dot + last in _PACKED and not read and (not within or inner.endswith(tuple(endings)))


def _partition(folders: Iterable[str]) -> tuple[tuple[str, str | None], ...]:
    pairs = (folder.partition("=") for folder in folders)
    return tuple(
        (unquote(name), None if value == _HIVE_MISSING else unquote(value)) for name, sign, value in pairs if sign
    )
