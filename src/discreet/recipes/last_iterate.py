"""Settings of a descent that shows nothing but its last iterate (`discreet.measurements.LastIterate`)."""

from __future__ import annotations

import math
from dataclasses import replace

from discreet.accounting.reductions.last_iterate import last_iterate_mu
from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee
from discreet.calibration.one_release import gaussian_multiplier
from discreet.errors import HypothesisViolated
from discreet.measurements import FixedSizeSampling, PoissonSampling, Sampling
from discreet.measurements.hidden_batches import AllRows, Batches, CyclicBatches, SampledBatches
from discreet.measurements.last_iterate import Precision, contraction, require_hypotheses, usual_precision
from discreet.recipes import shared
from discreet.recipes.hidden_windows import likely_noise, sampled_batches
from discreet.solvers.base import Problem
from discreet.solvers.descent import Descent
from discreet.theory.descent import strongly_convex_last_iterate
from discreet.tuned import current
from discreet.updates import Sgd

__all__ = ["hidden_descent"]

_MOST_NUMBERS = 10**7
"""Steps times coefficients of a hidden run, whose iterates are unbounded integers: some ten seconds."""
_FARTHEST = 64.0
"""Noise is never longer than this many standard deviations more than √d of them (see `noise.gaussian`)."""


def hidden_descent(
    problem: Problem,
    guarantee: Guarantee,
    clip: float,
    usual: tuple[int, float],
    batches: Sampling | CyclicBatches | None = None,
    *,
    iterations: int | None,
    step: float | None,
) -> Descent:
    """The hidden run of the least bound on the excess risk.

    A ridge λ makes steps contractions, and the noise of T steps then grows like √((1 − c^T)/(1 + c^T)·(1 + c)/(1 − c)),
    not like √T: more steps cost little, so that as many are taken as bring the bound for strongly convex losses down.
    Without a ridge the steps are those that would be taken in the open.

    Args:
        problem: public facts.
        guarantee: what to keep.
        clip: ℓ2 bound on a row's gradient.
        usual: number of steps and step size of the run in the open.
        batches: a sampling scheme or cyclic batches; None takes all rows each step.
        iterations: number of steps, if it was asked for.
        step: step size, if it was asked for.

    Raises:
        HypothesisViolated: the theorem does not cover the run, or the run would take too long.
    """
    if guarantee.unit.relation != "replace-one" or guarantee.unit.enforced:
        raise HypothesisViolated(
            "last-iterate accounting needs replace-one, and rows of which none are left out: their number is public."
        )
    ways = _ways(problem, usual, _crowding(problem, batches), batches, iterations, step)
    made = {way: _run(problem, guarantee, clip, way, batches) for way in ways}
    if len(made) > 1:
        best = min(made, key=lambda way: _bound(problem, guarantee, clip, way, *made[way]))
        made = {best: made[best]}
    ((count, size), (precision, scheme)) = made.popitem()

    def make(noise_multiplier: float) -> Descent:
        run = Descent(noise_multiplier, count, clip, Sgd(size), iterate="last", precision=precision)
        return replace(run, hidden_batches=scheme)

    return calibrated(make, problem, guarantee)


def _crowding(problem: Problem, batches: Sampling | CyclicBatches | None) -> float:
    """The largest over the expected size of a batch."""
    if isinstance(batches, CyclicBatches):
        return batches.most(problem.n) / batches.expected(problem.n)
    return 1 / batches.rate if isinstance(batches, PoissonSampling) else 1.0


def _ways(
    problem: Problem,
    usual: tuple[int, float],
    crowding: float,
    batches: Sampling | CyclicBatches | None,
    iterations: int | None,
    step: float | None,
) -> list[tuple[int, float]]:
    """Numbers of steps and step sizes to choose from.

    That of the run in the open, with steps no longer than batches of the largest size allow, and a whole cycle at
    least; with a ridge also the powers of two.
    """
    longest = current(shared.NUMBERS).most_iterations
    flattest = problem.ridge + crowding * (shared.smoothness_bound(problem, 1.0) - problem.ridge)
    count, size = usual
    if step is None and size * flattest > 1:
        count, size = (count if iterations else min(longest, math.ceil(count * size * flattest))), 1 / flattest
    if iterations is None and isinstance(batches, CyclicBatches) and count < batches.count:
        count, size = batches.count, (size * count / batches.count if step is None else size)
    ways = {(count, size)}
    if problem.ridge and iterations is None:
        ways |= {(min(2**j, longest), step or 1 / flattest) for j in range(longest.bit_length() + 1)}
    return sorted(ways)


