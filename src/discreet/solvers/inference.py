"""Coefficients with a covariance, from released values alone: for intervals, contrasts and tests.

    M  = Σxxᵀ                                        whitens: z = Wx, weights w = min(1, R²/‖z‖²) from x alone
    σ or μ = the spread of residuals, or the mean count   numbers: where slopes are cut; counts: the cap
    c  = one damped step from the gradient           numbers and counts: the ridge is about it
    η  = argmin Σwℓ(⟨z, η⟩, y) + (λ/2)‖η − c‖² + ⟨b, η⟩
    H  = Σwκzzᵀ at η
    v  = Σψ² and Σψ', and for robust intervals V = Σw²a²zzᵀ, at η
    A  = the mean of the mean's slope, at the estimate   classes and counts: average marginal effects

Then the ridge's bias is removed and the covariance is that of rows and noise together (`parts.debiasing`). Weights that
depend on x alone leave a well specified model unbiased. Releases: Gaussians and one `events.ObjectivePerturbation`; the
plan does not depend on any answer. Maths and proofs: ``docs/maths/intervals.md``.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.losses import CappedPoisson, Domain, Huber, Logistic, Loss, Poisson, Squared
from discreet.measurements import Measurement, Noisy
from discreet.measurements.perturbed_minimum import PerturbedMinimum
from discreet.mechanisms import Gaussian
from discreet.queries.base import Query
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.queries.sums.moments import CrossMoment, SecondMoment, TargetMoment
from discreet.queries.whitened import Role
from discreet.solvers.base import Problem, Steps
from discreet.solvers.parts.average_slope import AverageSlope, average_slope, working_sum
from discreet.solvers.parts.count_cap import best_cap
from discreet.solvers.parts.debiasing import Debiased, debiased
from discreet.solvers.parts.requirements import require_no_ridge, require_unconstrained
from discreet.solvers.parts.tolerance import public_tolerance
from discreet.solvers.parts.whitening import Coordinates, whitened

__all__ = ["Estimate", "Inference", "check"]

Array = NDArray[np.float64]
_LARGEST_RESIDUAL = 1.0  # of targets coded to [−1, 1]: residuals beyond half of their range are cut to it
_COUNTED = 16  # counts up to here enter the mean count that chooses the cap


@dataclass(frozen=True, eq=False)
class Estimate:
    """What the releases say of the coefficients of the given columns.

    Args:
        theta: coefficients, of shape ``rows.shape``; 0 for reference levels.
        covariance: theirs, with zeros for reference levels.
        quality: q of `Debiased`.
        design: which columns were estimated, and which were joined (`parts.whitening.Coordinates`).
        spread: the standard deviation of an error, for least squares; 1 for other models.
        average_slope: for average marginal effects; None for counts without a public bound.
    """

    theta: Array
    covariance: Array
    quality: float
    design: Array
    spread: float = 1.0
    average_slope: AverageSlope | None = None


@dataclass(frozen=True)
class Inference:
    """Second moment, start, perturbed minimiser, Hessian, and what the variance needs; then the debiased estimate.

    Args:
        moment_multiplier: noise over r² in XᵀX, r the length of a row; 0 without privacy.
        scale_multiplier: noise in the spread of residuals or the mean count, over the largest; in each of the two sums
            for the variance and for the average slope, too.
        start_multiplier: noise over the bound on a row's gradient in the first gradient.
        noise_multiplier: scale of the tilt over the bound on a row's gradient.
        hessian_multiplier: noise in the Hessian over the largest curvature of a row.
        score_multiplier: noise in Σggᵀ over the largest ‖g‖², for intervals that hold where the variance's model is
            wrong; 0 leaves it out.
        regularisation: λ, for rows of length 1.
        outlier: slopes of least squares are cut at so many standard deviations of the residuals.
        cap: the cap of counts; 0 takes `parts.count_cap.best_cap` of the mean count.
        deviation: see `ObjectivePerturbation`.
        rows_per_person: the most rows of one person, which may depend on each other: the variance of a sum over rows
            is at most so many times that of independent rows (Cauchy and Schwarz), which is what intervals take.
    """

    moment_multiplier: float
    scale_multiplier: float
    start_multiplier: float
    noise_multiplier: float
    hessian_multiplier: float
    score_multiplier: float
    regularisation: float
    outlier: float
    cap: int
    robust: bool = False
    deviation: float = 1e-3
    rows_per_person: int = 1

    def steps(self, problem: Problem) -> Steps:
        """Between five and ten releases."""
        estimate = yield from self.estimated(problem)
        return estimate.theta

    def estimated(self, problem: Problem) -> Generator[Measurement, Any, Estimate]:
        """All releases, and what they say of the coefficients."""
        check(problem)
        moment = SecondMoment(problem.rows)
        packed = yield Noisy(moment, Gaussian(self.moment_multiplier))
        noise = self.moment_multiplier * problem.rows.radius**2 if self.moment_multiplier else 0.0
        norm = moment.noise_norm(self.moment_multiplier) if self.moment_multiplier else 0.0
        at = whitened(problem, moment.matrix(packed), noise, norm)
        loss, centre, mean = yield from self._started(problem, at)
        query = RidgeMinimiser(
            at.whitening.rows, loss, self.regularisation, through=at.whitening, weighted=bool(self.noise_multiplier)
        )
        pull = self.regularisation * float(np.linalg.norm(centre))
        tolerance = public_tolerance(query, problem.n, self.noise_multiplier, pull) if self.noise_multiplier else 0.0
        eta = yield PerturbedMinimum(query, self.noise_multiplier, self.deviation, tolerance, centre=centre)
        found, spread = yield from self._with_variance(problem, at, query, eta, centre)
        average = yield from average_slope(
            problem, at, query.loss, found, self.scale_multiplier, self.rows_per_person, mean
        )
        theta, covariance = at.given(found.theta), at.given_covariance(found.covariance)
        return Estimate(theta, covariance, found.quality, at.design, spread, average)

    # --- where the ridge is centred, and where slopes are cut ---------------------------------------------------------

    def _started(self, problem: Problem, at: Coordinates) -> Generator[Measurement, Any, tuple[Loss, Array, float]]:
        """(the loss with bounded slopes, the ridge's centre, the mean of counts or 1)."""
        loss, nothing = problem.loss, np.zeros(at.size)
        if not self.noise_multiplier or isinstance(loss, Logistic):
            return loss, nothing, 1.0
        if isinstance(loss, Poisson):
            mean = yield from self._mean_count(problem, at)
            noise = self.noise_multiplier * at.radius / math.sqrt(problem.n)
            counted = CappedPoisson(self.cap or best_cap(mean, noise))
            centre = yield from self._first_step(problem, at, counted, at.constant(math.log(mean)), math.log(mean))
            return counted, centre, mean
        centre = yield from self._first_step(problem, at, Squared(), nothing, 0.0)
        if isinstance(loss, Huber):
            return loss, centre, 1.0
        square = yield self._sum(problem, at, TargetMoment(_LARGEST_RESIDUAL), Squared(), centre, "residual")
        error = self.scale_multiplier * _LARGEST_RESIDUAL**2
        spread = math.sqrt(max(float(square[0]), error) / problem.n)
        return Huber(min(self.outlier * spread, _LARGEST_RESIDUAL)), centre, 1.0

    def _mean_count(self, problem: Problem, at: Coordinates) -> Generator[Measurement, Any, float]:
        """Σ min(y, 16)/n, at least its own error."""
        loss, nothing = CappedPoisson(1), np.zeros(at.size)
        total = yield self._sum(problem, at, TargetMoment(math.sqrt(_COUNTED)), loss, nothing, "root")
        error = self.scale_multiplier * _COUNTED
        return max(float(total[0]), error, 1.0) / problem.n

    def _first_step(
        self, problem: Problem, at: Coordinates, loss: Loss, theta: Array, score: float
    ) -> Generator[Measurement, Any, Array]:
        """One damped step of Newton's from θ, where all scores are ``score``.

        Σwzzᵀ is about n by whitening, so the Hessian is n·κ/R² for rows z/R; the noise in the gradient is added to it.
        A score's root mean square changes by at most 1: beyond, the quadratic says little about counts.
        """
        counts = isinstance(loss, CappedPoisson)
        bound = loss.lipschitz(Domain()) if counts else 1.0
        downhill = yield self._sum(
            problem, at, CrossMoment(at.whitening.rows, bound), loss, theta, "start", self.start_multiplier
        )
        bend = float(loss.curvature(np.array([score]), np.zeros(1))[0])
        step = at.radius**2 * downhill / (problem.n * bend + self.start_multiplier * bound * at.radius)
        length = float(np.linalg.norm(step)) / at.radius
        return np.asarray(theta + step * min(1.0, 1.0 / max(length, 1e-300)))

    # --- the variance -------------------------------------------------------------------------------------------------

    def _with_variance(
        self, problem: Problem, at: Coordinates, query: RidgeMinimiser, eta: Array, centre: Array
    ) -> Generator[Measurement, Any, tuple[Debiased, float]]:
        """The debiased estimate in the whitened coordinates, and the standard deviation of an error."""
        private, loss = bool(self.noise_multiplier), query.loss
        largest = loss.smoothness(Domain()) if private else 1.0
        moment = SecondMoment(at.whitening.rows)
        packed = yield self._sum(problem, at, moment, loss, eta, "curvature", self.hessian_multiplier, largest)
        hessian = largest * moment.matrix(packed)
        variance, spread = yield from self._model_variance(problem, at, loss, eta, hessian)
        if self.robust:
            steepest = loss.lipschitz(Domain()) if private else 1.0
            packed = yield self._sum(problem, at, moment, loss, eta, "score", self.score_multiplier, steepest)
            variance = steepest**2 * moment.matrix(packed)
        noises = (
            (self.noise_multiplier * query.gradient_bound, self.hessian_multiplier * largest) if private else (0, 0)
        )
        variance = self.rows_per_person * variance
        return debiased(eta, self.regularisation * (eta - centre), hessian, variance, *noises), spread

    def _model_variance(
        self, problem: Problem, at: Coordinates, loss: Loss, eta: Array, hessian: Array
    ) -> Generator[Measurement, Any, tuple[Array, float]]:
        """(V by the model, the standard deviation of an error): H over the dispersion's unit, or H·Σψ²/Σψ'."""
        if isinstance(loss, CappedPoisson):
            return hessian / loss.largest_curvature, 1.0
        if not isinstance(loss, Squared | Huber):
            return hessian, 1.0
        bound = loss.width if isinstance(loss, Huber) else math.inf
        square = yield self._sum(problem, at, TargetMoment(bound), loss, eta, "residual")
        inside = yield self._sum(problem, at, TargetMoment(1.0), loss, eta, "inside")
        least = self.scale_multiplier if self.noise_multiplier else 1e-300
        fitted = max(problem.n - at.size, 1.0) / problem.n
        dispersion = max(float(square[0]), least * bound**2 if least > 1e-300 else 0.0)
        dispersion /= max(float(inside[0]), least) * fitted
        return dispersion * hessian, math.sqrt(dispersion)

    def _sum(
        self,
        problem: Problem,
        at: Coordinates,
        query: Query,
        loss: Loss,
        theta: Array,
        role: Role,
        multiplier: float | None = None,
        most: float = 1.0,
    ) -> Noisy:
        """A sum over working rows at θ, with the noise of a scale unless another is given."""
        noise = self.scale_multiplier if multiplier is None else multiplier
        return working_sum(problem, at, query, loss, theta, role, noise, most)


def check(problem: Problem) -> None:
    """Refuses constraints, ridges, several outputs, and losses without a likelihood or an estimating equation."""
    method, other = "inference", "auto"
    require_unconstrained(problem, method, other)
    require_no_ridge(problem, method, other)
    if problem.rows.outputs != 1 or not isinstance(problem.loss, Logistic | Squared | Huber | Poisson):
        raise InvalidInput(
            "intervals are for logistic regression of two classes, linear, Huber and Poisson regression; leave "
            "inference=True out."
        )
