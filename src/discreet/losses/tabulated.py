"""A loss by a table of its slopes: linear between the nodes, constant beyond them.

It is what a fit uses of a loss that is not the library's own (`discreet.losses.custom`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.losses.base import Array, Domain, Loss, as_float

__all__ = ["LARGEST_SCORE", "SPACING", "Tabulated"]

LARGEST_SCORE = 16.0
"""Scores beyond ± this have the slope of the table's end: a loss is continued in a straight line there."""
SPACING = 2.0**-7
"""The distance between two scores of the table and, for numbers, between two of its targets in [−1, 1]."""


@dataclass(frozen=True, eq=False)
class Tabulated(Loss):
    """A loss whose slope is a table: made by `discreet.losses.tabulated`.

    Attributes:
        name: of the object's class.
        targets: the targets of the table's rows: ±1, or an even grid on [−1, 1] between which rows are interpolated.
        slopes: one row a target, one column a score of an even grid on ± `LARGEST_SCORE`.
        start: the value at score 0, one for each target.
        is_convex: whether every row increases.
        is_smooth: whether the object declares a bounded curvature.
        sign_fixed: whether every row has one sign.
    """

    name: str
    targets: Array = field(repr=False)
    slopes: Array = field(repr=False)
    start: Array = field(repr=False)
    is_convex: bool
    is_smooth: bool
    sign_fixed: bool
    values: Array = field(init=False, repr=False)

    kind: ClassVar[int] = -1

    def __post_init__(self) -> None:
        areas = np.cumsum((self.slopes[:, 1:] + self.slopes[:, :-1]) * (SPACING / 2), axis=1)
        values = np.concatenate([np.zeros((len(self.targets), 1)), areas], axis=1)
        middle = values[:, [self.slopes.shape[1] // 2]]
        object.__setattr__(self, "values", values - middle + self.start[:, None])

    @property
    def convex(self) -> bool:  # type: ignore[override]
        """Whether every row of the table increases."""
        return self.is_convex

    @property
    def slope_sign_fixed(self) -> bool:  # type: ignore[override]
        """Whether targets are labels and the label alone fixes the sign of the slope."""
        return self.sign_fixed

    @property
    def smooth(self) -> bool:
        """Whether the object declares a bounded curvature."""
        return self.is_smooth

    @property
    def labels(self) -> bool:
        """Whether targets are −1 and +1."""
        return len(self.targets) == 2

    def value(self, z: ArrayLike, y: ArrayLike) -> Array:
        """The integral of the tabulated slope, from the object's own value at score 0."""
        return self._mixed(as_float(z), as_float(y), self._value_of)

    def slope(self, z: ArrayLike, y: ArrayLike) -> Array:
        """The tabulated slope; NaN for a label that is neither −1 nor +1."""
        return self._mixed(as_float(z), as_float(y), self._slope_of)

    def curvature(self, z: ArrayLike, y: ArrayLike) -> Array:
        """The slope of the table between its nodes, 0 beyond them."""
        return self._mixed(as_float(z), as_float(y), self._curvature_of)

    def lipschitz(self, domain: Domain) -> float:
        """The largest |slope| of the table."""
        return float(np.abs(self.slopes).max())

    def smoothness(self, domain: Domain) -> float:
        """The largest change of the table's slopes over a spacing; inf where the object declares none."""
        return float(np.abs(np.diff(self.slopes, axis=1)).max()) / SPACING if self.is_smooth else math.inf

    def largest_gap(self) -> float:
        """The most by which the loss at score 0 exceeds its infimum, over targets; inf where it has none."""
        descends = (self.slopes[:, 0] > 0) | (self.slopes[:, -1] < 0)  # along the straight continuations
        gaps = self.start - self.values.min(axis=1)
        return math.inf if bool(descends.any()) else float(gaps.max())

    def _mixed(self, z: Array, y: Array, row_of: Any) -> Array:
        """A quantity at given scores, interpolated between the two nearest targets."""
        z, y = np.broadcast_arrays(np.nan_to_num(z, nan=0.0), y)
        if self.labels:
            row = row_of(z, np.where(y > 0, 1, 0))
            return np.where(np.abs(y) == 1.0, row, np.nan)
        with np.errstate(invalid="ignore"):
            place = (np.clip(np.where(np.isfinite(y), y, 0.0), -1.0, 1.0) + 1.0) / SPACING
        low = np.minimum(place.astype(np.intp), len(self.targets) - 2)
        share = place - low
        return row_of(z, low) * (1.0 - share) + row_of(z, low + 1) * share

    def _place(self, z: Array) -> tuple[Array, Array, Array]:
        """The interval of a score, how far it is into it, and how far beyond the table."""
        inside = np.clip(z, -LARGEST_SCORE, LARGEST_SCORE)
        place = (inside + LARGEST_SCORE) / SPACING
        low = np.minimum(place.astype(np.intp), self.slopes.shape[1] - 2)
        return low, place - low, z - inside

    def _slope_of(self, z: Array, row: Array) -> Array:
        low, share, _ = self._place(z)
        return self.slopes[row, low] * (1.0 - share) + self.slopes[row, low + 1] * share

    def _curvature_of(self, z: Array, row: Array) -> Array:
        low, _, beyond = self._place(z)
        return np.where(beyond == 0, (self.slopes[row, low + 1] - self.slopes[row, low]) / SPACING, 0.0)

    def _value_of(self, z: Array, row: Array) -> Array:
        low, share, beyond = self._place(z)
        first, last = self.slopes[row, low], self.slopes[row, low + 1]
        here = self.values[row, low] + SPACING * share * (first + (last - first) * share / 2)
        with np.errstate(over="ignore", invalid="ignore"):
            straight = np.where(beyond == 0, 0.0, (first + (last - first) * share) * beyond)
        return here + straight
