"""Compiled splitting of delimited lines into cells, as `discreet.data.lines` defines them.

Bytes are split before they are decoded. This is the same as the other way round: separator, quote, blank and line end
are ASCII, and no ASCII byte is part of a longer sequence of UTF-8, not even of a broken one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from discreet.data.lines import cells_of_line

__all__ = ["Places", "different_cells", "place_cells"]

_LINE_FEED, _RETURN, _BLANK, _QUOTE = 10, 13, 32, 34
_SEED, _PRIME = np.uint64(14695981039346656037), np.uint64(1099511628211)
"""Of the FNV-1a hash."""


@dataclass(frozen=True)
class Places:
    """Where the cells of some columns are in a block of lines: three arrays of columns × rows.

    A cell is ``text[start:end]``, or where ``quoted`` what `cells_of_line` makes of those bytes.
    """

    text: npt.NDArray[np.uint8]
    separator: str
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    quoted: npt.NDArray[np.bool_]

    def cells(self, column: int, rows: npt.NDArray[np.int64]) -> list[str]:
        """The text of some cells of a column."""
        whole = self.text.tobytes() if len(rows) > 64 else None  # slices of bytes are quicker than slices of arrays
        found = []
        for row in rows.tolist():
            start, end = int(self.starts[column, row]), int(self.ends[column, row])
            raw = self.text[start:end].tobytes() if whole is None else whole[start:end]
            cell = raw.decode("utf-8", errors="replace")
            found.append(cells_of_line(cell, self.separator)[0] if self.quoted[column, row] else cell)
        return found


def place_cells(block: bytes, separator: str, slots: npt.NDArray[np.int64], columns: int) -> Places:
    """Find the cells of a block of whole lines.

    A short line, a blank one among them, lacks its last cells; a long one is cut. Missing cells are empty.

    Args:
        block: lines, each with its line feed; the last may lack it.
        separator: one ASCII character that is neither a quote, a blank nor a line end.
        slots: for each cell of a line the column that it becomes, or −1.
        columns: the number of columns.
    """
    text = np.frombuffer(block, dtype=np.uint8)
    rows = block.count(b"\n") + (0 if block.endswith(b"\n") or not block else 1)
    starts, ends = np.zeros((columns, rows), dtype=np.int64), np.zeros((columns, rows), dtype=np.int64)
    quoted = np.zeros((columns, rows), dtype=np.bool_)
    _place(text, np.uint8(ord(separator)), slots, starts, ends, quoted)
    return Places(text, separator, starts, ends, quoted)


@njit(cache=True, nogil=True)
def _to_the_end(text, i, separator):  # type: ignore[no-untyped-def]
    """The place of the next separator or line feed."""
    while i < text.shape[0] and text[i] != separator and text[i] != _LINE_FEED:
        i += 1
    return i


@njit(cache=True, nogil=True)
def _before_line_end(text, first, i):  # type: ignore[no-untyped-def]
    """Where a cell ends that is followed by what is at i: one carriage return before a line feed is not part of it."""
    return i - 1 if i < text.shape[0] and text[i] == _LINE_FEED and i > first and text[i - 1] == _RETURN else i


@njit(cache=True, nogil=True)
def _quoted_cell(text, first, separator):  # type: ignore[no-untyped-def]
    """(start, end, quoted, next): the cell that begins with the quote at ``first``, and the place that follows it."""
    i, simple = first + 1, True
    while True:
        while i < text.shape[0] and text[i] != _QUOTE and text[i] != _LINE_FEED:
            i += 1
        if i == text.shape[0] or text[i] == _LINE_FEED:  # its line does not close it
            return first, _before_line_end(text, first, i), True, i
        if i + 1 < text.shape[0] and text[i + 1] == _QUOTE:
            i, simple = i + 2, False
            continue
        after = _to_the_end(text, i + 1, separator)
        end = _before_line_end(text, first, after)
        if simple and end == i + 1:
            return first + 1, i, False, after
        return first, end, True, after


@njit(cache=True, nogil=True)
def _place(text, separator, slots, starts, ends, quoted):  # type: ignore[no-untyped-def]
    i, row, size = 0, 0, text.shape[0]
    while i < size:
        cell = 0
        while True:
            if cell == slots.shape[0]:  # what is too much
                while i < size and text[i] != _LINE_FEED:
                    i += 1
                break
            while i < size and text[i] == _BLANK:
                i += 1
            start, odd = i, False
            if i < size and text[i] == _QUOTE:
                start, end, odd, i = _quoted_cell(text, i, separator)
            else:
                i = _to_the_end(text, i, separator)
                end = _before_line_end(text, start, i)
            if slots[cell] >= 0:
                starts[slots[cell], row] = start
                ends[slots[cell], row] = end
                quoted[slots[cell], row] = odd
            cell += 1
            if i == size or text[i] == _LINE_FEED:
                break
            i += 1
        row += 1
        i += 1


def different_cells(places: Places, column: int) -> tuple[list[str], npt.NDArray[np.int32]]:
    """The different cells of a column in the order of their first rows, and for each row which of them it has."""
    starts, ends, quoted = places.starts[column], places.ends[column], places.quoted[column]
    rows = len(starts)
    which, firsts = np.empty(rows, dtype=np.int32), np.empty(rows, dtype=np.int64)
    table = np.full(1 << max(4, (2 * rows).bit_length()), -1, dtype=np.int32)
    count = _number(places.text, starts, ends, quoted, table, which, firsts)
    return places.cells(column, firsts[:count]), which


@njit(cache=True, nogil=True)
def _number(text, starts, ends, quoted, table, which, firsts):  # type: ignore[no-untyped-def]
    count, mask = 0, np.uint64(table.shape[0] - 1)
    for row in range(starts.shape[0]):
        start, end = starts[row], ends[row]
        value = _SEED
        for i in range(start, end):
            value = (value ^ np.uint64(text[i])) * _PRIME
        place = np.int64((value ^ (value >> np.uint64(32))) & mask)
        while table[place] >= 0:
            first = firsts[table[place]]
            same = ends[first] - starts[first] == end - start and quoted[first] == quoted[row]
            k = 0
            while same and k < end - start:
                same = text[starts[first] + k] == text[start + k]
                k += 1
            if same:
                break
            place = (place + 1) & np.int64(mask)
        if table[place] < 0:
            table[place] = count
            firsts[count] = row
            count += 1
        which[row] = table[place]
    return count
