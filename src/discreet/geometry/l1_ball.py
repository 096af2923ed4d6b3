"""The ℓ1 ball {‖θ‖₁ ≤ r}."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import InvalidInput
from discreet.geometry._widths import expected_max_abs_normal
from discreet.geometry.base import Array, Geometry, Width, as_vector, check_dimension, check_order, check_radius
from discreet.geometry.simplex import water_level

__all__ = ["L1Ball"]


@dataclass(frozen=True)
class L1Ball(Geometry):
    """{θ : ‖θ‖₁ ≤ radius}, the convex hull of the 2d atoms +r·e_i (indices 0 … d − 1) and −r·e_i (d … 2d − 1).

    Raises:
        InvalidInput: the radius is not positive and finite.

    Example:
        >>> L1Ball(1.0).project([2.0, -1.5, 0.1]).tolist()
        [0.75, -0.25, 0.0]
    """

    radius: float = 1.0

    def __post_init__(self) -> None:
        check_radius(self.radius)

    def project(self, theta: ArrayLike) -> Array:
        """Soft-threshold |θ| at the level that leaves an ℓ1 norm of r. O(d log d) at worst (Duchi et al. 2008)."""
        point = as_vector(theta)
        size = np.abs(point)
        if self.norm(point) <= 1.0:
            return point.copy()
        below_top = size - float(size.max())
        survivors = np.maximum(below_top - water_level(below_top, self.radius), 0.0)
        return np.copysign(survivors, point)

    def project_inf(self, theta: ArrayLike) -> Array:
        """The ℓ2 projection also is nearest in ℓ∞.

        Lowering every |θ_i| by t gives the least ℓ1 norm within ℓ∞ distance t of θ; the least t that reaches the ball
        is the soft threshold.
        """
        return self.project(theta)

    def linear_minimiser(self, gradient: ArrayLike) -> Array:
        """−r·sign(g_i)·e_i at the largest |g_i|."""
        g = as_vector(gradient)
        i = int(np.argmax(np.abs(g)))
        return self.atom(i if g[i] <= 0 else i + len(g), len(g))

    def n_atoms(self, d: int) -> int:
        """2d."""
        check_dimension(d)
        return 2 * d

    def atom(self, index: int, d: int) -> Array:
        """+r·e_index for index < d, −r·e_{index − d} from d on."""
        if not 0 <= index < 2 * d:
            raise InvalidInput(f"atom {index} does not exist: the ℓ1 ball in dimension {d} has {2 * d} atoms.")
        vertex = np.zeros(d)
        vertex[index % d] = self.radius if index < d else -self.radius
        return vertex

    def scores(self, gradient: ArrayLike) -> Array:
        """r·(g, −g)."""
        g = self.radius * as_vector(gradient)
        return np.concatenate([g, -g])

    def max_abs_inner(self, linf_bound: float) -> float:
        """r·b."""
        return self.radius * linf_bound

    def norm(self, theta: ArrayLike) -> float:
        """‖θ‖₁/r."""
        with np.errstate(over="ignore"):
            return float(np.abs(as_vector(theta)).sum()) / self.radius

    def dual_norm(self, vector: ArrayLike) -> float:
        """r‖v‖∞."""
        return self.radius * float(np.abs(as_vector(vector)).max())

    def radius_in(self, d: int, order: int = 2) -> float:
        """The radius r in both norms, at the atoms."""
        check_dimension(d)
        check_order(order)
        return self.radius

    def diameter(self, d: int, order: int = 2) -> float:
        """2r in both norms, between opposite atoms."""
        return 2.0 * self.radius_in(d, order)

    def gaussian_width(self, d: int) -> Width:
        """r·E max|g_i|, by quadrature; at most r√(2 ln 2d)."""
        check_dimension(d)
        return Width(self.radius * (expected_max_abs_normal(d) if d > 1 else math.sqrt(2.0 / math.pi)))

    def contains(self, theta: ArrayLike, tolerance: float = 1e-9) -> bool:
        """‖θ‖₁ ≤ r."""
        return self.norm(theta) <= 1.0 + tolerance
