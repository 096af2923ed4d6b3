"""Values that recur in a column of numbers most of whose rows have one value, such as amounts that are mostly 0.

In the tail of such a column thresholds, codes and round numbers come back, and which of them it is often tells more
than how large it is. They show as bins of a fine histogram that hold clearly more rows than the bins around them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discreet.refinement import Cells
from discreet.solvers.parts.column_histograms import ColumnHistogram

__all__ = ["FINE_BINS", "recurring_bins", "recurring_cells", "spiked_columns"]

Array = NDArray[np.float64]

FINE_BINS = 1024
"""Of a column's scale, in which values recur."""
_NEIGHBOURS = 8  # on either side
_SPIKE = 0.5


def spiked_columns(histograms: tuple[ColumnHistogram, ...]) -> tuple[int, ...]:
    """The positions of columns of numbers with half of their rows, or more, in one cell of their histogram."""
    return tuple(
        j
        for j, histogram in enumerate(histograms)
        if histogram.column.kind == "number" and histogram.shares.max() >= _SPIKE
    )


def recurring_bins(counts: Array, noise: float, clear: float, most: int) -> tuple[int, ...]:
    """The bins that hold more rows than those around them by ``clear`` standard deviations, in order.

    The bins around one are the 17 of which it is the middle, at their median count c ≥ 0; the difference of a bin from
    them has a variance of about σ² + c, by noise and by sampling, where nothing recurs. It is taken as σ² + c + 1, so
    that one row alone is not clear.

    Args:
        counts: released counts of equal bins.
        noise: their standard deviation σ.
        clear: how many standard deviations.
        most: only as many bins, those of the largest difference.
    """
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(counts, _NEIGHBOURS, mode="reflect"), 2 * _NEIGHBOURS + 1)
    around = np.maximum(np.median(windows, axis=1), 0.0)
    excess = counts - around
    above = np.flatnonzero(excess > clear * np.sqrt(noise**2 + around + 1.0))
    largest = above[np.argsort(-excess[above], kind="stable")[:most]]
    return tuple(sorted(largest.tolist()))


def recurring_cells(bins: tuple[int, ...]) -> Cells:
    """Each of these bins as a cell of its own, and the places between them as cells."""
    return Cells(tuple(sorted({place / FINE_BINS for bin in bins for place in (bin, bin + 1)} - {0.0, 1.0})))
