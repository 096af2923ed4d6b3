"""Output perturbation: minimise the regularised loss (over the set, if asked), add noise to the minimiser, project.

Releases: one `NoisyMinimum`, of sensitivity L/λ (add-remove) or 2L/λ (replace-one) (Chaudhuri–Monteleoni–Sarwate 2011).
The projection is post-processing; in the ℓ∞ norm it keeps the error of sparse problems low in every coordinate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee
from discreet.errors import InvalidInput
from discreet.geometry.base import InfProjectable, Projectable
from discreet.geometry.whole_space import WholeSpace
from discreet.losses import Domain
from discreet.measurements.noisy_minimum import NoisyMinimum
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.solvers.base import Problem, Steps
from discreet.solvers.objective_perturbation import Constraint, public_tolerance

__all__ = ["OutputPerturbation", "default", "theory_regularisation"]

Projection = Literal["l2", "linf"]


@dataclass(frozen=True)
class OutputPerturbation:
    """θ = Π(argmin(Σℓ + (λ/2)‖θ‖²) + noise).

    Args:
        noise_multiplier: noise scale over what one row can move the minimiser; 0 is the minimiser itself.
        regularisation: λ, in units of the sum of losses; ``problem.ridge``·n is added to it.
        slope_bound: ℓ2 bound on a row's gradient for losses whose slope has none.
        projection: ``"l2"``, or ``"linf"`` for the point of the domain nearest in the ℓ∞ norm.
        noise: ``"gaussian"`` or, for pure ε, ``"gamma"``.
        constraint: ``"within"`` minimises over the domain, which the theorem for sparse gradients assumes; ``"after"``
            without it, which was at least as good in simulations. The noisy point is projected in either case.
    """

    noise_multiplier: float
    regularisation: float
    slope_bound: float = math.inf
    projection: Projection = "l2"
    noise: Literal["gaussian", "gamma"] = "gaussian"
    constraint: Constraint = "after"

    def __post_init__(self) -> None:
        if self.constraint not in ("within", "after"):
            raise InvalidInput(f"constraint must be 'within' or 'after', got {self.constraint!r}.")
        if self.projection not in ("l2", "linf"):
            raise InvalidInput(f"projection must be 'l2' or 'linf', got {self.projection!r}.")

    def steps(self, problem: Problem) -> Steps:
        """One release."""
        domain = problem.domain
        if self.projection == "linf" and isinstance(domain, WholeSpace):
            raise InvalidInput("projection='linf' needs a set to project on: give a domain.")
        capable = isinstance(domain, InfProjectable if self.projection == "linf" else Projectable)
        if not capable:
            raise InvalidInput(f"{type(domain).__name__} has no {self.projection} projection.")
        total = self.regularisation + problem.ridge * problem.n
        over = domain if self.constraint == "within" else WholeSpace()
        query = RidgeMinimiser(problem.rows, problem.loss, total, self.slope_bound, over)
        tolerance = public_tolerance(query, problem.n, 0.0) if self.noise_multiplier else 0.0
        theta = yield NoisyMinimum(query, self.noise_multiplier, tolerance, self.noise)
        if self.projection == "linf" and isinstance(domain, InfProjectable):
            projected = domain.project_inf(theta.ravel())
        elif isinstance(domain, Projectable):
            projected = domain.project(theta.ravel())
        return np.asarray(projected).reshape(problem.rows.shape)


def theory_regularisation(problem: Problem, noise_multiplier: float, slope_bound: float = math.inf) -> float:
    """λ that balances the two excess risks of output perturbation.

    Regularising costs λB²/2n on the mean loss, B the length of the minimiser sought; noise of scale νL/λ costs at most
    ½·smoothness·R²·(νL/λ)² whatever the dimension, as the Hessian's trace is at most smoothness·R². The sum is least at

        λ³ = 2n·smoothness·R²·(νL/B)².

    B is the domain's radius, or without one that of d coefficients of one log-odds a unit row each: B = √d/R.

    Example:
        >>> from discreet.rows import RowSpec
        >>> from discreet.losses import Logistic
        >>> round(theory_regularisation(Problem(RowSpec(4, 1.0), Logistic(), 1000.0), 2.0), 6)
        7.937005
    """
    rows, loss = problem.rows, problem.loss
    d = math.prod(rows.shape)
    length = min(problem.domain.radius_in(d), math.sqrt(d) / rows.radius)
    bound = min(slope_bound, loss.lipschitz(Domain()) * rows.radius)
    cube = 2 * problem.n * loss.smoothness(Domain()) * (rows.radius * noise_multiplier * bound / length) ** 2
    return float(cube ** (1 / 3))


def default(
    problem: Problem,
    guarantee: Guarantee,
    *,
    regularisation: float | None = None,
    slope_bound: float | None = None,
    projection: Projection = "l2",
    constraint: Constraint = "after",
) -> OutputPerturbation:
    """The solver for a guarantee: noise from the accountant, λ from `theory_regularisation`.

    Args:
        problem: public facts.
        guarantee: (ε, δ) and the unit; δ = 0 takes Gamma-norm noise; ε = ∞ no noise.
        regularisation: λ in units of the sum, instead of the theory's.
        slope_bound: ℓ2 bound on a row's gradient; by default the loss's own, and for the squared loss that of
            residuals up to 1. Without privacy nothing is cut.
        projection: norm in which the noisy minimiser is projected on the domain.
        constraint: whether the domain is minimised over before the noise ("within"), too.
    """
    if slope_bound is None:
        bounded = math.isfinite(problem.loss.lipschitz(Domain())) or not guarantee.private
        slope_bound = math.inf if bounded else problem.rows.radius
    noise: Literal["gaussian", "gamma"] = "gaussian" if guarantee.delta or not guarantee.private else "gamma"

    def make(multiplier: float, strength: float) -> OutputPerturbation:
        return OutputPerturbation(multiplier, strength, slope_bound, projection, noise, constraint)

    if not guarantee.private:
        return make(0.0, regularisation or 0.0)
    RidgeMinimiser(problem.rows, problem.loss, 1.0, slope_bound).require_bounded_curvature()
    if noise == "gamma":
        multiplier = guarantee.unit.sensitivity(1.0) / guarantee.epsilon
    else:
        found = calibrated(lambda nu: make(nu, 1.0), problem, guarantee)
        assert isinstance(found, OutputPerturbation)
        multiplier = found.noise_multiplier
    if regularisation is None:
        effective = multiplier * (math.sqrt(math.prod(problem.rows.shape)) if noise == "gamma" else 1.0)
        regularisation = theory_regularisation(problem, effective, slope_bound)
    return make(multiplier, regularisation)
