"""Sparse regression with heavy tails: shrink, split, peel (Hu–Ni–Xiao–Wang 2022).

Entries are shrunk to |x_ij| ≤ K and targets to |y| ≤ K, so that heavy tails cost a bias of order M/K² (M bounds fourth
moments) instead of privacy. The rows are split into T disjoint parts of about m = n/T; step t peels
v = θ − (η/m)·Σ_{part t} gradient, whose neighbours differ in every entry by at most 2(η/m)·K·slope. θ is s-sparse and
at most C long, hence |⟨x, θ⟩| ≤ K‖θ‖₁ ≤ K√s·C and slope ≤ K(√s·C + 1). Here ‖θ‖₁ of the current, released θ bounds it,
which is never larger, and the query enforces it in integers. Fresh rows at each step keep θ independent of the rows
that move it. Parts compose in parallel: T steps cost as much as one.

Each part's size is private under add-remove; sums are divided by the public m.

Nobody knows the scale of heavy-tailed columns and targets beforehand, and one K for both fits neither. So with
``scale_multiplier`` the scales σ_x of the columns and σ_y of the targets are released first, from all rows
(`discreet.solvers.parts.location_scale`, whose signs no tail can move), and K, the step and the bound on slopes are in
units of them: entries are shrunk to K·σ_x, slopes to ``slope_bound``·σ_y, the step is η/σ_x². A cut slope makes the
squared loss Huber's, of which the linear model of symmetric noise is the minimiser too.
Steps of one size need columns that are nearly uncorrelated *about zero*, so a centre of the columns is released too
(`discreet.solvers.parts.column_centre`), and entries are shrunk after it was subtracted. The intercept becomes that of
the rows as they were. Without one, slopes are those of a regression whose intercept is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.losses import Squared
from discreet.measurements import Noisy
from discreet.measurements.base import Measurement
from discreet.measurements.sample_splitting import SampleSplitting
from discreet.mechanisms.peeling import LaplacePeeling, Peeling
from discreet.queries.sums.entrywise_gradient import EntrywiseGradientSum
from discreet.solvers.base import Problem, Steps
from discreet.solvers.hard_threshold import sparse_domain
from discreet.solvers.parts.column_centre import column_centre
from discreet.solvers.parts.location_scale import LocationScale, location_and_scale

__all__ = ["HeavyTailed"]

_Query: TypeAlias = Callable[[NDArray[np.float64], NDArray[np.float64]], EntrywiseGradientSum]


@dataclass(frozen=True)
class HeavyTailed:
    """θ ← peel_s(θ − (η/m)·gradient of one part of the rows), a part a step.

    Args:
        peeling: the mechanism of each step; it carries s and the noise.
        parts: T, the number of steps and of disjoint parts.
        entry_bound: K, to which entries and targets are shrunk; inf only without noise.
        step: η.
        radius: ℓ2 bound C on θ; None for none.
        slope_bound: where slopes are cut; None takes K(‖θ‖₁ + 1), which no slope of shrunken rows exceeds.
        scale_multiplier: noise of the searches for σ_x and σ_y; None for no searches: K and the step are then in the
            units of the rows, and targets are shrunk to ±K, too.
        centre_multiplier: noise of the sums by which the columns' centre is found, given with ``scale_multiplier``.
    """

    peeling: Peeling | LaplacePeeling
    parts: int
    entry_bound: float
    step: float
    radius: float | None
    slope_bound: float | None = None
    scale_multiplier: float | None = None
    centre_multiplier: float | None = None

    def __post_init__(self) -> None:
        given = {option is None for option in (self.slope_bound, self.scale_multiplier, self.centre_multiplier)}
        if len(given) > 1:
            raise InvalidInput(
                "slope_bound is in units of a scale that is found, and a centre is found with it: give slope_bound, "
                "scale_multiplier and centre_multiplier, or none of them."
            )
        if not 0 < self.step < math.inf:
            raise InvalidInput(f"step must be positive and finite, got {self.step!r}.")

    def steps(self, problem: Problem) -> Steps:
        """One measurement: all steps, each on its own part of the rows."""
        if not isinstance(problem.loss, Squared):
            raise InvalidInput(f"heavy-tailed regression has squared loss, not {type(problem.loss).__name__}.")
        if self.scale_multiplier is None:
            theta = yield SampleSplitting(lambda: self._over_parts(problem), self.parts)
            return np.asarray(theta, dtype=np.float64)
        assert self.centre_multiplier is not None
        found = yield from location_and_scale(problem, self.scale_multiplier, 1.0, far=True)
        column = found.row_scale / math.sqrt(problem.rows.n_features)  # of a projection on signs, all columns together
        centre = yield from column_centre(problem, self.centre_multiplier, self.entry_bound * column)
        theta = yield SampleSplitting(lambda: self._in_scales(problem, column, found, centre), self.parts)
        return self._of_rows(problem, np.array(theta, dtype=np.float64), column, centre)

    def _of_rows(
        self, problem: Problem, theta: NDArray[np.float64], column: float, centre: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """The model of centred rows as one of the rows themselves, the intercept counted among the s."""
        if problem.rows.intercept:  # the constant column was as large as the others
            slopes, offset = theta[:-1], theta[-1] * column
            if offset - centre @ slopes and np.count_nonzero(slopes) == self.peeling.s:
                slopes[np.argmin(np.where(slopes == 0, math.inf, np.abs(slopes)))] = 0.0
            theta[-1] = (offset - centre @ slopes) / problem.rows.intercept
        return sparse_domain(problem, self.peeling.s, self.radius).project(theta)

    def _over_parts(self, problem: Problem) -> Generator[Measurement, Any, NDArray[np.float64]]:
        """In the units of the rows, with the slopes that shrunken rows have."""

        def query(theta: NDArray[np.float64], start: NDArray[np.float64]) -> EntrywiseGradientSum:
            slope = self.entry_bound * (float(np.abs(theta).sum()) + 1)
            return EntrywiseGradientSum(
                problem.rows, problem.loss, theta, self.entry_bound, slope, self.entry_bound, start
            )

        return self._steps(problem, problem.start, self.step, query)

    def _in_scales(
        self, problem: Problem, column: float, found: LocationScale, centre: NDArray[np.float64]
    ) -> Generator[Measurement, Any, NDArray[np.float64]]:
        """In units of the scales found, around the columns' centre, from the targets' median."""
        assert self.slope_bound is not None
        entry, slope, first = self.entry_bound * column, self.slope_bound * found.scale, problem.start
        away = 0.0 if problem.rows.intercept else found.location
        if problem.rows.intercept:
            first[-1] = found.location / column

        def query(theta: NDArray[np.float64], start: NDArray[np.float64]) -> EntrywiseGradientSum:
            return EntrywiseGradientSum(
                problem.rows, problem.loss, theta, entry, slope, math.inf, start, column, centre, away
            )

        return self._steps(problem, first, self.step / column**2, query)

    def _steps(
        self, problem: Problem, theta: NDArray[np.float64], step: float, query: _Query
    ) -> Generator[Measurement, Any, NDArray[np.float64]]:
        domain = sparse_domain(problem, self.peeling.s, self.radius)
        rate = step / (problem.n / self.parts)
        for _ in range(self.parts):
            start = -(1 - step * problem.ridge) / rate * theta
            peeled = yield Noisy(query(theta, start), self.peeling)
            theta = domain.project(-rate * peeled)
        return theta
