"""Projection on a set in the metric of a quadratic: what a least-squares estimate becomes over a set.

If θ̂ minimises a quadratic with Hessian H over the whole space, its minimiser over 𝒞 is the point of 𝒞 nearest to θ̂
in ‖·‖_H, not in ‖·‖₂: it differs from θ̂ most in directions of little curvature. No row is read here: it is
post-processing of what was released.
"""

from __future__ import annotations

from itertools import islice

import numpy as np

from discreet.errors import InvalidInput
from discreet.geometry.base import Array, Geometry, Projectable
from discreet.solvers.parts.fista import fista

__all__ = ["metric_projection"]

_STEPS, _TOLERANCE = 2000, 1e-10  # numerical precision, not tuned


def metric_projection(domain: Geometry, point: Array, metric: Array) -> Array:
    """argmin over the set of ½(θ − point)ᵀ·metric·(θ − point).

    Accelerated projected gradients (`fista`). Over sparse vectors, which are not convex, it is iterative hard
    thresholding from the largest entries: no step increases the distance, and it ends where no exchange of one entry
    that the gradient shows would reduce it (Blumensath–Davies 2009).

    Args:
        domain: a set with a projection.
        point: where the quadratic is 0.
        metric: a symmetric positive definite matrix.

    Raises:
        InvalidInput: the set has no projection.

    Example:
        >>> from discreet.geometry import L2Ball
        >>> metric_projection(L2Ball(1.0), np.array([3.0, 0.0]), np.eye(2))
        array([1., 0.])
    """
    if not isinstance(domain, Projectable):
        raise InvalidInput(f"{type(domain).__name__} has no projection, without which no nearest point is found.")
    start = np.asarray(domain.project(point))
    if np.array_equal(start, point):
        return start
    largest = float(np.linalg.norm(metric, 2))
    if not largest > 0:
        return start

    def step(theta: Array) -> Array:
        return np.asarray(domain.project(theta - metric @ (theta - point) / largest))

    found = start
    for found, extrapolated, _ in islice(fista(step, start, accelerated=domain.convex), _STEPS):
        if np.linalg.norm(found - extrapolated) <= _TOLERANCE * max(float(np.linalg.norm(found)), 1e-300):
            break
    return found
