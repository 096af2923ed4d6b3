"""The s-sparse vectors, optionally within a Euclidean ball. Not convex."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidInput
from discreet.geometry._widths import expected_chi, monte_carlo_width
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

__all__ = ["SparseSet"]


@dataclass(frozen=True)
class SparseSet(Geometry):
    """{θ : at most ``s`` coordinates are not 0}, and ‖θ‖₂ ≤ ``radius`` when one is given.

    The set of iterative hard thresholding. A projection exists, is cheap, and is exact, but it is not unique and does
    not contract: theorems that need convexity do not apply.

    Raises:
        InvalidInput: s is not a positive integer, or the radius is not positive and finite.

    Example:
        >>> SparseSet(2).project([3.0, -1.0, 2.0]).tolist()
        [3.0, 0.0, 2.0]
    """

    s: int
    radius: float | None = None

    convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.s, bool) or not isinstance(self.s, int) or self.s < 1:
            raise InvalidInput(f"s must be a positive integer, got {self.s!r}.")
        if self.radius is not None:
            check_radius(self.radius)

    def support(self, theta: ArrayLike) -> NDArray[np.intp]:
        """The indices of the s largest |θ_i|, the lower index first among equals."""
        size = np.abs(as_vector(theta))
        if self.s >= len(size):
            return np.arange(len(size))
        threshold = np.partition(size, len(size) - self.s)[len(size) - self.s]
        above = np.nonzero(size > threshold)[0]
        ties = np.nonzero(size == threshold)[0][: self.s - len(above)]
        return np.sort(np.concatenate([above, ties]))

    def project(self, theta: ArrayLike) -> Array:
        """Keep the s largest |θ_i| and scale them into the ball. O(d)."""
        kept = self._top(theta)
        length = euclidean_norm(kept)
        if self.radius is None or length <= self.radius:
            return kept
        return (kept / length) * self.radius

    def linear_minimiser(self, gradient: ArrayLike) -> Array:
        """−r·top_s(g)/‖top_s(g)‖₂.

        Raises:
            InvalidInput: the set has no radius, so that a linear function has no minimum on it.
        """
        if self.radius is None:
            raise InvalidInput("a linear function has no minimum over all s-sparse vectors: give the set a radius.")
        top = self._top(gradient)
        length = euclidean_norm(top)
        return top if length == 0 else -self.radius * (top / length)

    def norm(self, theta: ArrayLike) -> float:
        """‖θ‖₂/r for an s-sparse θ (0 without a radius), inf for a denser one."""
        point = as_vector(theta)
        if np.count_nonzero(point) > self.s:
            return math.inf
        return 0.0 if self.radius is None else euclidean_norm(point) / self.radius

    def dual_norm(self, vector: ArrayLike) -> float:
        """r·‖top_s(v)‖₂; without a radius inf, unless v = 0."""
        length = euclidean_norm(self._top(vector))
        if length == 0:
            return 0.0
        return math.inf if self.radius is None else self.radius * length

    def radius_in(self, d: int, order: int = 2) -> float:
        """r, or r√min(s, d) in the ℓ1 norm."""
        check_dimension(d)
        check_order(order)
        if self.radius is None:
            return math.inf
        return self.radius * (math.sqrt(min(self.s, d)) if order == 1 else 1.0)

    def diameter(self, d: int, order: int = 2) -> float:
        """Twice the radius, since the set is symmetric."""
        return 2.0 * self.radius_in(d, order)

    def gaussian_width(self, d: int) -> Width:
        """r·E‖top_s(g)‖₂: closed for s ≥ d, else by Monte Carlo."""
        check_dimension(d)
        if self.radius is None:
            return Width(math.inf)
        if self.s >= d:
            return Width(self.radius * expected_chi(d))
        return monte_carlo_width(self.dual_norm, d, draws=2000 if d <= 10_000 else 200)

    def contains(self, theta: ArrayLike, tolerance: float = 1e-9) -> bool:
        """Whether θ is s-sparse and short enough."""
        return self.norm(theta) <= 1.0 + tolerance

    def _top(self, vector: ArrayLike) -> Array:
        values = as_vector(vector)
        kept = np.zeros_like(values)
        indices = self.support(values)
        kept[indices] = values[indices]
        return kept
