"""Noisy projected gradient descent, full batch or sampled: DP-SGD and all its optimizers.

Releases: one Gaussian gradient sum a step, each row's gradient clipped to ``clip`` (Bassily–Smith–Thakurta 2014; Abadi
et al. 2016), from all rows, from fresh batches, or from the batches of an epoch in which every row is in exactly one
(`discreet.measurements.RandomAllocation`). Everything else — the update, the projection, the choice of iterate — is
post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.geometry.base import Projectable
from discreet.measurements import LastIterate, Measurement, Noisy, RandomAllocation, Sampling
from discreet.measurements.hidden_batches import AllRows, Batches
from discreet.measurements.last_iterate import Precision
from discreet.mechanisms import Gaussian
from discreet.queries.sums.gradient import GradientSum
from discreet.solvers.base import Problem, Steps
from discreet.solvers.parts.public_draws import public_uniform
from discreet.updates import Sgd, Svrg, Update

__all__ = ["Descent", "Iterate"]

Iterate = Literal["last", "average", "suffix", "random"]
_LEAST_CLIP = 1e-6  # of the clip: a grid needs a step even where θ has not moved


class _Path(NamedTuple):
    """Where a run is: θ, the update's state, and the mean of the iterates that are kept."""

    theta: NDArray[np.float64]
    state: Any
    mean: NDArray[np.float64]
    kept: int


