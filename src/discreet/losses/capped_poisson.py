"""Poisson regression of counts that are capped: bounded slopes, and still right about the mean of the whole count."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import InvalidInput
from discreet.losses.base import Array, Domain, Loss, as_float

__all__ = ["MOST_COUNT", "CappedPoisson"]

MOST_COUNT = 256
"""The largest cap: e^`_HIGHEST` is far above it, so that beyond that score the capped mean is the cap."""

_HIGHEST, _LOWEST = 7.0, -40.0
_PIECES, _NODES = 24, 16  # of the Gauss–Legendre rule for values, which are good to 1e-10


@dataclass(frozen=True)
class CappedPoisson(Loss):
    """Counts with mean e^z of which min(y, K) is seen, K the ``cap``: slope (E_z min(Y, K) − min(y, K))/κ, Y Poisson.

    The expected slope is 0 where e^z is the mean of a Poisson count, whatever K is; the slope is increasing in z, with
    derivative e^z·P(Y < K)/κ, and at most K/κ in size. κ, the largest of e^z·P(Y < K), makes the largest curvature 1.

    Raises:
        InvalidInput: the cap is not a whole number from 1 to 256.

    Example:
        >>> loss = CappedPoisson(4)
        >>> loss.smoothness(Domain()), round(loss.lipschitz(Domain(target_low=0.0, target_high=9.0)), 3)
        (1.0, 2.059)
    """

    cap: int = 4

    kind: ClassVar[int] = 10

    def __post_init__(self) -> None:
        if not (isinstance(self.cap, int | np.integer) and 1 <= self.cap <= MOST_COUNT):
            raise InvalidInput(f"the cap of counts must be a whole number from 1 to {MOST_COUNT}, got {self.cap!r}.")

    @property
    def largest_curvature(self) -> float:
        """κ = max over μ of μ·P(Y < K) for Poisson counts Y of mean μ."""
        return _peak(int(self.cap))[1]

    @property
    def parameter(self) -> float:
        """The cap."""
        return float(self.cap)

    @property
    def smoothing(self) -> float:
        """κ."""
        return self.largest_curvature

    @property
    def slope_rounding(self) -> float:
        """K terms of at most K, each a product of up to K roundings, and two exponentials."""
        return 4 * self.cap / self.largest_curvature * (2 * self.cap + 16)

    def value(self, z: ArrayLike, y: ArrayLike) -> Array:
        """The slope's integral from z = 0."""
        score, target = as_float(z), self._capped(y)
        inside = np.clip(score, _LOWEST, _HIGHEST)
        nodes, weights = np.polynomial.legendre.leggauss(_NODES)
        places = ((np.arange(_PIECES)[:, None] + (nodes + 1) / 2) / _PIECES).ravel()
        at = np.multiply.outer(inside, places)
        whole = inside * (self._mean(at) @ (np.tile(weights, _PIECES) / (2 * _PIECES)))
        with np.errstate(over="ignore"):
            beyond = self.cap * np.maximum(score / self.largest_curvature - _HIGHEST / self.largest_curvature, 0.0)
            whole = whole / self.largest_curvature
            return np.asarray(np.where(np.isfinite(beyond), whole + beyond, 0.0) - self._linear(score, target, beyond))

    def _linear(self, score: Array, target: Array, beyond: Array) -> Array:
        """target·score, less what an infinite integral outweighs."""
        share = target / self.largest_curvature
        return np.where(np.isfinite(beyond), share * score, -(self.cap / self.largest_curvature - share) * score)

    def slope(self, z: ArrayLike, y: ArrayLike) -> Array:
        """(E_z min(Y, K) − min(y, K))/κ."""
        return np.asarray((self._mean(as_float(z)) - self._capped(y)) / self.largest_curvature)

    def curvature(self, z: ArrayLike, y: ArrayLike) -> Array:
        """e^z·P(Y < K)/κ."""
        score = np.broadcast_to(as_float(z), np.broadcast_shapes(np.shape(z), np.shape(y)))
        found = _curvature(score, int(self.cap)) / self.largest_curvature
        return np.asarray(np.where(score > _HIGHEST, 0.0, np.minimum(found, 1.0)))

    def lipschitz(self, domain: Domain) -> float:
        """The larger of the two ends: K/κ without a bound on scores."""
        low, high = self._capped([domain.target_low, domain.target_high])
        least, most = self._mean(np.array([-domain.score_bound, domain.score_bound]))
        return float(max(most - low, high - least)) / self.largest_curvature

    def smoothness(self, domain: Domain) -> float:
        """1, or less where no score reaches the largest curvature, which has but one peak."""
        peak, largest = _peak(int(self.cap))
        if abs(peak) <= domain.score_bound:
            return 1.0
        edge = math.copysign(domain.score_bound, peak)
        return float(_curvature(np.array([edge]), int(self.cap))[0]) / largest

    def mean(self, z: ArrayLike) -> Array:
        """exp(z)."""
        with np.errstate(over="ignore"):
            return np.exp(as_float(z))

    def _capped(self, y: ArrayLike) -> Array:
        return np.clip(as_float(y), 0.0, self.cap)

    def _mean(self, score: Array) -> Array:
        """E min(Y, K) = K − Σ_{j<K}(K − j)·P(Y = j) for Poisson counts of mean e^z."""
        mean = np.exp(np.clip(score, -700.0, _HIGHEST))
        term, total = np.exp(-mean), np.zeros_like(mean)
        for j in range(self.cap):
            total += (self.cap - j) * term
            term = term * (mean / (j + 1))
        return np.asarray(np.maximum(self.cap - total, 0.0))


def _curvature(score: Array, cap: int) -> Array:
    """μ·P(Y < K) at μ = e^z."""
    mean = np.exp(np.clip(score, -700.0, _HIGHEST))
    term, total = np.exp(-mean), np.zeros_like(mean)
    for j in range(cap):
        total += term
        term = term * (mean / (j + 1))
    return np.asarray(mean * total)


@lru_cache(maxsize=MOST_COUNT)
def _peak(cap: int) -> tuple[float, float]:
    """(the score of the largest curvature, that curvature, rounded up).

    μ·P(Y < K) is stationary where P(Y < K) = μ·P(Y = K − 1), that is where Σ_{j<K} (K − 1)!/j!·μ^(j−K) = 1: the left
    side falls in μ, so there is one root, the maximum.
    """
    from scipy.optimize import brentq
    from scipy.special import gammaln

    j = np.arange(cap)

    def excess(score: float) -> float:
        return float(np.logaddexp.reduce(gammaln(cap) - gammaln(j + 1) + (j - cap) * score))

    peak = float(brentq(excess, -1.0, _HIGHEST, xtol=1e-12))
    return peak, float(_curvature(np.array([peak]), cap)[0]) * (1 + 1e-9)
