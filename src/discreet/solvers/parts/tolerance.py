"""How exactly a regularised minimiser has to be found, from public facts: for solvers that release one."""

from __future__ import annotations

import math

from discreet.measurements.perturbed_minimum import longest_tilt
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser

__all__ = ["public_tolerance"]

# numerical precision, not tuned
_RESIDUAL = 2.0**-38  # for each row and unit of its gradient's bound: a thousandfold of float64's rounding errors
_LONGEST = 2.0**10  # in a set that is larger, minimisers up to this long are allowed for, for rows of length 1


def public_tolerance(query: RidgeMinimiser, n: float, noise_multiplier: float, centre_tilt: float = 0.0) -> float:
    """A bound on ‖∇J‖ that float64 can certify for about n rows, from public facts.

    Args:
        query: the objective.
        n: number of rows.
        noise_multiplier: scale of the tilt over the bound on a row's gradient.
        centre_tilt: ‖λc‖, where the ridge is about a public point c.
    """
    d = math.prod(query.rows.shape)
    largest_tilt = noise_multiplier * longest_tilt(d) * query.gradient_bound + centre_tilt
    tolerance = max(_RESIDUAL * n * query.gradient_bound, 2 * query.least_tolerance(largest_tilt))
    if query.constrained:  # minimisers may be as long as the set is large, and scores err by d ulps of their length
        length = min(query.domain.radius_in(d), _LONGEST / query.rows.radius)
        tolerance = max(tolerance, 2.0**-51 * n * query.curvature_bound * (query.rows.dimension + 32) * length)
    return tolerance
