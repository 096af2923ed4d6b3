"""Boosting: from an expected guarantee to one of high probability, by private selection among runs.

A solver that is good in expectation is good with constant probability (Markov). The best of K independent runs is bad
only if all are; with K geometric of mean m, P(all K runs are bad) = p/(p + m(1 − p)) for a run that is bad with
probability p. Each run is scored by its noisy empirical risk, and `BestOf` shows the best alone.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee
from discreet.errors import InvalidInput
from discreet.measurements import BestOf, Measurement, Noisy
from discreet.mechanisms import Gaussian
from discreet.planning.options import checked_options
from discreet.queries.sums.candidate_scores import OneScore
from discreet.recipes import recipe
from discreet.recipes.sparse_mean import gaussian_noise
from discreet.solvers.base import Filtered, Problem, Solver, Steps
from discreet.solvers.bias_reduced import BiasReduced
from discreet.units import Unit

__all__ = ["BASES", "Boosted", "default"]

BASES = ("bias_reduced", "descent", "preconditioned", "reweighted", "sparse_descent")
"""Solvers that can be boosted: plans of Gaussian releases, whose Rényi divergence selection is accounted by."""

_FARTHEST = 1e150
"""A run that diverged is scored from here, where squares are finite: no exception may tell of a run not shown."""


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
        """One release, of everything together."""
        theta = yield BestOf(lambda run: self._scored(problem), self.runs)
        return np.asarray(theta).reshape(problem.rows.shape)

    def _scored(self, problem: Problem) -> Generator[Measurement, Any, tuple[NDArray[np.float64], float]]:
        theta = yield from self.solver.steps(problem)
        theta = np.clip(np.nan_to_num(theta), -_FARTHEST, _FARTHEST)
        query = OneScore(problem.rows, problem.loss, theta[None], self.loss_bound)
        score = yield Noisy(query, Gaussian(self.score_noise))
        # the ridge is public given θ, so it counts in the score without noise
        return theta, float(score[0]) - problem.n * problem.ridge * float(theta @ theta) / 2


def default(
    problem: Problem,
    guarantee: Guarantee,
    *,
    solver: str = "sparse_descent",
    options: dict[str, Any] | None = None,
    runs: float = 3.0,
    score_share: float = 0.1,
    loss_bound: float = 3.0,
) -> Boosted:
    """The best of K runs of a named solver; noise is raised until the *selection* keeps the guarantee.

    The solver is set up for the guarantee by its own recipe; then all its noise, and that of the scores, is multiplied
    by one factor, the least for which the event ``PrivateSelection`` of one scored run is (ε, δ)-DP.

    Args:
        problem: public facts; one output.
        guarantee: what the whole must keep.
        solver: one of `BASES`.
        options: settings of that solver.
        runs: E[K].
        score_share: the score's noise is that of a release with this share of the budget, before the factor.
        loss_bound: losses are clipped to [0, ``loss_bound``] in scores; 3 is the logistic loss of a score of −3.

    Raises:
        InvalidInput: a solver that cannot be boosted, several outputs, pure DP.
    """
    if solver not in BASES:
        raise InvalidInput(f"solver must be one of {', '.join(BASES)} to be boosted, got {solver!r}.")
    if problem.rows.outputs != 1:
        raise InvalidInput("boosting scores models with one score a row; use the solver itself for many classes.")
    if not 0 < score_share < 1:
        raise InvalidInput(f"score_share must be in (0, 1), got {score_share!r}.")
    base = recipe(solver)(problem, guarantee, **checked_options(solver, options))
    if isinstance(base, BiasReduced):
        base = base.planned(problem, guarantee.unit)
    score = gaussian_noise(guarantee) / math.sqrt(score_share)
    scales = [f.name for f in fields(base) if f.name.endswith("multiplier")]

    def make(factor: float) -> Boosted:
        louder = {name: factor * getattr(base, name) for name in scales}
        return Boosted(replace(base, **louder), runs, factor * score, loss_bound)

    return calibrated(make, problem, guarantee)
