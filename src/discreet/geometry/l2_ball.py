"""The Euclidean ball {‖θ‖₂ ≤ r}."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from discreet.geometry._widths import expected_chi
from discreet.geometry.base import (
    Array,
    Geometry,
    Width,
    as_vector,
    check_dimension,
    check_order,
    check_radius,
    euclidean_norm,
)

__all__ = ["L2Ball"]


@dataclass(frozen=True)
class L2Ball(Geometry):
    """{θ : ‖θ‖₂ ≤ radius}.

    Raises:
        InvalidInput: the radius is not positive and finite.

    Example:
        >>> L2Ball(1.0).project([3.0, 4.0]).tolist()
        [0.6, 0.8]
    """

    radius: float = 1.0

    def __post_init__(self) -> None:
        check_radius(self.radius)

    def project(self, theta: ArrayLike) -> Array:
        """Scale θ back to the sphere when it is outside. O(d)."""
        point = as_vector(theta)
        length = euclidean_norm(point)
        # Two factors, since radius/length can underflow where point/length cannot.
        return point.copy() if length <= self.radius else (point / length) * self.radius

    def project_inf(self, theta: ArrayLike) -> Array:
        """Soft-threshold at the least t with Σ(|θ_i| − t)₊² ≤ r². O(d log d).

        Lowering every |θ_i| by t (not below 0) is the least-norm point within ℓ∞ distance t of θ.
        """
        point = as_vector(theta)
        size = np.abs(point)
        if euclidean_norm(point) <= self.radius:
            return point.copy()
        # Only entries within r of the largest survive: the others would have to be lowered below zero.
        top = float(size.max())
        depth = np.sort(top - size[size > top - self.radius])  # distances below the top, in [0, r)
        count = np.arange(1, len(depth) + 1)
        first, second = np.cumsum(depth), np.cumsum(depth * depth)
        # With u = top − t, Σ_{j ≤ k}(u − depth_j)² as a function of u must equal r².
        at_next = count[:-1] * depth[1:] ** 2 - 2 * depth[1:] * first[:-1] + second[:-1]
        k = int(np.searchsorted(at_next, self.radius**2)) + 1
        mean, square = first[k - 1] / k, second[k - 1]
        u = mean + math.sqrt(max(0.0, mean * mean - (square - self.radius**2) / k))
        survivors = np.maximum(u - (top - size), 0.0)
        return np.copysign(survivors, point)

    def linear_minimiser(self, gradient: ArrayLike) -> Array:
        """−r·g/‖g‖₂ (0 for g = 0)."""
        g = as_vector(gradient)
        length = euclidean_norm(g)
        return np.zeros_like(g) if length == 0 else -self.radius * (g / length)

    def norm(self, theta: ArrayLike) -> float:
        """‖θ‖₂/r."""
        return euclidean_norm(as_vector(theta)) / self.radius

    def dual_norm(self, vector: ArrayLike) -> float:
        """r‖v‖₂."""
        return self.radius * euclidean_norm(as_vector(vector))

    def radius_in(self, d: int, order: int = 2) -> float:
        """r, or r√d in the ℓ1 norm."""
        check_dimension(d)
        check_order(order)
        return self.radius * (math.sqrt(d) if order == 1 else 1.0)

    def diameter(self, d: int, order: int = 2) -> float:
        """Twice the radius."""
        return 2.0 * self.radius_in(d, order)

    def gaussian_width(self, d: int) -> Width:
        """r·E‖g‖₂ = r√2·Γ((d + 1)/2)/Γ(d/2), about r√d."""
        check_dimension(d)
        return Width(self.radius * expected_chi(d))

    def contains(self, theta: ArrayLike, tolerance: float = 1e-9) -> bool:
        """‖θ‖₂ ≤ r."""
        return self.norm(theta) <= 1.0 + tolerance
