"""Basis pursuit denoising in an ℓ1 ball, on an implicit operator: the sparse vector behind a noisy sketch.

min ½‖A x − b‖² + λ‖x‖₁ over ‖x‖₁ ≤ R by accelerated proximal gradient steps (`discreet.solvers.parts.fista`). A step
costs one product with A and one with Aᵀ. With noise of standard deviation σ in b and columns of length 1, λ =
σ√(2 ln d) is what no coordinate of Aᵀ(noise) exceeds by much. It stops where the *gap*, ⟨∇, x⟩ + λ‖x‖₁ +
R·max(0, ‖∇‖∞ − λ) with ∇ = Aᵀ(Ax − b), is at most λR/10: for every z in the ball ⟨∇, x − z⟩ ≤ gap + λ(‖z‖₁ − ‖x‖₁),
which is what the theorem needs of x (`discreet.theory.l1_recovery`).
"""

from __future__ import annotations

from itertools import islice

import numpy as np
from numpy.typing import NDArray

from discreet.geometry import L1Ball
from discreet.queries.sums.gaussian_sketch import GaussianSketch
from discreet.queries.sums.sketch import Sketch
from discreet.solvers.parts.fista import fista

__all__ = ["recover"]


_SAFETY = 1.05
_BETWEEN = 10
"""Steps between two looks at the gap, which costs as much as a step."""


def recover(
    sketch: Sketch | GaussianSketch,
    b: NDArray[np.float64],
    penalty: float,
    radius: float,
    *,
    iterations: int = 1000,
    tolerance: float = 0.1,
) -> NDArray[np.float64]:
    """The minimiser of ½‖Ax − b‖² + penalty·‖x‖₁ over ‖x‖₁ ≤ radius, to a gap of tolerance·penalty·radius.

    Args:
        sketch: A.
        b: noisy sketch.
        penalty: λ > 0.
        radius: R > 0.
        iterations: the most steps.
        tolerance: of the gap, over λR.
    """
    size, ball = 1.0 / _curvature(sketch), L1Ball(radius)

    def step(x: NDArray[np.float64]) -> NDArray[np.float64]:
        moved = x - size * sketch.adjoint(sketch.apply(x) - b)
        shrunk = np.sign(moved) * np.maximum(np.abs(moved) - size * penalty, 0.0)
        return np.asarray(ball.project(shrunk))

    x = start = np.zeros(sketch.d)
    for k, (x, _, _) in enumerate(islice(fista(step, start), iterations), 1):
        if k % _BETWEEN == 0 and _gap(sketch, b, penalty, radius, x) <= tolerance * penalty * radius:
            break
    return x


def _gap(
    sketch: Sketch | GaussianSketch, b: NDArray[np.float64], penalty: float, radius: float, x: NDArray[np.float64]
) -> float:
    """How far x is from optimal: the most that ⟨∇, x − z⟩ + λ(‖x‖₁ − ‖z‖₁) can be over the ball."""
    gradient = sketch.adjoint(sketch.apply(x) - b)
    steepest = max(0.0, float(np.abs(gradient).max(initial=0.0)) - penalty)
    return float(gradient @ x) + penalty * float(np.abs(x).sum()) + radius * steepest


def _curvature(sketch: Sketch | GaussianSketch) -> float:
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
