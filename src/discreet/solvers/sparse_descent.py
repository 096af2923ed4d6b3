"""Projected descent whose gradient estimator is a private sparse mean.

A linear model's gradient on a row with s entries has s entries, so the mean gradient is a mean of s-sparse vectors of
length ≤ C. Each step releases the sum of clipped gradients under Gaussian noise; then, without touching a row,

    G = P(noisy sum / n),    P the projection on {‖v‖₁ ≤ C√s} ∩ {‖v‖₂ ≤ C}, or soft thresholding before it,

has an error of at most e = √(C√s·τ·√(2 ln d)) where the noisy mean itself has τ√d, τ = ν·C/n (Ghazi, Guzmán, Kamath,
Kumar and Manurangsi 2024; `discreet.solvers.parts.sparse_means`). Its error is biased, so convex losses pay for it as
D·e rather than for its square: `theory.sparse_descent_smooth`, and `theory.sparse_stationarity` for losses that are not
convex.

That is about every sparse loss. The noise of a gradient changes the scores of a linear model by τ·‖x‖ whatever d is,
and T projected gradients of noise √T·κC/n each have more error than the projection of their mean, whose noise is that
of *one* release, κC/n. So ``"lazy"`` projects the mean of all gradients so far, itself a mean of s-sparse vectors:

    θ_{t+1} = Π(θ_0 − η·(t + 1)·P(mean of the noisy gradients 0 … t)),

dual averaging on a sparse mean. Offset and scale are fitted around the descent
(`discreet.solvers.parts.recalibration`).

Under Gaussian noise the sparsity s enters the projection alone: rows with more entries cost accuracy, never privacy.
For pure ε the noise is Laplace, in proportion to the ℓ1 norm of a row's gradient, so the sparsity is enforced: the s
largest entries of a row are kept (`discreet.queries.sums.sparse_gradient`), and T gradients cost T times one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.geometry.base import Projectable
from discreet.measurements import Noisy, Sampling
from discreet.mechanisms import Gaussian, Laplace
from discreet.queries.largest_entries import LargestEntries
from discreet.queries.sums.gradient import GradientSum
from discreet.queries.sums.sparse_gradient import SparseGradientSum
from discreet.solvers.base import Problem, Steps
from discreet.solvers.parts.public_draws import public_uniform
from discreet.solvers.parts.recalibration import Recalibration
from discreet.solvers.parts.shrinkage import best_threshold, soft
from discreet.solvers.parts.sparse_means import gradient_entries, project, projecting_helps

__all__ = ["Estimator", "Iterate", "Noise", "SparseDescent"]

Estimator = Literal["lazy", "auto", "projection", "threshold"]
Iterate = Literal["average", "last", "random"]
Noise = Literal["gaussian", "laplace"]


@dataclass(frozen=True)
class SparseDescent:
    """θ ← Π(θ − η·(G + ridge·θ)), ``iterations`` times.

    Args:
        noise_multiplier: noise over ``clip`` in each sum; 0 is projected gradient descent.
        iterations: number of steps.
        clip: ℓ2 bound C on a row's gradient.
        step: η.
        sparsity: most non-zero entries of a row, declared public.
        estimator: ``"lazy"``: projection of the mean of all gradients so far; or of each gradient: ``"projection"``;
            ``"threshold"``: soft thresholding at the level that the noisy gradient itself shows to be best, then
            projection; ``"auto"``: projection where it is proved to help.
        sampling: batches; None takes all rows each step.
        iterate: the ``"average"`` of the points stepped to, the ``"last"``, or for losses that are not convex a
            uniformly ``"random"`` one of the points stepped from, which is nearly stationary in expectation.
        seed: public seed of the random iterate.
        recalibration_multiplier: noise of the fits of offset and scale before and after, were they one release; 0
            leaves them out.
        noise: ``"gaussian"``, or ``"laplace"`` for pure ε, whose multiplier is over √entries·clip, the ℓ1 bound.
    """

    noise_multiplier: float
    iterations: int
    clip: float
    step: float
    sparsity: int
    estimator: Estimator = "auto"
    sampling: Sampling | None = None
    iterate: Iterate = "average"
    seed: int = 0
    recalibration_multiplier: float = 0.0
    noise: Noise = "gaussian"

    def __post_init__(self) -> None:
        for name in ("iterations", "sparsity"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be at least 1, got {getattr(self, name)!r}.")
        if not (0 < self.step < math.inf and self.clip > 0 and (self.clip < math.inf or not self.noise_multiplier)):
            raise InvalidInput(f"step and clip must be positive and finite, got {self.step!r} and {self.clip!r}.")
        for name, value, kinds in (
            ("estimator", self.estimator, get_args(Estimator)),
            ("iterate", self.iterate, get_args(Iterate)),
            ("noise", self.noise, get_args(Noise)),
        ):
            if value not in kinds:
                raise InvalidInput(f"{name} must be one of {', '.join(map(repr, kinds))}, got {value!r}.")

    def steps(self, problem: Problem) -> Steps:
        """One noisy sum a step; before and after them the fits of offset and scale, if asked for."""
        fits = Recalibration(self.recalibration_multiplier) if self.recalibration_multiplier else None
        start = (yield from fits.before(problem)) if fits else problem.start
        theta = yield from self._descent(problem, start.ravel())
        if fits:
            # T steps of size η/n along a row move its own score by at most ηT·radius²/n
            theta = yield from fits.after(problem, theta, self.step * self.iterations * problem.rows.radius**2)
        return theta.reshape(problem.rows.shape)

    def _descent(self, problem: Problem, start: NDArray[np.float64]) -> Steps:
        if not isinstance(problem.domain, Projectable):
            raise InvalidInput(f"{type(problem.domain).__name__} has no projection; descent needs one.")
        theta = kept = start
        total, pull = np.zeros_like(start), np.zeros_like(start)  # of gradients and of the ridge, all steps together
        kept_entries = LargestEntries(problem.rows, self.sparsity)
        for t in range(self.iterations):
            answer = yield self._gradient(problem, theta.reshape(problem.rows.shape), kept_entries)
            if self.iterate == "random" and public_uniform(self.seed, "iterate", t) * (t + 1) < 1:
                kept = theta  # each of t + 1 points is then the kept one with equal probability
            if self.estimator == "lazy":
                total, pull = total + answer.ravel() / self._rows(problem), pull + problem.ridge * theta
                mean = self._projected(total / (t + 1), problem)
                moved = start - self.step * ((t + 1) * mean + pull)
            else:
                gradient = self.estimate(answer.ravel(), problem) + problem.ridge * theta
                moved = theta - self.step * gradient
            theta = np.asarray(problem.domain.project(moved))
            if self.iterate == "average":
                kept = kept + (theta - kept) / (t + 1)
        return theta if self.iterate == "last" else kept

    def _gradient(self, problem: Problem, theta: NDArray[np.float64], through: LargestEntries) -> Noisy:
        if self.noise == "laplace" and self.noise_multiplier:
            query = SparseGradientSum(problem.rows, problem.loss, theta, self.clip, through)
            return Noisy(query, Laplace(self.noise_multiplier), self.sampling)
        dense = GradientSum(problem.rows, problem.loss, theta, self.clip)
        return Noisy(dense, Gaussian(self.noise_multiplier), self.sampling)

    def noise_std(self, problem: Problem) -> float:
        """Standard deviation of the noise in each coordinate of a mean gradient."""
        bound = self.clip
        if self.noise == "laplace":
            bound *= math.sqrt(2 * gradient_entries(problem, self.sparsity))
        return self.noise_multiplier * bound / self._rows(problem) if self.noise_multiplier else 0.0

    def _rows(self, problem: Problem) -> float:
        return self.sampling.expected_rows(problem.n) if self.sampling else problem.n

    def estimate(self, total: NDArray[np.float64], problem: Problem) -> NDArray[np.float64]:
        """G from a noisy sum: post-processing."""
        mean, noise = total / self._rows(problem), self.noise_std(problem)
        if self.estimator == "auto" and not projecting_helps(problem, self.sparsity, self.clip, noise, self.noise):
            return np.asarray(mean)
        if self.estimator == "threshold" and noise:
            scale = noise / math.sqrt(2) if self.noise == "laplace" else noise
            mean = soft(mean, best_threshold(mean, scale, self.noise))
        return self._projected(mean, problem)

    def _projected(self, mean: NDArray[np.float64], problem: Problem) -> NDArray[np.float64]:
        return project(mean, self.clip, gradient_entries(problem, self.sparsity))
