"""What a run must keep: (ε, δ) for a unit."""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.errors import InvalidInput
from discreet.units import Unit

__all__ = ["PURE_REFUSED", "Guarantee", "one_gaussian", "rough_multiplier"]

PURE_REFUSED = (
    "delta = 0 asks for pure DP, which Gaussian noise cannot give; use objective_perturbation or output_perturbation "
    "(losses of bounded slope and curvature), frank_wolfe (over an ℓ1 ball or another polytope), exponential_mechanism "
    "(candidates, or a grid in few dimensions) or heavy_tailed (sparse least squares), or a delta above 0."
)


@dataclass(frozen=True)
class Guarantee:
    """What a run must keep: (``epsilon``, ``delta``) for ``unit``. ε = ∞ is the baseline without privacy."""

    epsilon: float
    delta: float
    unit: Unit

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise InvalidInput(f"epsilon must be positive, got {self.epsilon!r}; nothing was released.")
        if not 0 <= self.delta < 1:
            raise InvalidInput(f"delta must be in [0, 1), got {self.delta!r}; nothing was released.")

    @property
    def private(self) -> bool:
        """Whether there is anything to keep."""
        return math.isfinite(self.epsilon)


def one_gaussian(guarantee: Guarantee) -> float:
    """κ, the least noise multiplier with which a single Gaussian release keeps the guarantee.

    Gaussian releases with noise multipliers ν_i are together as private as one with Σ 1/ν_i² = 1/κ², so κ says how much
    noise a plan of several releases has to share (see `discreet.calibration.shares`).

    Raises:
        InvalidInput: δ = 0 asks for pure DP.

    Example:
        >>> round(one_gaussian(Guarantee(1.0, 1e-6, Unit("add-remove"))), 2)
        4.22
    """
    if guarantee.delta == 0:
        raise InvalidInput(PURE_REFUSED)
    from discreet import events
    from discreet.accounting import calibrate

    return calibrate(events.Gaussian, guarantee.epsilon, guarantee.delta, guarantee.unit)


def rough_multiplier(guarantee: Guarantee) -> float:
    """About the noise multiplier of one Gaussian release (δ = 0: one Laplace release), in closed form.

    Example:
        >>> round(rough_multiplier(Guarantee(1.0, 1e-6, Unit("add-remove"))), 2)
        5.35
    """
    if not guarantee.delta:
        return guarantee.unit.sensitivity(1 / guarantee.epsilon)
    tail = math.sqrt(-2 * math.log(guarantee.delta))
    return guarantee.unit.sensitivity((tail + math.sqrt(tail * tail + 2 * guarantee.epsilon)) / (2 * guarantee.epsilon))
