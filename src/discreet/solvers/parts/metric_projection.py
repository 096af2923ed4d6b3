"""The point of a set that is nearest in the metric of a quadratic: what a least-squares estimate becomes over a set.

If θ̂ minimises a quadratic with Hessian H over the whole space, its minimiser over 𝒞 is the point of 𝒞 nearest to θ̂
in ‖·‖_H, not in ‖·‖₂: weak directions give way first. Nothing here touches a row: it is post-processing.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.errors import InvalidInput
from discreet.geometry.base import Array, Geometry, Projectable

__all__ = ["nearest"]

_STEPS, _CLOSE = 2000, 1e-10


def nearest(domain: Geometry, point: Array, metric: Array) -> Array:
    """argmin over the set of ½(θ − point)ᵀ·metric·(θ − point).

    Accelerated projected gradients, restarted when momentum points uphill (Beck–Teboulle 2009; O'Donoghue–Candès 2015).
    Over sparse vectors, which are not convex, it is iterative hard thresholding from the largest entries: no step moves
    away, and no single exchange that a gradient shows is left to be made (Blumensath–Davies 2009).

    Args:
        domain: a set with a projection.
        point: where the quadratic is 0.
        metric: a symmetric positive definite matrix.

    Raises:
        InvalidInput: the set has no projection.

    Example:
        >>> from discreet.geometry import L2Ball
        >>> nearest(L2Ball(1.0), np.array([3.0, 0.0]), np.eye(2))
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
    theta, ahead, momentum = start, start, 1.0
    for _ in range(_STEPS):
        new = np.asarray(domain.project(ahead - metric @ (ahead - point) / largest))
        step = new - ahead
        if np.linalg.norm(step) <= _CLOSE * max(float(np.linalg.norm(new)), 1e-300):
            return new
        if float(step @ (new - theta)) < 0 or not domain.convex:
            momentum = 1.0
        following = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        ahead = new + (momentum - 1) / following * (new - theta)
        theta, momentum = new, following
    return theta
