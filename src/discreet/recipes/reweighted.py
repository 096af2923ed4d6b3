"""Settings of descent on weighted columns (`discreet.solvers.reweighted`): its numbers are those of other recipes."""

from __future__ import annotations

import math
from dataclasses import replace

from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee
from discreet.calibration.one_release import gaussian_multiplier
from discreet.calibration.shares import multiplier, remaining_share
from discreet.losses import Domain
from discreet.recipes import shared
from discreet.recipes.shared import clipping_slope
from discreet.solvers.base import Problem
from discreet.solvers.parts import column_weights
from discreet.solvers.parts.requirements import require_bounded_rows
from discreet.solvers.reweighted import Reweighted, check
from discreet.tuned import current

__all__ = ["recipe"]


def recipe(
    problem: Problem,
    guarantee: Guarantee,
    *,
    spread: float | None = None,
    moment_share: float | None = None,
    recalibration_share: float | None = None,
    iterations: int | None = None,
    step: float | None = None,
    clip: float | None = None,
    damping: float | None = None,
) -> Reweighted:
    """Noise from the accountant, everything else from public facts.

    Args:
        problem: public facts; no constraint.
        guarantee: what to keep.
        spread: over how many entries a row's squared length is expected to be spread, by default 25.
        moment_share: of the budget (in 1/σ²) for the second moments of the columns, by default 0.05.
        recalibration_share: of the budget for scale and offset, by default 0.1; 0 leaves them as they are.
        iterations: number of gradients.
        step: step size in the weighted coordinates.
        clip: ℓ2 bound on a row's gradient; by default that of the largest slope at θ = 0.
        damping: τ in units of the squared row norm; by default (ν/2)²·radius²/(norm²·n).

    Raises:
        InvalidInput: a constraint, rows without bound, pure DP, or shares that leave nothing.
    """
    check(problem)
    require_bounded_rows(problem, "reweighted descent")
    weights = current(column_weights.NUMBERS)
    usual = current(shared.NUMBERS)
    shares = _shares(problem, usual.estimate_share if moment_share is None else moment_share, recalibration_share)
    kappa = gaussian_multiplier(guarantee)
    nu = multiplier(kappa, remaining_share("gradients", shares, may_be_zero="recalibration_share"))
    slope = clipping_slope(problem, guarantee, usual.score_bound)
    bound = problem.rows.radius * slope if clip is None else clip
    count, size = _steps(problem, nu, bound, iterations, step)
    tau = column_weights.chance_damping(problem, nu) if damping is None else damping
    entries = weights.spread if spread is None else spread
    noiseless = Reweighted(0.0, 0.0, 0.0, count, bound, size, tau, entries, shares["recalibration_share"] > 0)
    return _with_noise(noiseless, problem, guarantee, shares)


def _shares(problem: Problem, moment_share: float, recalibration_share: float | None) -> dict[str, float]:
    """Shares for second moments and for scale and offset, which only one score of bounded curvature has fitted."""
    share = current(shared.NUMBERS).large_share if recalibration_share is None else recalibration_share
    shares = {"moment_share": moment_share, "recalibration_share": share}
    remaining_share("gradients", shares, may_be_zero="recalibration_share")
    fitted = math.isfinite(problem.loss.smoothness(Domain())) and problem.rows.outputs == 1
    return shares if fitted else shares | {"recalibration_share": 0.0}


def _steps(problem: Problem, nu: float, clip: float, iterations: int | None, step: float | None) -> tuple[int, float]:
    """(number of steps, step size) of the path length ηT that balances noise against stopping early.

    T steps of size η with noise √T·νC/n a coordinate move scores by noise of variance (ηTνC/n)²·radius² whatever the
    dimension, which costs ½·β·(ηTνC/n)² at curvature β = smoothness·radius²; stopping early costs D²/(2ηT). The sum is
    least at (ηT)³ = D²n²/(2βν²C²), D = 5√outputs/radius. Steps are at most 1/β, and as long without noise.
    """
    rows, numbers = problem.rows, current(shared.NUMBERS)
    scores = Domain(score_bound=numbers.score_bound, target_low=-1.0, target_high=1.0)
    smoothness = problem.loss.smoothness(scores)
    beta = (smoothness if math.isfinite(smoothness) else 1 / numbers.kink_width) * rows.radius**2
    if not nu:
        return iterations or numbers.exact_iterations, 1 / beta if step is None else step
    distance = numbers.score_bound * math.sqrt(rows.outputs) / rows.radius
    length = (distance**2 * problem.n**2 / (2 * beta * (nu * clip) ** 2)) ** (1 / 3)
    if iterations is None:
        iterations = int(min(numbers.most_iterations, max(1, math.ceil(beta * length))))
    return iterations, min(1 / beta, length / iterations) if step is None else step


def _with_noise(noiseless: Reweighted, problem: Problem, guarantee: Guarantee, shares: dict[str, float]) -> Reweighted:
    """All noise in proportion to that of one release with the whole budget, with the least that keeps the guarantee."""
    left = remaining_share("gradients", shares, may_be_zero="recalibration_share")

    def make(noise: float) -> Reweighted:
        return replace(
            noiseless,
            noise_multiplier=multiplier(noise, left) * math.sqrt(noiseless.iterations),
            moment_multiplier=multiplier(noise, shares["moment_share"]),
            recalibration_multiplier=multiplier(noise, shares["recalibration_share"]),
        )

    return calibrated(make, problem, guarantee)
