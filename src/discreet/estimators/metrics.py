"""Metrics and their intervals, from noisy counts and sums, or from predictions of public rows.

An interval is the estimate ± 1.96 standard errors. Its variance has two parts, by the delta method: that of the noise,
which is known exactly, and that of the choice of the test rows, as if these had been drawn independently of each other;
where a person has k rows, as if those were all alike, which makes it k times as large.
The calibration error is a sum of absolute values: its interval is made of simultaneous ones for its parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from discreet.report.evaluation import CONFIDENCE, Metric

__all__ = [
    "Counts", "calibration", "confidence_metrics", "entropy", "interval", "loss_metric", "poisson_metrics",
    "quantile_metrics", "score_metrics", "squared_metrics",
]  # fmt: skip

Floats: TypeAlias = NDArray[np.float64]
_Z = float(ndtri((1 + CONFIDENCE) / 2))
_SHARES = (0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Counts:
    """Numbers of rows, or sums over rows, with independent noise of one variance on each.

    Args:
        values: the noisy answer.
        noise: variance of the noise of one entry.
        alike: the rows of one person, which are taken to be alike.
    """

    values: Floats
    noise: float
    alike: int = 1

    @property
    def total(self) -> float:
        """The number of rows, at least 1."""
        return max(1.0, float(self.values.sum()))

    def standard_error(self, function: Callable[[Floats], float], *, sampled: bool = True) -> float:
        """Of a smooth function of the values, by the delta method.

        Args:
            function: takes values of this shape.
            sampled: whether values are counts of rows drawn at random, so that they vary themselves.
        """
        step = max(1.0, 1e-3 * self.total) if sampled else 1e-3 * max(1.0, float(np.abs(self.values).max()))
        flat = self.values.ravel()
        slopes = np.empty(flat.size)
        for place in range(flat.size):
            up, down = flat.copy(), flat.copy()
            up[place] += step
            down[place] -= step
            slopes[place] = (function(up.reshape(self.values.shape)) - function(down.reshape(self.values.shape))) / (
                2 * step
            )
        variance = self.noise * float(slopes @ slopes)
        if sampled:
            counts = np.maximum(flat, 0.0)
            variance += self.alike * max(0.0, float(counts @ slopes**2) - float(counts @ slopes) ** 2 / self.total)
        return math.sqrt(variance)


def interval(
    name: str, value: float, error: float, limits: tuple[float, float] = (0.0, math.inf), guess: float | None = None
) -> Metric:
    """A metric with its normal interval, both within the limits of what the metric can be."""
    low, high = limits

    def inside(number: float) -> float:
        return min(max(number, low), high)

    return Metric(name, inside(value), inside(value - _Z * error), inside(value + _Z * error), guess)


# --- two classes, by scores -------------------------------------------------------------------------------------------


def score_metrics(counts: Counts, centres: Floats, *, probabilities: bool, groups: int) -> list[Metric]:
    """Accuracy, AUC and, where scores are log-odds, log-loss and calibration error, from counts by class and score.

    Args:
        counts: of shape (2, bins), the rows of class −1 first.
        centres: of the bins.
        probabilities: whether scores are log-odds.
        groups: how many groups of neighbouring bins the calibration error is made of.
    """
    right = np.vstack([centres < 0, centres > 0])

    def accuracy(h: Floats) -> float:
        return float(h[right].sum()) / max(1.0, float(h.sum()))

    share = float(np.clip(counts.values[1].sum() / counts.total, 0.0, 1.0))
    found = [
        interval("accuracy", accuracy(counts.values), counts.standard_error(accuracy), _SHARES, max(share, 1 - share)),
        interval("auc", _auc(counts.values), counts.standard_error(_auc), _SHARES, 0.5),
    ]
    if not probabilities:
        return found
    losses = np.vstack([np.logaddexp(0, centres), np.logaddexp(0, -centres)])

    def log_loss(h: Floats) -> float:
        return float((h * losses).sum()) / max(1.0, float(h.sum()))

    guess = entropy(np.array([share, 1 - share]))
    found.append(interval("log_loss", log_loss(counts.values), counts.standard_error(log_loss), guess=guess))
    positive = 1 / (1 + np.exp(-centres))
    residuals = np.vstack([-positive, 1 - positive])
    found.append(_calibration(counts, residuals, groups))
    return found


def _auc(h: Floats) -> float:
    """The share of pairs of both classes in which the positive one has the higher score; ties count half."""
    below = np.cumsum(h[0]) - h[0] / 2
    return float(h[1] @ below) / max(1.0, float(h[0].sum())) / max(1.0, float(h[1].sum()))


def entropy(shares: Floats) -> float:
    """The log-loss of always predicting the classes' shares."""
    inside = shares[shares > 0]
    return float(-(inside * np.log(inside)).sum())


