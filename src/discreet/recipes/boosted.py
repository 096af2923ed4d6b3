"""Settings of boosting (`discreet.solvers.boosted`): the best of several runs, noisy enough for their selection."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from discreet import recipes
from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee
from discreet.calibration.one_release import gaussian_multiplier
from discreet.errors import InvalidInput
from discreet.recipes import shared
from discreet.recipes.bias_reduced import planned
from discreet.solvers.base import Problem
from discreet.solvers.bias_reduced import BiasReduced
from discreet.solvers.boosted import Boosted
from discreet.tuned import Tuned, current, tuned

__all__ = ["BASES", "DEFAULT_BASE", "NUMBERS", "BoostedNumbers", "recipe"]

BASES = ("bias_reduced", "descent", "scaled_descent", "sparse_descent")
"""Solvers that can be boosted: plans of Gaussian releases, whose Rényi divergence selection is accounted by."""

DEFAULT_BASE = "sparse_descent"
"""The solver that is boosted if none is named."""


@dataclass(frozen=True)
class BoostedNumbers(Tuned):
    """How many runs are compared, and by which scores."""

    runs: float = tuned(3.0, "E[K], the mean number of runs", "judgement: more runs need more noise in each")
    loss_bound: float = tuned(
        3.0, "losses are clipped to [0, this] in scores", "judgement: 3 is the logistic loss of a score of −3"
    )


NUMBERS = BoostedNumbers()


def recipe(
    problem: Problem,
    guarantee: Guarantee,
    *,
    solver: str = DEFAULT_BASE,
    options: dict[str, Any] | None = None,
    runs: float | None = None,
    score_share: float | None = None,
    loss_bound: float | None = None,
) -> Boosted:
    """The best of K runs of a named solver; noise is raised until the *selection* keeps the guarantee.

    The solver is set up for the guarantee by its own recipe; then all its noise, and that of the scores, is multiplied
    by one factor, the least for which the event ``PrivateSelection`` of one scored run is (ε, δ)-DP.

    Args:
        problem: public facts; one output.
        guarantee: what the whole must keep.
        solver: one of `BASES`.
        options: settings of that solver.
        runs: E[K]; by default 3.
        score_share: the score's noise is that of a release with this share of the budget, before the factor; by default
            a tenth.
        loss_bound: losses are clipped to [0, ``loss_bound``] in scores; by default 3, the logistic loss of a score of
            −3.

    Raises:
        InvalidInput: a solver that cannot be boosted, several outputs, pure DP.
    """
    numbers = current(NUMBERS)
    runs = numbers.runs if runs is None else runs
    score_share = current(shared.NUMBERS).large_share if score_share is None else score_share
    bound = numbers.loss_bound if loss_bound is None else loss_bound
    if solver not in BASES:
        raise InvalidInput(f"solver must be one of {', '.join(BASES)} to be boosted, got {solver!r}.")
    if problem.rows.outputs != 1:
        raise InvalidInput("boosting scores models with one score a row; use the solver itself for many classes.")
    if not 0 < score_share < 1:
        raise InvalidInput(f"score_share must be in (0, 1), got {score_share!r}.")
    base = recipes.recipe(solver)(problem, guarantee, **(options or {}))
    if isinstance(base, BiasReduced):
        base = planned(base, problem, guarantee.unit)
    score = gaussian_multiplier(guarantee) / math.sqrt(score_share)

    def make(factor: float) -> Boosted:
        return Boosted(_louder(base, factor), runs, factor * score, bound)

    return calibrated(make, problem, guarantee)


def _louder(settings: Any, factor: float) -> Any:
    """A solver, or a part of one, with all its noise multipliers times ``factor``."""
    changed = {}
    for name, value in ((f.name, getattr(settings, f.name)) for f in fields(settings)):
        if name.endswith("multiplier"):
            changed[name] = factor * value
        elif is_dataclass(value):
            changed[name] = _louder(value, factor)
    return replace(settings, **changed)
