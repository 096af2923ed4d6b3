"""Noisy gradients in coordinates that were estimated privately: one descent, with a model of scales.

    coordinates ← releases of the scale model            (`discreet.solvers.parts.private_scales`)
    θ ← θ − η·direction(noisy mean gradient at θ)        T times, with or without momentum, in these coordinates
    coefficients of the user's columns ← θ               and what is fitted afterwards: nothing, scale and offset by two
                                                         histograms, the temperature of several classes, the mean
                                                         residual, or the coverage of a quantile

Location and scale of rows and targets decide how much of a gradient is noise: what a row may contribute is bounded by
its length, and a step must be short enough for the direction of most curvature. A few per cent of the budget find them,
and the rest goes to gradients in coordinates in which one clip and one step size are right everywhere. All releases are
Gaussian, and their shares of the budget (in 1/σ²) are fixed beforehand: the plan does not depend on any answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from discreet.errors import InvalidInput
from discreet.measurements import Noisy, PoissonSampling
from discreet.mechanisms import Gaussian
from discreet.solvers.base import Problem, Steps
from discreet.solvers.parts.mean_offset import with_mean_offset
from discreet.solvers.parts.private_scales import Coordinates, Location, Scales
from discreet.solvers.parts.recalibration import NUMBERS as RECALIBRATION
from discreet.solvers.parts.recalibration import recalibrated
from discreet.solvers.parts.temperature import tempered
from discreet.tuned import current
from discreet.updates import Momentum, Sgd, Update

__all__ = ["ScaledDescent"]


@dataclass(frozen=True)
class ScaledDescent:
    """Private scales, ``iterations`` noisy gradients in them, and a fit afterwards.

    Args:
        scales: the scale model, with its own noise multipliers.
        noise_multiplier: noise over the clip in each gradient; 0 runs without privacy.
        iterations: number of gradients; 0 is for the location alone.
        clip: ℓ2 bound on a row's gradient in the coordinates, in scales of the targets where those are estimated.
        step: step size in the coordinates; 1 is the whole direction.
        decay: of the momentum; 0 is plain descent.
        iterate: the ``"last"``, the ``"average"``, or the average of the last half (``"suffix"``).
        sampling: batches of the gradients; None takes all rows each step.
        recalibration_multiplier: noise of the fit of scale and offset afterwards, were it one release; with several
            outputs that of the temperature, which is one; 0 leaves it out.
        offset_multiplier: noise over the largest residual in the mean residual, which is added to the intercept; 0
            leaves it out.
    """

    scales: Scales
    noise_multiplier: float
    iterations: int
    clip: float
    step: float = 1.0
    decay: float = 0.0
    iterate: Literal["last", "average", "suffix"] = "suffix"
    sampling: PoissonSampling | None = None
    recalibration_multiplier: float = 0.0
    offset_multiplier: float = 0.0

    def __post_init__(self) -> None:
        least = 0 if isinstance(self.scales, Location) else 1
        if self.iterations < least:
            raise InvalidInput(f"iterations must be at least {least}, got {self.iterations}.")
        if self.iterate not in ("last", "average", "suffix"):
            raise InvalidInput(f"iterate must be 'last', 'average' or 'suffix', got {self.iterate!r}.")
        if self.recalibration_multiplier and self.offset_multiplier:
            raise InvalidInput("recalibration fits the offset too: give one of the two multipliers.")
        Momentum(self.step, self.decay)  # which refuses steps and decays without meaning

    def steps(self, problem: Problem) -> Steps:
        """The releases of the scale model, ``iterations`` gradients, and those of the fit afterwards."""
        scales: Coordinates = yield from self.scales.released(problem, self.iterations)
        theta = mean = scales.start
        update: Update = Momentum(self.step, self.decay) if self.decay else Sgd(self.step)
        state = update.init(theta.size)
        rows = self.sampling.expected_rows(problem.n) if self.sampling else problem.n
        first = {"last": self.iterations - 1, "suffix": self.iterations // 2, "average": 0}[self.iterate]
        for t in range(self.iterations):
            scales, theta = yield from scales.refined(t, theta)
            total = yield Noisy(scales.query(theta, self.clip), Gaussian(self.noise_multiplier), self.sampling)
            direction = scales.direction(total / rows, theta)
            moved, state = update(theta.ravel(), direction.ravel(), state)
            theta = moved.reshape(theta.shape)
            mean = theta if t <= first else mean + (theta - mean) / (t - first + 1)
        found = yield from scales.finished(scales.coefficients(mean))
        leverage = self.path_length * scales.leverage  # what rows' own slopes moved their own scores by
        if self.recalibration_multiplier and problem.rows.outputs > 1:
            cut = self.clip / math.sqrt(scales.leverage)
            return (yield from tempered(problem, found, self.recalibration_multiplier, leverage, cut))
        if self.recalibration_multiplier:
            share = current(RECALIBRATION).place_share
            place, fit = (self.recalibration_multiplier / math.sqrt(part) for part in (share, 1 - share))
            return (yield from recalibrated(problem, found, place, fit, leverage, scales.anchor(found)))
        if self.offset_multiplier:
            return (yield from with_mean_offset(problem, found, self.offset_multiplier, scales.target_scale))
        return found

    @property
    def path_length(self) -> float:
        """The sum of all step sizes; one step with momentum moves θ by 1/(1 − decay) of its size in the end."""
        return self.step * self.iterations / (1 - self.decay)
