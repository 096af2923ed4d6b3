"""Noisy projected gradient descent, full batch or sampled: DP-SGD and all its optimizers.

Releases: one Gaussian gradient sum a step, each row's gradient clipped to ``clip`` (Bassily–Smith–Thakurta 2014; Abadi
et al. 2016). Everything else — the update, the projection, the choice of iterate — is post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.geometry.base import Projectable
from discreet.measurements import Noisy, Sampling
from discreet.mechanisms import Gaussian
from discreet.queries.sums.gradient import GradientSum
from discreet.solvers.base import Problem, Steps
from discreet.updates import Svrg, Update

__all__ = ["Descent"]


@dataclass(frozen=True)
class Descent:
    """θ ← Π(update(θ, noisy mean gradient)), ``iterations`` times.

    Args:
        noise_multiplier: noise over ``clip``; 0 is plain gradient descent.
        iterations: number of steps.
        clip: ℓ2 bound on a row's gradient.
        update: rule from `discreet.updates`.
        sampling: batches; None takes all rows each step.
        iterate: ``"last"``, the ``"average"``, or the average of the last half (``"suffix"``).
    """

    noise_multiplier: float
    iterations: int
    clip: float
    update: Update
    sampling: Sampling | None = None
    iterate: Literal["last", "average", "suffix"] = "average"

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise InvalidInput(f"iterations must be at least 1, got {self.iterations}.")
        if self.iterate not in ("last", "average", "suffix"):
            raise InvalidInput(f"iterate must be 'last', 'average' or 'suffix', got {self.iterate!r}.")

    def steps(self, problem: Problem) -> Steps:
        """One noisy gradient a step; SVRG takes its anchor's gradient from all rows."""
        project = problem.domain.project if isinstance(problem.domain, Projectable) else None
        if project is None:
            raise InvalidInput(f"{type(problem.domain).__name__} has no projection; descent needs one.")
        theta = problem.start.ravel()
        state = self.update.init(theta.size)
        mean, kept = np.zeros_like(theta), 0
        for t in range(self.iterations):
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

    def _query(self, problem: Problem, theta: NDArray[np.float64], anchor: NDArray[np.float64] | None) -> GradientSum:
        shape = problem.rows.shape
        at_anchor = None if anchor is None else anchor.reshape(shape)
        return GradientSum(problem.rows, problem.loss, theta.reshape(shape), self.clip, at_anchor)
