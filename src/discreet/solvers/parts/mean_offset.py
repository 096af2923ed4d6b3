"""The mean residual of a fitted model, added to its intercept: from a median regression to the mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.measurements import Noisy
from discreet.mechanisms import Gaussian
from discreet.queries.sums.residual import ResidualSum
from discreet.solvers.base import Problem, Steps
from discreet.tuned import Tuned, current, tuned

__all__ = ["NUMBERS", "MeanOffsetNumbers", "with_mean_offset"]


@dataclass(frozen=True)
class MeanOffsetNumbers(Tuned):
    """Sizes of residuals in scales of the targets, for `with_mean_offset` and the descent before it."""

    small: float = tuned(
        0.1,
        "a residual that small is about 0: where a median regression is smooth, and how large its mean residual may be",
        "judgement: clips from 0.04 to 0.15 and expected sizes from 0.05 to 0.2 differed by 0.003, each swept alone",
    )
    large: float = tuned(
        2.0,
        "few residuals are larger: where they are cut for their mean; how far a step, and all of the intercept's, go",
        "judgement: cuts from 1 to 4, steps from 1.5 to 3 and paths from 1 to 4 differed by 0.003, each swept alone",
    )


NUMBERS = MeanOffsetNumbers()


def with_mean_offset(problem: Problem, theta: NDArray[np.float64], multiplier: float, scale: float) -> Steps:
    """θ with its intercept moved by the mean residual, shrunk by 1/(1 + (noise/expected size)²): one release.

    Residuals are cut at 2 to 4 scales: as wide as leaves the noise at the expected size of their mean, a tenth of one.

    Args:
        problem: public facts; rows with an intercept.
        theta: public.
        multiplier: noise over the largest residual.
        scale: of the targets.
    """
    numbers, noise = current(NUMBERS), multiplier / problem.n
    widest = min(2 * numbers.large, numbers.small / noise) if noise else 2 * numbers.large
    query = ResidualSum(problem.rows, theta, max(numbers.large, widest) * scale)
    total = yield Noisy(query, Gaussian(multiplier))
    kept = 1 / (1 + (noise * query.clip / (numbers.small * scale)) ** 2)
    theta = theta.copy()
    theta[-1] += kept * float(total) / problem.n / (problem.rows.constant * problem.rows.unit)
    return theta
