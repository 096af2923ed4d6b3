"""The features of one column, and of a cross of two: each a block of norm at most 1; see `discreet.data.encoding`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from discreet.data.columns import Boolean, Categorical, Column, Encoding, Ignore, Numeric, Person
from discreet.errors import InvalidInput

__all__ = ["Bins", "Both", "ColumnFeatures", "Cross", "Floats", "Linear", "OneHot", "Positions", "Sign", "Spline"]
__all__ += ["features_of"]

Floats: TypeAlias = npt.NDArray[Any]
Positions: TypeAlias = npt.NDArray[np.int32]
Entries: TypeAlias = tuple[Positions, Floats]


class ColumnFeatures(Protocol):
    """The features of one column: ``stored`` entries a row, of joint norm at most 1, among its named features."""

    @property
    def stored(self) -> int:
        """How many entries each row stores."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""

    def fill(self, cells: Iterable[Any], positions: Positions, values: Floats) -> None:
        """Write each cell's entries (n × stored); positions come in as 0 and values as 1."""


@dataclass(frozen=True)
class Linear:
    """The number itself, from −1 to 1."""

    column: Numeric
    names: tuple[str, ...]
    stored: int = 1

    def fill(self, cells: Iterable[Any], positions: Positions, values: Floats) -> None:
        """Write each cell's entries."""
        values[:, 0] = 2.0 * self.column.rescale(self.column.read(cells)) - 1.0


@dataclass(frozen=True)
class Bins:
    """One indicator among equal bins."""

    column: Numeric
    names: tuple[str, ...]
    stored: int = 1

    def fill(self, cells: Iterable[Any], positions: Positions, values: Floats) -> None:
        """Write each cell's entries."""
        positions[:, 0] = _bin(self.column, self.column.read(cells), len(self.names))


@dataclass(frozen=True)
class Spline:
    """Shares of the two nearest knots."""

    column: Numeric
    names: tuple[str, ...]
    stored: int = 2

    def fill(self, cells: Iterable[Any], positions: Positions, values: Floats) -> None:
        """Write each cell's entries."""
        pieces = len(self.names) - 1
        along = self.column.rescale(self.column.read(cells)) * pieces
        left = np.minimum(along.astype(np.int32), pieces - 1)
        positions[:, 0], positions[:, 1] = left, left + 1
        values[:, 0], values[:, 1] = 1.0 - (along - left), along - left


@dataclass(frozen=True)
class Both:
    """Bins and a line, each over √2."""

    bins: Bins
    linear: Linear
    names: tuple[str, ...]
    stored: int = 2

    def fill(self, cells: Iterable[Any], positions: Positions, values: Floats) -> None:
        """Write each cell's entries."""
        self.bins.fill(cells, positions[:, :1], values[:, :1])
        self.linear.fill(cells, positions[:, 1:], values[:, 1:])
        positions[:, 1] = len(self.names) - 1
        values *= math.sqrt(0.5)


@dataclass(frozen=True)
class OneHot:
    """One indicator a level."""

    column: Categorical
    names: tuple[str, ...]
    stored: int = 1

    def fill(self, cells: Iterable[Any], positions: Positions, values: Floats) -> None:
        """Write each cell's entries."""
        positions[:, 0] = self.column.read(cells)


@dataclass(frozen=True)
class Cross:
    """All products of a feature of one column and a feature of another, as stored entries of both."""

    left: ColumnFeatures
    right: ColumnFeatures

    @property
    def stored(self) -> int:
        """How many products each row stores."""
        return self.left.stored * self.right.stored

    @property
    def names(self) -> tuple[str, ...]:
        """The names of both features, for each product."""
        return tuple(f"{one} × {other}" for one in self.left.names for other in self.right.names)

    def multiply(self, left: Entries, right: Entries, positions: Positions, values: Floats) -> None:
        """Write products of two columns' entries, each given as (positions, values)."""
        width = len(self.right.names)
        n = len(positions)
        positions[:] = (left[0][:, :, None] * width + right[0][:, None, :]).reshape(n, -1)
        values[:] = (left[1][:, :, None] * right[1][:, None, :]).reshape(n, -1)


@dataclass(frozen=True)
class Sign:
    """−1, 0 or 1."""

    column: Boolean
    names: tuple[str, ...]
    stored: int = 1

    def fill(self, cells: Iterable[Any], positions: Positions, values: Floats) -> None:
        """Write each cell's entries."""
        values[:, 0] = self.column.read(cells)


def features_of(name: str, column: Column, encoding: Encoding, bins: int) -> ColumnFeatures:
    """The features of a column by its declaration, or by the encoder's where it leaves something open."""
    match column:
        case Numeric():
            return _numeric_features(name, column, column.encoding or encoding, column.bins or bins)
        case Categorical():
            return OneHot(column, tuple(f"{name}={level}" for level in column.levels))
        case Boolean():
            return Sign(column, (name,))
        case Ignore() | Person():
            raise InvalidInput(f"column {name!r} is not used and has no features.")


def _numeric_features(name: str, column: Numeric, encoding: Encoding, bins: int) -> ColumnFeatures:
    linear = Linear(column, (name,))
    if encoding == "linear":
        return linear
    if encoding == "spline":
        knots = column.unscale(np.linspace(0.0, 1.0, bins))
        return Spline(column, tuple(f"{name} ~ {knot:.6g}" for knot in knots))
    if column.integer and column.high - column.low < bins:
        bins = math.floor(column.high) - math.ceil(column.low) + 1
    steps = Bins(column, _bin_names(name, column, bins))
    return steps if encoding == "bins" else Both(steps, linear, (*steps.names, name))


def _own_bins(column: Numeric, bins: int) -> bool:
    """Whether every whole number has its own bin."""
    return column.integer and bins == math.floor(column.high) - math.ceil(column.low) + 1


def _bin(column: Numeric, numbers: Floats, bins: int) -> Positions:
    if _own_bins(column, bins):
        along = np.rint(numbers) - math.ceil(column.low)
    else:
        along = np.floor(column.rescale(numbers) * bins)
    return np.clip(along, 0, bins - 1).astype(np.int32)


def _bin_names(name: str, column: Numeric, bins: int) -> tuple[str, ...]:
    if _own_bins(column, bins):
        return tuple(f"{name} {value}" for value in range(math.ceil(column.low), math.floor(column.high) + 1))
    edges = [f"{edge:.6g}" for edge in column.unscale(np.linspace(0.0, 1.0, bins + 1))]
    inner = [f"{name} [{left}, {right})" for left, right in pairwise(edges[:-1])]
    return (*inner, f"{name} [{edges[-2]}, {edges[-1]}]")
