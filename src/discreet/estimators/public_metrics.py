"""Metrics of predictions on public rows, computed from the rows themselves; intervals are for the choice of rows."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp
from scipy.stats import rankdata

from discreet.estimators.metrics import calibration, entropy, interval
from discreet.queries.sums.outcomes import poisson_deviance
from discreet.report.evaluation import Metric

__all__ = ["of_classes", "of_counts", "of_numbers", "of_quantile", "of_scores"]

Floats: TypeAlias = NDArray[np.float64]
_SHARES = (0.0, 1.0)


def of_scores(z: Floats, y: Floats, *, probabilities: bool, edges: Floats) -> list[Metric]:
    """Accuracy, AUC and, for log-odds, log-loss and calibration error of two classes.

    Args:
        z: scores, above 0 for class 1.
        y: −1 or 1.
        probabilities: whether scores are log-odds.
        edges: of the groups that the calibration error is made of.
    """
    share = float((y > 0).mean())
    found = [
        _mean("accuracy", ((z > 0) == (y > 0)).astype(np.float64), _SHARES, max(share, 1 - share)),
        _auc(z, y),
    ]
    if not probabilities:
        return found
    found.append(_mean("log_loss", np.logaddexp(0, -y * z), guess=entropy(np.array([share, 1 - share]))))
    residuals = (y > 0) - 1 / (1 + np.exp(-z))
    return [*found, _calibration(residuals, np.searchsorted(edges[1:-1], z, side="right"), len(edges) - 1)]


def of_classes(z: Floats, y: Floats, *, edges: Floats) -> list[Metric]:
    """Accuracy, calibration error of the most likely class, and log-loss of K classes coded 0 … K − 1."""
    code = y.astype(np.intp)
    shares = np.bincount(code, minlength=z.shape[1]) / len(y)
    right = (z.argmax(axis=1) == code).astype(np.float64)
    confidence = np.exp(z.max(axis=1) - logsumexp(z, axis=1))
    losses = -np.take_along_axis(log_softmax(z, axis=1), code[:, None], axis=1).ravel()
    groups = np.searchsorted(edges[1:-1], confidence, side="right")
    return [
        _mean("accuracy", right, _SHARES, float(shares.max())),
        _calibration(right - confidence, groups, len(edges) - 1),
        _mean("log_loss", losses, guess=entropy(shares)),
    ]


def of_numbers(predicted: Floats, y: Floats) -> list[Metric]:
    """R² and root mean squared error."""
    squares, around = (y - predicted) ** 2, (y - y.mean()) ** 2
    variance = max(float(around.mean()), 1e-300)
    ratio, root = float(squares.mean()) / variance, math.sqrt(float(squares.mean()))
    influence = (squares - ratio * around) / variance
    return [
        interval("r2", 1 - ratio, _error(influence), (-math.inf, 1.0), 0.0),
        interval("rmse", root, _error(squares) / max(2 * root, 1e-300), guess=math.sqrt(variance)),
    ]


def of_counts(predicted: Floats, y: Floats) -> list[Metric]:
    """Mean Poisson deviance and the share of the deviance of the mean that it explains."""
    deviances, around = poisson_deviance(predicted, y), poisson_deviance(np.full_like(y, max(y.mean(), 1e-300)), y)
    null = max(float(around.mean()), 1e-300)
    ratio = float(deviances.mean()) / null
    return [
        _mean("deviance", deviances, guess=null),
        interval("d2", 1 - ratio, _error((deviances - ratio * around) / null), (-math.inf, 1.0), 0.0),
    ]


def of_quantile(predicted: Floats, y: Floats, quantile: float) -> list[Metric]:
    """Mean pinball loss, beside that of the targets' own quantile; and the share of targets at or below predictions."""

    def pinball(guess: Any) -> Floats:
        return np.maximum(quantile * (y - guess), (quantile - 1) * (y - guess))

    return [
        _mean("pinball_loss", pinball(predicted), guess=float(pinball(np.quantile(y, quantile)).mean())),
        _mean("share_below", (y <= predicted).astype(np.float64), _SHARES, quantile),
    ]


def _error(values: Floats) -> float:
    """The standard error of a mean."""
    return float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.inf


def _mean(
    name: str, values: Floats, limits: tuple[float, float] = (0.0, math.inf), guess: float | None = None
) -> Metric:
    return interval(name, float(values.mean()), _error(values), limits, guess)


def _auc(z: Floats, y: Floats) -> Metric:
    """With the standard error of DeLong, DeLong and Clarke-Pearson (1988)."""
    positive = y > 0
    p, n = int(positive.sum()), int((~positive).sum())
    if not (p and n):
        return Metric("auc", 0.5, 0.0, 1.0, 0.5)
    ranks = rankdata(z)
    above = (ranks[positive] - rankdata(z[positive])) / n  # for each positive, the share of negatives below it
    under = 1 - (ranks[~positive] - rankdata(z[~positive])) / p
    error = math.sqrt(sum(v.var(ddof=1) / len(v) if len(v) > 1 else 0.25 for v in (above, under)))
    return interval("auc", float(above.mean()), error, _SHARES, 0.5)


def _calibration(residuals: Floats, groups: NDArray[np.intp], count: int) -> Metric:
    parts = np.bincount(groups, residuals, minlength=count) / len(residuals)
    errors = np.sqrt(np.bincount(groups, residuals**2, minlength=count)) / len(residuals)
    return calibration(parts, errors)
