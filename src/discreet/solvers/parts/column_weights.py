"""Column weights from privately released energies: one concept for all solvers that bring columns nearer to one scale.

A few columns often hold most of a row's length and say little; what a row may contribute is bounded by its length, so
the telling columns drown. The energies f = (1/n) Σ x_j² are a mean of vectors with few large entries, whose sensitivity
is a fraction of a gradient's; soft thresholding at the level of `best_threshold` keeps those that stand out from noise.
Where rows have much in common (indicators, splines, frequencies that are mostly 0), their mean holds most of their
length as well; it can be released and subtracted, and what is left fills the row norm instead.

Weights and centre are public once released, and given them a new row is a function of one row (`ColumnWeights`).
"""

from __future__ import annotations

import math
from collections.abc import Generator
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

__all__ = ["LENGTHEN", "column_weights", "made_energies", "released_energies", "released_mean"]

LENGTHEN = 1.5
"""Weighted rows are this many times the row norm long in root mean square, so that most are clipped to one length."""
_LEAST_LEFT = 0.02
"""A centre explains 98 % of a column's energy at most: estimates err, and rows must not be lengthened without bound."""


def released_energies(
    problem: Problem, multiplier: float, spread: float
) -> Generator[Measurement, Any, NDArray[np.float64]]:
    """The thresholded mean of squared entries: one release."""
    query = ColumnSecondMoment(problem.rows, spread)
    answer = yield Noisy(query, Gaussian(multiplier))
    mean = np.asarray(answer, dtype=np.float64) / problem.n
    if multiplier:
        scale = multiplier * query.bound * query.grid / problem.n
        mean = soft(mean, best_threshold(mean, scale, "gaussian"))
    return np.maximum(mean, 0.0)


def released_mean(
    problem: Problem, multiplier: float
) -> Generator[Measurement, Any, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """(the mean row, shrunk as a whole by its noise; what of each column's energy it explains): one release.

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
    energies: NDArray[np.float64],
    rows: RowSpec,
    damping: float,
    power: float,
    explained: NDArray[np.float64] | float = 0.0,
) -> NDArray[np.float64]:
    """w_j ∝ (f_j + τ)^−power, such that weighted rows are `LENGTHEN` times the row norm long in root mean square.

    ``explained`` is what a centre that is subtracted takes from the energies f.
    """
    square = rows.norm**2 if rows.bounded else 1.0
    weights = (np.maximum(energies - explained, 0.0) / square + damping) ** -power
    length = math.sqrt(float(_left(energies, square, explained) @ weights**2) / square)
    return np.asarray(weights * (LENGTHEN / length))


def made_energies(
    energies: NDArray[np.float64],
    rows: RowSpec,
    weights: NDArray[np.float64],
    explained: NDArray[np.float64] | float = 0.0,
) -> NDArray[np.float64]:
    """What the columns of weighted and clipped rows hold, about: the squared row norm in all."""
    square = rows.norm**2 if rows.bounded else 1.0
    return _left(energies, square, explained) * (weights / LENGTHEN) ** 2


def _left(energies: NDArray[np.float64], square: float, explained: NDArray[np.float64] | float) -> NDArray[np.float64]:
    whole = _filled(energies, square)
    return np.maximum(whole - explained, _LEAST_LEFT * whole)


def _filled(energies: NDArray[np.float64], square: float) -> NDArray[np.float64]:
    """Energies that add up to the squared row norm: what no column was seen to hold is spread over all."""
    return energies + max(0.0, square - float(energies.sum())) / max(1, energies.size)
