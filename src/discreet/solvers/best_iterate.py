"""The best point of a descent's path, chosen privately among few.

Every iterate of a noisy descent is released already, so any of them may be shown; which one is best is not known
without another look at the rows. Releases: those of the descent, then one choice by the exponential mechanism among the
start, the iterates after 1, 2, 4, … steps and what the descent itself returns, by their clipped losses
(`discreet.queries.sums.candidate_scores`). With k candidates, losses in [0, B] and a choice of scale b, the expected
loss of the one chosen exceeds the best by at most b·ln k. So a good public start is never lost to noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.errors import InvalidInput
from discreet.measurements import Noisy
from discreet.mechanisms import Choice
from discreet.queries.sums.candidate_scores import CandidateScores
from discreet.queries.sums.gradient import GradientSum
from discreet.solvers.base import Problem, Steps
from discreet.solvers.descent import Descent

__all__ = ["BestIterate"]


@dataclass(frozen=True)
class BestIterate:
    """One of the points of a descent's path, preferring small loss.

    Args:
        descent: the descent, of which all iterates are accounted as released.
        selection_multiplier: scale of the choice over half of ``loss_bound``; 0 takes the best.
        loss_bound: losses of one row are clipped to [0, ``loss_bound``].
    """

    descent: Descent
    selection_multiplier: float
    loss_bound: float

    def steps(self, problem: Problem) -> Steps:
        """The releases of the descent, then one choice."""
        if problem.ridge or problem.rows.outputs != 1:
            raise InvalidInput("the best iterate is chosen by one loss a row: leave out the ridge and several classes.")
        path, kept = self.descent.steps(problem), []
        answer, t = None, 0
        while True:
            try:
                measurement = next(path) if answer is None else path.send(answer)
            except StopIteration as end:
                kept.append(np.asarray(end.value, dtype=np.float64))
                break
            query = measurement.query if isinstance(measurement, Noisy) else None
            if isinstance(query, GradientSum) and (t == 0 or math.log2(t).is_integer()):
                kept.append(query.theta)
            t += 1
            answer = yield measurement
        candidates = np.array(kept)
        chosen = yield Noisy(
            CandidateScores(problem.rows, problem.loss, candidates, self.loss_bound),
            Choice(self.selection_multiplier),
        )
        return np.asarray(candidates[chosen], dtype=np.float64).copy()
