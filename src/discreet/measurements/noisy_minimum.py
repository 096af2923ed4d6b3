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
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.measurements.perturbed_minimum import Noise, settle
from discreet.mechanisms.base import check_multiplier
from discreet.noise.bits import Bits
from discreet.queries.minimiser import RidgeMinimiser
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
        check_multiplier(self.noise_multiplier)
        if self.noise not in ("gaussian", "gamma"):
            raise InvalidInput(f"noise must be 'gaussian' or 'gamma', got {self.noise!r}.")
        if not self.noise_multiplier:
            return
        self.query.require_bounded_curvature()
        if not self.query.regularisation > 0:
            raise HypothesisViolated("output perturbation needs regularisation > 0: the minimiser moves by up to L/λ.")
        if not math.isfinite(self.query.gradient_bound):
            raise HypothesisViolated("output perturbation needs bounded slopes: give a finite slope_bound.")
        least = self.query.least_tolerance(0.0)
        if not least <= self.tolerance < math.inf:
            raise InvalidInput(
                f"tolerance must be at least {least:.3g} for float64 to hold it, got {self.tolerance!r}."
            )

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
        return settle(theta, self.tolerance / ridge, moved, 1 / self.noise_multiplier, self.noise, bits)

    def blank(self) -> NDArray[np.float64]:
        """θ = 0."""
        return np.zeros(self.query.rows.shape)
