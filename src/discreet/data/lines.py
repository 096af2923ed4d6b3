"""Text files of delimited cells, one physical line a row.

A *line* is what ends in a line feed, without that line feed and without one carriage return right before it; what
follows the last line feed is a line too, unless it is empty. Nothing else ends a line: no other control character, and
no quote, for a quote that its line does not close ends with the line. So the number of rows is the number of lines, and
cells are a pure function of their own line: whoever writes one line decides nothing about the others. Text is UTF-8;
bytes that are not become U+FFFD. This module says what the cells of one line are; `discreet.data.tokens` finds them in
whole blocks of lines.

The `csv` module reads otherwise: there an unbalanced quote makes one cell of all lines after it, and a carriage return
adds a row.
"""

from __future__ import annotations

import re
from functools import lru_cache

from discreet.errors import InvalidInput

__all__ = ["cells_of_line", "has_open_quote", "text_of_header"]

_UTF8_MARK = b"\xef\xbb\xbf"
_OTHER_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")  # of UTF-16 and UTF-32, either end first


def text_of_header(line: bytes) -> str:
    """The text of a file's first line, without a byte order mark and without its end.

    Raises:
        InvalidInput: it begins with the mark of UTF-16 or UTF-32.
    """
    if line.startswith(_OTHER_MARKS):
        raise InvalidInput("the file is in UTF-16 or UTF-32, by its first bytes: save it as UTF-8.")
    if line.endswith(b"\n"):
        line = line[:-1].removesuffix(b"\r")
    return line.removeprefix(_UTF8_MARK).decode("utf-8", errors="replace")


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
