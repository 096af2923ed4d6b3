"""Step sizes, constant or by the number of the step, and the checks of the settings that updates share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from discreet.errors import InvalidInput

__all__ = [
    "Schedule",
    "check_decay",
    "check_noise",
    "check_positive",
    "check_step",
    "constant",
    "cosine",
    "inverse_sqrt",
    "inverse_time",
    "step_at",
]

Schedule: TypeAlias = Callable[[int], float]
"""A step size for each step t = 0, 1, 2, …"""


def constant(step: float) -> Schedule:
    """A schedule that takes ``step`` at every step."""
    check_positive("step", step)
    return lambda t: step


def inverse_sqrt(step: float) -> Schedule:
    """step/√(t + 1): convex Lipschitz losses, when the number of steps is open."""
    check_positive("step", step)
    return lambda t: step / math.sqrt(t + 1)


def inverse_time(step: float, offset: float = 1.0) -> Schedule:
    """step/(t + offset): for λ-strongly convex losses step = 1/λ, or step = 2/λ and offset 2 for weighted averages."""
    check_positive("step", step)
    check_positive("offset", offset)
    return lambda t: step / (t + offset)


def cosine(step: float, total: int, warmup: int = 0) -> Schedule:
    """A linear rise over ``warmup`` steps to ``step``, then half a cosine down to 0 at step ``total``."""
    check_positive("step", step)
    if not 0 <= warmup < total:
        raise InvalidInput(f"a cosine schedule needs 0 ≤ warmup < total, got warmup={warmup}, total={total}.")

    def schedule(t: int) -> float:
        if t < warmup:
            return step * (t + 1) / warmup
        progress = min(1.0, (t - warmup) / (total - warmup))
        return step * 0.5 * (1 + math.cos(math.pi * progress))

    return schedule


def step_at(step: float | Schedule, t: int) -> float:
    """The step size of step t."""
    return step(t) if callable(step) else step


def check_step(step: float | Schedule) -> None:
    """Refuse a constant step that is not positive; a schedule is taken as it is."""
    if not callable(step):
        check_positive("step", step)


def check_positive(name: str, value: float) -> None:
    """Refuse what is not a positive finite number."""
    if not (math.isfinite(value) and value > 0):
        raise InvalidInput(f"{name} must be a positive finite number, got {value}.")


def check_decay(name: str, value: float) -> None:
    """Refuse a decay outside [0, 1)."""
    if not 0 <= value < 1:
        raise InvalidInput(f"{name} must lie in [0, 1), got {value}.")


def check_noise(noise_std: float) -> None:
    """Refuse a standard deviation that is negative or not finite."""
    if not (math.isfinite(noise_std) and noise_std >= 0):
        raise InvalidInput(f"noise_std must be a finite number of at least 0, got {noise_std}.")
