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

    score_noise: float = tuned(1.6, "c: standard deviation of the noise in a score", "sweep: scaled-noise")
    least_clip: float = tuned(0.4, "clip over a row's length under much noise", "sweep: scaled-clip")
    most_clip: float = tuned(0.7, "clip over a row's length under little noise", "sweep: scaled-most-clip")
    clip_at_noise: float = tuned(
        0.036, "clip over a row's length, times the root of the noise share √d·κ/n", "sweep: scaled-clip-at-noise"
    )
    decay: float = tuned(0.85, "decay of the momentum", "sweep: scaled-decay")
    longest_step: float = tuned(100.0, "longest step times clip times row length", "sweep: scaled-longest")
    least_iterations: int = tuned(24, "fewest gradients", "sweep: scaled-fewest")
    most_iterations: int = tuned(60, "most gradients", "sweep: scaled-most")
    damping: float = tuned(5.0, "τ·n/κ: noise deviations at which a second moment counts as large", "sweep: scaled-tau")
    least_noise: float = tuned(1.0, "least κ that τ is made for", "sweep: scaled-least")
    power: float = tuned(0.5, "exponent of the weights", "sweep: scaled-power")
    constant_weight: float = tuned(0.5, "weight of the constant column", "sweep: scaled-constant")
    centre_share: float = tuned(0.03, "share of the budget (in 1/σ²) for the mean row", "sweep: scaled-centre")
    moment_share: float = tuned(0.03, "share of the budget for the second moments", "sweep: scaled-energy")
    rate: float = tuned(0.2, "least share of the rows in a batch", "sweep: scaled-rate")
    least_batch: int = tuned(3000, "least rows of a batch", "sweep: scaled-batch")
    exact_pace: float = tuned(
        3.0, "step times β without privacy", "theorem: heavy ball is stable up to 2(1 + decay)/β (Polyak 1964)"
    )


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
        iterations: number of gradients; by default so many that no step is too long, from 24 to 60.
        clip: ℓ2 bound on the gradient of a scaled row; by default 0.4 of the radius under much noise, up to 0.7 under
            little.
        step: step size in scaled coordinates in place of the one that ``score_noise`` gives.
        decay: of the momentum, by default 0.85.
        power: weights are (f_j + τ)^−power, by default ½; 0 leaves columns as they are.
        damping: τ in units of the squared row norm; by default 5·max(κ, 1)/n.
        centre_share: of the budget (in 1/σ²) for the mean row, by default 3 %; 0 leaves rows uncentred, as models
            without an intercept must.
        moment_share: of the budget for the columns' second moments, by default 3 %.
        spread: over how many entries a row's squared length is expected to be spread, by default 25.
        rate: Poisson sampling rate of the gradients' batches, 1 takes all rows; by default a fifth, or 3000 rows.

    Raises:
        InvalidInput: not several classes, a constraint or ridge, unbounded rows, pure DP, or shares that leave nothing.
    """
    check(problem)
    if step is not None and score_noise is not None:
        raise InvalidInput("score_noise chooses the step, which was given too: leave one out.")
    numbers, momentum = current(NUMBERS), _decay(decay)
    shares, batches = _shares(problem, centre_share, moment_share), _sampling(problem, guarantee, rate)
    kappa = gaussian_multiplier(guarantee)
    bound = _clip(problem, kappa) if clip is None else clip
    count, size = _steps(problem, kappa, bound, momentum, score_noise, iterations, step)
    tau = _damping(problem, kappa) if damping is None else damping
    exponent = numbers.power if power is None else power
    entries = current(column_weights.NUMBERS).spread if spread is None else spread
    weights = exponent, numbers.constant_weight, entries, shares["centre_share"] > 0
    noiseless = ScaledDescent(0.0, 0.0, 0.0, count, bound, size, momentum, tau, *weights, batches)
    return _with_noise(noiseless, problem, guarantee, shares)


def _decay(decay: float | None) -> float:
    found = current(NUMBERS).decay if decay is None else decay
    if not 0 <= found < 1:
        raise InvalidInput(f"decay must lie in [0, 1), got {decay!r}.")
    return found


def _shares(problem: Problem, centre_share: float | None, moment_share: float | None) -> dict[str, float]:
    """Shares of the budget for mean row and second moments; rows without a constant column are not centred."""
    numbers, constant = current(NUMBERS), problem.rows.constant
    shares = {
        "centre_share": (numbers.centre_share if constant else 0.0) if centre_share is None else centre_share,
        "moment_share": numbers.moment_share if moment_share is None else moment_share,
    }
    remaining_share("gradients", shares, may_be_zero="centre_share")
    if shares["centre_share"] and not constant:
        raise InvalidInput("rows without a constant column cannot be centred; fit an intercept, or centre_share=0.")
    return shares


def _sampling(problem: Problem, guarantee: Guarantee, rate: float | None) -> PoissonSampling | None:
    """A step takes a fifth of the rows, if that leaves 3000; without privacy all.

    This takes a fifth of the time, and noise grows by a few per cent where there is much (1 % at ε = 0.1, 7 % at 1), by
    a quarter where there is little (ε = 8).
    """
    numbers = current(NUMBERS)
    if rate is None:
        rate = min(1.0, max(numbers.rate, numbers.least_batch / problem.n)) if guarantee.private else 1.0
    return PoissonSampling(rate) if rate != 1 else None


def _clip(problem: Problem, kappa: float) -> float:
    """0.036/√ν of a row's length, ν = √d·κ/n the noise in a mean gradient, from 0.4 to 0.7; without noise none.

    Accuracy hardly depends on it; but a small clip makes probabilities too extreme, also where there is little noise.
    """
    if not kappa:
        return math.inf
    rows, numbers = problem.rows, current(NUMBERS)
    share = numbers.clip_at_noise / math.sqrt(math.sqrt(rows.dimension) * kappa / problem.n)
    return min(numbers.most_clip, max(numbers.least_clip, share)) * rows.radius


def _damping(problem: Problem, kappa: float) -> float:
    """τ = 5·max(κ, 1)/n in units of the squared row norm, about four standard deviations of the noise; 1/n without."""
    numbers = current(NUMBERS)
    return numbers.damping * max(kappa, numbers.least_noise) / problem.n if kappa else 1 / problem.n


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

    A step moves θ by η/(1 − decay) in the end. T is such that no η·C·R exceeds 100, from 24 to 60. Without noise steps
    are 3/β, β = R²/2 the largest curvature that there can be.
    """
    numbers, radius = current(NUMBERS), problem.rows.radius
    if not kappa:
        size = min(numbers.exact_pace, 2 + decay) / (radius**2 / 2)
        count = current(shared.NUMBERS).exact_iterations
        return count if iterations is None else iterations, size if step is None else step
    length = (numbers.score_noise if score_noise is None else score_noise) * problem.n / kappa
    longest = numbers.longest_step / (1 - decay)
    if iterations is None:
        iterations = math.ceil(min(numbers.most_iterations, max(numbers.least_iterations, length / longest)))
    if step is None:
        step = min(length / max(1, iterations), longest) * (1 - decay) / (clip * radius)
    return iterations, step


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
