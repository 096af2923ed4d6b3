"""Private Frank–Wolfe: steps towards vertices that are chosen privately (Talwar–Thakurta–Zhang 2015).

Releases: one selection a step among the vertices of the set, by −⟨v, gradient⟩, each row's gradient held to ``clip`` in
every coordinate. The step θ ← θ + 2/(t + 2)·(v − θ) is post-processing. In closed form θ is a weighted mean of the
chosen vertices with weights 1, 2, 3, …, and that is how it is kept: in whole numbers.

A set without finitely many vertices, such as the ℓ2 ball, has no private choice among them; without privacy its linear
minimiser takes their place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from discreet.errors import InvalidInput
from discreet.geometry import GroupInfL1Ball, L1Ball, Polytope, Simplex
from discreet.geometry.base import Geometry, LinearOracle
from discreet.measurements import Noisy
from discreet.measurements.vertex_choice import VertexChoice
from discreet.mechanisms import Choice, Gaussian
from discreet.queries.frank_wolfe.scores import ChosenVertices, VertexScores
from discreet.queries.frank_wolfe.vertices import MOST_STEPS, whole_vertices
from discreet.queries.sums.gradient import GradientSum
from discreet.solvers.base import Problem, Steps

__all__ = ["FrankWolfe", "has_vertices"]


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
        oracle = problem.domain.convex and isinstance(problem.domain, LinearOracle) and not has_vertices(problem.domain)
        if oracle and not self.noise_multiplier:
            return (yield from self._by_oracle(problem, problem.domain))
        vertices = whole_vertices(problem.domain, math.prod(problem.rows.shape))
        chosen, mechanism = ChosenVertices(), Choice(self.noise_multiplier, self.selection)
        for _ in range(self.iterations):
            vertex = yield VertexChoice(
                VertexScores(problem.rows, problem.loss, vertices, chosen, self.clip), mechanism
            )
            chosen.append(vertex)
        theta, step = vertices.point(chosen.indices)
        return (theta * step).reshape(problem.rows.shape)

    def _by_oracle(self, problem: Problem, domain: Any) -> Steps:
        """θ ← θ + 2/(t + 2)·(v − θ) with v the point of the set where ⟨·, gradient⟩ is least."""
        theta = problem.start.ravel()
        for t in range(self.iterations):
            # an ℓ∞ clip has no meaning here: nothing is protected
            query = GradientSum(problem.rows, problem.loss, theta.reshape(problem.rows.shape), math.inf)
            total = yield Noisy(query, Gaussian(0.0))
            vertex = domain.linear_minimiser(total.ravel())
            theta = theta + 2 / (t + 2) * (vertex - theta)
        return theta.reshape(problem.rows.shape)


def has_vertices(domain: Geometry) -> bool:
    """Whether a set is the hull of finitely many vertices that can be listed."""
    return isinstance(domain, L1Ball | Simplex | GroupInfL1Ball | Polytope)
