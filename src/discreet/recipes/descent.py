"""Settings of noisy gradient descent (`discreet.solvers.descent`) from public facts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from discreet.calibration.by_zcdp import calibrated_by_zcdp
from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee
from discreet.calibration.one_release import gaussian_multiplier
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.losses import Domain, Poisson
from discreet.measurements import Sampling
from discreet.measurements.hidden_batches import CyclicBatches
from discreet.recipes import boosted, shared
from discreet.recipes.last_iterate import hidden_descent
from discreet.solvers.base import Problem
from discreet.solvers.best_iterate import BestIterate
from discreet.solvers.descent import Descent, Iterate
from discreet.tuned import current
from discreet.updates import Adafactor, Momentum, Schedule, Sgd, Svrg, Update, named_update
from discreet.updates.named import SVRG_PERIOD
from discreet.updates.schedules import step_at

__all__ = ["recipe"]

_SHORT_PERIOD = 2  # of SVRG where every step takes all rows: nothing is gained by an anchor that serves longer


def recipe(
    problem: Problem,
    guarantee: Guarantee,
    *,
    iterations: int | None = None,
    clip: float | None = None,
    step: float | Schedule | None = None,
    update: Update | str | None = None,
    rate: float | None = None,
    batch_size: int | None = None,
    batches: int | None = None,
    cyclic: int | None = None,
    iterate: Literal["last", "average", "suffix", "random", "best"] | None = None,
    seed: int | None = None,
    accounting: Literal["last-iterate", "composition"] | None = None,
) -> Descent | BestIterate:
    """Descent whose steps come from theory and whose noise comes from the accountant.

    Only the *path length* ηT, step size times number of steps, matters for the excess risk (`_path_length`). η ≤ 1/β
    asks for T ≥ β·ηT steps; more would only cost time. Several classes take steps with momentum.

    Args:
        problem: public facts.
        guarantee: what to keep.
        iterations: number of steps.
        clip: ℓ2 bound on a row's gradient; by default the largest gradient of a row at a model of the set, or radius ×
            1 where slopes are larger, or with several outputs the gradient at θ = 0. Without privacy nothing is
            clipped, but for Poisson gradients.
        step: step size or schedule for plain descent.
        update: another update rule in place of plain descent: a rule, or its name, alone (``"adam"``) or with a step
            (``"adam:0.1"``).
        rate: Poisson sampling rate of batches.
        batch_size: fixed-size batches (replace-one only).
        batches: epochs of this many batches, every row drawing the one in which it is (random allocation).
        cyclic: this many fixed batches taken in turn, where nothing but the last iterate is shown.
        iterate: which iterate is returned; by default the average of the last half, and for losses that are not convex
            a random one of it. ``"best"`` is the best of few, the start among them, by a private choice that has a
            tenth of the budget (full batches, one output).
        seed: public seed of the random iterate; by default 0.
        accounting: of ``iterate="last"``: ``"last-iterate"`` keeps all other iterates from everyone, so that the run is
            one release whose cost stops growing with its steps; ``"composition"`` releases every step. By default the
            former where its theorem holds (`discreet.measurements.LastIterate`) and asks for less noise.
    """
    _require_consistent(iterate, accounting, update, step)
    usual: Iterate = "suffix" if problem.loss.convex else "random"
    shown: Iterate = "suffix" if iterate == "best" else iterate or usual
    sampling = shared.batches(problem, rate, batch_size)
    _require_one_kind(sampling, batches, cyclic)
    settings = _settings(problem, guarantee, clip, step, update, iterations, sampled=sampling is not None)
    if seed is not None and shown != "random":
        raise InvalidInput(f"seed draws the random iterate and has no effect on iterate={shown!r}: leave it out.")
    change = _differences(problem, guarantee, settings[2], settings[0])
    run = Descent(0.0, *settings, sampling, shown, batches, seed or 0, differences=change)
    if iterate == "best":
        return _best(run, problem, guarantee)
    if cyclic is not None:
        return _cyclic(problem, guarantee, run, cyclic, accounting, iterations, step)
    if shown != "last" or accounting == "composition" or not guarantee.private:
        return _in_the_open(run, problem, guarantee)
    return _last_iterate(problem, guarantee, run, accounting, iterations, step)


def _settings(
    problem: Problem,
    guarantee: Guarantee,
    clip: float | None,
    step: float | Schedule | None,
    update: Update | str | None,
    iterations: int | None,
    *,
    sampled: bool,
) -> tuple[int, float, Update]:
    """(number of steps, clip, update)."""
    _require_bounded_rows(problem, guarantee)
    bound = _clip(problem, guarantee) if clip is None else clip
    beta = shared.curvature_bound(problem) * problem.rows.radius**2 + problem.ridge
    momentum = problem.rows.outputs > 1 and update is None and step is None and guarantee.private
    length = _path_length(problem, guarantee, bound)
    count = _iterations(beta, length, momentum) if iterations is None else iterations
    if update is None:
        rule = _update(beta, length, count, step, momentum)
    else:
        period = SVRG_PERIOD if sampled else _SHORT_PERIOD
        rule = _other_update(update, problem, guarantee, _step_size(beta, length, count, momentum), count, period)
    return count, bound, rule


def _require_consistent(iterate: str | None, accounting: str | None, update: object, step: object) -> None:
    if accounting == "last-iterate" and iterate != "last":
        raise InvalidInput("accounting='last-iterate' is about a run that shows its last iterate: iterate='last'.")
    if update is not None and step is not None:
        raise InvalidInput("step belongs to plain descent; an update rule has its own.")


def _require_one_kind(*kinds: object) -> None:
    if sum(kind is not None for kind in kinds) > 1:
        raise InvalidInput("give rate, batch_size, batches (random allocation) or cyclic, one of the four.")


def _cyclic(
    problem: Problem,
    guarantee: Guarantee,
    run: Descent,
    cyclic: int,
    accounting: str | None,
    iterations: int | None,
    step: float | Schedule | None,
) -> Descent:
    """Fixed batches in turn; without privacy, epochs of as many."""
    if run.iterate != "last" or accounting == "composition":
        raise InvalidInput(
            "cyclic batches are for runs that show their last iterate alone: iterate='last'. With batches=, where "
            "every row draws its batch in each epoch, every step may be shown."
        )
    if cyclic > problem.n:
        raise InvalidInput(f"cyclic={cyclic} batches of {problem.n:g} rows: some would be empty; ask for fewer.")
    if not guarantee.private:
        return replace(run, batches=cyclic)
    return _hidden(problem, guarantee, run, CyclicBatches(cyclic), iterations, step)


def _in_the_open(run: Descent, problem: Problem, guarantee: Guarantee) -> Descent:
    """The run with the least noise with which every step may be released."""
    return calibrated(lambda noise: replace(run, noise_multiplier=noise), problem, guarantee)


def _last_iterate(
    problem: Problem,
    guarantee: Guarantee,
    open_run: Descent,
    accounting: str | None,
    iterations: int | None,
    step: float | Schedule | None,
) -> Descent:
    """The run that hides all iterates but the last, or the open one where that is impossible or needs less noise."""
    try:
        if open_run.batches is not None:
            raise HypothesisViolated(
                "last-iterate accounting needs all rows, or batches that are cyclic, Poisson or of fixed size: for "
                "those of an epoch, in which every row draws its batch anew, no theorem is known."
            )
        hidden = _hidden(problem, guarantee, open_run, open_run.sampling, iterations, step)
    except HypothesisViolated:
        if accounting is not None:
            raise
        return _in_the_open(open_run, problem, guarantee)
    if accounting is not None:
        return hidden
    # per step, √T of the noise of one release is what the open run needs
    opened = _in_the_open(open_run, problem, guarantee)
    same = opened.noise_multiplier * math.sqrt(hidden.iterations / opened.iterations)
    return hidden if hidden.noise_multiplier < same else opened


def _hidden(
    problem: Problem,
    guarantee: Guarantee,
    open_run: Descent,
    batches: Sampling | CyclicBatches | None,
    iterations: int | None,
    step: float | Schedule | None,
) -> Descent:
    """The run in which nothing but the last iterate is shown."""
    size = open_run.update.step if isinstance(open_run.update, Sgd) else None
    if size is None or callable(size):
        raise HypothesisViolated("last-iterate accounting needs plain steps of one size.")
    asked = None if step is None or callable(step) else step
    usual = open_run.iterations, size
    return hidden_descent(problem, guarantee, open_run.clip, usual, batches, iterations=iterations, step=asked)


def _best(descent: Descent, problem: Problem, guarantee: Guarantee) -> BestIterate:
    """The descent with a choice of its best iterate, which has a tenth of the budget in zCDP."""
    if descent.sampling is not None or descent.batches is not None:
        raise InvalidInput("iterate='best' is for full batches: leave rate, batch_size and batches out.")
    share, bound = current(shared.NUMBERS).large_share, current(boosted.NUMBERS).loss_bound

    def make(noise: float) -> BestIterate:
        # T Gaussian releases cost T·Δ²/2ν², a choice of scale b costs (2Δ/b)²/8 = Δ²/2b²: b is that of one release
        gradients = replace(descent, noise_multiplier=noise * math.sqrt(descent.iterations / (1 - share)))
        return BestIterate(gradients, noise / math.sqrt(share), bound)

    return calibrated_by_zcdp(make, problem, guarantee)


def _require_bounded_rows(problem: Problem, guarantee: Guarantee) -> None:
    if problem.rows.bounded:
        return
    if guarantee.private:
        raise InvalidInput("a private run needs rows of bounded length.")
    raise InvalidInput("descent needs a row_norm to choose its steps; give one, or another solver.")


def _clip(problem: Problem, guarantee: Guarantee) -> float:
    """radius × slope. Without privacy only the Poisson loss is clipped, whose gradients have no step size otherwise."""
    if not (guarantee.private or isinstance(problem.loss, Poisson)):
        return math.inf
    slope, rows = shared.usual_slope(problem), problem.rows
    if rows.outputs == 1 and not isinstance(problem.loss, Poisson):  # scores of models of the set
        scores = Domain(rows.radius * problem.domain.radius_in(rows.dimension), -1.0, 1.0)
        slope = min(slope, problem.loss.lipschitz(scores))
    return rows.radius * slope


def _path_length(problem: Problem, guarantee: Guarantee, clip: float) -> float:
    """ηT, step size times number of steps, that balances the noise of all steps against stopping early.

    With T steps of size η and noise √T·κ·C/n in each of d coordinates, averaging gives an excess risk of at most
    D²/(2ηT) + ηT·dκ²C²/(2n²), least at ηT = D·n/(√d·κ·C). D is 5/radius, the length of a θ whose scores are within
    ±5, and with over 1000 columns the diameter of the ball of such θ: there √d exaggerates the noise more than few
    steps of so long a path cost. The noise that this adds to a row's score is ηT·κC·radius/n, whatever d; two classes
    are separated by scores, so there ηT is at least what makes that noise 1.6.

    With K outputs (softmax) d counts every output, and the bound is far too large: noise of size ηTκC/n a coordinate
    costs ½·tr(H)·(ηTκC/n)², and the Hessian's trace is at most (1 − 1/K)·radius² whatever d. That and D²/(2ηT) with
    D = 10√K/radius balance at (ηT)³ = D²n²/(2·tr(H)·κ²C²).
    """
    if not guarantee.private:
        return math.inf
    rows, numbers = problem.rows, current(shared.NUMBERS)
    noise = gaussian_multiplier(guarantee) * clip / problem.n
    whole = rows.outputs > 1 or rows.n_features > numbers.many_columns
    distance = (2 if whole else 1) * numbers.score_bound / rows.radius
    length = distance / (math.sqrt(math.prod(rows.shape)) * noise)
    if problem.loss.slope_sign_fixed:
        length = max(length, numbers.score_noise / (rows.radius * noise))
    if rows.outputs > 1:
        trace = (1 - 1 / rows.outputs) * rows.radius**2
        length = max(length, (rows.outputs * distance**2 / (2 * trace * noise**2)) ** (1 / 3))
    return length


def _stride(momentum: bool) -> float:
    """How many step sizes one step moves θ in the end: Σ decay^k with momentum."""
    return 1 / (1 - current(shared.NUMBERS).decay) if momentum else 1.0


def _iterations(beta: float, length: float, momentum: bool) -> int:
    """T = β·ηT, so that no step is longer than 1/β; with momentum 1 − decay of that, as each step leads further."""
    limits = current(shared.NUMBERS)
    if not length < math.inf:
        return limits.exact_iterations
    return int(min(limits.most_iterations, max(1.0, math.ceil(beta * length / _stride(momentum)))))


def _step_size(beta: float, length: float, iterations: int, momentum: bool) -> float:
    """The path length over T, or 1/β if that is shorter: longer steps are not stable."""
    return min(1 / beta, length / (_stride(momentum) * iterations))


def _other_update(
    update: Update | str, problem: Problem, guarantee: Guarantee, plain: float, iterations: int, period: int
) -> Update:
    """The rule that was asked for, with a step from theory if none was given.

    Rules that divide by the root of a second moment move every coordinate by about their step η, and where there is
    only noise, to and fro: by η√T in T steps, twice that with Adam's momentum, which repeats a step about ten times.
    Scores then have noise of η√T·radius, and η is such that this is 1.6. Momentum moves θ by step/(1 − decay) in the
    end. Noise of SVRG moves θ 1 + ρ(p − 1)/p times as far as that of plain steps (`_differences`).
    """
    adafactor = current(shared.NUMBERS).score_noise / (problem.rows.radius * math.sqrt(iterations))
    if isinstance(update, Adafactor) and update.step is None:
        return replace(update, step=adafactor)
    if not isinstance(update, str):
        return update
    change = _change(problem, guarantee, plain, iterations, period)
    adam, momentum, svrg = adafactor / 2, 0.1 * plain, plain / (1 + change * (period - 1) / period)
    usual = {"adam": adam, "adamw": adam, "adafactor": adafactor, "momentum": momentum, "svrg": svrg}
    return named_update(update, usual.get(update.partition(":")[0], plain), period)


def _change(problem: Problem, guarantee: Guarantee, step: float, iterations: int, period: int) -> float:
    """ρ: the bound on a row's change since SVRG's anchor over the clip, in the middle of a period of p steps.

    Noise of ν√T moves θ by η·√d·ν√T·C/n a step, and the p − 1 steps after an anchor begin p/2 steps from it on average.
    A row's gradient changes by at most β times that. The gradient itself moves θ too, but it falls, and noise does not.
    """
    noise = gaussian_multiplier(guarantee) * math.sqrt(iterations) / problem.n if guarantee.private else 0.0
    curvature = shared.curvature_bound(problem) * problem.rows.radius**2
    return min(1.0, period / 2 * step * curvature * math.sqrt(math.prod(problem.rows.shape)) * noise)


def _differences(problem: Problem, guarantee: Guarantee, rule: Update, iterations: int) -> tuple[float, float]:
    """SVRG: how much more noise its differences have than its anchors, and a row's curvature.

    Of T steps in periods of p, T/p anchors have noise z₁C and recur p times, the other differences have z₂ρC, where ρ
    is their clip over C (`_change`). Given Σ 1/z² the variance of the path, T·(p·z₁² + (1 − 1/p)·ρ²z₂²)·C², is least at
    z₂/z₁ = √(p/ρ) and then (1 + ρ(p − 1)/p)² times that of plain steps.
    """
    if not isinstance(rule, Svrg) or rule.period < 2:
        return 1.0, math.inf
    change = _change(problem, guarantee, step_at(rule.step, 0), iterations, rule.period)
    ratio = math.sqrt(rule.period / change) if change else 1.0
    return ratio, shared.curvature_bound(problem) * problem.rows.radius**2


def _update(beta: float, length: float, iterations: int, step: float | Schedule | None, momentum: bool) -> Update:
    """Steps of the path length over T, or the longest stable ones if those are shorter."""
    size = _step_size(beta, length, iterations, momentum) if step is None else step
    return Momentum(size, current(shared.NUMBERS).decay) if momentum else Sgd(size)
