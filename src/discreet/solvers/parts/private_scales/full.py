"""The full second moment: gradients through the damped inverse of a noisy XᵀX, a private Newton method.

With β the largest curvature of the loss, β·XᵀX/n bounds the Hessian of the mean loss from above (Böhning–Lindsay 1988;
with squared loss it *is* the Hessian; with several outputs the same holds for every output, β = ½ for softmax), so

    θ ← θ − (β·X̂ᵀX/n + ridge + λ)⁻¹ ĝ(θ)

descends without a step size. Errors in X̂ᵀX change the speed, not the point where the gradient vanishes. Sufficient
statistics do not have this property: there the noise E of XᵀX enters the answer as Eθ with ‖E‖ ∝ r²; here the answer
depends on gradients, whose residuals shrink and are clipped. λ is the spectral norm of the noise in X̂ᵀX (and a little
more, for few rows), so that noise is not mistaken for curvature; T steps with damping λ filter curvature w like
1 − (λ/(w + λ))^T, about a ridge of λ/T, which matters in directions of little curvature alone. In the others each
iterate is θ* plus fresh noise, and an average over iterates removes most of it. Over a set the result is the projection
in the metric β·X̂ᵀX/n + λ/T: the quadratic that the steps have minimised, minimised over the set, which releases
nothing more.

Counts are coded as shares of their public bound, which is often far above most of them. Their mean m is released first:
steps begin at the constant model of mean m, and slopes are clipped, and curvature is bounded, by a multiple of m.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from discreet.errors import InvalidInput
from discreet.geometry.base import Projectable
from discreet.geometry.whole_space import WholeSpace
from discreet.measurements import Measurement, Noisy
from discreet.mechanisms import Gaussian
from discreet.queries.minimiser.problem import project
from discreet.queries.sums.moments import SecondMoment
from discreet.queries.sums.residual import ResidualSum
from discreet.solvers.base import Problem
from discreet.solvers.parts.metric_projection import metric_projection
from discreet.solvers.parts.private_scales.base import Array, Coordinates

__all__ = ["Full", "Whitened", "damped_inverse"]

_PSEUDO_INVERSE = 1e-13  # eigenvalues below this share of the largest are rounding errors


@dataclass(frozen=True)
class Full:
    """One Gaussian release of XᵀX.

    Args:
        moment_multiplier: noise over r² in XᵀX, r the length of a row; 0 without privacy.
        curvature: β, the largest curvature of the loss over attainable scores.
        damping: λ as a multiple of the norm of the noise in X̂ᵀX.
        prior_rows: the ridge λ/T is raised by that of so many further rows in every direction with targets at 0: a
            prior against the sampling error of weak directions, which fades as n grows.
        target_multiplier: noise over the bound in the sum of targets from 0 to 1; 0 releases none.
        target_reach: clips and curvature are in units of so many means of the targets, at most their bound.
    """

    moment_multiplier: float
    curvature: float
    damping: float = 1.0
    prior_rows: float = 0.0
    target_multiplier: float = 0.0
    target_reach: float = 1.0
    kind: str = field(default="full", init=False)

    def __post_init__(self) -> None:
        for name in ("curvature", "damping"):
            if not 0 < getattr(self, name) < math.inf:
                raise InvalidInput(f"{name} must be positive and finite, got {getattr(self, name)!r}.")

    def check(self, problem: Problem) -> None:
        """Refuses a set without a projection."""
        if not isinstance(problem.domain, Projectable):
            raise InvalidInput(
                f"steps through a second moment end with a projection on the constraint, which "
                f"{type(problem.domain).__name__} does not have; use solver='frank_wolfe'."
            )

    def released(self, problem: Problem, iterations: int) -> Generator[Measurement, Any, Whitened]:
        """The second moment, and the coordinates for ``iterations`` steps."""
        self.check(problem)
        mean = (yield from self._target_mean(problem)) if self.target_multiplier else None
        scale = 1.0 if mean is None else min(1.0, self.target_reach * mean)
        moment = SecondMoment(problem.rows)
        packed = yield Noisy(moment, Gaussian(self.moment_multiplier))
        curvature, added = self.curvature * scale, self.added_curvature(problem, iterations) * scale
        hessian = curvature / problem.n * moment.matrix(packed)
        return Whitened(problem, hessian, curvature, added, iterations, mean, scale)

    def _target_mean(self, problem: Problem) -> Generator[Measurement, Any, float]:
        """The mean of targets from 0 to 1, at least the standard deviation of its noise: one release."""
        total = yield Noisy(ResidualSum(problem.rows, problem.start, 1.0), Gaussian(self.target_multiplier))
        return min(1.0, max(float(total), self.target_multiplier, 1.0) / problem.n)

    def added_curvature(self, problem: Problem, iterations: int) -> float:
        """λ in units of the mean loss's Hessian, from public facts: β/n·(damping·‖noise‖ + prior_rows·T·r²)."""
        if not self.moment_multiplier:
            return 0.0
        noise = SecondMoment(problem.rows).noise_norm(self.moment_multiplier)
        prior = self.prior_rows * iterations * problem.rows.radius**2
        return self.curvature / problem.n * (self.damping * noise + prior)


