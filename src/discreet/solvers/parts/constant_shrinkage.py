"""A perturbed minimiser about the constant model, and how far to trust it: for few rows and much noise.

A ridge about 0 shrinks an offset with the rest, and noise moves the scores of all rows alike: with little budget such a
model is worse than a constant. A sum of labels is one number, and tells the share p of the second class with a part of
the budget. Then

1. the ridge is taken about the *constant* model θ₀ that the loss has for this share, so that a minimiser without
   information is θ₀ and not 0. With slopes cut at c the loss has its best constant not at p but, for the rarer class,
   at a chance of p·c/(1 − p), where slopes of both classes balance;
2. what the minimiser θ̂ adds is scaled by one factor: scores are log(p/(1 − p)) + α·⟨x, θ̂ − θ₀⟩.

α is the regression of log-odds on such scores. As if all d columns were alike, with second moments f = 1/d for rows of
length 1, curvature κ·n·f and gain g·n·f, ridge λ and tilt σ, a coefficient w moves the minimiser by

    (g·n·f·w − b)/(κ·n·f + λ) = r·w − b/(κ·n·f + λ),   b ~ N(0, σ²),

so that log-odds of variance v are told with the slope r, the noise in a score has the variance N = σ²/(κ·n·f + λ)², and
α = v·r/(v·r² + N). The squared length of θ̂ − θ₀ is d·(v·r² + N) in expectation: an estimate of v whose deviation is
known (James–Stein 1961 in one number). Its posterior mean under an exponential prior, whose mean is the variance of
logistic noise, is v. All of this is post-processing of the two releases.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from discreet.measurements import Measurement, Noisy
from discreet.mechanisms import Gaussian
from discreet.queries.sums.residual import ResidualSum
from discreet.solvers.base import Problem
from discreet.solvers.parts.logistic_recalibration import posterior_share

__all__ = ["NoisyMinimiser", "posterior_variance", "released_share"]

Array = NDArray[np.float64]


_LOGISTIC_VARIANCE = math.pi**2 / 3
_NODES = 21  # of a quadrature over log-odds: exact for polynomials of degree 41


def released_share(problem: Problem, multiplier: float) -> Generator[Measurement, Any, float]:
    """The share of label +1 among labels −1 and +1: the posterior mean under a flat prior, by one noisy sum of labels.

    Args:
        problem: public facts; one output.
        multiplier: noise over the largest label.
    """
    total = yield Noisy(ResidualSum(problem.rows, problem.start, 1.0), Gaussian(multiplier))
    return posterior_share((1 + float(total) / problem.n) / 2, multiplier / 2 / problem.n)


def posterior_variance(estimate: float, deviation: float) -> float:
    """The mean of a number that is not negative: an estimate with normal error, an exponential prior of mean π²/3.

    Example:
        >>> [round(posterior_variance(*seen), 2) for seen in ((2.0, 0.01), (-5.0, 1.0), (0.0, 1e6))]
        [2.0, 0.18, 3.29]
    """
    from scipy.special import log_ndtr

    centre = estimate / deviation - deviation / _LOGISTIC_VARIANCE  # of a normal law cut at 0, in deviations
    if centre < -1e4:  # the tail of a normal law is exponential
        return deviation / -centre
    density = math.exp(-centre * centre / 2 - math.log(2 * math.pi) / 2 - float(log_ndtr(centre)))
    return max(deviation * (centre + density), 1e-9)


@dataclass(frozen=True)
class NoisyMinimiser:
    """Public facts about a perturbed minimiser of logistic losses, by which its worth is judged.

    Args:
        n: number of rows.
        columns: number of features.
        norm: the longest row, without the constant column.
        ridge: λ, in units of the sum of losses.
        noise: σ, the standard deviation of the tilt in each coordinate.
        cut: slopes are at most so large.
    """

    n: float
    columns: int
    norm: float
    ridge: float
    noise: float
    cut: float

    def constant(self, share: float) -> float:
        """The log-odds of the best constant for the loss with cut slopes, where the second class has this share."""
        chance = float(_cut_chances(np.array([share]), self.cut)[0])
        return math.log(chance / (1 - chance))

    def scale(self, share: float, squared_length: float) -> float:
        """α for a move θ̂ − θ₀ of this squared length, the constant column left out.

        Example:
            >>> minimiser = NoisyMinimiser(5000.0, 100, 1.0, 25.0, 30.0, 0.5)
            >>> [round(minimiser.scale(0.5, 100 * t), 2) for t in (0.5, 1.0, 2.0)]
            [0.11, 0.46, 1.38]
        """
        variance = _LOGISTIC_VARIANCE
        for _ in range(2):  # what a variance tells of the gain, and the gain of the variance
            slope, noise = self._told(share, variance)
            each = squared_length * self.norm**2 / self.columns  # v·r² + N in expectation
            spread = math.sqrt(2 / self.columns) * max(each, noise)
            variance = posterior_variance((each - noise) / slope**2, spread / slope**2)
        return self._regression(share, variance)

    def unlearnt(self, share: float) -> float:
        """The part of the variance of log-odds, expected to be π²/3, that the scores do not tell."""
        slope, _ = self._told(share, _LOGISTIC_VARIANCE)
        return 1 - slope * self._regression(share, _LOGISTIC_VARIANCE)

    def _regression(self, share: float, variance: float) -> float:
        slope, noise = self._told(share, variance)
        return variance * slope / (variance * slope**2 + noise)

    def _told(self, share: float, variance: float) -> tuple[float, float]:
        """(r, N): the slope of scores in log-odds of this variance, and the variance of their noise."""
        held = self.n * self.norm**2 / self.columns
        gain, curvature = _gain_and_curvature(share, variance, self.cut)
        resisted = curvature * held + self.ridge
        return gain * held / resisted, (self.noise * self.norm / resisted) ** 2


def _cut_chances(chances: Array, cut: float) -> Array:
    """Where the expected loss with slopes cut at ``cut`` is least, for true chances of the second class.

    Slopes of the rarer class, of size 1 − π, are cut where π < 1 − cut, and balance the others where p·cut = (1 − p)·π.
    """
    rare = np.minimum(chances, 1 - chances)
    found = np.where(rare < min(0.5, 1 - cut), rare * cut / (1 - rare), rare)
    return np.where(chances < 0.5, found, 1 - found)


def _gain_and_curvature(share: float, variance: float, cut: float) -> tuple[float, float]:
    """(g, κ) for log-odds of this variance about those of the share.

    g is how fast the mean gradient at the constant changes with log-odds; κ such that without ridge and noise, where
    scores grow to the log-odds of the minimiser with cut slopes, α = κ/g is the regression of true log-odds on these.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    weights = weights / weights.sum()
    odds = math.log(share / (1 - share)) + math.sqrt(variance) * nodes
    chances = np.clip(expit(odds), 1e-12, 1 - 1e-12)
    found, centre = _cut_chances(chances, cut), float(_cut_chances(np.array([share]), cut)[0])
    slopes = min(centre, cut) + min(1 - centre, cut)  # of the two classes at the constant, taken from one another
    gain = slopes * float(weights @ (chances * (1 - chances)))
    scores = np.log(found / (1 - found))
    about = scores - float(weights @ scores)
    return gain, gain * float(weights @ (odds * about)) / float(weights @ about**2)
