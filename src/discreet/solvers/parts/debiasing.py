"""From released values to unbiased coefficients and their covariance.

With J(η) = Σwℓ + (λ/2)‖η − c‖² + ⟨b, η⟩ minimised at η, H its Hessian without λ and θ the minimiser of E Σwℓ,

    0 = ∇Σwℓ(η) + λ(η − c) + b  ≈  ∇Σwℓ(θ) + H(η − θ) + λ(η − c) + b,

so η + H⁻¹λ(η − c) − θ ≈ −H⁻¹(∇Σwℓ(θ) + b): the ridge's bias is removed by a known vector D = H⁻¹λ(η − c), and what is
left has covariance H⁻¹(V + σ_b²I)H⁻¹, V that of a sum of gradients. H is released with noise E, which moves D by
H⁻¹ED in first order, of covariance H⁻¹·Cov(ED)·H⁻¹ with Cov(ED) = σ_H²/2·(‖D‖²I + DDᵀ) for a symmetric Gaussian E of
standard deviation σ_H on the diagonal and σ_H/√2 off it. See ``docs/maths/intervals.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Debiased", "debiased"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Debiased:
    """Coefficients without the ridge's bias.

    Args:
        theta: the coefficients.
        covariance: theirs, over rows and noise.
        quality: q, the least eigenvalue of the released Hessian over the norm of its noise; infinite without noise.
            Below 1 the covariance is that of no normal law, and means nothing.
    """

    theta: Array
    covariance: Array
    quality: float


def debiased(
    eta: Array, pull: Array, hessian: Array, variance: Array, tilt_noise: float, hessian_noise: float
) -> Debiased:
    """The debiased minimiser.

    Args:
        eta: the perturbed minimiser.
        pull: λ(η − c).
        hessian: H with noise.
        variance: V, perhaps with noise.
        tilt_noise: σ_b.
        hessian_noise: σ_H, on the diagonal.
    """
    norm = hessian_noise * math.sqrt(2 * len(eta))
    values, vectors = np.linalg.eigh(hessian)
    floor = max(norm / 2, 1e-13 * float(np.max(np.abs(values))), 1e-300)
    inverse = (vectors / np.maximum(values, floor)) @ vectors.T
    shift = inverse @ pull
    of_hessian = hessian_noise**2 / 2 * (float(shift @ shift) * np.eye(len(eta)) + np.outer(shift, shift))
    middle = _positive_part(variance) + tilt_noise**2 * np.eye(len(eta)) + of_hessian
    quality = float(values[0]) / norm if norm else math.inf
    return Debiased(eta + shift, np.asarray(inverse @ middle @ inverse), quality)


def _positive_part(matrix: Array) -> Array:
    values, vectors = np.linalg.eigh(matrix)
    return matrix if values[0] >= 0 else np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
