"""Text files of delimited cells, one physical line a row.

A *line* is what ends in a line feed, without that line feed and without one carriage return right before it; what
follows the last line feed is a line too, unless it is empty. Nothing else ends a line: no other control character, and
no quote, for a quote that its line does not close ends with the line. So the number of rows is the number of lines, and
cells are a pure function of their own line: whoever writes one line decides nothing about the others.

The `csv` module reads otherwise: there an unbalanced quote makes one cell of all lines after it, and a carriage return
adds a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from discreet.errors import InvalidInput

__all__ = ["cells_of_line", "decoded", "has_open_quote", "rows_of", "split_lines"]

_UTF8_MARK = b"\xef\xbb\xbf"
_OTHER_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")  # of UTF-16 and UTF-32, either end first


def decoded(content: bytes, *, header: bool) -> str:
    """The text of a file in UTF-8, without a byte order mark; what is not UTF-8 becomes U+FFFD.

    A line feed is part of no longer sequence of UTF-8, not even of a broken one, so a line's text is a function of its
    own bytes.

    Args:
        content: the file.
        header: whether the first line names the columns and is public. Else it is somebody's, and not judged.

    Raises:
        InvalidInput: a file with a header begins with the mark of UTF-16 or UTF-32.
    """
    if header and content.startswith(_OTHER_MARKS):
        raise InvalidInput("the file is in UTF-16 or UTF-32, by its first bytes: save it as UTF-8.")
    return content.removeprefix(_UTF8_MARK).decode("utf-8", errors="replace")


def split_lines(text: str) -> list[str]:
    r"""The lines of a text.

    Example:
        >>> split_lines("a\r\nb\rc\n\n\x0cd")
        ['a', 'b\rc', '', '\x0cd']
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def cells_of_line(line: str, delimiter: str) -> list[str]:
    r"""The cells of one line, without the blanks before them.

    A cell that begins with a quote goes on to the next lone quote, delimiters included, or to the end of the line; a
    doubled quote inside stands for one. What follows the closing quote belongs to the cell. Other quotes are text.

    Example:
        >>> cells_of_line('1, "a, ""b"" " c,d"e,"open, to the end', ",")
        ['1', 'a, "b"  c', 'd"e', 'open, to the end']
    """
    if '"' in line:
        return [
            plain if not opened else inside.replace('""', '"') + after if closed else inside[:-1].replace('""', '"')
            for opened, inside, closed, after, plain in _cell(delimiter).findall(line + delimiter)
        ]
    gap = delimiter + " "
    closer = line.replace(gap, delimiter)  # most have one blank at most
    cells = closer.split(delimiter)
    return [cell.lstrip(" ") for cell in cells] if gap in closer or closer[:1] == " " else cells


@lru_cache
def _cell(delimiter: str) -> re.Pattern[str]:
    """One cell and the delimiter after it; a cell with an open quote reaches to the end, that delimiter included."""
    mark = re.escape(delimiter)
    return re.compile(rf' *(?:(")([^"]*(?:""[^"]*)*)(?:(")([^{mark}]*){mark}|\Z)|([^{mark}]*){mark})')


def has_open_quote(line: str, delimiter: str) -> bool:
    """Whether the line ends inside a quoted cell."""
    return any(opened and not closed for opened, _, closed, _, _ in _cell(delimiter).findall(line + delimiter))


def rows_of(lines: list[str], delimiter: str, width: int) -> Iterator[list[str]]:
    """Each line as ``width`` cells: a short line, a blank one among them, lacks its last cells; a long one is cut."""
    for line in lines:
        row = cells_of_line(line, delimiter) if '"' in line or " " in line else line.split(delimiter)
        yield row if len(row) == width else (row + [""] * width)[:width]
