"""Descent on rows whose columns are weighted by privately estimated second moments: for bags of words.

Three kinds of Gaussian releases, whose shares of the budget are fixed beforehand:

1. *second moments* f_j = (1/n) Σ x_j² of the columns (`discreet.solvers.parts.column_weights`);
2. *gradients* of rows weighted by w_j = (f_j + τ)^−½ and clipped anew. In a gradient sum a column's chance variance is
   n·f_j/4 (slopes are ½) and the noise's (νC)²: τ is a quarter of what makes them equal. Below τ nothing is gained by
   more weight, above it columns are brought to one scale;
3. *scale and offset* by two histograms of the scores found (`discreet.solvers.parts.recalibration`): few steps on noisy
   gradients need not have found the length of θ, nor the boundary between two classes of unequal size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.errors import InvalidInput
from discreet.measurements import Noisy
from discreet.mechanisms import Gaussian
from discreet.queries.mapped import ColumnWeights, Mapped
from discreet.queries.sums.gradient import GradientSum
from discreet.solvers.base import Problem, Steps
from discreet.solvers.parts.column_weights import column_weights, lengthening, released_moments
from discreet.solvers.parts.recalibration import NUMBERS as RECALIBRATION
from discreet.solvers.parts.recalibration import recalibrated
from discreet.solvers.parts.requirements import require_unconstrained
from discreet.tuned import current

__all__ = ["Reweighted", "check"]


@dataclass(frozen=True)
class Reweighted:
    """Second moments of the columns, weighted gradients, then a fit of scale and offset.

    Args:
        noise_multiplier: noise over ``clip`` in each gradient; 0 runs without privacy.
        moment_multiplier: noise over the bound of `ColumnSecondMoment`.
        recalibration_multiplier: noise of the fit of scale and offset, were it one release; 0 without privacy.
        iterations: number of gradients.
        clip: ℓ2 bound on a weighted row's gradient.
        step: step size in the weighted coordinates.
        damping: τ in units of the squared row norm.
        spread: see `ColumnSecondMoment`.
        recalibrated: whether scale and offset are fitted anew after the last step.
    """

    noise_multiplier: float
    moment_multiplier: float
    recalibration_multiplier: float
    iterations: int
    clip: float
    step: float
    damping: float
    spread: float
    recalibrated: bool = True

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise InvalidInput(f"iterations must be at least 1, got {self.iterations}.")
        for name in ("clip", "step", "damping"):
            if not 0 < getattr(self, name) < math.inf:
                raise InvalidInput(f"{name} must be positive and finite, got {getattr(self, name)!r}.")

    def steps(self, problem: Problem) -> Steps:
        """1 + iterations + 2 releases."""
        check(problem)
        rows, d = problem.rows, problem.rows.n_features
        moments = yield from released_moments(problem, self.moment_multiplier, self.spread)
        weights, shorten = column_weights(moments, rows, self.damping, 0.5), 1 / lengthening()
        through = ColumnWeights(rows, weights)
        inner = problem.ridge * (shorten * weights) ** 2  # the ridge is on θ itself
        theta = problem.start
        for _ in range(self.iterations):
            query = Mapped(GradientSum(rows, problem.loss, theta, self.clip), through)
            total = yield Noisy(query, Gaussian(self.noise_multiplier))
            gradient = total / problem.n
            gradient[..., :d] += inner * theta[..., :d]
            theta = theta - self.step * gradient
        found = theta.copy()
        found[..., :d] *= shorten * weights
        if not (self.recalibrated and self.recalibration_multiplier):
            return found
        share = current(RECALIBRATION).place_share
        place, fit = (self.recalibration_multiplier / math.sqrt(part) for part in (share, 1 - share))
        # T steps of size η/n along a row move its own score by at most ηT·radius²/n
        leverage = self.step * self.iterations * rows.radius**2
        return (yield from recalibrated(problem, found, place, fit, leverage, float(found[-1]) * rows.intercept))


def check(problem: Problem) -> None:
    """Refuses a constraint."""
    require_unconstrained(problem, "reweighted descent", "descent")
