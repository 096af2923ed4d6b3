"""Sums in floating point that do not depend on where rows are held: fixed runs of rows, added in a fixed tree.

Sums in integers are exact, so their order is free. A sum of floats is not: its last bits depend on which rows are added
to each other first. Every backend cuts the rows into the same *runs*, of a length that follows from public facts and
the number of rows, and adds the sums of runs along the same binary tree. Rows in memory, in files and on a cluster then
give the same bits, on any number of cores of the same kind.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Generic, TypeVar

from discreet.rows import RowSpec

__all__ = ["RunTree", "pairs", "run_edges", "run_rows"]

T = TypeVar("T")

_LEAST_ENTRIES, _MOST_ENTRIES = 1 << 19, 1 << 20
"""Entries of a run: a core needs about 0.1 ms for the fewest; the most take 8 MB as doubles, and about five times that
while they are encoded."""
_FEW_RUNS = 64
"""Between these sizes rows are cut into so many runs, enough for the cores of one machine."""
_STORED = 64
"""Entries that a sparse row is taken to have; how many it has is not public."""


def run_rows(n: int, rows: RowSpec, *, sparse: bool) -> int:
    """The number of rows of a run.

    Args:
        n: the number of rows.
        rows: public facts about them.
        sparse: whether they are held sparse.

    Example:
        >>> run_rows(10**7, RowSpec(63, 1.0, 0.5), sparse=False)
        16384
    """
    width = min(_STORED, rows.dimension) if sparse else rows.dimension
    least, most = max(1, _LEAST_ENTRIES // width), max(1, _MOST_ENTRIES // width)
    return min(max(least, -(-n // _FEW_RUNS)), most)


def run_edges(n: int, size: int) -> list[int]:
    """Where runs of ``size`` rows begin, and where the last ends.

    Example:
        >>> run_edges(10, 4)
        [0, 4, 8, 10]
    """
    return [*range(0, n, size), n] if n else [0, 0]


class RunTree(Generic[T]):
    """Adds the values of runs 0, 1, …, each to its neighbour in a binary tree; None stands for a run without rows.

    A part of the runs gives `nodes`, which another tree takes: so what a shard has added need not be added again, and
    the result is that of one tree for all.

    Args:
        add: adds two neighbours, the earlier one first.

    Example:
        >>> tree = RunTree(lambda a, b: f"({a}{b})")
        >>> for index, value in enumerate("abcde"):
        ...     tree.push(index, value)
        >>> tree.total()
        '(((ab)(cd))e)'
    """

    def __init__(self, add: Callable[[T, T], T]) -> None:
        self._add, self.nodes = add, dict[tuple[int, int], T | None]()

    def _added(self, left: T | None, right: T | None) -> T | None:
        if left is None or right is None:
            return right if left is None else left
        return self._add(left, right)

    def push(self, index: int, value: T | None, level: int = 0) -> None:
        """Take the value of a run, or of the 2^``level`` runs of a node."""
        while (level, index ^ 1) in self.nodes:
            other = self.nodes.pop((level, index ^ 1))
            value = self._added(other, value) if index & 1 else self._added(value, other)
            level, index = level + 1, index >> 1
        self.nodes[level, index] = value

    def total(self) -> T | None:
        """The sum over all runs; None if none has rows."""
        ordered = sorted(self.nodes, key=lambda node: node[1] << node[0], reverse=True)
        found: T | None = None
        for first in ordered:
            found = self._added(self.nodes[first], found)
        return found


def pairs(edges: list[int]) -> list[slice]:
    """The slices between edges."""
    return [slice(a, b) for a, b in itertools.pairwise(edges)]
