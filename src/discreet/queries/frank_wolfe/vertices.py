"""Vertices in whole numbers, so that scores ⟨vertex, gradient⟩ of integer gradients are integers of exact sensitivity.

Each family of vertices knows ``l1``, the largest ℓ1 norm of a vertex in steps of ``unit``. When every entry of a row's
gradient is at most `row_bound` steps, one row moves each score by at most `bound`, and no sum of `MOST_ROWS` rows
overflows 64 bits.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property, singledispatch

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.geometry import GroupInfL1Ball, L1Ball, Polytope, Simplex
from discreet.geometry.base import Atomic, Geometry
from discreet.queries.base import Integers
from discreet.queries.parameters import whole_parameter

__all__ = ["MOST_STEPS", "CoordinateVertices", "GroupVertices", "ListedVertices", "Vertices", "whole_vertices"]

SCORE_BITS = 34
"""One row moves a score by at most 2^34 steps: with 2^27 rows below 2^62."""

MOST_STEPS = 2**16
"""Frank–Wolfe's weights 1 + 2 + … + T then stay below 2^32, and scores of a row below 2^53."""


class Vertices(ABC):
    """The vertices of a set in dimension d, in integer steps of ``unit``.

    Args:
        domain: the set.
        d: number of coordinates.
    """

    l1: int
    unit: float

    def __init__(self, domain: Atomic, d: int) -> None:
        self.domain, self.d = domain, d

    @cached_property
    def count(self) -> int:
        """The number of vertices."""
        return self.domain.n_atoms(self.d)

    @property
    def row_bound(self) -> int:
        """The largest entry, in steps, that a row's gradient may have."""
        return 1 << (SCORE_BITS - (self.l1 - 1).bit_length())

    @property
    def bound(self) -> int:
        """The most by which one row moves a score, in steps."""
        return self.row_bound * self.l1

    @property
    def score_unit(self) -> float:
        """Value of one score step where one gradient step is worth 1."""
        return self.unit

    @abstractmethod
    def scores(self, gradient: Integers) -> Integers:
        """⟨vertex, gradient⟩ for every vertex, in score steps."""

    @abstractmethod
    def point(self, chosen: Sequence[int]) -> tuple[NDArray[np.float64], float]:
        """The iterate of Frank–Wolfe with steps 2/(t + 2) after these choices: (whole numbers, the value of one).

        θ_T = Σ_k (k + 1)·v_k / (1 + 2 + … + T): the step sizes make the weights whole numbers over a common divisor.
        """


