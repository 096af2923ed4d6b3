"""Noisy gradient descent preconditioned by a noisy second moment: a private Newton method for linear models.

Releases: XᵀX once, with a small share of the budget, then one clipped gradient sum a step; all Gaussian. With β the
smoothness of the loss, β·XᵀX/n bounds the Hessian of the mean loss from above (Böhning–Lindsay 1988; with squared loss
it *is* the Hessian), so

    θ ← θ − (β·X̂ᵀX/n + ridge + λ)⁻¹ ĝ(θ)

descends without a step size. Errors in the preconditioner change the speed, not the point where the gradient vanishes.
Sufficient statistics do not have this property: there the noise E of XᵀX enters the answer as Eθ with ‖E‖ ∝ r²; here
the answer depends on gradients, whose residuals shrink and are clipped. λ is the spectral norm of the noise in the
preconditioner (and a little more, for few rows), so that noise is not mistaken for curvature; T steps with damping λ
filter curvature w like 1 − (λ/(w + λ))^T, about a ridge of λ/T, which matters in directions of little curvature alone.
In the others each iterate is θ* plus fresh noise, and the average of the last half removes most of it. Over a set the
result is the projection of that average in the metric β·X̂ᵀX/n + λ/T: the quadratic that the steps have minimised,
minimised over the set, which releases nothing more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.geometry.base import Projectable
from discreet.geometry.whole_space import WholeSpace
from discreet.losses.base import Domain
from discreet.measurements import Noisy
from discreet.mechanisms import Gaussian
from discreet.queries.minimiser.problem import project
from discreet.queries.sums.gradient import GradientSum
from discreet.queries.sums.moments import SecondMoment
from discreet.solvers.base import Problem, Steps
from discreet.solvers.parts.metric_projection import metric_projection

__all__ = ["Preconditioned"]

_PSEUDO_INVERSE = 1e-13  # eigenvalues below this share of the largest are rounding errors


@dataclass(frozen=True)
class Preconditioned:
    """One noisy XᵀX, then ``iterations`` noisy gradients through its damped inverse; the last half is averaged.

    Args:
        noise_multiplier: noise over ``clip`` in each gradient; 0 is a Newton or bound-optimisation method.
        moment_multiplier: noise over r² in XᵀX, r the length of a row; 0 only together with ``noise_multiplier`` 0.
        iterations: number of gradients.
        clip: ℓ2 bound on a row's gradient.
        damping: λ as a multiple of the norm of the noise in the preconditioner.
        prior_rows: the ridge λ/T is raised by that of so many further rows in every direction with targets at 0: a
            prior against the sampling error of weak directions, which fades as n grows.
    """

    noise_multiplier: float
    moment_multiplier: float
    iterations: int
    clip: float
    damping: float = 1.0
    prior_rows: float = 0.0

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise InvalidInput(f"iterations must be at least 1, got {self.iterations}.")
        if not 0 < self.damping < math.inf:
            raise InvalidInput(f"damping must be positive and finite, got {self.damping!r}.")

    def steps(self, problem: Problem) -> Steps:
        """One release of XᵀX, then ``iterations`` noisy gradients; a projection at the end."""
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
        return metric_projection(problem.domain, mean, _positive_part(curvature) + shift * np.eye(len(mean)))

    def added_curvature(self, problem: Problem) -> float:
        """λ in units of the mean loss's Hessian, from public facts: β/n·(damping·‖noise‖ + prior_rows·T·r²)."""
        if not self.moment_multiplier:
            return 0.0
        noise = SecondMoment(problem.rows).noise_norm(self.moment_multiplier)
        prior = self.prior_rows * self.iterations * problem.rows.radius**2
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
    """β, the largest curvature of the loss; refuses what the method cannot do."""
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
