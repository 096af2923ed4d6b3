"""Where the columns are: a few sums of entries, each cut around the last answer and within a shorter reach.

The mean of entries cut at a reach R around c errs by noise in proportion to R. So the first sum, with the public row
norm as its reach, leaves an error that is a small share of the norm; the next one reaches a few scales of the columns
and what that noise can be at most, and so on. After as many as `CentreNumbers.releases` the reach is that of the
scale, also where the norm is a thousand times as large, if each is a tenth of the last or less.
Claim and measurements: docs/maths/sparse_regression.md, *Heavy tails*.
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
from discreet.queries.sums.clipped_entries import ClippedEntrySum
from discreet.solvers.base import Problem
from discreet.tuned import Tuned, current, tuned

__all__ = ["NUMBERS", "CentreNumbers", "column_centre"]

_DEVIATIONS = 4.0  # the largest of d normal numbers is so far above √(2 ln 2d) with probability e^−8 (Borell 1975)


@dataclass(frozen=True)
class CentreNumbers(Tuned):
    """Tuned numbers of the search for the columns' centre."""

    releases: int = tuned(
        4,
        "sums of cut entries by which the centre of the columns is found",
        "judgement: each brings its reach down to a share of the last, and if that is a tenth four suffice for bounds "
        "a thousand times too wide; more would share the same budget",
    )


NUMBERS = CentreNumbers()


def column_centre(
    problem: Problem, multiplier: float, width: float
) -> Generator[Measurement, Any, NDArray[np.float64]]:
    """One number a column, the constant one left out; 0 where noise alone may have moved it that far.

    `CentreNumbers.releases` Gaussian releases of `ClippedEntrySum`. Columns whose means are near 0 thus stay where they
    are, and it costs them nothing but the share of the budget.

    Args:
        problem: public facts, rows of bounded length.
        multiplier: noise over the bound of `ClippedEntrySum` in each release.
        width: deviations from a column's centre that are usual, a released or public number.
    """
    d, norm = problem.rows.n_features, problem.rows.norm
    centre, reach, largest = np.zeros(d), norm, 0.0
    for _ in range(current(NUMBERS).releases):
        total = yield Noisy(ClippedEntrySum(problem.rows, centre, reach), Gaussian(multiplier))
        centre = np.clip(centre + np.asarray(total, dtype=np.float64) / problem.n, -norm, norm)
        noise = multiplier * math.sqrt(d) * reach / problem.n
        largest = math.sqrt(2 * math.log(2 * max(1, d))) * noise  # of d normal numbers, about
        reach = min(norm, width + largest + _DEVIATIONS * noise)
    return np.where(np.abs(centre) > largest, centre, 0.0)