def _divisor(steps: int) -> int:
    return max(1, steps * (steps + 1) // 2)


class CoordinateVertices(Vertices):
    """r·e_j, and with ``signed`` also −r·e_j: the simplex and the ℓ1 ball."""

    l1 = 1

    def __init__(self, domain: L1Ball | Simplex, d: int) -> None:
        super().__init__(domain, d)
        self.unit, self.signed = domain.radius, isinstance(domain, L1Ball)

    def scores(self, gradient: Integers) -> Integers:
        """(g, −g), or g."""
        return np.concatenate([gradient, -gradient]) if self.signed else gradient

    def step(self, index: int) -> tuple[int, int]:
        """The coordinate and the sign of a vertex."""
        return index % self.d, 1 if index < self.d else -1

    def weight_unit(self, steps: int) -> float:
        """Value of one whole number of `point` after so many steps."""
        return self.unit / _divisor(steps)

    def point(self, chosen: Sequence[int]) -> tuple[NDArray[np.float64], float]:
        """Signed weights, each at the coordinate of its vertex."""
        indices = np.asarray(chosen, np.int64)
        weights = np.where(indices < self.d, 1.0, -1.0) * np.arange(1, len(chosen) + 1)
        whole: NDArray[np.float64] = np.bincount(indices % self.d, weights, self.d).astype(np.float64)
        return whole, self.weight_unit(len(chosen))


class GroupVertices(Vertices):
    """±r on every coordinate of one group."""

    def __init__(self, domain: GroupInfL1Ball, d: int) -> None:
        super().__init__(domain, d)
        self.ball, self.unit, self.l1 = domain, domain.radius, int(domain.sizes.max())

    def scores(self, gradient: Integers) -> Integers:
        """Every signed sum over a group, in the order of `GroupInfL1Ball.scores`."""
        order = np.argsort(np.asarray(self.ball.groups), kind="stable")
        blocks = []
        for block in np.split(gradient[order], np.cumsum(self.ball.sizes)[:-1]):
            sums = np.zeros(1, np.int64)
            for value in block:
                sums = np.concatenate([sums + value, sums - value])
            blocks.append(sums)
        return np.concatenate(blocks)

    def point(self, chosen: Sequence[int]) -> tuple[NDArray[np.float64], float]:
        """Signed weights on the chosen groups."""
        whole = np.zeros(self.d)
        vertices, which = np.unique(np.asarray(chosen, np.int64), return_inverse=True)
        for index, weight in zip(vertices, np.bincount(which, np.arange(1.0, len(chosen) + 1)), strict=True):
            whole += weight * np.sign(self.domain.atom(int(index), self.d))
        return whole, self.unit / _divisor(len(chosen))


class ListedVertices(Vertices):
    """Any listed vertices, rounded to 2^−22 of the largest entry for scoring; the iterate uses them as given.

    Exact scores have more than 64 bits, so they are summed in three limbs and shifted right by `shift`. A floor moves a
    difference by less than one step, which `bound` adds to every row's contribution.
    """

    _ENTRY_BITS = 22
    _LIMB_BITS = 21
    _CHUNK = 1024  # 2^22 · 2^21 · 2^10 = 2^53: whole numbers that float64 sums exactly

    def __init__(self, domain: Polytope, d: int) -> None:
        super().__init__(domain, d)
        vertices = np.asarray(domain.vertices)
        if vertices.shape[1] != d:
            raise InvalidInput(f"the vertices have {vertices.shape[1]} coordinates, the parameter has {d}.")
        self.vertices = vertices
        self.unit = (float(np.abs(vertices).max()) or 1.0) / 2**self._ENTRY_BITS
        self.whole = np.rint(vertices / self.unit)
        self.l1 = max(1, int(np.abs(self.whole).sum(axis=1).max()))
        self.shift = (self.l1 - 1).bit_length()

    @property
    def row_bound(self) -> int:
        """2^34: the shift makes room, not the gradient."""
        return 1 << SCORE_BITS

    @property
    def bound(self) -> int:
        """⌈row_bound·l1 / 2^shift⌉ and one for the floor."""
        return -(-self.row_bound * self.l1 >> self.shift) + 1

    @property
    def score_unit(self) -> float:
        """2^shift vertex steps."""
        return math.ldexp(self.unit, self.shift)

    def scores(self, gradient: Integers) -> Integers:
        """⌊whole vertices · gradient / 2^shift⌋, without rounding before the floor."""
        totals = np.zeros(len(self.whole), dtype=object)
        mask = (1 << self._LIMB_BITS) - 1
        for limb in range(3):
            part = gradient >> (limb * self._LIMB_BITS)
            digits = (part if limb == 2 else part & mask).astype(np.float64)
            exact = np.zeros(len(self.whole), np.int64)
            for low in range(0, self.d, self._CHUNK):
                columns = slice(low, low + self._CHUNK)
                exact += (self.whole[:, columns] @ digits[columns]).astype(np.int64)
            totals += exact.astype(object) * (1 << (limb * self._LIMB_BITS))
        return np.array([total >> self.shift for total in totals], np.int64)

    def point(self, chosen: Sequence[int]) -> tuple[NDArray[np.float64], float]:
        """The weighted mean of the chosen vertices, in 2^−34 of its own length; the centre of all before any choice."""
        if not chosen:
            return whole_parameter(self.vertices.mean(axis=0), 1.0)
        weights = np.arange(1.0, len(chosen) + 1) / _divisor(len(chosen))
        return whole_parameter(weights @ self.vertices[np.asarray(chosen)], 1.0)


@singledispatch
def whole_vertices(domain: Geometry, d: int) -> Vertices:
    """The vertices of a set in whole numbers.

    Raises:
        InvalidInput: the set is not the convex hull of finitely many listed vertices.

    Example:
        >>> whole_vertices(L1Ball(2.0), 2).scores(np.array([3, -1])).tolist()
        [3, -1, -3, 1]
    """
    raise InvalidInput(
        f"{type(domain).__name__} has no finite list of vertices to choose from; use L1Ball, Simplex, GroupInfL1Ball "
        "or Polytope."
    )


@whole_vertices.register(L1Ball)
@whole_vertices.register(Simplex)
def _coordinates(domain: L1Ball | Simplex, d: int) -> Vertices:
    return CoordinateVertices(domain, d)


@whole_vertices.register
def _groups(domain: GroupInfL1Ball, d: int) -> Vertices:
    return GroupVertices(domain, d)


@whole_vertices.register
def _vertices(domain: Polytope, d: int) -> Vertices:
    return ListedVertices(domain, d)
