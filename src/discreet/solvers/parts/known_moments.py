"""Mean and second moments of the features of refined rows, as released histograms of the columns tell them.

A feature of one column is a function of that column's place alone, so its mean and its mean square follow from the
histogram. A feature of two columns is a product: its moments are the products of theirs, as if the columns were
independent. Nothing is released, and no guarantee depends on how true it is: centre and weights of columns may be any
public numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from discreet.refinement import ColumnBlock, Groups, Knots, RefinedBlock, Refinement, Value, View
from discreet.solvers.parts.column_histograms import ColumnHistogram

__all__ = ["as_encoded", "known_moments"]

Array = NDArray[np.float64]

_POINTS = 1024  # of a column's scale, at which its features are looked at


def known_moments(
    refinement: Refinement, histograms: Mapping[int, ColumnHistogram], scales: tuple[float, ...] | None = None
) -> tuple[Array, Array]:
    """(the mean, the second moment) of each feature of refined rows.

    Args:
        refinement: which features there are.
        histograms: of each column, by its position.
        scales: what each block is multiplied by; by default as the refinement does it.
    """
    means, squares = [], []
    for k, block in enumerate(refinement.blocks):
        scale = block.weight * refinement.scale if scales is None else scales[k]
        mean, square = _of_block(block, histograms)
        means.append(scale * mean)
        squares.append(scale**2 * square)
    return np.concatenate(means), np.concatenate(squares)


def as_encoded(columns: tuple[ColumnBlock, ...]) -> tuple[Refinement, tuple[float, ...]]:
    """The refinement whose features are those of encoded rows, and what their blocks are multiplied by there."""
    views: list[View] = []
    for column in columns:
        if column.kind == "levels":
            views.append(Groups(tuple(range(column.size))))
        else:
            even = tuple(np.linspace(0.0, 1.0, column.size).tolist())
            views.append(Value() if column.kind == "value" else Knots(even))
    blocks = tuple(RefinedBlock((j,), (view,)) for j, view in enumerate(views))
    return Refinement(columns, blocks), tuple(column.scale for column in columns)


def _of_block(block: RefinedBlock, histograms: Mapping[int, ColumnHistogram]) -> tuple[Array, Array]:
    """Mean and second moment of the features of a block before it is multiplied."""
    parts = [_of_view(view, histograms[j]) for j, view in zip(block.columns, block.views, strict=True)]
    if len(parts) == 1:
        return parts[0]
    (mean, square), (other, other_square) = parts
    return np.outer(mean, other).ravel(), np.outer(square, other_square).ravel()


def _of_view(view: View, histogram: ColumnHistogram) -> tuple[Array, Array]:
    """Mean and second moment of the entries of a view, with rows evenly spread over their counted cell."""
    cells = len(histogram.shares)
    if histogram.column.kind == "levels":
        place, shares = np.arange(cells, dtype=np.float64), histogram.shares
    else:
        points = cells * max(1, _POINTS // cells)
        place = (np.arange(points) + 0.5) / points
        shares = np.repeat(histogram.shares, points // cells) * (cells / points)
    positions, values = np.zeros((len(place), view.stored), np.int32), np.zeros((len(place), view.stored))
    view.fill(place, positions, values)
    mean, square = np.zeros(view.width), np.zeros(view.width)
    np.add.at(mean, positions, shares[:, None] * values)
    np.add.at(square, positions, shares[:, None] * values**2)
    return mean, square
