"""Smoothed hinge loss, for support vector machines with a Lipschitz gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.losses.base import Array, Domain, Loss, as_float, check_label_domain, check_positive

__all__ = ["SmoothedHinge"]


@dataclass(frozen=True)
class SmoothedHinge(Loss):
    """The hinge max(0, 1 − m) of the margin m = yz, y ∈ {−1, +1}, with its corner rounded over a band of ``width`` h.

    With u = 1 − m the loss is 0 for u ≤ 0, u²/(2h) for 0 ≤ u ≤ h, u − h/2 for u ≥ h: the Moreau envelope of the hinge,
    below it by at most h/2.

    Raises:
        InvalidInput: the width is not positive and finite.

    Example:
        >>> SmoothedHinge(width=0.5).slope([-3.0, 0.75, 2.0], 1.0).tolist()
        [-1.0, -0.5, -0.0]
    """

    width: float = 1.0

    kind: ClassVar[int] = 3
    slope_sign_fixed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive("width", self.width)

    @property
    def parameter(self) -> float:
        """The width."""
        return self.width

    def value(self, z: ArrayLike, y: ArrayLike) -> Array:
        """u²/(2h) in the band, u − h/2 beyond it: written as u'(u − u'/2)/h with u' = u clipped to [0, h]."""
        with np.errstate(over="ignore"):
            shortfall = np.maximum(1.0 - as_float(y) * as_float(z), 0.0)
            inner = np.minimum(shortfall, self.width)
            return (inner / self.width) * (shortfall - 0.5 * inner)

    def slope(self, z: ArrayLike, y: ArrayLike) -> Array:
        """−y·clip(u/h, 0, 1)."""
        label = as_float(y)
        with np.errstate(over="ignore"):
            return -label * np.clip((1.0 - label * as_float(z)) / self.width, 0.0, 1.0)

    def curvature(self, z: ArrayLike, y: ArrayLike) -> Array:
        """y²/h inside the band, 0 outside."""
        label = as_float(y)
        shortfall = 1.0 - label * as_float(z)
        return np.where((shortfall > 0) & (shortfall < self.width), label * label / self.width, 0.0)

    def lipschitz(self, domain: Domain) -> float:
        """min(1, (1 + B)/h)."""
        check_label_domain("SmoothedHinge", domain)
        return min(1.0, (1.0 + domain.score_bound) / self.width)

    def smoothness(self, domain: Domain) -> float:
        """1/h, or 0 where |z| ≤ B never reaches the band 1 − h < yz < 1."""
        check_label_domain("SmoothedHinge", domain)
        return 1.0 / self.width if domain.score_bound > 1.0 - self.width else 0.0
