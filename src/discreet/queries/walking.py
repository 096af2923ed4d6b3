"""Frank–Wolfe on sparse rows without touching them all: the trusted side's memory of a walk.

A `SparseWalk` gives the very integers of `ScoreSum`, kept up instead of computed anew. Choosing vertex ±r·e_j moves the
scores ⟨x_i, θ⟩ of the rows in column j; the shrinking of all the others is one common factor, since θ is a whole vector
over a common divisor. So a step costs one column and one slope for each row that has ever moved.

Slopes are *not* passed on to the d gradient entries at once. One row moves an entry by at most |slope change|·‖x‖∞, so
all entries of columns with at most c non-zeros are within

    slack = min(Σ_i pending_i, c·max_i pending_i)

of the recorded gradient, and `noise.WeightedRejection` needs no more than that bound, and the exact entry of the one column it
proposes, to draw exactly. A row's influence on the draw is at most its privacy loss: for meaningful privacy the slack
of short columns stays far below the noise for very long. Columns are kept in tiers by length, so that long ones, which
move with every step, do not drag the short ones along; a tier's largest pending changes are recorded when its slack
reaches half the noise.

What is kept here is a function of rows, never released, and forgotten with the dataset or the walk.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import SparseBlock
from discreet.data.memory import Sparse
from discreet.noise.bits import Bits
from discreet.noise.weighted_rejection import WeightedRejection
from discreet.queries import score_kernels, walk_kernels
from discreet.queries.atoms import CoordinateAtoms
from discreet.queries.base import Integers
from discreet.queries.scores import ScoreSum, Walk

__all__ = ["SparseWalk", "walk_of"]

_NO_URN = (np.zeros(1, np.uint64), np.zeros(1, np.uint64), 0, 1.0, 1, 1)
_TIERS = np.array([16, 64, 256, 1024])  # columns of at most so many non-zeros; the last tier has all longer ones


@dataclass(eq=False)
class _Tier:
    """The entries of a block in columns of similar length, by row, and the slopes with which they are recorded."""

    first: Integers
    columns: NDArray[np.int32]
    steps: NDArray[np.int32]
    recorded: Integers


@dataclass(eq=False)
class _Part:
    """A block of rows: its columns, and for each row its score and slope, in whole numbers."""

    y: NDArray[np.float64]
    starts: Integers
    rows: NDArray[np.int32]
    steps: NDArray[np.int32]
    largest: Integers
    cap: NDArray[np.float64]
    score: Integers  # (n, 2): ⟨x, weights⟩, and whether the row is listed in `moved`
    slope: Integers
    moved: Integers  # the first `count` are rows whose score has ever left 0
    count: int = 0
    tiers: list[_Tier] = field(default_factory=list)

    @classmethod
    def of(cls, block: SparseBlock, row_bound: int) -> _Part:
        n, rows = len(block.y), block.rows
        largest = np.empty(n)
        score_kernels.largest_sparse(block.values, block.indptr, block.scale, rows.constant, True, largest)
        entries = (block.values, block.indices, block.indptr, block.scale)
        starts, by_column, steps = walk_kernels.columns(*entries, rows.n_features)
        caps = score_kernels.caps(largest, row_bound, True)
        score, slope = np.zeros((n, 2), np.int64), np.zeros(n, np.int64)
        return cls(block.y, starts, by_column, steps, largest.astype(np.int64), caps, score, slope, np.arange(n))

    def add_tier(self, tier_of_column: NDArray[np.int8], which: int) -> None:
        n = len(self.y)
        first, columns, steps = walk_kernels.rows_of(self.starts, self.rows, self.steps, tier_of_column, which, n)
        self.tiers.append(_Tier(first, columns, steps, np.zeros(n, np.int64)))


class SparseWalk:
    """The state of one walk over one dataset, for one query's loss, clip and vertices."""

    def __init__(self, query: ScoreSum, data: Sparse) -> None:
        query.require_bounds()
        if not isinstance(query.atoms, CoordinateAtoms):
            raise TypeError("only vertices ±r·e_j can be walked sparsely")
        self.atoms, self.loss, self.clip = query.atoms, query.loss, query.clip
        self.constant = int(query.rows.constant)
        self.features = query.rows.n_features
        self.taken = 0
        self.sampler: WeightedRejection | None = None
        self.parts = [_Part.of(block, self.atoms.row_bound) for block in data.map_blocks(lambda block: block)]
        self.columns, self.longest = self._make_tiers()
        self.gradient = np.zeros(self.atoms.d, np.int64)
        self.slope_total = 0
        everyone = [np.arange(len(part.slope)) for part in self.parts]
        self._refresh(query, everyone)
        self._settle(range(len(self.longest)), [0] * len(self.longest), everyone)

    def _make_tiers(self) -> tuple[list[NDArray[np.int32]], list[int]]:
        """Give every part its tiers; returns the columns of each, and the length of the longest."""
        lengths = np.sum([np.diff(part.starts) for part in self.parts], axis=0)
        tier_of_column = np.searchsorted(_TIERS, lengths).astype(np.int8)
        present = np.unique(tier_of_column)
        for part in self.parts:
            for which in present:
                part.add_tier(tier_of_column, which)
        columns = [np.flatnonzero(tier_of_column == which).astype(np.int32) for which in present]
        return columns, [int(lengths[tier].max()) for tier in columns]

    def fits(self, query: ScoreSum) -> bool:
        """Whether this state can go on to where the query stands."""
        same = query.atoms is self.atoms and query.loss == self.loss and query.clip == self.clip
        return same and self.taken <= query.taken

    def advance(self, query: ScoreSum) -> None:
        """Go to where the query stands."""
        for k in range(self.taken, query.taken):
            coordinate, sign = self.atoms.step(query.walk.chosen[k])
            weight = sign * (k + 1)
            for part in self.parts:
                state = (part.score, part.moved, part.count)
                if coordinate == self.features:
                    part.count = walk_kernels.move_all(weight * self.constant, *state)
                else:
                    part.count = walk_kernels.move(part.starts, part.rows, part.steps, coordinate, weight, *state)
        self.taken = query.taken
        self._refresh(query, self._moved)

    def choose(self, query: ScoreSum, scale: float, bits: Bits) -> int:
        """A vertex with probability exactly ∝ exp(score / scale)."""
        if self.taken != query.taken:
            self.advance(query)
        if self.sampler is None or self.sampler.float_scale != scale:
            self.sampler = WeightedRejection(self._recorded_scores(), scale)
        slacks = [self._slack(tier, self._moved) for tier in range(len(self.longest))]
        late = [tier for tier, slack in enumerate(slacks) if slack > scale / 2]
        if late:
            moved = sum(part.count for part in self.parts)
            least = [int(scale / 8) // max(1, min(moved, longest)) + 1 for longest in self.longest]
            self._settle(late, least, self._moved)
            slacks = [self._slack(tier, self._moved) for tier in range(len(self.longest))]
        self.slack = max(slacks, default=0)
        return self.sampler.draw(self.score_of, self.slack, bits=bits)

    def score_of(self, vertex: int) -> int:
        """The exact score of one vertex, from its column alone."""
        coordinate, sign = self.atoms.step(vertex)
        if coordinate == self.features:
            return -sign * self.constant * self.slope_total
        columns = ((part.starts, part.rows, part.steps, coordinate, part.slope) for part in self.parts)
        return -sign * sum(int(walk_kernels.column_sum(*column)) for column in columns)

    @property
    def _moved(self) -> list[Integers]:
        return [part.moved[: part.count] for part in self.parts]

    def _recorded_scores(self) -> Integers:
        return -self.atoms.scores(self.gradient)

    def _refresh(self, query: ScoreSum, moved: list[Integers]) -> None:
        loss = (self.loss.kind, self.loss.parameter, self.loss.smoothing)
        z_unit = query.rows.unit * self.atoms.weight_unit(self.taken)
        for part, listed in zip(self.parts, moved, strict=True):
            arguments = (listed, part.score, part.y, part.cap, loss, z_unit, query.slope_steps, part.slope)
            self.slope_total += int(walk_kernels.refresh(*arguments))
        if self.constant:
            self._record_constant()

    def _pending(self, tier: int, least: int, moved: list[Integers]) -> list[tuple[int, int, int]]:
        return [
            walk_kernels.pending(
                listed, part.slope, part.tiers[tier].recorded, part.largest, least, part.tiers[tier].first
            )
            for part, listed in zip(self.parts, moved, strict=True)
        ]

    def _slack(self, tier: int, moved: list[Integers]) -> int:
        """No entry of the tier's columns is further than this from the recorded one."""
        sums, largest, _ = zip(*self._pending(tier, 0, moved), strict=True)
        return min(sum(map(int, sums)), self.longest[tier] * int(max(largest)))

    def _settle(self, tiers: Iterable[int], least: Sequence[int], moved: list[Integers]) -> None:
        """Record what is pending in these tiers; the sampler follows by entries, or by columns if they are fewer."""
        sampler, follows = self.sampler, True
        for tier in tiers:
            entries = sum(int(count) for *_, count in self._pending(tier, least[tier], moved))
            columns = self.columns[tier]
            waits = sampler is None or len(columns) < entries
            for part, listed in zip(self.parts, moved, strict=True):
                own = part.tiers[tier]
                follows &= walk_kernels.settle(
                    listed, own.first, own.columns, own.steps, part.largest, part.slope, own.recorded, least[tier],
                    self.gradient, self.atoms.signed, _NO_URN if sampler is None else sampler.table, waits,
                )  # fmt: skip
            if sampler is not None and waits:
                follows &= walk_kernels.record_columns(columns, self.gradient, self.atoms.signed, sampler.table)
        if sampler is not None and (not follows or sampler.worn):
            sampler.fill(self._recorded_scores())

    def _record_constant(self) -> None:
        """The constant column holds every row, so it is never left pending."""
        self.gradient[self.features] = total = self.constant * self.slope_total
        if self.sampler is not None:
            follows = self.sampler.record(self.features, -total)
            if self.atoms.signed:
                follows &= self.sampler.record(self.atoms.d + self.features, total)
            if not follows:
                self.sampler.fill(self._recorded_scores())


_WALKS: WeakKeyDictionary[Sparse, WeakKeyDictionary[Walk, SparseWalk]] = WeakKeyDictionary()


def walk_of(query: ScoreSum, data: Sparse) -> SparseWalk:
    """The state of the query's walk over these rows, made at its first step."""
    walks = _WALKS.get(data)
    if walks is None:
        walks = _WALKS[data] = WeakKeyDictionary()
    state = walks.get(query.walk)
    if state is None or not state.fits(query):
        state = walks[query.walk] = SparseWalk(query, data)
    return state
