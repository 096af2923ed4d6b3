"""Interactions and knots chosen privately, then one fit of everything.

A linear model of encoded columns is additive: no column's effect depends on another column. This solver finds pairs of
columns that tell more together than alone, and fits them with all the others. Its releases, whose shares of the budget
(in 1/σ²) are fixed beforehand:

1. *histograms* of all columns, which place knots and cells where there are rows;
2. *fine histograms* of the columns of numbers of which half the rows or more are in one cell, such as amounts that are
   mostly 0: they show which values recur (`discreet.solvers.parts.recurring_values`). If there is no such column, the
   first one of numbers is asked about, and the answer is not used; a table without numbers is not asked;
3. a *pilot*, the additive model of the encoded columns;
4. a *histogram of the pilot's residuals*, which gives a bound to clip them at, and their variance;
5. a *choice* of up to ``most`` pairs of columns, and columns of numbers that need a finer resolution, each by the
   exponential mechanism, by the scores of `discreet.queries.histograms.interaction_scores`. "None" competes: what is
   drawn after it is not used;
6. the *fit* of all columns and what was chosen, by another solver, on the rows that a public map makes of the given
   ones (`discreet.queries.refined_rows`).

Numbers are fitted by `discreet.solvers.parts.cut_least_squares`, in columns whose centre and weights follow from the
histograms, with slopes cut by the size of the pilot's residuals; that is post-processing of what was released.

Releases: two Gaussians; those of the pilot; Gaussian; ``most`` selections; those of the fit. How many, and with what
noise, does not depend on what is chosen. See ``docs/maths/interactions.md``.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.measurements import Measurement, Noisy
from discreet.measurements.mapped import Mapped
from discreet.measurements.program import drive
from discreet.mechanisms import Gaussian, TopChoices
from discreet.queries.histograms.column_counts import ColumnCells, ColumnCounts
from discreet.queries.histograms.interaction_scores import FineTable, InteractionScores, PairTable, whole_shares
from discreet.queries.histograms.slope_cells import ResidualCounts, SlopeCells
from discreet.queries.mapped import RowMap
from discreet.queries.refined_rows import RefinedRows
from discreet.refinement import ColumnBlock, Groups, Knots, RefinedBlock, Refinement, Value, View
from discreet.rows import RowSpec
from discreet.solvers.base import Problem, Solver, Steps
from discreet.solvers.parts.column_histograms import ColumnHistogram, histogram_cells, split_histograms
from discreet.solvers.parts.cut_least_squares import CutLeastSquares
from discreet.solvers.parts.known_moments import as_encoded, known_moments
from discreet.solvers.parts.recurring_values import FINE_BINS, recurring_bins, recurring_cells, spiked_columns

__all__ = ["Interactions", "check"]

Array = NDArray[np.float64]

_LARGEST_SLOPE = 2.0  # of a residual: targets and useful predictions are in [−1, 1]
_SLOPE_EDGES = np.sort(_LARGEST_SLOPE * 2.0 ** (-np.arange(0, 17) / 2))


@dataclass(frozen=True, eq=False)
class Seen:
    """What the releases before the fit tell: public.

    Args:
        refinement: the columns that the fit is to see.
        histograms: of each column of the table, the finest that there is.
        residual: a bound that three quarters of the pilot's residuals keep.
    """

    refinement: Refinement
    histograms: dict[int, ColumnHistogram]
    residual: float


@dataclass(frozen=True)
class Interactions:
    """Histograms, a pilot, a choice of pairs, and a fit.

    Args:
        pilot: fits the encoded columns.
        fit: fits the refined ones.
        histogram_multiplier: noise over the bound of `ColumnCounts`, of the first histograms.
        value_multiplier: of the fine histograms.
        residual_multiplier: noise in the counts of residuals.
        choice_multiplier: scale of the choice over the bound of `InteractionScores`.
        most: how many pairs and finer resolutions are chosen at most.
        candidates: of how many columns pairs are considered, those that tell the pilot most.
        cells: of a column in the tables that pairs are chosen by.
        fine_cells: pairs of neighbouring cells of a column of numbers that its finer resolution is chosen by.
        fine_knots: of a column of numbers of finer resolution in the fit.
        well_used: share of the parts between evenly spaced knots that rows use, beyond which these knots stay.
        recurring: by how many standard deviations a bin holds more rows than those around it where a value recurs.
        rows_per_value: of a column's rows outside its largest cell, for each of which one value may have its own cell.
        pair_knots: of a column of numbers, and groups of levels, in a pair in the fit.
        inside: share of residuals that is not clipped.
        doubt: the probability that chance, or the noise of the choice, has something chosen where there is nothing.
    """

    pilot: Solver | CutLeastSquares
    fit: Solver | CutLeastSquares
    histogram_multiplier: float
    value_multiplier: float
    residual_multiplier: float
    choice_multiplier: float
    most: int
    candidates: int
    cells: int
    fine_cells: int
    fine_knots: int
    well_used: float
    recurring: float
    rows_per_value: float
    pair_knots: int
    inside: float
    doubt: float

    def steps(self, problem: Problem) -> Steps:
        """All releases; returns the coefficients of the refined columns."""
        seen = yield from self.choices(problem)
        through = RefinedRows(refined_rows(problem.rows, seen.refinement.n_features), seen.refinement)
        refined = replace(problem, rows=through.rows, sparse=True, columns=())
        if isinstance(self.fit, CutLeastSquares):
            moments = known_moments(seen.refinement, seen.histograms)
            steps = self.fit.in_known_scales(refined, *moments, seen.residual)
        else:
            steps = self.fit.steps(refined)
        return (yield from seen_through(steps, problem.rows, through))

    def choices(self, problem: Problem) -> Generator[Measurement, Any, Seen]:
        """All releases but those of the fit."""
        check(problem)
        cells = histogram_cells(problem.columns)
        counts = yield Noisy(ColumnCounts(problem.rows, cells), Gaussian(self.histogram_multiplier))
        histograms = split_histograms(cells, counts, problem.n)
        values, finer = yield from self._recurring_values(problem, histograms)
        theta = yield from self._pilot_steps(problem, histograms)
        sizes = yield Noisy(
            ResidualCounts(problem.rows, theta, SlopeCells(problem.loss, _SLOPE_EDGES)),
            Gaussian(self.residual_multiplier),
        )
        clip, variance = _clip_and_variance(sizes, self.inside)
        query = self._scores(problem, histograms, theta, clip, variance)
        drawn = yield Noisy(query, TopChoices(self.most, self.choice_multiplier))
        drawn = np.asarray(drawn).tolist()
        if len(query.tables) in drawn:  # none of them: what is drawn after it is not used
            drawn = drawn[: drawn.index(len(query.tables))]
        chosen = [query.tables[index] for index in drawn]
        refinement = self._refinement(problem.columns, histograms, values, chosen)
        return Seen(refinement, {**dict(enumerate(histograms)), **finer}, clip)

    def _pilot_steps(self, problem: Problem, histograms: tuple[ColumnHistogram, ...]) -> Steps:
        """The releases of the pilot; that of numbers has its scales from the histograms."""
        additive = replace(problem, columns=())
        if not isinstance(self.pilot, CutLeastSquares):
            return self.pilot.steps(additive)
        encoded, scales = as_encoded(problem.columns)
        moments = known_moments(encoded, dict(enumerate(histograms)), scales)
        return self.pilot.in_known_scales(additive, *moments, None)

    def refinement(self, problem: Problem, answers: Sequence[Any]) -> Refinement:
        """The columns that the fit saw, from the values that a run released, in order."""
        left = iter(answers)
        return drive(self.choices(problem), lambda _: next(left)).refinement

    def _recurring_values(
        self, problem: Problem, histograms: tuple[ColumnHistogram, ...]
    ) -> Generator[Measurement, Any, tuple[dict[int, tuple[int, ...]], dict[int, ColumnHistogram]]]:
        """One release; for each column of which most rows have one value, its fine bins in which values recur, and its
        fine histogram.
        """
        numbers = tuple(j for j, column in enumerate(problem.columns) if column.kind == "number")
        if not numbers:
            return {}, {}
        spiked = spiked_columns(histograms)
        asked = spiked or numbers[:1]  # the plan has this release whatever the histograms are
        cells = histogram_cells(tuple(problem.columns[j] for j in asked), FINE_BINS)
        query = ColumnCounts(problem.rows, cells)
        counts = np.asarray((yield Noisy(query, Gaussian(self.value_multiplier))), dtype=np.float64)
        noise, found = self.value_multiplier * query.bound * query.grid, dict[int, tuple[int, ...]]()
        for j, part in zip(spiked, np.split(counts, np.cumsum(cells.sizes)[:-1]), strict=False):
            tail = problem.n * (1 - histograms[j].shares.max())
            found[j] = recurring_bins(part, noise, self.recurring, int(tail / self.rows_per_value))
        every = split_histograms(cells, counts, problem.n)
        return found, dict(zip(spiked, every, strict=False))

    def _scores(
        self, problem: Problem, histograms: tuple[ColumnHistogram, ...], theta: Array, clip: float, variance: float
    ) -> InteractionScores:
        """The query by which pairs are chosen; ``variance`` is that of clipped residuals over clip²."""
        told = np.array([histogram.deviation(theta) for histogram in histograms])
        best = sorted(np.argsort(-told, kind="stable")[: self.candidates].tolist())
        numbers = [j for j, column in enumerate(problem.columns) if column.kind == "number"]
        fine = [histograms[j].fine_cells(self.fine_cells) for j in numbers]
        views = [histogram.cells(self.cells) for histogram in histograms]
        shares = [whole_shares(histogram.counts_in(view)) for histogram, view in zip(histograms, views, strict=True)]
        halves = [_halves(histograms[j].counts_near(view)) for j, view in zip(numbers, fine, strict=True)]
        pairs = list(combinations(best, 2))
        doubt, sizes = math.log((len(pairs) + len(fine)) / self.doubt), math.sqrt(problem.n * variance)
        tables: list[PairTable | FineTable] = [
            PairTable(i, j, shares[i], shares[j], sizes * _chance(_spreads(shares[i], shares[j]), doubt))
            for i, j in pairs
        ]
        for k, (half, spreads) in enumerate(halves):
            tables.append(FineTable(len(views) + k, half, sizes * _chance(spreads, doubt)))
        columns = (*problem.columns, *(problem.columns[j] for j in numbers))
        cells, none = ColumnCells(columns, (*views, *fine)), self.choice_multiplier * doubt
        return InteractionScores(problem.rows, problem.loss, theta, clip, cells, tuple(tables), none)

    def _refinement(
        self,
        columns: tuple[ColumnBlock, ...],
        histograms: tuple[ColumnHistogram, ...],
        values: dict[int, tuple[int, ...]],
        chosen: list[PairTable | FineTable],
    ) -> Refinement:
        """Every column by itself, then what was chosen."""
        numbers = [j for j, column in enumerate(columns) if column.kind == "number"]
        blocks = [
            RefinedBlock((j,), (_alone(column, histograms[j], self.well_used),)) for j, column in enumerate(columns)
        ]
        for table in chosen:
            if isinstance(table, FineTable):
                j = numbers[table.column - len(columns)]
                blocks.append(RefinedBlock((j,), (histograms[j].knots(self.fine_knots),)))
                if values.get(j):
                    blocks.append(RefinedBlock((j,), (recurring_cells(values[j]),)))
            else:
                both = table.left, table.right
                views = tuple(_in_pair(columns[k], histograms[k], self.pair_knots) for k in both)
                blocks.append(RefinedBlock(both, views))
        return Refinement(columns, tuple(blocks))


def _alone(column: ColumnBlock, histogram: ColumnHistogram, well_used: float) -> View:
    if column.kind == "levels":
        return Groups(tuple(range(column.size)))
    return Value() if column.kind == "value" else histogram.knots_where_needed(column.size, well_used)


def _in_pair(column: ColumnBlock, histogram: ColumnHistogram, knots: int) -> View:
    if column.kind == "levels":
        return histogram.groups(knots)
    return Knots((0.0, 1.0)) if column.kind == "value" else histogram.knots(knots)


def _clip_and_variance(sizes: Array, inside: float) -> tuple[float, float]:
    """A bound on residuals that ``inside`` of them keep, and the mean square of clipped residuals over its square."""
    counts = np.maximum(np.asarray(sizes, dtype=np.float64), 0.0)
    total = counts.sum()
    if not total > 0:
        return _LARGEST_SLOPE, 1.0
    shares = counts / total
    enough = np.flatnonzero(np.cumsum(shares)[:-1] >= inside)
    clip = float(_SLOPE_EDGES[enough[0] if len(enough) else -1])
    upper = np.minimum(np.append(_SLOPE_EDGES, math.inf) / clip, 1.0)
    return clip, float(shares @ upper**2)


def _spreads(left: Sequence[int], right: Sequence[int]) -> Array:
    """The variance of each x_ij without interaction, over n·v: p_i(1 − p_i)·q_j(1 − q_j) in cells of shares p_i·q_j."""
    one, other = (np.array(shares) / sum(shares) for shares in (left, right))
    return np.outer(one * (1 - one), other * (1 - other)).ravel()


def _halves(counts: Array) -> tuple[tuple[tuple[int, int], ...], Array]:
    """The shares of each two neighbouring cells, and the variance of each x_i over n·v: s_i0·s_i1 times both cells'."""
    pairs = [whole_shares(pair) for pair in counts.reshape(-1, 2)]
    shares = tuple((pair[0], pair[1]) for pair in pairs)
    within = np.prod(np.array(shares) / sum(shares[0]), axis=1)
    return shares, counts.reshape(-1, 2).sum(axis=1) / counts.sum() * within


