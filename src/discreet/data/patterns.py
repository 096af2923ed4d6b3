"""Rows of tables repeat themselves: three entries side by side, whole numbers in given columns, are soon met again.

Each such triple is kept once, in a table small enough for a core's cache, and rows name the triples they are made of. A
pass over the rows then computes ⟨triple, θ⟩ once for all rows that contain it, and adds up slopes before it multiplies
them by the triple. All numbers are whole and below 2^53, so sums regrouped are the same sums.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from discreet.data.base import Block, TakenBlock
from discreet.data.entries import Entries, entries

__all__ = ["Patterns", "patterns"]

WIDTH = 3
"""Entries in a pattern: fewer gain less, more repeat less often."""
_MOST = 1 << 13  # patterns in the table
_SLOTS = 1 << 15  # places that they are looked up in, at a hash of what they hold
_PROBES = 8
_ENOUGH, _OFTEN = 0.5, 8
"""Patterns must cover this share of the entries, and be met so often: else rows are read faster as they are."""


class Patterns(NamedTuple):
    """``codes[starts[i] : starts[i + 1]]`` are the patterns of row i, ``rest`` are its entries in none."""

    values: NDArray[np.float32]
    columns: NDArray[np.uint32]
    codes: NDArray[np.uint32]
    starts: NDArray[np.int64]
    rest: Entries


def patterns(block: Block) -> Patterns | None:
    """A block's rows by their patterns, from the second pass on; None at the first, and where little repeats itself.

    A batch has none: most are met once, and its entries are its source's.
    """
    if isinstance(block, TakenBlock):
        return None
    passes: list[int] = block.once("passes", lambda: [0])
    passes[0] += 1
    if passes[0] == 1:
        return None
    return block.once("patterns", lambda: _found(entries(block, rounded=True)))


def _found(stored: Entries) -> Patterns | None:
    n = len(stored.indptr) - 1
    values, columns = np.zeros((_MOST, WIDTH), np.float32), np.zeros((_MOST, WIDTH), np.uint32)
    codes, starts = np.empty(len(stored.values) // WIDTH + n, np.uint32), np.zeros(n + 1, np.int64)
    rest = Entries(np.empty_like(stored.values), np.empty_like(stored.indices), np.zeros(n + 1, np.int64))
    known = _search(*stored, values, columns, codes, starts, *rest)
    last = rest.indptr[-1]
    if last > (1 - _ENOUGH) * len(stored.values) or starts[-1] < _OFTEN * known:
        return None
    rest = Entries(rest.values[:last].copy(), rest.indices[:last].copy(), rest.indptr)
    return Patterns(values[:known], columns[:known], codes[: starts[-1]].copy(), starts, rest)


@njit(cache=True, nogil=True)
def _search(values, indices, indptr, pattern_values, pattern_columns, codes, starts, left, left_columns, left_starts):  # type: ignore[no-untyped-def]
    """Cut every row into patterns, entering new ones while there is room; returns how many there are."""
    slots = np.full(_SLOTS, -1, np.int32)
    bits = values.view(np.uint32)
    known, coded, rest = 0, 0, 0
    for i in range(indptr.shape[0] - 1):
        k = indptr[i]
        while k < indptr[i + 1]:
            end = min(k + WIDTH, indptr[i + 1])
            code = _looked_up(values[k:end], indices[k:end], bits[k:end], slots, pattern_values, pattern_columns, known)
            if code >= 0:
                codes[coded] = code
                coded += 1
                known = max(known, code + 1)
            else:
                for e in range(k, end):
                    left[rest], left_columns[rest] = values[e], indices[e]
                    rest += 1
            k = end
        starts[i + 1], left_starts[i + 1] = coded, rest
    return known


@njit(cache=True, nogil=True)
def _looked_up(values, indices, bits, slots, pattern_values, pattern_columns, known):  # type: ignore[no-untyped-def]
    """The number of the pattern of these entries, entered if it is new and there is room; else -1.

    Fewer entries than a pattern has, at the end of a row, are followed by zeros.
    """
    length = values.shape[0]
    mixed = np.uint64(length)
    for e in range(length):
        mixed ^= (np.uint64(bits[e]) << np.uint64(32)) ^ np.uint64(indices[e])
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    for probe in range(_PROBES):
        slot = np.int64((mixed + np.uint64(probe)) & np.uint64(_SLOTS - 1))
        code = slots[slot]
        if code < 0:
            if known == pattern_values.shape[0]:
                return -1
            for e in range(length):
                pattern_values[known, e], pattern_columns[known, e] = values[e], indices[e]
            slots[slot] = known
            return known
        same = True
        for e in range(pattern_values.shape[1]):
            value, column = (values[e], indices[e]) if e < length else (np.float32(0.0), np.uint32(0))
            same &= pattern_values[code, e] == value and pattern_columns[code, e] == column
        if same:
            return code
    return -1
