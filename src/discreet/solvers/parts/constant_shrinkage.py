"""A perturbed minimiser about the constant model, and how far to trust it: for few rows and much noise.

A ridge about 0 shrinks an offset with the rest, and noise moves the scores of all rows alike: with little budget such a
model is worse than a constant. A sum of labels is one number, and tells the share p of the second class with a part of
the budget. Then

1. the ridge is taken about the *constant* model θ₀ that the loss has for this share, so that a minimiser without
   information is θ₀ and not 0. With slopes cut at c the loss has its best constant not at p but, for the rarer class,
   at a chance of p·c/(1 − p), where slopes of both classes balance;
2. what the minimiser θ̂ adds is scaled by one factor: scores are log(p/(1 − p)) + α·⟨x, θ̂ − θ₀⟩.

α is the regression of log-odds on such scores. With columns of second moments f, curvature h = κ·n·f, the signal's
derivative g·n·f, ridge λ and tilt σ, the minimiser moves by (g·n·f·w − b)/(h + λ) where log-odds are ⟨x, w⟩, b ~
N(0, σ²). For log-odds of variance v,

    α = vC/(vB + N),  C = Σ g·n·f²/(h + λ),  B = Σ (g·n)²f³/(h + λ)²,  N = σ²·Σ f/(h + λ)²   (rows of length 1).

The squared length of θ̂ − θ₀ is v·E + σ²·Σ 1/(h + λ)² in expectation, E = Σ (g·n·f)²/(h + λ)²: an estimate of v whose
deviation is known (James–Stein 1961 in one number). Its posterior mean under an exponential prior, whose mean is the
variance of logistic noise, is v. All of this is post-processing of the two releases.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from discreet.measurements import Measurement, Noisy
from discreet.mechanisms import Gaussian
from discreet.queries.sums.residual import ResidualSum
from discreet.solvers.base import Problem
from discreet.solvers.parts.logistic_recalibration import posterior_share
from discreet.tuned import Tuned, current, tuned

__all__ = ["NUMBERS", "ConstantShrinkageNumbers", "NoisyMinimiser", "posterior_variance", "released_share"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ConstantShrinkageNumbers(Tuned):
    """Tuned numbers of this file."""

    decay: float = tuned(
        0.75,
        "second moments of columns are taken to fall like j^−decay, where none was released",
        "sweep: constant-decay",
    )


NUMBERS = ConstantShrinkageNumbers()

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
            [0.07, 0.14, 0.89]
        """
        variance = _LOGISTIC_VARIANCE
        for _ in range(2):  # what a variance tells of the gain, and the gain of the variance
            variance = self._variance(share, variance, squared_length)
        return self._response(share, variance).scale(variance)

    def unlearnt(self, share: float) -> float:
        """The part of the variance of log-odds, expected to be π²/3, that the scores do not tell."""
        found = self._response(share, _LOGISTIC_VARIANCE)
        return 1 - found.cross * found.scale(_LOGISTIC_VARIANCE)

    def _variance(self, share: float, variance: float, squared_length: float) -> float:
        """v by the squared length, the gain being that at ``variance``."""
        found = self._response(share, variance)
        noise = float(found.noises.sum())
        estimate = (squared_length - noise) / float(found.signals.sum())
        spread = math.sqrt(2 * float(((max(estimate, 0.0) * found.signals + found.noises) ** 2).sum()))
        return posterior_variance(estimate, spread / float(found.signals.sum()))

    def _response(self, share: float, variance: float) -> _Response:
        moments = _moments(self.columns, current(NUMBERS).decay) * self.norm**2
        gain, curvature = _gain_and_curvature(share, variance, self.cut)
        held = self.n * curvature * moments + self.ridge
        told = self.n * gain * moments / held  # how much of a coefficient arrives
        return _Response(
            cross=float(moments @ told) / self.norm**2,
            own=float(moments @ told**2) / self.norm**2,
            noise=self.noise**2 * float((moments / held**2).sum()),
            signals=told**2 / self.norm**2,
            noises=(self.noise / held) ** 2,
        )


@dataclass(frozen=True, eq=False)
class _Response:
    """C, B and N of the docstring above, and for each column what v = 1 and the tilt add to the squared length."""

    cross: float
    own: float
    noise: float
    signals: Array
    noises: Array

    def scale(self, variance: float) -> float:
        return variance * self.cross / (variance * self.own + self.noise)


@cache
def _moments(columns: int, decay: float) -> Array:
    """Second moments that add up to 1."""
    falling = np.arange(1.0, columns + 1) ** -decay
    return np.asarray(falling / falling.sum())


def _cut_chances(chances: Array, cut: float) -> Array:
    """Where the expected loss with slopes cut at ``cut`` is least, for true chances of the second class.

    Slopes of the rarer class, of size 1 − π, are cut where π < 1 − cut, and balance the others where p·cut = (1 − p)·π.
    """
    rare = np.minimum(chances, 1 - chances)
    found = np.where(rare < min(0.5, 1 - cut), rare * cut / (1 - rare), rare)
    return np.where(chances < 0.5, found, 1 - found)


@cache
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
