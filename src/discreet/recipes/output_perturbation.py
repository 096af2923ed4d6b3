"""Settings of output perturbation (`discreet.solvers.output_perturbation`) from public facts: none is tuned."""

from __future__ import annotations

import math
from dataclasses import replace

from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee
from discreet.losses import Domain
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.recipes.objective_perturbation import natural_slope_bound
from discreet.solvers.base import Problem
from discreet.solvers.objective_perturbation import Constraint
from discreet.solvers.output_perturbation import OutputPerturbation, Projection

__all__ = ["recipe", "theory_regularisation"]


def recipe(
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
        slope_bound = natural_slope_bound(problem) if guarantee.private else math.inf
    pure = guarantee.private and guarantee.delta == 0
    noiseless = OutputPerturbation(
        0.0, regularisation or 0.0, slope_bound, projection, "gamma" if pure else "gaussian", constraint
    )
    if not guarantee.private:
        return noiseless
    RidgeMinimiser(problem.rows, problem.loss, 1.0, slope_bound).require_bounded_curvature()
    if pure:
        multiplier = guarantee.unit.sensitivity(1.0) / guarantee.epsilon
        per_coordinate = multiplier * math.sqrt(math.prod(problem.rows.shape))
    else:
        found = calibrated(lambda nu: replace(noiseless, noise_multiplier=nu, regularisation=1.0), problem, guarantee)
        multiplier = per_coordinate = found.noise_multiplier
    if regularisation is None:
        regularisation = theory_regularisation(problem, per_coordinate, slope_bound)
    return replace(noiseless, noise_multiplier=multiplier, regularisation=regularisation)


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
