"""The scale of the residuals: Huber and quantile regression in units that are estimated privately.

A residual is small or large beside the spread of the others, not beside the public bounds of the targets, which may be
twenty times as wide. So the width of the loss, where slopes are cut and how long a step is are in units of the spread:

1. location and scale of the targets (`discreet.solvers.parts.location_scale`): the descent begins at the constant model
   there, and the first third of its steps takes the targets' scale for that of the residuals;
2. XᵀX, as in `Full`: steps are through its damped inverse, over the curvature κ of the loss. Huber's loss has κ = 1 at
   most residuals; the mean curvature of a smoothed pinball loss is the density of the targets at the quantile;
3. after a third of the steps one histogram of the residuals' sizes (`discreet.solvers.parts.residual_scale`), from
   which the other steps have their unit;
4. for a quantile, in the end, the share of targets below the model, and the intercept moved to the level.

All is released by Gaussians whose noise does not depend on any answer.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from discreet.errors import InvalidInput
from discreet.losses import Huber, Loss, Quantile
from discreet.measurements import Measurement, Noisy
from discreet.mechanisms import Gaussian
from discreet.queries.base import Query
from discreet.queries.sums.gradient import GradientSum
from discreet.queries.sums.moments import SecondMoment
from discreet.solvers.base import Problem
from discreet.solvers.parts.location_scale import location_and_scale
from discreet.solvers.parts.private_scales.base import Array, Coordinates
from discreet.solvers.parts.private_scales.full import damped_inverse
from discreet.solvers.parts.requirements import require_no_ridge, require_unconstrained
from discreet.solvers.parts.residual_scale import NUMBERS, Spread, released_spread, with_coverage
from discreet.tuned import current

__all__ = ["InResiduals", "Residual"]

_LEAST_SCALE = 1e-3  # of the targets over their half-range: sixteen steps of a search go no further


@dataclass(frozen=True)
class Residual:
    """Location and scale of the targets, XᵀX, a histogram of residuals, and a quantile's coverage.

    Args:
        scale_multiplier: noise over the bound of `SignSums` in each of `LocationScaleNumbers.steps` releases.
        moment_multiplier: noise over r² in XᵀX, r the length of a row.
        spread_multiplier: noise in each count of the histogram of residuals.
        coverage_multiplier: noise in the number of targets above a quantile less those below it, in each of
            `ResidualScaleNumbers.coverage_steps` releases; not used for Huber.
        damping: λ as a multiple of the norm of the noise in X̂ᵀX, as in `Full`.
    """

    scale_multiplier: float
    moment_multiplier: float
    spread_multiplier: float
    coverage_multiplier: float = 0.0
    damping: float = 1.0
    kind: str = field(default="residual", init=False)

    def __post_init__(self) -> None:
        if not 0 < self.damping < math.inf:
            raise InvalidInput(f"damping must be positive and finite, got {self.damping!r}.")

    def check(self, problem: Problem) -> None:
        """Refuses losses without a width in residuals, constraints, ridges, and models without an intercept."""
        method = "descent in the scale of the residuals"
        if not isinstance(problem.residual_loss, Huber | Quantile):
            raise InvalidInput(
                f"{method} is for Huber and quantile regression with declared target_bounds, whose width or smoothing "
                "is left out; use scales='full' or another solver."
            )
        require_unconstrained(problem, method, "descent")
        require_no_ridge(problem, method, "objective_perturbation")
        if not problem.rows.intercept:
            raise InvalidInput(f"{method} starts at the location of the targets, which takes an intercept.")

    def released(self, problem: Problem, iterations: int) -> Generator[Measurement, Any, InResiduals]:
        """Coordinates that start at the median of the targets, in units of their scale."""
        self.check(problem)
        found = yield from location_and_scale(problem, self.scale_multiplier, 1.0, _LEAST_SCALE)
        query = SecondMoment(problem.rows)
        packed = yield Noisy(query, Gaussian(self.moment_multiplier))
        start = problem.start
        start[-1] = found.location / (problem.rows.constant * problem.rows.unit)
        loss, first = _first_loss(problem.residual_loss, found.scale)
        moment = query.matrix(packed) / problem.n
        return InResiduals(problem, self, start, moment, iterations, loss, first, found.scale)

    def added(self, problem: Problem) -> float:
        """λ in units of XᵀX/n, from public facts: damping·‖noise‖/n."""
        if not self.moment_multiplier:
            return 0.0
        return self.damping * SecondMoment(problem.rows).noise_norm(self.moment_multiplier) / problem.n


def _first_loss(loss: Loss | None, scale: float) -> tuple[Loss, float]:
    """The first steps' loss, for all quantiles that of the median, and its curvature, in scales of the targets."""
    width = current(NUMBERS).first_width
    if isinstance(loss, Quantile):
        return Quantile(1 / 2, width * scale), 1 / (width * scale)
    assert isinstance(loss, Huber)
    return Huber(loss.width * scale), 1.0


