"""Newton's method for a convex function of few variables, with steps halved until the function falls enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["damped_newton"]

Array: TypeAlias = NDArray[np.float64]

_SMALLEST_STEP = 1e-6
_ENOUGH = 1e-4  # of the decrease that the gradient promises (Armijo)


def damped_newton(
    value: Callable[[Array], float], derivatives: Callable[[Array], tuple[Array, Array]], start: Array
) -> Array:
    """A point at which ``value`` is least, as nearly as doubles show it.

    Args:
        value: a convex function.
        derivatives: its gradient and its Hessian, which must be positive definite.
        start: where the search begins; it is not changed.

    Example:
        >>> at = damped_newton(lambda w: float(w @ w - w[0]), lambda w: (2 * w - [1, 0], 2 * np.eye(2)), np.ones(2))
        >>> at.tolist()
        [0.5, 0.0]
    """
    w = start.copy()
    for _ in range(100):
        gradient, hessian = derivatives(w)
        step = np.linalg.solve(hessian, -gradient)
        now, t = value(w), 1.0
        while t > _SMALLEST_STEP and not value(w + t * step) <= now + _ENOUGH * t * float(gradient @ step):
            t /= 2
        if t <= _SMALLEST_STEP:
            break
        w = w + t * step
        if float(np.abs(step).max()) < 1e-10 * (1 + float(np.abs(w).max())):
            break
    return w
