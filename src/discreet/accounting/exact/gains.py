"""Laws of products of likelihood ratios, kept finite by steps that only increase, or only decrease, them in convex
order.

A pair (P, Q) is known by the law under P of its gain G = 1 − dQ/dP = 1 − e^{−L}, which is at most 1:
δ(ε) = E_P(1 − e^ε(1 − G))₊, and 1 − G of a composition is the product of its parts'. δ is convex and increasing in the
gain of every part. So moving an outcome to two points around it such that its mean stays, or to a larger one, makes a
pair that dominates; replacing the outcomes of a bin by their mean, or by less, or leaving some out, makes one that is
dominated. Gains keep their digits however rarely a unit takes part: nothing here is relative to 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from discreet.accounting.exact.mixture import Mixture
from discreet.errors import NotCertifiable
from discreet.floats import UNIT_ROUNDOFF

__all__ = ["GainLaw", "even_grid", "fine_grid", "first_above", "first_below", "product_above", "product_below"]

Array = NDArray[Any]
_CUT = 1e-145
"""The least mass that is kept: the product of two such masses is a normal number."""
_FLAT = 0.3
"""Share of the points of a grid that are spread evenly, whatever is expected where."""
_ROOM = 1 << 12


@dataclass(frozen=True, eq=False)
class GainLaw:
    """Masses of P on increasing gains, none below −1 and none above 1, which all may be off by a relative ``error``."""

    points: Array
    masses: Array
    error: float = 0.0

    @cached_property
    def _beyond(self) -> tuple[Array, Array, Array]:
        """Sums from each place on: of masses, of masses times gains, and of the latter's sizes."""
        terms = np.array([self.masses, self.masses * self.points, self.masses * np.abs(self.points)])
        sums = np.zeros((3, len(self.points) + 1))
        np.cumsum(terms[:, ::-1], axis=1, out=sums[:, 1:])
        mass, gain, size = sums[:, ::-1]
        return mass, gain, size

    def delta(self, other: GainLaw, epsilon: float, *, upper: bool) -> float:
        """A bound of δ(ε) of the composition of both.

        For each gain x those gains y of the other that exceed the ε together with it count as
        e^ε[(x − κ)Σp + (1 − x)Σpy], κ = 1 − e^{−ε}. A y that is judged wrongly counts for some units of |x| + κ + |y|.
        Gains below 1 are at most 1 − 2^{−53}, losses of 37: beyond 600 only gains of 1 are left, however many points.
        """
        if not epsilon < 600:
            certain = sum(float(law.masses[law.points >= 1].sum()) for law in (self, other))
            unsure = self.error + other.error + (len(self.points) + len(other.points)) * UNIT_ROUNDOFF
            return min(1.0, certain * (1 + 2 * unsure)) if upper else 0.0
        x, y, kappa = self.points, other.points, -math.expm1(-epsilon)
        first = np.searchsorted(y, (kappa - x) / np.maximum(1 - x, 1e-300))
        mass, gain, size = other._beyond
        worth = (x - kappa) * mass[first] + (1 - x) * gain[first]
        doubt = (2 * len(y) + 64) * UNIT_ROUNDOFF * ((np.abs(x) + kappa) * mass[first] + (1 - x) * size[first])
        side = 1.0 if upper else -1.0
        total = math.exp(epsilon) * float((self.masses * np.maximum(worth + side * doubt, 0.0)).sum())
        total *= 1 + side * 1.01 * (self.error + other.error + (len(x) + 16) * UNIT_ROUNDOFF)
        return min(1.0, total + 5e-324) if upper else max(0.0, min(total, 1.0) - 1e-300)


def first_above(pair: Mixture, t: Array) -> GainLaw:
    """A law that dominates the pair: the outcomes of each bin between the points t are moved to its two ends.

    Let the bin have the mass a and the mean gain d/a. Its right end gets (d − ax)/(x' − x), x and x' being the gains
    at its ends: more by what all of these may be off by, for which the left end pays, and mass that the bin may have
    beside it. What lies before the first point is moved to it, what lies beyond the last one to the gain 1.
    """
    cells = pair.gains(t)
    ends, off = cells.gains, cells.gains_error
    most = cells.masses + cells.masses_error
    low = ends[:-1] - off[:-1]
    room = np.diff(ends) - off[1:] - off[:-1]
    gain, mass, inner = cells.differences[1:-1], cells.masses[1:-1], most[1:-1]
    drift = gain + cells.differences_error[1:-1] - mass * low + cells.masses_error[1:-1] * np.abs(low)
    drift += 8 * UNIT_ROUNDOFF * (np.abs(gain) + mass * np.abs(low))
    share = np.maximum(drift, 0.0) * (1 + 8 * UNIT_ROUNDOFF)
    right = np.where(room > 0, np.minimum(share / np.where(room > 0, room, 1.0), inner), inner)
    masses = np.zeros(len(t) + 1)
    masses[:-2] += inner - right
    masses[1:-1] += right
    masses[0] += most[0]
    masses[-1] += most[-1]
    points = np.append(np.maximum.accumulate(ends + off), 1.0).clip(-1.0, 1.0)
    return GainLaw(points, masses * (1 + 16 * UNIT_ROUNDOFF))


