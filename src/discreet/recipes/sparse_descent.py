"""Settings of sparse descent (`discreet.solvers.sparse_descent`) from public facts: steps by the noise that they bring.

With lazy projections T steps of size η change scores by noise of variance (ηTκC/n)²·radius² whatever d is, with κ the
noise multiplier of one release. That costs ½·smoothness times the variance, and stopping early costs D²/(2ηT): the path
length ηT with (ηT)³ = D²n²/(2β·κ²C²) is best. D = 3/radius, half of that where scale and offset are fitted, or the
domain's diameter if that is less.

With each gradient projected, T steps of size 1/β and the noise √T·κ·C/n, averaging gives at most βD²/(2T) + D·e(T)
(`theory.sparse_descent_smooth`), e(T)² = C√s·τ·E max|g|, τ = √T·κC/n; T is the best of those with e(T) < C/2. Where
there is none, ``"auto"`` projects nothing and takes T as above.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee
from discreet.errors import InvalidInput
from discreet.recipes import shared
from discreet.recipes.shared import batches, checked_recalibration_share, clipping_slope, smoothness_bound
from discreet.solvers.base import Problem
from discreet.solvers.parts.sparse_means import projected_square, projecting_helps
from discreet.solvers.sparse_descent import Estimator, Iterate, SparseDescent
from discreet.tuned import current

__all__ = ["recipe"]


def recipe(
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
    recalibration_share: float | None = None,
) -> SparseDescent:
    """Sparse descent with the least noise that keeps the guarantee.

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
        recalibration_share: of the budget (in 1/σ²) for fits of offset and scale before and after; by default 0.1 for
            lazy steps without constraint or ridge on a loss of bounded curvature, else 0: no such fits.

    Raises:
        InvalidInput: rows are unbounded, both kinds of batches, pure DP, or a share for fits that cannot be made.
    """
    if not problem.rows.bounded:
        raise InvalidInput("sparse descent needs rows of bounded length: give row_norm.")
    sampling, lazy, numbers = batches(problem, rate, batch_size), estimator == "lazy", current(shared.NUMBERS)
    share = checked_recalibration_share(problem, guarantee, recalibration_share, numbers.large_share if lazy else 0.0)
    slope = clipping_slope(problem, guarantee, numbers.score_bound)
    if clip is None:
        clip = problem.rows.radius * slope if guarantee.private else math.inf
    entries = problem.rows.dimension if sparsity is None else sparsity
    beta = smoothness_bound(problem, slope)
    size, count = 1 / beta if step is None else step, iterations
    if guarantee.private:
        noise = _one_release(SparseDescent(1.0, 1, clip, size, entries), problem, guarantee)
        count, longest = _steps(problem, noise, clip, entries, beta, share, estimator, iterations)
        size = min(size, longest / count) if step is None else step
    elif iterations is None:
        count = numbers.exact_iterations
    assert count is not None
    kept = iterate or ("last" if lazy else "average")
    solver = SparseDescent(0.0, count, clip, size, entries, estimator, sampling, kept, seed)
    return calibrated(lambda noise: _with_noise(solver, noise, share), problem, guarantee)


def _one_release(solver: SparseDescent, problem: Problem, guarantee: Guarantee) -> float:
    """Noise in each coordinate of the mean gradient, were it released once with the whole budget."""
    once = calibrated(lambda noise: replace(solver, noise_multiplier=noise), problem, guarantee)
    return once.noise_multiplier * once.clip / problem.n


def _steps(
    problem: Problem,
    noise_std: float,
    clip: float,
    entries: int,
    beta: float,
    share: float,
    estimator: Estimator,
    iterations: int | None,
) -> tuple[int, float]:
    """T and the longest path ηT; where each gradient is projected the path is not limited."""
    numbers = current(shared.NUMBERS)
    most = numbers.most_iterations
    scores = numbers.recalibrated_score_bound if share else numbers.score_bound
    distance = min(problem.domain.radius_in(math.prod(problem.rows.shape)), scores / problem.rows.radius)

    def error(count: int) -> float:
        return math.sqrt(projected_square(problem, entries, clip, math.sqrt(count) * noise_std))

    tried: Sequence[int] = range(1, most + 1) if iterations is None else [iterations]
    proved = [T for T in tried if projecting_helps(problem, entries, clip, math.sqrt(T) * noise_std)]
    if estimator != "lazy" and (proved or estimator != "auto"):
        return min(proved or tried, key=lambda T: beta * distance / (2 * T) + error(T)), math.inf
    path = (distance**2 / (2 * beta * noise_std**2)) ** (1 / 3)
    return (min(most, max(1, math.ceil(beta * path))) if iterations is None else iterations), path


def _with_noise(solver: SparseDescent, noise: float, share: float) -> SparseDescent:
    """All noise in proportion: ``noise`` is that of one release with the whole budget."""
    gradients = noise * math.sqrt(solver.iterations / (1 - share))
    fits = noise / math.sqrt(share) if share else 0.0
    return replace(solver, noise_multiplier=gradients, recalibration_multiplier=fits)
