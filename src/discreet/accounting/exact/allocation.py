"""The dominating pair of random allocation: every row is in one of t batches of an epoch, which it draws for itself.

P = (1/t)Σᵢ N(νeᵢ, I) against Q = N(0, I) in R^t (Chua et al. 2024; docs/maths/accounting.md proves it for adaptive
releases). Under Q the likelihood ratio M = dP/dQ is the mean of t independent log-normal variables of mean 1. Each
direction's δ(ε) is the expectation of a convex function of M, (M − e^ε)₊ or (1 − e^ε·M)₊. So a law above that of M in
convex order bounds both from above, and one below from below, in every composition: `FiniteLaw` by doubling.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.exact.normal import bin_error, normal_bins
from discreet.accounting.exact.pairs import DiscretePair
from discreet.accounting.exact.sampling import Deferred, UpperOnly
from discreet.floats import UNIT_ROUNDOFF

if TYPE_CHECKING:
    from discreet.accounting.exact.positive_sums import FiniteLaw, Resolution

__all__ = ["LARGEST_SHIFT", "LEAST_SHIFT", "MOST_BATCHES", "RatioLaw", "allocation_pairs"]

Array = NDArray[Any]
LARGEST_SHIFT, LEAST_SHIFT, MOST_BATCHES = 12.0, 1e-6, 10**9
"""ν and t for which laws are computed: beyond, positions and masses leave the range in which doubles are accurate."""
_RELATIVE = 0.01
"""Width of a bin over the spread of the sum: bounds of ε differ by some 5e-4 of it."""
_FARTHEST = 25.5
"""Standard deviations at which a term's law ends; what lies beyond, Φ(−25.5) = 1e-143, is charged as failure."""


@dataclass(frozen=True, eq=False)
class RatioLaw(DiscretePair):
    """Many losses in increasing order, whose far ends a lattice may leave out."""

    @cached_property
    def _kinks(self) -> tuple[Array, Array]:
        """δ(l) without the atom at infinity at each loss l, and Q(L ≥ l): δ is straight between losses, as a function
        of e^ε, so that all terms of δ(l_k) = Σ_{j≥k} (e^{l_{j+1}} − e^{l_j})·Q(L ≥ l_{j+1}) are positive.
        """
        beyond = np.cumsum((self.probabilities * np.exp(-self.losses))[::-1])[::-1]
        steps = np.exp(self.losses[:-1]) * np.expm1(np.diff(self.losses)) * beyond[1:]
        return np.append(np.cumsum(steps[::-1])[::-1], 0.0), beyond

    def profile(self, epsilon: Array) -> Array:
        """δ(ε) from the straight line on which ε lies, to as many units of roundoff as there are losses."""
        values, beyond = self._kinks
        e = np.asarray(epsilon, dtype=float)
        after = np.searchsorted(self.losses, e)
        known = np.minimum(after, len(self.losses) - 1)
        ahead = np.maximum(self.losses[known] - e, 0.0)
        line = values[known] + np.exp(np.minimum(e, 700.0)) * np.expm1(ahead) * beyond[known]
        return np.where(after < len(self.losses), np.minimum(line, 1.0), 0.0) + self.infinite

    def span(self, log_tail: float) -> tuple[float, float]:
        """The losses between which all but e^log_tail of the probability lies, at either end."""
        allowed = math.exp(max(log_tail, -740.0))
        below = int(np.searchsorted(np.cumsum(self.probabilities), allowed))
        above = int(np.searchsorted(np.cumsum(self.probabilities[::-1]), allowed))
        last = len(self.losses) - 1
        return float(self.losses[min(below, last)]), float(self.losses[max(last - above, 0)])


@lru_cache(maxsize=64)
def allocation_pairs(shift: float, batches: int) -> tuple[UpperOnly, UpperOnly]:
    """The pair when the unit's row is removed, and when it is added.

    Args:
        shift: ν, by how many standard deviations the row moves the sum of its batch.
        batches: t, at least 2.
    """
    from discreet.accounting.exact.positive_sums import merge, spread

    resolution, (above, failure), below = _terms(shift, batches)
    upper = _sum(above, batches, resolution, spread)
    lower = cache(lambda: _sum(below, batches, resolution, merge))
    rare = batches * failure[1] + upper.cut  # some term lies beyond the last point: under Q
    seen = failure[0] + rare  # and under P, where one term has the law with the row in it
    remove = UpperOnly(_removed(upper, 1, seen), attained=Deferred(lambda: _removed(lower(), -1, 0.0)))
    add = UpperOnly(_added(upper, 1, rare), attained=Deferred(lambda: _added(lower(), -1, 0.0)))
    return remove, add


