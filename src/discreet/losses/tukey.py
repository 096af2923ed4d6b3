"""Tukey's biweight loss: quadratic near the target, constant beyond the width. Not convex."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.losses.base import Array, Domain, Loss, as_float, check_positive

__all__ = ["Tukey"]


@dataclass(frozen=True)
class Tukey(Loss):
    """Robust regression: ℓ = (w²/6)(1 − (1 − (r/w)²)³) for |r| ≤ w and w²/6 beyond (Beaton and Tukey 1974).

    Residuals beyond the ``width`` w have no slope at all, so that outliers do not count. ℓ is not convex: descent finds
    a stationary point.

    Raises:
        InvalidInput: the width is not positive and finite.

    Example:
        >>> Tukey(width=0.5).slope([0.0, 0.1, 9.0], 0.0).round(6).tolist()
        [0.0, 0.09216, 0.0]
    """

    width: float = 1.0

    kind: ClassVar[int] = 8
    convex: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_positive("width", self.width)

    @property
    def parameter(self) -> float:
        """The width."""
        return self.width

    def value(self, z: ArrayLike, y: ArrayLike) -> Array:
        """(w²/6)(1 − (1 − u²)³) with u = r/w cut at ±1, written as (w²/6)·u²(3 − 3u² + u⁴): nothing cancels near 0."""
        square = _ratio(z, y, self.width) ** 2
        return self.width**2 / 6.0 * square * (3.0 - 3.0 * square + square * square)

    def slope(self, z: ArrayLike, y: ArrayLike) -> Array:
        """r(1 − (r/w)²)² inside the width, 0 outside."""
        ratio = _ratio(z, y, self.width)
        return self.width * ratio * (1.0 - ratio * ratio) ** 2

    def curvature(self, z: ArrayLike, y: ArrayLike) -> Array:
        """(1 − u²)(1 − 5u²), u = r/w cut at ±1."""
        square = _ratio(z, y, self.width) ** 2
        return (1.0 - square) * (1.0 - 5.0 * square)

    def lipschitz(self, domain: Domain) -> float:
        """16w/(25√5), at r = w/√5; less where no residual is that large."""
        top = min(domain.largest_residual / self.width, 1.0 / math.sqrt(5.0))
        return self.width * top * (1.0 - top * top) ** 2

    def smoothness(self, domain: Domain) -> float:
        """1, at r = 0; the most negative curvature is −0.8, at r = w√(3/5)."""
        return 1.0


def _ratio(z: ArrayLike, y: ArrayLike, width: float) -> Array:
    """r/w cut at ±1."""
    with np.errstate(over="ignore"):
        return np.clip((as_float(z) - as_float(y)) / width, -1.0, 1.0)
