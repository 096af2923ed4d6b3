"""Adafactor, whose second moment of a matrix is stored by rows and columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from discreet.errors import InvalidInput
from discreet.updates.base import Array, Update
from discreet.updates.schedules import Schedule, check_noise, check_positive, check_step, step_at

__all__ = ["Adafactor", "AdafactorState"]


class AdafactorState(NamedTuple):
    """Steps taken, and the second moment by rows and columns of a matrix, or (``rows`` alone) of a vector."""

    t: int
    rows: Array
    columns: Array | None
    noise: float


@dataclass(frozen=True)
class Adafactor(Update):
    """Adam without momentum whose second moment for a matrix is the outer product of row and column means.

    ``shape`` = (rows, columns) says how the d parameters form a matrix (for a softmax: classes × features); a vector
    keeps one moment a coordinate. The running mean forgets as 1 − t^−0.8, updates are clipped to a root mean square
    of ``clip``, and without a given ``step`` the step is min(0.01, 1/√t)·max(0.001, RMS(θ)). The privacy noise's
    variance is taken out of the moments as in `Adam` (Shazeer–Stern 2018).

    Raises:
        InvalidInput: a shape of another size than d, a step or clip that is not positive.
    """

    step: float | Schedule | None = None
    shape: tuple[int, int] | None = None
    clip: float = 1.0
    eps: float = 1e-30

    def __post_init__(self) -> None:
        if self.step is not None:
            check_step(self.step)
        check_positive("clip", self.clip)
        check_positive("eps", self.eps)

    def init(self, d: int) -> AdafactorState:
        """Moments of zero, before the first step."""
        if self.shape is None:
            return AdafactorState(0, np.zeros(d), None, 0.0)
        if self.shape[0] * self.shape[1] != d:
            raise InvalidInput(f"a {self.shape[0]} × {self.shape[1]} matrix does not have {d} parameters.")
        return AdafactorState(0, np.zeros(self.shape[0]), np.zeros(self.shape[1]), 0.0)

    def __call__(
        self, theta: Array, gradient: Array, state: AdafactorState, *, noise_std: float = 0.0
    ) -> tuple[Array, AdafactorState]:
        """θ after one step, and the new moments."""
        check_noise(noise_std)
        t = state.t + 1
        keep = 1 - t**-0.8
        squares = gradient * gradient + self.eps
        noise = keep * state.noise + (1 - keep) * noise_std**2
        if self.shape is None:
            rows, columns = keep * state.rows + (1 - keep) * squares, None
        else:
            matrix = squares.reshape(self.shape)
            rows = keep * state.rows + (1 - keep) * matrix.mean(axis=1)
            columns = keep * np.asarray(state.columns) + (1 - keep) * matrix.mean(axis=0)
        state = AdafactorState(t, rows, columns, noise)
        direction = gradient / np.sqrt(self.second_moment(state))
        direction = direction / max(1.0, _rms(direction) / self.clip)
        if self.step is None:
            size = min(1e-2, 1 / math.sqrt(t)) * max(1e-3, _rms(theta))
        else:
            size = step_at(self.step, t - 1)
        return theta - size * direction, state

    def second_moment(self, state: AdafactorState) -> Array:
        """The second moment of each coordinate without its noise, no less than one standard deviation of it (or eps).

        Running means that keep 1 − t^−0.8 have squared weights that add up to about t^−0.8/2, as in `Adam`.
        """
        fresh = state.t**-0.8
        floor = max(self.eps, state.noise * math.sqrt(2 * fresh / (2 - fresh)))
        rows = np.maximum(state.rows - state.noise, floor)
        if state.columns is None:
            return rows
        columns = np.maximum(state.columns - state.noise, floor)
        return np.outer(rows / rows.mean(), columns).ravel()


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values * values)))
