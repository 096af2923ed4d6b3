"""Frank–Wolfe on sparse rows without touching them all: the trusted side's memory of a walk.

A `SparseWalk` gives the very integers of `ScoreSum`, kept up instead of computed anew. Choosing vertex ±r·e_j moves the
scores ⟨x_i, θ⟩ of the rows in column j; the shrinking of all the others is one common factor, since θ is a whole vector
over a common divisor. So a step costs one column and one slope for each row that has ever moved.

Slopes are *not* passed on to the d gradient entries at once. One row moves an entry by at most |slope change|·‖x‖∞, so
all entries together are within

    slack = min(Σ_i pending_i, (longest column)·max_i pending_i)

of the recorded gradient, and `noise.Urn` needs no more than that bound, and the exact entry of the one column it
proposes, to draw exactly. A row's influence on the draw is at most its privacy loss: for meaningful privacy the
slack stays far below the noise for very long, and only when it does not are the largest pending changes recorded.

What is kept here is a function of rows, never released, and forgotten with the dataset or the walk.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import SparseBlock
from discreet.data.memory import Sparse
from discreet.noise.bits import Bits
from discreet.noise.urn import Urn
from discreet.queries import score_kernels, walk_kernels
from discreet.queries.atoms import CoordinateAtoms
from discreet.queries.base import Integers
from discreet.queries.scores import ScoreSum, Walk

__all__ = ["SparseWalk", "walk_of"]

_NO_URN = (np.zeros(1, np.uint64), np.zeros(1, np.uint64), 0, 1.0, 1, 1)


@dataclass(eq=False)
class _Part:
    """A block of rows: its columns, and for each row its score, slope and recorded slope, in whole numbers."""

    block: SparseBlock
    starts: Integers
    rows: NDArray[np.int32]
    steps: NDArray[np.int32]
    largest: Integers
    cap: NDArray[np.float64]
    score: Integers  # (n, 2): ⟨x, weights⟩, and whether the row is listed in `moved`
    slope: Integers
    recorded: Integers
    moved: Integers
    count: int = 0

    @classmethod
    def of(cls, block: SparseBlock, row_bound: int) -> _Part:
        n, rows = len(block.y), block.rows
        largest = np.empty(n)
        score_kernels.largest_sparse(block.values, block.indptr, block.scale, rows.constant, True, largest)
        entries = (block.values, block.indices, block.indptr, block.scale)
        starts, by_column, steps = walk_kernels.columns(*entries, rows.n_features)
        caps = score_kernels.caps(largest, row_bound, True)
        score, slope, recorded = np.zeros((n, 2), np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
        return cls(
            block, starts, by_column, steps, largest.astype(np.int64), caps, score, slope, recorded, np.arange(n)
        )

    def entries_pending(self, least: int, listed: Integers) -> int:
        """How many entries the listed rows have whose pending change is at least this."""
        pending = np.abs(self.slope[listed] - self.recorded[listed]) * self.largest[listed]
        large = listed[pending >= least]
        return int(np.sum(self.block.indptr[large + 1] - self.block.indptr[large]))

    @property
    def entries(self) -> tuple[NDArray[np.generic], ...]:
        return self.block.values, self.block.indices, self.block.indptr, self.block.scale


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
        self.urn: Urn | None = None
        blocks = data.map_blocks(lambda block: block)
        self.parts = [_Part.of(block, self.atoms.row_bound) for block in blocks]
        counts = sum(np.diff(part.starts) for part in self.parts)
        self.longest_column = int(np.max(counts, initial=0))
        self.gradient = np.zeros(self.atoms.d, np.int64)
        self.slope_total = 0
        everyone = [np.arange(len(part.slope)) for part in self.parts]
        self._refresh(query, everyone)
        self._settle(0, everyone)

    def fits(self, query: ScoreSum) -> bool:
        """Whether this state can go on to where the query stands."""
        same = query.atoms is self.atoms and query.loss == self.loss and query.clip == self.clip
        return same and self.taken <= query.taken

    def advance(self, query: ScoreSum) -> None:
        """Go to where the query stands."""
        for k in range(self.taken, query.taken):
            coordinate, sign = self.atoms.step(query.walk.chosen[k])
            for part in self.parts:
                if coordinate == self.features:
                    part.count = walk_kernels.move_all(
                        sign * (k + 1) * self.constant, part.score, part.moved, part.count
                    )
                else:
                    part.count = walk_kernels.move(
                        part.starts,
                        part.rows,
                        part.steps,
                        coordinate,
                        sign * (k + 1),
                        part.score,
                        part.moved,
                        part.count,
                    )
        self.taken = query.taken
        self._refresh(query, self._moved)

    def choose(self, query: ScoreSum, scale: float, bits: Bits) -> int:
        """A vertex with probability exactly ∝ exp(score / scale)."""
        if self.taken != query.taken:
            self.advance(query)
        if self.urn is None or self.urn.float_scale != scale:
            self.urn = Urn(self._recorded_scores(), scale)
        if self.slack > scale / 2:
            rows = sum(part.count for part in self.parts)
            self._settle(int(scale / 8) // max(1, min(rows, self.longest_column)) + 1, self._moved)
        return self.urn.draw(self.score_of, self.slack, bits=bits)

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
        total = most = 0
        for part, listed in zip(self.parts, moved, strict=True):
            change, pending, largest = walk_kernels.refresh(
                listed, part.score, part.block.y, part.cap, part.largest, loss, z_unit, query.slope_steps,
                part.slope, part.recorded,
            )  # fmt: skip
            self.slope_total += int(change)
            total, most = total + int(pending), max(most, int(largest))
        self.slack = min(total, self.longest_column * most)
        if self.constant:
            self._record_constant()

    def _settle(self, least: int, moved: list[Integers]) -> None:
        """Record pending changes of at least this size; the urn follows, or is filled anew where that is less work."""
        urn, total, most, follows = self.urn, 0, 0, True
        work = sum(part.entries_pending(least, listed) for part, listed in zip(self.parts, moved, strict=True))
        anew = urn is None or 8 * work > self.atoms.count
        for part, listed in zip(self.parts, moved, strict=True):
            pending, largest, followed = walk_kernels.settle(
                listed, *part.entries, part.largest, part.slope, part.recorded, least, self.gradient,
                self.atoms.signed, _NO_URN if urn is None else urn.table, anew,
            )  # fmt: skip
            total, most, follows = total + int(pending), max(most, int(largest)), follows and bool(followed)
        self.slack = min(total, self.longest_column * most)
        if urn is not None and (anew or not follows or urn.worn):
            urn.fill(self._recorded_scores())

    def _record_constant(self) -> None:
        """The constant column holds every row, so it is never left pending."""
        self.gradient[self.features] = total = self.constant * self.slope_total
        if self.urn is not None:
            follows = self.urn.record(self.features, -total)
            if self.atoms.signed:
                follows &= self.urn.record(self.atoms.d + self.features, total)
            if not follows:
                self.urn.fill(self._recorded_scores())


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
