"""Projected descent whose gradient estimator is a private sparse mean.

A linear model's gradient on a row with s entries has s entries, so the mean gradient is a mean of s-sparse vectors of
length ≤ C. Each step releases the sum of clipped gradients under Gaussian noise; then, without touching a row,

    G = P(noisy sum / n),    P the projection on {‖v‖₁ ≤ C√s} ∩ {‖v‖₂ ≤ C}, or soft thresholding before it,

has an error of at most e = √(C√s·τ·√(2 ln d)) where the noisy mean itself has τ√d, τ = ν·C/n (Ghazi, Guzmán, Kamath,
Kumar and Manurangsi 2024). Its error is biased, so convex losses pay for it as D·e rather than for its square:
`theory.sparse_descent_smooth`, and `theory.sparse_stationarity` for losses that are not convex.

That is about every sparse loss. A linear model feels the noise of a gradient in scores alone, τ·‖x‖ whatever d is, and
T biased gradients of noise √T·κC/n each tell less than their unbiased mean, whose noise is that of *one* release, κC/n.
So by default (``"lazy"``) it is the mean of all gradients so far, itself a mean of s-sparse vectors, that is projected:

    θ_{t+1} = Π(θ_0 − η·(t + 1)·P(mean of the noisy gradients 0 … t)),

dual averaging on a sparse mean; and offset and scale are fitted around the descent (`discreet.solvers.parts.recalibration`).

The sparsity s enters the projection alone: rows with more entries cost accuracy, never privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee
from discreet.errors import InvalidInput
from discreet.geometry import L1Ball, L2Ball
from discreet.geometry.base import Projectable
from discreet.losses import Domain
from discreet.measurements import FixedSizeSampling, Noisy, PoissonSampling, Sampling
from discreet.mechanisms import Gaussian
from discreet.queries.sums.gradient import GradientSum
from discreet.solvers.base import Problem, Steps
from discreet.solvers.hard_threshold import slope_at_zero
from discreet.solvers.parts.recalibration import Line, fits
from discreet.solvers.parts.shrinkage import best_threshold, soft

__all__ = [
    "SparseDescent",
    "checked_share",
    "default",
    "largest_of",
    "onto_balls",
    "projecting_helps",
    "public_uniform",
    "sparse_radius",
    "squared_width",
    "steepest",
]

Estimator = Literal["lazy", "auto", "projection", "threshold"]
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
        estimator: ``"lazy"``: projection of the mean of all gradients so far; or of each gradient: ``"projection"``;
            ``"threshold"``: soft thresholding at the level that the noisy gradient itself shows to be best, then
            projection; ``"auto"``: projection where it is proved to help.
        sampling: batches; None takes all rows each step.
        iterate: the ``"average"`` of the points stepped to, the ``"last"``, or for losses that are not convex a
            uniformly ``"random"`` one of the points stepped from, which is nearly stationary in expectation.
        seed: public seed of the random iterate.
        line_multiplier: noise of the fits of offset and scale before and after, were they one release; 0: no fits.
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
    line_multiplier: float = 0.0

    def __post_init__(self) -> None:
        for name in ("iterations", "sparsity"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be at least 1, got {getattr(self, name)!r}.")
        if not (0 < self.step < math.inf and self.clip > 0 and (self.clip < math.inf or not self.noise_multiplier)):
            raise InvalidInput(f"step and clip must be positive and finite, got {self.step!r} and {self.clip!r}.")
        for name, value, kinds in (
            ("estimator", self.estimator, get_args(Estimator)),
            ("iterate", self.iterate, get_args(Iterate)),
        ):
            if value not in kinds:
                raise InvalidInput(f"{name} must be one of {', '.join(map(repr, kinds))}, got {value!r}.")

    def steps(self, problem: Problem) -> Steps:
        """One noisy sum a step; before and after, what `Line` asks."""
        line = Line(self.line_multiplier) if self.line_multiplier else None
        start = (yield from line.before(problem)) if line else problem.start
        theta = yield from self._descent(problem, start.ravel())
        if line:
            # T steps of size η/n along a row move its own score by at most ηT·radius²/n
            theta = yield from line.after(problem, theta, self.step * self.iterations * problem.rows.radius**2)
        return theta.reshape(problem.rows.shape)

    def _descent(self, problem: Problem, start: NDArray[np.float64]) -> Steps:
        if not isinstance(problem.domain, Projectable):
            raise InvalidInput(f"{type(problem.domain).__name__} has no projection; descent needs one.")
        theta = kept = start
        total, pull = np.zeros_like(start), np.zeros_like(start)  # of gradients and of the ridge, all steps together
        for t in range(self.iterations):
            query = GradientSum(problem.rows, problem.loss, theta.reshape(problem.rows.shape), self.clip)
            answer = yield Noisy(query, Gaussian(self.noise_multiplier), self.sampling)
            if self.iterate == "random" and public_uniform(self.seed, "iterate", t) * (t + 1) < 1:
                kept = theta  # each of t + 1 points is then the kept one with equal probability
            if self.estimator == "lazy":
                total, pull = total + answer.ravel() / self._rows(problem), pull + problem.ridge * theta
                mean = onto_balls(total / (t + 1), problem, self.sparsity, self.clip)
                moved = start - self.step * ((t + 1) * mean + pull)
            else:
                gradient = self.estimate(answer.ravel(), problem) + problem.ridge * theta
                moved = theta - self.step * gradient
            theta = np.asarray(problem.domain.project(moved))
            if self.iterate == "average":
                kept = kept + (theta - kept) / (t + 1)
        return theta if self.iterate == "last" else kept

    def _rows(self, problem: Problem) -> float:
        return self.sampling.expected_rows(problem.n) if self.sampling else problem.n

    def estimate(self, total: NDArray[np.float64], problem: Problem) -> NDArray[np.float64]:
        """G from a noisy sum: post-processing."""
        rows = self._rows(problem)
        mean, noise = total / rows, self.noise_multiplier * self.clip / rows
        if self.estimator == "auto" and not projecting_helps(problem, self.sparsity, self.clip, noise):
            return np.asarray(mean)
        if self.estimator == "threshold" and noise:
            mean = soft(mean, best_threshold(mean, noise, "gaussian"))
        return onto_balls(mean, problem, self.sparsity, self.clip)


def onto_balls(mean: NDArray[np.float64], problem: Problem, sparsity: int, clip: float) -> NDArray[np.float64]:
    """The projection on the balls that hold every mean of gradients; without a clip there are none."""
    if math.isinf(clip):
        return mean
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
_LINE_SHARE = 0.08
_REACH_OF_LINE = 1.5
"""With scale and offset fitted afterwards, half the reach is enough: directions are found early, and noise is less."""


def default(
    problem: Problem,
    guarantee: Guarantee,
    *,
    sparsity: int | None = None,
    estimator: Estimator = "lazy",
    iterations: int | None = None,
    step: float | None = None,
    clip: float | None = None,
    rate: float | None = None,
    batch_size: int | None = None,
    iterate: Iterate | None = None,
    seed: int = 0,
    line_share: float | None = None,
) -> SparseDescent:
    """Steps by the noise in scores, or by the proved excess risk where each gradient is projected.

    Lazily, T steps move scores by noise of variance (ηTκC/n)²·radius² whatever d is, which costs ½·smoothness times
    that, and stopping early costs D²/(2ηT): (ηT)³ = D²n²/(2β·κ²C²) is best, as in `discreet.solvers.reweighted`, with
    D = 3/radius, half of that where scale and offset are fitted, or the domain's diameter.

    With each gradient projected, T steps of size 1/β and the noise √T·κ·C/n, averaging gives at most βD²/(2T) + D·e(T)
    (`theory.sparse_descent_smooth`), e(T)² = C√s·τ·E max|g|, τ = √T·κC/n; T is the best of those of 1 … 400 with
    e(T) < C/2. Where there is none, ``"auto"`` projects nothing and takes T as above.

    Args:
        problem: public facts.
        guarantee: what to keep; ε = ∞ runs without noise.
        sparsity: most non-zero entries of a row; by default nothing is assumed, and the ℓ2 ball alone projects.
        estimator: ``"lazy"``, or one of those that project each gradient, to which the theorem applies:
            ``"projection"``, ``"threshold"``, ``"auto"``.
        iterations: number of steps.
        step: step size.
        clip: ℓ2 bound on a row's gradient; by default that of the largest slope at θ = 0.
        rate: Poisson sampling rate of batches.
        batch_size: fixed-size batches (replace-one only).
        iterate: ``"average"``, ``"last"`` or, for losses that are not convex, ``"random"``; by default the last where
            gradients are projected lazily, else the average.
        seed: public seed of the random iterate.
        line_share: of the budget (in 1/σ²) for fits of offset and scale before and after; by default 0.08 for lazy
            steps without constraint or ridge on a loss of bounded curvature, else 0: no such fits.

    Raises:
        InvalidInput: rows are unbounded, both kinds of batches, pure DP, or a share for fits that cannot be made.
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
    lazy = estimator == "lazy"
    share = checked_share(problem, guarantee, line_share, _LINE_SHARE if lazy else 0.0)
    kept = iterate or ("last" if lazy else "average")
    slope = steepest(problem, guarantee, _REACH)
    bound = clip
    if bound is None:
        bound = rows.radius * slope if guarantee.private else math.inf
    entries = rows.dimension if sparsity is None else sparsity
    smoothness = problem.loss.smoothness(Domain(score_bound=_REACH, target_low=-1.0, target_high=1.0))
    beta = (smoothness if math.isfinite(smoothness) else slope / 0.1) * rows.radius**2 + problem.ridge
    size = 1 / beta if step is None else step

    def make(noise: float, count: int) -> SparseDescent:
        """All noise in proportion: ``noise`` is that of one release with the whole budget."""
        descent, line = noise * math.sqrt(count / (1 - share)), noise / math.sqrt(share) if share else 0.0
        return SparseDescent(descent, count, bound, size, entries, estimator, sampling, kept, seed, line)

    if not guarantee.private:
        return make(0.0, _EXACT_ITERATIONS if iterations is None else iterations)
    once = calibrated(lambda noise: SparseDescent(noise, 1, bound, size, entries), problem, guarantee)
    noise_std = once.noise_multiplier * bound / problem.n
    reach = _REACH_OF_LINE if share else _REACH
    distance = min(problem.domain.diameter(math.prod(rows.shape)), reach / rows.radius)

    def error(count: int) -> float:
        return math.sqrt(squared_width(problem, entries, bound, math.sqrt(count) * noise_std))

    most = range(1, _MOST_ITERATIONS + 1) if iterations is None else [iterations]
    proved = [T for T in most if projecting_helps(problem, entries, bound, math.sqrt(T) * noise_std)]
    if not lazy and (proved or estimator != "auto"):
        iterations = min(proved or most, key=lambda T: beta * distance / (2 * T) + error(T))
    else:
        travel = (distance**2 / (2 * beta * noise_std**2)) ** (1 / 3)
        iterations = min(_MOST_ITERATIONS, max(1, math.ceil(beta * travel))) if iterations is None else iterations
        size = min(size, travel / iterations) if step is None else step
    count = iterations
    return calibrated(lambda noise: make(noise, count), problem, guarantee)


def checked_share(problem: Problem, guarantee: Guarantee, asked: float | None, usual: float) -> float:
    """The share of the budget for `Line`: what was asked for, or the usual one where its fits can be made.

    Raises:
        InvalidInput: a share of 1 or more, or one for fits that cannot be made.
    """
    possible = fits(problem) and guarantee.private
    if asked is None:
        return usual if possible else 0.0
    if not 0 <= asked < 1:
        raise InvalidInput(f"line_share must be in [0, 1), got {asked!r}.")
    if asked and guarantee.private and not possible:
        raise InvalidInput(
            "offset and scale are fitted for one score a row and a loss of bounded curvature, without constraint and "
            "ridge; leave line_share out."
        )
    return asked if possible else 0.0