def first_below(pair: Mixture, t: Array) -> GainLaw:
    """A law that the pair dominates: the outcomes of each bin between the points t are merged; gains below −1 are left
    out.
    """
    cells = pair.gains(t)
    least, most = cells.masses - cells.masses_error, cells.masses + cells.masses_error
    keep = least > _CUT
    least, most, gain = least[keep], most[keep], (cells.differences - cells.differences_error)[keep]
    points = gain / np.where(gain > 0, most, least)
    return _kept(points - 8 * UNIT_ROUNDOFF * np.abs(points), least * (1 - 16 * UNIT_ROUNDOFF), 0.0)


def _kept(points: Array, masses: Array, error: float) -> GainLaw:
    """A law whose points rounding may have put out of order, without those below −1."""
    points = np.minimum.accumulate(points[::-1])[::-1]
    keep = points >= -1
    if not keep.any():
        raise NotCertifiable("nothing is left of the gains")
    return GainLaw(points[keep].clip(max=1.0), masses[keep], error)


def product_above(a: GainLaw, b: GainLaw, grid: Array, cut: float = _CUT) -> GainLaw:
    """A law that dominates the composition of two: the outcomes of each bin of the grid are moved to its two ends.

    Points of less mass than ``cut`` are left out, and their mass is moved to the gain 1.
    """
    mass, moment, slack = _product(a, b, grid, 1.0)
    right = np.minimum(np.maximum(moment, 0.0) * (1 + slack) / np.diff(grid), mass)
    masses = np.append(mass - right, 0.0)
    masses[1:] += right
    keep = masses >= max(cut, _CUT)
    keep[[0, -1]] = True
    masses[-1] += float(masses[~keep].sum()) + len(a.points) * len(b.points) * 1e-307
    return GainLaw(grid[keep], masses[keep], 1.01 * (a.error + b.error + slack))


def product_below(a: GainLaw, b: GainLaw, grid: Array, cut: float = _CUT) -> GainLaw:
    """A law that the composition of two dominates: the outcomes of each bin of the grid are merged.

    Points of less mass than ``cut`` are left out.
    """
    mass, moment, slack = _product(a, b, grid, -1.0)
    keep = mass > max(cut, _CUT)
    means, low = moment[keep] / mass[keep], grid[:-1][keep]
    points = low + means - 2 * slack * np.abs(means) - 4 * UNIT_ROUNDOFF * np.abs(low)
    return _kept(points, mass[keep], 1.01 * (a.error + b.error + slack))


def _product(a: GainLaw, b: GainLaw, grid: Array, side: float) -> tuple[Array, Array, float]:
    """Masses of the bins and moments from their lower ends, and the relative error of both.

    What is lost or gained by rounding of x + y(1 − x) is less than 4u(|x| + |y|(1 − x)); both are moved by 8u of
    themselves to the given side before.
    """
    mass, moment = np.zeros(len(grid) - 1), np.zeros(len(grid) - 1)
    start, other = (law.points + side * 8 * UNIT_ROUNDOFF * np.abs(law.points) for law in (a, b))
    floor = float(grid[0]) if side > 0 else -math.inf  # lesser gains are raised to it, or merged with those in its bin
    _binned(start, 1 - a.points, a.masses, other, b.masses, a is b, floor, grid, mass, moment)
    return mass, moment, UNIT_ROUNDOFF * (len(b.points) + 2 * len(a.points) + 32)


def even_grid(a: GainLaw, b: GainLaw, fine: float, steep: float) -> Array:
    """Points for a product of which nothing is known: ``fine`` of its spread, ``steep`` of the distance further out."""
    (left, here), (right, there) = _location(a), _location(b)
    room = np.empty(_ROOM)
    lowest = max(float(a.points[0] + b.points[0]), -1.0)
    scale = max(math.hypot(here, there), 1e-300)
    count = _walk(lowest, max(left + right, lowest), scale, fine, steep, room)
    return np.unique(room[:count])


