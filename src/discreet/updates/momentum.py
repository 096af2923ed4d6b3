"""Gradient descent with momentum: the heavy ball, and Nesterov's variant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from discreet.updates.base import Array, Update
from discreet.updates.schedules import Schedule, check_decay, check_step, step_at

__all__ = ["Momentum", "MomentumState"]


class MomentumState(NamedTuple):
    """Steps taken, and the running direction."""

    t: int
    velocity: Array


@dataclass(frozen=True)
class Momentum(Update):
    """Heavy ball: v ← decay·v + g, θ ← θ − η_t v (Polyak 1964); with ``nesterov`` θ ← θ − η_t(g + decay·v)."""

    step: float | Schedule
    decay: float = 0.9
    nesterov: bool = False

    def __post_init__(self) -> None:
        check_step(self.step)
        check_decay("decay", self.decay)

    def init(self, d: int) -> MomentumState:
        """A velocity of zero, before the first step."""
        return MomentumState(0, np.zeros(d))

    def __call__(
        self, theta: Array, gradient: Array, state: MomentumState, *, noise_std: float = 0.0
    ) -> tuple[Array, MomentumState]:
        """One heavy-ball or Nesterov step."""
        velocity = self.decay * state.velocity + gradient
        direction = gradient + self.decay * velocity if self.nesterov else velocity
        return theta - step_at(self.step, state.t) * direction, MomentumState(state.t + 1, velocity)
