"""Shrinking a perturbed minimiser towards the constant model, by how rare the rarer of two classes is.

A ridge shrinks an offset with the rest: with 1 % of the second class and much noise every row is predicted to be of
that class with a chance far above 1 %, and what noise leaves in the scores is noise for the most part, since rows of a
rare class bend the loss by little. A sum of labels is one number, so a small part of the budget tells the share p of
the class more accurately than the minimiser's own offset. With it the scores s become

    α·s + (1 − α)·log(p/(1 − p)),

between the minimiser (α = 1) and the constant model (α = 0). If log-odds have the variance v about those of p, and all
columns the same curvature h, the ridge λ has shrunk them by 1/K = h/(h + λ), and the tilt of deviation σ has added
noise of variance w = σ²·norm²/(h + λ)² to a score. The minimiser's own offset is too small by B, since the ridge keeps
at most the part h_c/(h_c + λ) of it, h_c = n·p(1 − p)·radius² (constant and mean row together); the released share's
log-odds err by u. The least mean square error of log-odds has

    α = (v/K + u)/(v/K² + w + u + B²).

u is the variance of the posterior law of p over (p(1 − p))², and B² twice the divergence of the own offset's
probability from p, over p(1 − p): what both cost in logarithmic loss, in units of squared log-odds. v is the variance
for which the ridge is right, that is for which α is 1 where classes are of equal size. All but the sum of labels is
post-processing.

How much of the budget the sum should have follows from the same model. A share that is off by τ costs τ²/(2p(1 − p))
of log-loss, and the scores gain D = ½·p(1 − p)·(v/K)²/(v/K² + w), here with v = π²/3, that
of logistic noise; under much noise both are in proportion to the budget that they get. The part f that loses least,
f·D + (ν/2n)²/(2f·p(1 − p)), is (ν/n)/√(8·p(1 − p)·D).
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from discreet.measurements import Measurement, Noisy
from discreet.mechanisms import Gaussian
from discreet.queries.sums.residual import ResidualSum
from discreet.solvers.base import Problem
from discreet.solvers.parts.logistic_recalibration import share_and_doubt

__all__ = ["best_label_share", "kept_scale", "released_share", "shrunk_to_share"]

Array = NDArray[np.float64]

_VARIANCE = math.pi**2 / 3  # of log-odds: that of logistic noise
_USUAL_SHARE = 0.25  # of the rarer class, on average if all shares are as likely


def released_share(problem: Problem, multiplier: float) -> Generator[Measurement, Any, tuple[float, float]]:
    """The share of label +1 among labels −1 and +1, and its doubt: posterior mean and deviation, by one noisy sum.

    Args:
        problem: public facts; one output.
        multiplier: noise over the largest label.
    """
    total = yield Noisy(ResidualSum(problem.rows, np.zeros(problem.rows.shape), 1.0), Gaussian(multiplier))
    return share_and_doubt((1 + float(total) / problem.n) / 2, multiplier / 2 / problem.n)


def kept_scale(problem: Problem, share: float, doubt: float, ridge: float, noise: float) -> float:
    """α, from 0 to 1: 1 for classes of equal size, about 0 for one so rare that nothing but its share can be told.

    Args:
        problem: public facts.
        share: p, of the second class.
        doubt: its standard deviation.
        ridge: λ, in units of the sum of losses.
        noise: σ, the standard deviation of the tilt in each coordinate.

    Example:
        >>> from discreet.losses import Logistic
        >>> from discreet.rows import RowSpec
        >>> problem = Problem(RowSpec(100, 1.0, 0.5), Logistic(), 5000.0)
        >>> [round(kept_scale(problem, p, 0.005, 25.0, 30.0), 2) for p in (0.5, 0.1, 0.01)]
        [1.0, 0.4, 0.07]
    """
    spread = share * (1 - share)
    equal, added = _shrunk_and_noise(problem, 0.25, ridge, noise)
    variance = added * equal**2 / (equal - 1) if equal > 1 else _VARIANCE
    shrunk, added = _shrunk_and_noise(problem, spread, ridge, noise)
    unknown = (doubt / spread) ** 2
    kept = variance / shrunk + unknown
    return min(1.0, kept / (variance / shrunk**2 + added + unknown + _squared_bias(problem, share, ridge)))


def _squared_bias(problem: Problem, share: float, ridge: float) -> float:
    """B²: what the offset that the ridge leaves costs beside the share itself, in units of squared log-odds."""
    spread = share * (1 - share)
    held = problem.n * spread * problem.rows.radius**2
    own = float(expit(held / (held + ridge) * math.log(share / (1 - share))))
    divergence = share * math.log(share / own) + (1 - share) * math.log((1 - share) / (1 - own))
    return 2 * divergence / spread


def shrunk_to_share(theta: Array, problem: Problem, share: float, doubt: float, ridge: float, noise: float) -> Array:
    """θ of the scores α·⟨x, θ⟩ + (1 − α)·log(p/(1 − p)); arguments as of `kept_scale`."""
    kept = kept_scale(problem, share, doubt, ridge, noise)
    found = kept * theta
    found[-1] += (1 - kept) * math.log(share / (1 - share)) / problem.rows.intercept
    return found


def best_label_share(problem: Problem, ridge: float, noise: float, count_noise: float) -> float:
    """The part of the budget for the sum of labels with which labels and scores together lose the least.

    Args:
        problem: public facts.
        ridge: λ, in units of the sum of losses.
        noise: σ, the standard deviation of the tilt in each coordinate.
        count_noise: ν/n, the noise of a count that has the whole budget, over the number of rows.

    Example:
        >>> from discreet.losses import Logistic
        >>> from discreet.rows import RowSpec
        >>> problem = Problem(RowSpec(100, 1.0, 0.5), Logistic(), 5000.0)
        >>> round(best_label_share(problem, 25.0, 30.0, 0.01), 3)
        0.03
    """
    spread = _USUAL_SHARE * (1 - _USUAL_SHARE)
    shrunk, added = _shrunk_and_noise(problem, spread, ridge, noise)
    told = _VARIANCE / shrunk**2
    gain = spread / 2 * _VARIANCE * told / (told + added)
    return min(1.0, count_noise / math.sqrt(8 * spread * gain))


def _shrunk_and_noise(problem: Problem, curvature: float, ridge: float, noise: float) -> tuple[float, float]:
    """(K, w) for a mean curvature of a row."""
    held = problem.n * curvature * problem.rows.norm**2 / problem.rows.n_features
    return (held + ridge) / held, (noise * problem.rows.norm / (held + ridge)) ** 2
