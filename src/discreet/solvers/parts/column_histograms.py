"""What released histograms of columns say: where knots and cells go, and which levels to put together."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.queries.histograms.column_counts import ColumnCells
from discreet.refinement import Cells, ColumnBlock, Groups, Knots

__all__ = ["ColumnHistogram", "histogram_cells", "split_histograms"]

Array = NDArray[np.float64]

_BINS = 64


def histogram_cells(columns: tuple[ColumnBlock, ...], bins: int = _BINS) -> ColumnCells:
    """The cells that are counted: equal ones of a number's scale, 64 if nothing else is asked, and every level."""
    equal = Cells(tuple((np.arange(1, bins) / bins).tolist()))
    views = (Groups(tuple(range(column.size))) if column.kind == "levels" else equal for column in columns)
    return ColumnCells(columns, tuple(views))


@dataclass(frozen=True, eq=False)
class ColumnHistogram:
    """Released counts of one column's cells.

    Args:
        column: where it is in an encoded row.
        counts: one a cell, none negative.
    """

    column: ColumnBlock
    counts: Array

    @property
    def shares(self) -> Array:
        """The share of each cell; all alike where nothing was counted."""
        total = self.counts.sum()
        return self.counts / total if total > 0 else np.full(len(self.counts), 1 / len(self.counts))

    def knots(self, count: int) -> Knots:
        """Knots half by the distribution and half by the public scale: evenly spaced in the mean of both.

        A cell that holds more than a knot's share counts for one knot's share only: a value that many rows have needs
        one knot and not several.
        """
        shares = np.minimum(self.shares, 1 / (count - 1))
        along = np.linspace(0.0, 1.0, len(shares) + 1)
        told = np.concatenate([[0.0], np.cumsum(shares / shares.sum())])
        inner = np.interp(np.arange(1, count - 1) / (count - 1), (told + along) / 2, along)
        return Knots((0.0, *np.unique(inner[(inner > 0) & (inner < 1)]).tolist(), 1.0))

    def used(self, count: int) -> float:
        """How many of this many equal parts of the scale have rows, as a share: e to the entropy of the rows."""
        edges = np.rint(np.linspace(0, len(self.shares), count + 1)[:-1]).astype(int)
        shares = np.add.reduceat(self.shares, edges)
        filled = shares[shares > 0]
        return float(np.exp(-(filled @ np.log(filled)))) / count

    def knots_where_needed(self, count: int, well_used: float) -> Knots:
        """Evenly spaced ones where more than this share of the parts between them is `used`, else those of `knots`.

        Knots that are moved to where most rows are leave few for effects that bend elsewhere.
        """
        if self.used(count - 1) > well_used:
            return Knots(tuple(np.linspace(0.0, 1.0, count).tolist()))
        return self.knots(count)

    def cells(self, count: int) -> Cells | Groups:
        """Up to ``count`` cells of about as many rows each, or groups of levels; two of a value."""
        if self.column.kind == "levels":
            return self.groups(count)
        if self.column.kind == "value":
            return Cells((0.5,))
        below = np.cumsum(self.shares)[:-1]
        edges = np.arange(1, len(self.shares)) / len(self.shares)
        nearest = {float(edges[np.argmin(np.abs(below - k / count))]) for k in range(1, count)}
        return Cells(tuple(sorted(nearest)))

    def fine_cells(self, pairs: int) -> Cells:
        """Cells of a column of numbers, an even number of them: each two neighbours are a pair."""
        edges = self.knots(2 * pairs + 1).at[1:-1]
        return Cells(edges if len(edges) % 2 else edges[:-1])

    def counts_near(self, view: Cells) -> Array:
        """The counts of cells whose edges are anywhere: a counted cell's rows are taken for evenly spread."""
        along = np.linspace(0.0, 1.0, len(self.counts) + 1)
        below = np.interp([0.0, *view.edges, 1.0], along, np.concatenate([[0.0], np.cumsum(self.counts)]))
        return np.diff(below)

    def groups(self, count: int) -> Groups:
        """The most frequent levels each by itself, and all others together in one group."""
        if len(self.counts) <= count:
            return Groups(tuple(range(len(self.counts))))
        largest = sorted(np.argsort(-self.counts, kind="stable")[: count - 1].tolist())
        group = {level: k for k, level in enumerate(largest)}
        return Groups(tuple(group.get(level, count - 1) for level in range(len(self.counts))))

    def counts_in(self, view: Cells | Groups) -> Array:
        """The counts of coarser cells, whose edges are edges of the counted ones."""
        if isinstance(view, Groups):
            return np.asarray(np.bincount(np.array(view.of), weights=self.counts, minlength=view.width), np.float64)
        middles = (np.arange(len(self.counts)) + 0.5) / len(self.counts)
        place = np.searchsorted(np.array(view.edges), middles, side="right")
        return np.asarray(np.bincount(place, weights=self.counts, minlength=view.width), np.float64)

    def deviation(self, theta: Array) -> float:
        """The standard deviation of what the column adds to the scores of an additive model of encoded columns."""
        column, shares = self.column, self.shares
        coefficients = theta[column.start : column.stop] * column.scale
        if column.kind == "levels":
            effects = coefficients
        else:
            middles = (np.arange(len(shares)) + 0.5) / len(shares)
            ends = coefficients if column.kind == "number" else np.array([-1.0, 1.0]) * coefficients[0]
            effects = np.interp(middles, np.linspace(0.0, 1.0, len(ends)), ends)
        return math.sqrt(max(0.0, float(shares @ effects**2) - float(shares @ effects) ** 2))


def split_histograms(cells: ColumnCells, counts: Array, n: float) -> tuple[ColumnHistogram, ...]:
    """The histogram of each column, from the released counts of all.

    Each is the nearest one without negative counts that adds up to the number of rows, as the true one does.
    """
    parts = np.split(np.asarray(counts, dtype=np.float64), np.cumsum(cells.sizes)[:-1])
    return tuple(ColumnHistogram(column, _nearest(part, n)) for column, part in zip(cells.columns, parts, strict=True))


def _nearest(counts: Array, n: float) -> Array:
    """The projection onto the counts ≥ 0 that add up to n: all are lowered by the same number, and cut at 0.

    A number added to all of them changes nothing, so they are measured from the largest: of counts whose noise is so
    large that n is less than their last digit, the largest still gets all rows.
    """
    below = counts - counts.max()
    falling = np.sort(below)[::-1]
    lowered = (np.cumsum(falling) - n) / np.arange(1, len(counts) + 1)
    last = int(np.flatnonzero(falling > lowered)[-1])
    return np.asarray(np.maximum(below - lowered[last], 0.0))
