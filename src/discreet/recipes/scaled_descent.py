"""Settings of descent on centred and scaled rows (`discreet.solvers.scaled_descent`) from public facts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee
from discreet.calibration.one_release import gaussian_multiplier
from discreet.calibration.shares import multiplier, remaining_share
from discreet.errors import InvalidInput
from discreet.measurements import PoissonSampling
from discreet.recipes import shared
from discreet.solvers.base import Problem
from discreet.solvers.parts import column_weights
from discreet.solvers.scaled_descent import ScaledDescent, check
from discreet.tuned import Tuned, current, tuned

__all__ = ["NUMBERS", "ScaledDescentNumbers", "recipe"]


@dataclass(frozen=True)
class ScaledDescentNumbers(Tuned):
    """Tuned numbers of this recipe."""

    batch: int = tuned(
        3000, "rows up to which all are in every batch; of n rows a batch has √(this·n)", "sweep: scaled-batch"
    )
    constant_weight: float = tuned(0.5, "weight of the constant column", "sweep: scaled-constant")
    longest_step: float = tuned(100.0, "longest step times clip times row length", "sweep: scaled-longest")


NUMBERS = ScaledDescentNumbers()


def recipe(
    problem: Problem,
    guarantee: Guarantee,
    *,
    score_noise: float | None = None,
    iterations: int | None = None,
    clip: float | None = None,
    step: float | None = None,
    decay: float | None = None,
    power: float | None = None,
    damping: float | None = None,
    centre_share: float | None = None,
    moment_share: float | None = None,
    spread: float | None = None,
    rate: float | None = None,
) -> ScaledDescent:
    """Noise from the accountant, everything else from public facts.

    Args:
        problem: several classes, no constraint, no ridge of the user's.
        guarantee: what to keep.
        score_noise: c, the standard deviation of the noise in a score, 1.6 by default; gives the path length.
        iterations: number of gradients; by default 32, up to 64 under little noise.
        clip: ℓ2 bound on the gradient of a scaled row; by default a quarter of the radius under much noise, up to
            √½ of it under little.
        step: step size in scaled coordinates in place of the one that ``score_noise`` gives.
        decay: of the momentum, by default 0.85.
        power: weights are (f_j + τ)^−power, by default ¼; 0 leaves columns as they are.
        damping: τ in units of the squared row norm; by default (κ/2)²·radius²/(norm²·n).
        centre_share: of the budget (in 1/σ²) for the mean row, by default 5 %; 0 leaves rows uncentred, as models
            without an intercept must.
        moment_share: of the budget for the columns' second moments, by default 5 %.
        spread: over how many entries a row's squared length is expected to be spread, by default 25.
        rate: Poisson sampling rate of the gradients' batches, 1 takes all rows; by default √(3000/n).

    Raises:
        InvalidInput: not several classes, a constraint or ridge, unbounded rows, pure DP, or shares that leave nothing.
    """
    check(problem)
    if step is not None and score_noise is not None:
        raise InvalidInput("score_noise chooses the step, which was given too: leave one out.")
    weights, momentum = current(column_weights.NUMBERS), _decay(decay)
    shares, batches = _shares(problem, centre_share, moment_share), _sampling(problem, guarantee, rate)
    kappa = gaussian_multiplier(guarantee)
    bound = _clip(problem, kappa) if clip is None else clip
    count, size = _steps(problem, kappa, bound, momentum, score_noise, iterations, step)
    tau = column_weights.chance_damping(problem, kappa) if damping is None else damping
    exponent = weights.power if power is None else power
    entries = weights.spread if spread is None else spread
    rest = exponent, current(NUMBERS).constant_weight, entries, shares["centre_share"] > 0
    noiseless = ScaledDescent(0.0, 0.0, 0.0, count, bound, size, momentum, tau, *rest, batches)
    return _with_noise(noiseless, problem, guarantee, shares)


def _decay(decay: float | None) -> float:
    found = current(shared.NUMBERS).decay if decay is None else decay
    if not 0 <= found < 1:
        raise InvalidInput(f"decay must lie in [0, 1), got {decay!r}.")
    return found


def _shares(problem: Problem, centre_share: float | None, moment_share: float | None) -> dict[str, float]:
    """Shares of the budget for mean row and second moments; rows without a constant column are not centred."""
    usual, constant = current(shared.NUMBERS).estimate_share, problem.rows.constant
    shares = {
        "centre_share": (usual if constant else 0.0) if centre_share is None else centre_share,
        "moment_share": usual if moment_share is None else moment_share,
    }
    remaining_share("gradients", shares, may_be_zero="centre_share")
    if shares["centre_share"] and not constant:
        raise InvalidInput("rows without a constant column cannot be centred; fit an intercept, or centre_share=0.")
    return shares


def _sampling(problem: Problem, guarantee: Guarantee, rate: float | None) -> PoissonSampling | None:
    """Of n > 3000 rows a step takes a batch of √(3000·n), at a rate of √(3000/n); without privacy all.

    At a rate of a fifth a step takes a fifth of the time, and noise grows by a few per cent where there is much (1 % at
    ε = 0.1, 7 % at 1), by a quarter where there is little (ε = 8).
    """
    if rate is None:
        rate = min(1.0, math.sqrt(current(NUMBERS).batch / problem.n)) if guarantee.private else 1.0
    return PoissonSampling(rate) if rate != 1 else None


def _clip(problem: Problem, kappa: float) -> float:
    """The clip of `shared.clip_share` over a row's length, at most √½; without noise none.

    √½ is half of the longest slope of a softmax loss; logistic slopes are cut at ½, half of theirs. Accuracy hardly
    depends on it; but a small clip makes probabilities too extreme, also where there is little noise.
    """
    return min(shared.clip_share(problem, kappa), math.sqrt(0.5)) * problem.rows.radius if kappa else math.inf


def _steps(
    problem: Problem,
    kappa: float,
    clip: float,
    decay: float,
    score_noise: float | None,
    iterations: int | None,
    step: float | None,
) -> tuple[int, float]:
    """(number of steps, step size) whose path length puts noise c into a score: ηT·C·R = c·n/κ.

    A step moves θ by η/(1 − decay) in the end. T is such that no η·C·R exceeds 100, from 32 to twice as many; where
    those are too few, the path is shorter. Without noise steps are 1.5(1 + decay)/β, ¾ of the longest that are stable
    (Polyak 1964), β = R²/2 the largest curvature that there can be.
    """
    numbers, radius = current(shared.NUMBERS), problem.rows.radius
    if not kappa:
        size = 1.5 * (1 + decay) / (radius**2 / 2)
        count = numbers.exact_iterations if iterations is None else iterations
        return count, size if step is None else step
    length = (numbers.score_noise if score_noise is None else score_noise) * problem.n / kappa
    longest, fewest = current(NUMBERS).longest_step / (1 - decay), numbers.fewest_iterations
    count = math.ceil(min(2 * fewest, max(fewest, length / longest))) if iterations is None else iterations
    size = min(length / max(1, count), longest) * (1 - decay) / (clip * radius)
    return count, size if step is None else step


def _with_noise(
    noiseless: ScaledDescent, problem: Problem, guarantee: Guarantee, shares: dict[str, float]
) -> ScaledDescent:
    """All noise in proportion to that of one release with the whole budget, with the least that keeps the guarantee."""
    left = remaining_share("gradients", shares, may_be_zero="centre_share")
    rate = noiseless.sampling.rate if noiseless.sampling else 1.0

    def make(noise: float) -> ScaledDescent:
        return replace(
            noiseless,
            noise_multiplier=noise * rate * math.sqrt(noiseless.iterations / left),
            centre_multiplier=multiplier(noise, shares["centre_share"]),
            moment_multiplier=multiplier(noise, shares["moment_share"]),
        )

    return calibrated(make, problem, guarantee)
