"""Noisy projected gradient descent, full batch or sampled: DP-SGD and all its optimizers.

Releases: one Gaussian gradient sum a step, each row's gradient clipped to ``clip`` (Bassily–Smith–Thakurta 2014; Abadi
et al. 2016). Everything else — the update, the projection, the choice of iterate — is post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.geometry.base import Projectable
from discreet.measurements import LastIterate, Noisy, Sampling
from discreet.measurements.last_iterate import Precision
from discreet.mechanisms import Gaussian
from discreet.queries.sums.gradient import GradientSum
from discreet.solvers.base import Problem, Steps
from discreet.solvers.parts.public_draws import public_uniform
from discreet.updates import Sgd, Svrg, Update

__all__ = ["Descent", "Iterate"]

Iterate = Literal["last", "average", "suffix", "random"]


@dataclass(frozen=True)
class Descent:
    """θ ← Π(update(θ, noisy mean gradient)), ``iterations`` times.

    Args:
        noise_multiplier: noise over ``clip``; 0 is plain gradient descent.
        iterations: number of steps.
        clip: ℓ2 bound on a row's gradient.
        update: rule from `discreet.updates`.
        sampling: batches; None takes all rows each step.
        iterate: ``"last"``, the ``"average"``, the average of the last half (``"suffix"``), or for losses that are not
            convex a uniformly ``"random"`` one of the points from which the last half of the steps start, which is
            nearly stationary in expectation (`theory.random_iterate_stationarity`).
        seed: public seed of the random iterate.
        precision: keeps every iterate but the last from everyone, in a run of this precision that is accounted as one
            release (`discreet.measurements.LastIterate`); None releases every step.
    """

    noise_multiplier: float
    iterations: int
    clip: float
    update: Update
    sampling: Sampling | None = None
    iterate: Iterate = "average"
    seed: int = 0
    precision: Precision | None = None

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise InvalidInput(f"iterations must be at least 1, got {self.iterations}.")
        if self.iterate not in get_args(Iterate):
            raise InvalidInput(f"iterate must be 'last', 'average', 'suffix' or 'random', got {self.iterate!r}.")
        plain = self.iterate == "last" and self.sampling is None and self._plain_step is not None
        if self.precision is not None and not plain:
            raise InvalidInput("a hidden run shows its last iterate, takes all rows, and plain steps of one size.")

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
        return LastIterate(*facts, *settings, problem.ridge, problem.domain, precision)

    def _shown(self, problem: Problem) -> Steps:
        project = problem.domain.project if isinstance(problem.domain, Projectable) else None
        if project is None:
            raise InvalidInput(f"{type(problem.domain).__name__} has no projection; descent needs one.")
        theta = problem.start.ravel()
        state = self.update.init(theta.size)
        mean, kept, chosen = np.zeros_like(theta), 0, self._random_iterate()
        for t in range(self.iterations):
            if t == chosen:
                mean = theta
            # SVRG: the anchor's gradient is of all rows; between anchors a batch releases the change since the anchor
            svrg = self.update if isinstance(self.update, Svrg) else None
            anchor = state.anchor if svrg and not svrg.due(state) else None
            sampling = None if svrg and anchor is None else self.sampling
            rows = sampling.expected_rows(problem.n) if sampling else problem.n
            total = yield Noisy(self._query(problem, theta, anchor), Gaussian(self.noise_multiplier), sampling)
            noise_std = self.noise_multiplier * self.clip / rows if self.noise_multiplier else 0.0
            gradient = total.ravel() / rows + problem.ridge * theta
            if svrg and anchor is not None:
                theta, state = svrg(theta, gradient, state, noise_std=noise_std, at_anchor=problem.ridge * anchor)
            else:
                theta, state = self.update(theta, gradient, state, noise_std=noise_std)
            theta = np.asarray(project(theta))
            if self.iterate == "average" or (self.iterate == "suffix" and 2 * (t + 1) > self.iterations):
                kept += 1
                mean += (theta - mean) / kept
        if self.iterate == "last":
            return theta.reshape(problem.rows.shape)
        if not problem.domain.convex:  # an average of sparse points is not sparse
            mean = np.asarray(project(mean))
        return mean.reshape(problem.rows.shape)

    def _random_iterate(self) -> int | None:
        """The step from whose start the random iterate is taken, drawn publicly before the run; None for others."""
        if self.iterate != "random":
            return None
        late = self.iterations - self.iterations // 2
        return self.iterations - late + int(public_uniform(self.seed, "iterate", self.iterations) * late)

    def _query(self, problem: Problem, theta: NDArray[np.float64], anchor: NDArray[np.float64] | None) -> GradientSum:
        shape = problem.rows.shape
        at_anchor = None if anchor is None else anchor.reshape(shape)
        return GradientSum(problem.rows, problem.loss, theta.reshape(shape), self.clip, at_anchor)
