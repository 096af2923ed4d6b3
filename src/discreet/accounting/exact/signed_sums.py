"""E(S)₊ for a sum S of independent, equal variables of both signs, from above and from below.

As in `discreet.accounting.exact.positive_sums`: laws are kept finite by steps that only increase, or only decrease,
them in convex order; E(S)₊ is convex in S. It also grows with S, so that very negative outcomes may be moved up (from
above) or left out (from below).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from discreet.accounting.exact.positive_sums import _merge, _spread
from discreet.floats import UNIT_ROUNDOFF

__all__ = [
    "GridOf",
    "Law",
    "all_sums",
    "density",
    "location",
    "mean_positive_part",
    "others_of",
    "signed_grid",
    "weighted_grid",
]

Array = NDArray[Any]
Law = tuple[Array, Array]
"""Increasing points, and their masses."""
_CUT = 1e-36
"""Outcomes of less probability, and of less probability times value, are moved, cut off or left out."""


def signed_grid(
    centre: float, scale: float, fine: float, steep: float, nu: float, unit: float, low: float, high: float
) -> Array:
    """Points from ``low`` to ``high``, ``fine`` of the scale apart near the centre, ``steep`` of the distance
    from it further out, and more where neither many terms nor one reach: a term of size x has x/1 above, x/unit below.
    """
    room = np.empty(1 << 16)
    up = _outwards(high - centre, scale, fine, steep, nu, 1.0, room)
    above = centre + room[:up].copy()
    down = _outwards(centre - low, scale, fine, steep, nu, unit, room)
    points = np.unique(np.concatenate([centre - room[1:down][::-1], above]))
    return points if len(points) > 1 else np.array([points[0], np.nextafter(points[0], np.inf)])


@njit(cache=True, nogil=True)
def _outwards(reach, scale, fine, steep, nu, unit, out):  # type: ignore[no-untyped-def]
    out[0] = 0.0
    distance, last = 0.0, 0
    while distance < reach and last < out.size - 2:
        growth = 1.0
        if distance > 0:
            growth = max(1.0, min(distance / scale, math.log(distance / unit) / nu + nu / 2) - 6.0)
        distance += fine * scale + steep * distance * growth
        last += 1
        out[last] = distance
    if last > 0:
        out[last] = reach  # the last point is the end itself: nothing is moved beyond what a sum can be
    return last + 1


def weighted_grid(part: Law, others: Law, number: int, low: float, high: float) -> Array:
    """Points from ``low`` to ``high`` that make the error of E(S)₊ small: ``number`` of them, and those of ``part``.

    A cell of width h around the value x of a partial sum costs h² times the density of that sum at x times that of the
    others at −x, where S is 0; the sum of this is least for h in proportion to the product's power −1/3. Rough laws of
    both do: any grid is valid.
    """
    x, places, opposite = part[0], -others[0][::-1], density(*others)[::-1]
    at = np.unique(np.concatenate([x, places[(places > x[0]) & (places < x[-1])]]))
    weight = np.cbrt(np.interp(at, x, density(*part)) * np.interp(at, places, opposite, left=0.0, right=0.0))
    level = np.append(0.0, np.cumsum((weight[1:] + weight[:-1]) * np.diff(at)))
    level = np.interp(at, x, np.arange(len(x))) + (number / level[-1] * level if level[-1] > 0 else 0.0)
    found = np.interp(np.arange(level[-1]), level, at)
    return np.unique(np.concatenate([[low], found[(found > low) & (found < high)], [high]]))


def density(points: Array, masses: Array) -> Array:
    """About the density at the points."""
    return masses / np.maximum(np.gradient(points), 1e-300)


def location(points: Array, masses: Array) -> tuple[float, float]:
    """The median, and half the distance of the quantiles one standard deviation from it in a normal law."""
    levels = np.cumsum(masses)
    places = np.searchsorted(levels, np.array([0.16, 0.5, 0.84]) * levels[-1]).clip(max=len(levels) - 1)
    low, middle, high = points[places]
    return float(middle), float(max(high - low, 1e-9 * abs(middle), 1e-300)) / 2


GridOf = Callable[[int, Law, Law], Array]
"""Which sum it is, as in `additions`, and the laws of its two summands ↦ the grid for it."""


def additions(count: int) -> list[tuple[int, int]]:
    """The sums by which doubling makes one of ``count`` terms: the numbers of both summands, the term being number 0
    and each sum getting the next number.
    """
    found: list[tuple[int, int]] = []
    term, total = 0, None
    while True:
        if count & 1:
            if total is not None:
                found.append((total, term))
                total = len(found)
            else:
                total = term
        count >>= 1
        if not count:
            return found
        found.append((term, term))
        term = len(found)


def all_sums(law: Law, count: int, grid_of: GridOf) -> list[Law]:
    """Laws above those of the term and of all sums by which ``count`` terms are added up, the last being the total."""
    laws = [law]
    for number, (i, j) in enumerate(additions(count)):
        laws.append(_add(laws[i], laws[j], grid_of(number, laws[i], laws[j]), 1)[0])
    return laws


def others_of(laws: list[Law], count: int) -> list[Law]:
    """For each sum of `all_sums`, roughly the law of the terms that are not in it: that of the sum with the number of
    terms nearest to theirs, stretched in proportion.
    """
    terms = [1]
    for i, j in additions(count):
        terms.append(terms[i] + terms[j])
    found = []
    for here in terms[:-1]:
        left = count - here
        nearest = min(range(len(terms)), key=lambda k: abs(math.log(terms[k] / left)))
        points, masses = laws[nearest]
        found.append((points * (left / terms[nearest]), masses))
    return found


def mean_positive_part(law: Law, count: int, grid_of: GridOf, side: int, mass_error: float) -> float:
    """A bound of E(S)₊ for a sum of ``count`` ≥ 2 terms of the law, from above (side 1) or below (−1).

    Rounding of a sum is relative to it. Positive sums are granted their own; of negative ones each term is at most the
    modulus of the first point, and S is moved by what all of them may have been rounded by. A mean of a cell is off by
    a unit of itself and its number of summands in units of the cell's width, which is at most twice the distance from
    the centre. The last sum has no grid: its positive part is summed over all pairs of outcomes.

    Args:
        law: of one term, each mass to a relative ``mass_error``.
        count: of terms.
        grid_of: for each sum but the last.
        side: which bound.
        mass_error: of the masses.
    """
    deepest, longest, lost = max(0.0, -float(law[0][0])), len(law[0]), 0.0
    laws, errors = [law], [mass_error]
    *before, (i, j) = additions(count)
    for number, (left, right) in enumerate(before):
        found, cut = _add(laws[left], laws[right], grid_of(number, laws[left], laws[right]), side)
        longest, lost = max(longest, len(found[0])), lost + cut
        laws.append(found)
        errors.append(errors[left] + errors[right] + 4 * UNIT_ROUNDOFF * (longest + 16))
    summed = errors[i] + errors[j] + 4 * UNIT_ROUNDOFF * (longest + 16)
    unsure = (len(before) + 1) * UNIT_ROUNDOFF * (32 + 2 * longest)
    shift = side * 2 * unsure * count * deepest
    value = float(_positive_part(*laws[i], *laws[j], shift))
    bound = value * (1 + side * 1.01 * (summed + unsure + UNIT_ROUNDOFF * (longest + 16)))
    # each of at most ``count`` sums that were cut is beside others of mean at most ``count`` in their positive part
    return bound + count * (1 + count) * lost if side > 0 else bound


@njit(cache=True, nogil=True)
def _positive_part(x, p, y, q, shift):  # type: ignore[no-untyped-def]
    """E(X + Y + shift)₊, by positive terms alone: off by (number of x + number of y) units of itself, and a unit of the
    sums as all others are."""
    total = 0.0
    first = y.size
    for i in range(x.size):
        while first > 0 and x[i] + y[first - 1] + shift > 0:
            first -= 1
        part = 0.0
        for j in range(first, y.size):
            part += q[j] * (x[i] + y[j] + shift)
        total += p[i] * part
    return total


def _add(a: Law, b: Law, grid: Array, side: int) -> tuple[Law, float]:
    """The law of a + b on the grid, and what was cut off its upper end: probability and mean."""
    (x, p), (y, q) = a, b
    masses = np.zeros(len(grid))
    if side > 0:
        _spread(x, p, y, q, a is b, grid, 1 / np.diff(grid), masses)
        return _trimmed(grid, masses)
    moments = np.zeros(len(grid))
    _merge(x, p, y, q, a is b, grid, masses, moments)
    keep = masses > _CUT
    return (np.maximum.accumulate(grid[keep] + moments[keep] / masses[keep]), masses[keep]), 0.0


def _trimmed(points: Array, masses: Array) -> tuple[Law, float]:
    """The law with what is negligible below moved up to the first point that is kept, and cut off above."""
    first = int(np.searchsorted(np.cumsum(masses), _CUT))
    weights = np.cumsum((masses * (1 + np.maximum(points, 0.0)))[::-1])
    last = len(points) - int(np.searchsorted(weights, _CUT))
    cut = float(weights[len(points) - last - 1]) if last < len(points) else 0.0
    kept = masses[first:last].copy()
    kept[0] += masses[:first].sum()
    return (points[first:last], kept), cut
