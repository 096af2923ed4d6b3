"""Lazy selection of vertices on sparse rows: a step of Frank–Wolfe that does not touch all rows and columns.

A `LazySelection` has the very integers of `VertexScores`, updated instead of computed anew. Choosing vertex ±r·e_j
moves the scores ⟨x_i, θ⟩ of the rows in column j; the shrinking of all the others is one common factor, since θ is a
whole vector over a common divisor. So a step costs one column and one slope for each row that has ever moved.

Slopes are *not* passed on to the d gradient entries at once. One row moves an entry by at most |slope change|·‖x‖∞, so
all entries of columns with at most c non-zeros are within

    slack = min(Σ_i pending_i, c·max_i pending_i)

of the recorded gradient, and `noise.WeightedRejection` needs no more than that bound, and the exact entry of the one
column it proposes, to draw exactly. A row's influence on the draw is at most its privacy loss: for meaningful privacy
the slack of short columns stays far below the noise for very long. Columns are kept in tiers by length, so that long
ones, which move with every step, do not drag the short ones along; a tier's largest pending changes are recorded when
its slack reaches half the noise.

What is kept here is a function of rows. It stays on the trusted side, is never released, and is forgotten with the
dataset or with the list of chosen vertices.
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
from discreet.queries.base import Integers
from discreet.queries.frank_wolfe.scores import ChosenVertices, VertexScores
from discreet.queries.frank_wolfe.vertices import CoordinateVertices
from discreet.queries.kernels import lazy_selection as kernels
from discreet.queries.kernels import slope_caps

__all__ = ["LazySelection", "selection_of"]

_NO_SAMPLER = (np.zeros(1, np.uint64), np.zeros(1, np.uint64), 0, 1.0, 1, 1)
_TIERS = np.array([16, 64, 256, 1024])  # columns of at most so many non-zeros; the last tier has all longer ones


@dataclass(eq=False)
class _Tier:
    """The entries of a block in columns of similar length, by row, and the slopes with which they are recorded."""

    first: Integers
    columns: NDArray[np.int32]
    steps: NDArray[np.int32]
    recorded: Integers


@dataclass(eq=False)
class _BlockState:
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
    def of(cls, block: SparseBlock, row_bound: int) -> _BlockState:
        n, rows = len(block.y), block.rows
        largest = np.empty(n)
        slope_caps.largest_sparse(block.values, block.indptr, block.scale, rows.constant, True, largest)
        entries = (block.values, block.indices, block.indptr, block.scale)
        starts, by_column, steps = kernels.columns(*entries, rows.n_features)
        caps = slope_caps.entry_caps(largest, row_bound, True)
        score, slope = np.zeros((n, 2), np.int64), np.zeros(n, np.int64)
        return cls(block.y, starts, by_column, steps, largest.astype(np.int64), caps, score, slope, np.arange(n))

    def add_tier(self, tier_of_column: NDArray[np.int8], which: int) -> None:
        n = len(self.y)
        first, columns, steps = kernels.rows_of(self.starts, self.rows, self.steps, tier_of_column, which, n)
        self.tiers.append(_Tier(first, columns, steps, np.zeros(n, np.int64)))


class LazySelection:
    """Scores of one run of Frank–Wolfe over one dataset, for one query's loss, clip and vertices."""

    def __init__(self, query: VertexScores, data: Sparse) -> None:
        query.require_bounds()
        if not isinstance(query.vertices, CoordinateVertices):
            raise TypeError("only vertices ±r·e_j can be selected lazily")
        self.vertices, self.loss, self.clip = query.vertices, query.loss, query.clip
        self.constant = int(query.rows.constant)
        self.features = query.rows.n_features
        self.taken = 0
        self.sampler: WeightedRejection | None = None
        self.blocks = [_BlockState.of(block, self.vertices.row_bound) for block in data.map_blocks(lambda block: block)]
        self.columns, self.longest = self._make_tiers()
        self.gradient = np.zeros(self.vertices.d, np.int64)
        self.slope_total = 0
        everyone = [np.arange(len(block.slope)) for block in self.blocks]
        self._update_slopes(query, everyone)
        self._record_pending(range(len(self.longest)), [0] * len(self.longest), everyone)

    def _make_tiers(self) -> tuple[list[NDArray[np.int32]], list[int]]:
        """Give every block its tiers; returns the columns of each, and the length of the longest."""
        lengths = np.sum([np.diff(block.starts) for block in self.blocks], axis=0)
        tier_of_column = np.searchsorted(_TIERS, lengths).astype(np.int8)
        present = np.unique(tier_of_column)
        for block in self.blocks:
            for which in present:
                block.add_tier(tier_of_column, which)
        columns = [np.flatnonzero(tier_of_column == which).astype(np.int32) for which in present]
        return columns, [int(lengths[tier].max()) for tier in columns]

    def fits(self, query: VertexScores) -> bool:
        """Whether the query continues this run: the same question, at the same step or a later one."""
        same = query.vertices is self.vertices and query.loss == self.loss and query.clip == self.clip
        return same and self.taken <= query.taken

    def advance(self, query: VertexScores) -> None:
        """Take the steps that the query has taken since."""
        for k in range(self.taken, query.taken):
            coordinate, sign = self.vertices.step(query.chosen.indices[k])
            weight = sign * (k + 1)
            for block in self.blocks:
                state = (block.score, block.moved, block.count)
                if coordinate == self.features:
                    block.count = kernels.add_constant(weight * self.constant, *state)
                else:
                    block.count = kernels.add_column(block.starts, block.rows, block.steps, coordinate, weight, *state)
        self.taken = query.taken
        self._update_slopes(query, self._moved)

    def choose(self, query: VertexScores, scale: float, bits: Bits) -> int:
        """A vertex with probability exactly ∝ exp(score / scale)."""
        if self.taken != query.taken:
            self.advance(query)
        if self.sampler is None or self.sampler.float_scale != scale:
            self.sampler = WeightedRejection(self._recorded_scores(), scale)
        slacks = [self._slack(tier, self._moved) for tier in range(len(self.longest))]
        late = [tier for tier, slack in enumerate(slacks) if slack > scale / 2]
        if late:
            moved = sum(block.count for block in self.blocks)
            least = [int(scale / 8) // max(1, min(moved, longest)) + 1 for longest in self.longest]
            self._record_pending(late, least, self._moved)
            slacks = [self._slack(tier, self._moved) for tier in range(len(self.longest))]
        self.slack = max(slacks, default=0)
        return self.sampler.draw(self.score_of, self.slack, bits=bits)

    def score_of(self, vertex: int) -> int:
        """The exact score of one vertex, from its column alone."""
        coordinate, sign = self.vertices.step(vertex)
        if coordinate == self.features:
            return -sign * self.constant * self.slope_total
        columns = ((block.starts, block.rows, block.steps, coordinate, block.slope) for block in self.blocks)
        return -sign * sum(int(kernels.column_sum(*column)) for column in columns)

    @property
    def _moved(self) -> list[Integers]:
        return [block.moved[: block.count] for block in self.blocks]

    def _recorded_scores(self) -> Integers:
        return -self.vertices.scores(self.gradient)

    def _update_slopes(self, query: VertexScores, moved: list[Integers]) -> None:
        loss = (self.loss.kind, self.loss.parameter, self.loss.smoothing)
        z_unit = query.rows.unit * self.vertices.weight_unit(self.taken)
        for block, listed in zip(self.blocks, moved, strict=True):
            arguments = (listed, block.score, block.y, block.cap, loss, z_unit, query.slope_steps, block.slope)
            self.slope_total += int(kernels.update_slopes(*arguments))
        if self.constant:
            self._record_constant()

    def _pending(self, tier: int, least: int, moved: list[Integers]) -> list[tuple[int, int, int]]:
        return [
            kernels.pending(
                listed, block.slope, block.tiers[tier].recorded, block.largest, least, block.tiers[tier].first
            )
            for block, listed in zip(self.blocks, moved, strict=True)
        ]

    def _slack(self, tier: int, moved: list[Integers]) -> int:
        """No entry of the tier's columns is further than this from the recorded one."""
        sums, largest, _ = zip(*self._pending(tier, 0, moved), strict=True)
        return min(sum(map(int, sums)), self.longest[tier] * int(max(largest)))

    def _record_pending(self, tiers: Iterable[int], least: Sequence[int], moved: list[Integers]) -> None:
        """Record what is pending in these tiers; the sampler follows by entries, or by columns if they are fewer."""
        sampler, follows = self.sampler, True
        for tier in tiers:
            entries = sum(int(count) for *_, count in self._pending(tier, least[tier], moved))
            columns = self.columns[tier]
            waits = sampler is None or len(columns) < entries
            for block, listed in zip(self.blocks, moved, strict=True):
                own = block.tiers[tier]
                follows &= kernels.record_pending(
                    listed, own.first, own.columns, own.steps, block.largest, block.slope, own.recorded, least[tier],
                    self.gradient, self.vertices.signed, _NO_SAMPLER if sampler is None else sampler.table, waits,
                )  # fmt: skip
            if sampler is not None and waits:
                follows &= kernels.record_columns(columns, self.gradient, self.vertices.signed, sampler.table)
        if sampler is not None and (not follows or sampler.worn):
            sampler.fill(self._recorded_scores())

    def _record_constant(self) -> None:
        """The constant column holds every row, so it is never left pending."""
        self.gradient[self.features] = total = self.constant * self.slope_total
        if self.sampler is not None:
            follows = self.sampler.record(self.features, -total)
            if self.vertices.signed:
                follows &= self.sampler.record(self.vertices.d + self.features, total)
            if not follows:
                self.sampler.fill(self._recorded_scores())


_SELECTIONS: WeakKeyDictionary[Sparse, WeakKeyDictionary[ChosenVertices, LazySelection]] = WeakKeyDictionary()


def selection_of(query: VertexScores, data: Sparse) -> LazySelection:
    """The lazy selection of the query's run over these rows, made at its first step."""
    selections = _SELECTIONS.get(data)
    if selections is None:
        selections = _SELECTIONS[data] = WeakKeyDictionary()
    state = selections.get(query.chosen)
    if state is None or not state.fits(query):
        state = selections[query.chosen] = LazySelection(query, data)
    return state
