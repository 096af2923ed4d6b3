"""Boosting: from an expected guarantee to one of high probability, by private selection among runs.

A solver that is good in expectation is good with constant probability (Markov). The best of K independent runs is bad
only if all are; with K geometric of mean m, P(all K runs are bad) = p/(p + m(1 − p)) for a run that is bad with
probability p. Each run is scored by its noisy empirical risk, and `BestOf` shows the best alone.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.measurements import BestOf, Measurement, Noisy
from discreet.mechanisms import Gaussian
from discreet.queries.sums.candidate_scores import OneScore
from discreet.solvers.base import Filtered, Problem, Solver, Steps
from discreet.units import Unit

__all__ = ["Boosted"]

_FARTHEST = 1e150
"""Entries of a run that diverged are clipped to ± this, so that their squares are finite.

No exception may tell of a run that is not shown."""


@dataclass(frozen=True)
class Boosted:
    """The best of K runs of ``solver``, K geometric.

    Args:
        solver: a solver with a plan: no filter, the same events in every run.
        runs: E[K].
        score_noise: noise of a run's risk over half of ``loss_bound``; 0 without privacy.
        loss_bound: losses of one row are clipped to [0, ``loss_bound``] in scores.
    """

    solver: Solver
    runs: float
    score_noise: float
    loss_bound: float

    def __post_init__(self) -> None:
        if isinstance(self.solver, Filtered) and self.solver.filter(Unit("add-remove")) is not None:
            raise InvalidInput("a run under a filter has no plan of its own; boost a solver with a fixed plan.")

    def steps(self, problem: Problem) -> Steps:
        """One release: the best of all runs."""
        theta = yield BestOf(lambda run: self._scored(problem), self.runs)
        return np.asarray(theta).reshape(problem.rows.shape)

    def _scored(self, problem: Problem) -> Generator[Measurement, Any, tuple[NDArray[np.float64], float]]:
        theta = yield from self.solver.steps(problem)
        theta = np.clip(np.nan_to_num(theta), -_FARTHEST, _FARTHEST)
        query = OneScore(problem.rows, problem.loss, theta[None], self.loss_bound)
        score = yield Noisy(query, Gaussian(self.score_noise))
        # the ridge is public given θ, so it counts in the score without noise
        return theta, float(score[0]) - problem.n * problem.ridge * float(theta @ theta) / 2
