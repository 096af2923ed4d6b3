"""Output perturbation: minimise the regularised loss (over the set, if asked), add noise to the minimiser, project.

Releases: one `NoisyMinimum`, of sensitivity L/λ (add-remove) or 2L/λ (replace-one) (Chaudhuri–Monteleoni–Sarwate 2011).
For pure ε and rows of at most s entries, which is enforced, one `LaplaceMinimum`: its noise does not grow with the
dimension. The projection is post-processing; in the ℓ∞ norm it keeps the error of sparse problems low in every
coordinate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from discreet.errors import InvalidInput
from discreet.geometry.base import InfProjectable, Projectable
from discreet.geometry.whole_space import WholeSpace
from discreet.measurements.laplace_minimum import LaplaceMinimum
from discreet.measurements.noisy_minimum import NoisyMinimum
from discreet.queries.largest_entries import LargestEntries
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.solvers.base import Problem, Steps
from discreet.solvers.objective_perturbation import Constraint
from discreet.solvers.parts.tolerance import public_tolerance

__all__ = ["OutputPerturbation", "Projection"]

Projection = Literal["l2", "linf"]


@dataclass(frozen=True)
class OutputPerturbation:
    """θ = Π(argmin(Σℓ + (λ/2)‖θ‖²) + noise).

    Args:
        noise_multiplier: noise scale over what one row can move the minimiser; 0 is the minimiser itself.
        regularisation: λ, in units of the sum of losses; ``problem.ridge``·n is added to it.
        slope_bound: ℓ2 bound on a row's gradient for losses whose slope has none.
        projection: ``"l2"``, or ``"linf"`` for the point of the domain nearest in the ℓ∞ norm.
        noise: ``"gaussian"`` or, for pure ε, ``"gamma"`` or ``"laplace"``.
        constraint: ``"within"`` minimises over the domain, which the theorem for sparse gradients assumes; ``"after"``
            without it, which was at least as good in simulations. The noisy point is projected in either case.
        sparsity: with Laplace noise the entries kept of a row, its largest.
    """

    noise_multiplier: float
    regularisation: float
    slope_bound: float = math.inf
    projection: Projection = "l2"
    noise: Literal["gaussian", "gamma", "laplace"] = "gaussian"
    constraint: Constraint = "after"
    sparsity: int | None = None

    def __post_init__(self) -> None:
        if (self.noise == "laplace") != (self.sparsity is not None):
            raise InvalidInput("noise='laplace' and a sparsity belong together: give both or neither.")
        if self.constraint not in ("within", "after"):
            raise InvalidInput(f"constraint must be 'within' or 'after', got {self.constraint!r}.")
        if self.projection not in ("l2", "linf"):
            raise InvalidInput(f"projection must be 'l2' or 'linf', got {self.projection!r}.")

    def steps(self, problem: Problem) -> Steps:
        """One release of the noisy minimiser, then its projection."""
        domain = problem.domain
        if self.projection == "linf" and isinstance(domain, WholeSpace):
            raise InvalidInput("projection='linf' needs a set to project on: give a domain.")
        capable = isinstance(domain, InfProjectable if self.projection == "linf" else Projectable)
        if not capable:
            raise InvalidInput(f"{type(domain).__name__} has no {self.projection} projection.")
        query = self.query(problem)
        tolerance = public_tolerance(query, problem.n, 0.0) if self.noise_multiplier else 0.0
        if self.noise == "laplace":
            theta = yield LaplaceMinimum(query, self.noise_multiplier, tolerance, math.ceil(problem.n))
        else:
            theta = yield NoisyMinimum(query, self.noise_multiplier, tolerance, self.noise)
        if self.projection == "linf" and isinstance(domain, InfProjectable):
            projected = domain.project_inf(theta.ravel())
        elif isinstance(domain, Projectable):
            projected = domain.project(theta.ravel())
        return np.asarray(projected).reshape(problem.rows.shape)

    def query(self, problem: Problem) -> RidgeMinimiser:
        """The minimiser that is released under noise."""
        total = self.regularisation + problem.ridge * problem.n
        over = problem.domain if self.constraint == "within" else WholeSpace()
        through = None if self.sparsity is None else LargestEntries(problem.rows, self.sparsity)
        return RidgeMinimiser(problem.rows, problem.loss, total, self.slope_bound, over, through)