def _run(
    problem: Problem,
    guarantee: Guarantee,
    clip: float,
    way: tuple[int, float],
    batches: Sampling | CyclicBatches | None,
) -> tuple[Precision, Batches]:
    """The precision and the batches of a run, once its hypotheses hold."""
    (count, step), rows, d = way, problem.rows, problem.rows.dimension
    crowding = _crowding(problem, batches)
    require_hypotheses(rows, problem.loss, problem.n, step, problem.ridge, problem.domain, crowding)
    if count * d > _MOST_NUMBERS:
        raise HypothesisViolated(f"last-iterate accounting needs at most {_MOST_NUMBERS} steps times coefficients.")
    scheme = _scheme(batches)
    most, expected = scheme.most(problem.n), scheme.expected(problem.n)
    noise = 4 * gaussian_multiplier(guarantee) * math.sqrt(count)
    radius = problem.domain.radius_in(d)
    if not math.isfinite(radius):
        path = min(step * count, 1 / problem.ridge if problem.ridge else math.inf)
        radius = 2 * path * clip * (crowding + noise * (math.sqrt(d) + _FARTHEST) / expected)
    precision = usual_precision(rows, problem.loss, most, clip, radius, noise, problem.domain.diameter(d))
    if isinstance(scheme, SampledBatches):
        lengths = _lengths(problem, guarantee, clip, step, precision, expected)
        c = contraction(rows, problem.loss, step, problem.ridge, crowding)
        scheme = sampled_batches(scheme.sampling, problem.n, guarantee, count, c, *lengths)
    return precision, scheme


def _scheme(batches: Sampling | CyclicBatches | None) -> Batches:
    """How a hidden run takes its rows; of sampled batches, with a window that is chosen later."""
    if batches is None:
        return AllRows()
    if isinstance(batches, CyclicBatches):
        return batches
    if isinstance(batches, PoissonSampling | FixedSizeSampling):
        return SampledBatches(batches, 1, 0.5)
    raise HypothesisViolated("last-iterate accounting needs Poisson, fixed-size or cyclic batches, or all rows.")


def _lengths(
    problem: Problem, guarantee: Guarantee, clip: float, step: float, precision: Precision, rows: float
) -> tuple[float, float]:
    """Diameter and rounding in units of how far a step that sees the unit's rows moves between neighbours."""
    unit = guarantee.unit.sensitivity(1.0)
    return precision.diameter / step / clip * rows / unit, precision.rounding / unit


def _bound(
    problem: Problem,
    guarantee: Guarantee,
    clip: float,
    way: tuple[int, float],
    precision: Precision,
    scheme: Batches,
) -> float:
    """The bound on the excess risk of a run of so many steps of this size, with the noise that it needs."""
    (count, step), rows = way, scheme.expected(problem.n)
    lengths = _lengths(problem, guarantee, clip, step, precision, rows)
    c = contraction(problem.rows, problem.loss, step, problem.ridge, scheme.most(problem.n) / rows)
    if isinstance(scheme, SampledBatches):
        noise = likely_noise(scheme, problem.n, guarantee, count, c, *lengths)
    else:
        turns = scheme.count if isinstance(scheme, CyclicBatches) else 1
        growth = last_iterate_mu(count, 1.0, 1.0, c, diameter=lengths[0], rounding=lengths[1], batches=turns)
        noise = gaussian_multiplier(guarantee) * growth
    smoothness = shared.smoothness_bound(problem, 1.0)
    if not step * smoothness < 2:
        return math.inf
    reach = min(current(shared.NUMBERS).score_bound / problem.rows.radius, precision.radius)
    return strongly_convex_last_iterate(
        distance=reach,
        strong_convexity=problem.ridge,
        smoothness=smoothness,
        d=problem.rows.dimension,
        noise_std=noise * clip / rows,
        iterations=count,
        step=step,
    ).value