def _chance(spreads: Array, doubt: float) -> float:
    """The ℓ1 norm of x, over √(n·v), that chance alone exceeds with a probability of about e^−doubt.

    |x| has mean √(2/π) and variance 1 − 2/π in units of the deviation of x, and the sum is taken for normal.
    """
    mean = math.sqrt(2 / math.pi) * float(np.sqrt(spreads).sum())
    return mean + math.sqrt(2 * doubt * (1 - 2 / math.pi) * float(spreads.sum()))


def seen_through(steps: Steps, rows: RowSpec, through: RowMap) -> Steps:
    """Steps about the rows that a public map makes, asked of the given rows."""
    try:
        measurement = next(steps)
        while True:
            measurement = steps.send((yield Mapped(rows, measurement, through)))
    except StopIteration as stop:
        found: Array = stop.value
        return found


def refined_rows(rows: RowSpec, n_features: int) -> RowSpec:
    """Public facts about refined rows: of norm 1, with the same constant column over the row norm."""
    return RowSpec(n_features, 1.0, rows.intercept / rows.norm)


def check(problem: Problem) -> None:
    """Refuses rows whose columns are not known, several outputs, and fewer than two columns."""
    if len(problem.columns) < 2:
        raise InvalidInput("interactions are chosen among two or more columns of a table with a schema.")
    if problem.rows.outputs != 1 or not problem.rows.bounded:
        raise InvalidInput("interactions are chosen for one output a row: two classes, or numbers.")
