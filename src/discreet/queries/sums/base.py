"""Exact sums of whole rows: float64 adds them without error below 2^53, and only then they become integers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset
from discreet.errors import InvalidInput
from discreet.queries.base import Integers
from discreet.rows import RowSpec

__all__ = ["ExactSum"]


class ExactSum(ABC):
    """A sum over rows of bounded length, by default with one entry a feature, in steps of the rows.

    A subclass is a dataclass with a field ``rows``, and has a ``norm`` and a ``bound``. Its `_block` gives the
    contributions of a block: whole numbers where rows are rounded, such that 2^27 rows add up to less than 2^53.
    """

    rows: RowSpec

    @property
    def grid(self) -> float:
        """Value of one step."""
        return self.rows.unit

    @property
    def shape(self) -> tuple[int, ...]:
        """One entry a feature."""
        return (self.rows.n_features,)

    def integers(self, data: Dataset) -> Integers:
        """The exact sum in grid steps."""
        if not self.rows.bounded:
            raise InvalidInput("a private sum needs rows of bounded length: give row_norm.")
        return self._total(data, rounded=True).astype(np.int64)

    def unrounded(self, data: Dataset) -> NDArray[np.float64]:
        """The sum in floating point, of rows that are not rounded."""
        return self.grid * self._total(data, rounded=False)

    def _total(self, data: Dataset, *, rounded: bool) -> NDArray[np.float64]:
        """Blocks of few sparse rows give entries instead of sums, so that memory is O(d) a block or less."""
        total = np.zeros(self.shape)

        def contributions(block: Block) -> tuple[Any, NDArray[np.float64]]:
            places, found = self._block(block, rounded=rounded)
            if found.size <= total.size:
                return places, found
            whole = np.zeros(self.shape)
            np.add.at(whole, places, found)
            return ..., whole

        for places, found in data.map_blocks(contributions):
            np.add.at(total, places, found)
        return total

    @abstractmethod
    def _block(self, block: Block, *, rounded: bool) -> tuple[Any, NDArray[np.float64]]:
        """(places, contributions to them) of a block: all places, or one for each stored entry."""
