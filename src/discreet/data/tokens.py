"""Compiled splitting of delimited lines into cells, as `discreet.data.lines` defines them.

Bytes are split before they are decoded. This is the same as the other way round: separator, quote, blank and line end
are ASCII, and no ASCII byte is part of a longer sequence of UTF-8, not even of a broken one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from discreet.data.lines import cells_of_line

__all__ = ["Places", "different_cells", "place_cells"]

_LINE_FEED, _RETURN, _BLANK, _QUOTE = 10, 13, 32, 34
_SEED, _PRIME = np.uint64(14695981039346656037), np.uint64(1099511628211)
"""The start and the factor of the hash FNV-1a for 64 bits."""


@dataclass(frozen=True)
class Places:
    """Where the cells of some columns are in a block of lines: three arrays of columns × rows.

    A cell is ``text[start:end]``, or where ``quoted`` what `cells_of_line` makes of those bytes.
    """

    text: npt.NDArray[np.uint8]
    separator: str
    starts: npt.NDArray[Any]
    ends: npt.NDArray[Any]
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
    rows = block.count(b"\n") + (0 if block.endswith(b"\n") or not block else 1)
    text = np.frombuffer(block + b"\n" if not block.endswith(b"\n") else block, dtype=np.uint8)
    kind = np.int32 if len(text) < 1 << 31 else np.int64
    starts, ends = np.zeros((columns, rows), dtype=kind), np.zeros((columns, rows), dtype=kind)
    quoted = np.zeros((columns, rows), dtype=np.bool_)
    _place(text, len(block), np.uint8(ord(separator)), slots, starts, ends, quoted)
    return Places(text, separator, starts, ends, quoted)


@njit(cache=True, nogil=True, inline="always")
def _to_the_end(text, i, separator):  # type: ignore[no-untyped-def]
    """The place of the next separator or line feed; the text ends in a line feed."""
    while text[i] != separator and text[i] != _LINE_FEED:
        i += 1
    return i


@njit(cache=True, nogil=True, inline="always")
def _before_line_end(text, size, first, i):  # type: ignore[no-untyped-def]
    """Where a cell ends that is followed by what is at i: one carriage return before a line feed is not part of it."""
    return i - 1 if text[i] == _LINE_FEED and i > first and text[i - 1] == _RETURN and i < size else i


@njit(cache=True, nogil=True)
def _quoted_cell(text, size, first, separator):  # type: ignore[no-untyped-def]
    """(start, end, quoted, next): the cell that begins with the quote at ``first``, and the place that follows it."""
    i, simple = first + 1, True
    while True:
        while text[i] != _QUOTE and text[i] != _LINE_FEED:
            i += 1
        if text[i] == _LINE_FEED:  # its line does not close it
            return first, _before_line_end(text, size, first, i), True, i
        if text[i + 1] == _QUOTE:
            i, simple = i + 2, False
            continue
        after = _to_the_end(text, i + 1, separator)
        end = _before_line_end(text, size, first, after)
        if simple and end == i + 1:
            return first + 1, i, False, after
        return first, end, True, after


@njit(cache=True, nogil=True)
def _place(text, size, separator, slots, starts, ends, quoted):  # type: ignore[no-untyped-def]
    """Fill the places; ``text`` is the block of ``size`` bytes, with a line feed after it where it lacks one."""
    i, row = 0, 0
    while i < size:
        for cell in range(slots.shape[0]):
            while text[i] == _BLANK:
                i += 1
            start, odd = i, False
            if text[i] == _QUOTE:
                start, end, odd, i = _quoted_cell(text, size, i, separator)
            else:
                i = _to_the_end(text, i, separator)
                end = _before_line_end(text, size, start, i)
            slot = slots[cell]
            if slot >= 0:
                starts[slot, row] = start
                ends[slot, row] = end
                if odd:
                    quoted[slot, row] = True
            if text[i] == _LINE_FEED:
                break
            i += 1
        else:  # what is too much, or nothing: the separator after the last cell has been passed
            while text[i] != _LINE_FEED:
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
