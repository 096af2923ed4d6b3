"""Squared loss: ℓ = (z − y)²/2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.losses.base import Array, Domain, Loss, as_float

__all__ = ["Squared"]


@dataclass(frozen=True)
class Squared(Loss):
    """Least squares, ℓ(z, y) = (z − y)²/2.

    Its slope grows with the residual, so it is Lipschitz only where scores are bounded.

    Example:
        >>> Squared().lipschitz(Domain(score_bound=2.0, target_low=0.0, target_high=1.0))
        3.0
    """

    kind: ClassVar[int] = 0

    def value(self, z: ArrayLike, y: ArrayLike) -> Array:
        """(z − y)²/2."""
        with np.errstate(over="ignore"):
            residual = as_float(z) - as_float(y)
            return 0.5 * residual * residual

    def slope(self, z: ArrayLike, y: ArrayLike) -> Array:
        """The residual z − y."""
        with np.errstate(over="ignore"):
            return as_float(z) - as_float(y)

    def curvature(self, z: ArrayLike, y: ArrayLike) -> Array:
        """1 everywhere."""
        return np.ones(np.broadcast_shapes(np.shape(z), np.shape(y)), dtype=as_float(z).dtype)

    def lipschitz(self, domain: Domain) -> float:
        """The largest residual, B + max|y|."""
        return domain.largest_residual

    def smoothness(self, domain: Domain) -> float:
        """1 on every domain."""
        return 1.0
