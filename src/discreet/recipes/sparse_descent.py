"""Settings of sparse descent (`discreet.solvers.sparse_descent`) from public facts: steps by the noise that they bring.

With lazy projections T steps of size η change scores by noise of variance (ηTκC/n)²·radius² whatever d is, with κ the
noise multiplier of one release. That costs ½·smoothness times the variance, and stopping early costs D²/(2ηT): the path
length ηT with (ηT)³ = D²n²/(2β·κ²C²) is best. D = 3/radius, half of that where scale and offset are fitted, or the
domain's diameter if that is less.

With each gradient projected, T steps of size 1/β and the noise √T·κ·C/n, averaging gives at most βD²/(2T) + D·e(T)
(`theory.sparse_descent_smooth`), e(T)² = C√s·τ·E max|g|, τ = √T·κC/n; T is the best of those with e(T) < C/2. Where
there is none, ``"auto"`` projects nothing and takes T as above.

With δ = 0 the noise is Laplace, T releases cost T times one, and the noise of a gradient is T·κ₁, κ₁ that of one
release. T steps of size η then change scores by noise of variance T·(ηT)²κ₁²·radius², so the cost D²/(2ηT) +
½β·T(ηT)²κ₁² is least at (ηT)³ = D²/(2βTκ₁²) for each T, or at the longest stable path T/β; and T is the best.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee
from discreet.errors import InvalidInput
from discreet.measurements import Sampling
from discreet.recipes import shared
from discreet.recipes.shared import batches, checked_recalibration_share, clipping_slope, smoothness_bound
from discreet.solvers.base import Problem
from discreet.solvers.parts.sparse_means import projected_square, projecting_helps
from discreet.solvers.sparse_descent import Estimator, Iterate, Noise, SparseDescent
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
        guarantee: what to keep; ε = ∞ runs without noise, δ = 0 with Laplace noise.
        sparsity: most non-zero entries of a row; by default nothing is assumed, and the ℓ2 ball alone projects. With
            δ = 0 it is enforced: the largest entries of a row are kept.
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
            lazy steps without constraint or ridge on a loss of bounded curvature and δ > 0, else 0: no such fits.

    Raises:
        InvalidInput: rows are unbounded, both kinds of batches, a share for fits that cannot be made, or with δ = 0
            batches, which gain nothing there, or such fits.
    """
    if not problem.rows.bounded:
        raise InvalidInput("sparse descent needs rows of bounded length: give row_norm.")
    sampling, lazy, numbers = batches(problem, rate, batch_size), estimator == "lazy", current(shared.NUMBERS)
    pure = _is_pure(guarantee, sampling, recalibration_share)
    usual = numbers.large_share if lazy and not pure else 0.0
    share = checked_recalibration_share(problem, guarantee, recalibration_share, usual)
    slope = clipping_slope(problem, guarantee, numbers.score_bound)
    if clip is None:
        clip = problem.rows.radius * slope if guarantee.private else math.inf
    entries = problem.rows.dimension if sparsity is None else sparsity
    beta = smoothness_bound(problem, slope)
    noise: Noise = "laplace" if pure else "gaussian"
    kept = iterate or ("last" if lazy else "average")
    solver = SparseDescent(0.0, 1, clip, 1 / beta, entries, estimator, sampling, kept, seed, 0.0, noise)
    if guarantee.private:
        once = _calibrated(replace(solver, sampling=None), 0.0, problem, guarantee).noise_std(problem)
        count, longest = (_pure_steps if pure else _steps)(solver, problem, once, beta, share, iterations)
        solver = replace(solver, iterations=count, step=min(1 / beta, longest / count))
    else:
        solver = replace(solver, iterations=numbers.exact_iterations if iterations is None else iterations)
    return _calibrated(solver if step is None else replace(solver, step=step), share, problem, guarantee)


def _is_pure(guarantee: Guarantee, sampling: Sampling | None, recalibration_share: float | None) -> bool:
    """Whether δ = 0; refuses what pure DP cannot have or gains nothing by."""
    pure = guarantee.private and guarantee.delta == 0
    if pure and recalibration_share:
        raise InvalidInput("fits of offset and scale have Gaussian noise; delta = 0 asks for pure DP: leave them out.")
    if pure and sampling is not None:
        raise InvalidInput("with delta = 0 noise grows as batches shrink, and nothing is gained: leave batches out.")
    return pure


def _calibrated(solver: SparseDescent, share: float, problem: Problem, guarantee: Guarantee) -> SparseDescent:
    """The solver with the least noise that keeps the guarantee."""
    if solver.noise == "gaussian":
        return calibrated(lambda noise: _with_noise(solver, noise, share), problem, guarantee)
    # the ε of releases under Laplace noise add up
    return replace(solver, noise_multiplier=solver.iterations * guarantee.unit.sensitivity(1.0) / guarantee.epsilon)


def _distance(problem: Problem, share: float) -> float:
    """D: how far the best model is expected to be from the start."""
    numbers = current(shared.NUMBERS)
    scores = numbers.recalibrated_score_bound if share else numbers.score_bound
    return min(problem.domain.radius_in(math.prod(problem.rows.shape)), scores / problem.rows.radius)


def _pure_steps(
    solver: SparseDescent, problem: Problem, once: float, beta: float, share: float, iterations: int | None
) -> tuple[int, float]:
    """T and the longest path ηT where T releases have T times the noise of one."""
    distance = _distance(problem, share)
    tried: Sequence[int] = range(1, current(shared.NUMBERS).most_iterations + 1) if iterations is None else [iterations]

    def error(count: int) -> float:
        return math.sqrt(projected_square(problem, solver.sparsity, solver.clip, count * once, "laplace"))

    def helps(count: int) -> bool:
        return projecting_helps(problem, solver.sparsity, solver.clip, count * once, "laplace")

    def path(count: int) -> float:
        return min(count / beta, (distance**2 / (2 * beta * count * once**2)) ** (1 / 3))

    proved = [T for T in tried if helps(T)]
    if solver.estimator != "lazy" and (proved or solver.estimator != "auto"):
        return min(proved or tried, key=lambda T: beta * distance / (2 * T) + error(T)), math.inf
    best = min(tried, key=lambda T: distance**2 / (2 * path(T)) + beta * T * (path(T) * once) ** 2 / 2)
    return best, path(best)


def _steps(
    solver: SparseDescent, problem: Problem, noise_std: float, beta: float, share: float, iterations: int | None
) -> tuple[int, float]:
    """T and the longest path ηT; where each gradient is projected the path is not limited."""
    most, distance = current(shared.NUMBERS).most_iterations, _distance(problem, share)
    clip, entries, estimator = solver.clip, solver.sparsity, solver.estimator

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
