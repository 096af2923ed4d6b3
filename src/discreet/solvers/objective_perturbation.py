"""Objective perturbation: minimise the regularised loss plus a random linear term over a set; release the minimiser.

Releases: one `PerturbedMinimum` (Chaudhuri–Monteleoni–Sarwate 2011; Kifer–Smith–Thakurta 2012; approximate minima:
Iyengar et al. 2019), and where asked for the sum of labels (`discreet.solvers.parts.share_offset`). The privacy profile
and its proof are our own, in ``docs/maths/objective_perturbation.md``: for logistic regression with λ ≥ R²/ε it is
*exactly* that of one Gaussian release of a sum of gradients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from discreet.errors import InvalidInput
from discreet.geometry.base import Projectable
from discreet.geometry.long_projection import has_long_projection
from discreet.geometry.whole_space import WholeSpace
from discreet.losses import Logistic
from discreet.measurements.perturbed_minimum import PerturbedMinimum
from discreet.queries.minimiser.problem import project
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.solvers.base import Problem, Steps
from discreet.solvers.parts.share_offset import released_share, shrunk_to_share
from discreet.solvers.parts.tolerance import public_tolerance

__all__ = ["Constraint", "ObjectivePerturbation"]

Constraint = Literal["within", "after"]


@dataclass(frozen=True)
class ObjectivePerturbation:
    """θ̂ = argmin Σℓ + (λ/2)‖θ‖² + ⟨b, θ⟩ over the domain.

    Args:
        noise_multiplier: scale of b over the bound on a row's gradient; 0 is the minimiser itself.
        regularisation: λ, in units of the sum of losses; ``problem.ridge``·n is added to it.
        slope_bound: ℓ2 bound on a row's gradient for losses whose slope has none.
        deviation: the largest distance between neighbours' certified points, over the output noise.
        noise: ``"gaussian"`` or, for pure ε, ``"gamma"``.
        constraint: ``"within"`` minimises over the domain; ``"after"`` minimises without it and projects. Both cost the
            same. None is "within" for every set whose projections can be certified, "after" for others.
        label_multiplier: noise over the largest label in the sum of labels, by which scores are shrunk towards the
            constant model; 0 leaves it out. For logistic losses with an intercept, no constraint and no other ridge.
    """

    noise_multiplier: float
    regularisation: float
    slope_bound: float = math.inf
    deviation: float = 1e-3
    noise: Literal["gaussian", "gamma"] = "gaussian"
    constraint: Constraint | None = None
    label_multiplier: float = 0.0

    def __post_init__(self) -> None:
        if self.constraint not in ("within", "after", None):
            raise InvalidInput(f"constraint must be 'within' or 'after', got {self.constraint!r}.")

    def steps(self, problem: Problem) -> Steps:
        """One or two releases; the output noise is projected away, which is post-processing."""
        if not isinstance(problem.domain, Projectable):
            raise InvalidInput(
                f"{type(problem.domain).__name__} has no projection, which the released minimiser needs."
            )
        if not self.label_multiplier:
            theta = yield self.measurement(problem)
            return project(problem.domain, theta)
        free = isinstance(problem.domain, WholeSpace) and not problem.ridge
        if not (isinstance(problem.loss, Logistic) and problem.rows.intercept and free):
            raise InvalidInput("shrinking to the share of a class is for free logistic models with an intercept.")
        share = yield from released_share(problem, self.label_multiplier)
        release = self.measurement(problem)
        theta, noise = (yield release), self.noise_multiplier * release.query.gradient_bound
        return shrunk_to_share(theta, problem, share, self.regularisation, noise)

    def measurement(self, problem: Problem) -> PerturbedMinimum:
        """The single release: a certified minimiser of the perturbed objective."""
        total = self.regularisation + problem.ridge * problem.n
        within = self.constraint == "within" or (self.constraint is None and has_long_projection(problem.domain))
        domain = problem.domain if within else WholeSpace()
        query = RidgeMinimiser(problem.rows, problem.loss, total, self.slope_bound, domain)
        tolerance = public_tolerance(query, problem.n, self.noise_multiplier) if self.noise_multiplier else 0.0
        return PerturbedMinimum(query, self.noise_multiplier, self.deviation, tolerance, self.noise)
