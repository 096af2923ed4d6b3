"""What a run must keep: (ε, δ) for a unit."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from discreet.errors import InvalidInput
from discreet.floats import as_number
from discreet.units import Unit

__all__ = ["PURE_REFUSED", "ROUNDING", "Guarantee", "rough_multiplier"]

ROUNDING = 1e-9
"""The one margin for rounding, of ε: noise is calibrated to (1 − ROUNDING)·ε, and a charge states (1 − ROUNDING/2)·ε.

A plan is accounted more than once: when its noise is calibrated, when the vault charges what it rehearsed, and when a
ledger adds it to earlier charges. Those sums run over the same events in another order, or with noise that was scaled
in another order, and differ by some 1e-13 of ε. The margin is so much larger that none of them finds more than ε,
and so small that it costs nothing: a billionth of the noise.
"""

PURE_REFUSED = (
    "delta = 0 asks for pure DP, which Gaussian noise cannot give; use objective_perturbation or output_perturbation "
    "(losses of bounded slope and curvature), sparse_descent (rows with few entries), frank_wolfe (over an ℓ1 ball or "
    "another polytope), exponential_mechanism (candidates, or a grid in few dimensions) or heavy_tailed (sparse least "
    "squares), or a delta above 0."
)


@dataclass(frozen=True)
class Guarantee:
    """What a run must keep: (``epsilon``, ``delta``) for ``unit``. ε = ∞ is the baseline without privacy."""

    epsilon: float
    delta: float
    unit: Unit

    def __post_init__(self) -> None:
        if as_number(self.epsilon) is None or as_number(self.delta) is None:
            raise InvalidInput(
                f"epsilon and delta must be numbers, got {self.epsilon!r} and {self.delta!r}; nothing was released."
            )
        if not self.epsilon > 0:
            raise InvalidInput(f"epsilon must be positive, got {self.epsilon!r}; nothing was released.")
        if not 0 <= self.delta < 1:
            raise InvalidInput(f"delta must be in [0, 1), got {self.delta!r}; nothing was released.")

    @property
    def private(self) -> bool:
        """Whether ε is finite: without privacy there is nothing to keep."""
        return math.isfinite(self.epsilon)

    def tightened(self) -> Guarantee:
        """What noise is calibrated to, so that no later sum of the plan exceeds ε by rounding: see `ROUNDING`."""
        return replace(self, epsilon=self.epsilon * (1 - ROUNDING))

    @property
    def stated(self) -> tuple[float, float]:
        """The (ε, δ) that a charge for this guarantee states: within ε, so that sums of several keep their total."""
        return self.epsilon * (1 - ROUNDING / 2), self.delta


def rough_multiplier(guarantee: Guarantee) -> float:
    """The approximate noise multiplier of one Gaussian release (δ = 0: one Laplace release), in closed form.

    Example:
        >>> round(rough_multiplier(Guarantee(1.0, 1e-6, Unit("add-remove"))), 2)
        5.35
    """
    if not guarantee.delta:
        return guarantee.unit.sensitivity(1 / guarantee.epsilon)
    tail = math.sqrt(-2 * math.log(guarantee.delta))
    return guarantee.unit.sensitivity((tail + math.sqrt(tail * tail + 2 * guarantee.epsilon)) / (2 * guarantee.epsilon))
