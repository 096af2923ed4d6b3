"""From a guarantee to a solver: the least noise whose rehearsed plan keeps the guarantee. Uses no data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from discreet.calibration.guarantee import PURE_REFUSED, Guarantee
from discreet.calibration.rehearse import foresee
from discreet.errors import InvalidInput
from discreet.events import Event, compose, from_dict
from discreet.solvers.base import Problem, Solver

__all__ = ["calibrated", "scaled_event"]

S = TypeVar("S", bound=Solver)


def calibrated(make: Callable[[float], S], problem: Problem, guarantee: Guarantee) -> S:
    """make(noise) with the least noise that keeps the guarantee; without noise for ε = ∞.

    All noise of ``make(noise)`` must be in proportion to ``noise``: then one rehearsal, at noise 1, tells the events of
    every other noise. The vault accounts for what it rehearses itself, and refuses a plan that was not in proportion.

    Raises:
        InvalidInput: δ = 0 asks for pure DP, which Gaussian noise cannot give.
    """
    if not guarantee.private:
        return make(0.0)
    if guarantee.delta == 0:
        raise InvalidInput(PURE_REFUSED)
    from discreet.accounting import calibrate

    once = compose(foresee(make(1.0), problem, guarantee.unit))
    return make(calibrate(lambda noise: scaled_event(once, noise), guarantee.epsilon, guarantee.delta, guarantee.unit))


def scaled_event(event: Event, factor: float) -> Event:
    """The event with every noise multiplier in it multiplied; the ε of a selection is over the scale of its noise."""

    def scaled(tree: Any) -> Any:
        if isinstance(tree, dict) and tree.get("kind") == "Selection":
            return tree | {"epsilon": tree["epsilon"] / factor}
        if isinstance(tree, dict):
            return {k: v * factor if k == "noise_multiplier" else scaled(v) for k, v in tree.items()}
        return [scaled(item) for item in tree] if isinstance(tree, list) else tree

    return from_dict(scaled(event.to_dict()))
