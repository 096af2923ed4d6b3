"""Pinball loss, for conditional quantiles, with an optional smooth version."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import InvalidInput
from discreet.losses.base import Array, Domain, Loss, as_float

__all__ = ["Quantile"]


@dataclass(frozen=True)
class Quantile(Loss):
    """Pinball loss at ``level`` τ: (1 − τ)r for r ≥ 0 and −τr for r ≤ 0, with r = z − y (Koenker–Bassett 1978).

    ``width`` h > 0 averages it over residuals within h/2, evenly (Fernandes–Guerre–Horta 2021): the slope becomes
    clip(r/h + ½ − τ, −τ, 1 − τ), so that the loss is 1/h-smooth, lies above the pinball by at most h/8, and keeps its
    Lipschitz constant. Where the density of targets is even over h about the quantile, the minimiser is the same.

    Raises:
        InvalidInput: the level is not strictly between 0 and 1, or the width is negative or not finite.

    Example:
        >>> Quantile(level=0.75).slope([-1.0, 0.0, 1.0], 0.0).tolist()
        [-0.75, 0.0, 0.25]
        >>> Quantile(level=0.75, width=0.5).smoothness(Domain())
        2.0
    """

    level: float = 0.5
    width: float = 0.0

    kind: ClassVar[int] = 5

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise InvalidInput(f"level must lie strictly between 0 and 1, got {self.level}.")
        if not (math.isfinite(self.width) and self.width >= 0):
            raise InvalidInput(f"width must be finite and at least 0, got {self.width}.")

    @property
    def smooth(self) -> bool:
        """Whether a smoothing width was given."""
        return self.width > 0

    @property
    def parameter(self) -> float:
        """The level."""
        return self.level

    @property
    def smoothing(self) -> float:
        """The width of the smoothed band."""
        return self.width

    def value(self, z: ArrayLike, y: ArrayLike) -> Array:
        """s·r − h(s − ½ + τ)²/2 + h/8 with s the slope, which is the pinball itself for h = 0."""
        with np.errstate(over="ignore"):
            residual = as_float(z) - as_float(y)
            slope = self._slope(residual)
            return slope * residual + 0.5 * self.width * (0.25 - (slope - 0.5 + self.level) ** 2)

    def slope(self, z: ArrayLike, y: ArrayLike) -> Array:
        """−τ below the target, 1 − τ above, 0 at it; clip(r/h + ½ − τ, −τ, 1 − τ) when smoothed."""
        with np.errstate(over="ignore"):
            return self._slope(as_float(z) - as_float(y))

    def curvature(self, z: ArrayLike, y: ArrayLike) -> Array:
        """1/h inside the band |r| < h/2, 0 outside (and everywhere when not smoothed)."""
        with np.errstate(over="ignore"):
            residual = as_float(z) - as_float(y)
        if not self.smooth:
            return np.zeros_like(residual)
        inside = np.abs(residual) < 0.5 * self.width
        return np.where(inside, 1.0 / self.width, 0.0)

    def lipschitz(self, domain: Domain) -> float:
        """max(τ, 1 − τ), or less where a bounded domain cannot leave the smoothed band."""
        lowest = -domain.score_bound - domain.target_high
        highest = domain.score_bound - domain.target_low
        below, above = self._slope(np.asarray([lowest, highest]))
        return float(max(abs(below), abs(above)))

    def smoothness(self, domain: Domain) -> float:
        """1/h; inf when not smoothed."""
        return 1.0 / self.width if self.smooth else math.inf

    def _slope(self, residual: Array) -> Array:
        if self.smooth:
            with np.errstate(over="ignore"):  # a tiny width
                return np.clip(residual / self.width + (0.5 - self.level), -self.level, 1.0 - self.level)
        return np.where(residual > 0, 1.0 - self.level, np.where(residual < 0, -self.level, 0.0))
