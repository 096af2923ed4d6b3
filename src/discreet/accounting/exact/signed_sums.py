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

__all__ = ["mean_positive_part", "signed_grid"]

Array = NDArray[Any]
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


Law = tuple[Array, Array]
"""Increasing points, and their masses."""


def mean_positive_part(
    law: Law, count: int, grid_of: Callable[[Law, Law], Array], side: int, mass_error: float
) -> float:
    """A bound of E(S)₊ for a sum of ``count`` terms of the law, from above (side 1) or below (−1).

    Rounding of a sum is relative to it. Positive sums are granted their own; of negative ones each term is at most the
    modulus of the first point, and S is moved by what all of them may have been rounded by. A mean of a cell is off by
    a unit of itself and its number of summands in units of the cell's width, which is at most twice the distance from
    the centre.

    Args:
        law: of one term, each mass to a relative ``mass_error``.
        count: of terms.
        grid_of: laws of two summands ↦ the grid for their sum.
        side: which bound.
        mass_error: of the masses.
    """
    deepest, longest, levels, lost = max(0.0, -float(law[0][0])), len(law[0]), 0, 0.0
    total: Law | None = None
    term, left, error, summed = law, count, mass_error, 0.0
    while True:
        if left & 1:
            if total is None:
                total, summed = term, error
            else:
                total, cut = _add(total, term, grid_of, side)
                levels, longest, lost = levels + 1, max(longest, len(total[0])), lost + cut
                summed += error + 4 * UNIT_ROUNDOFF * (longest + 16)
        left >>= 1
        if not left:
            break
        term, cut = _add(term, term, grid_of, side)
        levels, longest, lost = levels + 1, max(longest, len(term[0])), lost + cut
        error = 2 * error + 4 * UNIT_ROUNDOFF * (longest + 16)
    assert total is not None
    x, p = total
    unsure = levels * UNIT_ROUNDOFF * (32 + 2 * longest)
    shift = side * 2 * unsure * count * deepest
    value = float(p @ np.maximum(x + shift, 0.0))
    bound = value * (1 + side * 1.01 * (summed + unsure + UNIT_ROUNDOFF * (longest + 16)))
    # each of at most ``count`` sums that were cut is beside others of mean at most ``count`` in their positive part
    return bound + count * (1 + count) * lost if side > 0 else bound


def _add(a: Law, b: Law, grid_of: Callable[[Law, Law], Array], side: int) -> tuple[Law, float]:
    """The law of a + b, and what was cut off its upper end: probability and mean."""
    (x, p), (y, q) = a, b
    grid = grid_of(a, b)
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
