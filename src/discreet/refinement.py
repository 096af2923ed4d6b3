"""From encoded rows to rows of more features: finer curves of some columns, and crosses of pairs of columns.

An encoded row still tells each cell: a spline's two shares tell the number's place u between its public bounds, and an
indicator tells the level. A *refinement* reads these and writes other features of them. It is made of public facts and
released values only, and it makes each row from one row alone, so that a private fit may see rows through it
(`discreet.queries.refined_rows`).

Every block of a refinement is a *view* of one column, or the product of views of two columns; each view has norm at
most 1, so a product has too. Blocks have weights w_b, and are divided by (Σ w_b²)^½: every row has norm at most 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.text import shortened

__all__ = ["Cells", "ColumnBlock", "Groups", "Kind", "Knots", "RefinedBlock", "Refinement", "Value", "View", "places"]

Floats = NDArray[np.float64]
Positions = NDArray[np.int32]
Kind = Literal["number", "levels", "value"]

_MOST_FEATURES = 1 << 16
_MOST_BLOCKS = 1 << 12


@dataclass(frozen=True)
class ColumnBlock:
    """Which features of an encoded row are of one column of the table; a public fact of the encoding.

    Args:
        name: of the column.
        start: its first feature.
        stop: the feature after its last.
        kind: ``"number"`` has shares of two neighbouring knots, evenly spaced; ``"levels"`` one indicator; ``"value"``
            one number between −1 and 1.
        scale: what 1 is multiplied by in an encoded row.
    """

    name: str
    start: int
    stop: int
    kind: Kind
    scale: float

    @property
    def size(self) -> int:
        """How many features there are."""
        return self.stop - self.start


def places(rows: Any, columns: Sequence[ColumnBlock]) -> list[Floats]:
    """For each column what an encoded row says of its cell: its place u ∈ [0, 1], or the position of its level.

    A value v has the place (v + 1)/2.

    Args:
        rows: encoded rows, an array or CSR. What is not finite counts as 0, and a row that says nothing of a column as
            the first level, or the lower bound.
        columns: the columns.
    """
    by_column = sp.csc_array(rows) if sp.issparse(rows) else None
    with np.errstate(all="ignore"):  # a warning must not depend on a row
        return [_place(rows, by_column, column) for column in columns]


def _place(rows: Any, by_column: Any, column: ColumnBlock) -> Floats:
    """What encoded rows say of one column's cells."""
    total, weighted = np.zeros(rows.shape[0]), np.zeros(rows.shape[0])
    best, largest = np.zeros(rows.shape[0]), np.zeros(rows.shape[0])
    for k in range(column.size):
        entries = _entries(rows, by_column, column.start + k)
        if column.kind == "levels":
            more = entries > largest
            best[more], largest[more] = k, entries[more]
        else:  # one feature after another, so that no row's sum depends on how many rows there are
            total += entries
            weighted += k * entries
    if column.kind == "number":
        return np.clip(np.nan_to_num(weighted / total / (column.size - 1)), 0.0, 1.0)
    return best if column.kind == "levels" else np.clip((np.nan_to_num(total / column.scale) + 1) / 2, 0.0, 1.0)


def _entries(rows: Any, by_column: Any, j: int) -> Floats:
    """Column j as a dense vector of finite numbers."""
    if by_column is None:
        entries = np.asarray(rows[:, j], dtype=np.float64)
    else:
        part = slice(by_column.indptr[j], by_column.indptr[j + 1])
        entries = np.zeros(rows.shape[0])
        entries[by_column.indices[part]] = by_column.data[part]
    return np.where(np.isfinite(entries), entries, 0.0)


@dataclass(frozen=True)
class Knots:
    """A number as shares of its two nearest knots: any function that is straight between knots.

    Args:
        at: increasing places, the first 0 and the last 1.
    """

    at: tuple[float, ...]
    stored: ClassVar[int] = 2
    kinds: ClassVar[tuple[Kind, ...]] = ("number", "value")

    def __post_init__(self) -> None:
        if len(self.at) < 2 or self.at[0] != 0 or self.at[-1] != 1 or not (np.diff(self.at) > 0).all():
            raise InvalidInput(f"knots increase from 0 to 1, got {shortened(self.at)}.")

    @property
    def width(self) -> int:
        """How many features it has."""
        return len(self.at)

    def fill(self, place: Floats, positions: Positions, values: Floats) -> None:
        """Write the entries (n × stored) of these places."""
        at = np.asarray(self.at)
        left = np.clip(np.searchsorted(at, place, side="right") - 1, 0, len(at) - 2)
        share = np.clip((place - at[left]) / (at[left + 1] - at[left]), 0.0, 1.0)
        positions[:, 0], positions[:, 1] = left, left + 1
        values[:, 0], values[:, 1] = 1.0 - share, share


