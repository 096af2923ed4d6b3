"""What a run must keep: (ε, δ) for a unit."""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.errors import InvalidInput
from discreet.units import Unit

__all__ = ["PURE_REFUSED", "Guarantee", "rough_multiplier"]

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
