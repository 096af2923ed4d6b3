"""Gradient descent."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.updates.base import Array, Update
from discreet.updates.schedules import Schedule, check_step, step_at

__all__ = ["Sgd"]


@dataclass(frozen=True)
class Sgd(Update):
    """Gradient descent, θ ← θ − η_t g.

    Example:
        >>> import numpy as np
        >>> update = Sgd(step=0.5)
        >>> update(np.array([1.0]), np.array([2.0]), update.init(1))
        (array([0.]), 1)
    """

    step: float | Schedule

    def __post_init__(self) -> None:
        check_step(self.step)

    def init(self, d: int) -> int:
        """The number of steps taken."""
        return 0

    def __call__(self, theta: Array, gradient: Array, state: int, *, noise_std: float = 0.0) -> tuple[Array, int]:
        """θ − η_t g, and the number of steps taken."""
        return theta - step_at(self.step, state) * gradient, state + 1
