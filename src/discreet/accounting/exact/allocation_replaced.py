"""Random allocation when a row is replaced: (1/t)Σᵢ N(νeᵢ, I) against (1/t)Σᵢ N(−νeᵢ, I).

δ(ε) = E(Σᵢ Wᵢ)₊/t with independent Wᵢ = Uᵢ − e^ε·Vᵢ, U = e^{νz−ν²/2}, V = e^{−νz−ν²/2}, z ~ N(0, 1): for each ε the
positive part of one sum of equal terms, which `mean_positive_part` bounds from both sides. δ is convex in α = e^ε, so
chords between some ε lie above it; from below, lines through two of its values hold beyond them, and their convex hull
is the profile of a pair that is dominated (docs/maths/accounting.md, *Random allocation*).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.exact.allocation import RatioLaw
from discreet.accounting.exact.normal import bin_error, normal_bins
from discreet.floats import UNIT_ROUNDOFF

__all__ = ["LARGEST_REPLACED", "ReplacedProfile", "replaced_profile"]

Array = NDArray[Any]
LARGEST_REPLACED = 4.0
"""ν up to which the profile is computed: its terms end some deviations from 0, which for larger ν is too few."""
_ABOVE, _BELOW = 0.03, 0.02
"""Widths of a bin over the spread of the sum, for bounds from above, with which noise is searched for, and from below:
bounds of δ differ by some per cent, of ε by a tenth of that."""
_LOWEST, _HIGHEST = -6.0, 13.0
"""Deviations at which a term's law ends, the upper from ν on. Beyond them terms count as the last, or are charged."""
_LEAST = 1e-20
"""δ at which the profile ends: what is left of it counts as failure."""
_FALL, _FAR_FALL, _FAR = 0.25, 0.75, 1e-12
"""By how much log δ falls from one ε to the next, where δ is above and below the third."""
_MOST_NODES, _FARTHEST = 400, 300.0
"""Of ε: at most so many, and none far beyond this one."""


@dataclass(frozen=True, eq=False)
class ReplacedProfile:
    """Bounds of δ at increasing ε ≥ 0."""

    shift: float
    batches: int
    epsilons: Array
    upper: Array

    @cached_property
    def lower(self) -> Array:
        """Bounds of δ from below, at the same ε."""
        return np.array([_delta(self.shift, self.batches, float(e), -1) for e in self.epsilons])

    def bound(self, epsilon: Array) -> Array:
        """An upper bound at every ε ≥ 0: chords in e^ε, and beyond the last ε its value."""
        at = np.exp(np.minimum(np.asarray(epsilon, dtype=float), 700.0))
        return np.interp(at, np.exp(self.epsilons), self.upper) * (1 + 64 * UNIT_ROUNDOFF)

    def dominated(self) -> RatioLaw:
        """A pair that the release dominates."""
        alpha, lower, upper = self._both_sides()
        lower = np.maximum(lower * (1 - 1e-9), 1 - alpha)  # more than the rounding of slopes below
        hull = _lower_hull(*_below(alpha, lower, upper))
        slopes = np.append(np.diff(hull[1]) / np.diff(hull[0]), 0.0)
        masses = np.diff(slopes)
        places = hull[0][1:]
        known = masses > 0
        return RatioLaw(np.log(places[known]), places[known] * masses[known] * (1 - 1e-12))

    def _both_sides(self) -> tuple[Array, Array, Array]:
        """α and the bounds there, below 1 too: E_α(P‖Q) = 1 − α + αE_{1/α}(Q‖P), and neighbours may be swapped."""
        alpha = np.exp(self.epsilons)
        mirrored = 1 / alpha[:0:-1]
        found = [np.concatenate([1 - mirrored + mirrored * value[:0:-1], value]) for value in (self.lower, self.upper)]
        return np.concatenate([mirrored, alpha]), found[0], found[1]


