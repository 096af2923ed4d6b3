"""From a guarantee to a solver: the least noise whose rehearsed plan keeps the guarantee. Uses no data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from discreet.calibration.guarantee import PURE_REFUSED, Guarantee
from discreet.calibration.rehearse import foresee
from discreet.errors import InvalidInput
from discreet.events import Event, compose, from_dict
from discreet.solvers.base import Problem, Solver

__all__ = ["calibrated"]

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
