"""The box {low ≤ θ ≤ high}, coordinate by coordinate."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import InvalidInput
from discreet.geometry.base import Array, Geometry, Width, as_vector, check_dimension, check_order

__all__ = ["Box"]


@dataclass(frozen=True, eq=False)
class Box(Geometry):
    """{θ : low ≤ θ ≤ high}, with bounds that are numbers (the same for every coordinate) or vectors.

    Raises:
        InvalidInput: a bound is not finite, low exceeds high somewhere, or the two have different lengths.

    Example:
        >>> Box(0.0, 1.0).project([-2.0, 0.5, 3.0]).tolist()
        [0.0, 0.5, 1.0]
    """

    low: ArrayLike
    high: ArrayLike

    def __post_init__(self) -> None:
        low, high = (np.array(bound, dtype=np.float64) for bound in (self.low, self.high))
        if low.ndim > 1 or high.ndim > 1 or (low.ndim and high.ndim and low.shape != high.shape):
            raise InvalidInput(f"box bounds must be numbers or equal-length vectors, got {low.shape} and {high.shape}.")
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise InvalidInput("box bounds must be finite; for an unbounded coordinate use WholeSpace.")
        if np.any(low > high):
            raise InvalidInput("box bounds contradict each other: low exceeds high in some coordinate.")
        for name, bound in (("low", low), ("high", high)):
            bound.setflags(write=False)
            object.__setattr__(self, name, bound)

    def project(self, theta: ArrayLike) -> Array:
        """Clip every coordinate. O(d)."""
        point = as_vector(theta)
        low, high = self._bounds(len(point))
        return np.clip(point, low, high)

    def project_inf(self, theta: ArrayLike) -> Array:
        """Clipping is nearest in every ℓp norm, since the coordinates are independent."""
        return self.project(theta)

    def linear_minimiser(self, gradient: ArrayLike) -> Array:
        """Low where the gradient is positive, high where it is negative."""
        g = as_vector(gradient)
        low, high = self._bounds(len(g))
        return np.where(g > 0, low, high)

    def norm(self, theta: ArrayLike) -> float:
        """The least t ≥ 0 with t·low ≤ θ ≤ t·high; inf when there is none."""
        point = as_vector(theta)
        low, high = self._bounds(len(point))
        # −low bounds −θ exactly as high bounds θ.
        values, bounds = np.concatenate([point, -point]), np.concatenate([high, -low])
        least = np.max(values[bounds > 0] / bounds[bounds > 0], initial=0.0)
        most = np.min(values[bounds < 0] / bounds[bounds < 0], initial=math.inf)
        feasible = least <= most and not np.any(values[bounds == 0] > 0)
        return float(least) if feasible else math.inf

    def dual_norm(self, vector: ArrayLike) -> float:
        """Σ max(low_i v_i, high_i v_i)."""
        v = as_vector(vector)
        low, high = self._bounds(len(v))
        return float(np.maximum(low * v, high * v).sum())

    def radius_in(self, d: int, order: int = 2) -> float:
        """The norm of the farthest corner."""
        self._bounds(d)
        return self._length(np.maximum(np.abs(self.low), np.abs(self.high)), d, order)

    def diameter(self, d: int, order: int = 2) -> float:
        """‖high − low‖."""
        self._bounds(d)
        return self._length(np.asarray(self.high) - np.asarray(self.low), d, order)

    def gaussian_width(self, d: int) -> Width:
        """Σ(high_i − low_i)/√(2π): E max(low·g, high·g) = (high − low)·E g₊."""
        return Width(self.diameter(d, order=1) / math.sqrt(2.0 * math.pi))

    def contains(self, theta: ArrayLike, tolerance: float = 1e-9) -> bool:
        """Whether low ≤ θ ≤ high."""
        point = as_vector(theta)
        low, high = self._bounds(len(point))
        slack = tolerance * max(1.0, float(np.max(np.maximum(np.abs(low), np.abs(high)))))
        return bool(np.all(point >= low - slack) and np.all(point <= high + slack))

    @staticmethod
    def _length(widths: Array, d: int, order: int) -> float:
        """The norm of a vector, or of d equal numbers."""
        check_order(order)
        length = float(np.linalg.norm(np.atleast_1d(widths), ord=order))
        return length if np.ndim(widths) else length * float(d) ** (1 / order)

    def _bounds(self, d: int) -> tuple[Array, Array]:
        low, high = np.asarray(self.low), np.asarray(self.high)
        own = low.shape or high.shape
        check_dimension(d, own[0] if own else None)
        return np.broadcast_to(low, (d,)), np.broadcast_to(high, (d,))
