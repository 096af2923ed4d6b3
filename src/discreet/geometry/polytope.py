"""The convex hull of given vertices."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import InvalidInput
from discreet.geometry._widths import monte_carlo_width
from discreet.geometry.base import Array, Geometry, Width, as_vector, check_dimension, check_order

__all__ = ["Polytope"]


@dataclass(frozen=True, eq=False)
class Polytope(Geometry):
    """conv{v_1, …, v_m} with the vertices as the rows of a matrix (points inside the hull do no harm).

    Raises:
        InvalidInput: the vertices are not a non-empty matrix of finite numbers.

    Example:
        >>> triangle = Polytope([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> triangle.project([1.0, 1.0]).round(12).tolist()
        [0.5, 0.5]
    """

    vertices: ArrayLike

    def __post_init__(self) -> None:
        vertices = np.array(self.vertices, dtype=np.float64)
        if vertices.ndim != 2 or vertices.size == 0 or not np.isfinite(vertices).all():
            raise InvalidInput(
                f"vertices must be a non-empty matrix of finite numbers, got the shape {vertices.shape}."
            )
        vertices.setflags(write=False)
        object.__setattr__(self, "vertices", vertices)

    @property
    def _rows(self) -> Array:
        return np.asarray(self.vertices)

    def _vector(self, values: ArrayLike) -> Array:
        vector = as_vector(values)
        check_dimension(len(vector), self._rows.shape[1])
        return vector

    def project(self, theta: ArrayLike) -> Array:
        """The nearest point of the hull, by Wolfe's active-set method: exact in finitely many steps (Wolfe 1976)."""
        point = self._vector(theta)
        return point + _least_norm_point(self._rows - point)

    def linear_minimiser(self, gradient: ArrayLike) -> Array:
        """The vertex of the smallest score."""
        return self._rows[int(np.argmin(self.scores(gradient)))].copy()

    def n_atoms(self, d: int) -> int:
        """The number of vertices."""
        check_dimension(d, self._rows.shape[1])
        return len(self._rows)

    def atom(self, index: int, d: int) -> Array:
        """The vertex of this index."""
        if not 0 <= index < self.n_atoms(d):
            raise InvalidInput(f"atom {index} does not exist: there are {self.n_atoms(d)}.")
        return self._rows[index].copy()

    def scores(self, gradient: ArrayLike) -> Array:
        """Vertices times gradient."""
        return self._rows @ self._vector(gradient)

    def max_abs_inner(self, linf_bound: float) -> float:
        """b·max ‖v‖₁."""
        return linf_bound * self.radius_in(self._rows.shape[1], order=1)

    def norm(self, theta: ArrayLike) -> float:
        """min Σλ over λ ≥ 0 with Σλ_i v_i = θ, a linear programme; inf when θ is outside the cone of the vertices."""
        from scipy.optimize import linprog

        point = self._vector(theta)
        if not point.any():
            return 0.0
        scale = float(np.abs(point).max())
        solution = linprog(np.ones(len(self._rows)), A_eq=self._rows.T, b_eq=point / scale, method="highs")
        return math.inf if solution.fun is None else scale * float(solution.fun)

    def dual_norm(self, vector: ArrayLike) -> float:
        """max_i ⟨v_i, v⟩."""
        return float(self.scores(vector).max())

    def radius_in(self, d: int, order: int = 2) -> float:
        """The largest norm of a vertex."""
        check_dimension(d, self._rows.shape[1])
        check_order(order)
        return float(np.linalg.norm(self._rows, ord=order, axis=1).max())

    def diameter(self, d: int, order: int = 2) -> float:
        """The largest distance between two vertices. O(m²d)."""
        check_dimension(d, self._rows.shape[1])
        check_order(order)
        return max(float(np.linalg.norm(self._rows - row, ord=order, axis=1).max()) for row in self._rows)

    def gaussian_width(self, d: int) -> Width:
        """E max_i ⟨v_i, g⟩, by Monte Carlo."""
        check_dimension(d, self._rows.shape[1])
        return monte_carlo_width(self.dual_norm, d, draws=2000)

    def contains(self, theta: ArrayLike, tolerance: float = 1e-9) -> bool:
        """Whether θ is its own projection."""
        point = self._vector(theta)
        scale = self.radius_in(self._rows.shape[1]) or 1.0
        return float(np.linalg.norm(self.project(point) - point)) <= tolerance * scale


def _least_norm_point(points: Array) -> Array:
    """The least-norm point of conv(points), rows of a matrix (Wolfe 1976).

    A *corral* of affinely independent points holds the current point x in the relative interior of its hull. While some
    point lies strictly below the hyperplane ⟨x, ·⟩ = ‖x‖², it joins the corral; then x moves to the corral's affine
    minimiser, losing points whose weight would turn negative.
    """
    scale = float((points * points).sum(axis=1).max())
    start = int((points * points).sum(axis=1).argmin())
    corral, weights = [start], np.ones(1)
    x = points[start]
    for _ in range(50 * sum(points.shape)):
        candidate = int(np.argmin(points @ x))
        if candidate in corral or x @ x - points[candidate] @ x <= 1e-14 * scale:
            break
        corral.append(candidate)
        weights = np.append(weights, 0.0)
        while True:
            affine = _affine_minimiser(points[corral])
            if np.all(affine > 1e-12):
                weights = affine
                break
            shrinking = affine <= 1e-12
            steps = weights[shrinking] / np.maximum(weights[shrinking] - affine[shrinking], 1e-300)
            step = float(min(1.0, steps.min()))
            weights = (1 - step) * weights + step * affine
            kept = weights > 1e-12
            corral = [index for index, keep in zip(corral, kept, strict=True) if keep]
            weights = weights[kept] / weights[kept].sum()
        x = weights @ points[corral]
    return x


def _affine_minimiser(points: Array) -> Array:
    """Weights of sum one that minimise ‖Σ w_i p_i‖: least squares on differences from the first point."""
    differences = (points[1:] - points[0]).T
    rest = np.linalg.lstsq(differences, -points[0], rcond=None)[0]
    return np.concatenate([[1.0 - rest.sum()], rest])
