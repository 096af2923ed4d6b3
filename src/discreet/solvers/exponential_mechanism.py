"""The exponential mechanism over declared candidates (McSherry–Talwar 2007).

Releases: one choice, candidate k with probability ∝ exp(−Σ clipped losses of θ_k / b), drawn exactly. The continuous
mechanism over a set would need a Markov chain whose distance from its limit is not protected by anything; a declared
finite grid needs none, and its excess risk is at most the grid's own plus 2Δ·ln(candidates)/ε.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.measurements import Noisy
from discreet.mechanisms import Choice
from discreet.queries.sums.candidate_scores import CandidateScores
from discreet.solvers.base import Problem, Steps

__all__ = ["ExponentialMechanism"]


@dataclass(frozen=True, eq=False)
class ExponentialMechanism:
    """One of ``candidates``, preferring small loss.

    Args:
        noise_multiplier: b over half of ``loss_bound``; 0 takes the best candidate.
        candidates: public parameters, one a row.
        loss_bound: losses of one row are clipped to [0, ``loss_bound``].
        mechanism: ``"exponential"`` or ``"permute-and-flip"``.
    """

    noise_multiplier: float
    candidates: NDArray[np.float64]
    loss_bound: float
    mechanism: Literal["exponential", "permute-and-flip"] = "exponential"

    def steps(self, problem: Problem) -> Steps:
        """One choice."""
        if problem.ridge:
            raise InvalidInput("the exponential mechanism takes no ridge; leave alpha at 0.")
        query = CandidateScores(problem.rows, problem.loss, self.candidates, self.loss_bound)
        chosen = yield Noisy(query, Choice(self.noise_multiplier, self.mechanism))
        return self.candidates[chosen].copy()