def _below(alpha: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Vertices of a function below every convex function that starts at 1 with slope −1 or more, is not negative, and
    lies between the bounds.

    Between two points the function is above the line through the two points before, continued, and above that through
    the two after; their slopes are bounded by the lower value at the nearer point and the upper one at the further.
    """
    steps = np.diff(alpha)
    before = np.maximum(np.append(-1.0, (lower[1:] - upper[:-1]) / steps), -1.0)  # from α_j on
    after = np.append(np.minimum((upper[1:] - lower[:-1]) / steps, 0.0), 0.0)  # down from α_j
    left, right = before[:-1], after[1:]
    # where the line from the left end meets the line from the right end
    ahead = np.clip((lower[1:] - lower[:-1] - right * steps) / np.minimum(left - right, -1e-300), 0.0, steps)
    value = np.maximum(lower[:-1] + left * ahead, lower[1:] + right * (ahead - steps))
    first = np.clip((1 - lower[0] + after[0] * alpha[0]) / max(1 + after[0], 1e-300), 0.0, alpha[0])
    x = np.concatenate([[0.0, first], alpha, alpha[:-1] + ahead, [alpha[-1]]])
    y = np.concatenate([[1.0, 1 - first], lower, np.minimum(value, np.maximum(lower[:-1], lower[1:])), [0.0]])
    order = np.lexsort((y, x))
    return x[order], y[order]


def _lower_hull(x: Array, y: Array) -> tuple[Array, Array]:
    """The lower convex hull of points in the order of x."""
    kept: list[tuple[float, float]] = []
    for point in zip(x.tolist(), y.tolist(), strict=True):
        if kept and point[0] == kept[-1][0]:
            continue
        while len(kept) > 1:
            (x0, y0), (x1, y1) = kept[-2:]
            if (y1 - y0) * (point[0] - x0) < (point[1] - y0) * (x1 - x0):
                break
            kept.pop()
        kept.append(point)
    return np.array([p[0] for p in kept]), np.array([p[1] for p in kept])


@lru_cache(maxsize=32)
def replaced_profile(shift: float, batches: int) -> ReplacedProfile:
    """Bounds of δ at ε from 0 to where it is negligible, as far apart as chords allow.

    Args:
        shift: ν, by how many deviations a row moves the sum of its batch.
        batches: t, at least 2.
    """
    first = _delta(shift, batches, 0.0, 1)
    epsilons, found = [0.0], [first]
    step = 0.25 * first
    while found[-1] > _LEAST and len(found) < _MOST_NODES and epsilons[-1] < _FARTHEST:
        epsilons.append(epsilons[-1] + step)
        found.append(min(_delta(shift, batches, epsilons[-1], 1), found[-1]))
        rate = math.log(max(found[-2] / max(found[-1], 1e-300), 1 + 1e-9)) / step
        step = min(1.5 * step, (_FALL if found[-1] > _FAR else _FAR_FALL) / rate)
        if found[-1] > 1e-3 * first:
            step = min(step, 0.5 * first * max(1.0, 2 * shift - 1))
    return ReplacedProfile(shift, batches, np.array(epsilons), np.array(found))


def _delta(nu: float, batches: int, epsilon: float, side: int) -> float:
    """A bound of δ(ε), from above (side 1) or from below (−1).

    The masses of a cell of z under N(0), N(ν) and N(−ν) are off by β, its ends by some units. All that moves U and V by
    factors of at most e^{±32κ}, κ = 2β and those units: with α·e^{∓64κ} in place of α the sum is moved to either side.
    """
    from discreet.accounting.exact.signed_sums import mean_positive_part, signed_grid

    width = _ABOVE if side > 0 else _BELOW
    ends, (q, u, v), kappa = _cells(nu, width)
    alpha = math.exp(epsilon - side * 64 * kappa)
    if side > 0:
        values = np.exp(nu * ends - nu * nu / 2) - alpha * np.exp(-nu * ends - nu * nu / 2)
        inner = slice(1, -1)
        mean = np.clip((u[inner] - alpha * v[inner]) / q[inner], values[:-1], values[1:])
        share = (mean - values[:-1]) / np.diff(values)
        masses = np.zeros(len(values))
        masses[:-1] += q[inner] * (1 - share)
        masses[1:] += q[inner] * share
        masses[0] += q[0]  # what lies below the first end is moved up to it
        failure = float(u[-1]) * (1 + kappa)  # E(U; beyond the last end), t terms of 1/t
    else:
        values = np.maximum.accumulate((u[1:] - alpha * v[1:]) / q[1:])  # what lies below the first end is left out
        masses, failure = q[1:], 0.0

    def grid(a: tuple[Array, Array], b: tuple[Array, Array]) -> Array:
        (middle, here), (other, there) = _location(*a), _location(*b)
        low, high = float(a[0][0] + b[0][0]), float(a[0][-1] + b[0][-1])
        steep = min(width * nu, 0.1)
        points = signed_grid(middle + other, math.hypot(here, there), width, steep, nu, alpha, low, high)
        if middle + other >= 0 or _near_zero(*a) * _near_zero(*b) < _LEAST * 1e-3:
            return points
        near = -(middle + other) * np.exp(-np.arange(0.0, 30.0, max(4 * steep, 0.05)))
        near = near[near > 1e-3]
        inside = np.concatenate([near, -near, [0.0]])
        inside = inside[(inside > points[0]) & (inside < points[-1])]
        return np.unique(np.concatenate([points, inside]))

    found = mean_positive_part((values, masses), batches, grid, side, kappa)
    return min(max(found / batches * (1 + side * (32 * kappa + 8 * UNIT_ROUNDOFF)) + failure, 0.0), 1.0)


@lru_cache(maxsize=8)
def _cells(nu: float, width: float) -> tuple[Array, tuple[Array, Array, Array], float]:
    """Ends of cells of z, their masses under N(0), N(ν) and N(−ν), and κ."""
    ends = np.concatenate(
        [np.arange(_LOWEST, -5, 4 * width), np.arange(-5, 6, width), np.arange(6, _HIGHEST + nu, 4 * width)]
    )
    reach = float(np.abs(ends).max()) + nu
    rounded = 4 * UNIT_ROUNDOFF * reach
    beta = bin_error(reach) + 8 * rounded / float(np.diff(ends).min()) + 8 * rounded * reach
    kappa = 2 * beta + UNIT_ROUNDOFF * (16 * nu * (reach + nu) + 16)
    return ends, (normal_bins(ends), normal_bins(ends - nu), normal_bins(ends + nu)), kappa


def _near_zero(points: Array, masses: Array) -> float:
    """The probability of being far closer to 0 than the median is: where it matters, grids are fine around 0."""
    middle = _location(points, masses)[0]
    return float(masses[np.searchsorted(points, min(middle / 8, 0.0)) :].sum())


def _location(points: Array, masses: Array) -> tuple[float, float]:
    """The median, and half the distance of the quantiles one standard deviation from it in a normal law."""
    levels = np.cumsum(masses)
    places = np.searchsorted(levels, np.array([0.16, 0.5, 0.84]) * levels[-1]).clip(max=len(levels) - 1)
    low, middle, high = points[places]
    return float(middle), float(max(high - low, 1e-9 * abs(middle), 1e-300)) / 2