def _calibration(counts: Counts, residuals: Floats, groups: int) -> Metric:
    h = counts.values
    parts = np.array_split(np.arange(h.shape[1]), groups)
    sums = [float((h[:, part] * residuals[:, part]).sum()) for part in parts]
    variances = [
        float(((counts.noise + counts.alike * np.maximum(h[:, part], 0)) * residuals[:, part] ** 2).sum())
        for part in parts
    ]
    return calibration(np.array(sums) / counts.total, np.sqrt(variances) / counts.total)


def calibration(parts: Floats, errors: Floats) -> Metric:
    """The calibration error Σ |parts|: of each group of rows, Σ (outcome − predicted probability) over all rows.

    Intervals for the parts that hold together (Bonferroni) give one for the sum of their absolute values. Noise adds
    to the estimate itself, which is never below 0: the lower end says what is beyond noise.

    Args:
        parts: one for each group.
        errors: standard errors of the parts.
    """
    z = float(ndtri(1 - (1 - CONFIDENCE) / (2 * len(parts))))
    sizes = np.abs(parts)
    low, high = np.maximum(sizes - z * errors, 0.0).sum(), (sizes + z * errors).sum()
    return Metric("calibration_error", *(min(1.0, float(v)) for v in (sizes.sum(), low, high)))


# --- more classes -----------------------------------------------------------------------------------------------------


def confidence_metrics(counts: Counts, centres: Floats, classes: Counts) -> list[Metric]:
    """Accuracy and calibration error of the most likely class, from counts by right or wrong and by its probability.

    Args:
        counts: of shape (2, bins), wrong answers first.
        centres: of the bins of the probability.
        classes: how many rows each class has.
    """

    def accuracy(h: Floats) -> float:
        return float(h[1].sum()) / max(1.0, float(h.sum()))

    guess = float(np.clip(classes.values.max() / classes.total, 0.0, 1.0))
    residuals = np.vstack([-centres, 1 - centres])
    return [
        interval("accuracy", accuracy(counts.values), counts.standard_error(accuracy), _SHARES, guess),
        _calibration(counts, residuals, len(centres)),
    ]


def loss_metric(counts: Counts, centres: Floats, classes: Counts) -> Metric:
    """The log-loss, from counts by the loss of each row."""

    def log_loss(h: Floats) -> float:
        return float(h @ centres) / max(1.0, float(h.sum()))

    guess = entropy(np.clip(classes.values / classes.total, 0.0, 1.0))
    return interval("log_loss", log_loss(counts.values), counts.standard_error(log_loss), guess=guess)


# --- numbers ----------------------------------------------------------------------------------------------------------


def _mean(s: Floats, place: int) -> float:
    """The mean of a measure in [0, 1], from (count, Σ (measure − ½), …); noise may bring it outside."""
    return float(s[place]) / max(1.0, float(s[0])) + 0.5


