"""Settings of least squares from sufficient statistics (`discreet.solvers.sufficient_statistics`) from public facts."""

from __future__ import annotations

import math

from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee
from discreet.errors import InvalidInput
from discreet.queries.sums.moments import SecondMoment
from discreet.solvers.base import Problem
from discreet.solvers.sufficient_statistics import SufficientStatistics, require_least_squares

__all__ = ["recipe"]


_FAILURE = 0.05
"""ϱ of Wang 2018, algorithm 2: probability with which the eigenvalue bound or the norm of the noise may be exceeded."""


def recipe(
    problem: Problem, guarantee: Guarantee, *, target_bound: float | None = None, failure: float | None = None
) -> SufficientStatistics:
    """AdaSSP with the least noise that keeps the guarantee.

    Args:
        problem: squared loss, no constraint.
        guarantee: what must be kept.
        target_bound: public bound on |y|; None takes 1, or clips nothing without privacy.
        failure: ϱ of the paper; None takes its 0.05.

    Raises:
        InvalidInput: another loss, a constraint, more columns than a second moment can have, rows without a bound
            under privacy, or pure DP.
    """
    require_least_squares(problem)
    SecondMoment(problem.rows)  # refuses what is too wide, before anything is chosen
    if guarantee.private and not problem.rows.bounded:
        raise InvalidInput("private sufficient statistics need rows of bounded length: give row_norm.")
    targets = target_bound if target_bound is not None else 1.0 if guarantee.private else math.inf
    exceeded = _FAILURE if failure is None else failure
    return calibrated(lambda noise: SufficientStatistics(noise, targets, exceeded), problem, guarantee)
