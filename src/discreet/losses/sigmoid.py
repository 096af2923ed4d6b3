"""Sigmoid loss: a smooth 0-1 loss for two classes. Not convex."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.losses.base import Array, Domain, Loss, as_float, check_label_domain, check_positive
from discreet.losses.logistic import sigmoid

__all__ = ["Sigmoid"]


@dataclass(frozen=True)
class Sigmoid(Loss):
    """Robust classification: ℓ = 1/(1 + exp(k·yz)), labels y = ±1, k the ``steepness`` (Mason et al. 1999).

    A smooth form of the 0-1 loss: a row that is far on the wrong side costs 1 and no more, so that wrong labels do not
    pull. Its expectation is smallest for the same decisions as that of the logistic loss. ℓ is not convex: descent
    finds a stationary point.

    Raises:
        InvalidInput: the steepness is not positive and finite.

    Example:
        >>> Sigmoid().slope([-9.0, 0.0, 9.0], 1.0).round(4).tolist()
        [-0.0001, -0.25, -0.0001]
    """

    steepness: float = 1.0

    kind: ClassVar[int] = 9
    convex: ClassVar[bool] = False
    slope_sign_fixed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive("steepness", self.steepness)

    @property
    def parameter(self) -> float:
        """The steepness."""
        return self.steepness

    def value(self, z: ArrayLike, y: ArrayLike) -> Array:
        """σ(−k·yz)."""
        return sigmoid(-self._margin(z, y))

    def slope(self, z: ArrayLike, y: ArrayLike) -> Array:
        """−ky·σ(m)σ(−m), m = k·yz."""
        margin = self._margin(z, y)
        return -self.steepness * as_float(y) * sigmoid(margin) * sigmoid(-margin)

    def curvature(self, z: ArrayLike, y: ArrayLike) -> Array:
        """(ky)²·σ(m)σ(−m)(σ(m) − σ(−m))."""
        margin, label = self._margin(z, y), as_float(y)
        up, down = sigmoid(margin), sigmoid(-margin)
        return (self.steepness * label) ** 2 * up * down * (up - down)

    def lipschitz(self, domain: Domain) -> float:
        """k/4, at z = 0."""
        check_label_domain("Sigmoid", domain)
        return self.steepness / 4.0

    def smoothness(self, domain: Domain) -> float:
        """k²/(6√3), where e^m = 2 ± √3; less where no score is that large."""
        check_label_domain("Sigmoid", domain)
        margin = min(self.steepness * domain.score_bound, math.log(2.0 + math.sqrt(3.0)))
        up = 1.0 / (1.0 + math.exp(-margin))
        return self.steepness**2 * up * (1.0 - up) * (2.0 * up - 1.0)

    def _margin(self, z: ArrayLike, y: ArrayLike) -> Array:
        with np.errstate(over="ignore"):
            return self.steepness * (as_float(y) * as_float(z))
