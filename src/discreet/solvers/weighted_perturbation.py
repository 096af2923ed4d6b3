"""Objective perturbation in centred and weighted columns, then scale and offset: what "auto" takes for two classes.

Five releases, whose shares of the budget (in 1/σ²) are fixed beforehand:

1. the *mean* row, unless columns are many, and
2. *second moments* of the columns, by which rows are centred and weighted (`discreet.solvers.parts.private_scales`, the
   diagonal model);
3. the *perturbed minimiser* of the loss on rows centred and weighted so and clipped anew. Its ridge is chosen for the
   direction alone: much larger than would be right for the length of θ;
4. two *histograms*, by which scale and offset are fitted (`discreet.solvers.parts.recalibration`), so that the ridge
   harms neither the rarer class nor the calibration of probabilities.

Releases: two Gaussians, `events.ObjectivePerturbation`, two Gaussians; see ``docs/maths/weighted_perturbation.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from discreet.errors import HypothesisViolated, InvalidInput
from discreet.losses import Domain
from discreet.measurements.perturbed_minimum import PerturbedMinimum
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.solvers.base import Problem, Steps
from discreet.solvers.parts.logistic_recalibration import SlopeSum
from discreet.solvers.parts.private_scales import Diagonal
from discreet.solvers.parts.recalibration import recalibrated
from discreet.solvers.parts.requirements import require_bounded_rows, require_no_ridge, require_unconstrained
from discreet.solvers.parts.tolerance import public_tolerance

__all__ = ["WeightedPerturbation", "check"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class WeightedPerturbation:
    """Mean row, second moments, the perturbed minimiser of centred and weighted rows, a fit of scale and offset.

    Args:
        scales: how centre and weights of the columns are released.
        noise_multiplier: scale of the tilt over the bound on a weighted row's gradient; 0 is the minimiser itself.
        place_multiplier: noise in the counts that show the range of the scores.
        recalibration_multiplier: noise in the counts by which scale and offset are fitted.
        regularisation: λ, in units of the sum of losses of weighted rows.
        slope_bound: ℓ2 bound on a weighted row's gradient.
        deviation: see `ObjectivePerturbation`.
        share_bias: standard deviation of the share of a class as the sum of all rows' slopes tells it, without noise.
    """

    scales: Diagonal
    noise_multiplier: float
    place_multiplier: float
    recalibration_multiplier: float
    regularisation: float
    slope_bound: float
    deviation: float = 1e-3
    share_bias: float = 0.02

    def steps(self, problem: Problem) -> Steps:
        """Up to five releases. The minimiser without noise needs no weights, and its scale and offset no fit."""
        check(problem)
        if not self.noise_multiplier:
            exact = RidgeMinimiser(problem.rows, problem.loss, self.regularisation, self.slope_bound)
            return (yield PerturbedMinimum(exact, 0.0, self.deviation, 0.0))
        scales = yield from self.scales.estimated(problem)
        rows, through = problem.rows, scales.row_map
        query = RidgeMinimiser(rows, problem.loss, self.regularisation, self.slope_bound, through=through)
        tolerance = public_tolerance(query, problem.n, self.noise_multiplier)
        found = yield PerturbedMinimum(query, self.noise_multiplier, self.deviation, tolerance)
        anchor = float(found[-1]) * rows.intercept
        noise = self.place_multiplier, self.recalibration_multiplier
        theta = scales.coefficients(found)
        held = problem.n * scales.held()
        leverage, slopes = self._leverage(problem, held), self._slope_sum(query, found)
        expected = partial(self._expected_scale, query, problem.n, held)
        return (yield from recalibrated(problem, theta, *noise, leverage, anchor, expected, slopes))

    def _slope_sum(self, query: RidgeMinimiser, found: Array) -> SlopeSum | None:
        """The sum of all rows' slopes at the minimiser: c·Σ slopes + λ·θ_c + b_c = 0, c the constant, b the tilt."""
        constant = query.rows.intercept
        if not constant:
            return None
        deviation = self.noise_multiplier * query.gradient_bound / constant
        return SlopeSum(
            -self.regularisation * float(found[-1]) / constant, deviation, self._cut(query), self.share_bias
        )

    def _cut(self, query: RidgeMinimiser) -> float:
        """Where the slopes of the longest rows are cut."""
        return min(1.0, query.gradient_bound / query.rows.radius)

    def _leverage(self, problem: Problem, held: Array) -> float:
        """Σ⟨x, (∇²J)⁻¹x⟩: what slopes of 1 move their own scores by, at most as if columns had nothing in common."""
        return float((held / (problem.loss.smoothness(Domain()) * held + self.regularisation)).sum())

    def _expected_scale(self, query: RidgeMinimiser, n: float, held: Array, curvature: float) -> float:
        """The scale of the scores at which they predict best if log-odds have the variance of logistic noise, π²/3.

        The ridge has shrunk log-odds by a factor 1/K, K = Σh/Σ(h²/(h + λ)) for curvatures h as if columns had nothing
        in common, and the tilt has added noise of variance w = σ²·Σ f/(h + λ)², f the columns' second moments.
        The regression of log-odds of variance v on a score v^½/K·(normal) + w^½·(normal) has the slope K·v/(v + K²·w).
        """
        damped = curvature * held + self.regularisation
        shrunk = float(held.sum() / (curvature * held**2 / damped).sum())
        noise = float((held / damped**2).sum()) / n * (self.noise_multiplier * query.gradient_bound) ** 2
        variance = math.pi**2 / 3
        return shrunk * variance / (variance + shrunk**2 * noise)


def check(problem: Problem) -> None:
    """Refuses all but two classes, no constraint, no ridge, rows of bounded length and a loss of bounded curvature."""
    method, other = "weighted perturbation", "objective_perturbation"
    require_unconstrained(problem, method, other)
    require_no_ridge(problem, method, other)
    if problem.rows.outputs != 1 or not problem.loss.slope_sign_fixed:
        raise InvalidInput("weighted perturbation is for two classes: labels −1 and +1, one score a row.")
    require_bounded_rows(problem, method)
    if not math.isfinite(problem.loss.smoothness(Domain())):
        raise HypothesisViolated(f"{type(problem.loss).__name__} has unbounded curvature; use a smoothed loss.")
