"""Where the saddle point of a run of privacy losses lies: its cumulants on a map of real orders.

Nothing here proves anything. The contour and the Fourier accountant look where it says, and bound every error of what
they do there; a poor map costs them time or width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.errors import NotCertifiable

__all__ = ["Cumulants", "Moments", "log_kappa"]

Array = NDArray[Any]
_ORDERS = np.exp(np.arange(-16.0, 30.0, 0.7))


class Moments(Protocol):
    """A privacy loss that knows its moments, at least roughly."""

    def log_moments(self, cs: Array) -> Array:
        """log E e^{cL}; inf where unknown."""


def log_kappa(c: float | Array) -> Array:
    """log max_x e^{−cx}(1 − e^{−x}) = c log c − (c + 1) log(c + 1), so that δ(ε) ≤ κ(c)e^{K(c) − cε}."""
    c = np.asarray(c)
    return -c * np.log1p(1 / c) - np.log1p(c)


class Cumulants:
    """K(c) = Σ n_i log E e^{cL_i} of a run of independent privacy losses, in plain floating point."""

    def __init__(self, parts: Sequence[tuple[Moments, int]]) -> None:
        self.parts = list(parts)
        self._map: tuple[Array, Array] | None = None
        self._below: tuple[Array, Array] | None = None

    def known(self) -> tuple[Array, Array]:
        """The c and K(c) seen so far: first on a grid wide enough for every ε and δ, then finer where asked."""
        if self._map is None:
            cs = _ORDERS
            moments = self.log_moments(cs)
            usable = np.isfinite(moments) & (moments < 1e8)
            if not usable.any():
                raise NotCertifiable("no moment of the privacy loss could be computed")
            cs, moments = cs[usable], moments[usable]
            keep = max(int(np.searchsorted(moments, 1e-3)) - 2, 0)
            keep = min(keep, len(cs) - 2) if len(cs) > 2 else 0
            self._map = cs[keep:], moments[keep:]
            if len(self._map[0]) < 3:
                self._refine(0)
        return self._map

    def negative(self) -> tuple[Array, Array]:
        """Some c < 0, rising, and their K(c)."""
        if self._below is None:
            cs = self.known()[0]
            orders = -cs[cs < 5][::-1]
            self._below = orders, self.log_moments(orders)
        return self._below

    def log_moments(self, cs: Array) -> Array:
        """K(c) at the given orders; inf where unknown."""
        total = np.zeros(len(cs))
        for part, count in self.parts:
            total += count * part.log_moments(cs)
        return total

    def _refine(self, j: int) -> None:
        """Add orders around the j-th."""
        assert self._map is not None
        cs, moments = self._map
        last = math.log(cs[j + 2]) if j + 2 < len(cs) else math.log(cs[-1]) + 0.6
        extra = np.exp(np.linspace(math.log(cs[max(j - 2, 0)]), last, 37)[1:-1])
        found = self.log_moments(extra)
        usable = np.isfinite(found) & (found < 1e8)
        cs, moments = np.concatenate([cs, extra[usable]]), np.concatenate([moments, found[usable]])
        order = cs.argsort(kind="stable")
        order = order[np.diff(cs[order], prepend=0.0) > 0]
        cs = cs[order]
        self._map = cs, moments[order]
        if len(cs) < 3:
            raise NotCertifiable("too few moments of the privacy loss could be computed")

    def saddle(self, epsilon: float) -> tuple[float, float, float]:
        """c near the least of K(c) − cε − log c(c + 1); the approximate log δ there; the second derivative."""
        cs, moments = self.known()
        height = moments - cs * epsilon - np.log(cs) - np.log1p(cs)
        j = int(np.clip(np.argmin(height), 1, len(cs) - 2))
        left, right = cs[j] - cs[j - 1], cs[j + 1] - cs[j]
        rise, fall = (height[j + 1] - height[j]) / right, (height[j] - height[j - 1]) / left
        curvature = max(2 * (rise - fall) / (left + right), 1e-300)
        return float(cs[j]), float(height[j] - 0.5 * math.log(2 * math.pi * curvature)), float(curvature)

    def refine_near_saddle(self, epsilon: float) -> None:
        """Make the map fine around the saddle point for ε."""
        cs, moments = self.known()
        j = int(np.argmin(moments - cs * epsilon - np.log(cs) - np.log1p(cs)))
        if cs[min(j + 1, len(cs) - 1)] > cs[max(j - 1, 0)] * 1.5 or j >= len(cs) - 2:
            self._refine(j)

    def guess(self, delta: float) -> float:
        """ε(δ) by the saddle point approximation; far off where one rare loss outweighs all others."""
        cs, moments = self.known()
        target = math.log(delta)
        epsilon = max(0.0, float(np.min((moments - target + log_kappa(cs)) / cs)))
        self.refine_near_saddle(epsilon)
        cs, moments = self.known()
        epsilon = max(0.0, float(np.min((moments - target + log_kappa(cs)) / cs)))
        for _ in range(8):
            c, value, _ = self.saddle(epsilon)
            step = (value - target) / c
            epsilon = max(0.0, epsilon + step)
            if abs(step) < 1e-3 * epsilon:
                break
        return epsilon
