"""How much of the rows' squared length lies in each column.

Claim: a row on the grid contributes (x_1², …, x_d²), scaled down to ℓ2 norm at most `ColumnEnergy.bound` whole steps,
each entry rounded toward zero and the sum of squares verified in whole numbers, for every row content whatever. None is
negative, so two rows' contributions are at most √2 times that from each other.

A row of length L whose squared length is spread evenly over k entries has ‖(x_j²)‖₂ = L²/√k: rows of texts tell their
columns' energies for a fraction of what any other sum of theirs costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset, DenseBlock
from discreet.errors import InvalidInput
from discreet.queries.base import ACUTE, Integers, Norm
from discreet.rows import RowSpec

__all__ = ["ColumnEnergy"]


@dataclass(frozen=True)
class ColumnEnergy:
    """Σ_i (x_ij²)_j, each row's vector cut to ℓ2 norm L²/√``spread``; the constant column is left out.

    Args:
        rows: public facts about the rows.
        spread: over how many entries a row's squared length is expected to be spread; rows of fewer are cut.
    """

    rows: RowSpec
    spread: float = 1.0

    norm: ClassVar[Norm] = "l2"
    bound: ClassVar[int] = 2**20
    apart: ClassVar[float] = ACUTE

    def __post_init__(self) -> None:
        if not 1 <= self.spread < math.inf:
            raise InvalidInput(f"spread must be finite and at least 1, got {self.spread!r}.")

    @property
    def grid(self) -> float:
        """Value of one step: the largest contribution L²/√spread is `bound` steps."""
        return self.rows.norm**2 / (math.sqrt(self.spread) * self.bound)

    @property
    def shape(self) -> tuple[int, ...]:
        """One entry a feature."""
        return (self.rows.n_features,)

    def integers(self, data: Dataset) -> Integers:
        """The exact sum in grid steps; blocks give entries, so that memory is O(entries + d)."""
        if not self.rows.bounded:
            raise InvalidInput("a private sum needs rows of bounded length: give row_norm.")
        return self._sum(data, rounded=True).astype(np.int64)

    def unrounded(self, data: Dataset) -> NDArray[Any]:
        """The sum of squares itself."""
        return self._sum(data, rounded=False)

    def _sum(self, data: Dataset, *, rounded: bool) -> NDArray[np.float64]:
        """Whole numbers below 2^53 add up exactly in float64."""
        total = np.zeros(self.shape)
        for where, part in data.map_blocks(lambda block: self._entries(block, rounded=rounded)):
            np.add.at(total, where, part)
        return total

    def _entries(self, block: Block, *, rounded: bool) -> tuple[Any, NDArray[np.float64]]:
        """(columns, contributions) of a block's entries, or their sums for dense rows."""
        if isinstance(block, DenseBlock) and rounded:
            from discreet.data.entries import entries, mostly_zero
            from discreet.queries.energy_kernels import add_energies, add_stored_energies

            total, factor = np.zeros(self.shape), self.rows.unit**2 / self.grid
            if mostly_zero(block):
                add_stored_energies(*entries(block, rounded=True), factor, float(self.bound), total)
            else:
                add_energies(block.X, block.scale, factor, float(self.bound), total)
            return slice(None), total
        if isinstance(block, DenseBlock):
            n, width = block.X.shape
            values, row = block.X.reshape(-1), np.repeat(np.arange(n), width)
        else:
            n, values = len(block.y), block.values
            row = np.repeat(np.arange(n), np.diff(block.indptr))
        with np.errstate(over="ignore", invalid="ignore"):
            steps = values * block.scale[row]
        steps = np.where(np.isfinite(steps), steps, 0.0).astype(np.float64)
        if rounded:
            steps = _cut(np.rint(steps) ** 2, row, n, self.rows.unit**2 / self.grid, self.bound)
        else:
            steps = (steps * self.rows.unit) ** 2
        if isinstance(block, DenseBlock):
            return slice(None), steps.reshape(n, self.rows.n_features).sum(axis=0)
        return block.indices, steps


def _cut(
    squares: NDArray[np.float64], row: NDArray[np.int64], n: int, factor: float, bound: int
) -> NDArray[np.float64]:
    """⌊c·squares⌋ with one c ≤ ``factor`` a row, such that no row's vector is longer than ``bound``."""
    lengths = np.sqrt(np.bincount(row, weights=squares**2, minlength=n))
    scale = np.minimum(factor, bound / np.maximum(lengths, 1.0))
    steps = np.floor(squares * scale[row])
    steps[(np.bincount(row, weights=steps**2, minlength=n) > float(bound) ** 2)[row]] = 0.0  # but by float rounding
    return steps
