"""The sum of entries around a centre, each cut, by which a centre finds where the columns are.

Claim: every entry x_j − c_j is shrunk to ± ``width`` and rounded to at most 2^15 steps, so each row contributes a whole
vector of ℓ2 length at most 2^15·√d, d the number of columns, for every row content whatever.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset
from discreet.errors import InvalidInput
from discreet.queries.base import Integers, Norm
from discreet.queries.entries import ENTRY_BITS, Shrinkage
from discreet.rows import RowSpec

__all__ = ["ClippedEntrySum"]


@dataclass(frozen=True, eq=False)
class ClippedEntrySum:
    """Σ_i clip(x_i − centre, ± ``width``), entry by entry, without the constant column.

    Args:
        rows: public facts about the rows; their ℓ2 norm is not used.
        centre: one entry a column, public or released before.
        width: the largest deviation from the centre that counts.
    """

    rows: RowSpec
    centre: NDArray[np.float64]
    width: float

    norm: ClassVar[Norm] = "l2"

    def __post_init__(self) -> None:
        if self.centre.shape != (self.rows.n_features,):
            raise InvalidInput(f"a centre of shape {self.centre.shape} does not fit {self.rows.n_features} columns.")
        if not self.width > 0:
            raise InvalidInput(f"width must be positive, got {self.width!r}.")

    @property
    def bound(self) -> int:
        """√d entries of 2^15 steps, rounded up."""
        return math.isqrt(self.rows.n_features * 4**ENTRY_BITS - 1) + 1 if self.rows.n_features else 1

    @property
    def grid(self) -> float:
        """Value of one step."""
        return self.width / 2.0**ENTRY_BITS

    @property
    def shape(self) -> tuple[int, ...]:
        """One sum a column."""
        return (self.rows.n_features,)

    def integers(self, data: Dataset) -> Integers:
        """The exact sum in grid steps."""
        if not math.isfinite(self.width):
            raise InvalidInput("a private sum of entries needs a finite width.")
        return data.map_sum(lambda block: self._sum(block, whole=True).astype(np.int64), self.shape)

    def unrounded(self, data: Dataset) -> NDArray[np.float64]:
        """The sum in floating point; an infinite width cuts nothing."""
        return np.asarray(np.sum(data.map_blocks(lambda block: self._sum(block, whole=False)), axis=0))

    def _sum(self, block: Block, *, whole: bool) -> NDArray[np.float64]:
        """Sums of a block: 2^27 rows of entries of at most 2^16 steps stay below 2^53."""
        total = np.zeros(self.shape)
        for part, rows in Shrinkage(self.rows, self.width, self.centre).chunks(block, whole=whole):
            total += rows.weighted_sum(np.ones(part.stop - part.start))
        return total
