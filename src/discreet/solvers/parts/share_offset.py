"""Shrinking a perturbed minimiser towards the constant model, by how rare the rarer of two classes is.

A ridge shrinks an offset with the rest: with 1 % of the second class and much noise every row is predicted to be of
that class with a chance far above 1 %, and what noise leaves in the scores is noise for the most part, since rows of a
rare class bend the loss by little. A sum of labels is one number, so a small part of the budget tells the share p of
the class more accurately than the minimiser's own offset. With it the scores s become

    α·s + (1 − α)·log(p/(1 − p)),

between the minimiser (α = 1) and the constant model (α = 0). α is the scale at which such scores predict best, over the
scale for classes of equal size, for which the ridge is chosen. If log-odds have the variance v of logistic noise, π²/3,
and all columns the same curvature h, the ridge λ has shrunk log-odds by 1/K = h/(h + λ), and the tilt of deviation σ
has added noise of variance w = σ²·norm²/(h + λ)² to a score. The regression of log-odds on such scores has the slope
K·v/(v + K²·w). All but the sum of labels is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.measurements import Measurement, Noisy
from discreet.mechanisms import Gaussian
from discreet.queries.sums.residual import ResidualSum
from discreet.solvers.base import Problem
from discreet.solvers.parts.logistic_recalibration import posterior_share

__all__ = ["kept_scale", "released_share", "shrunk_to_share"]

Array = NDArray[np.float64]


def released_share(problem: Problem, multiplier: float) -> Generator[Measurement, Any, float]:
    """The share of label +1 among labels −1 and +1: the posterior mean under a flat prior, by one noisy sum of labels.

    Args:
        problem: public facts; one output.
        multiplier: noise over the largest label.
    """
    total = yield Noisy(ResidualSum(problem.rows, problem.start, 1.0), Gaussian(multiplier))
    return posterior_share((1 + float(total) / problem.n) / 2, multiplier / 2 / problem.n)


def kept_scale(problem: Problem, share: float, ridge: float, noise: float) -> float:
    """α, from 0 to 1: 1 for classes of equal size, about 0 for one so rare that nothing but its share can be told.

    Args:
        problem: public facts.
        share: p, of the second class.
        ridge: λ, in units of the sum of losses.
        noise: σ, the standard deviation of the tilt in each coordinate.

    Example:
        >>> from discreet.losses import Logistic
        >>> from discreet.rows import RowSpec
        >>> problem = Problem(RowSpec(100, 1.0, 0.5), Logistic(), 5000.0)
        >>> [round(kept_scale(problem, p, 25.0, 30.0), 2) for p in (0.5, 0.1, 0.01)]
        [1.0, 0.41, 0.04]
    """
    ratio = _best_scale(problem, share * (1 - share), ridge, noise) / _best_scale(problem, 0.25, ridge, noise)
    return min(1.0, ratio)


def shrunk_to_share(theta: Array, problem: Problem, share: float, ridge: float, noise: float) -> Array:
    """θ of the scores α·⟨x, θ⟩ + (1 − α)·log(p/(1 − p)); arguments as of `kept_scale`."""
    kept = kept_scale(problem, share, ridge, noise)
    found = kept * theta
    found[-1] += (1 - kept) * math.log(share / (1 - share)) / problem.rows.intercept
    return found


def _best_scale(problem: Problem, curvature: float, ridge: float, noise: float) -> float:
    """K·v/(v + K²·w) for a mean curvature of a row."""
    held, variance = problem.n * curvature * problem.rows.norm**2 / problem.rows.n_features, math.pi**2 / 3
    shrunk, spread = (held + ridge) / held, (noise * problem.rows.norm / (held + ridge)) ** 2
    return shrunk * variance / (variance + shrunk**2 * spread)
