"""The spread of the residuals of a public θ, by one release, and the coverage of a quantile, by a few.

The histogram has two bins for each octave of residuals of either sign, so that one release finds a spread a thousand
times smaller than the scale of the targets. Quantiles are read off its partial sums.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.losses import Loss, Quantile
from discreet.measurements import Measurement, Noisy
from discreet.mechanisms import Gaussian
from discreet.queries.histograms.residual_histogram import ResidualHistogram
from discreet.queries.sums.residual import ResidualSum
from discreet.solvers.base import Problem, Steps
from discreet.tuned import Tuned, current, tuned

__all__ = [
    "NUMBERS",
    "ResidualScaleNumbers",
    "Spread",
    "released_spread",
    "residual_quantile",
    "usual_spread",
    "with_coverage",
]

_SMALLEST, _LARGEST = -10, 3  # octaves of residuals, over the scale found before
_LEAST_SPREAD = 2.0**-14  # over the largest: a safeguard against constant residuals
_QUARTER, _NORMAL_QUARTILES = 0.25, 1.349  # the distance of the quartiles of a standard normal law
_NORMAL_DENSITY = 0.4  # of a standard normal law at 0
_BELIEVED = 3.0  # standard deviations of the noise
_SIGN = 1e-6  # residuals beyond so small a share of the unit count by their sign

Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class ResidualScaleNumbers(Tuned):
    """Tuned numbers of descents in the unit of the residuals."""

    first_part: float = tuned(
        1 / 3,
        "share of the steps after which the spread of the residuals is released; before, it is that of the targets",
        "judgement: the last half of the steps is averaged, and some are left to come there in the new unit",
    )
    first_width: float = tuned(
        2.0,
        "smoothing of a quantile in these steps, in scales of the targets",
        "judgement: most residuals are inside, so that steps are those of least squares",
    )
    coverage_steps: int = tuned(
        4,
        "releases of a quantile's coverage, each followed by a step of the intercept",
        "judgement: a density that is half of the expected one leaves a quarter of the error, a larger one less",
    )


NUMBERS = ResidualScaleNumbers()


@dataclass(frozen=True)
class Spread:
    """The spread of the residuals.

    Args:
        unit: Huber: their standard deviation, as 0.74 times the distance of their quartiles. Quantiles: 0.4 over the
            density of residuals at the quantile, which is the standard deviation for a median of normal residuals.
        offset: what is added to a model of the median for one of the quantile; 0 for Huber.
    """

    unit: float
    offset: float = 0.0


def usual_spread(loss: Loss | None, deviation: float) -> Spread:
    """That of normal residuals of this standard deviation."""
    if not isinstance(loss, Quantile):
        return Spread(deviation)
    normal = NormalDist()
    place = normal.inv_cdf(loss.level)
    return Spread(_NORMAL_DENSITY * deviation / normal.pdf(place), place * deviation)


def released_spread(
    problem: Problem, theta: Array, deviation: float, multiplier: float
) -> Generator[Measurement, Any, Spread]:
    """The spread of the residuals at θ: one Gaussian release of a `ResidualHistogram`.

    The density at a quantile of level τ is p over the distance of the quantiles of levels τ ± p/2, p = min(τ, 1 − τ).
    Quartiles or quantiles beyond which there are fewer rows than three standard deviations of the noise in all counts
    together are not believed: then residuals are taken for normal, and their deviation for the one before.

    Args:
        problem: public facts.
        theta: public; of a quantile a model of the median.
        deviation: standard deviation of the residuals that is thought of.
        multiplier: noise in a count.
    """
    edges = deviation * _edges()
    counts = yield Noisy(ResidualHistogram(problem.rows, theta, edges), Gaussian(multiplier))
    least = _BELIEVED * multiplier * math.sqrt(len(counts)) / problem.n

    def quantile(level: float) -> float:
        return residual_quantile(counts, edges, level, problem.n)

    loss = problem.residual_loss
    if not np.any(counts) or least > _QUARTER:
        return usual_spread(loss, deviation)
    seen = max((quantile(1 - _QUARTER) - quantile(_QUARTER)) / _NORMAL_QUARTILES, float(edges[-1]) * _LEAST_SPREAD)
    if not isinstance(loss, Quantile):
        return Spread(seen)
    level, part = loss.level, min(loss.level, 1 - loss.level)
    if least > part / 2:
        return usual_spread(loss, seen)
    width = max(quantile(level + part / 2) - quantile(level - part / 2), part * seen)
    return Spread(_NORMAL_DENSITY * width / part, quantile(level))


def _edges() -> Array:
    """Edges of bins in both directions from 0, in half octaves."""
    sizes = 2.0 ** (np.arange(2 * _SMALLEST, 2 * _LARGEST + 1) / 2)
    return np.concatenate([-sizes[::-1], [0.0], sizes])


def residual_quantile(counts: Array, edges: Array, level: float, n: float) -> float:
    """Where ``level``·n of the counted rows are below, or the others above, counting from the nearer end.

    Rows are even within a bin.

    Example:
        >>> residual_quantile(np.array([10.0, 20.0, 10.0]), np.array([0.0, 1.0, 2.0, 4.0]), 0.25, 40.0)
        1.0
        >>> residual_quantile(np.array([10.0, 20.0, 10.0]), np.array([0.0, 1.0, 2.0, 4.0]), 0.875, 40.0)
        3.0
    """
    if level > 1 / 2:
        return -residual_quantile(counts[::-1], -edges[::-1], 1 - level, n)
    rank, below = level * n, 0.0
    for count, low, high in zip(counts.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if below + count >= rank:
            return float(low + (high - low) * max(0.0, rank - below) / count) if count > 0 else float(low)
        below += count
    return float(edges[-1])


def with_coverage(problem: Problem, theta: Array, level: float, unit: float, multiplier: float) -> Steps:
    """θ with its intercept moved until a share ``level`` of targets is expected below.

    `ResidualScaleNumbers.coverage_steps` Gaussian releases. The number of targets above θ less those below it is a sum
    of residuals cut at next to nothing. With its mean m the share below is (1 − m)/2, and the intercept moves by what
    the share lacks over the density, at most by the unit; in the k-th release by a k-th of that (Robbins–Monro 1951),
    which makes up for a density that is half or twice as large as expected.

    Args:
        problem: public facts; rows with an intercept.
        theta: public.
        level: of the quantile.
        unit: 0.4 over the density of the residuals at the quantile.
        multiplier: noise over the largest contribution in each release.
    """
    moved = theta.copy()
    for k in range(current(NUMBERS).coverage_steps):
        query = ResidualSum(problem.rows, moved.copy(), _SIGN * unit)
        total = yield Noisy(query, Gaussian(multiplier))
        lacking = level - (1 - float(total) / (query.clip * problem.n)) / 2
        length = unit * min(1.0, max(-1.0, lacking / _NORMAL_DENSITY)) / (k + 1)
        moved[-1] += length / (problem.rows.constant * problem.rows.unit)
    return moved
