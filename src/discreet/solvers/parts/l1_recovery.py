"""Basis pursuit denoising on an implicit operator: the sparse vector behind a noisy sketch.

min ½‖A x − b‖² + λ‖x‖₁ by accelerated proximal gradient steps (`discreet.solvers.parts.fista`). A step costs one
product with A and one with Aᵀ, never a stored matrix. With noise of standard deviation σ in b and columns of length 1,
λ = σ√(2 ln d) is what no coordinate of Aᵀ(noise) exceeds by much.
"""

from __future__ import annotations

from itertools import islice

import numpy as np
from numpy.typing import NDArray

from discreet.queries.sums.sketch import Sketch
from discreet.solvers.parts.fista import fista

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
    size = 1.0 / _curvature(sketch)

    def step(x: NDArray[np.float64]) -> NDArray[np.float64]:
        moved = x - size * sketch.adjoint(sketch.apply(x) - b)
        return np.asarray(np.sign(moved) * np.maximum(np.abs(moved) - size * penalty, 0.0))

    x = start = np.zeros(sketch.d)
    for x, _, previous in islice(fista(step, start), iterations):
        if float(np.linalg.norm(x - previous)) <= tolerance * float(np.linalg.norm(x)):
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
