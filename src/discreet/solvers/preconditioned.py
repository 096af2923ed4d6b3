"""Noisy gradient descent preconditioned by a noisy second moment: a private Newton method for linear models.

Releases: XᵀX once, with a small share of the budget, then one clipped gradient sum a step; all Gaussian. With β the
smoothness of the loss, β·XᵀX/n bounds the Hessian of the mean loss from above (Böhning–Lindsay 1988; with squared loss
it *is* the Hessian), so

    θ ← θ − (β·X̂ᵀX/n + ridge + λ)⁻¹ ĝ(θ)

descends without a step size. Errors in the preconditioner change the speed, not the point where the gradient vanishes.
This is what sufficient statistics lack: there the noise E of XᵀX enters the answer as Eθ with ‖E‖ ∝ r²; here it is
gradients, whose residuals shrink and are clipped, that decide. λ is the spectral norm of the noise in the
preconditioner (and a little more, for few rows), so that no direction is trusted whose curvature the noise could have
made up; T steps with damping λ filter curvature w like 1 − (λ/(w + λ))^T, a ridge of about λ/T that weak directions
feel and strong ones do not. In strong directions each iterate is θ* plus fresh noise, and the average of the last half
removes most of it. Over a set the result is the point nearest to that average in the metric β·X̂ᵀX/n + λ/T: the
quadratic that the steps have minimised, minimised over the set, which releases nothing more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee, rough_multiplier
from discreet.errors import InvalidInput
from discreet.geometry.base import Projectable
from discreet.geometry.whole_space import WholeSpace
from discreet.losses import Squared
from discreet.losses.base import Domain
from discreet.measurements import Noisy
from discreet.mechanisms import Gaussian
from discreet.queries.minimiser.problem import project
from discreet.queries.sums.gradient import GradientSum
from discreet.queries.sums.moments import SecondMoment
from discreet.solvers.base import Problem, Steps
from discreet.solvers.hard_threshold import slope_at_zero
from discreet.solvers.parts.metric_projection import nearest

__all__ = ["Preconditioned", "default"]

# constants are from bench/defaults.py
_STEPS_PER_ROOT_DIMENSION, _MOST_ITERATIONS = 18, 256
_SHARE = 0.1
_LEAST_CLIP, _CLIP_AT_NOISE = 0.25, 0.03
_REFINEMENTS = 8  # without noise one Newton step solves least squares, the rest refine it
_EXACT_ITERATIONS = 1000  # other losses converge linearly
_PSEUDO_INVERSE = 1e-13
_DAMPING = 1.5
_FAINT = 0.1
"""The ridge λ/T grows by 1 + s/0.1 with the noise s = √min(d, n)·σ/n in the mean gradient over its bound, first by
fewer steps, then by more damping: what cannot be told from noise is not fitted, and the prediction falls back to the
middle of the targets' bounds."""
_PRIOR_ROWS = 2.0
"""Little noise, few rows: what remains is the sampling error of weak directions. The ridge λ/T is then at least that of
two further rows in every direction with targets at 0, a prior that fades as n grows."""


@dataclass(frozen=True)
class Preconditioned:
    """One noisy XᵀX, then ``iterations`` noisy gradients through its damped inverse; the last half is averaged.

    Args:
        noise_multiplier: noise over ``clip`` in each gradient; 0 is a Newton or bound-optimisation method.
        moment_multiplier: noise over r² in XᵀX, r the length of a row; 0 only together with ``noise_multiplier`` 0.
        iterations: number of gradients.
        clip: ℓ2 bound on a row's gradient.
        damping: λ as a multiple of the norm of the noise in the preconditioner.
    """

    noise_multiplier: float
    moment_multiplier: float
    iterations: int
    clip: float
    damping: float = 1.0

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise InvalidInput(f"iterations must be at least 1, got {self.iterations}.")
        if not 0 < self.damping < math.inf:
            raise InvalidInput(f"damping must be positive and finite, got {self.damping!r}.")

    def steps(self, problem: Problem) -> Steps:
        """Curvature first, then gradients."""
        smoothness = _smoothness(problem)
        rows, n = problem.rows, problem.n
        moment = SecondMoment(rows)
        packed = yield Noisy(moment, Gaussian(self.moment_multiplier))
        curvature = smoothness / n * moment.matrix(packed)
        solve = _damped_inverse(curvature, problem.ridge, self.added_curvature(problem))

        theta, mean, kept = problem.start, problem.start, 0
        for t in range(self.iterations):
            query = GradientSum(rows, problem.loss, theta, self.clip)
            total = yield Noisy(query, Gaussian(self.noise_multiplier))
            theta = theta - solve @ (total / n + problem.ridge * theta)
            if 2 * (t + 1) > self.iterations:
                kept += 1
                mean = mean + (theta - mean) / kept
        if isinstance(problem.domain, WholeSpace) or np.array_equal(project(problem.domain, mean), mean):
            return mean
        shift = problem.ridge + self.added_curvature(problem) / self.iterations
        return nearest(problem.domain, mean, _positive_part(curvature) + shift * np.eye(len(mean)))

    def added_curvature(self, problem: Problem) -> float:
        """λ in units of the mean loss's Hessian: public."""
        if not self.moment_multiplier:
            return 0.0
        noise = SecondMoment(problem.rows).noise_norm(self.moment_multiplier)
        prior = _PRIOR_ROWS * self.iterations * problem.rows.radius**2
        return _smoothness(problem) / problem.n * (self.damping * noise + prior)


