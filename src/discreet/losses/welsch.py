"""Welsch loss (correntropy): quadratic near the target, flat far from it. Not convex."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.losses.base import Array, Domain, Loss, as_float, check_positive

__all__ = ["Welsch"]


@dataclass(frozen=True)
class Welsch(Loss):
    """Robust regression: ℓ = (w²/2)(1 − exp(−(r/w)²)), r = z − y, w the ``width`` (Dennis and Welsch 1978).

    Minus it, up to constants, is the correntropy of residuals. A residual far beyond w has almost no slope, so that
    outliers are ignored, where `Huber` still lets each of them pull with its full weight. The price is that ℓ is not
    convex: descent finds a stationary point.

    Raises:
        InvalidInput: the width is not positive and finite.

    Example:
        >>> Welsch(width=0.5).slope([0.0, 0.1, 9.0], 0.0).round(6).tolist()
        [0.0, 0.096079, 0.0]
    """

    width: float = 1.0

    kind: ClassVar[int] = 7
    convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_positive("width", self.width)

    @property
    def parameter(self) -> float:
        """The width."""
        return self.width

    def value(self, z: ArrayLike, y: ArrayLike) -> Array:
        """(w²/2)(1 − exp(−(r/w)²))."""
        return -0.5 * self.width**2 * np.expm1(-_squared(z, y, self.width))

    def slope(self, z: ArrayLike, y: ArrayLike) -> Array:
        """r·exp(−(r/w)²)."""
        with np.errstate(over="ignore", invalid="ignore"):
            weight = np.exp(-_squared(z, y, self.width))
            return np.where(weight > 0, (as_float(z) - as_float(y)) * weight, 0.0)  # 0 also where r overflows

    def curvature(self, z: ArrayLike, y: ArrayLike) -> Array:
        """(1 − 2(r/w)²)·exp(−(r/w)²)."""
        square = _squared(z, y, self.width)
        with np.errstate(over="ignore", invalid="ignore"):
            weight = np.exp(-square)
            return np.where(weight > 0, (1.0 - 2.0 * square) * weight, 0.0)

    def lipschitz(self, domain: Domain) -> float:
        """w·e^(−1/2)/√2, at r = w/√2; less where no residual is that large."""
        top = min(domain.largest_residual, self.width / math.sqrt(2.0))
        return top * math.exp(-((top / self.width) ** 2))

    def smoothness(self, domain: Domain) -> float:
        """1, at r = 0; the most negative curvature is −2e^(−3/2) = −0.446."""
        return 1.0


def _squared(z: ArrayLike, y: ArrayLike, width: float) -> Array:
    """(r/w)², infinite where it overflows."""
    with np.errstate(over="ignore"):
        ratio = (as_float(z) - as_float(y)) / width
        return ratio * ratio
