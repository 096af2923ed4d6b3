"""Scores of the positions of a declared grid: minus the rows between each and a quantile of the targets.

Claim: with S₋(t) = Σ_i (1[v_i < t] − q) and S₊(t) = Σ_i (q − 1[v_i ≤ t]), the score of position t is
−max(0, S₋(t), S₊(t)): how many rows would have to move before t is a q-quantile. One row more or less moves each of
S₋(t), S₊(t) by at most max(q, 1 − q) and one row replaced by at most 1, hence also the score, at every t. Rows without
a number contribute 0. All of it is in integers: ranks count in steps of 2^−RANK_BITS, and q is rounded to one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset
from discreet.errors import InvalidInput
from discreet.queries.base import Integers
from discreet.units import Relation

__all__ = ["RANK_BITS", "Grid", "PiecewiseScores", "Ranks"]

RANK_BITS = 20
"""One row is 2^RANK_BITS steps of a score; 2^27 rows then stay below 2^47."""

_MOST_POSITIONS = 1 << 28


@dataclass(frozen=True)
class Grid:
    """The positions low, low + step, …, low + (size − 1)·step: public, declared before any row is seen."""

    low: float
    step: float
    size: int

    @classmethod
    def between(cls, low: float, high: float, step: float | None = None) -> Grid:
        """The grid from low to high; by default in 2^20 steps.

        Example:
            >>> Grid.between(0, 120, 1).size
            121
        """
        if not (np.isfinite(low) and np.isfinite(high) and low < high and np.isfinite(high - low)):
            raise InvalidInput(f"bounds must be finite with low < high, got ({low!r}, {high!r}).")
        step = (high - low) / 2.0**20 if step is None else float(step)
        if not (0 < step <= high - low) or (high - low) / step >= _MOST_POSITIONS:
            raise InvalidInput(
                f"step must be positive and give between 2 and 2^28 positions on [{low:g}, {high:g}], got {step!r}."
            )
        return cls(float(low), step, int((high - low) / step * (1 + 1e-12)) + 1)

    def positions(self, values: NDArray[np.float64]) -> Integers:
        """The position nearest to each value, values beyond the ends at the ends; NaN is dropped."""
        known = values[~np.isnan(values)]
        with np.errstate(over="ignore"):
            steps = np.rint((known - self.low) / self.step)
        return np.clip(steps, 0, self.size - 1).astype(np.int64)

    def value(self, position: int) -> float:
        """The number at a position."""
        return self.low + self.step * position


@dataclass(frozen=True, eq=False)
class PiecewiseScores:
    """The score as a function on the grid: constant on intervals of ``lengths`` positions, in grid order."""

    values: Integers
    lengths: Integers

    def start(self, interval: int) -> int:
        """The first position of an interval."""
        return int(self.lengths[:interval].sum())


@dataclass(frozen=True)
class Ranks:
    """Scores of all positions of ``grid`` as the ``q``-quantile of the targets."""

    grid: Grid
    q: float

    def __post_init__(self) -> None:
        if not 0 <= self.q <= 1:
            raise InvalidInput(f"a quantile's q must be in [0, 1], got {self.q!r}.")

    @property
    def q_steps(self) -> int:
        """The quantile in rank steps."""
        return round(self.q * 2**RANK_BITS)

    def sensitivity(self, relation: Relation) -> int:
        """The most by which one row moves a score, in rank steps."""
        return 2**RANK_BITS if relation == "replace-one" else max(self.q_steps, 2**RANK_BITS - self.q_steps)

    def scores(self, data: Dataset) -> PiecewiseScores:
        """The exact scores: one interval for each distinct value, and one for each gap between them."""

        def counted(block: Block) -> tuple[Integers, Integers]:
            return np.unique(self.grid.positions(block.y), return_counts=True)

        parts = data.map_blocks(counted)
        found = np.concatenate([np.empty(0, np.int64), *(values for values, _ in parts)])
        counts = np.concatenate([np.empty(0, np.int64), *(number for _, number in parts)])
        values, where = np.unique(found, return_inverse=True)
        heights = np.zeros(len(values), np.int64)
        np.add.at(heights, where, counts)
        # intervals alternate: gap, value, gap, …, value, gap
        below = np.zeros(2 * len(values) + 1, np.int64)
        upto = np.zeros_like(below)
        lengths = np.ones_like(below)
        cumulated = np.cumsum(heights)
        below[1::2], below[2::2] = cumulated - heights, cumulated
        upto[1::2], upto[2::2] = cumulated, cumulated
        lengths[0::2] = np.diff(np.concatenate([[-1], values, [self.grid.size]])) - 1
        wanted = self.q_steps * int(heights.sum())
        over, short = (below << RANK_BITS) - wanted, wanted - (upto << RANK_BITS)
        return PiecewiseScores(-np.maximum(0, np.maximum(over, short)), lengths)
