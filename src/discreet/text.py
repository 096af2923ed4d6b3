"""Text and files from outside: bounded before they are read, and harmless when they are shown.

A note, a name or a file may have been written by somebody else. Reading it ends in a value or in `InvalidInput`,
whatever it contains; showing it sends no control character to a terminal.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, NoReturn

from discreet.errors import InvalidInput

__all__ = [
    "checked_path",
    "checked_text",
    "printable",
    "read_bounded",
    "read_json",
    "read_number",
    "shortened",
    "without_passwords",
]

_MOST_CHARACTERS = 1 << 24
"""Of a JSON text. The longest that the library writes, a banded matrix of 10⁵ coefficients, has 2 million."""
_MOST_NESTED = 48
"""Brackets inside brackets. Events of the library's own solvers have at most 12."""
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_NOT_A_BRACKET = re.compile(r"[^\[\]{}]+")
_PASSWORD = re.compile(r"(://[^:/@]*):.*@")
_SECRET_OPTION = re.compile(r"([?&][^=&]*(?:password|secret|scram)[^=&]*=)[^&]*", re.IGNORECASE)


def printable(text: str, *, keep: str = "") -> str:
    r"""The text with every character that is not printable written as an escape, save those in ``keep``.

    Control characters (among them those that move a terminal's cursor or change its colours), marks that reverse the
    direction of writing and lone surrogates are not printable.

    Example:
        >>> print(printable("note\x1b[2J\n"))
        note\x1b[2J\n
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def shortened(value: Any, most: int = 200) -> str:
    """The value as Python writes it, cut where it is long: for messages about what may be a whole file."""
    try:
        words = repr(value)
    except (RecursionError, ValueError):  # deeper than Python writes, or an integer of too many digits
        return f"a {type(value).__name__}"
    return words if len(words) <= most else f"{words[:most]}…"


def without_passwords(address: str) -> str:
    """The address of a server without its passwords: neither the user's nor one among the options.

    Example:
        >>> without_passwords("postgresql://ann:secret@db/privacy?sslmode=require&password=secret")
        'postgresql://ann:***@db/privacy?sslmode=require&password=***'
    """
    return _SECRET_OPTION.sub(r"\1***", _PASSWORD.sub(r"\1:***@", address))


def checked_text(what: str, value: Any) -> str:
    """Text that every file, database and terminal can hold: no NUL, no lone surrogate.

    Raises:
        InvalidInput: it is not text, or contains such a character.
    """
    if not isinstance(value, str):
        raise InvalidInput(f"{what} must be text, got {shortened(value)}.")
    if "\0" in value or not _encodable(value):
        raise InvalidInput(f"{what} must not contain NUL or half a surrogate pair, got {shortened(value)}.")
    return value


def _encodable(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def checked_path(path: Any) -> Path:
    """A path that the operating system can be asked about, whether anything is there or not.

    Raises:
        InvalidInput: it is not a path, contains NUL, or cannot be written in the file system's encoding.
    """
    try:
        found = Path(path)
        if b"\0" in os.fsencode(found):
            raise ValueError("it contains NUL")
    except (TypeError, ValueError) as problem:
        raise InvalidInput(f"{shortened(path)} is not a path: {problem}.") from None
    return found


def read_bounded(path: Any, most: int) -> bytes:
    """A file's bytes, of which there may be at most ``most``.

    Raises:
        InvalidInput: there are more, or it is not a path.
        OSError: it cannot be read.
    """
    found = bytearray()
    with checked_path(path).open("rb") as file:
        while part := file.read(1 << 20):  # in parts: asked for more, a file would reserve it
            found += part
            if len(found) > most:
                raise InvalidInput(f"{shortened(str(path))} has more than {most} bytes.")
    return bytes(found)


def read_json(text: str | bytes, what: str) -> Any:
    """The value of a JSON text, bounded in length and depth before it is parsed.

    Args:
        text: the JSON.
        what: what it should be, for the message.

    Raises:
        InvalidInput: it is no JSON, too long, too deep, names a key twice, or has a number that JSON does not have
            (NaN, infinity) or Python does not read (an integer of thousands of digits).

    Example:
        >>> read_json('{"kind": "PureDP", "epsilon": 1.0}', "an event")
        {'kind': 'PureDP', 'epsilon': 1.0}
    """
    try:
        text = text.decode("utf-8") if isinstance(text, bytes) else text
        if not isinstance(text, str):
            raise ValueError(f"it is a {type(text).__name__}, not text")
        if len(text) > _MOST_CHARACTERS:
            raise ValueError(f"it has {len(text)} characters, and {_MOST_CHARACTERS} are the most")
        _require_shallow(text)
        return json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_constant)
    except ValueError as problem:  # among them JSONDecodeError and UnicodeDecodeError
        raise InvalidInput(f"{what} cannot be read as JSON: {problem}.") from None


def _require_shallow(text: str) -> None:
    depth = 0
    for bracket in _NOT_A_BRACKET.sub("", _STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > _MOST_NESTED:
            raise ValueError(f"brackets are nested more than {_MOST_NESTED} deep")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) < len(pairs):
        raise ValueError("a key comes twice in one object")
    return tree


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def read_number(word: str, whole: str) -> float:
    """The number that a word says; ``whole`` is what it is a part of, for the message.

    Raises:
        InvalidInput: the word is no number.

    Example:
        >>> read_number("0.1", "adam:0.1")
        0.1
    """
    try:
        return float(word)
    except ValueError:
        raise InvalidInput(f"{word!r} in {whole!r} is not a number.") from None
