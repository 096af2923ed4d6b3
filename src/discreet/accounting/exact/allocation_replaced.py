"""Random allocation when a row is replaced: (1/t)Σᵢ N(νeᵢ, I) against (1/t)Σᵢ N(−νeᵢ, I).

δ(ε) = E(Σᵢ Wᵢ)₊/t with independent Wᵢ = Uᵢ − e^ε·Vᵢ, U = e^{νz−ν²/2}, V = e^{−νz−ν²/2}, z ~ N(0, 1): for each ε the
positive part of one sum of equal terms, which `mean_positive_part` bounds from both sides. δ is convex in α = e^ε, so
chords between some ε lie above it; from below, lines through two of its values hold beyond them, and their convex hull
is the profile of a pair that is dominated (docs/maths/accounting.md, *Random allocation*).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.exact import gaussian
from discreet.accounting.exact.allocation import RatioLaw
from discreet.accounting.exact.normal import bin_error, normal_bins
from discreet.accounting.exact.pairs import ProfilePair, symmetric
from discreet.accounting.exact.sampling import Deferred
from discreet.floats import UNIT_ROUNDOFF

if TYPE_CHECKING:
    from discreet.accounting.exact.signed_sums import Law

__all__ = ["LARGEST_REPLACED", "ReplacedProfile", "replaced_pair"]

Array = NDArray[Any]
LARGEST_REPLACED = 4.0
"""ν up to which the profile is computed: its terms end some deviations from 0, which for larger ν is too few."""
_LOWEST, _HIGHEST = -6.0, 13.0
"""Deviations at which a term's law ends, the upper from ν on. Beyond them terms count as the last, or are charged."""
_LEAST = 1e-20
"""δ at which the profile ends at the latest: what is left of it counts as failure."""
_ROUGH = 0.15
"""Width of the cells of rough laws over the spread of the sum, or over the distance from its bulk."""
_FARTHEST = 300.0
"""Beyond this ε there are no values of the profile."""


@dataclass(frozen=True)
class _Fineness:
    """How many points the law of a partial sum has beside those of its rough law, and by how much log δ falls from one
    ε of the profile to the next, where δ is above and below ``far``.

    With n points bounds of δ differ by some (10/n)²; the chords between two values are above δ by an eighth of
    (fall)² of it, and the lines below as much below, or thrice. Of ε it is a tenth of that.
    """

    points: int
    fall: float
    far_fall: float
    far: float = 1e-12


_COARSE, _FINE, _FINEST = _Fineness(40, 0.8, 2.0), _Fineness(120, 0.15, 0.75), _Fineness(300, 0.15, 0.75)