def _explained(
    name: str, sums: Counts, loss: Callable[[Floats], float], null: Callable[[Floats], float], by_chance: float
) -> Metric:
    """1 − loss/null with the interval of Fieller (1954), which holds where the noise of ``null`` is not small.

    The ratio r is in it if loss − r·null is within 1.96 standard errors of 0, a quadratic inequality in r.

    Args:
        name: of the metric.
        sums: what was released.
        loss: the model's loss, from the sums.
        null: the loss of the guess.
        by_chance: standard error of the ratio by the choice of the test rows.
    """
    a, b = loss(sums.values), null(sums.values)
    variance_a, variance_b, variance_sum = (
        sums.standard_error(f, sampled=False) ** 2 for f in (loss, null, lambda s: loss(s) + null(s))
    )
    covariance = (variance_sum - variance_a - variance_b) / 2
    square = b * b - _Z**2 * variance_b
    if not (b > 0 and square > 0):  # the guess's loss is not told from 0, so that nothing is known of the ratio
        return Metric(name, min(1.0, 1 - a / b) if b > 0 else -math.inf, -math.inf, 1.0, 0.0)
    middle = (a * b - _Z**2 * covariance) / square
    half = math.sqrt(max(0.0, middle**2 - (a * a - _Z**2 * variance_a) / square))
    ratio = a / b
    low = ratio - math.hypot(ratio - (middle - half), _Z * by_chance)
    high = ratio + math.hypot(middle + half - ratio, _Z * by_chance)
    return Metric(name, min(1.0, 1 - ratio), min(1.0, 1 - high), min(1.0, 1 - low), 0.0)


def squared_metrics(sums: Counts, scale: float) -> list[Metric]:
    """R² and root mean squared error, from the count and the sums of squared error, target and squared target.

    The choice of test rows adds the variance that it has for normal errors (Olkin–Finn 1995 for R²).
    """
    n = max(1.0, float(sums.values[0])) / sums.alike

    def squares(s: Floats) -> float:
        return 4 * _mean(s, 1)

    def variance(s: Floats) -> float:
        return _mean(s, 3) - (2 * _mean(s, 2) - 1) ** 2

    mean = max(0.0, squares(sums.values))
    spread = max(0.0, variance(sums.values))
    ratio = min(1.0, mean / spread) if spread > 0 else 1.0
    found = _explained("r2", sums, squares, variance, 2 * math.sqrt(1 - ratio) * ratio / math.sqrt(n))
    error = math.hypot(sums.standard_error(squares, sampled=False), mean * math.sqrt(2 / n))
    value, low, high = (math.sqrt(max(0.0, squares(sums.values) + z * error)) * scale for z in (0.0, -_Z, _Z))
    return [found, Metric("rmse", value, low, high, math.sqrt(spread) * scale)]


def poisson_metrics(sums: Counts, scale: float, most: float) -> list[Metric]:
    """Mean Poisson deviance and its explained share D², from the count and the sums of deviance, target and y log y.

    The choice of test rows adds the variance that a deviance of χ² with one degree of freedom has.
    """
    n = max(1.0, float(sums.values[0])) / sums.alike

    def deviance(s: Floats) -> float:
        return _mean(s, 1) * most * scale

    def null(s: Floats) -> float:
        mean = max(_mean(s, 2), 1e-9)
        return 2 * (-_mean(s, 3) / math.e - mean * math.log(mean)) * scale

    value, guess = deviance(sums.values), max(0.0, null(sums.values))
    by_chance = math.sqrt(2 / n) * max(0.0, value)
    explained = _explained("d2", sums, deviance, null, by_chance / guess if guess > 0 else math.inf)
    error = math.hypot(sums.standard_error(deviance, sampled=False), by_chance)
    return [interval("deviance", value, error, guess=guess), explained]


def quantile_metrics(sums: Counts, scale: float, quantile: float) -> list[Metric]:
    """Mean pinball loss, and the share of targets at or below their prediction, which should be the quantile.

    The choice of test rows adds the variance of exponential losses, and the binomial one to the share.
    """
    n = max(1.0, float(sums.values[0])) / sums.alike

    def pinball(s: Floats) -> float:
        return 2 * (quantile * _mean(s, 1) + (1 - quantile) * _mean(s, 2)) * scale

    def below(s: Floats) -> float:
        return _mean(s, 3)

    loss, share = max(0.0, pinball(sums.values)), min(max(below(sums.values), 0.0), 1.0)
    errors = [
        math.hypot(sums.standard_error(f, sampled=False), by_chance)
        for f, by_chance in ((pinball, loss / math.sqrt(n)), (below, math.sqrt(share * (1 - share) / n)))
    ]
    return [
        interval("pinball_loss", loss, errors[0]),
        interval("share_below", share, errors[1], _SHARES, quantile),
    ]
