"""Objective perturbation in centred and weighted columns, then scale and offset: what "auto" takes for two classes.

Five releases, whose shares of the budget (in 1/σ²) are fixed beforehand:

1. the *mean* row, unless columns are many: what all rows have in common is not informative, but takes up their length;
2. *second moments* f_j of the columns (`discreet.solvers.parts.column_weights`), and from them weights
   w_j ∝ (f_j + τ)^−power. The exponent ½ brings all columns whose second moment exceeds the noise to one scale, best
   where rare columns are the informative ones; 0 leaves them as they are, best where common ones are;
3. the *perturbed minimiser* of the loss on rows centred and weighted so and clipped anew. Its ridge is chosen for the
   direction alone: much larger than would be right for the length of θ;
4. two *histograms*, by which scale and offset are fitted (`discreet.solvers.parts.recalibration`), so that the ridge
   harms neither the rarer class nor the calibration of probabilities.

Releases: two Gaussians, `events.ObjectivePerturbation`, two Gaussians; see ``docs/maths/weighted_perturbation.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.errors import HypothesisViolated, InvalidInput
from discreet.losses import Domain
from discreet.measurements.perturbed_minimum import PerturbedMinimum
from discreet.queries.mapped import ColumnWeights
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.solvers.base import Problem, Steps
from discreet.solvers.parts.column_weights import (
    column_weights,
    lengthening,
    released_mean,
    released_moments,
    weighted_moments,
)
from discreet.solvers.parts.recalibration import recalibrated
from discreet.solvers.parts.requirements import require_bounded_rows, require_no_ridge, require_unconstrained
from discreet.solvers.parts.tolerance import public_tolerance

__all__ = ["WeightedPerturbation", "check"]


@dataclass(frozen=True)
class WeightedPerturbation:
    """Mean row, second moments, the perturbed minimiser of centred and weighted rows, a fit of scale and offset.

    Args:
        noise_multiplier: scale of the tilt over the bound on a weighted row's gradient; 0 is the minimiser itself.
        moment_multiplier: noise over the bound of `ColumnSecondMoment`.
        place_multiplier: noise in the counts that show the range of the scores.
        recalibration_multiplier: noise in the counts by which scale and offset are fitted.
        regularisation: λ, in units of the sum of losses of weighted rows.
        damping: τ in units of the squared row norm.
        power: weights are (f_j + τ)^−power, f_j the second moment of a column.
        slope_bound: ℓ2 bound on a weighted row's gradient.
        spread: see `ColumnSecondMoment`.
        least_scale: the fit of scale and offset leaves at least this share of the scores, which the ridge has shrunk:
            with classes of one size any direction that was found is better than none.
        deviation: see `ObjectivePerturbation`.
        centred: whether rows are centred; needs a constant column.
        centre_multiplier: noise over the bound of `RowSum`.
    """

    noise_multiplier: float
    moment_multiplier: float
    place_multiplier: float
    recalibration_multiplier: float
    regularisation: float
    damping: float
    power: float
    slope_bound: float
    spread: float
    least_scale: float
    deviation: float = 1e-3
    centred: bool = False
    centre_multiplier: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.damping < math.inf:
            raise InvalidInput(f"damping must be positive and finite, got {self.damping!r}.")
        if not 0 <= self.power <= 1:
            raise InvalidInput(f"power must be between 0 and 1, got {self.power!r}.")

    def steps(self, problem: Problem) -> Steps:
        """Up to five releases. The minimiser without noise needs no weights, and its scale and offset no fit."""
        check(problem)
        if not self.noise_multiplier:
            exact = RidgeMinimiser(problem.rows, problem.loss, self.regularisation, self.slope_bound)
            return (yield PerturbedMinimum(exact, 0.0, self.deviation, 0.0))
        rows, d = problem.rows, problem.rows.n_features
        if self.centred and not rows.intercept:
            raise InvalidInput("rows without a constant column cannot be centred; fit an intercept, or centre_share=0.")
        centre, explained = None, np.zeros(d)
        if self.centred:
            centre, explained = yield from released_mean(problem, self.centre_multiplier)
        moments = yield from released_moments(problem, self.moment_multiplier, self.spread)
        weights = column_weights(moments, rows, self.damping, self.power, explained)
        through = ColumnWeights(rows, weights, centre)
        query = RidgeMinimiser(rows, problem.loss, self.regularisation, self.slope_bound, through=through)
        tolerance = public_tolerance(query, problem.n, self.noise_multiplier)
        found = yield PerturbedMinimum(query, self.noise_multiplier, self.deviation, tolerance)
        theta = found.copy()
        theta[:d] *= weights / lengthening()  # on average over rows as they are given, what it was on clipped ones
        if centre is not None:
            theta[-1] -= float(theta[:d] @ centre) / rows.intercept
        # a row's slope of 1 moves its own score by ⟨x, (∇²J)⁻¹x⟩, at most as if columns had nothing in common
        held = problem.n * weighted_moments(moments, rows, weights, explained)
        leverage = float((held / (problem.loss.smoothness(Domain()) * held + self.regularisation)).sum())
        anchor = float(found[-1]) * rows.intercept
        noise = self.place_multiplier, self.recalibration_multiplier
        return (yield from recalibrated(problem, theta, *noise, leverage, anchor, self.least_scale))


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
