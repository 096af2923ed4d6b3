"""The simplex {θ ≥ 0, Σθ = r}."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import InvalidInput
from discreet.geometry._widths import expected_max_normal
from discreet.geometry.base import Array, Geometry, Width, as_vector, check_dimension, check_order, check_radius

__all__ = ["Simplex", "water_level"]


@dataclass(frozen=True)
class Simplex(Geometry):
    """{θ : θ ≥ 0, Σθ_i = radius}, the convex hull of the d atoms r·e_i.

    Raises:
        InvalidInput: the radius is not positive and finite.

    Example:
        >>> Simplex(1.0).project([0.5, 2.0, 1.5]).tolist()
        [0.0, 0.75, 0.25]
    """

    radius: float = 1.0

    def __post_init__(self) -> None:
        check_radius(self.radius)

    def project(self, theta: ArrayLike) -> Array:
        """(θ − τ)₊ with τ such that the sum is r. O(d log d) at worst."""
        point = as_vector(theta)
        below_top = _below_top(point)
        return np.maximum(below_top - water_level(below_top, self.radius), 0.0)

    def project_inf(self, theta: ArrayLike) -> Array:
        """A simplex point within the least ℓ∞ distance t of θ.

        The points within t of θ and ≥ 0 are the box [max(θ − t, 0), θ + t]. It is not empty when t ≥ −min θ, and holds
        a point of sum r when its lower corner sums to at most r and its upper corner to at least r; t is the least that
        satisfies all three, and the point returned lies on the segment between the corners.
        """
        point = as_vector(theta)
        t = max(
            0.0,
            -float(point.min()),
            (self.radius - float(point.sum())) / len(point),
            float(point.max()) + water_level(_below_top(point), self.radius),
        )
        lower, upper = np.maximum(point - t, 0.0), np.maximum(point + t, 0.0)
        missing, span = self.radius - float(lower.sum()), float((upper - lower).sum())
        share = min(max(missing / span, 0.0), 1.0) if span > 0 else 0.0
        return lower + share * (upper - lower)

    def linear_minimiser(self, gradient: ArrayLike) -> Array:
        """The atom of the smallest gradient coordinate."""
        g = as_vector(gradient)
        return self.atom(int(np.argmin(g)), len(g))

    def n_atoms(self, d: int) -> int:
        """The dimension d."""
        check_dimension(d)
        return d

    def atom(self, index: int, d: int) -> Array:
        """r·e_index."""
        if not 0 <= index < d:
            raise InvalidInput(f"atom {index} does not exist: the simplex in dimension {d} has {d} atoms.")
        vertex = np.zeros(d)
        vertex[index] = self.radius
        return vertex

    def scores(self, gradient: ArrayLike) -> Array:
        """r·g."""
        return self.radius * as_vector(gradient)

    def max_abs_inner(self, linf_bound: float) -> float:
        """r·b."""
        return self.radius * linf_bound

    def norm(self, theta: ArrayLike) -> float:
        """Σθ_i/r on the non-negative cone, inf elsewhere."""
        point = as_vector(theta)
        return float(point.sum()) / self.radius if np.all(point >= 0) else math.inf

    def dual_norm(self, vector: ArrayLike) -> float:
        """r·max v_i (which can be negative: the simplex does not surround the origin)."""
        return self.radius * float(as_vector(vector).max())

    def radius_in(self, d: int, order: int = 2) -> float:
        """The radius r in both norms, at the atoms."""
        check_dimension(d)
        check_order(order)
        return self.radius

    def diameter(self, d: int, order: int = 2) -> float:
        """r√2, or 2r in the ℓ1 norm, between two atoms."""
        check_order(order)
        check_dimension(d)
        if d == 1:
            return 0.0
        return self.radius * (2.0 if order == 1 else math.sqrt(2.0))

    def gaussian_width(self, d: int) -> Width:
        """r·E max g_i, by quadrature."""
        check_dimension(d)
        return Width(self.radius * expected_max_normal(d) if d > 1 else 0.0)

    def contains(self, theta: ArrayLike, tolerance: float = 1e-9) -> bool:
        """θ ≥ 0 and Σθ = r."""
        point = as_vector(theta)
        slack = tolerance * self.radius
        return bool(np.all(point >= -slack)) and abs(float(point.sum()) - self.radius) <= slack


def _below_top(values: Array) -> Array:
    with np.errstate(over="ignore"):  # −inf is below every level
        return values - values.max()


def water_level(values: Array, volume: float) -> float:
    """The level τ with Σ(values − τ)₊ = volume, for values whose largest is 0.

    Entries at or below −volume never rise above the level, so they are dropped before sorting: what is left is small in
    number and in size, which makes the sum exact enough and quick (Duchi et al. 2008).
    """
    active = -np.sort(-values[values > -volume])
    excess = np.cumsum(active) - volume
    levels = excess / np.arange(1, len(active) + 1)
    last = int(np.nonzero(active > levels)[0][-1])
    return float(levels[last])
