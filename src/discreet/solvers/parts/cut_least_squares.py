"""Least squares with cut slopes by a perturbed minimiser, in columns whose centre and second moments are known.

Slopes of squared loss, the residuals, are cut, which makes it Huber's loss; one tilt of noise in proportion to the cut
is all that the minimiser costs. A descent would need XᵀX first, whose noise in d² numbers has to be damped, and damping
shrinks all directions of little curvature. A further release is the mean residual, which is added to the intercept:
Huber's loss estimates the middle of skewed targets, and users want their mean.

Releases: `events.ObjectivePerturbation`, and one Gaussian where the mean residual is asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.measurements.perturbed_minimum import PerturbedMinimum
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.solvers.base import Problem, Steps
from discreet.solvers.parts.mean_offset import with_mean_offset
from discreet.solvers.parts.private_scales import Diagonal
from discreet.solvers.parts.tolerance import public_tolerance

__all__ = ["CutLeastSquares"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class CutLeastSquares:
    """The perturbed minimiser of squared loss with cut slopes, and the mean residual.

    Args:
        scales: how known second moments become weights of columns.
        noise_multiplier: scale of the tilt over the bound on a row's gradient; 0 is the minimiser itself.
        offset_multiplier: noise over the largest residual in the mean residual; 0 leaves it out.
        regularisation: λ, in units of the sum of losses of weighted rows.
        slope_bound: ℓ2 bound on a weighted row's gradient, where the size of residuals is not known.
        reach: where slopes are cut, over a bound that three quarters of residuals keep, where that is known.
        deviation: see `ObjectivePerturbation`.
    """

    scales: Diagonal
    noise_multiplier: float
    offset_multiplier: float
    regularisation: float
    slope_bound: float
    reach: float
    deviation: float = 1e-3

    def in_known_scales(self, problem: Problem, mean: Array, moments: Array, residual: float | None) -> Steps:
        """One release or two.

        Args:
            problem: public facts.
            mean: of each column, public already.
            moments: the second moment of each column, public already.
            residual: a public bound that three quarters of residuals keep, where there is one: slopes are cut at
                ``reach`` times it, at most at the largest target. The event does not depend on where they are cut.
        """
        rows = problem.rows
        if not self.noise_multiplier:
            exact = RidgeMinimiser(rows, problem.loss, self.regularisation, math.inf)
            return (yield PerturbedMinimum(exact, 0.0, self.deviation, 0.0))
        bound = self.slope_bound if residual is None else min(self.reach * residual, 1.0) * rows.radius
        scales = self.scales.known(problem, mean, moments, 1.0)
        query = RidgeMinimiser(rows, problem.loss, self.regularisation, bound, through=scales.row_map)
        tolerance = public_tolerance(query, problem.n, self.noise_multiplier)
        found = yield PerturbedMinimum(query, self.noise_multiplier, self.deviation, tolerance)
        theta = scales.coefficients(found)
        if not self.offset_multiplier:
            return theta
        return (yield from with_mean_offset(problem, theta, self.offset_multiplier, bound / rows.radius))
