"""Measures of test predictions beside accuracy and R²: what probabilities and expected counts are worth.

All take test targets and predictions alone. `of_classes` and `of_numbers` are what `accuracy.py` reports for a fit;
smaller is better for the log-loss, the calibration error and the deviance.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LARGER_IS_BETTER = {
    "accuracy": True,
    "AUC": True,
    "log-loss": False,
    "calibration error": False,
    "R²": True,
    "D²": True,
}
_LEAST = 1e-9


def log_loss(y: NDArray[np.int64], chances: Array) -> float:
    """The mean of −log of the probability of the class that occurred."""
    return float(-np.mean(np.log(np.maximum(chances[np.arange(len(y)), y], _LEAST))))


def auc(y: NDArray[np.int64], score: Array) -> float:
    """The chance that a row of the second class has the larger score; ties count half."""
    from scipy.stats import rankdata

    positives = int(y.sum())
    if positives in (0, len(y)):
        return math.nan
    ranks = rankdata(score)
    return float((ranks[y == 1].sum() - positives * (positives + 1) / 2) / (positives * (len(y) - positives)))


def calibration_error(y: NDArray[np.int64], chances: Array, bins: int = 10) -> float:
    """Mean |share that occurred − mean probability| over bins of as many rows, of the second or the likeliest class."""
    if chances.shape[1] == 2:
        stated, right = chances[:, 1], y == 1
    else:
        stated, right = chances.max(axis=1), chances.argmax(axis=1) == y
    parts = np.array_split(np.argsort(stated, kind="stable"), bins)
    return float(sum(len(p) * abs(right[p].mean() - stated[p].mean()) for p in parts if len(p)) / len(y))


def of_classes(y: Any, chances: Array) -> dict[str, float]:
    """Accuracy in %, AUC (two classes), log-loss and calibration error of probabilities of classes 0 … K − 1."""
    codes = np.asarray(y, dtype=np.int64)
    found = {"accuracy": 100 * float((chances.argmax(axis=1) == codes).mean())}
    if chances.shape[1] == 2:
        found["AUC"] = auc(codes, chances[:, 1])
    return found | {"log-loss": log_loss(codes, chances), "calibration error": calibration_error(codes, chances)}


def poisson_deviance(y: Array, mean: Array) -> float:
    """2·mean of y·log(y/μ) − (y − μ)."""
    mean = np.maximum(mean, _LEAST)
    return float(2 * np.mean(np.where(y > 0, y * np.log(np.maximum(y, _LEAST) / mean), 0.0) - (y - mean)))


def of_numbers(y: Array, predicted: Array, *, counts: bool = False) -> dict[str, float]:
    """R², and for counts the share D² of the Poisson deviance that is explained."""
    found = {"R²": 1 - float(np.mean((y - predicted) ** 2) / np.var(y))}
    if counts:
        found["D²"] = 1 - poisson_deviance(y, predicted) / poisson_deviance(y, np.full(len(y), y.mean()))
    return found


def of_constant(y_train: Any, y_test: Any, *, classes: bool, counts: bool = False) -> dict[str, float]:
    """The measures of the shares of the classes, or of the mean, in the training rows."""
    if not classes:
        return of_numbers(np.asarray(y_test, float), np.full(len(y_test), float(np.mean(y_train))), counts=counts)
    codes = np.asarray(y_train, dtype=np.int64)
    shares = np.bincount(codes, minlength=int(max(codes.max(), np.max(y_test))) + 1) / len(codes)
    return of_classes(y_test, np.tile(shares, (len(y_test), 1)))


def losses_in_epsilon(runs: dict[str, list[float]], *, larger_is_better: bool) -> list[str]:
    """Steps to a larger ε that lose more than two standard errors of the difference."""
    known = sorted(runs, key=float)
    lost = []
    for before, after in pairwise(known):
        a, b = np.array(runs[before]), np.array(runs[after])
        error = math.hypot(*(float(np.std(x, ddof=1)) / math.sqrt(len(x)) if len(x) > 1 else 0.0 for x in (a, b)))
        change = float(b.mean() - a.mean()) * (1 if larger_is_better else -1)
        if change < -2 * error:
            lost.append(f"{before} to {after}")
    return lost