@dataclass(frozen=True)
class Descent:
    """θ ← Π(update(θ, noisy mean gradient)), ``iterations`` times.

    Args:
        noise_multiplier: noise over ``clip``; 0 is plain gradient descent.
        iterations: number of steps.
        clip: ℓ2 bound on a row's gradient.
        update: rule from `discreet.updates`.
        sampling: a fresh batch each step; None takes all rows.
        iterate: ``"last"``, the ``"average"``, the average of the last half (``"suffix"``), or for losses that are not
            convex a uniformly ``"random"`` one of the points from which the last half of the steps start, which is
            nearly stationary in expectation (`theory.random_iterate_stationarity`).
        batches: in place of ``sampling``, the number of batches of an epoch, of which every row draws one.
        seed: public seed of the random iterate.
        precision: keeps every iterate but the last from everyone, in a run of this precision that is accounted as one
            release (`discreet.measurements.LastIterate`); None releases every step.
        hidden_batches: which rows each step of such a run takes; all rows by default.
        differences: of SVRG: the noise multiplier of the differences over ``noise_multiplier``, which anchors have, and
            the curvature of a row: differences are clipped to it times ‖θ − anchor‖, if that is less than ``clip``.
    """

    noise_multiplier: float
    iterations: int
    clip: float
    update: Update
    sampling: Sampling | None = None
    iterate: Iterate = "average"
    batches: int | None = None
    seed: int = 0
    precision: Precision | None = None
    hidden_batches: Batches = field(default_factory=AllRows)
    differences: tuple[float, float] = (1.0, math.inf)

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise InvalidInput(f"iterations must be at least 1, got {self.iterations}.")
        if self.batches is not None and (self.batches < 1 or self.sampling or isinstance(self.update, Svrg)):
            raise InvalidInput(
                "an epoch has at least one batch, in place of sampling; SVRG, whose anchor is of all rows, has none."
            )
        if self.iterate not in get_args(Iterate):
            raise InvalidInput(f"iterate must be 'last', 'average', 'suffix' or 'random', got {self.iterate!r}.")
        full = self.sampling is None and self.batches is None
        plain = self.iterate == "last" and full and self._plain_step is not None
        if self.precision is not None and not plain:
            raise InvalidInput("a hidden run shows its last iterate, takes plain steps of one size and no sampling.")

    def steps(self, problem: Problem) -> Steps:
        """One noisy gradient a step, or one release of the last iterate.

        SVRG takes its anchor's gradient from all rows.
        """
        if self.precision is not None and self.noise_multiplier:
            theta = yield self._hidden(problem, self.precision)
            return np.asarray(theta).reshape(problem.rows.shape)
        return (yield from self._shown(problem))

    @property
    def _plain_step(self) -> float | None:
        """The step of plain descent, if it is one number."""
        step = self.update.step if isinstance(self.update, Sgd) else None
        return None if callable(step) else step

    def _hidden(self, problem: Problem, precision: Precision) -> LastIterate:
        assert self._plain_step is not None
        facts = (problem.rows, problem.loss, problem.n, problem.start)
        settings = (self.noise_multiplier, self.iterations, self.clip, self._plain_step)
        return LastIterate(*facts, *settings, problem.ridge, problem.domain, precision, self.hidden_batches)

    def _shown(self, problem: Problem) -> Steps:
        project = problem.domain.project if isinstance(problem.domain, Projectable) else None
        if project is None:
            raise InvalidInput(f"{type(problem.domain).__name__} has no projection; descent needs one.")
        theta = problem.start.ravel()
        path = _Path(theta, self.update.init(theta.size), np.zeros_like(theta), 0)
        if self.batches is None:
            path = yield from self._walk(problem, path, range(self.iterations))
        else:
            for first in range(0, self.iterations, self.batches):
                times = range(first, min(first + self.batches, self.iterations))
                path = yield RandomAllocation(partial(self._walk, problem, path, times), self.batches)
        if self.iterate == "last":
            return path.theta.reshape(problem.rows.shape)
        if not problem.domain.convex:  # an average of sparse points is not sparse
            return np.asarray(project(path.mean)).reshape(problem.rows.shape)
        return path.mean.reshape(problem.rows.shape)

    def _walk(self, problem: Problem, path: _Path, times: Iterable[int]) -> Generator[Measurement, Any, _Path]:
        """Steps from a place on, one measurement each; the path after them."""
        assert isinstance(problem.domain, Projectable)
        theta, state, mean, kept = path
        chosen = self._random_iterate()
        for t in times:
            if t == chosen:
                mean = theta
            # SVRG: the anchor's gradient is of all rows; between anchors a batch releases the change since the anchor
            svrg = self.update if isinstance(self.update, Svrg) else None
            anchor = state.anchor if svrg and not svrg.due(state) else None
            sampling = None if svrg and anchor is None else self.sampling
            rows = sampling.expected_rows(problem.n) if sampling else problem.n / (self.batches or 1)
            multiplier = self.noise_multiplier * (1.0 if anchor is None else self.differences[0])
            total = yield Noisy(self._query(problem, theta, anchor), Gaussian(multiplier), sampling)
            noise_std = self.noise_multiplier * self.clip / rows if self.noise_multiplier else 0.0
            gradient = total.ravel() / rows + problem.ridge * theta
            if svrg and anchor is not None:
                theta, state = svrg(theta, gradient, state, noise_std=noise_std, at_anchor=problem.ridge * anchor)
            else:
                theta, state = self.update(theta, gradient, state, noise_std=noise_std)
            theta = np.asarray(problem.domain.project(theta))
            if self.iterate == "average" or (self.iterate == "suffix" and 2 * (t + 1) > self.iterations):
                kept += 1
                mean = mean + (theta - mean) / kept
        return _Path(theta, state, mean, kept)

    def _random_iterate(self) -> int | None:
        """The step from whose start the random iterate is taken, drawn publicly before the run; None for others."""
        if self.iterate != "random":
            return None
        late = self.iterations - self.iterations // 2
        return self.iterations - late + int(public_uniform(self.seed, "iterate", self.iterations) * late)

    def _query(self, problem: Problem, theta: NDArray[np.float64], anchor: NDArray[np.float64] | None) -> GradientSum:
        shape = problem.rows.shape
        if anchor is None or not math.isfinite(self.clip):
            at_anchor = None if anchor is None else anchor.reshape(shape)
            return GradientSum(problem.rows, problem.loss, theta.reshape(shape), self.clip, at_anchor)
        change = self.differences[1] * float(np.linalg.norm(theta - anchor))  # of released points: public
        clip = min(self.clip, max(change, _LEAST_CLIP * self.clip))
        return GradientSum(problem.rows, problem.loss, theta.reshape(shape), clip, anchor.reshape(shape))
