"""One scale: location and scale of the targets and of one projection of the rows, for thousands of columns.

The noise that T gradients of n rows leave in a row's score does not grow with the number of columns. Let ν be the noise
multiplier of one release with the whole budget, C = c·r the clip on rows of length r, and K = ηTc the *path length* of
the scores (what they change by if all rows' gradients point one way). Then scores differ from row to row by noise of
K·(ν/n)·r·R, R being the standard deviation of rows around their mean in one random direction, whatever d is. The best
path length thus depends on two numbers that are not public, R and the scale s of the targets: K = κ·s·n/(ν·r·R) keeps
that noise at a share κ of s, and a longer path would add more noise than it learns. `Single` releases private estimates
of location and scale, by searches that ask only for signs (`discreet.solvers.parts.location_scale`); gradients start at
the location found and are clipped at a fraction of s. A clip below the scale makes least squares a median regression,
whose noise is in proportion to s too.

If noise is so strong that these estimates would take most of the budget, weights cannot be learnt, but the location of
the targets can: `Location` releases it, and the model is that constant.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from discreet.errors import InvalidInput
from discreet.losses import Squared
from discreet.measurements import Measurement
from discreet.solvers.base import Problem
from discreet.solvers.parts.location_scale import location_and_scale, target_location
from discreet.solvers.parts.private_scales.base import Array, Coordinates
from discreet.solvers.parts.requirements import require_bounded_rows, require_no_ridge, require_unconstrained

__all__ = ["Location", "OneScale", "Single"]


def _check_positive(settings: Any, *names: str) -> None:
    for name in names:
        if not getattr(settings, name) > 0:
            raise InvalidInput(f"{name} must be positive, got {getattr(settings, name)!r}.")


def check(problem: Problem) -> None:
    """Refuses all but least squares with an intercept, without constraint or ridge, on rows of bounded length."""
    method = "descent in the scale of the targets"
    if not isinstance(problem.loss, Squared):
        raise InvalidInput(
            f"{method} is for squared loss, not {type(problem.loss).__name__}; use scales='full' or 'diagonal'."
        )
    require_unconstrained(problem, method, "descent")
    require_no_ridge(problem, method, "descent")
    if not problem.rows.intercept:
        raise InvalidInput(f"{method} centres the targets, which takes an intercept; use solver='descent' without.")
    require_bounded_rows(problem, method)


@dataclass(frozen=True)
class Single:
    """Location and scale of targets and rows: `LocationScaleNumbers.steps` Gaussian releases of `SignSums`.

    Args:
        scale_multiplier: noise over the bound of `SignSums` in each release; 0 releases nothing, and steps are the
            longest that are stable whatever the rows.
        step: step size of the weights at R equal to the row norm, for rows of length 1: in proportion to 1/R.
        longest_step: upper bound on that step size, whatever R.
        offset_step: step size of the offset, for a constant of 1.
        target_bound: public bound on |y|; targets beyond it are allowed.
    """

    scale_multiplier: float
    step: float = math.inf
    longest_step: float = math.inf
    offset_step: float = math.inf
    target_bound: float = 1.0
    kind: str = field(default="single", init=False)

    def __post_init__(self) -> None:
        _check_positive(self, "step", "longest_step", "offset_step", "target_bound")

    def check(self, problem: Problem) -> None:
        """Refuses all but least squares with an intercept, without constraint or ridge, on rows of bounded length."""
        check(problem)

    def released(self, problem: Problem, iterations: int) -> Generator[Measurement, Any, OneScale]:
        """Coordinates that start at the location of the targets, with one step size for the weights."""
        self.check(problem)
        rows = problem.rows
        if not self.scale_multiplier:
            size = 1 / rows.radius**2
            return OneScale(problem, problem.start, size, size)
        found = yield from location_and_scale(problem, self.scale_multiplier, self.target_bound)
        start = problem.start
        start[-1] = found.location / (rows.constant * rows.unit)
        weights = min(self.step * rows.norm / found.row_scale, self.longest_step) / rows.norm**2
        return OneScale(problem, start, weights, self.offset_step / rows.intercept**2, found.scale)


@dataclass(frozen=True)
class Location:
    """The location of the targets: `LocationScaleNumbers.steps` Gaussian releases of residual sums.

    Args:
        location_multiplier: noise over the clip in each release.
        clip: where residuals are cut, over the bound on targets.
        path_length: the sum of all steps if every residual has one sign, over the bound on targets.
        target_bound: public bound on |y|; targets beyond it are allowed.
    """

    location_multiplier: float
    clip: float
    path_length: float
    target_bound: float = 1.0
    kind: str = field(default="location", init=False)

    def __post_init__(self) -> None:
        _check_positive(self, "clip", "path_length", "target_bound")

    def check(self, problem: Problem) -> None:
        """Refuses all but least squares with an intercept, without constraint or ridge, on rows of bounded length."""
        check(problem)

    def released(self, problem: Problem, iterations: int) -> Generator[Measurement, Any, OneScale]:
        """Coordinates that start at the constant model; there is no scale for steps from it."""
        self.check(problem)
        settings = self.location_multiplier, self.clip, self.path_length, self.target_bound
        start = yield from target_location(problem, *settings)
        return OneScale(problem, start, 0.0, 0.0, self.target_bound)


@dataclass(frozen=True, eq=False)
class OneScale(Coordinates):
    """The user's own columns, with one step size for the weights and one for the offset.

    Args:
        problem: public facts.
        location: the constant model at the location of the targets.
        weights: step size of the weights.
        offset: step size of the constant's coefficient.
        target_scale: s, in which clips are measured.
    """

    problem: Problem
    location: Array
    weights: float
    offset: float
    target_scale: float = 1.0

    @property
    def start(self) -> Array:
        """The constant model at the location of the targets."""
        return self.location.copy()

    def direction(self, gradient: Array, theta: Array) -> Array:
        """The gradient times the two step sizes."""
        sizes = np.full(gradient.shape, self.weights)
        sizes[-1] = self.offset
        return sizes * gradient

    @property
    def leverage(self) -> float:
        """What the longest row moves its own score by."""
        rows = self.problem.rows
        return self.weights * rows.norm**2 + self.offset * rows.intercept**2
