"""Counts of rows by what a public model says of them and by what is true.

Claim: the scores ⟨x, θ⟩ of a row are sums of whole numbers, exact in any order, so the cell that a row is counted in is
a function of that row and of the model alone. A row is counted in one cell at most: its contribution has ℓ1 norm at
most 1, whatever it contains. A row without a known target is not counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Block, Dataset
from discreet.errors import InvalidInput
from discreet.queries.base import Integers, Norm
from discreet.queries.parameters import linear_predictors
from discreet.rows import RowSpec

__all__ = ["Cells", "ClassCells", "ConfidenceCells", "LossCells", "OutcomeCounts", "ScoreCells"]

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


class Cells(Protocol):
    """A public rule from the scores and the coded target of a row to one cell of a table."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the table."""
        ...

    def places(self, z: Floats, y: Floats) -> Places:
        """The place of each row's cell in the flat table; −1 for a row that is not counted."""
        ...


@dataclass(frozen=True, eq=False)
class ScoreCells:
    """(false or true, bin of the score), for two classes coded as −1 and 1.

    Args:
        edges: increasing finite numbers, one more than there are bins; scores beyond are in the outermost bins.
    """

    edges: Floats

    def __post_init__(self) -> None:
        _check_edges(self.edges)

    @property
    def shape(self) -> tuple[int, ...]:
        """(2, bins)."""
        return 2, len(self.edges) - 1

    def places(self, z: Floats, y: Floats) -> Places:
        """The bin of the score, after all bins of the other class where the target is 1."""
        return np.where(np.abs(y) == 1, _bin(self.edges, z) + (y == 1) * self.shape[1], -1)


@dataclass(frozen=True, eq=False)
class ConfidenceCells:
    """(wrong or right, bin of the probability of the most likely class), for classes 0 … K − 1.

    Args:
        classes: how many there are.
        edges: increasing probabilities, one more than there are bins.
    """

    classes: int
    edges: Floats

    def __post_init__(self) -> None:
        _check_edges(self.edges)

    @property
    def shape(self) -> tuple[int, ...]:
        """(2, bins)."""
        return 2, len(self.edges) - 1

    def places(self, z: Floats, y: Floats) -> Places:
        """The bin of the confidence, after all bins of wrong answers where the most likely class is the target."""
        confidence = np.exp(-_log_sum(z - z.max(axis=1, keepdims=True)))
        right = z.argmax(axis=1) == y
        return np.where(_known(y, self.classes), _bin(self.edges, confidence) + right * self.shape[1], -1)


@dataclass(frozen=True, eq=False)
class LossCells:
    """Bin of −log of the probability that a model of K classes gave to the true one.

    Args:
        classes: how many there are.
        edges: increasing losses, one more than there are bins; those beyond are in the outermost bins.
    """

    classes: int
    edges: Floats

    def __post_init__(self) -> None:
        _check_edges(self.edges)

    @property
    def shape(self) -> tuple[int, ...]:
        """(bins,)."""
        return (len(self.edges) - 1,)

    def places(self, z: Floats, y: Floats) -> Places:
        """The bin of the loss."""
        known = _known(y, self.classes)
        code = np.where(known, y, 0).astype(np.intp)
        z = z - z.max(axis=1, keepdims=True)
        loss = _log_sum(z) - np.take_along_axis(z, code[:, None], axis=1).ravel()
        return np.where(known, _bin(self.edges, loss), -1)


@dataclass(frozen=True)
class ClassCells:
    """The true class, coded as 0 … K − 1."""

    classes: int

    @property
    def shape(self) -> tuple[int, ...]:
        """(classes,)."""
        return (self.classes,)

    def places(self, z: Floats, y: Floats) -> Places:
        """The code of the target."""
        return np.where(_known(y, self.classes), np.nan_to_num(y), -1).astype(np.intp)


@dataclass(frozen=True, eq=False)
class OutcomeCounts:
    """How many rows there are in each cell, for a public model.

    Args:
        rows: public facts about the rows.
        theta: the model, of shape ``rows.shape``.
        cells: the rule that finds a row's cell.
    """

    rows: RowSpec
    theta: Floats
    cells: Cells

    norm: ClassVar[Norm] = "l1"
    bound: ClassVar[int] = 1
    grid: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if self.theta.shape != self.rows.shape:
            raise InvalidInput(f"θ has shape {self.theta.shape}, the rows need {self.rows.shape}.")

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the table of cells."""
        return self.cells.shape

    def integers(self, data: Dataset) -> Integers:
        """The counts."""
        if not self.rows.bounded:
            raise InvalidInput("a private count needs rows of bounded length: give row_norm or a schema.")
        return data.map_sum(lambda block: self._counts(block, rounded=True), self.shape)

    def unrounded(self, data: Dataset) -> NDArray[Any]:
        """The counts by scores of rows that are not rounded."""
        return np.sum(data.map_blocks(lambda block: self._counts(block, rounded=False)), axis=0).astype(np.float64)

    def _counts(self, block: Block, *, rounded: bool) -> Integers:
        cells = math.prod(self.shape)
        counts = np.zeros(cells, np.int64)
        for part, z in linear_predictors(block, self.theta, rounded=rounded):
            with np.errstate(all="ignore"):
                places = self.cells.places(z, block.y[part])
            inside = places[(places >= 0) & (places < cells)]  # one cell a row at most, whatever the rule says
            counts += np.bincount(inside, minlength=cells)
        return counts.reshape(self.shape)


def _check_edges(edges: Floats) -> None:
    if not (len(edges) >= 2 and np.isfinite(edges).all() and (np.diff(edges) > 0).all()):
        raise InvalidInput("edges must be finite and increasing, at least two.")


def _bin(edges: Floats, values: Floats) -> Places:
    return np.searchsorted(edges[1:-1], values, side="right")


def _known(y: Floats, classes: int) -> NDArray[np.bool_]:
    return (y >= 0) & (y < classes) & (y == np.floor(y))


def _log_sum(z: Floats) -> Floats:
    """log Σ_k exp(z_k), column by column, so that a row's sum does not depend on how many rows there are."""
    total = np.zeros(len(z))
    for column in range(z.shape[1]):
        total += np.exp(np.ascontiguousarray(z[:, column]))
    return np.log(total)
