"""Settings of descent on centred and scaled columns (`discreet.solvers.parts.private_scales.Diagonal`)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee
from discreet.calibration.one_release import gaussian_multiplier
from discreet.calibration.shares import multiplier, remaining_share
from discreet.errors import InvalidInput
from discreet.losses import Poisson
from discreet.measurements import PoissonSampling
from discreet.recipes import shared
from discreet.recipes.shared import checked_recalibration_share, curvature_bound, first_slope
from discreet.solvers.base import Problem
from discreet.solvers.parts import column_weights
from discreet.solvers.parts.private_scales.diagonal import Diagonal, check
from discreet.solvers.parts.recalibration import NUMBERS as RECALIBRATION
from discreet.solvers.parts.recalibration import fits
from discreet.solvers.parts.temperature import fits_temperature, slope_clip
from discreet.solvers.scaled_descent import ScaledDescent
from discreet.tuned import Tuned, current, tuned

__all__ = ["NUMBERS", "DiagonalOptions", "DiagonalScalesNumbers", "settings"]


@dataclass(frozen=True)
class DiagonalScalesNumbers(Tuned):
    """Tuned numbers of this file."""

    batch: int = tuned(
        3000, "rows up to which all are in every batch; of n rows a batch has √(this·n)", "sweep: scaled-batch"
    )
    constant_weight: float = tuned(0.5, "several outputs: weight of the constant column", "sweep: scaled-constant")
    longest_step: float = tuned(
        100.0, "several outputs: longest step times clip times row length", "sweep: scaled-longest"
    )


NUMBERS = DiagonalScalesNumbers()


@dataclass(frozen=True)
class DiagonalOptions:
    """What a user may set; None leaves it to public facts.

    Args:
        score_noise: several outputs: c, the standard deviation of the noise in a score, 1.6 by default; gives the path
            length.
        iterations: number of gradients; by default for several outputs 32, up to 64 under little noise; else what the
            path length asks for.
        clip: ℓ2 bound on the gradient of a scaled row; by default with several outputs a quarter of the radius under
            much noise, up to √½ of it under little; with one output the longest gradient at θ = 0.
        step: step size in scaled coordinates in place of the one that the path length gives.
        decay: of the momentum, by default 0.85 for several outputs, else 0.
        power: weights are (f_j + τ)^−power, by default ¼; 0 leaves columns as they are.
        damping: τ in units of the squared row norm; by default (κ/2)²·radius²/(norm²·n).
        centre_share: of the budget (in 1/σ²) for the mean row, by default 5 %; 0 leaves rows uncentred, as models
            without an intercept must, and as is usual with one output of over 1000 columns.
        moment_share: of the budget for the columns' second moments, by default 5 %.
        recalibration_share: of the budget for the fit of scale and offset afterwards, by default a tenth with one
            output, a loss of bounded curvature and no ridge; for the temperature of several classes without a ridge,
            by default 2 %, and less under little noise; else 0.
        spread: over how many entries a row's squared length is expected to be spread, by default 25.
        rate: Poisson sampling rate of the gradients' batches, 1 takes all rows; by default √(3000/n) for several
            outputs, else 1.
    """

    score_noise: float | None = None
    iterations: int | None = None
    clip: float | None = None
    step: float | None = None
    decay: float | None = None
    power: float | None = None
    damping: float | None = None
    centre_share: float | None = None
    moment_share: float | None = None
    recalibration_share: float | None = None
    spread: float | None = None
    rate: float | None = None


def settings(problem: Problem, guarantee: Guarantee, asked: DiagonalOptions) -> ScaledDescent:
    """Descent on centred and scaled columns, with the least noise that keeps the guarantee.

    Args:
        problem: any loss, no constraint.
        guarantee: what to keep.
        asked: options of the user.

    Raises:
        InvalidInput: a constraint, unbounded rows, pure DP, or shares that leave nothing.
    """
    check(problem)
    if asked.step is not None and asked.score_noise is not None:
        raise InvalidInput("score_noise chooses the step, which was given too: leave one out.")
    if asked.score_noise is not None and problem.rows.outputs == 1:
        raise InvalidInput("score_noise is for several outputs; with one output give the step.")
    kappa, shares = gaussian_multiplier(guarantee), _shares(problem, guarantee, asked)
    model = _model(problem, kappa, shares, asked)
    model.check(problem)
    clip = _clip(problem, guarantee, kappa) if asked.clip is None else asked.clip
    decay = _decay(problem, guarantee) if asked.decay is None else asked.decay
    if not 0 <= decay < 1:
        raise InvalidInput(f"decay must lie in [0, 1), got {decay!r}.")
    several = problem.rows.outputs > 1
    noise = kappa if several else multiplier(kappa, _left(shares))
    count, step = (_steps_of_classes if several else _steps_of_one_score)(problem, noise, clip, decay, asked)
    iterate: Literal["last", "suffix"] = "last" if guarantee.private or problem.loss.smooth else "suffix"
    batches = _sampling(problem, guarantee, asked.rate)
    noiseless = ScaledDescent(model, 0.0, count, clip, step, decay, iterate, batches)
    return _with_noise(model, noiseless, problem, guarantee, shares)


def _model(problem: Problem, kappa: float, shares: dict[str, float], asked: DiagonalOptions) -> Diagonal:
    """The scale model, without noise yet."""
    weights = current(column_weights.NUMBERS)
    return Diagonal(
        moment_multiplier=0.0,
        damping=column_weights.chance_damping(problem, kappa) if asked.damping is None else asked.damping,
        power=weights.power if asked.power is None else asked.power,
        spread=weights.spread if asked.spread is None else asked.spread,
        centred=shares["centre_share"] > 0,
        constant_weight=current(NUMBERS).constant_weight
        if problem.rows.outputs > 1
        else 1.0,  # one score has an offset
    )


def _shares(problem: Problem, guarantee: Guarantee, asked: DiagonalOptions) -> dict[str, float]:
    """Shares of the budget for all but the gradients; rows without a constant column are not centred."""
    usual = current(shared.NUMBERS)
    temperature = fits_temperature(problem)
    recalibration = checked_recalibration_share(
        problem,
        guarantee,
        asked.recalibration_share,
        _temperature_share(problem, guarantee) if temperature else usual.large_share,
        possible=temperature or fits(problem),
    )
    shares = {
        "centre_share": _centre_share(problem) if asked.centre_share is None else asked.centre_share,
        "moment_share": usual.estimate_share if asked.moment_share is None else asked.moment_share,
        "recalibration_share": recalibration,
    }
    _left(shares)
    return shares


def _temperature_share(problem: Problem, guarantee: Guarantee) -> float:
    """q = 4B/c·ν/n, at most 2 %: B the clip of slopes, c the noise in a score, ν that of the whole budget.

    Noise of deviation τ = 2B·ν/(n·√q) in the mean slope moves the temperature such that the loss grows by τ²/(2h), with
    the mean curvature h ≤ ½ of the loss. Without the share q the noise in scores, of variance c², grows by c²·q, which
    costs h·c²·q/2. The sum is least at q = 2B·ν/(n·h·c). Under much noise the prior bounds what noise in the slope
    costs, and the share is what other recalibrations spend on one number.
    """
    usual, noise = current(shared.NUMBERS), gaussian_multiplier(guarantee)
    wanted = 4 * slope_clip(problem.n, noise) / usual.score_noise * noise / problem.n
    return min(usual.large_share * current(RECALIBRATION).place_share, wanted)


def _centre_share(problem: Problem) -> float:
    """A twentieth where there is an intercept; 0 for one output of over 1000 columns.

    On bags of words the noise of so long a mean row was more than centring gained (ε = 0.5).
    """
    rows, usual = problem.rows, current(shared.NUMBERS)
    known = rows.outputs > 1 or rows.n_features <= usual.many_columns
    return usual.estimate_share if rows.constant and known else 0.0


def _left(shares: dict[str, float]) -> float:
    return remaining_share("gradients", shares, may_be_zero=("centre_share", "recalibration_share"))


def _decay(problem: Problem, guarantee: Guarantee) -> float:
    """Momentum for several outputs, as in plain descent, and without noise for smooth losses, which then converge."""
    exact = not guarantee.private and problem.loss.smooth
    return current(shared.NUMBERS).decay if problem.rows.outputs > 1 or exact else 0.0


def _sampling(problem: Problem, guarantee: Guarantee, rate: float | None) -> PoissonSampling | None:
    """Several outputs: of n > 3000 rows a step takes a batch of √(3000·n), at a rate of √(3000/n); else all rows.

    At a rate of a fifth a step takes a fifth of the time, and noise grows by a few per cent where there is much (1 % at
    ε = 0.1, 7 % at 1), by a quarter where there is little (ε = 8).
    """
    if rate is None:
        batched = guarantee.private and problem.rows.outputs > 1
        rate = min(1.0, math.sqrt(current(NUMBERS).batch / problem.n)) if batched else 1.0
    return PoissonSampling(rate) if rate != 1 else None


def _clip(problem: Problem, guarantee: Guarantee, kappa: float) -> float:
    """Several outputs: `shared.clip_share` of a row's length, at most √½; one output: the longest gradient at θ = 0.

    Without noise there is none but for counts, whose curvature has no bound. √½ is half of the longest slope of a
    softmax loss; logistic slopes are cut at ½, half of theirs. With several outputs accuracy hardly depends on it; but
    a small clip makes probabilities too extreme, also where there is little noise.
    """
    radius = problem.rows.radius
    if problem.rows.outputs > 1 and guarantee.private:
        return min(shared.clip_share(problem, kappa), math.sqrt(0.5)) * radius
    clipped = guarantee.private or isinstance(problem.loss, Poisson)
    return first_slope(problem, 1.0) * radius if clipped else math.inf


def _steps_of_classes(
    problem: Problem, kappa: float, clip: float, decay: float, asked: DiagonalOptions
) -> tuple[int, float]:
    """(number of steps, step size) whose path length puts noise c into a score: ηT·C·R = c·n/κ.

    A step moves θ by η/(1 − decay) in the end. T is such that no η·C·R exceeds 100, from 32 to twice as many; where
    those are too few, the path is shorter. Without noise steps are 1.5(1 + decay)/β, ¾ of the longest that are stable
    (Polyak 1964), β = R²/2 the largest curvature that there can be.
    """
    numbers, radius = current(shared.NUMBERS), problem.rows.radius
    if not kappa:
        size = 1.5 * (1 + decay) / (radius**2 / 2)
        count = numbers.exact_iterations if asked.iterations is None else asked.iterations
        return count, size if asked.step is None else asked.step
    length = (numbers.score_noise if asked.score_noise is None else asked.score_noise) * problem.n / kappa
    longest, fewest = current(NUMBERS).longest_step / (1 - decay), numbers.fewest_iterations
    usual = math.ceil(min(2 * fewest, max(fewest, length / longest)))
    count = usual if asked.iterations is None else asked.iterations
    size = min(length / max(1, count), longest) * (1 - decay) / (clip * radius)
    return count, size if asked.step is None else asked.step


def _steps_of_one_score(
    problem: Problem, nu: float, clip: float, decay: float, asked: DiagonalOptions
) -> tuple[int, float]:
    """(number of steps, step size) of the path length ηT that balances noise against stopping early.

    T steps of size η with noise √T·νC/n a coordinate move scores by noise of variance (ηTνC/n)²·radius² whatever the
    dimension, which costs ½·β·(ηTνC/n)² at curvature β = curvature·radius²; stopping early costs D²/(2ηT). The sum is
    least at (ηT)³ = D²n²/(2βν²C²), D = 5/radius. Steps are at most 1/β, and as long without noise, which is stable with
    momentum too (Polyak 1964).
    """
    rows, numbers = problem.rows, current(shared.NUMBERS)
    beta = curvature_bound(problem) * rows.radius**2 + problem.ridge
    count, longest = asked.iterations, 1 / beta
    if not nu:
        count = numbers.exact_iterations if count is None else count
        return count, longest if asked.step is None else asked.step
    length = ((numbers.score_bound / rows.radius * problem.n / (nu * clip)) ** 2 / (2 * beta)) ** (1 / 3)
    if count is None:
        count = int(min(numbers.most_iterations, max(1, math.ceil(beta * length))))
    return count, min(longest, (1 - decay) * length / max(1, count)) if asked.step is None else asked.step


def _with_noise(
    model: Diagonal, noiseless: ScaledDescent, problem: Problem, guarantee: Guarantee, shares: dict[str, float]
) -> ScaledDescent:
    """All noise in proportion to that of one release with the whole budget, with the least that keeps the guarantee."""
    left, rate = _left(shares), noiseless.sampling.rate if noiseless.sampling else 1.0

    def make(noise: float) -> ScaledDescent:
        centre, moments = (multiplier(noise, shares[name]) for name in ("centre_share", "moment_share"))
        return replace(
            noiseless,
            scales=replace(model, centre_multiplier=centre, moment_multiplier=moments),
            noise_multiplier=noise * rate * math.sqrt(noiseless.iterations / left),
            recalibration_multiplier=multiplier(noise, shares["recalibration_share"]),
        )

    return calibrated(make, problem, guarantee)
