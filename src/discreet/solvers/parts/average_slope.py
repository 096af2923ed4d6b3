"""The average slope of the mean, from released values: what turns coefficients into average marginal effects.

With mean g(s) at the score s = ⟨x, θ⟩, the average marginal effect of a column is A·θ_j, A = E g'(s):

- logistic: A is the mean of p(1 − p) over all rows, at the estimate. It moves with the estimate by the mean of g''(s)x,
  which is released, too; the variance of p(1 − p) over rows is at most A(¼ − A) (Bhatia and Davis 2000).
- counts: g = g' = e^s, whose mean is that of the counts, so A is the mean count. Given x, the covariance of counts and
  capped counts is the Hessian's, so that the mean count is correlated with the intercept alone, not with slopes. Counts
  are cut at C; what the mean then lacks follows from normal scores of the estimate's variance, and counts in full as an
  error. C makes noise and this error least.
- numbers: A = 1.

Weights would bias the average, so rows are not weighted here; in g''(s)x, which enters a variance only, rows longer
than the row norm are shortened. See ``docs/maths/intervals.md``.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.losses import CappedPoisson, Logistic, Loss, Poisson
from discreet.measurements import Measurement, Noisy
from discreet.mechanisms import Gaussian
from discreet.queries.base import Query
from discreet.queries.sums.mapped_sum import MappedSum
from discreet.queries.sums.moments import CrossMoment, TargetMoment
from discreet.queries.whitened import Role, WorkingRows
from discreet.solvers.base import Problem
from discreet.solvers.parts.count_cap import cap_for_mean, excess
from discreet.solvers.parts.debiasing import Debiased
from discreet.solvers.parts.whitening import Coordinates

__all__ = ["AverageSlope", "average_slope", "sums_for_average_slope", "working_sum"]

Array = NDArray[np.float64]

_STEEPEST = 1 / 4  # p(1 − p)
_MOST_BENT = math.sqrt(3) / 18  # |p(1 − p)(1 − 2p)|, at p = ½ ± √3/6
_ROUNDED_UP = 1 + 1e-12
_ITERATIONS = 30


@dataclass(frozen=True, eq=False)
class AverageSlope:
    """A, the mean over rows of the slope of the mean, and how it varies.

    Args:
        value: A.
        covariance: of A with each coefficient of the given columns, its correlation with the intercept left out for
            counts.
        variance: of A, over rows and noise.
    """

    value: float
    covariance: Array
    variance: float


def sums_for_average_slope(problem: Problem) -> int:
    """How many sums `average_slope` releases, by public facts: 2, or none where A is 1 or counts have no bound."""
    if isinstance(problem.loss, Logistic):
        return 2
    return 2 if isinstance(problem.loss, Poisson) and math.isfinite(problem.largest_count) else 0


def average_slope(
    problem: Problem, at: Coordinates, loss: Loss, found: Debiased, multiplier: float, rows_per_person: int, mean: float
) -> Generator[Measurement, Any, AverageSlope | None]:
    """A at the estimate; None for counts without a public bound.

    Args:
        problem: public facts.
        at: the whitened coordinates.
        loss: the one that was minimised.
        found: the estimate in these coordinates.
        multiplier: noise of each sum, over a row's largest contribution.
        rows_per_person: rows that may depend on each other; at most so many times the variance of independent ones.
        mean: about the mean count.
    """
    if isinstance(loss, Logistic):
        return (yield from _of_classes(problem, at, found, multiplier, rows_per_person))
    if isinstance(loss, Poisson | CappedPoisson):
        if multiplier and not sums_for_average_slope(problem):
            return None
        return (yield from _of_counts(problem, at, found, multiplier, rows_per_person, mean))
    return AverageSlope(1.0, np.zeros(problem.rows.dimension), 0.0)


def _of_counts(
    problem: Problem, at: Coordinates, found: Debiased, multiplier: float, rows_per_person: int, mean: float
) -> Generator[Measurement, Any, AverageSlope]:
    """The mean count."""
    loss, n, bound, square = CappedPoisson(1), problem.n, problem.largest_count, 0.0
    if multiplier:
        square = max(float(found.theta @ found.theta - np.trace(found.covariance)), 0.0) / at.radius**2
        bound = cap_for_mean(mean, _variance_of_scores(mean, square), multiplier / n, max(bound, 1.0))
    total = yield working_sum(problem, at, TargetMoment(math.sqrt(bound)), loss, found.theta, "root", multiplier)
    squares = yield working_sum(problem, at, TargetMoment(bound), loss, found.theta, "target", multiplier)
    noise = multiplier * bound / n if multiplier else 0.0
    seen = max(float(total[0]) / n, noise)
    value, factor = (seen, 1.0) if bound >= problem.largest_count else _whole_mean(seen, bound, square)
    spread = max(float(squares[0]) / n - seen**2, 0.0)
    variance = factor**2 * (rows_per_person * spread / n + noise**2) + (value - seen) ** 2
    return AverageSlope(value, np.zeros(problem.rows.dimension), variance + (value * problem.n_error / n) ** 2)


def _variance_of_scores(mean: float, square: float) -> float:
    """v of normal scores with mean square v + m² and E e^s = e^(m + v/2) = ``mean``."""
    log_mean = math.log(mean)
    return max(2 * (log_mean - 1 + math.sqrt(max(1 - 2 * log_mean + square, 0.0))), 0.0)


def _whole_mean(seen: float, cap: float, square: float) -> tuple[float, float]:
    """(the mean of counts that is ``seen`` when they are cut, its derivative in what is seen), for normal scores.

    The solution of m = seen + E(Y − C)₊ by iteration. The derivative of the excess in m is below 1.
    """

    def lacking(mean: float) -> float:
        return excess(cap, mean, _variance_of_scores(mean, square))

    value = seen
    for _ in range(_ITERATIONS):
        value = min(seen + lacking(value), 2 * cap)
    slope = (lacking(1.01 * value) - lacking(value)) / (0.01 * value)
    return value, 1 / max(1 - slope, 0.1)


def _of_classes(
    problem: Problem, at: Coordinates, found: Debiased, multiplier: float, rows_per_person: int
) -> Generator[Measurement, Any, AverageSlope]:
    """The mean of p(1 − p), and by the delta method how it moves with the estimate."""
    loss, rows = Logistic(), at.whitening.rows
    most = _MOST_BENT * _ROUNDED_UP if multiplier else math.inf
    total = yield working_sum(problem, at, TargetMoment(1.0), loss, found.theta, "slope of p", multiplier, _STEEPEST)
    bent = yield working_sum(problem, at, CrossMoment(rows, most), loss, found.theta, "bend of p", multiplier)
    noise = multiplier * _STEEPEST
    value = min(max(float(total[0]) * _STEEPEST, noise) / problem.n, _STEEPEST)
    moves = found.covariance @ bent / problem.n
    variance = float(moves @ bent) / problem.n + rows_per_person * value * (_STEEPEST - value) / problem.n
    variance += (noise**2 + (value * problem.n_error) ** 2) / problem.n**2
    return AverageSlope(value, at.given(moves), variance)


def working_sum(
    problem: Problem,
    at: Coordinates,
    query: Query,
    loss: Loss,
    theta: Array,
    role: Role,
    multiplier: float,
    most: float = 1.0,
) -> Noisy:
    """A sum over the working rows at θ (`WorkingRows`), with Gaussian noise."""
    through = WorkingRows(at.whitening, loss, theta, role, most)
    return Noisy(MappedSum(problem.rows, query, through), Gaussian(multiplier))