def _location(law: GainLaw) -> tuple[float, float]:
    """The median, and half the distance of the quantiles one standard deviation from it in a normal law."""
    levels = np.cumsum(law.masses)
    places = np.searchsorted(levels, np.array([0.16, 0.5, 0.84]) * levels[-1]).clip(max=len(levels) - 1)
    low, middle, high = law.points[places]
    return float(middle), float(max(high - low, 1e-12 * abs(middle))) / 2


def fine_grid(law: GainLaw, rest: GainLaw, epsilon: float, count: int) -> Array:
    """Points where moving outcomes of a law costs most at an ε, if the gains composed with it have the law ``rest``.

    A bin of width h around x costs h² times the density at x times that of ``rest`` at the gain that makes ε together
    with x. The sum is least if h is in proportion to the power −1/3 of that product. Any grid is valid.
    """
    x, p = _distinct(law)
    y, q = _distinct(rest)
    kept = math.exp(-min(epsilon, 600.0))
    met = 1 - kept / np.maximum(1 - y, 1e-300)  # where the other law's points are needed
    z = np.unique(np.concatenate([x, met[(met > x[0]) & (met < x[-1])]]))
    middle = z[:-1] + np.diff(z) / 2
    there = np.maximum.reduce([_density(y, q, 1 - kept / (1 - middle), by) for by in (-1, 0, 1)])
    here = _density(x, p, middle, 0)
    needs = np.cbrt(here * there) * np.diff(z)
    total, some = float(needs.sum()), _density(x, np.minimum(p, np.append(p[1:], 0.0)), middle, 0) > 0
    shares = needs / total * (1 - _FLAT) if total > 0 else 0.0 * needs
    levels = np.append(0.0, np.cumsum(shares + _FLAT * some / max(int(some.sum()), 1)))
    inner = np.interp(np.linspace(0.0, levels[-1], count), levels, z)
    return np.unique(np.concatenate([[max(-1.0, 2 * x[0] - x[1])], inner, [1.0]]).clip(-1.0, 1.0))


def _density(x: Array, p: Array, at: Array, by: int) -> Array:
    """About the density of a law in the bin that holds each place, or ``by`` bins further on."""
    heights = (p[:-1] + p[1:]) / np.diff(x)
    bins = np.searchsorted(x, at) - 1
    inside = (bins >= 0) & (bins < len(heights))
    return np.where(inside, heights[(bins + by).clip(0, len(heights) - 1)], 0.0)


def _distinct(law: GainLaw) -> tuple[Array, Array]:
    """The points and masses of a law without those that repeat a point."""
    keep = np.append(True, np.diff(law.points) > 0)
    if keep.sum() < 2:
        raise NotCertifiable("the gains of a release are all the same")
    return law.points[keep], law.masses[keep]


@njit(cache=True, nogil=True)
def _walk(lowest, centre, scale, fine, steep, out):  # type: ignore[no-untyped-def]
    """From the centre downwards, in wider steps, and upwards to 1, towards which large losses crowd."""
    count, x, most = 0, centre, out.size
    while x > lowest and count < most // 2:
        x = max(x - max(fine * scale, 1.5 * steep * (centre - x)), lowest)
        out[count] = x
        count += 1
    out[count] = lowest
    count += 1
    x = centre
    while x < 1.0 and count < most - 1:
        out[count] = x
        count += 1
        x += min(max(fine * scale, steep * (x - centre)), 0.3 * (1.0 - x) + 1e-6)
    out[count] = 1.0
    return count + 1


@njit(cache=True, nogil=True)
def _binned(x, left_over, p, y, q, same, floor, grid, masses, moments):  # type: ignore[no-untyped-def]
    """The mass of each bin of the grid, and its moment from the bin's lower end.

    For each x the gains x + y(1 − x) increase, so that their bins are met in order; each bin is summed before it is
    added to the total. Of a law with itself (``same``) each pair of outcomes is met once and counts twice.
    """
    last = grid.size - 2
    for i in range(x.size):
        if p[i] == 0.0:
            continue
        first = i if same else 0
        factor, later = p[i], 2 * p[i] if same else p[i]
        start, rest = x[i], left_over[i]
        cell = min(max(np.searchsorted(grid, start + y[first] * rest) - 1, 0), last)
        low, high = grid[cell], grid[cell + 1]
        mass = moment = 0.0
        for j in range(first, y.size):
            total = max(start + y[j] * rest, floor)
            while total > high and cell < last:
                masses[cell] += mass
                moments[cell] += moment
                mass = moment = 0.0
                cell += 1
                low, high = high, grid[cell + 1]
            weight = factor * q[j]
            factor = later
            mass += weight
            moment += weight * (total - low)
        masses[cell] += mass
        moments[cell] += moment
