"""Private Frank–Wolfe: steps towards vertices that are chosen privately (Talwar–Thakurta–Zhang 2015).

Releases: one selection a step among the vertices of the set, by −⟨v, gradient⟩, each row's gradient held to ``clip`` in
every coordinate. The step θ ← θ + 2/(t + 2)·(v − θ) is post-processing. In closed form θ is a weighted mean of the
chosen vertices with weights 1, 2, 3, …, and that is how it is kept: in whole numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from discreet.errors import InvalidInput
from discreet.measurements.vertex_choice import VertexChoice
from discreet.mechanisms import Choice
from discreet.queries.frank_wolfe.scores import ChosenVertices, VertexScores
from discreet.queries.frank_wolfe.vertices import MOST_STEPS, whole_vertices
from discreet.solvers.base import Problem, Steps

__all__ = ["FrankWolfe"]


@dataclass(frozen=True)
class FrankWolfe:
    """θ ← θ + 2/(t + 2)·(v_t − θ), with v_t a privately chosen vertex.

    Args:
        noise_multiplier: scale of the selection over the most that one row changes a score; 0 takes the best vertex.
        iterations: number of steps.
        clip: ℓ∞ bound on a row's gradient; enforced by shortening the row's slope.
        selection: ``"exponential"`` (bounded range: T choices compose as Gaussians do) or ``"permute-and-flip"``
            (never worse for one choice, but composes like Laplace noise).
    """

    noise_multiplier: float
    iterations: int
    clip: float
    selection: Literal["exponential", "permute-and-flip"] = "exponential"

    def __post_init__(self) -> None:
        if not 1 <= self.iterations <= MOST_STEPS:
            raise InvalidInput(f"iterations must be between 1 and {MOST_STEPS}, got {self.iterations}.")

    def steps(self, problem: Problem) -> Steps:
        """One private choice of a vertex a step."""
        if problem.ridge:
            raise InvalidInput(
                f"Frank–Wolfe regularises by its set and takes no ridge, got ridge={problem.ridge!r}; "
                "choose a smaller set, or a solver by gradient descent."
            )
        vertices = whole_vertices(problem.domain, math.prod(problem.rows.shape))
        chosen, mechanism = ChosenVertices(), Choice(self.noise_multiplier, self.selection)
        for _ in range(self.iterations):
            vertex = yield VertexChoice(
                VertexScores(problem.rows, problem.loss, vertices, chosen, self.clip), mechanism
            )
            chosen.append(vertex)
        theta, step = vertices.point(chosen.indices)
        return (theta * step).reshape(problem.rows.shape)
