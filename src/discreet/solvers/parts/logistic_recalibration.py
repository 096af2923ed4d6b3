"""Scale and offset of a score for two classes, from counts of scores and three sums: post-processing.

The logistic loss of α·s + β over binned scores is Σ_b c_b·log(1 + e^{α s_b + β}) − α·Σ_{y=1} s − β·#{y = 1}: counts c
of scores whatever their labels, the number of rows of the second class and the sum of their scores. All are one release
(`discreet.queries.histograms.labelled_scores`). Noise is in known amounts, and each part of it is met by what theory
says about it:

* *Classes.* The share p of the second class is estimated with a standard deviation τ. The prediction of least expected
  logarithmic loss is the posterior mean of p, here under a flat prior: a normal law cut to [0, 1]. A class that is
  rarer than the noise so gets a share of about the noise, neither 0 nor a negative one.
* *Scale.* With the Hessian H of the loss and noise of variance G in its gradient, an estimate of the scale errs by
  V = G/H². With a prior of variance s² its posterior mean is the minimiser with a ridge of H·V/s² = G/(H·s²). The
  prior is about the scale that the solver expects, with s = ½ in the log-odds of the outermost bins; where it expects
  nothing, about 1, with s as large as these log-odds, or 1.
* *What is known already.* A perturbed minimiser tells the sum of the slopes of all rows, and with it the share of the
  second class, as if labels had nothing to do with scores. Both estimates are weighted by their precision, this one's
  less for what that supposes.
* *Optimism.* θ was found from the same labels: see `discreet.solvers.parts.recalibration`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from discreet.solvers.parts.damped_newton import damped_newton

__all__ = ["ScoreSums", "SlopeSum", "fitted_line", "posterior_share"]

Array = NDArray[np.float64]
Expected = Callable[[float], float]

_DEVIATION = 0.5  # of log-odds at the outermost places from what the solver expects: a factor of 1.2 or so
_CUT = 6.0  # standard deviations beyond which a normal law has no mass that doubles could show
_LEAST_CURVATURE = 1e-9  # of a row: keeps Newton's steps finite where nothing bends


@dataclass(frozen=True, eq=False)
class ScoreSums:
    """What was released of scores and labels: public.

    Args:
        counts: rows in each bin: none negative, n in all.
        labels: the sum of labels −1 and +1, with noise.
        moments: the sums of places of either label's scores, with noise.
        noise: its standard deviation in each of these.
    """

    counts: Array
    labels: float
    moments: tuple[float, float]
    noise: float

    @property
    def n(self) -> float:
        """The number of rows."""
        return float(self.counts.sum())

    @property
    def mean(self) -> float:
        """The mean place, by the two sums: their noise does not grow with the number of bins."""
        return min(max(sum(self.moments) / self.n, -1.0), 1.0)

    @property
    def places(self) -> Array:
        """Places of the bins, from −1 to 1, moved such that the counts have the mean place."""
        places = np.linspace(-1.0, 1.0, len(self.counts))
        return np.asarray(places + self.mean - float(self.counts @ places) / self.n)


@dataclass(frozen=True)
class SlopeSum:
    """The sum of the slopes of all rows at the scores found, with noise: what a perturbed minimiser tells by itself.

    Args:
        total: Σ slopes.
        deviation: standard deviation of its noise.
        cut: slopes are at most so large.
        bias: standard deviation of the share that it tells, without noise.
    """

    total: float
    deviation: float
    cut: float
    bias: float

    def share(self, counts: Array, scores: Array) -> tuple[float, float]:
        """(share of the second class, its standard deviation), as if labels had nothing to do with scores.

        Rows of the second class have slopes a < 0, those of the first b > 0: the sum is Σ c·b − p·Σ c·(b − a).
        """
        chances = expit(scores)
        second, first = np.maximum(chances - 1, -self.cut), np.minimum(chances, self.cut)
        spread = float(counts @ (first - second))
        return (float(counts @ first) - self.total) / spread, math.hypot(self.deviation / spread, self.bias)


def posterior_share(estimate: float, deviation: float) -> float:
    """The mean of a normal law of this mean and standard deviation, cut to [0, 1]; inside (0, 1).

    Example:
        >>> round(posterior_share(0.3, 0.01), 6), round(posterior_share(0.0, 0.01), 6), posterior_share(0.5, 1e9)
        (0.3, 0.007979, 0.5)
    """
    from scipy.special import ndtr

    if deviation <= 0:
        return min(max(estimate, 1e-12), 1 - 1e-12)
    inside = min(max(estimate, -_CUT * deviation), 1 + _CUT * deviation)
    low, high = -inside / deviation, (1 - inside) / deviation
    mass = float(ndtr(high) - ndtr(low)) if low < 0 else float(ndtr(-low) - ndtr(-high))
    if mass < 1e-6 and deviation > 1:  # the interval is all but a point of so wide a law
        return 0.5
    density = [math.exp(-z * z / 2) / math.sqrt(2 * math.pi) for z in (low, high)]
    mean = inside + deviation * (density[0] - density[1]) / mass
    return min(max(mean, 1e-12), 1 - 1e-12)


def fitted_line(
    seen: ScoreSums,
    half_range: float,
    middle: float,
    optimism: float,
    expected: Expected | None,
    slopes: SlopeSum | None,
    *,
    intercept: bool,
) -> tuple[float, float]:
    """(α, β) with which α·s + β are log-odds; α is not negative, and β is 0 without an intercept.

    Args:
        seen: what was released.
        half_range: half the distance of the outermost places in scores.
        middle: the score in the middle of them.
        optimism: what a scale of 1 gains on the rows' own labels for slopes of 1, added up over rows (Efron 2004).
        expected: the scale that the solver expects, given the mean curvature of a row; None expects 1.
        slopes: the sum of all rows' slopes, where the solver knows it.
        intercept: whether the model has an offset.
    """
    estimate = (1 + seen.labels / seen.n) / 2
    share = posterior_share(*_both(seen, estimate, slopes, middle + half_range * seen.places))
    positives = share * seen.n
    moment = seen.moments[1] + (share - estimate) * seen.n * seen.mean  # rows that are added have the mean place
    scale = 1.0 if expected is None else expected(share * (1 - share))
    deviation = max(1.0, half_range) if expected is None else _DEVIATION
    if intercept:
        design = np.column_stack([seen.places - seen.mean, np.ones_like(seen.places)])
        linear = np.array([moment - positives * seen.mean, positives])
        prior = np.array([scale * half_range, math.log(share / (1 - share))])
    else:
        design = (seen.places + middle / half_range)[:, None]
        linear = np.array([moment + positives * middle / half_range])
        prior = np.array([scale * half_range])
    bend = share * (1 - share) * max(float(seen.counts @ design[:, 0] ** 2), 1.0)
    pull, squares = _gradient_noise(seen, share) / (bend * deviation**2), share * (1 - share)
    found = _minimised(seen, design, linear, prior, pull, optimism / half_range * squares)
    if found[0] > 0:  # the slopes of the fit are smaller than those of the constant
        chances = expit(design @ found)
        squares = float(seen.counts @ (chances * (1 - chances))) / seen.n
        found = _minimised(seen, design, linear, prior, pull, optimism / half_range * squares)
    if found[0] <= 0:  # the loss is convex, so its minimiser is on the boundary
        return 0.0, float(prior[1]) if intercept else 0.0
    scale = float(found[0]) / half_range
    offset = float(found[1]) - float(found[0]) * seen.mean - scale * middle if intercept else 0.0
    return scale, offset


def _both(seen: ScoreSums, estimate: float, slopes: SlopeSum | None, scores: Array) -> tuple[float, float]:
    """The share of the second class by labels and slopes together, weighted by precision, and its deviation."""
    deviation = seen.noise / 2 / seen.n
    if slopes is None:
        return estimate, deviation
    other, error = slopes.share(seen.counts, scores)
    weight = deviation**2 / (deviation**2 + error**2)
    return estimate + weight * (other - estimate), deviation * math.sqrt(1 - weight)


def _gradient_noise(seen: ScoreSums, share: float) -> float:
    """The variance of the noise in the derivative by the scale at the constant model.

    Of p·(sum of places) − (those of the second class), of the number of that class times the mean place, and of the
    counts, whose bins have places of mean square ⅓.
    """
    spread = share * (1 - share)
    return seen.noise**2 * (share**2 + (1 - share) ** 2 + seen.mean**2 / 4 + spread**2 * len(seen.counts) / 3)


def _minimised(seen: ScoreSums, design: Array, linear: Array, prior: Array, pull: float, drift: float) -> Array:
    """argmin Σ c_b·log(1 + e^z_b) − ⟨linear, w⟩ + drift·w_0 + (pull/2)(w_0 − prior_0)², z = design·w, by Newton."""
    counts, slope = seen.counts, -linear
    slope[0] += drift

    def value(w: Array) -> float:
        losses = float(counts @ np.logaddexp(0.0, design @ w))
        return losses + float(slope @ w) + pull / 2 * float(w[0] - prior[0]) ** 2

    def derivatives(w: Array) -> tuple[Array, Array]:
        chances = expit(design @ w)
        gradient = design.T @ (counts * chances) + slope
        gradient[0] += pull * (w[0] - prior[0])
        hessian = (design.T * (counts * chances * (1 - chances))) @ design + _LEAST_CURVATURE * seen.n * np.eye(len(w))
        hessian[0, 0] += pull
        return gradient, hessian

    return damped_newton(value, derivatives, prior)
