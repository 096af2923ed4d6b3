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
"""Outcomes of less mass are moved to the gain 1, or left out: products of two others are normal numbers."""
_FLAT = 0.3
"""Share of the points of a grid that are spread evenly, whatever is expected where."""
_PAST = 1 - np.array([0.75, 0.5, 0.25, 0.1, 0.01])
_ROOM = 1 << 12


@dataclass(frozen=True, eq=False)
class GainLaw:
    """Masses of P on increasing gains, none below −1 and none above 1, which all may be off by a relative ``error``."""

    points: Array
    masses: Array
    error: float = 0.0

    def delta(self, other: GainLaw, epsilon: float, *, upper: bool) -> float:
        """A bound of δ(ε) of the composition of both.

        For each gain x those gains y of the other that exceed the ε together with it count as
        e^ε[(x − κ)Σp + (1 − x)Σpy], κ = 1 − e^{−ε}. A y that is judged wrongly counts for some units of |x| + κ + |y|.
        """
        if not epsilon < 600:
            return float(self.masses[-1] + other.masses[-1]) * (1 + 2 * (self.error + other.error)) if upper else 0.0
        x, y, kappa = self.points, other.points, -math.expm1(-epsilon)
        with np.errstate(divide="ignore", invalid="ignore"):
            least = np.where(x < 1, (kappa - x) / (1 - x), -np.inf)
        first = np.searchsorted(y, least)
        mass, gain, size = (_beyond(values) for values in (other.masses, other.masses * y, other.masses * np.abs(y)))
        worth = (x - kappa) * mass[first] + (1 - x) * gain[first]
        doubt = (2 * len(y) + 64) * UNIT_ROUNDOFF * ((np.abs(x) + kappa) * mass[first] + (1 - x) * size[first])
        side = 1.0 if upper else -1.0
        total = math.exp(epsilon) * float((self.masses * np.maximum(worth + side * doubt, 0.0)).sum())
        total *= 1 + side * 1.01 * (self.error + other.error + (len(x) + 16) * UNIT_ROUNDOFF)
        return min(1.0, total + 5e-324) if upper else max(0.0, min(1.0, total) - 1e-300)


def _beyond(values: Array) -> Array:
    """Sums of the last values, from each place on, and 0."""
    return np.append(np.cumsum(values[::-1])[::-1], 0.0)


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
    with np.errstate(divide="ignore", invalid="ignore"):
        right = np.where(room > 0, np.minimum(share / room, inner), inner)
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


def product_above(a: GainLaw, b: GainLaw, grid: Array) -> GainLaw:
    """A law that dominates the composition of two: each outcome is moved to the two points of the grid around it."""
    masses, pad = np.zeros(len(grid)), 1 + 8 * UNIT_ROUNDOFF * np.sign(b.points)
    start = a.points + 8 * UNIT_ROUNDOFF * np.abs(a.points)
    with np.errstate(divide="ignore"):
        inverse = (1 + 8 * UNIT_ROUNDOFF) / np.diff(grid)
    _spread(start, 1 - a.points, a.masses, b.points * pad, b.masses, a is b, grid, inverse, masses)
    small = masses < _CUT
    masses[-1] += float(masses[small].sum()) + len(a.points) * len(b.points) * 1e-307
    masses[:-1][small[:-1]] = 0.0
    return GainLaw(grid, masses, _grown(a, b))


def product_below(a: GainLaw, b: GainLaw, grid: Array) -> GainLaw:
    """A law that the composition of two dominates: the outcomes between two points of the grid are merged."""
    masses, moments = np.zeros(len(grid)), np.zeros(len(grid))
    start, pad = a.points - 8 * UNIT_ROUNDOFF * np.abs(a.points), 1 - 8 * UNIT_ROUNDOFF * np.sign(b.points)
    _merge(start, 1 - a.points, a.masses, b.points * pad, b.masses, a is b, grid, masses, moments)
    keep = masses > _CUT
    means = moments[keep] / masses[keep]
    slack = UNIT_ROUNDOFF * (len(b.points) + 2 * len(a.points) + 32)
    points = grid[keep] + means - 2 * slack * np.abs(means) - 4 * UNIT_ROUNDOFF * np.abs(grid[keep])
    return _kept(points, masses[keep], _grown(a, b))


