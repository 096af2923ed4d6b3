"""Private estimates of location and scale that ask only for signs, and the location alone under strong noise.

A search for a median by the signs of v − median (Robbins–Monro 1951) has errors in proportion to the scale of v, not to
its public bound: steps are in units of the scale found so far.
A search starts at half of the bound. Scales are looked for between a hundredth of the public bound, or less where that
is asked for, and the bound; of heavy tails, whose largest values say little of their scale, by more releases and down
to a millionth. Searches end with the average of their last half.
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
from discreet.queries.sums.residual import ResidualSum
from discreet.queries.sums.sign_sums import SignSums
from discreet.solvers.base import Problem, Steps
from discreet.tuned import Tuned, current, tuned

__all__ = [
    "NUMBERS",
    "LocationScale",
    "LocationScaleNumbers",
    "far_steps",
    "location_and_scale",
    "target_location",
]

_LEAST_SCALE = 0.01  # over the public bound: a safeguard against constant columns
_LEAST_SCALE_FAR = 1e-6  # the same where bounds may be far from the scale
_DEVIATION_OVER_MEDIAN = 1.48  # a normal law's standard deviation over the median of its absolute deviations


@dataclass(frozen=True)
class LocationScaleNumbers(Tuned):
    """Tuned numbers of the searches for location and scale."""

    steps: int = tuned(
        16, "releases of one search", "judgement: at a gain of ½ the scale can grow or fall by e⁸ over all of them"
    )
    gain: float = tuned(
        0.5,
        "step of a search over the scale found so far, and where that starts over the public bound",
        "sweep: wide-gain",
    )


NUMBERS = LocationScaleNumbers()

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LocationScale:
    """What the searches found.

    Args:
        location: median of the targets.
        scale: of the targets: their median absolute deviation as a standard deviation.
        row_scale: the same of one fixed projection of the rows.
    """

    location: float
    scale: float
    row_scale: float


def far_steps() -> int:
    """Releases of a search where bounds may be far from the scale: its first half, not averaged, can fall by 10⁶.

    Example:
        >>> far_steps()
        56
    """
    return 2 * math.ceil(-math.log(_LEAST_SCALE_FAR) / current(NUMBERS).gain)


def location_and_scale(
    problem: Problem, multiplier: float, target_bound: float, least: float = _LEAST_SCALE, *, far: bool = False
) -> Generator[Measurement, Any, LocationScale]:
    """Medians of the targets and of one fixed projection of the rows, and of the absolute deviations from them.

    Deviations are searched for by their logarithm. `LocationScaleNumbers.steps` Gaussian releases of `SignSums`, or
    `far_steps`.

    Args:
        problem: public facts.
        multiplier: noise over the bound of `SignSums` in each release.
        target_bound: public bound on |y|, where the search begins and ends.
        least: scale of the targets over their bound, below which the search does not go.
        far: whether the bounds may be far above the scales, as those of heavy tails are: both are then looked for down
            to a millionth.
    """
    rows, n, numbers = problem.rows, problem.n, current(NUMBERS)
    steps, lowest = numbers.steps, np.array([least, _LEAST_SCALE])
    if far:
        steps, lowest = far_steps(), np.full(2, _LEAST_SCALE_FAR)
    bounds = np.array([target_bound, rows.norm if rows.bounded else 1.0])
    centres, logs = np.zeros(2), np.log(numbers.gain * bounds)
    found, kept = np.zeros((2, 2)), 0
    for t in range(steps):
        c, w = centres.tolist(), np.exp(logs).tolist()
        query = SignSums(rows, _direction(rows.n_features), (c[0], c[1]), (w[0], w[1]))
        answer = yield Noisy(query, Gaussian(multiplier))
        signs = np.asarray(answer, dtype=np.float64).reshape(2, 2) / n
        centres = np.clip(centres + numbers.gain * np.exp(logs) * signs[:, 0], -bounds * (1, 3), bounds * (1, 3))
        logs = np.clip(logs + numbers.gain * signs[:, 1], np.log(lowest * bounds), np.log(bounds))
        if 2 * (t + 1) > steps:
            kept += 1
            found += (np.stack([centres, logs]) - found) / kept
    scales = np.minimum(_DEVIATION_OVER_MEDIAN * np.exp(found[1]), bounds)
    return LocationScale(float(found[0, 0]), float(scales[0]), float(scales[1]))


def target_location(problem: Problem, multiplier: float, clip: float, path_length: float, bound: float) -> Steps:
    """The constant model: steps along sums of residuals cut at ``clip``·bound, the last half averaged.

    Args:
        problem: public facts; rows with an intercept.
        multiplier: noise over the clip in each of `LocationScaleNumbers.steps` releases.
        clip: where residuals are cut, over the bound.
        path_length: the sum of all steps if every residual has one sign, over the bound.
        bound: public bound on |y|.
    """
    steps, constant, n = current(NUMBERS).steps, problem.rows.constant * problem.rows.unit, problem.n
    cut = clip * bound
    size = path_length * bound / (steps * cut)
    theta, centre, mean, kept = problem.start, 0.0, 0.0, 0
    for t in range(steps):
        theta[-1] = centre / constant
        total = yield Noisy(ResidualSum(problem.rows, theta.copy(), cut), Gaussian(multiplier))
        centre = min(bound, max(-bound, centre + size * float(total) / n))
        if 2 * (t + 1) > steps:
            kept += 1
            mean += (centre - mean) / kept
    theta[-1] = mean / constant
    return theta


def _direction(columns: int) -> Array:
    """Signs that go with no pattern of the columns: the same for all data, so public."""
    return np.where(np.cos(1.7 * np.arange(columns, dtype=np.float64) ** 2 + 0.3) >= 0, 1.0, -1.0)
