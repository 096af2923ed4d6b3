"""The protocol every backend implements: rows in blocks, summed in integers; and row samples."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.rows import RowSpec

__all__ = ["Block", "Dataset", "DenseBlock", "SparseBlock"]

Integers = NDArray[np.int64]
Floats = NDArray[Any]
T = TypeVar("T")


class _Remembering:
    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """compute(), the first time; what a query derives from the rows alone need not be derived at every step."""
        known: dict[Hashable, T] = self.__dict__.setdefault("_known", {})
        if key not in known:
            known[key] = compute()
        return known[key]


@dataclass(frozen=True, eq=False)
class DenseBlock(_Remembering):
    """A run of rows held as a C-contiguous array.

    ``scale[i]·x`` rounded to the nearest integer is row i on the grid (non-finite entries are 0), and
    ``squared_length[i]`` its squared length in grid steps, constant column included.
    """

    rows: RowSpec
    X: Floats
    y: NDArray[np.float64]
    scale: Floats
    squared_length: Integers


@dataclass(frozen=True, eq=False)
class SparseBlock(_Remembering):
    """A run of rows held as compressed sparse rows; ``indptr`` is relative to ``values`` and ``indices``."""

    rows: RowSpec
    values: Floats
    indices: NDArray[np.int32] | NDArray[np.int64]
    indptr: Integers
    y: NDArray[np.float64]
    scale: Floats
    squared_length: Integers


Block = DenseBlock | SparseBlock


class Dataset(Protocol):
    """Rows that can be summed over and sampled from; nothing else is asked of a backend."""

    @property
    def rows(self) -> RowSpec:
        """Public facts about the rows."""
        ...

    def map_sum(self, function: Callable[[Block], Integers], shape: tuple[int, ...]) -> Integers:
        """Σ function(block) over a partition into blocks; exact, so independent of the partition."""
        ...

    def map_blocks(self, function: Callable[[Block], Any]) -> list[Any]:
        """function(block) for each block of a partition, in row order."""
        ...

    def take(self, indices: Integers) -> Dataset:
        """The dataset of the given rows."""
        ...

    def __len__(self) -> int: ...
