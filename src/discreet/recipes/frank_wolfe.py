"""Settings of `discreet.solvers.frank_wolfe` from public facts."""

from __future__ import annotations

import math
from typing import Literal

from discreet.calibration import Guarantee
from discreet.losses import Squared
from discreet.solvers import Problem
from discreet.solvers.frank_wolfe import FrankWolfe, default

__all__ = ["recipe"]


def recipe(
    problem: Problem,
    guarantee: Guarantee,
    *,
    iterations: int | None = None,
    clip: float | None = None,
    feature_bound: float | None = None,
    target_bound: float | None = None,
    selection: Literal["exponential", "permute-and-flip"] = "exponential",
) -> FrankWolfe:
    """See `default`; with a declared bound on entries, least squares clips at an eighth of the largest gradient."""
    if guarantee.private and math.isfinite(problem.entry_bound) and isinstance(problem.loss, Squared):
        clip = 0.125 * problem.entry_bound if clip is None else clip
        if iterations is None:
            feature_bound = problem.entry_bound if feature_bound is None else feature_bound
            target_bound = 1.0 if target_bound is None else target_bound
    return default(
        problem,
        guarantee,
        iterations=iterations,
        clip=clip,
        feature_bound=feature_bound,
        target_bound=target_bound,
        selection=selection,
    )