def _grown(a: GainLaw, b: GainLaw) -> float:
    """What the masses of a product may be off by: cells are met in order and summed one by one."""
    return 1.01 * (a.error + b.error + UNIT_ROUNDOFF * (len(b.points) + 2 * len(a.points) + 32))


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
    shares = np.empty(len(x) - 1)
    _needs(x, p, y, q, math.exp(-min(epsilon, 600.0)), shares)
    levels = np.append(0.0, np.cumsum(shares))
    inner = np.interp(np.linspace(0.0, levels[-1], count), levels, x)
    past = 1 - (1 - x[-1]) * (1 - _PAST) if x[-1] < 1 else x[-1:]
    return np.unique(np.concatenate([[max(-1.0, 2 * x[0] - x[1])], inner, past, [1.0]]).clip(-1.0, 1.0))


def _distinct(law: GainLaw) -> tuple[Array, Array]:
    """Its points and masses, without the doubles of a point."""
    keep = np.append(True, np.diff(law.points) > 0)
    if keep.sum() < 2:
        raise NotCertifiable("the gains of a release are all the same")
    return law.points[keep], law.masses[keep]


@njit(cache=True, nogil=True)
def _walk(lowest, centre, scale, fine, steep, out):  # type: ignore[no-untyped-def]
    """From the centre downwards, in wider steps, and upwards to 1."""
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
        x += max(fine * scale, steep * (x - centre))
    out[count] = 1.0
    return count + 1


@njit(cache=True, nogil=True)
def _needs(x, p, y, q, kept, out):  # type: ignore[no-untyped-def]
    """The share of the points that each bin of x should get; the density of the other law is the most near its place."""
    last, total, k = y.size - 2, 0.0, y.size - 2
    for i in range(out.size):
        width = x[i + 1] - x[i]
        middle = x[i] + width / 2
        place = 1 - kept / (1 - middle) if middle < 1 else -2.0
        while k > 0 and y[k] > place:
            k -= 1
        density = 0.0
        if y[0] <= place <= y[last + 1]:
            for j in range(max(k - 1, 0), min(k + 1, last) + 1):
                density = max(density, (q[j] + q[j + 1]) / (y[j + 1] - y[j]))
        out[i] = ((p[i] + p[i + 1]) / width * density) ** (1 / 3) * width
        total += out[i]
    for i in range(out.size):
        out[i] = (out[i] / total if total > 0 else 0.0) + _FLAT / out.size


@njit(cache=True, nogil=True)
def _spread(x, left_over, p, y, q, same, grid, inverse, out):  # type: ignore[no-untyped-def]
    """For each x the gains x + y(1 − x) increase, so that their cells are met in order; each cell is summed before it is
    added to the total. Of a law with itself (``same``) each pair of outcomes is met once and counts twice.
    """
    last = grid.size - 2
    for i in range(x.size):
        if p[i] == 0.0:
            continue
        first = i if same else 0
        factor, later = p[i], 2 * p[i] if same else p[i]
        cell = min(max(np.searchsorted(grid, x[i] + y[first] * left_over[i]) - 1, 0), last)
        left = right = 0.0
        for j in range(first, y.size):
            total = x[i] + y[j] * left_over[i]
            while cell < last and total > grid[cell + 1]:
                out[cell] += left
                out[cell + 1] += right
                left = right = 0.0
                cell += 1
            weight = factor * q[j]
            factor = later
            share = min(max((total - grid[cell]) * inverse[cell], 0.0), 1.0)
            right += weight * share
            left += weight * (1.0 - share)
        out[cell] += left
        out[cell + 1] += right


@njit(cache=True, nogil=True)
def _merge(x, left_over, p, y, q, same, grid, masses, moments):  # type: ignore[no-untyped-def]
    """Mass and moment, from the cell's lower end, of each cell; cells are met in order as in `_spread`."""
    last = grid.size - 2
    for i in range(x.size):
        first = i if same else 0
        factor, later = p[i], 2 * p[i] if same else p[i]
        cell = min(max(np.searchsorted(grid, x[i] + y[first] * left_over[i]) - 1, 0), last)
        mass = moment = 0.0
        for j in range(first, y.size):
            total = x[i] + y[j] * left_over[i]
            while cell < last and total > grid[cell + 1]:
                masses[cell] += mass
                moments[cell] += moment
                mass = moment = 0.0
                cell += 1
            weight = factor * q[j]
            factor = later
            mass += weight
            moment += weight * (total - grid[cell])
        masses[cell] += mass
        moments[cell] += moment
