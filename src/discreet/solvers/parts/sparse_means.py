"""Means of sparse vectors: the balls that contain every such mean, and what projecting a noisy one on them gains.

After Ghazi, Guzmán, Kamath, Kumar and Manurangsi 2024 (and Nikolov, Talwar and Zhang 2013). A mean of vectors with at
most s non-zero entries and length at most L lies in the balls ‖·‖₁ ≤ L√s and ‖·‖₂ ≤ L. Projecting a noisy mean on a
convex set that contains the mean brings it nearer to the mean, whatever the noise: an error of τ√d becomes at most
√(L√s·τ·E max|g_i|), g standard normal, in high dimension far less.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discreet.geometry import L1Ball, L2Ball
from discreet.solvers.base import Problem
from discreet.theory.bound import expected_max_abs_normal, harmonic

__all__ = ["gradient_entries", "project", "projected_square", "projecting_helps"]

Array = NDArray[np.float64]
Noise = Literal["gaussian", "laplace"]


def project(mean: Array, length: float, entries: int) -> Array:
    """The projection of a noisy mean on the ℓ1 ball and then on the ℓ2 ball; without a bound on lengths there are none.

    Args:
        mean: mean of vectors, plus noise.
        length: L; inf leaves the mean as it is.
        entries: s.

    Example:
        >>> project(np.array([3.0, 0.5, 0.5]), 1.0, 1).tolist()
        [1.0, 0.0, 0.0]
    """
    if math.isinf(length):
        return mean
    return np.asarray(L2Ball(length).project(L1Ball(length * math.sqrt(entries)).project(mean)))


def gradient_entries(problem: Problem, sparsity: int) -> int:
    """Most non-zero entries that a linear model's gradient has on a row with ``sparsity`` of them."""
    entries = (sparsity + (problem.rows.intercept > 0)) * problem.rows.outputs
    return int(min(entries, math.prod(problem.rows.shape)))


def projected_square(
    problem: Problem, sparsity: int, clip: float, noise_std: float, noise: Noise = "gaussian"
) -> float:
    """E‖P(m + ξ) − m‖² ≤ C√s·E‖ξ‖∞ for a mean m of gradients clipped at C, under noise ξ of deviation τ.

    E‖ξ‖∞ is τ·E max|g_i| for Gaussian noise, and τ·H_d/√2 for Laplace noise.
    """
    radius, d = clip * math.sqrt(gradient_entries(problem, sparsity)), math.prod(problem.rows.shape)
    largest = expected_max_abs_normal(d) if noise == "gaussian" else harmonic(d) / math.sqrt(2)
    return radius * noise_std * largest


def projecting_helps(problem: Problem, sparsity: int, clip: float, noise_std: float, noise: Noise = "gaussian") -> bool:
    """Whether the proved error is below both C/2, half of the estimate 0's largest error, and the noise's own τ√d."""
    d = math.prod(problem.rows.shape)
    return bool(projected_square(problem, sparsity, clip, noise_std, noise) < min(clip**2 / 4, d * noise_std**2))