@dataclass(frozen=True, eq=False)
class Whitened(Coordinates):
    """The user's own columns, with directions through the damped inverse of a noisy bound on the Hessian.

    Args:
        problem: public facts.
        hessian: β·X̂ᵀX/n, the same for every output.
        curvature: β.
        added: λ.
        iterations: T, the number of steps that are taken.
        mean: of the targets, where it was released.
        target_scale: in which clips are measured.
    """

    problem: Problem
    hessian: Array
    curvature: float
    added: float
    iterations: int
    mean: float | None = None
    target_scale: float = 1.0

    @property
    def start(self) -> Array:
        """The model of all 0; for counts whose mean is known, the constant model of that mean."""
        start = self.problem.start
        if self.mean is not None:
            start[-1] = math.log(self.mean) / self.problem.rows.intercept
        return start

    def direction(self, gradient: Array, theta: Array) -> Array:
        """(β·X̂ᵀX/n + ridge + λ)⁻¹(g + ridge·θ), output by output."""
        whole = gradient + self.problem.ridge * theta
        return np.asarray(self._inverse @ whole if whole.ndim == 1 else whole @ self._inverse)

    def coefficients(self, theta: Array) -> Array:
        """θ, or the minimiser over the user's set of the quadratic about θ that T damped steps have minimised."""
        flat = theta.ravel()
        domain = self.problem.domain
        if isinstance(domain, WholeSpace) or np.array_equal(project(domain, flat), flat):
            return theta
        shift = self.problem.ridge + self.added / self.iterations
        metric = _positive_part(self.hessian) + shift * np.eye(len(self.hessian))
        whole = np.asarray(np.kron(np.eye(self.problem.rows.outputs), metric), dtype=np.float64)
        return metric_projection(domain, flat, whole).reshape(theta.shape)

    @property
    def leverage(self) -> float:
        """tr(X̂ᵀX/n·inverse), at most d/β."""
        return float((_positive_part(self.hessian) * self._inverse).sum()) / self.curvature

    @cached_property
    def _inverse(self) -> Array:
        return damped_inverse(self.hessian, self.problem.ridge, self.added)


def damped_inverse(curvature: Array, ridge: float, damping: float) -> Array:
    """(curvature₊ + ridge + damping)⁻¹, negative eigenvalues set to 0, a pseudo-inverse where nothing is added."""
    if not curvature.any() and ridge + damping > 0:  # a rehearsal's, however many its columns
        return np.eye(len(curvature)) / (ridge + damping)
    values, vectors = np.linalg.eigh(curvature)
    values = np.maximum(values, 0.0) + ridge + damping
    kept = values > _PSEUDO_INVERSE * max(values[-1], 1e-300)
    inverse = np.where(kept, 1.0 / np.where(kept, values, 1.0), 0.0)
    return np.asarray((vectors * inverse) @ vectors.T)


def _positive_part(matrix: Array) -> Array:
    """The nearest positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
