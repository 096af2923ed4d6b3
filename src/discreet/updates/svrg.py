"""Stochastic variance-reduced gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from discreet.errors import InvalidInput
from discreet.updates.base import Array, Update
from discreet.updates.schedules import Schedule, check_step, step_at

__all__ = ["Svrg", "SvrgState"]


class SvrgState(NamedTuple):
    """Steps since the anchor was set, the anchor, and the full gradient there."""

    age: int
    t: int
    anchor: Array
    anchor_gradient: Array


@dataclass(frozen=True)
class Svrg(Update):
    """Variance reduction: θ ← θ − η_t(g_B(θ) − g_B(anchor) + g(anchor)) (Johnson–Zhang 2013).

    A call without ``at_anchor`` takes ``gradient`` for the full gradient at θ: θ becomes the anchor, and one plain step
    follows. A call with it takes both gradients of one batch. A solver asks `due` which one comes next and evaluates
    the second at ``state.anchor``. It may instead release the *difference* of the two as one query (a row's
    contribution then is at most smoothness × ‖θ − anchor‖) and pass it with ``at_anchor`` = zeros.

    Raises:
        InvalidInput: a period under 1; a first call with ``at_anchor``, before there is an anchor.
    """

    step: float | Schedule
    period: int

    def __post_init__(self) -> None:
        check_step(self.step)
        if self.period < 1:
            raise InvalidInput(f"period must be at least 1, got {self.period}.")

    def init(self, d: int) -> SvrgState:
        """The state before the first step, in which there is no anchor yet."""
        return SvrgState(self.period, 0, np.zeros(d), np.zeros(d))

    def due(self, state: SvrgState) -> bool:
        """Whether the next gradient should be a full one, at a new anchor."""
        return state.age >= self.period

    def __call__(
        self,
        theta: Array,
        gradient: Array,
        state: SvrgState,
        *,
        noise_std: float = 0.0,
        at_anchor: Array | None = None,
    ) -> tuple[Array, SvrgState]:
        """One step, which also sets the anchor when ``at_anchor`` is not given."""
        if at_anchor is None:
            state = SvrgState(0, state.t, theta.copy(), gradient.copy())
            direction = gradient
        elif state.t == 0:
            raise InvalidInput("the first call of Svrg must give the full gradient alone: there is no anchor yet.")
        else:
            direction = gradient - at_anchor + state.anchor_gradient
        moved = theta - step_at(self.step, state.t) * direction
        return moved, state._replace(age=state.age + 1, t=state.t + 1)
