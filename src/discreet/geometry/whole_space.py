"""No constraint at all."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from discreet.geometry.base import Array, Geometry, Width, as_vector, check_dimension, check_order

__all__ = ["WholeSpace"]


@dataclass(frozen=True)
class WholeSpace(Geometry):
    """ℝ^d.

    Example:
        >>> WholeSpace().project([1e9]).tolist()
        [1000000000.0]
    """

    def project(self, theta: ArrayLike) -> Array:
        """θ itself (a copy)."""
        return as_vector(theta).copy()

    def project_inf(self, theta: ArrayLike) -> Array:
        """θ itself (a copy)."""
        return as_vector(theta).copy()

    def norm(self, theta: ArrayLike) -> float:
        """0: every point lies in every multiple of the space."""
        as_vector(theta)
        return 0.0

    def dual_norm(self, vector: ArrayLike) -> float:
        """The support function: infinite unless v = 0."""
        return math.inf if np.any(as_vector(vector)) else 0.0

    def radius_in(self, d: int, order: int = 2) -> float:
        """The radius is infinite."""
        check_dimension(d)
        check_order(order)
        return math.inf

    def diameter(self, d: int, order: int = 2) -> float:
        """The diameter is infinite."""
        return self.radius_in(d, order)

    def gaussian_width(self, d: int) -> Width:
        """The Gaussian width is infinite."""
        check_dimension(d)
        return Width(math.inf)

    def contains(self, theta: ArrayLike, tolerance: float = 1e-9) -> bool:
        """Whether all coordinates are finite."""
        return bool(np.isfinite(as_vector(theta)).all())
