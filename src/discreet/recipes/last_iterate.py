"""Settings of a descent that shows nothing but its last iterate (`discreet.measurements.LastIterate`)."""

from __future__ import annotations

import math

from discreet.accounting.reductions.last_iterate import last_iterate_mu
from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee
from discreet.calibration.one_release import gaussian_multiplier
from discreet.errors import HypothesisViolated
from discreet.measurements.last_iterate import Precision, contraction, require_hypotheses, usual_precision
from discreet.recipes import shared
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
        iterations: number of steps, if it was asked for.
        step: step size, if it was asked for.

    Raises:
        HypothesisViolated: the theorem does not cover the run, or the run would take too long.
    """
    if guarantee.unit.relation != "replace-one" or guarantee.unit.enforced:
        raise HypothesisViolated(
            "last-iterate accounting needs replace-one, and rows of which none are left out: their number is public."
        )
    curvature = shared.smoothness_bound(problem, 1.0)
    ways = {usual}
    if problem.ridge and iterations is None:
        longest = current(shared.NUMBERS).most_iterations
        ways |= {(min(2**j, longest), step or 1 / curvature) for j in range(longest.bit_length() + 1)}
    made = {way: _run(problem, guarantee, clip, *way) for way in sorted(ways)}
    if len(made) > 1:
        best = min(made, key=lambda way: _bound(problem, guarantee, clip, way, made[way]))
        made = {best: made[best]}
    ((count, size), precision) = made.popitem()

    def make(noise_multiplier: float) -> Descent:
        return Descent(noise_multiplier, count, clip, Sgd(size), iterate="last", precision=precision)

    return calibrated(make, problem, guarantee)


def _run(problem: Problem, guarantee: Guarantee, clip: float, count: int, step: float) -> Precision:
    """The precision of a run, once its hypotheses hold."""
    rows, d = problem.rows, problem.rows.dimension
    require_hypotheses(rows, problem.loss, problem.n, step, problem.ridge, problem.domain)
    if count * d > _MOST_NUMBERS:
        raise HypothesisViolated(f"last-iterate accounting needs at most {_MOST_NUMBERS} steps times coefficients.")
    noise = 4 * gaussian_multiplier(guarantee) * math.sqrt(count)
    radius = problem.domain.radius_in(d)
    if not math.isfinite(radius):
        path = min(step * count, 1 / problem.ridge if problem.ridge else math.inf)
        radius = 2 * path * clip * (1 + noise * (math.sqrt(d) + _FARTHEST) / problem.n)
    return usual_precision(rows, problem.loss, problem.n, clip, radius, noise, problem.domain.diameter(d))


def _bound(problem: Problem, guarantee: Guarantee, clip: float, way: tuple[int, float], precision: Precision) -> float:
    """The bound on the excess risk of a run of so many steps of this size, with the noise that it needs."""
    count, step = way
    unit = guarantee.unit.sensitivity(1.0)
    growth = last_iterate_mu(
        count,
        1.0,
        1.0,
        contraction(problem.rows, problem.loss, step, problem.ridge),
        diameter=precision.diameter / step / clip * problem.n / unit,
        rounding=precision.rounding / unit,
    )
    smoothness = shared.smoothness_bound(problem, 1.0)
    if not step * smoothness < 2:
        return math.inf
    reach = min(current(shared.NUMBERS).score_bound / problem.rows.radius, precision.radius)
    return strongly_convex_last_iterate(
        distance=reach,
        strong_convexity=problem.ridge,
        smoothness=smoothness,
        d=problem.rows.dimension,
        noise_std=gaussian_multiplier(guarantee) * growth * clip / problem.n,
        iterations=count,
        step=step,
    ).value