def _damped_inverse(curvature: NDArray[np.float64], ridge: float, damping: float) -> NDArray[np.float64]:
    """(curvature₊ + ridge + damping)⁻¹, negative eigenvalues set to 0, a pseudo-inverse where nothing is added."""
    if not curvature.any() and ridge + damping > 0:  # a rehearsal's, however many its columns
        return np.eye(len(curvature)) / (ridge + damping)
    values, vectors = np.linalg.eigh(curvature)
    values = np.maximum(values, 0.0) + ridge + damping
    kept = values > _PSEUDO_INVERSE * max(values[-1], 1e-300)
    inverse = np.where(kept, 1.0 / np.where(kept, values, 1.0), 0.0)
    return np.asarray((vectors * inverse) @ vectors.T)


def _positive_part(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _smoothness(problem: Problem) -> float:
    smoothness = problem.loss.smoothness(Domain())
    if not math.isfinite(smoothness) or problem.rows.outputs != 1:
        raise InvalidInput(
            f"{type(problem.loss).__name__} loss with {problem.rows.outputs} outputs has no curvature bound that a "
            "second moment could give; use solver='descent'."
        )
    if not isinstance(problem.domain, Projectable):
        raise InvalidInput(
            f"preconditioned steps end with a projection on the constraint, which {type(problem.domain).__name__} does "
            "not have; use solver='frank_wolfe'."
        )
    return smoothness


def default(
    problem: Problem,
    guarantee: Guarantee,
    *,
    target_bound: float | None = None,
    clip: float | None = None,
    iterations: int | None = None,
    share: float | None = None,
    damping: float | None = None,
) -> Preconditioned:
    """The private Newton method with the least noise that keeps the guarantee.

    Args:
        problem: a smooth loss with one output; a constraint must have a projection.
        guarantee: what must be kept.
        target_bound: public bound on |y|, from which the clip comes; targets beyond it are allowed. None takes 1.
        clip: ℓ2 bound on a row's gradient; None takes between r·L/4 and r·L, L the largest |slope| at
            θ = 0, the less the more noise.
        iterations: None takes 18√d, at most 256, and fewer under much noise; without privacy 8 for squared loss, else
            1000.
        share: of the budget (in 1/σ²) for XᵀX; None takes 0.1.
        damping: see `Preconditioned`; None takes 1.5, or more where one step would still fit noise.

    Raises:
        InvalidInput: a share outside (0, 1), a loss without smoothness, a set without projection, or both clip and
            target_bound.
    """
    part = _SHARE if share is None else share
    if not 0 < part < 1:
        raise InvalidInput(f"share must be in (0, 1), got {share!r}.")
    if clip is not None and target_bound is not None:
        raise InvalidInput("target_bound chooses the clip, which was given too: leave one out.")
    SecondMoment(problem.rows)  # refuses what is too wide, before anything is chosen
    most, excess = _steps(problem, guarantee), _held_back(problem, guarantee)
    steps = max(1, math.ceil(most / excess)) if iterations is None else iterations
    held = _DAMPING * max(1.0, excess / most) if damping is None else damping
    largest = problem.rows.radius * slope_at_zero(problem, 1.0 if target_bound is None else target_bound)

    def make(noise: float) -> Preconditioned:
        return Preconditioned(
            noise_multiplier=noise * math.sqrt(steps / (1 - part)),
            moment_multiplier=noise / math.sqrt(part),
            iterations=steps,
            clip=clip if clip is not None else largest * _clip_share(problem, noise) if guarantee.private else math.inf,
            damping=held,
        )

    return calibrated(make, problem, guarantee)


def _steps(problem: Problem, guarantee: Guarantee) -> int:
    """T = 18√d, so that the ridge λ/T meets the noise of the gradients whatever the budget.

    Directions of curvature below τ/|θ_j| drown in the gradients' noise τ = C/μ. λ = √(2d)·r²/(μ√share) is in proportion
    to τ, and |θ_j| ≈ ‖θ‖/√d, so λ/T = τ/|θ_j| asks for T ∝ r‖θ‖; scores of the size of the targets from rows whose
    variance is spread over d directions have r‖θ‖ ∝ √d. The constant is from simulations.
    """
    if not guarantee.private:
        return _REFINEMENTS if isinstance(problem.loss, Squared) else _EXACT_ITERATIONS
    return min(_MOST_ITERATIONS, math.ceil(_STEPS_PER_ROOT_DIMENSION * math.sqrt(problem.rows.dimension)))


def _held_back(problem: Problem, guarantee: Guarantee) -> float:
    """By how much the ridge λ/T is raised for noise; about 1 where there is little."""
    if not guarantee.private:
        return 1.0
    d = problem.rows.dimension
    return 1 + math.sqrt(min(d, problem.n)) * rough_multiplier(guarantee) / (_FAINT * problem.n)


def _clip_share(problem: Problem, noise: float) -> float:
    """The clip over the largest gradient at θ = 0: a quarter under much noise, all of it under little.

    A clipped residual makes squared loss a Huber loss: biased toward the median, but with less noise in proportion. The
    noise in the mean gradient, as a share of its clip, is ν = √d·σ/n; the bias does not shrink with n, so the clip
    grows like ν^−½ (the constant is from simulations).
    """
    return min(1.0, max(_LEAST_CLIP, _CLIP_AT_NOISE / math.sqrt(math.sqrt(problem.rows.dimension) * noise / problem.n)))
