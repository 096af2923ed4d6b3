"""Accelerated proximal gradient steps with restarts: FISTA (Beck–Teboulle 2009; O'Donoghue–Candès 2015)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Iterate", "fista"]

Array = NDArray[np.float64]


class Iterate(NamedTuple):
    """One step: from ``extrapolated`` to ``point``, where ``previous`` was the point before."""

    point: Array
    extrapolated: Array
    previous: Array


def fista(step: Callable[[Array], Array], start: Array, *, accelerated: bool = True) -> Iterator[Iterate]:
    """Iterates without end; the caller stops by its own criterion.

    Point x_k = step(y_k), then y_{k+1} = x_k + (t_k − 1)/t_{k+1}·(x_k − x_{k−1}) with t_{k+1} = (1 + √(1 + 4t_k²))/2.
    Momentum starts anew, t_k = 1, where it points uphill: ⟨y_k − x_k, x_k − x_{k−1}⟩ > 0.

    Args:
        step: one proximal (or projected) gradient step with a step size of at most 1/(largest curvature).
        start: x_0 = y_1.
        accelerated: False keeps t_k = 1, plain proximal gradient steps: for sets that are not convex.

    Example:
        >>> from itertools import islice
        >>> *_, last = islice(fista(lambda x: np.maximum(x - 0.5 * (x + 1.0), 0.0), np.array([4.0])), 10)
        >>> last.point
        array([0.])
    """
    previous, ahead, t = start, start, 1.0
    while True:
        point = step(ahead)
        yield Iterate(point, ahead, previous)
        if not accelerated or float((ahead - point) @ (point - previous)) > 0:
            t = 1.0
        following = (1 + math.sqrt(1 + 4 * t**2)) / 2
        ahead = point + (t - 1) / following * (point - previous)
        previous, t = point, following