@dataclass(frozen=True)
class Cells:
    """A number as one indicator among cells: any function that is constant in each.

    Args:
        edges: increasing places inside (0, 1), each the lower end of a cell.
    """

    edges: tuple[float, ...]
    stored: ClassVar[int] = 1
    kinds: ClassVar[tuple[Kind, ...]] = ("number", "value")

    def __post_init__(self) -> None:
        inside = all(0 < edge < 1 for edge in self.edges)
        if not inside or not (np.diff(self.edges) > 0).all():
            raise InvalidInput(f"edges of cells increase inside (0, 1), got {shortened(self.edges)}.")

    @property
    def width(self) -> int:
        """How many cells there are."""
        return len(self.edges) + 1

    def fill(self, place: Floats, positions: Positions, values: Floats) -> None:
        """Write the entries (n × 1) of these places."""
        positions[:, 0] = np.searchsorted(np.asarray(self.edges), place, side="right")
        values[:, 0] = 1.0


@dataclass(frozen=True)
class Groups:
    """Levels put into groups, as one indicator a group.

    Args:
        of: the group of each level, numbered from 0 without gaps.
    """

    of: tuple[int, ...]
    stored: ClassVar[int] = 1
    kinds: ClassVar[tuple[Kind, ...]] = ("levels",)

    def __post_init__(self) -> None:
        if not self.of or set(self.of) != set(range(max(self.of) + 1)):
            raise InvalidInput(f"groups are numbered from 0 without gaps, got {shortened(self.of)}.")

    @property
    def width(self) -> int:
        """How many groups there are."""
        return max(self.of) + 1

    def fill(self, place: Floats, positions: Positions, values: Floats) -> None:
        """Write the entries (n × 1) of these levels."""
        level = np.clip(place, 0, len(self.of) - 1).astype(np.intp)
        positions[:, 0], values[:, 0] = np.asarray(self.of, dtype=np.int32)[level], 1.0


@dataclass(frozen=True)
class Value:
    """The value of a column of yes and no, or of a straight line, as it is."""

    stored: ClassVar[int] = 1
    kinds: ClassVar[tuple[Kind, ...]] = ("value",)
    width: ClassVar[int] = 1

    def fill(self, place: Floats, positions: Positions, values: Floats) -> None:
        """Write the entries (n × 1) of these values."""
        positions[:, 0], values[:, 0] = 0, 2 * place - 1


View = Knots | Cells | Groups | Value
_VIEWS: dict[str, type[Any]] = {"knots": Knots, "cells": Cells, "groups": Groups, "value": Value}


@dataclass(frozen=True)
class RefinedBlock:
    """A view of one column, or the products of views of two columns.

    Args:
        columns: positions of the one or two columns.
        views: how each is seen.
        weight: how long the block may be, relative to others.
    """

    columns: tuple[int, ...]
    views: tuple[View, ...]
    weight: float = 1.0

    def __post_init__(self) -> None:
        if (
            len(self.columns) not in (1, 2)
            or len(self.views) != len(self.columns)
            or len(set(self.columns)) < len(self.columns)
        ):
            raise InvalidInput("a block is of one column or of two different ones.")
        if not 0 < self.weight < math.inf:
            raise InvalidInput(f"the weight of a block must be positive and finite, got {self.weight!r}.")

    @property
    def width(self) -> int:
        """How many features it has."""
        return math.prod(view.width for view in self.views)

    @property
    def stored(self) -> int:
        """How many entries each row stores."""
        return math.prod(view.stored for view in self.views)

    def fill(self, found: Sequence[Floats], positions: Positions, values: Floats) -> None:
        """Write the entries (n × stored) of rows whose columns are at the places found."""
        n = len(positions)
        parts = []
        for j, view in zip(self.columns, self.views, strict=True):
            at, shares = np.zeros((n, view.stored), np.int32), np.ones((n, view.stored))
            view.fill(found[j], at, shares)
            parts.append((at, shares))
        if len(parts) == 1:
            positions[:], values[:] = parts[0]
            return
        (left, one), (right, other) = parts
        positions[:] = (left[:, :, None] * self.views[1].width + right[:, None, :]).reshape(positions.shape)
        values[:] = (one[:, :, None] * other[:, None, :]).reshape(values.shape)