class ReplacedProfile:
    """Bounds of δ(ε): at single ε, and at increasing ones from 0 on as far as they have been asked for."""

    def __init__(self, shift: float, batches: int, fineness: _Fineness) -> None:
        self.shift = shift
        self.batches = batches
        self.fineness = fineness
        self._nodes: tuple[tuple[float, float], ...] = ()
        self._lower: dict[float, float] = {}

    def reach(self, log_tail: float) -> float:
        """An ε beyond which δ is below e^log_tail times a million, up to which values are found.

        The tail that accountants cut off is a fraction of 1e-10 of δ, which these bounds do not deserve: 1e-4 of it
        moves ε by less than their own error.
        """
        least = max(_LEAST, math.exp(min(log_tail + math.log(1e6), math.log(1e-3))))
        nodes = list(self._nodes) or [(0.0, self._at(0.0, 1))]
        first = nodes[0][1]
        step = 0.25 * first if len(nodes) < 2 else self._step(nodes, nodes[-1][0] - nodes[-2][0])
        while nodes[-1][1] > least and nodes[-1][0] < _FARTHEST:
            epsilon = nodes[-1][0] + step
            nodes.append((epsilon, min(self._at(epsilon, 1), nodes[-1][1])))
            step = self._step(nodes, step)
        self._nodes = max(self._nodes, tuple(nodes), key=len)
        return self._nodes[-1][0]

    def _step(self, nodes: list[tuple[float, float]], step: float) -> float:
        """The distance to the next ε: not where δ is far smaller, nor much longer than the last one."""
        first, before, last = nodes[0][1], nodes[-2][1], nodes[-1][1]
        rate = math.log(max(before / max(last, 1e-300), 1 + 1e-9)) / step
        fine = self.fineness
        step = min(1.5 * step, (fine.fall if last > fine.far else fine.far_fall) / rate)
        return min(step, 2 * fine.fall * first * max(1.0, 2 * self.shift - 1)) if last > 1e-3 * first else step

    def _at(self, epsilon: float, side: int) -> float:
        return _delta(self.shift, self.batches, epsilon, side, self.fineness.points)

    def _known(self) -> tuple[Array, Array]:
        """The ε that were asked, and bounds of δ from above there."""
        if not self._nodes:
            self.reach(-math.inf)
        found = np.array(self._nodes)
        return found[:, 0], found[:, 1]

    def bound(self, epsilon: Array) -> Array:
        """An upper bound at every ε ≥ 0: chords in e^ε, and beyond the last ε its value."""
        epsilons, upper = self._known()
        at = np.exp(np.minimum(np.asarray(epsilon, dtype=float), 700.0))
        return np.interp(at, np.exp(epsilons), upper) * (1 + 64 * UNIT_ROUNDOFF)

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
        epsilons, upper = self._known()
        lower = np.array([self._lower_at(float(e)) for e in epsilons])
        alpha = np.exp(epsilons)
        mirrored = 1 / alpha[:0:-1]
        found = [np.concatenate([1 - mirrored + mirrored * value[:0:-1], value]) for value in (lower, upper)]
        return np.concatenate([mirrored, alpha]), found[0], found[1]

    def _lower_at(self, epsilon: float) -> float:
        if epsilon not in self._lower:
            self._lower[epsilon] = self._at(epsilon, -1)
        return self._lower[epsilon]

    def delta(self, epsilon: float, side: int) -> float:
        """A bound of δ(ε) for one release."""
        if epsilon > _FARTHEST:
            return self.delta(_FARTHEST, 1) if side > 0 else 0.0
        return _delta(self.shift, self.batches, epsilon, side, _FINEST.points)

    def estimate(self, delta: float) -> float:
        """ε(δ) of one release by coarse sums; it proves nothing."""
        return self._rough_root(delta)[0]

    def _rough_root(self, delta: float) -> tuple[float, float]:
        """About where δ(ε) is δ, and the slope of log δ there: false position (Illinois)."""
        target = math.log(delta)

        def excess(epsilon: float) -> float:
            found = _delta(self.shift, self.batches, epsilon, 1, _COARSE.points)
            return math.log(max(found, 1e-320)) - target

        low, below = 0.0, excess(0.0)
        if below <= 0:
            return 0.0, -1.0
        high = min(2 * math.exp(below + target), _FARTHEST)
        above = excess(high)
        while above > 0 and high < _FARTHEST:
            low, below, high = high, above, min(2 * high, _FARTHEST)
            above = excess(high)
        slope = (above - below) / (high - low)
        for _ in range(30):
            at = low + (high - low) * below / (below - above)
            value = excess(at)
            if abs(value) < 0.02 or high - low < 1e-3 * high:
                return at, slope
            if value > 0:
                slope = (value - above) / (at - high)
                low, below, above = at, value, above / 2
            else:
                slope = (value - below) / (at - low)
                high, above, below = at, value, below / 2
        return high, slope

    def epsilon(self, delta: float, side: int) -> float:
        """A bound of ε(δ) for one release: an ε at which δ was found to be on that side, and near."""
        if delta <= 0:
            return math.inf if side > 0 else 0.0
        if self.delta(0.0, side) <= delta:
            return 0.0
        at, slope = self._rough_root(delta)
        step = 1e-4
        for _ in range(40):
            found = self.delta(at, side)
            miss = math.log(max(found, 1e-320) / delta)
            if (found <= delta) == (side > 0) and abs(miss) <= 4 * step:
                return at
            at = min(max(at - (miss + side * step) / slope, 0.0), _FARTHEST)
            step = 1.5 * step
        return math.inf if side > 0 else 0.0


def replaced_pair(shift: float, batches: int, *, is_reached: bool) -> ProfilePair:
    """What dominates an epoch.

    Args:
        shift: ν, by how many deviations a row moves the sum of its batch.
        batches: t, at least 2.
        is_reached: whether two rows may be opposite.
    """
    fine = _profile(shift, batches, _FINE)
    attained = Deferred(fine.dominated) if is_reached else None
    return ProfilePair(
        symmetric(fine.bound),
        -math.inf,
        math.inf,
        attained,
        alone=fine,
        rough=lambda: _rough_pair(shift, batches),
        reach=fine.reach,
    )


def _rough_pair(shift: float, batches: int) -> ProfilePair:
    """A coarser bound, with which noise is searched for."""
    coarse = _profile(shift, batches, _COARSE)
    return ProfilePair(symmetric(coarse.bound), -math.inf, math.inf, reach=coarse.reach)


@lru_cache(maxsize=32)
def _profile(shift: float, batches: int, fineness: _Fineness) -> ReplacedProfile:
    return ReplacedProfile(shift, batches, fineness)


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


def _delta(nu: float, batches: int, epsilon: float, side: int, number: int) -> float:
    """A bound of δ(ε), from above (side 1) or from below (−1).

    Args:
        nu: ν.
        batches: t.
        epsilon: at least 0.
        side: which bound.
        number: of points of each partial sum, beside those of its rough law.

    The masses of a cell of z under N(0), N(ν) and N(−ν) are off by β, its ends by some units. All that moves U and V by
    factors of at most e^{±32κ}, κ = 2β and those units: with α·e^{∓64κ} in place of α the sum is moved to either side.
    """
    from discreet.accounting.exact.signed_sums import mean_positive_part, weighted_grid

    rough, others = _rough_sums(nu, batches, epsilon)
    ends = _ends(nu, math.exp(epsilon), others[0], number)
    term, failure, kappa = _term(nu, epsilon, ends, side)

    def grid(which: int, a: Law, b: Law) -> Array:
        low, high = float(a[0][0] + b[0][0]), float(a[0][-1] + b[0][-1])
        return weighted_grid(rough[which + 1], others[which + 1], number, low, high)

    found = mean_positive_part(term, batches, grid, side, kappa)
    found = max(found / batches * (1 + side * (32 * kappa + 8 * UNIT_ROUNDOFF)) + failure, 0.0)
    # the batch being known costs no less
    return min(found, 1.0) if side < 0 else min(found, gaussian.delta_bounds(epsilon, 2 * nu).upper)