def _second_loss(loss: Loss | None, spread: Spread) -> tuple[Loss, float]:
    """The loss of the other steps and its curvature, in units of the residuals.

    A smoothed pinball loss has curvature 1/h at most, and less at most residuals: steps for half of that are stable.
    """
    if isinstance(loss, Quantile):
        return Quantile(loss.level, loss.width * spread.unit), 1 / (2 * loss.width * spread.unit)
    assert isinstance(loss, Huber)
    return Huber(loss.width * spread.unit), 1.0


@dataclass(frozen=True, eq=False)
class InResiduals(Coordinates):
    """The user's own columns, steps through the damped inverse of X̂ᵀX, and a loss in units that were released.

    Args:
        problem: public facts.
        model: the settings.
        location: the constant model at the location of the targets.
        moment: X̂ᵀX/n.
        iterations: T, the number of steps that are taken.
        loss: in coded targets.
        curvature: κ of the loss.
        unit: of the residuals; before their spread was released, the scale of the targets.
    """

    problem: Problem
    model: Residual
    location: Array
    moment: Array
    iterations: int
    loss: Loss
    curvature: float
    unit: float

    @property
    def start(self) -> Array:
        """The constant model at the location of the targets."""
        return self.location.copy()

    def query(self, theta: Array, clip: float) -> Query:
        """The sum of rows' gradients at θ, each clipped to ``clip`` times the largest slope of the loss."""
        steepest = self.loss.width if isinstance(self.loss, Huber) else _steepest(self.loss)
        return GradientSum(self.problem.rows, self.loss, theta, clip * steepest)

    def direction(self, gradient: Array, theta: Array) -> Array:
        """(X̂ᵀX/n + λ)⁻¹g/κ."""
        return np.asarray(self._inverse @ gradient / self.curvature)

    def refined(self, step: int, theta: Array) -> Generator[Measurement, Any, tuple[InResiduals, Array]]:
        """After the first third of the steps: the same in the unit of the residuals at θ; one release.

        A model of the median becomes one of the quantile by their offset.
        """
        if step != int(self.iterations * current(NUMBERS).first_part):
            return self, theta
        found = yield from released_spread(self.problem, theta, self.unit, self.model.spread_multiplier)
        loss, curvature = _second_loss(self.problem.residual_loss, found)
        moved = theta.copy()
        moved[-1] += found.offset / (self.problem.rows.constant * self.problem.rows.unit)
        return replace(self, loss=loss, curvature=curvature, unit=found.unit), moved

    def finished(self, theta: Array) -> Generator[Measurement, Any, Array]:
        """A quantile with its intercept moved to its level of coverage; Huber's model as it is."""
        if not isinstance(self.loss, Quantile):
            return theta
        return (
            yield from with_coverage(self.problem, theta, self.loss.level, self.unit, self.model.coverage_multiplier)
        )

    @property
    def leverage(self) -> float:
        """tr(X̂ᵀX/n·inverse)/κ."""
        return float((self.moment * self._inverse).sum()) / self.curvature

    @cached_property
    def _inverse(self) -> Array:
        return damped_inverse(self.moment, 0.0, self.model.added(self.problem))


def _steepest(loss: Loss) -> float:
    assert isinstance(loss, Quantile)
    return max(loss.level, 1 - loss.level)
