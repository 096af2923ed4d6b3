"""Poisson loss with the log link, for counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.losses.base import Array, Domain, Loss, as_float

__all__ = ["Poisson"]


@dataclass(frozen=True)
class Poisson(Loss):
    """Counts with mean exp(z): ℓ(z, y) = exp(z) − yz, the negative log-likelihood up to log y!.

    The slope grows exponentially, so its constants are finite only on a bounded score domain; without one, use clipped
    gradients.

    Example:
        >>> Poisson().lipschitz(Domain(score_bound=0.0, target_low=0.0, target_high=5.0))
        4.0
    """

    kind: ClassVar[int] = 4

    def value(self, z: ArrayLike, y: ArrayLike) -> Array:
        """exp(z) − yz; +inf where exp(z) is beyond the largest float."""
        score, target = as_float(z), as_float(y)
        with np.errstate(over="ignore"):
            mean = np.exp(score)
            # An infinite mean must not meet an infinite yz: the exponential wins.
            return mean - np.where(np.isinf(mean), 0.0, target * np.where(np.isinf(mean), 0.0, score))

    def slope(self, z: ArrayLike, y: ArrayLike) -> Array:
        """exp(z) − y."""
        with np.errstate(over="ignore"):
            return np.exp(as_float(z)) - as_float(y)

    def curvature(self, z: ArrayLike, y: ArrayLike) -> Array:
        """exp(z)."""
        with np.errstate(over="ignore"):
            return np.exp(np.broadcast_to(as_float(z), np.broadcast_shapes(np.shape(z), np.shape(y))))

    def lipschitz(self, domain: Domain) -> float:
        """max(exp(B) − low, high − exp(−B)): one of the two ends of exp(z) − y."""
        highest = _exp(domain.score_bound) - domain.target_low
        lowest = math.exp(-domain.score_bound) - domain.target_high
        return max(abs(highest), abs(lowest))

    def smoothness(self, domain: Domain) -> float:
        """exp(B)."""
        return _exp(domain.score_bound)

    def mean(self, z: ArrayLike) -> Array:
        """exp(z)."""
        with np.errstate(over="ignore"):
            return np.exp(as_float(z))


def _exp(exponent: float) -> float:
    try:
        return math.exp(exponent)
    except OverflowError:
        return math.inf
