"""Laws of sums of independent positive variables, kept finite by steps that only increase, or only decrease, them in
convex order.

X is below Y in convex order if E φ(X) ≤ E φ(Y) for every convex φ. The order survives sums of independent variables.
Moving an outcome to two points around it, so that its mean stays, increases a variable in it (`spread`); replacing the
outcomes of a bin by their mean decreases it (`merge`). Both err by the square of the bins' width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from discreet.floats import UNIT_ROUNDOFF

__all__ = ["FiniteLaw", "Resolution", "merge", "spread"]

Array = NDArray[Any]
_CUT = 1e-145
"""Outcomes of less mass, and of less mass times value over the mean, are left out: products of two others are normal
numbers, or of no more weight than `FiniteLaw.cut` says."""


@dataclass(frozen=True, eq=False)
class FiniteLaw:
    """Masses on increasing points ≥ 0, of a variable that is a sum of ``terms`` variables of mean 1.

    Read with exact arithmetic: all masses times 1 ± ``mass_error`` and all points times e^{±``point_error``} give laws
    on either side. ``cut`` bounds what was left out: its probability, and its probability times its value over
    ``terms``.
    """

    points: Array
    masses: Array
    terms: int
    mass_error: float
    point_error: float
    cut: float = 0.0


@dataclass(frozen=True)
class Resolution:
    """How wide the bins of a sum are: ``relative`` of its spread near the median, of the distance from it further out.

    ``log_scale`` is ν, the standard deviation of a term's logarithm, and ``least`` the least positive point, a term.
    Where neither one term nor the spread of all is likely to reach, beyond 7 standard deviations, bins grow faster.
    """

    relative: float
    log_scale: float
    least: float

    def grid(self, terms: int, centre: float, scale: float, reach: float) -> Array:
        """Points from 0 to beyond ``reach`` for a sum of ``terms`` terms. Any grid is valid, a finer one is tighter."""
        room = np.empty(1 << 17)
        steep = min(self.relative * self.log_scale, 0.1)
        count = _walk(terms, self.least, centre, scale, self.relative, steep, self.log_scale, reach, room)
        return room[:count].copy()


@njit(cache=True, nogil=True)
def _walk(terms, least, centre, scale, fine, steep, nu, reach, out):  # type: ignore[no-untyped-def]
    x = terms * least
    out[0], out[1] = 0.0, x
    last = 1
    while x < reach and last < out.size - 2:
        distance = abs(x - centre)
        above = below = 1.0
        if x > centre and distance > 0:
            above = max(1.0, min(distance / scale, math.log(distance) / nu + nu / 2) - 6.0)
        if x < centre:
            below = max(1.0, -(math.log(x / terms) / nu + nu / 2) * math.sqrt(terms) - 6.0) ** 2
        x += min(fine * scale + steep * distance * above, steep * x * below)
        last += 1
        out[last] = x
    if x < reach:
        last += 1
        out[last] = 2 * reach
    return last + 1


def spread(a: FiniteLaw, b: FiniteLaw, resolution: Resolution) -> FiniteLaw:
    """A law of a + b or more, in convex order: each outcome is moved to the two grid points around it."""
    grid = _grid(a, b, resolution)
    masses = np.zeros(len(grid))
    _spread(a.points, a.masses, b.points, b.masses, a is b, grid, 1 / np.diff(grid), masses)
    terms = a.terms + b.terms
    small = np.maximum(masses, masses * (grid / terms)) < _CUT
    masses[small] = 0.0
    # the second term is what underflows
    lost = len(grid) * _CUT + len(a.points) * len(b.points) * 1e-307 * (1 + float(grid[-1]))
    slack = UNIT_ROUNDOFF * (len(b.points) + 2 * len(a.points) + 16)
    return FiniteLaw(
        grid,
        masses,
        terms,
        1.01 * (a.mass_error + b.mass_error + slack),
        max(a.point_error, b.point_error) + 8 * UNIT_ROUNDOFF,
        a.cut + b.cut + lost,  # the other summand is independent of what was lost, and has its mean there too
    )


def merge(a: FiniteLaw, b: FiniteLaw, resolution: Resolution) -> FiniteLaw:
    """A law of a + b or less, in convex order: the outcomes between two grid points are replaced by their mean.

    Outcomes of negligible mass are left out, which only lowers the expectation of functions that are not negative.
    """
    grid = _grid(a, b, resolution)
    masses, moments = np.zeros(len(grid)), np.zeros(len(grid))
    _merge(a.points, a.masses, b.points, b.masses, a is b, grid, masses, moments)
    keep = masses > _CUT
    slack = UNIT_ROUNDOFF * (len(b.points) + len(a.points) + 16)
    return FiniteLaw(
        np.maximum.accumulate(grid[keep] + moments[keep] / masses[keep]),
        masses[keep],
        a.terms + b.terms,
        1.01 * (a.mass_error + b.mass_error + slack),
        max(a.point_error, b.point_error) + 3 * slack,
    )


def _grid(a: FiniteLaw, b: FiniteLaw, resolution: Resolution) -> Array:
    (left, here), (right, there) = _location(a), _location(b)
    reach = float(a.points[-1] + b.points[-1])
    return resolution.grid(a.terms + b.terms, left + right, math.hypot(here, there), reach)


def _location(law: FiniteLaw) -> tuple[float, float]:
    """The median, and half the distance of the quantiles one standard deviation from it in a normal law."""
    levels = np.cumsum(law.masses)
    places = np.searchsorted(levels, np.array([0.16, 0.5, 0.84]) * levels[-1]).clip(max=len(levels) - 1)
    low, middle, high = law.points[places]
    return float(middle), float(max(high - low, 1e-9 * middle)) / 2


@njit(cache=True, nogil=True)
def _spread(x, p, y, q, same, grid, inverse, out):  # type: ignore[no-untyped-def]
    """For each x the sums x + y increase, so that their cells are met in order; each cell is summed before it is added
    to the total, which keeps rounding below (number of y + 2·number of x) units. Of a law with itself (``same``) each
    pair of outcomes is met once and counts twice.
    """
    last = grid.size - 2
    for i in range(x.size):
        if p[i] == 0.0:
            continue
        first = i if same else 0
        factor, later = p[i], 2 * p[i] if same else p[i]
        cell = min(max(np.searchsorted(grid, x[i] + y[first]) - 1, 0), last)
        left = right = 0.0
        for j in range(first, y.size):
            total = x[i] + y[j]
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
def _merge(x, p, y, q, same, grid, masses, moments):  # type: ignore[no-untyped-def]
    """Mass and moment, from the cell's lower end, of each cell; cells are met in order as in `_spread`."""
    last = grid.size - 2
    for i in range(x.size):
        first = i if same else 0
        factor, later = p[i], 2 * p[i] if same else p[i]
        cell = min(max(np.searchsorted(grid, x[i] + y[first]) - 1, 0), last)
        mass = moment = 0.0
        for j in range(first, y.size):
            total = x[i] + y[j]
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
