"""Sums of signs: on which side of a centre targets and projections of rows lie, and whether within a spread of it.

Stochastic approximation finds a median and a median absolute deviation from such signs (Robbins–Monro 1951).

Claim: each row contributes four signs, −1, 0 or 1 in steps of 2^−10, hence a vector of ℓ2 norm at most 2, for every row
content whatever; the steps are for the noise, which is drawn on them.
The projection is on a direction of −1, 0 and 1 and a prepared row is whole, so that it is exact in any order of
summation and a row's signs depend on nothing but the row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset
from discreet.errors import InvalidInput
from discreet.queries.base import Integers, Norm
from discreet.rows import RowSpec

__all__ = ["SignSums"]

_STEPS = 2**10


@dataclass(frozen=True, eq=False)
class SignSums:
    """Σ of (sign(v − c), sign(|v − c| − w)) for a row's target v, then for its projection v = ⟨x, direction⟩.

    Args:
        rows: public facts about the rows.
        direction: one entry a column, the constant one left out; each −1, 0 or 1.
        centres: c of the target and of the projection.
        spreads: w of the target and of the projection.
    """

    rows: RowSpec
    direction: NDArray[np.float64]
    centres: tuple[float, float]
    spreads: tuple[float, float]

    norm: ClassVar[Norm] = "l2"
    bound: ClassVar[int] = 2 * _STEPS
    grid: ClassVar[float] = 1.0 / _STEPS
    shape: ClassVar[tuple[int, ...]] = (4,)

    def __post_init__(self) -> None:
        if self.direction.shape != (self.rows.n_features,):
            raise InvalidInput(
                f"a direction of shape {self.direction.shape} does not fit {self.rows.n_features} columns."
            )
        if not np.isin(self.direction, (-1.0, 0.0, 1.0)).all():
            raise InvalidInput("a direction must be of −1, 0 and 1, so that projections are exact.")

    def integers(self, data: Dataset) -> Integers:
        """The exact sum of signs."""
        if not self.rows.bounded:
            raise InvalidInput("a private sum of signs needs rows of bounded length: give row_norm or a schema.")

        def block_sum(block: Block) -> Integers:
            return np.asarray(_STEPS * self._signs(block, rounded=True).astype(np.int64).sum(axis=1))

        return data.map_sum(block_sum, self.shape)

    def unrounded(self, data: Dataset) -> NDArray[Any]:
        """The sums of signs of rows that are not rounded."""
        return np.sum(data.map_blocks(lambda block: self._signs(block, rounded=False).sum(axis=1)), axis=0)

    def _signs(self, block: Block, *, rounded: bool) -> NDArray[np.float64]:
        projected = block.once(("projected", self.direction.tobytes(), rounded), lambda: self._project(block, rounded))
        signs = []
        for values, centre, spread in zip((block.y, projected), self.centres, self.spreads, strict=True):
            with np.errstate(all="ignore"):  # what is not finite has no side
                away = values - centre
                signs += [np.sign(away), np.sign(np.abs(away) - spread)]
        return np.nan_to_num(np.stack(signs))

    def _project(self, block: Block, rounded: bool) -> NDArray[np.float64]:
        from discreet.data.steps import chunks

        theta = np.zeros(self.rows.dimension)
        theta[: len(self.direction)] = self.direction
        projected = np.empty(len(block.y))
        for part, rows in chunks(block, rounded=rounded):
            projected[part] = np.asarray(rows @ theta) * self.rows.unit
        return projected
