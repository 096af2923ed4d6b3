"""Column weights from a private estimate of the columns' second moments: for solvers that bring columns nearer to one
scale.

A few columns often hold most of a row's length without being informative. What a row may contribute is bounded by its
length, so columns with large second moments dominate the row norm and informative rare columns receive almost no
weight. The second moments f_j = (1/n) Σ x_j² are a mean of vectors with few large entries, whose sensitivity is a
fraction of a gradient's; soft thresholding at the level of `best_threshold` keeps those that exceed the noise. Where
rows have much in common (indicators, splines, frequencies that are mostly 0), their mean holds most of their length as
well: it can be released and subtracted, and what is left fills the row norm instead.

Weights and centre are public once released, and given them a new row is a function of one row (`ColumnWeights`).
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.measurements import Measurement, Noisy
from discreet.mechanisms import Gaussian
from discreet.queries.sums.column_second_moment import ColumnSecondMoment
from discreet.queries.sums.row_sum import RowSum
from discreet.rows import RowSpec
from discreet.solvers.base import Problem
from discreet.solvers.parts.shrinkage import best_threshold, soft
from discreet.tuned import Tuned, current, tuned

__all__ = [
    "NUMBERS",
    "ColumnWeightsNumbers",
    "chance_damping",
    "column_weights",
    "lengthening",
    "released_mean",
    "released_moments",
    "weighted_moments",
]


@dataclass(frozen=True)
class ColumnWeightsNumbers(Tuned):
    """Tuned numbers of column weights, shared by all solvers that use them."""

    lengthening: float = tuned(
        1.5,
        "root mean square length of weighted rows over the row norm, so that most are clipped to one length",
        "judgement: rows of one length use the whole sensitivity, and clipping at two thirds changes few directions",
    )
    spread: float = tuned(
        25.0,
        "number of entries over which a row's squared length is expected to be spread",
        "judgement: not swept; rows of images, tables and words differ",
    )
    power: float = tuned(
        0.25,
        "exponent of the weights, between ½ (best where rare columns are informative) and 0 (where common ones are)",
        "sweep: weighted-power",
    )
    chance: float = tuned(
        0.25,
        "τ makes a column's chance variance in a gradient sum this share of the noise's variance",
        "judgement: columns below it gain nothing from more weight",
    )


NUMBERS = ColumnWeightsNumbers()

_LEAST_LEFT = 0.02  # of a second moment about a centre: weights stay bounded where both estimates err

Array = NDArray[np.float64]


def lengthening() -> float:
    """Root mean square length of weighted rows over the row norm."""
    return current(NUMBERS).lengthening


def chance_damping(problem: Problem, noise_multiplier: float) -> float:
    """τ = max(ν²/4, 1)·(radius/norm)²/n, in units of the squared row norm.

    With slopes of about ½ a column of second moment f has chance variance n·f/4 in a gradient sum, and the noise
    variance (ν·C)², C the clip at a slope of ½. Columns whose chance variance is less than a quarter of the noise's
    differ in weight by little.
    """
    rows = problem.rows
    return max(current(NUMBERS).chance * noise_multiplier**2, 1.0) * (rows.radius / rows.norm) ** 2 / problem.n


def released_moments(problem: Problem, multiplier: float, spread: float) -> Generator[Measurement, Any, Array]:
    """f_j = (1/n) Σ x_j², soft thresholded where noisy: one Gaussian release of `ColumnSecondMoment`."""
    query = ColumnSecondMoment(problem.rows, spread)
    answer = yield Noisy(query, Gaussian(multiplier))
    mean = np.asarray(answer, dtype=np.float64) / problem.n
    if multiplier:
        scale = multiplier * query.bound * query.grid / problem.n
        mean = soft(mean, best_threshold(mean, scale, "gaussian"))
    return np.maximum(mean, 0.0)


def released_mean(problem: Problem, multiplier: float) -> Generator[Measurement, Any, tuple[Array, Array]]:
    """(the mean row, shrunk as a whole by its noise; the part of each second moment that it explains): one release.

    The mean is multiplied by 1 − dσ²/‖mean‖² (James–Stein 1961), so that pure noise is not subtracted from the rows.
    """
    query = RowSum(problem.rows)
    answer = yield Noisy(query, Gaussian(multiplier))
    mean = np.asarray(answer, dtype=np.float64) / problem.n
    noise = (multiplier * query.bound * query.grid / problem.n) ** 2
    square = float(mean @ mean)
    centre = mean * max(0.0, 1 - mean.size * noise / square) if square > 0 else mean
    return centre, np.maximum(centre**2 - noise, 0.0)


def column_weights(
    moments: Array, rows: RowSpec, damping: float, power: float, explained: Array | float = 0.0
) -> Array:
    """w_j ∝ (f_j + τ)^−power, such that weighted rows are `lengthening` times the row norm long in root mean square.

    Args:
        moments: f, the second moments of the columns.
        rows: public facts about the rows.
        damping: τ in units of the squared row norm.
        power: ½ brings all columns with f_j ≫ τ to one scale; 0 leaves columns as they are.
        explained: what a centre that is subtracted takes from f.
    """
    square = rows.norm**2 if rows.bounded else 1.0
    weights = (np.maximum(moments - explained, 0.0) / square + damping) ** -power
    length = math.sqrt(float(_left(moments, square, explained) @ weights**2) / square)
    return np.asarray(weights * (lengthening() / length))


def weighted_moments(moments: Array, rows: RowSpec, weights: Array, explained: Array | float = 0.0) -> Array:
    """Approximate second moments of the columns of weighted and clipped rows: they add up to the squared row norm."""
    square = rows.norm**2 if rows.bounded else 1.0
    return _left(moments, square, explained) * (weights / lengthening()) ** 2


def _left(moments: Array, square: float, explained: Array | float) -> Array:
    """Second moments about the centre, completed so that those about 0 add up to the squared row norm.

    What no column was seen to hold is spread evenly over all columns.
    """
    whole = moments + max(0.0, square - float(moments.sum())) / max(1, moments.size)
    return np.maximum(whole - explained, _LEAST_LEFT * whole)