def _term(nu: float, epsilon: float, ends: Array, side: int) -> tuple[Law, float, float]:
    """The law of one W from above or from below by cells of z, what is charged for its end, and κ."""
    q, u, v, kappa = _bins(nu, ends)
    alpha = math.exp(epsilon - side * 64 * kappa)
    if side < 0:  # what lies below the first end is left out
        return (np.maximum.accumulate((u[1:] - alpha * v[1:]) / q[1:]), q[1:]), 0.0, kappa
    values = np.exp(nu * ends - nu * nu / 2) - alpha * np.exp(-nu * ends - nu * nu / 2)
    inner = slice(1, -1)
    mean = np.clip((u[inner] - alpha * v[inner]) / q[inner], values[:-1], values[1:])
    share = (mean - values[:-1]) / np.diff(values)
    masses = np.zeros(len(values))
    masses[:-1] += q[inner] * (1 - share)
    masses[1:] += q[inner] * share
    masses[0] += q[0]  # what lies below the first end is moved up to it
    return (values, masses), float(u[-1]) * (1 + kappa), kappa  # E(U; beyond the last end), t terms of 1/t


def _bins(nu: float, ends: Array) -> tuple[Array, Array, Array, float]:
    """Masses of the cells of z under N(0), N(ν) and N(−ν), and κ."""
    reach = float(np.abs(ends).max()) + nu
    rounded = 4 * UNIT_ROUNDOFF * reach
    beta = bin_error(reach) + 8 * rounded / float(np.diff(ends).min()) + 8 * rounded * reach
    kappa = 2 * beta + UNIT_ROUNDOFF * (16 * nu * (reach + nu) + 16)
    return normal_bins(ends), normal_bins(ends - nu), normal_bins(ends + nu), kappa


def _ends(nu: float, alpha: float, others: Law, number: int) -> Array:
    """Ends of cells of z for one term, chosen as those of `weighted_grid`: a cell's width is h in z, h·dW/dz in W."""
    from discreet.accounting.exact.signed_sums import density

    z = np.arange(_LOWEST, _HIGHEST + nu, 1 / 64)
    up, down = np.exp(nu * z - nu * nu / 2), alpha * np.exp(-nu * z - nu * nu / 2)
    opposite = np.interp(down - up, others[0], density(*others), left=0.0, right=0.0)
    weight = np.cbrt(np.exp(-z * z / 2) * opposite) * np.cbrt((up + down) / float((up + down).max())) ** 2
    level = np.cumsum(weight) * (number / max(float(weight.sum()), 1e-300)) + np.arange(len(z)) / 16
    found = np.interp(np.arange(level[0], level[-1]), level, z)
    return np.unique(np.rint(np.append(found, z[-1]) * 256) / 256)


@lru_cache(maxsize=256)
def _rough_sums(nu: float, batches: int, epsilon: float) -> tuple[list[Law], list[Law]]:
    """Coarse laws of all partial sums, and of what is left of the sum, which say where finer ones should be fine."""
    from discreet.accounting.exact.signed_sums import all_sums, location, others_of, signed_grid

    alpha = math.exp(epsilon)
    ends = np.concatenate([np.arange(_LOWEST, 6, _ROUGH), np.arange(6, _HIGHEST + nu, 2 * _ROUGH)])

    def grid(which: int, a: Law, b: Law) -> Array:
        (middle, here), (other, there) = location(*a), location(*b)
        low, high = float(a[0][0] + b[0][0]), float(a[0][-1] + b[0][-1])
        steep = min(_ROUGH * nu, 0.2)
        points = signed_grid(middle + other, math.hypot(here, there), _ROUGH, steep, nu, alpha, low, high)
        centre = middle + other
        if centre >= -1e-3 or _near_zero(*a) * _near_zero(*b) * max(high, 1.0) < _LEAST * 1e-3:
            return points
        ratio = math.log(-centre / 1e-3)
        near = -centre * np.exp(-np.arange(0.0, ratio, max(4 * _ROUGH, ratio / 50)))
        inside = np.concatenate([near, -near, [0.0]])
        inside = inside[(inside > points[0]) & (inside < points[-1])]
        return np.unique(np.concatenate([points, inside]))

    found = all_sums(_term(nu, epsilon, ends, 1)[0], batches, grid)
    return found, others_of(found, batches)


def _near_zero(points: Array, masses: Array) -> float:
    """The probability of being far closer to 0 than the median is: where it matters, grids are fine around 0."""
    from discreet.accounting.exact.signed_sums import location

    return float(masses[np.searchsorted(points, min(location(points, masses)[0] / 8, 0.0)) :].sum())
