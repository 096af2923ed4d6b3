"""From a guarantee to a solver: the least noise whose rehearsed plan keeps the guarantee. Uses no data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from discreet.errors import InvalidInput
from discreet.events import Event, compose, from_dict
from discreet.solvers.base import Problem, Solver
from discreet.solvers.rehearsal import rehearse
from discreet.units import Unit

__all__ = ["Guarantee", "calibrated"]


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


S = TypeVar("S", bound=Solver)


def calibrated(make: Callable[[float], S], problem: Problem, guarantee: Guarantee) -> S:
    """make(noise_multiplier) with the least noise that keeps the guarantee; without noise for ε = ∞."""
    if not guarantee.private:
        return make(0.0)
    if guarantee.delta == 0:
        raise InvalidInput("delta = 0 asks for pure DP, which Gaussian noise cannot give; choose a pure-ε solver.")
    from discreet.accounting import calibrate

    def rehearsed(noise_multiplier: float) -> Event:
        return compose(rehearse(make(noise_multiplier), problem, guarantee.unit))

    def least_noise(event: Callable[[float], Event]) -> float:
        return calibrate(event, guarantee.epsilon, guarantee.delta, guarantee.unit)

    # One rehearsal usually shows where the noise stands in the plan. If the plan of the solver that this leads to is
    # another one, each candidate is rehearsed.
    plan = rehearsed(_MARKER).to_dict()

    def filled(noise_multiplier: float) -> Event:
        return from_dict(_with_noise(plan, noise_multiplier))

    noise = least_noise(filled)
    return make(noise if rehearsed(noise) == filled(noise) else least_noise(rehearsed))


_MARKER = 1.2345678901234567


def _with_noise(plan: Any, noise_multiplier: float) -> Any:
    """The plan, every number `_MARKER` in it replaced."""
    if isinstance(plan, dict):
        return {name: _with_noise(value, noise_multiplier) for name, value in plan.items()}
    if isinstance(plan, list):
        return [_with_noise(value, noise_multiplier) for value in plan]
    return noise_multiplier if plan == _MARKER else plan
