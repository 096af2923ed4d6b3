"""AdaSSP: least squares from noisy sufficient statistics (Wang 2018, algorithm 2).

Releases: the least eigenvalue of XᵀX, XᵀX itself, and Xᵀy, each with Gaussian noise of the same multiplier σ: a third
of the budget each as in the paper, but under replace-one the first two move less than Xᵀy and cost less. The paper's
constants are not used: the three events are composed exactly by the accountant. With r the length of a row, the
standard deviation of the noise on XᵀX and on the eigenvalue is s = σr², and

    θ = (X̂ᵀX + λI)⁻¹ X̂ᵀy,   λ = max(0, s·√(d·ln(2d²/ϱ)) − λ̃),   λ̃ = max(0, λ̂_min − s·√(2·ln(3/ϱ))),

so λ̃ is a lower confidence bound on the least eigenvalue, and λ makes up for what is missing to the noise's norm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.errors import InvalidInput
from discreet.geometry.whole_space import WholeSpace
from discreet.losses import Squared
from discreet.measurements import Noisy
from discreet.mechanisms import Gaussian
from discreet.queries.sums.moments import CrossMoment, LeastEigenvalue, SecondMoment
from discreet.solvers.base import Problem, Steps

__all__ = ["SufficientStatistics", "require_least_squares"]


@dataclass(frozen=True)
class SufficientStatistics:
    """Ridge regression on noisy moments, the ridge just large enough for their noise.

    Args:
        noise_multiplier: Gaussian noise over a row's bound, in each of the three releases; 0 is ordinary least squares.
        target_bound: targets are clipped to ±target_bound.
        failure: ϱ, the probability with which the eigenvalue bound or the noise's norm may be exceeded.
    """

    noise_multiplier: float
    target_bound: float
    failure: float

    def __post_init__(self) -> None:
        if not 0 < self.failure < 1:
            raise InvalidInput(f"failure must be a probability in (0, 1), got {self.failure!r}.")

    def steps(self, problem: Problem) -> Steps:
        """Three releases, one linear system."""
        require_least_squares(problem)
        rows, d, noise = problem.rows, problem.rows.dimension, Gaussian(self.noise_multiplier)
        moment = SecondMoment(rows)
        least = yield Noisy(LeastEigenvalue(rows), noise)
        packed = yield Noisy(moment, noise)
        cross = yield Noisy(CrossMoment(rows, self.target_bound), noise)

        std = self.noise_multiplier * rows.radius**2 if self.noise_multiplier else 0.0
        sure = max(0.0, float(least[0]) - std * math.sqrt(2 * math.log(3 / self.failure)))
        ridge = max(0.0, std * math.sqrt(d * math.log(2 * d * d / self.failure)) - sure)
        system = moment.matrix(packed) + (ridge + problem.ridge * problem.n) * np.eye(d)
        theta = np.linalg.lstsq(system, cross, rcond=None)[0]
        return np.asarray(theta, dtype=np.float64)


def require_least_squares(problem: Problem) -> None:
    """Refuse any problem but least squares with one output and no constraint.

    Raises:
        InvalidInput: another loss, several outputs, or a constraint.
    """
    if not isinstance(problem.loss, Squared) or problem.rows.outputs != 1:
        raise InvalidInput(
            f"sufficient statistics solve least squares, not {type(problem.loss).__name__} loss; "
            "use solver='scaled_descent' or 'descent'."
        )
    if not isinstance(problem.domain, WholeSpace):
        raise InvalidInput(
            f"sufficient statistics have no constraint, but the problem has {type(problem.domain).__name__}; "
            "use solver='descent'."
        )