def _terms(nu: float, batches: int) -> tuple[Resolution, tuple[FiniteLaw, tuple[float, float]], FiniteLaw]:
    """One log-normal term: the bins of its sums; a law above it, with P and Q beyond its last point; a law below it.

    A cell's masses b under Q and a = E[X; cell] under P are bins of the normal law. The cell's mean a/b is off by twice
    their error, and by the rounding of the cell's ends, which are multiples of neither.
    """
    from discreet.accounting.exact.positive_sums import FiniteLaw, Resolution

    resolution = Resolution(_RELATIVE, nu, math.exp(-nu * _FARTHEST - nu * nu / 2))
    centre = math.exp(-nu * nu / 2)
    grid = resolution.grid(1, centre, centre * math.sinh(nu), math.exp(nu * _FARTHEST - nu * nu / 2))
    ends = np.log(grid[1:]) / nu + nu / 2
    q, p = normal_bins(ends), normal_bins(ends - nu)
    reach = float(np.abs(ends).max()) + nu
    rounded = 8 * UNIT_ROUNDOFF * reach  # of the ends, in standard deviations
    error = bin_error(reach) + 8 * rounded / float(np.diff(ends).min()) + 8 * rounded * reach
    slip = 2 * error + 2 * nu * rounded + 16 * UNIT_ROUNDOFF
    inner_q, inner_p = q[:-1], p[:-1]
    with np.errstate(invalid="ignore"):
        mean = np.clip(np.where(inner_q > 0, inner_p / inner_q, grid[:-1]), grid[:-1], grid[1:])
    share = (mean - grid[:-1]) / np.diff(grid)
    masses = np.zeros(len(grid))
    masses[:-1] += inner_q * (1 - share)
    masses[1:] += inner_q * share
    above = FiniteLaw(grid, masses, 1, error + 16 * UNIT_ROUNDOFF, slip)
    known = q > 1e-200
    below = FiniteLaw(np.maximum.accumulate(p[known] / q[known]), q[known], 1, error, slip)
    beyond = float(p[-1]) * (1 + 2 * error), float(q[-1]) * (1 + 2 * error) + 1e-300
    return resolution, (above, beyond), below


def _sum(
    term: FiniteLaw, count: int, resolution: Resolution, add: Callable[[FiniteLaw, FiniteLaw, Resolution], FiniteLaw]
) -> FiniteLaw:
    """The law of ``count`` independent terms, by doubling."""
    total: FiniteLaw | None = None
    while True:
        if count & 1:
            total = term if total is None else add(total, term, resolution)
        count >>= 1
        if not count:
            assert total is not None
            return total
        term = add(term, term, resolution)


def _removed(law: FiniteLaw, side: int, failure: float) -> RatioLaw:
    """Losses log M with probabilities M·Q, rounded to the side of a bound."""
    losses, masses, ratio = _ratios(law)
    unsure = law.mass_error + law.point_error + 16 * UNIT_ROUNDOFF
    slip = law.point_error + 8 * UNIT_ROUNDOFF * (1 + np.abs(losses))
    return RatioLaw(losses + side * slip, masses * ratio * (1 + side * unsure), failure)


def _added(law: FiniteLaw, side: int, failure: float) -> RatioLaw:
    """Losses −log M with probabilities Q; where all terms may be 0 the loss counts as infinite."""
    losses, masses, _ = _ratios(law)
    unsure = law.mass_error + 16 * UNIT_ROUNDOFF
    slip = law.point_error + 8 * UNIT_ROUNDOFF * (1 + np.abs(losses))
    lost = float(law.masses[0]) * (1 + 2 * unsure) if side > 0 and law.points[0] == 0 else 0.0
    return RatioLaw((-losses + side * slip)[::-1].copy(), (masses * (1 + side * unsure))[::-1].copy(), failure + lost)


def _ratios(law: FiniteLaw) -> tuple[Array, Array, Array]:
    """log M, the masses under Q, and M, where M > 0."""
    known = (law.points > 0) & (law.masses > 0)
    ratio = law.points[known] / law.terms
    return np.log(ratio), law.masses[known], ratio
