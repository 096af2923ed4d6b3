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
    """Tuned numbers of `with_mean_offset`; all are in scales of the targets."""

    expected: float = tuned(
        0.1, "typical size of the mean residual, its prior standard deviation", "sweep: wide-credible"
    )
    clip: float = tuned(2.0, "where residuals are cut under much noise", "sweep: wide-cut")
    most_clip: float = tuned(
        4.0, "where residuals are cut under little noise", "judgement: few residuals are beyond four scales"
    )


NUMBERS = MeanOffsetNumbers()


def with_mean_offset(problem: Problem, theta: NDArray[np.float64], multiplier: float, scale: float) -> Steps:
    """θ with its intercept moved by the mean residual, shrunk by 1/(1 + (noise/expected size)²): one release.

    Residuals are cut at 2 to 4 scales: as wide as leaves the noise at the expected size of the mean residual.

    Args:
        problem: public facts; rows with an intercept.
        theta: public.
        multiplier: noise over the largest residual.
        scale: of the targets.
    """
    numbers, noise = current(NUMBERS), multiplier / problem.n
    widest = min(numbers.most_clip, numbers.expected / noise) if noise else numbers.most_clip
    query = ResidualSum(problem.rows, theta, max(numbers.clip, widest) * scale)
    total = yield Noisy(query, Gaussian(multiplier))
    kept = 1 / (1 + (noise * query.clip / (numbers.expected * scale)) ** 2)
    theta = theta.copy()
    theta[-1] += kept * float(total) / problem.n / (problem.rows.constant * problem.rows.unit)
    return theta
