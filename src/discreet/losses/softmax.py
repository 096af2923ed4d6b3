"""Multinomial logistic loss over K classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import InvalidInput
from discreet.losses.base import Array, Domain, Loss, as_float

__all__ = ["Softmax"]


@dataclass(frozen=True)
class Softmax(Loss):
    """Multinomial logistic regression, ℓ(z, y) = log Σ_k exp(z_k) − z_y, with z ∈ ℝᴷ and y ∈ {0, …, K − 1}.

    Scores have shape (…, K), targets are integer codes of shape (…). The row's gradient is the outer product of the
    slope (K numbers) and x, whose norm is ‖slope‖₂·‖x‖₂; all constants are in the ℓ2 norm. ``Domain.score_bound``
    bounds every |z_k|; the target bounds play no part.

    Raises:
        InvalidInput: fewer than two classes; scores or codes of the wrong shape; a code outside {0, …, K − 1}.

    Example:
        >>> Softmax(classes=2).slope([[0.0, 0.0]], [1]).tolist()
        [[0.5, -0.5]]
        >>> round(Softmax(classes=3).lipschitz(Domain()), 6)
        1.414214
    """

    classes: int

    kind: ClassVar[int] = 6

    def __post_init__(self) -> None:
        if isinstance(self.classes, bool) or not isinstance(self.classes, int) or self.classes < 2:
            raise InvalidInput(f"classes must be an integer of at least 2, got {self.classes!r}.")

    @property
    def parameter(self) -> float:
        """The number of classes."""
        return float(self.classes)

    def value(self, z: ArrayLike, y: ArrayLike) -> Array:
        """log Σ_k exp(z_k) − z_y, summed relative to the largest score so that nothing overflows early."""
        scores, codes = self._checked(z, y)
        top = scores.max(axis=-1, keepdims=True)
        with np.errstate(over="ignore"):
            excess = np.log(np.exp(scores - top).sum(axis=-1))
            shortfall = top[..., 0] - np.take_along_axis(scores, codes[..., None], axis=-1)[..., 0]
        return shortfall + excess

    def slope(self, z: ArrayLike, y: ArrayLike) -> Array:
        """The slopes p − e_y, of shape (…, K), with p the class probabilities."""
        scores, codes = self._checked(z, y)
        slope = _probabilities(scores)
        true_class = np.take_along_axis(slope, codes[..., None], axis=-1)
        np.put_along_axis(slope, codes[..., None], true_class - 1.0, axis=-1)
        return slope

    def curvature(self, z: ArrayLike, y: ArrayLike) -> Array:
        """The K × K Hessians diag(p) − ppᵀ, of shape (…, K, K)."""
        scores, _ = self._checked(z, y)
        p = _probabilities(scores)
        hessian = -p[..., :, None] * p[..., None, :]
        diagonal = np.arange(self.classes)
        hessian[..., diagonal, diagonal] += p
        return hessian

    def lipschitz(self, domain: Domain) -> float:
        """The largest ‖p − e_y‖₂: √2 for unbounded scores.

        As one weight exp(z_k) grows, p moves along a segment towards e_k, on which the convex ‖p − e_y‖ is largest at
        an end; so the maximum is at z_y = −B, m of the other scores at B and the rest at −B, for the best m.
        """
        ratio = math.exp(-2.0 * domain.score_bound)  # smallest over largest weight
        largest = 0.0
        for m in range(1, self.classes):
            total = m + (self.classes - m) * ratio
            wrong = 1.0 - ratio / total
            squares = wrong**2 + m / total**2 + (self.classes - 1 - m) * (ratio / total) ** 2
            largest = max(largest, squares)
        return math.sqrt(largest)

    def smoothness(self, domain: Domain) -> float:
        """The largest eigenvalue of diag(p) − ppᵀ is at most min(1/2, max_k p_k) (Popoviciu; Cauchy interlacing)."""
        largest_probability = 1.0 / (1.0 + (self.classes - 1) * math.exp(-2.0 * domain.score_bound))
        return min(0.5, largest_probability)

    def mean(self, z: ArrayLike) -> Array:
        """The class probabilities."""
        return _probabilities(self._checked_scores(z))

    def _checked_scores(self, z: ArrayLike) -> Array:
        scores = as_float(z)
        if scores.ndim == 0 or scores.shape[-1] != self.classes:
            raise InvalidInput(f"scores need a last axis of {self.classes} classes, got the shape {scores.shape}.")
        return scores

    def _checked(self, z: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
        scores, targets = self._checked_scores(z), np.asarray(y)
        if targets.shape != scores.shape[:-1]:
            raise InvalidInput(f"targets have the shape {targets.shape}, scores {scores.shape}.")
        codes = targets.astype(np.intp)
        if np.any(codes != targets) or np.any((codes < 0) | (codes >= self.classes)):
            raise InvalidInput(f"targets must be class codes 0 … {self.classes - 1}.")
        return scores, codes


def _probabilities(scores: Array) -> Array:
    with np.errstate(over="ignore"):
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)
