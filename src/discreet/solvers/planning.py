"""From a guarantee to a solver: the least noise whose rehearsed plan keeps the guarantee. Uses no data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from discreet.errors import InvalidInput
from discreet.events import Event, compose, from_dict
from discreet.solvers.base import Problem, Solver
from discreet.solvers.rehearsal import foresee
from discreet.units import Unit

__all__ = ["PURE_REFUSED", "Guarantee", "calibrated", "rough_multiplier"]

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


S = TypeVar("S", bound=Solver)


def calibrated(make: Callable[[float], S], problem: Problem, guarantee: Guarantee) -> S:
    """make(noise_multiplier) with the least noise that keeps the guarantee; without noise for ε = ∞."""
    if not guarantee.private:
        return make(0.0)
    if guarantee.delta == 0:
        raise InvalidInput(PURE_REFUSED)
    from discreet.accounting import calibrate, epsilon

    def rehearsed(noise_multiplier: float) -> Event:
        return compose(foresee(make(noise_multiplier), problem, guarantee.unit))

    def least_noise(event: Callable[[float], Event]) -> float:
        return calibrate(event, guarantee.epsilon, guarantee.delta, guarantee.unit)

    once = rehearsed(1.0)
    if _scaled(once, 2.0) == rehearsed(2.0):
        # all noise is in proportion, so two rehearsals tell every plan; the one taken is still checked itself
        solver = make(least_noise(lambda noise: _scaled(once, noise)))
        plan = compose(foresee(solver, problem, guarantee.unit))
        if epsilon(plan, guarantee.delta, guarantee.unit).upper <= guarantee.epsilon:
            return solver
    return make(least_noise(rehearsed))


def _scaled(event: Event, factor: float) -> Event:
    """The event with every noise multiplier in it multiplied."""

    def scaled(tree: Any) -> Any:
        if isinstance(tree, dict):
            return {k: v * factor if k == "noise_multiplier" else scaled(v) for k, v in tree.items()}
        return [scaled(item) for item in tree] if isinstance(tree, list) else tree

    return from_dict(scaled(event.to_dict()))
