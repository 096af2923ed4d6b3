"""A column of cells among which few differ, held as the different ones and a number for each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["FEW", "Repeated", "numbered"]

FEW = 256
"""So many cells are numbered in one byte a row."""


def numbered(cells: Sequence[Any], known: dict[Any, int]) -> npt.NDArray[Any]:
    """The number of each cell, in the least memory; new cells are added to ``known``."""
    codes = np.fromiter((known.setdefault(cell, len(known)) for cell in cells), np.int32, len(cells))
    return codes.astype(np.uint8) if len(known) <= FEW else codes


class Repeated:
    """A column whose row i has the cell ``cells[which[i]]``.

    Cells are read by themselves, so reading the different ones is enough: the time is that of an array of whole
    numbers. `numpy.asarray` gives all cells as Python objects, each different one once in memory.

    Args:
        cells: the different cells.
        which: for each row, the number of its cell.

    Example:
        >>> column = Repeated(["clerk", "nurse"], np.array([1, 0, 0]))
        >>> len(column), column[0], np.asarray(column[1:]).tolist()
        (3, 'nurse', ['clerk', 'clerk'])
    """

    ndim = 1

    def __init__(self, cells: Sequence[Any], which: npt.NDArray[Any]) -> None:
        self.cells, self.which = list(cells), which

    def __len__(self) -> int:
        return len(self.which)

    def __iter__(self) -> Iterator[Any]:
        return (self.cells[code] for code in self.which.tolist())

    def __getitem__(self, rows: Any) -> Any:
        found = self.which[rows]
        return Repeated(self.cells, found) if isinstance(found, np.ndarray) else self.cells[found]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        cells = np.fromiter(self.cells, dtype=object, count=len(self.cells))[self.which]
        return cells if dtype is None else cells.astype(dtype)

    def tolist(self) -> list[Any]:
        """All cells, one a row."""
        return list(self)

    def astype(self, dtype: Any) -> npt.NDArray[Any]:
        """All cells as an array of another type."""
        return np.asarray(self).astype(dtype)
