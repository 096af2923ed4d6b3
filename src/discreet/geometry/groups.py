"""Grouped ℓ1 balls: a sum over disjoint groups of coordinates of the groups' own norms."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidInput
from discreet.geometry._widths import expected_max_chi, monte_carlo_width
from discreet.geometry.base import Array, Geometry, Width, as_vector, check_dimension, check_order, check_radius
from discreet.geometry.simplex import water_level

__all__ = ["GroupInfL1Ball", "GroupL1Ball"]

_LARGEST_SIGNED_GROUP = 20


@dataclass(frozen=True, eq=False)
class _Grouped(Geometry):
    """Disjoint groups that cover all coordinates: ``groups[i]`` is the number (0, 1, 2, …) of coordinate i's group."""

    groups: ArrayLike
    radius: float = 1.0
    sizes: NDArray[np.intp] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_radius(self.radius)
        given = np.asarray(self.groups)
        if given.ndim != 1 or given.dtype.kind not in "iu" or given.size == 0 or given.min() < 0:
            raise InvalidInput("groups must be a non-empty vector of group numbers 0, 1, 2, …, one a coordinate.")
        numbers = given.astype(np.intp)
        sizes = np.bincount(numbers)
        if np.any(sizes == 0):
            raise InvalidInput(
                f"group {int(np.argmin(sizes))} has no coordinate: number the groups 0, 1, 2, … without gaps."
            )
        for name, array in (("groups", numbers), ("sizes", sizes)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def d(self) -> int:
        """The number of coordinates."""
        return len(self._numbers)

    @property
    def n_groups(self) -> int:
        """The number of groups."""
        return len(self.sizes)

    @property
    def _numbers(self) -> NDArray[np.intp]:
        return np.asarray(self.groups)

    def _vector(self, values: ArrayLike) -> Array:
        vector = as_vector(values)
        check_dimension(len(vector), self.d)
        return vector

    def contains(self, theta: ArrayLike, tolerance: float = 1e-9) -> bool:
        """norm(θ) ≤ 1."""
        return self.norm(theta) <= 1.0 + tolerance

    def diameter(self, d: int, order: int = 2) -> float:
        """Twice the radius: the set is symmetric."""
        return 2.0 * self.radius_in(d, order)


@dataclass(frozen=True, eq=False)
class GroupL1Ball(_Grouped):
    """{θ : Σ_G ‖θ_G‖₂ ≤ radius}, the ball of the group lasso.

    Its extreme points are whole spheres, one a group, so it has a linear oracle but no finite list of atoms. A private
    selection chooses a *group* by `group_scores` (each moves by at most r times the ℓ2 change of the gradient on that
    group) and then needs a private direction in it for `group_atom`.

    Raises:
        InvalidInput: groups are not numbered 0, 1, 2, … without gaps, or the radius is not positive and finite.

    Example:
        >>> GroupL1Ball([0, 0, 1], radius=1.0).project([3.0, 4.0, 1.0]).round(12).tolist()
        [0.6, 0.8, 0.0]
    """

    def project(self, theta: ArrayLike) -> Array:
        """Project the vector of group norms on the ℓ1 ball and rescale each group. O(d)."""
        point = self._vector(theta)
        lengths = self._lengths(point)
        if self.norm(point) <= 1.0:
            return point.copy()
        below_top = lengths - lengths.max()
        kept = np.maximum(below_top - water_level(below_top, self.radius), 0.0)
        factors = np.divide(kept, lengths, out=np.zeros_like(kept), where=lengths > 0)
        return point * factors[self._numbers]

    def linear_minimiser(self, gradient: ArrayLike) -> Array:
        """−r·g_G/‖g_G‖₂ on the group of the largest ‖g_G‖₂."""
        g = self._vector(gradient)
        return self.group_atom(int(np.argmax(self._lengths(g))), -g)

    def group_scores(self, gradient: ArrayLike) -> Array:
        """−r‖g_G‖₂ for each group: the least value of ⟨·, g⟩ on the group's sphere."""
        return -self.radius * self._lengths(self._vector(gradient))

    def group_atom(self, group: int, direction: ArrayLike) -> Array:
        """The point of the group's sphere in this direction (a vector of all d coordinates)."""
        if not 0 <= group < self.n_groups:
            raise InvalidInput(f"group {group} does not exist: there are {self.n_groups}.")
        inside = np.where(self._numbers == group, self._vector(direction), 0.0)
        length = float(np.linalg.norm(inside))
        return inside if length == 0 else self.radius * (inside / length)

    def norm(self, theta: ArrayLike) -> float:
        """Σ_G ‖θ_G‖₂/r."""
        with np.errstate(over="ignore"):
            return float(self._lengths(self._vector(theta)).sum()) / self.radius

    def dual_norm(self, vector: ArrayLike) -> float:
        """r·max_G ‖v_G‖₂."""
        return self.radius * float(self._lengths(self._vector(vector)).max())

    def radius_in(self, d: int, order: int = 2) -> float:
        """r, or r√(largest group) in the ℓ1 norm."""
        check_dimension(d, self.d)
        check_order(order)
        return self.radius * (math.sqrt(self.sizes.max()) if order == 1 else 1.0)

    def gaussian_width(self, d: int) -> Width:
        """r·E max_G ‖g_G‖₂, by quadrature over chi distributions."""
        check_dimension(d, self.d)
        return Width(self.radius * expected_max_chi(self.sizes.astype(np.float64)))

    def _lengths(self, vector: Array) -> Array:
        largest = float(np.abs(vector).max()) or 1.0  # so that squares cannot overflow
        return largest * np.sqrt(np.bincount(self._numbers, weights=(vector / largest) ** 2, minlength=self.n_groups))


@dataclass(frozen=True, eq=False)
class GroupInfL1Ball(_Grouped):
    """{θ : Σ_G ‖θ_G‖∞ ≤ radius}, the polytopal grouped ℓ1 ball: its atoms are the signed groups, ±r on one group.

    Group G of size k has 2^k atoms; the atoms of group 0 come first, and within a group the bits of the position say
    which of its coordinates (lowest bit: first coordinate) are negative.

    Raises:
        InvalidInput: as for `GroupL1Ball`, or a group has more than 20 coordinates (its atoms could not be listed).

    Example:
        >>> ball = GroupInfL1Ball([0, 0, 1], radius=1.0)
        >>> ball.n_atoms(3), ball.atom(1, 3).tolist()
        (6, [-1.0, 1.0, 0.0])
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sizes.max() > _LARGEST_SIGNED_GROUP:
            raise InvalidInput(
                f"a group has {self.sizes.max()} coordinates, hence 2^{self.sizes.max()} atoms; the most that can be "
                f"listed is {_LARGEST_SIGNED_GROUP} coordinates: use smaller groups, or GroupL1Ball."
            )

    def linear_minimiser(self, gradient: ArrayLike) -> Array:
        """−r·sign(g) on the group of the largest ‖g_G‖₁."""
        g = self._vector(gradient)
        group = int(np.argmax(self._sums(g)))
        return np.where(self._numbers == group, np.where(g > 0, -self.radius, self.radius), 0.0)

    def n_atoms(self, d: int) -> int:
        """Σ_G 2^|G|."""
        check_dimension(d, self.d)
        return int(np.sum(2**self.sizes))

    def atom(self, index: int, d: int) -> Array:
        """The signed group of this index."""
        if not 0 <= index < self.n_atoms(d):
            raise InvalidInput(f"atom {index} does not exist: there are {self.n_atoms(d)}.")
        first = np.concatenate([[0], np.cumsum(2**self.sizes)])
        group = int(np.searchsorted(first, index, side="right")) - 1
        coordinates = np.nonzero(self._numbers == group)[0]
        negative = (index - first[group]) >> np.arange(len(coordinates)) & 1
        vertex = np.zeros(d)
        vertex[coordinates] = np.where(negative, -self.radius, self.radius)
        return vertex

    def scores(self, gradient: ArrayLike) -> Array:
        """Every signed sum of the gradient over a group, times r; built by doubling, O(number of atoms)."""
        g = self._vector(gradient)
        order = np.argsort(self._numbers, kind="stable")
        blocks = []
        for block in np.split(g[order], np.cumsum(self.sizes)[:-1]):
            sums = np.zeros(1)
            for value in block:
                sums = np.concatenate([sums + value, sums - value])
            blocks.append(sums)
        return self.radius * np.concatenate(blocks)

    def max_abs_inner(self, linf_bound: float) -> float:
        """r·b·(largest group): the atoms have that many entries ±r."""
        return self.radius * linf_bound * float(self.sizes.max())

    def norm(self, theta: ArrayLike) -> float:
        """Σ_G ‖θ_G‖∞/r."""
        largest = np.zeros(self.n_groups)
        np.maximum.at(largest, self._numbers, np.abs(self._vector(theta)))
        return float(largest.sum()) / self.radius

    def dual_norm(self, vector: ArrayLike) -> float:
        """r·max_G ‖v_G‖₁."""
        return self.radius * float(self._sums(self._vector(vector)).max())

    def radius_in(self, d: int, order: int = 2) -> float:
        """r√k, or rk in the ℓ1 norm, with k the largest group."""
        check_dimension(d, self.d)
        check_order(order)
        largest = float(self.sizes.max())
        return self.radius * (largest if order == 1 else math.sqrt(largest))

    def gaussian_width(self, d: int) -> Width:
        """r·E max_G ‖g_G‖₁, by Monte Carlo."""
        check_dimension(d, self.d)
        return monte_carlo_width(self.dual_norm, d, draws=2000)

    def _sums(self, vector: Array) -> Array:
        sums: Array = np.bincount(self._numbers, weights=np.abs(vector), minlength=self.n_groups).astype(np.float64)
        return sums