@dataclass(frozen=True)
class Refinement:
    """Blocks of features, made of encoded rows.

    Args:
        columns: where the columns are in an encoded row.
        blocks: the features to make, in order.
    """

    columns: tuple[ColumnBlock, ...]
    blocks: tuple[RefinedBlock, ...]

    def __post_init__(self) -> None:
        for block in self.blocks:
            for j, view in zip(block.columns, block.views, strict=True):
                if not 0 <= j < len(self.columns) or self.columns[j].kind not in view.kinds:
                    raise InvalidInput("a block is about a column that is not there, or is of another kind.")
                if isinstance(view, Groups) and len(view.of) != self.columns[j].size:
                    raise InvalidInput("groups must tell the group of every level.")
        if not self.blocks or len(self.blocks) > _MOST_BLOCKS or self.n_features > _MOST_FEATURES:
            raise InvalidInput(f"a refinement makes from 1 to {_MOST_FEATURES} features.")

    @property
    def n_features(self) -> int:
        """How many features it makes."""
        return sum(block.width for block in self.blocks)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The names of the columns that are crossed."""
        named = [tuple(self.columns[j].name for j in block.columns) for block in self.blocks]
        return tuple((names[0], names[1]) for names in named if len(names) == 2)

    @property
    def finer(self) -> tuple[tuple[str, View], ...]:
        """The columns that have a further block of their own, and how it sees them."""
        alone = [(block.columns[0], block.views[0]) for block in self.blocks if len(block.columns) == 1]
        before = [j for j, _ in alone]
        return tuple((self.columns[j].name, view) for k, (j, view) in enumerate(alone) if j in before[:k])

    @cached_property
    def scale(self) -> float:
        """What a block of weight 1 is multiplied by; rounded down, so that no row is longer than 1."""
        return math.sqrt(1 / sum(block.weight**2 for block in self.blocks)) * (1 - 1e-12)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The first feature of each block."""
        return tuple(np.concatenate([[0], np.cumsum([block.width for block in self.blocks])])[:-1].tolist())

    def apply(self, rows: Any) -> sp.csr_array:
        """The refined rows of encoded ones: n × `n_features`, with as many stored entries in every row."""
        found = places(rows, self.columns)
        n, stored = rows.shape[0], sum(block.stored for block in self.blocks)
        positions, values, first = np.zeros((n, stored), np.int32), np.ones((n, stored)), 0
        for block, start in zip(self.blocks, self.starts, strict=True):
            part = slice(first, first + block.stored)
            block.fill(found, positions[:, part], values[:, part])
            positions[:, part] += start
            values[:, part] *= block.weight * self.scale
            first += block.stored
        starts = np.arange(0, n * stored + 1, stored, dtype=np.int64)
        return sp.csr_array((values.ravel(), positions.ravel(), starts), shape=(n, self.n_features))

    def to_list(self) -> list[dict[str, Any]]:
        """The blocks as plain values."""
        return [
            {
                "columns": [self.columns[j].name for j in block.columns],
                "views": [_written(view) for view in block.views],
                "weight": block.weight,
            }
            for block in self.blocks
        ]

    @classmethod
    def from_list(cls, columns: tuple[ColumnBlock, ...], written: Any) -> Refinement:
        """The refinement that `to_list` wrote, of these columns; whatever is no such list is refused."""
        known = {column.name: j for j, column in enumerate(columns)}
        if not isinstance(written, list) or not 1 <= len(written) <= _MOST_BLOCKS:
            raise InvalidInput("a refinement is a list of blocks.")
        try:
            blocks = tuple(
                RefinedBlock(
                    tuple(known[name] for name in block["columns"]),
                    tuple(_read(view) for view in block["views"]),
                    float(block["weight"]),
                )
                for block in written
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            raise InvalidInput("a refinement is a list of blocks, each with columns, views and a weight.") from None
        return cls(columns, blocks)


def _written(view: View) -> dict[str, Any]:
    match view:
        case Knots(at):
            return {"knots": list(at)}
        case Cells(edges):
            return {"cells": list(edges)}
        case Groups(of):
            return {"groups": list(of)}
        case Value():
            return {"value": []}


def _read(written: Any) -> View:
    ((kind, numbers),) = written.items()
    if kind == "value":
        return Value()
    if not isinstance(numbers, list) or len(numbers) > _MOST_FEATURES:
        raise ValueError
    if kind == "groups":
        return Groups(tuple(_whole(number) for number in numbers))
    view: View = _VIEWS[kind](tuple(float(number) for number in numbers))
    return view


def _whole(number: Any) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < _MOST_FEATURES:
        raise ValueError
    return number
