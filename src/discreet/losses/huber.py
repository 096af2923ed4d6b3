"""Huber loss: quadratic near the target, linear beyond."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.losses.base import Array, Domain, Loss, as_float, check_positive

__all__ = ["Huber"]


@dataclass(frozen=True)
class Huber(Loss):
    """Robust regression: r²/2 for |r| ≤ w and w(|r| − w/2) beyond, with r = z − y and w the ``width`` (Huber 1964).

    It is the squared loss with its slope clipped to [−w, w], hence w-Lipschitz whatever the scores.

    Raises:
        InvalidInput: the width is not positive and finite.

    Example:
        >>> Huber(width=0.5).slope([0.0, 0.2, 9.0], 0.0).tolist()
        [0.0, 0.2, 0.5]
    """

    width: float = 1.0

    kind: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_positive("width", self.width)

    @property
    def parameter(self) -> float:
        """The width."""
        return self.width

    def value(self, z: ArrayLike, y: ArrayLike) -> Array:
        """r²/2 inside the width, w(|r| − w/2) outside: written as w' (|r| − w'/2) with w' = min(|r|, w)."""
        with np.errstate(over="ignore"):
            size = np.abs(as_float(z) - as_float(y))
            inner = np.minimum(size, self.width)
            return inner * (size - 0.5 * inner)

    def slope(self, z: ArrayLike, y: ArrayLike) -> Array:
        """The residual clipped to [−w, w]."""
        with np.errstate(over="ignore"):
            return np.clip(as_float(z) - as_float(y), -self.width, self.width)

    def curvature(self, z: ArrayLike, y: ArrayLike) -> Array:
        """1 inside the width, 0 outside."""
        with np.errstate(over="ignore"):
            residual = as_float(z) - as_float(y)
            return (np.abs(residual) < self.width).astype(residual.dtype)

    def lipschitz(self, domain: Domain) -> float:
        """min(w, largest residual)."""
        return min(self.width, domain.largest_residual)

    def smoothness(self, domain: Domain) -> float:
        """1."""
        return 1.0
