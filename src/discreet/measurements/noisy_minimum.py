"""One release: the minimiser of a regularised objective plus noise (output perturbation).

Claim. J_D(θ) = Σℓ + (λ/2)‖θ‖² is λ-strongly convex and one row's gradient is at most L long, so one row more or less
moves the minimiser, over all θ or over a convex set, by at most L/λ, one replaced by at most 2L/λ
(Chaudhuri–Monteleoni–Sarwate 2011, Corollary 8, whose proof is by first-order conditions alone). The
point released is within tolerance/λ of it and rounded to a grid; with C = L/λ + 2·tolerance/λ + grid·√d the
sensitivity is at most C under add-remove, 2C under replace-one. Noise of scale noise_multiplier·C on the grid: the
Gaussian mechanism, or for noise of density ∝ exp(−‖·‖₂/scale) pure ε-DP with ε = 1 or 2 over the multiplier.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet import events
from discreet.data.base import Dataset
from discreet.measurements.minimum_noise import (
    Noise,
    add_output_noise,
    check_hypotheses,
    check_noise,
    check_tolerance,
    output_grid,
)
from discreet.measurements.questions import Question
from discreet.noise.bits import Bits
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.units import Unit

__all__ = ["NoisyMinimum"]


@dataclass(frozen=True, eq=False)
class NoisyMinimum:
    """The minimiser of a regularised objective, plus noise.

    Args:
        query: the objective.
        noise_multiplier: noise scale over the bound C on what one row moves; 0 means no noise.
        tolerance: public bound on ‖∇J‖ at the point found.
        noise: ``"gaussian"``, or ``"gamma"`` for pure ε.
    """

    query: RidgeMinimiser
    noise_multiplier: float
    tolerance: float
    noise: Noise = "gaussian"

    def __post_init__(self) -> None:
        check_noise(self.noise_multiplier, self.noise)
        if not self.noise_multiplier:
            return
        check_hypotheses(self.query, "output perturbation", "the minimiser moves by up to L/λ")
        check_tolerance(self.query, 0.0, self.tolerance)

    def event(self, unit: Unit) -> events.Event:
        """``Gaussian(noise_multiplier)``, or ``PureDP``; the relation turns C into a sensitivity."""
        if not self.noise_multiplier:
            return events.NonPrivate()
        if self.noise == "gaussian":
            return events.Gaussian(self.noise_multiplier)
        return events.PureDP(Unit(unit.relation).sensitivity(1.0) / self.noise_multiplier)

    def sample(self, data: Dataset, unit: Unit, bits: Bits) -> NDArray[np.float64]:
        """Minimise, certify, add noise on the output grid."""
        if not self.noise_multiplier:
            return self.query.unrounded(data)
        ridge = self.query.regularisation
        theta = self.query.minimise(data, self.blank(), self.tolerance)
        moved = self.query.gradient_bound / ridge
        return add_output_noise(theta, self.tolerance / ridge, moved, 1 / self.noise_multiplier, self.noise, bits)

    @property
    def question(self) -> Question:
        """The minimiser: one row moves it by at most L/λ, the tolerance and the grid."""
        d, ridge = math.prod(self.query.rows.shape), self.query.regularisation
        if not self.noise_multiplier:
            return Question(type(self.query).__name__, "l2", 0.0)
        error = self.tolerance / ridge
        grid = output_grid(d, error)
        moved = self.query.gradient_bound / ridge + 2 * error + grid * math.sqrt(d)
        return Question(type(self.query).__name__, "l2", moved, self.noise_multiplier * moved, grid)

    def blank(self) -> NDArray[np.float64]:
        """θ = 0."""
        return np.zeros(self.query.rows.shape)
