"""Adam and AdamW, whose second moments are corrected for the privacy noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from discreet.errors import InvalidInput
from discreet.updates.base import Array, Update
from discreet.updates.schedules import Schedule, check_decay, check_noise, check_positive, check_step, step_at

__all__ = ["Adam", "AdamState", "AdamW"]


class AdamState(NamedTuple):
    """Steps taken, running means of the gradient, of its square, and of the noise variance."""

    t: int
    first: Array
    second: Array
    noise: float


@dataclass(frozen=True)
class Adam(Update):
    """Adam whose second moment is corrected for the privacy noise.

    The noisy gradient's square has mean g² + σ², so plain Adam divides by √(g² + σ²) ≈ σ, nearly gradient descent.
    Here σ², averaged with the same weights, is subtracted:

        θ ← θ − η_t·m̂ / (√max(v̂ − σ̂², floor) + eps).

    What is left fluctuates by σ̂²·√(2Σw²) about the truth, with w the averaging weights; below one such standard
    deviation it cannot be distinguished from noise, and that is the floor. Without noise this is Adam (Kingma–Ba 2015;
    Tang, Shpilevskiy and Lécuyer 2024, who set the floor by hand: ``floor`` overrides).

    Raises:
        InvalidInput: a decay outside [0, 1), a step, eps or floor that is not positive.
    """

    step: float | Schedule
    first_decay: float = 0.9
    second_decay: float = 0.999
    eps: float = 1e-8
    floor: float | None = None

    def __post_init__(self) -> None:
        check_step(self.step)
        check_decay("first_decay", self.first_decay)
        check_decay("second_decay", self.second_decay)
        check_positive("eps", self.eps)
        if self.floor is not None:
            check_positive("floor", self.floor)

    def init(self, d: int) -> AdamState:
        """Moments of zero, before the first step."""
        return AdamState(0, np.zeros(d), np.zeros(d), 0.0)

    def __call__(
        self, theta: Array, gradient: Array, state: AdamState, *, noise_std: float = 0.0
    ) -> tuple[Array, AdamState]:
        """θ after one step, and the new moments."""
        direction, state = self.direction(gradient, state, noise_std)
        return theta - step_at(self.step, state.t - 1) * direction, state

    def direction(self, gradient: Array, state: AdamState, noise_std: float) -> tuple[Array, AdamState]:
        """The preconditioned gradient m̂/√v̂ and the new moments."""
        check_noise(noise_std)
        a, b = self.first_decay, self.second_decay
        t = state.t + 1
        state = AdamState(
            t,
            a * state.first + (1 - a) * gradient,
            b * state.second + (1 - b) * gradient * gradient,
            b * state.noise + (1 - b) * noise_std**2,
        )
        mean = state.first / (1 - a**t)
        return mean / (np.sqrt(self.second_moment(state)) + self.eps), state

    def second_moment(self, state: AdamState) -> Array:
        """max(v̂ − σ̂², floor): the second moment of the gradient without its noise."""
        b, t = self.second_decay, state.t
        start = 1 - b**t  # undoes the zero start of both running means
        noise = state.noise / start
        squared_weights = (1 - b) * (1 + b**t) / ((1 + b) * start)
        floor = noise * math.sqrt(2 * squared_weights) if self.floor is None else self.floor
        return np.maximum(state.second / start - noise, floor)


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay: θ also shrinks by η_t·``weight_decay`` (Loshchilov–Hutter 2019)."""

    weight_decay: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.weight_decay >= 0:
            raise InvalidInput(f"weight_decay must be at least 0, got {self.weight_decay}.")

    def __call__(
        self, theta: Array, gradient: Array, state: AdamState, *, noise_std: float = 0.0
    ) -> tuple[Array, AdamState]:
        """θ after one step, and the new moments."""
        direction, state = self.direction(gradient, state, noise_std)
        return theta - step_at(self.step, state.t - 1) * (direction + self.weight_decay * theta), state
