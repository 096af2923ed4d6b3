"""Projected descent whose gradient estimator is a private sparse mean.

A linear model's gradient on a row with s entries has s entries, so the mean gradient is a mean of s-sparse vectors of
length ≤ C. Each step releases the sum of clipped gradients under Gaussian noise; then, without touching a row,

    G = P(noisy sum / n),    P the projection on {‖v‖₁ ≤ C√s} ∩ {‖v‖₂ ≤ C}, or soft thresholding before it,

has an error of at most e = √(C√s·τ·√(2 ln d)) where the noisy mean itself has τ√d, τ = ν·C/n (Ghazi, Guzmán, Kamath,
Kumar and Manurangsi 2024). Its error is biased, so convex losses pay for it as D·e rather than for its square:
`theory.sparse_descent_smooth`, and `theory.sparse_stationarity` for losses that are not convex. Where e ≥ C/2 this
promises little more than the estimate 0 would; ``"auto"`` then leaves the noisy mean as it is, which is unbiased.

The sparsity s enters the projection alone: rows with more entries cost accuracy, never privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.geometry import L1Ball, L2Ball
from discreet.geometry.base import Projectable
from discreet.losses import Domain
from discreet.measurements import FixedSizeSampling, Noisy, PoissonSampling, Sampling
from discreet.mechanisms import Gaussian
from discreet.queries.gradient import GradientSum
from discreet.solvers.base import Problem, Steps
from discreet.solvers.hard_threshold import slope_at_zero
from discreet.solvers.planning import Guarantee, calibrated
from discreet.solvers.shrinkage import best_threshold, soft

__all__ = [
    "SparseDescent",
    "default",
    "largest_of",
    "onto_balls",
    "projecting_helps",
    "public_uniform",
    "sparse_radius",
    "squared_width",
    "steepest",
]

Estimator = Literal["auto", "projection", "threshold"]
Iterate = Literal["average", "last", "random"]


@dataclass(frozen=True)
class SparseDescent:
    """θ ← Π(θ − η·(G + ridge·θ)), ``iterations`` times.

    Args:
        noise_multiplier: noise over ``clip`` in each sum; 0 is projected gradient descent.
        iterations: number of steps.
        clip: ℓ2 bound C on a row's gradient.
        step: η.
        sparsity: most non-zero entries of a row, declared public.
        estimator: ``"projection"``; ``"threshold"``: soft thresholding at the level that the noisy gradient itself
            shows to be best, then projection; or ``"auto"``: projection where it is proved to help.
        sampling: batches; None takes all rows each step.
        iterate: the ``"average"`` of the points stepped to, the ``"last"``, or for losses that are not convex a
            uniformly ``"random"`` one of the points stepped from, which is nearly stationary in expectation.
        seed: public seed of the random iterate.
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

    def __post_init__(self) -> None:
        for name in ("iterations", "sparsity"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be at least 1, got {getattr(self, name)!r}.")
        if not (0 < self.step < math.inf and 0 < self.clip < math.inf):
            raise InvalidInput(f"step and clip must be positive and finite, got {self.step!r} and {self.clip!r}.")
        if self.estimator not in ("auto", "projection", "threshold") or self.iterate not in (
            "average",
            "last",
            "random",
        ):
            raise InvalidInput(
                "estimator must be 'auto', 'projection' or 'threshold' and iterate 'average', 'last' or 'random', got "
                f"{self.estimator!r} and {self.iterate!r}."
            )

    def steps(self, problem: Problem) -> Steps:
        """One noisy sum a step."""
        if not isinstance(problem.domain, Projectable):
            raise InvalidInput(f"{type(problem.domain).__name__} has no projection; descent needs one.")
        shape = problem.rows.shape
        theta = problem.start.ravel()
        kept = theta
        for t in range(self.iterations):
            query = GradientSum(problem.rows, problem.loss, theta.reshape(shape), self.clip)
            total = yield Noisy(query, Gaussian(self.noise_multiplier), self.sampling)
            if self.iterate == "random" and public_uniform(self.seed, "iterate", t) * (t + 1) < 1:
                kept = theta  # each of t + 1 points is then the kept one with equal probability
            gradient = self.estimate(total.ravel(), problem) + problem.ridge * theta
            theta = np.asarray(problem.domain.project(theta - self.step * gradient))
            if self.iterate == "average":
                kept = kept + (theta - kept) / (t + 1)
        return (theta if self.iterate == "last" else kept).reshape(shape)

    def estimate(self, total: NDArray[np.float64], problem: Problem) -> NDArray[np.float64]:
        """G from a noisy sum: post-processing."""
        rows = self.sampling.expected_rows(problem.n) if self.sampling else problem.n
        mean, noise = total / rows, self.noise_multiplier * self.clip / rows
        if self.estimator == "auto" and not projecting_helps(problem, self.sparsity, self.clip, noise):
            return np.asarray(mean)
        if self.estimator == "threshold" and noise:
            mean = soft(mean, best_threshold(mean, noise, "gaussian"))
        return onto_balls(mean, problem, self.sparsity, self.clip)


def onto_balls(mean: NDArray[np.float64], problem: Problem, sparsity: int, clip: float) -> NDArray[np.float64]:
    """The projection on the balls that hold every mean of gradients."""
    return np.asarray(L2Ball(clip).project(L1Ball(sparse_radius(problem, sparsity, clip)).project(mean)))


def projecting_helps(problem: Problem, sparsity: int, clip: float, noise_std: float) -> bool:
    """Whether the proved error is below both C/2, half of what the estimate 0 may be off, and the noise's own τ√d."""
    d = math.prod(problem.rows.shape)
    return bool(squared_width(problem, sparsity, clip, noise_std) < min(clip**2 / 4, d * noise_std**2))


def squared_width(problem: Problem, sparsity: int, clip: float, noise_std: float) -> float:
    """E‖P(m + ξ) − m‖² ≤ C√s·τ·E max|g|."""
    return sparse_radius(problem, sparsity, clip) * noise_std * largest_of(math.prod(problem.rows.shape))


def sparse_radius(problem: Problem, sparsity: int, clip: float) -> float:
    """The ℓ1 ball that holds every mean of gradients: C·√(non-zero entries of a row's gradient)."""
    entries = (sparsity + (problem.rows.intercept > 0)) * problem.rows.outputs
    return clip * math.sqrt(min(entries, math.prod(problem.rows.shape)))


def public_uniform(seed: int, purpose: str, t: int) -> float:
    """A number in [0, 1) that anybody can compute: 53 bits of a hash.

    Example:
        >>> public_uniform(0, "level", 3) == public_uniform(0, "level", 3) != public_uniform(0, "level", 4)
        True
    """
    import hashlib

    digest = hashlib.sha256(f"discreet {purpose} {seed} {t}".encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2.0**53


def steepest(problem: Problem, guarantee: Guarantee, reach: float) -> float:
    """The slope to clip at: the largest at θ = 0, where a fit starts; without privacy the largest of all.

    Slopes beyond are those of rows on the wrong side. A clipped convex loss is a convex loss that is straight there.
    """
    if problem.rows.outputs > 1:
        return math.sqrt(1 - 1 / problem.rows.outputs) if guarantee.private else math.sqrt(2.0)
    if guarantee.private:
        return slope_at_zero(problem, 1.0)
    return problem.loss.lipschitz(Domain(score_bound=reach, target_low=-1.0, target_high=1.0))


@lru_cache(maxsize=64)
def largest_of(d: int) -> float:
    """E max |g_i| over d standard normals."""
    return L1Ball(1.0).gaussian_width(d).value


_REACH = 3.0
"""Scores up to about ±3 are sought: a confidence of 95 %. Public, the same for all data."""

_MOST_ITERATIONS, _EXACT_ITERATIONS = 400, 2000


def default(
    problem: Problem,
    guarantee: Guarantee,
    *,
    sparsity: int | None = None,
    estimator: Estimator = "auto",
    iterations: int | None = None,
    step: float | None = None,
    clip: float | None = None,
    rate: float | None = None,
    batch_size: int | None = None,
    iterate: Iterate = "average",
    seed: int = 0,
) -> SparseDescent:
    """Steps by the proved excess risk where it says anything, else by the noise in scores; noise from the accountant.

    With T steps of size 1/β and the noise √T·κ·C/n, averaging gives at most βD²/(2T) + D·e(T) (`theory.
    sparse_descent_smooth`), e(T)² = C√s·τ·E max|g|, τ = √T·κC/n. T is the best of those of 1 … 400 with e(T) < C/2.
    Where there is none, nothing is projected, and T steps move scores by noise of variance (ηTκC/n)²·radius² whatever d
    is: (ηT)³ = D²n²/(2β·κ²C²) is best, as in `discreet.solvers.reweighted`. D = 3/radius, or the domain's diameter.

    Args:
        problem: public facts.
        guarantee: what to keep; ε = ∞ runs without noise.
        sparsity: most non-zero entries of a row; by default nothing is assumed, and the ℓ2 ball alone projects.
        estimator: ``"projection"`` or ``"threshold"``.
        iterations: number of steps.
        step: step size.
        clip: ℓ2 bound on a row's gradient; by default that of the largest slope at θ = 0.
        rate: Poisson sampling rate of batches.
        batch_size: fixed-size batches (replace-one only).
        iterate: ``"average"``, ``"last"`` or, for losses that are not convex, ``"random"``.
        seed: public seed of the random iterate.

    Raises:
        InvalidInput: rows are unbounded, both kinds of batches, or pure DP.
    """
    rows = problem.rows
    if not rows.bounded:
        raise InvalidInput("sparse descent needs rows of bounded length: give row_norm.")
    if rate is not None and batch_size is not None:
        raise InvalidInput("give rate (Poisson batches) or batch_size (fixed-size batches), not both.")
    sampling: Sampling | None = None
    if rate is not None:
        sampling = PoissonSampling(rate)
    elif batch_size is not None:
        sampling = FixedSizeSampling(batch_size, round(problem.n))
    domain = Domain(score_bound=_REACH, target_low=-1.0, target_high=1.0)
    slope = steepest(problem, guarantee, _REACH)
    bound = rows.radius * slope if clip is None else clip
    entries = rows.dimension if sparsity is None else sparsity
    smoothness = problem.loss.smoothness(domain)
    beta = (smoothness if math.isfinite(smoothness) else slope / 0.1) * rows.radius**2 + problem.ridge
    size = 1 / beta if step is None else step

    def make(noise: float, count: int) -> SparseDescent:
        return SparseDescent(noise, count, bound, size, entries, estimator, sampling, iterate, seed)

    if not guarantee.private:
        return make(0.0, _EXACT_ITERATIONS if iterations is None else iterations)
    once = calibrated(lambda noise: SparseDescent(noise, 1, bound, size, entries), problem, guarantee)
    noise_std = once.noise_multiplier * bound / problem.n
    distance = min(problem.domain.diameter(math.prod(rows.shape)), _REACH / rows.radius)

    def error(count: int) -> float:
        return math.sqrt(squared_width(problem, entries, bound, math.sqrt(count) * noise_std))

    most = range(1, _MOST_ITERATIONS + 1) if iterations is None else [iterations]
    proved = [T for T in most if projecting_helps(problem, entries, bound, math.sqrt(T) * noise_std)]
    if proved or estimator != "auto":
        iterations = min(proved or most, key=lambda T: beta * distance / (2 * T) + error(T))
    else:
        travel = (distance**2 / (2 * beta * noise_std**2)) ** (1 / 3)
        iterations = min(_MOST_ITERATIONS, max(1, math.ceil(beta * travel))) if iterations is None else iterations
        size = min(size, travel / iterations) if step is None else step
    count = iterations
    return calibrated(lambda noise: make(noise, count), problem, guarantee)
