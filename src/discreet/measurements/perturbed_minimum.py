"""One release: the minimiser of a randomly tilted objective (objective perturbation).

Claim. Let b be continuous noise and θ̂(b) the exact minimiser of Σℓ + (λ/2)‖θ‖² + ⟨b, θ⟩, over all θ or over a convex
set. Releasing θ̂(b) costs `events.ObjectivePerturbation` for Gaussian b, and ε = mL/scale + log det for b of density ∝
exp(−‖b‖/scale). What is released instead is made of exact samples on two grids:

- b is rounded to a grid, at most ½·grid·√d away, so a point with certified ‖∇J‖ ≤ tolerance for the rounded b has
  ‖∇J‖ ≤ τ = tolerance + ½·grid·√d for b itself, and lies within τ/λ of θ̂(b), J being λ-strongly convex;
- that point is rounded to an output grid and gets noise there. Given θ̂(b), whatever b was, the two neighbours' points
  lie within Δ = 2τ/λ + grid·√d of each other: an additive mechanism of sensitivity Δ (or a mixture of such), composed
  with the release of θ̂(b). The event's ``deviation`` is Δ over the output noise.

Over a set the certificate is not ‖∇J‖ ≤ tolerance but a distance of at most tolerance/λ from θ̂; a move of b by r moves
θ̂ by at most r/λ there, too.

A ridge about a public point c, (λ/2)‖θ − c‖², is one about 0 and the tilt −λc: b is moved by a public vector, which
both neighbours have in common, so every bound holds for it as it is.

The minimiser is always certified (`discreet.queries.minimiser.ridge_minimiser`), so no step depends on luck.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet import events
from discreet.data.base import Dataset
from discreet.errors import InvalidInput
from discreet.floats import ROUNDED_UP
from discreet.measurements.minimum_noise import (
    Noise,
    add_output_noise,
    check_hypotheses,
    check_noise,
    check_tolerance,
    draw_noise,
)
from discreet.measurements.questions import Question
from discreet.noise.bits import Bits
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.units import Unit

__all__ = ["PerturbedMinimum", "longest_tilt"]

_TILT_BITS = 36
_MOST_STEPS = 2.0**60  # so that the sum with the noise stays inside int64


@dataclass(frozen=True, eq=False)
class PerturbedMinimum:
    """The minimiser of a tilted objective.

    Args:
        query: the objective.
        noise_multiplier: scale of the tilt over the bound on a row's gradient; 0 means no noise, for runs without
            privacy.
        deviation: the largest distance between neighbours' certified points, over the output noise.
        tolerance: public bound on ‖∇J‖ at the point found; over a set, λ times its distance from the minimiser.
        noise: ``"gaussian"``, or ``"gamma"`` (density ∝ exp(−‖b‖/scale)) for pure ε.
        centre: the public point c about which the ridge is taken; by default 0.

    Raises:
        HypothesisViolated: no regularisation, without which nothing bounds the minimiser's move.
    """

    query: RidgeMinimiser
    noise_multiplier: float
    deviation: float
    tolerance: float
    noise: Noise = "gaussian"
    centre: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        check_noise(self.noise_multiplier, self.noise)
        if self.centre is not None and not (
            self.centre.shape == self.query.rows.shape and np.isfinite(self.centre).all()
        ):
            raise InvalidInput(f"the ridge's centre must have {math.prod(self.query.rows.shape)} finite entries.")
        if not self.noise_multiplier:
            return
        check_hypotheses(self.query, "objective perturbation", "it bounds the minimiser's move")
        if not 0 < self.deviation < math.inf:
            raise InvalidInput(f"deviation must be positive and finite, got {self.deviation!r}.")
        tilt_length = self._scale * longest_tilt(math.prod(self.query.rows.shape)) + self._centre_tilt
        check_tolerance(self.query, tilt_length, self.tolerance)

    @property
    def _centre_tilt(self) -> float:
        """‖λc‖."""
        return 0.0 if self.centre is None else self.query.regularisation * float(np.linalg.norm(self.centre))

    @property
    def _scale(self) -> float:
        """The tilt's scale, rounded up: never less noise than the event says."""
        return self.noise_multiplier * self.query.gradient_bound * ROUNDED_UP

    @property
    def _grid(self) -> float:
        """The step of the grid on which the tilt is drawn."""
        return float(2.0 ** (math.frexp(self._scale)[1] - _TILT_BITS))

    @property
    def question(self) -> Question:
        """The minimiser, with noise in the gradient, of which one row's part is bounded."""
        bound = self.query.gradient_bound
        if not self.noise_multiplier:
            return Question(type(self.query).__name__, "l2", 0.0)
        return Question(type(self.query).__name__, "l2", bound, self._scale, self._grid)

    def event(self, unit: Unit) -> events.Event:
        """`ObjectivePerturbation`, or for Gamma noise the sum of the parts' ε."""
        if not self.noise_multiplier:
            return events.NonPrivate()
        query = self.query
        if self.noise == "gaussian":
            return events.ObjectivePerturbation(
                self.noise_multiplier, query.log_det, query.directions, query.link, self.deviation
            )
        row = 1 / self.noise_multiplier
        removed = row if unit.relation == "replace-one" else 0.0
        return events.PureDP((removed + _pure(row, query) + self.deviation) * ROUNDED_UP)

    def sample(self, data: Dataset, unit: Unit, bits: Bits) -> NDArray[np.float64]:
        """Tilt, minimise, certify, add noise on the output grid."""
        if not self.noise_multiplier:
            return self.query.unrounded(data)
        scale, grid = self._scale, self._grid
        d = math.prod(self.query.rows.shape)
        steps = draw_noise(self.noise, scale / grid, d, bits) - self._centre_steps(grid)
        tilt = grid * steps.astype(np.float64).reshape(self.query.rows.shape)
        theta = self.query.minimise(data, tilt, self.tolerance)
        # a centre may make the tilt too long for 53 bits, which then rounds it by at most 2^-53 of its length
        rounded = self.tolerance / 4 if self.centre is not None else 0.0
        error = (self.tolerance + rounded + 0.5 * grid * math.sqrt(d)) / self.query.regularisation * ROUNDED_UP
        return add_output_noise(theta, error, 0.0, self.deviation, self.noise, bits)

    def _centre_steps(self, grid: float) -> NDArray[np.int64]:
        """λc in whole steps of the tilt's grid: a public vector, whatever rounding did to it."""
        if self.centre is None:
            return np.zeros(1, np.int64)
        steps = np.rint(self.query.regularisation * self.centre.ravel() / grid)
        return np.clip(steps, -_MOST_STEPS, _MOST_STEPS).astype(np.int64)

    def blank(self) -> NDArray[np.float64]:
        """θ = 0."""
        return np.zeros(self.query.rows.shape)


def longest_tilt(d: int) -> float:
    """No sampled tilt is longer than this many scales: the samplers refuse coordinates far below it."""
    return (2.0**12 + 64 * d) * math.sqrt(d)


def _pure(row: float, query: RidgeMinimiser) -> float:
    """The most that one added row moves the log-density: max over |slope| = s·L of s·row + log det.

    Under the link log det = log(1 + link·s(1 − s)) the maximum is at s = 1, free of log det, if row ≥ link; otherwise
    where row·(1 + link·s(1 − s)) = link·(2s − 1), the larger root of link·row·s² + (2·link − link·row)·s − link − row.
    """
    link = query.link
    if not link or query.directions > 1:
        return row + query.log_det
    if row >= link:
        return row
    a, b, c = link * row, 2 * link - link * row, -(link + row)
    s = min(1.0, (-b + math.sqrt(b * b - 4 * a * c)) / (2 * a))
    return s * row + math.log1p(link * s * (1 - s))
