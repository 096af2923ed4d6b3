"""The bounds that theory promises of solvers for least squares; see `discreet.planning.predicted`."""

from __future__ import annotations

import math

from discreet.errors import HypothesisViolated
from discreet.losses import Domain
from discreet.planning.hypotheses import dimension, target_length, unconstrained, uncut
from discreet.solvers.base import Problem
from discreet.solvers.parts.private_scales import Diagonal, Full
from discreet.solvers.scaled_descent import ScaledDescent
from discreet.solvers.sufficient_statistics import SufficientStatistics
from discreet.theory.bound import Bound, require
from discreet.theory.least_squares import moment_noise_norm, preconditioned, sufficient_statistics

__all__ = ["scaled_descent_bound", "sufficient_statistics_bound"]

_MOMENT_FAILURE = 0.05
"""The noise of a second moment is taken at a size that it exceeds once in twenty runs."""


def scaled_descent_bound(solver: ScaledDescent, problem: Problem) -> Bound:
    """The excess risk of descent whitened by a noisy second moment."""
    scales = solver.scales
    if not isinstance(scales, Full):
        what = "columns' second moments" if isinstance(scales, Diagonal) else "private estimates of scale"
        raise HypothesisViolated(f"its steps depend on {what}, which are not public before they are released.")
    averaged = solver.iterate == "suffix" and not (solver.recalibration_multiplier or solver.offset_multiplier)
    require(averaged and solver.sampling is None, "full batches and the average of the last half")
    require(solver.step == 1 and not solver.decay, "whole steps without momentum")
    require(problem.rows.outputs == 1, "one output")
    require(math.isfinite(problem.loss.smoothness(Domain())), "a loss of bounded curvature")
    unconstrained(problem)
    uncut(problem, solver.clip)
    d, radius, reach = dimension(problem), problem.rows.radius, target_length(problem)
    smoothness = scales.curvature
    error = moment_noise_norm(d, scales.moment_multiplier * radius**2, _MOMENT_FAILURE)
    return preconditioned(
        eigenvalues=[problem.ridge] * d,
        damping=scales.added_curvature(problem, solver.iterations),
        moment_error=smoothness * error / problem.n,
        target_norm=reach,
        noise_std=solver.noise_multiplier * solver.clip / problem.n,
        iterations=solver.iterations,
        score_square=(smoothness * radius**2 + problem.ridge) * reach**2,
        quadratic=False,
    )


def sufficient_statistics_bound(solver: SufficientStatistics, problem: Problem) -> Bound:
    """The excess risk of least squares from noisy moments."""
    d, radius = dimension(problem), problem.rows.radius
    return sufficient_statistics(
        n=round(problem.n),
        eigenvalues=[0.0] * d,
        moment_std=solver.noise_multiplier * radius**2,
        cross_std=solver.noise_multiplier * radius * solver.target_bound,
        target_norm=target_length(problem),
        ridge=problem.ridge * problem.n,
        failure=solver.failure,
    )
