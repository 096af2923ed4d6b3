"""Basis pursuit denoising on an implicit operator: the sparse vector behind a noisy sketch.

min ½‖A x − b‖² + λ‖x‖₁ by accelerated proximal gradient steps with restarts (Beck–Teboulle 2009; O'Donoghue–Candès
2015). A step costs one product with A and one with Aᵀ, never a stored matrix. With noise of standard deviation σ in b
and columns of length 1, λ = σ√(2 ln d) is what no coordinate of Aᵀ(noise) exceeds by much.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from discreet.queries.sums.sketch import Sketch

__all__ = ["recover"]


_SAFETY = 1.05


def recover(
    sketch: Sketch, b: NDArray[np.float64], penalty: float, *, iterations: int = 300, tolerance: float = 1e-4
) -> NDArray[np.float64]:
    """The minimiser of ½‖Ax − b‖² + penalty·‖x‖₁, to a relative change of ``tolerance`` a step.

    Args:
        sketch: A.
        b: noisy sketch.
        penalty: λ > 0.
        iterations: the most steps.
        tolerance: stop when a step moves x by less than this share of its length.
    """
    step = 1.0 / _curvature(sketch)
    x = np.zeros(sketch.d)
    ahead, momentum = x, 1.0
    for _ in range(iterations):
        gradient = sketch.adjoint(sketch.apply(ahead) - b)
        moved = ahead - step * gradient
        new = np.sign(moved) * np.maximum(np.abs(moved) - step * penalty, 0.0)
        change = new - x
        if float((ahead - new) @ change) > 0:  # the momentum points uphill: start it anew
            momentum = 1.0
        following = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        ahead = new + (momentum - 1) / following * change
        x, momentum = new, following
        if float(np.linalg.norm(change)) <= tolerance * float(np.linalg.norm(x)):
            break
    return x


def _curvature(sketch: Sketch) -> float:
    """‖A‖² by the power method, a little more for what it has not found, and never more than the proved bound."""
    x, length = sketch.adjoint(np.ones(sketch.rows)), 0.0
    for _ in range(20):
        size = float(np.linalg.norm(x))
        if size == 0:
            break
        x = sketch.adjoint(sketch.apply(x / size))
        length = float(np.linalg.norm(x))
    bound = sketch.squared_norm()
    return min(_SAFETY * length, bound) if length > 0 else bound
