"""Updates: how a noisy gradient moves θ. Pure pairs (init, call), so that every first-order solver is one loop.

An update sees only released gradients, so whatever it does is post-processing. The noise's standard deviation is
public; updates that square gradients use it to take the noise's share out again (Tang, Shpilevskiy and Lécuyer 2024).

    state = update.init(d)
    theta, state = update(theta, gradient, state, noise_std=…)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput

__all__ = [
    "Adafactor",
    "Adam",
    "AdamW",
    "Momentum",
    "Schedule",
    "Sgd",
    "Svrg",
    "Update",
    "constant",
    "cosine",
    "inverse_sqrt",
    "inverse_time",
]

Array: TypeAlias = NDArray[np.float64]
Schedule: TypeAlias = Callable[[int], float]
"""A step size for each step t = 0, 1, 2, …"""


def constant(step: float) -> Schedule:
    """The same step throughout."""
    _check_positive("step", step)
    return lambda t: step


def inverse_sqrt(step: float) -> Schedule:
    """step/√(t + 1): convex Lipschitz losses, when the number of steps is open."""
    _check_positive("step", step)
    return lambda t: step / math.sqrt(t + 1)


def inverse_time(step: float, offset: float = 1.0) -> Schedule:
    """step/(t + offset): for λ-strongly convex losses step = 1/λ, or step = 2/λ and offset 2 for weighted averages."""
    _check_positive("step", step)
    _check_positive("offset", offset)
    return lambda t: step / (t + offset)


def cosine(step: float, total: int, warmup: int = 0) -> Schedule:
    """A linear rise over ``warmup`` steps to ``step``, then half a cosine down to 0 at step ``total``."""
    _check_positive("step", step)
    if not 0 <= warmup < total:
        raise InvalidInput(f"a cosine schedule needs 0 ≤ warmup < total, got warmup={warmup}, total={total}.")

    def schedule(t: int) -> float:
        if t < warmup:
            return step * (t + 1) / warmup
        progress = min(1.0, (t - warmup) / (total - warmup))
        return step * 0.5 * (1 + math.cos(math.pi * progress))

    return schedule


class Update(ABC):
    """A rule that turns (θ, noisy gradient, state) into (θ, state), without changing its arguments."""

    @abstractmethod
    def init(self, d: int) -> Any:
        """The state before the first step in dimension ``d``."""

    @abstractmethod
    def __call__(self, theta: Array, gradient: Array, state: Any, *, noise_std: float = 0.0) -> tuple[Array, Any]:
        """One step.

        Args:
            theta: the current parameters.
            gradient: the released (noisy) gradient of the mean loss at ``theta``.
            state: what the last step (or `init`) returned.
            noise_std: the standard deviation of the noise in each coordinate of ``gradient``.
        """


@dataclass(frozen=True)
class Sgd(Update):
    """θ ← θ − η_t g.

    Example:
        >>> update = Sgd(step=0.5)
        >>> update(np.array([1.0]), np.array([2.0]), update.init(1))
        (array([0.]), 1)
    """

    step: float | Schedule

    def __post_init__(self) -> None:
        _check_step(self.step)

    def init(self, d: int) -> int:
        """The number of steps taken."""
        return 0

    def __call__(self, theta: Array, gradient: Array, state: int, *, noise_std: float = 0.0) -> tuple[Array, int]:
        """θ − η_t g."""
        return theta - _step_at(self.step, state) * gradient, state + 1


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
        _check_step(self.step)
        _check_decay("decay", self.decay)

    def init(self, d: int) -> MomentumState:
        """At rest."""
        return MomentumState(0, np.zeros(d))

    def __call__(
        self, theta: Array, gradient: Array, state: MomentumState, *, noise_std: float = 0.0
    ) -> tuple[Array, MomentumState]:
        """One heavy-ball or Nesterov step."""
        velocity = self.decay * state.velocity + gradient
        direction = gradient + self.decay * velocity if self.nesterov else velocity
        return theta - _step_at(self.step, state.t) * direction, MomentumState(state.t + 1, velocity)


class AdamState(NamedTuple):
    """Steps taken, running means of the gradient, of its square, and of the noise variance."""

    t: int
    first: Array
    second: Array
    noise: float


@dataclass(frozen=True)
class Adam(Update):
    """Adam whose second moment is corrected for the privacy noise.

    The noisy gradient's square has mean g² + σ², so plain Adam divides by √(g² + σ²) ≈ σ and is gradient descent in
    disguise. Here σ², averaged with the same weights, is subtracted:

        θ ← θ − η_t·m̂ / (√max(v̂ − σ̂², floor) + eps).

    What is left fluctuates by σ̂²·√(2Σw²) about the truth, with w the averaging weights; below one such standard
    deviation it cannot be told from noise, and that is the floor. Without noise this is Adam (Kingma–Ba 2015; Tang,
    Shpilevskiy and Lécuyer 2024, who set the floor by hand: ``floor`` overrides).

    Raises:
        InvalidInput: a decay outside [0, 1), a step, eps or floor that is not positive.
    """

    step: float | Schedule
    first_decay: float = 0.9
    second_decay: float = 0.999
    eps: float = 1e-8
    floor: float | None = None

    def __post_init__(self) -> None:
        _check_step(self.step)
        _check_decay("first_decay", self.first_decay)
        _check_decay("second_decay", self.second_decay)
        _check_positive("eps", self.eps)
        if self.floor is not None:
            _check_positive("floor", self.floor)

    def init(self, d: int) -> AdamState:
        """No moments yet."""
        return AdamState(0, np.zeros(d), np.zeros(d), 0.0)

    def __call__(
        self, theta: Array, gradient: Array, state: AdamState, *, noise_std: float = 0.0
    ) -> tuple[Array, AdamState]:
        """One step."""
        direction, state = self.direction(gradient, state, noise_std)
        return theta - _step_at(self.step, state.t - 1) * direction, state

    def direction(self, gradient: Array, state: AdamState, noise_std: float) -> tuple[Array, AdamState]:
        """The preconditioned gradient m̂/√v̂ and the new moments."""
        _check_noise(noise_std)
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
        """One step."""
        direction, state = self.direction(gradient, state, noise_std)
        return theta - _step_at(self.step, state.t - 1) * (direction + self.weight_decay * theta), state


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
            _check_step(self.step)
        _check_positive("clip", self.clip)
        _check_positive("eps", self.eps)

    def init(self, d: int) -> AdafactorState:
        """No moments yet."""
        if self.shape is None:
            return AdafactorState(0, np.zeros(d), None, 0.0)
        if self.shape[0] * self.shape[1] != d:
            raise InvalidInput(f"a {self.shape[0]} × {self.shape[1]} matrix does not have {d} parameters.")
        return AdafactorState(0, np.zeros(self.shape[0]), np.zeros(self.shape[1]), 0.0)

    def __call__(
        self, theta: Array, gradient: Array, state: AdafactorState, *, noise_std: float = 0.0
    ) -> tuple[Array, AdafactorState]:
        """One step."""
        _check_noise(noise_std)
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
            size = _step_at(self.step, t - 1)
        return theta - size * direction, state

    def second_moment(self, state: AdafactorState) -> Array:
        """The second moment of each coordinate without its noise, no less than a hundredth of the noise (or eps)."""
        floor = max(self.eps, 0.01 * state.noise)
        rows = np.maximum(state.rows - state.noise, floor)
        if state.columns is None:
            return rows
        columns = np.maximum(state.columns - state.noise, floor)
        return np.outer(rows / rows.mean(), columns).ravel()


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
        _check_step(self.step)
        if self.period < 1:
            raise InvalidInput(f"period must be at least 1, got {self.period}.")

    def init(self, d: int) -> SvrgState:
        """No anchor yet."""
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
        moved = theta - _step_at(self.step, state.t) * direction
        return moved, state._replace(age=state.age + 1, t=state.t + 1)


def _step_at(step: float | Schedule, t: int) -> float:
    return step(t) if callable(step) else step


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values * values)))


def _check_step(step: float | Schedule) -> None:
    if not callable(step):
        _check_positive("step", step)


def _check_positive(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise InvalidInput(f"{name} must be a positive finite number, got {value}.")


def _check_decay(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise InvalidInput(f"{name} must lie in [0, 1), got {value}.")


def _check_noise(noise_std: float) -> None:
    if not (math.isfinite(noise_std) and noise_std >= 0):
        raise InvalidInput(f"noise_std must be a finite number of at least 0, got {noise_std}.")
