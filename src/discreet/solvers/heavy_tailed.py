"""Sparse regression with heavy tails: shrink, split, peel (Hu–Ni–Xiao–Wang 2022).

Entries are shrunk to |x_ij| ≤ K and targets to |y| ≤ K, so that heavy tails cost a bias of order M/K² (M bounds fourth
moments) instead of privacy. The rows are split into T disjoint parts of about m = n/T; step t peels
v = θ − (η/m)·Σ_{part t} gradient, whose neighbours differ in every entry by at most 2(η/m)·K·slope. θ is s-sparse and
at most C long, hence |⟨x, θ⟩| ≤ K‖θ‖₁ ≤ K√s·C and slope ≤ K(√s·C + 1). Here ‖θ‖₁ of the current, released θ bounds it,
which is never larger, and the query enforces it in integers. Fresh rows at each step keep θ independent of the rows
that move it. Parts compose in parallel: T steps cost as much as one.

Each part's size is private under add-remove; sums are divided by the public m.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.losses import Squared
from discreet.measurements import Noisy
from discreet.measurements.base import Measurement
from discreet.measurements.sample_splitting import SampleSplitting
from discreet.mechanisms.peeling import LaplacePeeling, Peeling
from discreet.queries.sums.entrywise_gradient import EntrywiseGradientSum
from discreet.solvers.base import Problem, Steps
from discreet.solvers.hard_threshold import sparse_domain

__all__ = ["HeavyTailed"]


@dataclass(frozen=True)
class HeavyTailed:
    """θ ← peel_s(θ − (η/m)·gradient of one part of the rows), a part a step.

    Args:
        peeling: the mechanism of each step; it carries s and the noise.
        parts: T, the number of steps and of disjoint parts.
        entry_bound: K, to which entries and targets are shrunk; inf only without noise.
        step: η.
        radius: ℓ2 bound C on θ.
    """

    peeling: Peeling | LaplacePeeling
    parts: int
    entry_bound: float
    step: float
    radius: float

    def __post_init__(self) -> None:
        if not 0 < self.step < math.inf:
            raise InvalidInput(f"step must be positive and finite, got {self.step!r}.")

    def steps(self, problem: Problem) -> Steps:
        """One measurement: all steps, each on its own part of the rows."""
        if not isinstance(problem.loss, Squared):
            raise InvalidInput(f"heavy-tailed regression has squared loss, not {type(problem.loss).__name__}.")
        theta = yield SampleSplitting(lambda: self._over_parts(problem), self.parts)
        return np.asarray(theta, dtype=np.float64)

    def _over_parts(self, problem: Problem) -> Generator[Measurement, Any, NDArray[np.float64]]:
        domain = sparse_domain(problem, self.peeling.s, self.radius)
        rate = self.step / (problem.n / self.parts)
        bound = self.entry_bound
        theta = problem.start
        for _ in range(self.parts):
            slope = bound * (float(np.abs(theta).sum()) + 1)
            start = -(1 - self.step * problem.ridge) / rate * theta
            query = EntrywiseGradientSum(problem.rows, problem.loss, theta, bound, slope, bound, start)
            peeled = yield Noisy(query, self.peeling)
            theta = domain.project(-rate * peeled)
        return theta
