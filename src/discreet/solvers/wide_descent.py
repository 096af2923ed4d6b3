"""Least squares with more columns than can be whitened: scales first, then gradients in those scales, then the offset.

The noise that T gradients of n rows leave in a row's score does not grow with the number of columns. Let ν be the noise
multiplier of one release with the whole budget, C = c·r the clip on rows of length r, and K = ηTc the *path length* of
the scores (what they change by if all rows' gradients point one way). Then scores differ from row to row by noise of
K·(ν/n)·r·R, R being the standard deviation of rows around their mean in one random direction, whatever d is. The best
path length thus depends on two numbers that are not public, R and the scale s of the targets: K = κ·s·n/(ν·r·R) keeps
that noise at a share κ of s, and a longer path would add more noise than it learns. All releases are Gaussian:

1. *Private estimates of location and scale* of the targets and of one fixed projection of the rows, by searches that
   ask only for signs (`discreet.solvers.parts.location_scale`).
2. *Gradients* from the location found, clipped at a fraction of s, over the path length K. A clip below the scale makes
   least squares a median regression, whose noise is in proportion to s too (`GradientSum`).
3. *Offset*: the mean residual moves the intercept from the median to the mean (`discreet.solvers.parts.mean_offset`).

If noise is so strong that the estimates of scale would take most of the budget, weights cannot be learnt, but the
location of the targets can: it then has the whole budget, and the model is that constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.losses import Squared
from discreet.measurements import Noisy
from discreet.mechanisms import Gaussian
from discreet.queries.sums.gradient import GradientSum
from discreet.solvers.base import Problem, Steps
from discreet.solvers.parts.location_scale import LocationScale, location_and_scale, target_location
from discreet.solvers.parts.mean_offset import with_mean_offset
from discreet.solvers.parts.requirements import require_bounded_rows, require_no_ridge, require_unconstrained

__all__ = ["WideDescent", "check"]


@dataclass(frozen=True)
class WideDescent:
    """Location and scale, ``iterations`` gradients, and the offset; without gradients, the location of targets alone.

    Args:
        noise_multiplier: noise over the clip in each gradient (without gradients: in each step to the location);
            0 is plain gradient descent.
        scale_multiplier: noise over the bound of `SignSums` in each release of the search for location and scale.
        offset_multiplier: noise over the largest residual in the offset's release.
        iterations: number of gradients; 0 finds the location of the targets alone.
        path_length: K in units of scale/R, where R is over the row norm; of the location alone, in target bounds.
        clip: slope at which residuals are clipped, in scales of the targets; of the location alone, in target bounds.
        target_bound: public bound on |y|; targets beyond it are allowed.
        longest_step: no step moves a score by more than this many scales of the targets.
        offset_path_length: path length of the intercept in scales of the targets.
    """

    noise_multiplier: float
    scale_multiplier: float
    offset_multiplier: float
    iterations: int
    path_length: float
    clip: float
    target_bound: float = 1.0
    longest_step: float = math.inf
    offset_path_length: float = math.inf

    def __post_init__(self) -> None:
        if self.iterations < 0:
            raise InvalidInput(f"iterations must be at least 0, got {self.iterations}.")
        for name in ("path_length", "clip", "target_bound", "longest_step", "offset_path_length"):
            if not getattr(self, name) > 0:
                raise InvalidInput(f"{name} must be positive, got {getattr(self, name)!r}.")

    def steps(self, problem: Problem) -> Steps:
        """A search of 16 releases, ``iterations`` gradients and one offset; or 16 for the location alone."""
        check(problem)
        if not self.iterations:
            settings = self.noise_multiplier, self.clip, self.path_length, self.target_bound
            return (yield from target_location(problem, *settings))
        if not self.noise_multiplier:
            size = 1 / problem.rows.radius**2
            return (yield from self._descend(problem, problem.start, math.inf, size, size))
        scales = yield from location_and_scale(problem, self.scale_multiplier, self.target_bound)
        theta = problem.start
        theta[-1] = scales.location / (problem.rows.constant * problem.rows.unit)
        clip, weights, offset = self.sizes(problem, scales)
        theta = yield from self._descend(problem, theta, clip, weights, offset)
        return (yield from with_mean_offset(problem, theta, self.offset_multiplier, scales.scale))

    def sizes(self, problem: Problem, scales: LocationScale) -> tuple[float, float, float]:
        """(clip of a row's gradient, step size of weights, step size of the constant's coefficient)."""
        rows, slope = problem.rows, self.clip * scales.scale
        most = self.longest_step * self.iterations * scales.scale
        length = min(self.path_length * scales.scale * rows.norm / scales.row_scale, most)
        weights = length / (self.iterations * slope * rows.norm**2)
        offset = min(self.offset_path_length * scales.scale, most) / (self.iterations * slope * rows.intercept**2)
        return slope * rows.radius, weights, offset

    def _descend(
        self, problem: Problem, theta: NDArray[np.float64], clip: float, weights: float, offset: float
    ) -> Steps:
        """Noisy gradients from ``theta``; the last half of the iterates is averaged."""
        sizes = np.full(theta.shape, weights)
        sizes[-1] = offset
        mean, kept = np.zeros_like(theta), 0
        for t in range(self.iterations):
            query = GradientSum(problem.rows, problem.loss, theta, clip)
            total = yield Noisy(query, Gaussian(self.noise_multiplier))
            theta = theta - sizes * total / problem.n
            if 2 * (t + 1) > self.iterations:
                kept += 1
                mean += (theta - mean) / kept
        return mean


def check(problem: Problem) -> None:
    """Refuses all but least squares with an intercept, without constraint or ridge, on rows of bounded length."""
    if not isinstance(problem.loss, Squared):
        raise InvalidInput(
            f"wide descent is for squared loss, not {type(problem.loss).__name__}; use solver='descent'."
        )
    require_unconstrained(problem, "wide descent", "descent")
    require_no_ridge(problem, "wide descent", "descent")
    if not problem.rows.intercept:
        raise InvalidInput("wide descent centres the targets, which takes an intercept; use solver='descent' without.")
    require_bounded_rows(problem, "wide descent")
