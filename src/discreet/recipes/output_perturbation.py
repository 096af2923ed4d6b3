"""Settings of output perturbation (`discreet.solvers.output_perturbation`) from public facts: none is tuned."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import Guarantee
from discreet.errors import InvalidInput
from discreet.geometry import Box, WholeSpace
from discreet.losses import Domain
from discreet.measurements.laplace_minimum import l1_movement
from discreet.queries.largest_entries import LargestEntries
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.recipes import shared
from discreet.recipes.objective_perturbation import natural_slope_bound
from discreet.solvers.base import Problem
from discreet.solvers.objective_perturbation import Constraint
from discreet.solvers.output_perturbation import OutputPerturbation, Projection
from discreet.theory.bound import expected_max_abs_normal, gamma_noise_std, harmonic
from discreet.tuned import current

__all__ = ["noise_std", "recipe", "theory_regularisation"]


def recipe(
    problem: Problem,
    guarantee: Guarantee,
    *,
    regularisation: float | None = None,
    slope_bound: float | None = None,
    projection: Projection = "l2",
    constraint: Constraint | None = None,
    sparsity: int | None = None,
) -> OutputPerturbation:
    """The solver for a guarantee: noise from the accountant, λ from `theory_regularisation`.

    Args:
        problem: public facts.
        guarantee: (ε, δ) and the unit; ε = ∞ takes no noise. δ = 0 takes Laplace noise where a sparsity is given and
            its bound is lower, else noise of Gamma length.
        regularisation: λ in units of the sum, instead of the theory's.
        slope_bound: ℓ2 bound on a row's gradient; by default the loss's own, and for the squared loss that of
            residuals up to 1. Without privacy nothing is cut.
        projection: norm in which the noisy minimiser is projected on the domain.
        constraint: whether the domain is minimised over before the noise, too ("within"), or not ("after"); None takes
            "within" where the theorem for sparse rows asks for it: a box, the ℓ∞ norm and Laplace noise.
        sparsity: most entries of a row, for δ = 0: of rows with more the largest are kept, which privacy depends on.

    Raises:
        InvalidInput: a sparsity with δ > 0, where it would have no effect; an ℓ∞ projection without a set.
    """
    if projection == "linf" and isinstance(problem.domain, WholeSpace):
        raise InvalidInput("projection='linf' needs a set to project on: give a domain.")
    pure = guarantee.private and guarantee.delta == 0
    if sparsity is not None and guarantee.private and not pure:
        raise InvalidInput("sparsity is for the Laplace noise of delta = 0: with another delta leave it out.")
    if constraint is None:
        proved = pure and sparsity is not None and projection == "linf" and isinstance(problem.domain, Box)
        constraint = "within" if proved else "after"
    if slope_bound is None:
        slope_bound = natural_slope_bound(problem) if guarantee.private else math.inf
    noiseless = OutputPerturbation(
        0.0, regularisation or 0.0, slope_bound, projection, "gamma" if pure else "gaussian", constraint
    )
    if not guarantee.private:
        return noiseless
    RidgeMinimiser(problem.rows, problem.loss, 1.0, slope_bound).require_bounded_curvature()
    if pure:
        return _pure(noiseless, problem, guarantee, regularisation, sparsity)
    found = calibrated(lambda nu: replace(noiseless, noise_multiplier=nu, regularisation=1.0), problem, guarantee)
    if regularisation is None:
        regularisation = theory_regularisation(problem, found.noise_multiplier, slope_bound)
    return replace(noiseless, noise_multiplier=found.noise_multiplier, regularisation=regularisation)


def _pure(
    noiseless: OutputPerturbation,
    problem: Problem,
    guarantee: Guarantee,
    regularisation: float | None,
    sparsity: int | None,
) -> OutputPerturbation:
    """Of noise of Gamma length and, with a sparsity, Laplace noise, that with the lower bound, each at its best λ."""
    gamma = replace(noiseless, noise_multiplier=guarantee.unit.sensitivity(1.0) / guarantee.epsilon)
    if sparsity is None:
        if regularisation is None:
            spread = gamma.noise_multiplier * math.sqrt(math.prod(problem.rows.shape))
            regularisation = theory_regularisation(problem, spread, gamma.slope_bound)
        return replace(gamma, regularisation=regularisation)
    # two over ε under either relation: `discreet.measurements.laplace_minimum`
    multiplier = 2 * guarantee.unit.rows_per_unit / guarantee.epsilon
    laplace = replace(noiseless, noise_multiplier=multiplier, noise="laplace", sparsity=sparsity)
    kept = LargestEntries(problem.rows, sparsity).entries

    def candidates() -> Iterator[OutputPerturbation]:
        largest = problem.n * problem.loss.smoothness(Domain()) * problem.rows.radius**2
        # λ in steps of 2 %, as Laplace noise falls faster than 1/λ and has no closed form
        tried = (largest * 1.02**k for k in range(-1000, 200)) if regularisation is None else (regularisation,)
        yield from (replace(solver, regularisation=value) for value in tried for solver in (gamma, laplace))

    return min(candidates(), key=lambda solver: _risk(solver, problem, kept))


def _risk(solver: OutputPerturbation, problem: Problem, entries: int) -> float:
    """λB²/2n and what the noise costs, for B = 5/R or the radius of the set (`theory.output_perturbation`, `…_inf`)."""
    query, noise, d = solver.query(problem), noise_std(solver, problem), math.prod(problem.rows.shape)
    if solver.projection == "linf" and solver.constraint == "within":
        largest = noise * (harmonic(d) / math.sqrt(2) if solver.noise == "laplace" else expected_max_abs_normal(d))
        cost = 2 * query.gradient_bound * math.sqrt(entries) * largest
    else:
        cost = min(query.gradient_bound * noise, query.curvature_bound * noise**2 / 2)
    length = min(_length(problem), current(shared.NUMBERS).score_bound / problem.rows.radius)
    return solver.regularisation * length**2 / (2 * problem.n) + cost


def noise_std(solver: OutputPerturbation, problem: Problem) -> float:
    """The standard deviation of the noise in each coordinate of θ, up to the rounding of the grid."""
    query, d = solver.query(problem), math.prod(problem.rows.shape)
    scale = solver.noise_multiplier * query.gradient_bound / query.regularisation
    if solver.noise == "gaussian":
        return scale
    if solver.noise == "gamma":
        return gamma_noise_std(d, scale)
    assert isinstance(query.through, LargestEntries)
    moved = l1_movement(
        most_rows=math.ceil(problem.n),
        d=d,
        entries=query.through.entries,
        gradient_bound=query.gradient_bound,
        curvature_bound=query.curvature_bound,
        regularisation=query.regularisation,
    )
    return math.sqrt(2) * solver.noise_multiplier * moved / 2


def _length(problem: Problem) -> float:
    """B: the domain's radius, or without one that of d coefficients of one log-odds a unit row each: √d/R."""
    d = math.prod(problem.rows.shape)
    return min(problem.domain.radius_in(d), math.sqrt(d) / problem.rows.radius)


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
    length = _length(problem)
    bound = min(slope_bound, loss.lipschitz(Domain()) * rows.radius)
    cube = 2 * problem.n * loss.smoothness(Domain()) * (rows.radius * noise_multiplier * bound / length) ** 2
    return float(cube ** (1 / 3))
