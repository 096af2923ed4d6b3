"""What theory promises of a solver that is set up: its theorem's bound, from public facts alone.

Every bound is on the expected excess risk for a minimiser of length at most 5/radius (scores up to ±5) and targets
within ±1, and none if a hypothesis is not a public fact: hard thresholding needs restricted eigenvalues of the rows.
Losses that are not convex have a bound on E‖∇𝓛‖² instead. A solver that cuts slopes minimises another loss, whose
theorem says nothing of the loss that was asked for: there is no bound where a slope within the set can exceed the cut.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.errors import DiscreetError, HypothesisViolated
from discreet.geometry import WholeSpace
from discreet.geometry.base import Atomic
from discreet.geometry.long_projection import has_long_projection
from discreet.losses import Domain, Tabulated
from discreet.measurements.hidden_batches import AllRows
from discreet.planning.facts import trivial_risk
from discreet.planning.hypotheses import (
    dimension,
    distance,
    gradient_bound,
    score_bound,
    target_length,
    unconstrained,
    uncut,
)
from discreet.planning.predicted_least_squares import scaled_descent_bound, sufficient_statistics_bound
from discreet.queries.largest_entries import LargestEntries
from discreet.recipes.bias_reduced import expected_cost, level_costs
from discreet.recipes.exponential_mechanism import grid_radius
from discreet.recipes.output_perturbation import noise_std
from discreet.solvers.base import Problem, Solver
from discreet.solvers.bias_reduced import BiasReduced
from discreet.solvers.descent import Descent
from discreet.solvers.exponential_mechanism import ExponentialMechanism
from discreet.solvers.frank_wolfe import FrankWolfe
from discreet.solvers.objective_perturbation import ObjectivePerturbation
from discreet.solvers.output_perturbation import OutputPerturbation
from discreet.solvers.scaled_descent import ScaledDescent
from discreet.solvers.sparse_descent import SparseDescent
from discreet.solvers.sufficient_statistics import SufficientStatistics
from discreet.theory.bias_reduced import biased_descent
from discreet.theory.bound import Bound, gamma_noise_std, require
from discreet.theory.descent import smooth_average_iterate, strongly_convex_last_iterate, suffix_average
from discreet.theory.frank_wolfe import frank_wolfe, glm_curvature, selection_gap
from discreet.theory.perturbation import (
    exponential_mechanism,
    objective_perturbation,
    objective_perturbation_constrained,
    output_perturbation,
    output_perturbation_inf,
)
from discreet.theory.sparse import sparse_descent_smooth
from discreet.theory.stationarity import random_iterate_stationarity
from discreet.units import Unit
from discreet.updates import Sgd

__all__ = ["predicted_bound", "predicted_risk"]

_NO_THEOREM = {
    "BestIterate": "iterates are compared by clipped losses, from which no bound on the risk follows",
    "Boosted": "runs are compared by clipped losses, from which no bound on the risk follows",
    "HardThreshold": "it needs the rows' restricted eigenvalues, which are not public",
    "HeavyTailed": "it needs the rows' restricted eigenvalues, which are not public",
    "PeeledThreshold": "it needs the rows' restricted eigenvalues, which are not public",
    "WeightedPerturbation": "it weights columns by second moments, which are not public before they are released",
}


def predicted_risk(solver: Solver, problem: Problem, unit: Unit | None = None) -> float:
    """The value of `predicted_bound`; NaN where no theorem applies."""
    try:
        return float(predicted_bound(solver, problem, unit).value)
    except DiscreetError:
        return math.nan


def predicted_bound(solver: Solver, problem: Problem, unit: Unit | None = None) -> Bound:
    """The theorem's bound for a solver as it is set up.

    Args:
        solver: with its noise calibrated.
        problem: public facts.
        unit: whom a run under a filter protects, on which its number of steps depends.

    Raises:
        HypothesisViolated: no theorem here covers this solver on this problem.

    Example:
        >>> from discreet.losses import Logistic
        >>> from discreet.rows import RowSpec
        >>> bound = predicted_bound(ObjectivePerturbation(10.0, 8.0), Problem(RowSpec(4, 1.0), Logistic(), 1000.0))
        >>> bound.theorem, round(bound.value, 3)
        ('objective perturbation, strong convexity', 0.125)
    """
    bound = _theorem(solver, problem, unit)
    return bound.capped(trivial_risk(problem)) if bound.quantity == "excess risk" else bound


def _theorem(solver: Solver, problem: Problem, unit: Unit | None) -> Bound:
    if not problem.loss.convex:
        return _not_convex(solver, problem)
    match solver:
        case Descent():
            return _descent(solver, problem)
        case ObjectivePerturbation():
            return _objective(solver, problem)
        case OutputPerturbation():
            return _output(solver, problem)
        case FrankWolfe():
            return _frank_wolfe(solver, problem)
        case ScaledDescent():
            return scaled_descent_bound(solver, problem)
        case SufficientStatistics():
            return sufficient_statistics_bound(solver, problem)
        case ExponentialMechanism():
            return _exponential_mechanism(solver, problem)
        case SparseDescent():
            return _sparse_descent(solver, problem)
        case BiasReduced():
            return _bias_reduced(solver, problem, unit)
    name = type(solver).__name__
    raise HypothesisViolated(_NO_THEOREM.get(name, f"no theorem here bounds the risk of {name}") + ".")


def _not_convex(solver: Solver, problem: Problem) -> Bound:
    """How nearly stationary a random late iterate of descent is; the best point of a grid needs no convexity."""
    if isinstance(solver, ExponentialMechanism):
        return _exponential_mechanism(solver, problem)
    what = f"{type(problem.loss).__name__} is not convex: there is a bound for"
    if not isinstance(solver, Descent) or solver.iterate != "random":
        raise HypothesisViolated(f"{what} descent to a random iterate alone.")
    step = solver.update.step if isinstance(solver.update, Sgd) else None
    if (
        solver.sampling is not None
        or solver.batches is not None
        or not isinstance(step, float)
        or not isinstance(problem.domain, WholeSpace)
    ):
        raise HypothesisViolated(f"{what} full batches, plain steps of one size and no constraint.")
    uncut(problem, solver.clip)
    targets = np.array([-1.0, 1.0])  # where the loss at score 0 is largest; the others are at least 0
    gap = problem.loss.largest_gap() if isinstance(problem.loss, Tabulated) else problem.loss.value(0.0, targets).max()
    require(math.isfinite(gap), "a loss that is bounded below")
    return random_iterate_stationarity(
        smoothness=problem.loss.smoothness(Domain()) * problem.rows.radius**2 + problem.ridge,
        initial_gap=float(gap),
        d=dimension(problem),
        noise_std=solver.noise_multiplier * solver.clip / problem.n,
        iterations=solver.iterations,
        step=step,
        suffix=solver.iterations - solver.iterations // 2,
    )


def _descent(solver: Descent, problem: Problem) -> Bound:
    step = solver.update.step if isinstance(solver.update, Sgd) else None
    full = solver.sampling is None and solver.batches is None and isinstance(solver.hidden_batches, AllRows)
    if not full or not isinstance(step, float):
        raise HypothesisViolated("the bound is for full batches and plain steps of one size.")
    d, steps, target = dimension(problem), solver.iterations, distance(problem)
    require(problem.domain.convex, "a convex constraint set")
    uncut(problem, solver.clip, problem.domain.radius_in(d))
    points = {"average": steps, "suffix": steps - steps // 2, "last": 1, "random": 0}[solver.iterate]
    require(points > 0, "an average or the last iterate")
    noise_std = solver.noise_multiplier * solver.clip / problem.n
    smoothness = problem.loss.smoothness(Domain(score_bound=score_bound())) * problem.rows.radius**2 + problem.ridge
    free = isinstance(problem.domain, WholeSpace)
    bounds = []
    if step * smoothness <= 1 + 1e-12:
        bounds.append(
            smooth_average_iterate(
                distance=target,
                smoothness=smoothness,
                d=d,
                noise_std=noise_std,
                iterations=steps,
                step=step,
                suffix=points,
                constrained=not free,
            )
        )
    if not problem.ridge:  # a mean of clipped gradients is no longer than the clip
        bounds.append(
            suffix_average(
                distance=target,
                lipschitz=solver.clip,
                d=d,
                noise_std=noise_std,
                iterations=steps,
                step=step,
                suffix=points,
            )
        )
    if problem.ridge and free and solver.iterate == "last" and step * smoothness < 2:
        bounds.append(
            strongly_convex_last_iterate(
                distance=target,
                strong_convexity=problem.ridge,
                smoothness=smoothness,
                d=d,
                noise_std=noise_std,
                iterations=steps,
                step=step,
            )
        )
    require(bool(bounds), f"a step of at most 1/smoothness = {1 / smoothness:g}")
    return min(bounds, key=float)


def _objective(solver: ObjectivePerturbation, problem: Problem) -> Bound:
    d, scale = dimension(problem), solver.noise_multiplier * gradient_bound(problem, solver.slope_bound)
    domain, n, gaussian = problem.domain, round(problem.n), solver.noise == "gaussian"
    noise_std, target = scale if gaussian else gamma_noise_std(d, scale), target_length(problem)
    within = solver.constraint == "within" or (solver.constraint is None and has_long_projection(domain))
    if not within:
        unconstrained(problem)
    require(domain.convex, "a convex constraint set")
    require(not solver.label_multiplier, "a minimiser that is not shrunk towards a constant (label_share)")
    uncut(problem, solver.slope_bound, domain.radius_in(d))
    # strong convexity holds over a convex set as well as without one
    bounds = [
        objective_perturbation(
            n=n, rank=d, regularisation=solver.regularisation, noise_std=noise_std, target_norm=target
        )
    ]
    if gaussian and not isinstance(domain, WholeSpace):
        bounds.append(
            objective_perturbation_constrained(
                n=n,
                d=d,
                domain=domain,
                regularisation=solver.regularisation,
                noise_std=noise_std,
                target_norm=target,
            )
        )
    return min(bounds, key=float)


def _output(solver: OutputPerturbation, problem: Problem) -> Bound:
    d, deviation = dimension(problem), noise_std(solver, problem)
    lipschitz = gradient_bound(problem, solver.slope_bound)
    regularisation, target = solver.regularisation / problem.n, target_length(problem)
    if isinstance(problem.domain, WholeSpace):
        uncut(problem, solver.slope_bound)
        return output_perturbation(
            d=d,
            regularisation=regularisation,
            noise_std=deviation,
            target_norm=target,
            lipschitz=lipschitz if not problem.ridge else None,
            smoothness=problem.loss.smoothness(Domain()) * problem.rows.radius**2 + problem.ridge,
            generalised_linear=problem.rows.outputs == 1 and not problem.ridge,
            gaussian=solver.noise == "gaussian",
        )
    require(solver.constraint == "within" and problem.domain.convex, "a minimiser over the set, or no set")
    require(solver.projection == "linf" and not problem.ridge, "a projection in the ℓ∞ norm and no ridge")
    uncut(problem, solver.slope_bound, problem.domain.radius_in(d))
    through = solver.query(problem).through
    return output_perturbation_inf(
        d=d,
        sparsity=through.entries if isinstance(through, LargestEntries) else d,
        lipschitz=lipschitz,
        regularisation=regularisation,
        noise_std=deviation,
        target_norm=target,
        laplace=solver.noise == "laplace",
    )


def _frank_wolfe(solver: FrankWolfe, problem: Problem) -> Bound:
    domain, d = problem.domain, dimension(problem)
    require(isinstance(domain, Atomic), "a set with vertices")
    assert isinstance(domain, Atomic)
    feature = max(min(problem.rows.norm, problem.entry_bound), problem.rows.intercept)
    scores = Domain(feature * domain.radius_in(d, order=1), target_low=-1.0, target_high=1.0)
    longest, smoothness = problem.loss.lipschitz(scores) * feature, problem.loss.smoothness(scores)
    require(solver.clip * (1 + 1e-9) >= longest, f"entries of gradients that are not cut: they may be {longest:.4g}")
    scale = solver.noise_multiplier * domain.max_abs_inner(solver.clip) / problem.n
    return frank_wolfe(
        curvature=glm_curvature(smoothness, feature, domain.diameter(d, order=1)),
        iterations=solver.iterations,
        gap=selection_gap(atoms=domain.n_atoms(d), scale=scale),
    )


def _exponential_mechanism(solver: ExponentialMechanism, problem: Problem) -> Bound:
    """Above the best candidate; of the usual grid, also how far that may be above the minimiser."""
    scale = solver.noise_multiplier * solver.loss_bound / 2 / problem.n
    bound = exponential_mechanism(candidates=len(solver.candidates), inverse_temperature=1 / scale)
    radius, spacing = problem.rows.radius, grid_radius(solver.candidates, problem)
    if spacing is None:
        return bound
    domain = Domain(score_bound=radius * float(np.linalg.norm(solver.candidates, axis=1).max()))
    return Bound.of(bound.theorem, **bound.parts, grid=problem.loss.lipschitz(domain) * radius * spacing)


def _sparse_descent(solver: SparseDescent, problem: Problem) -> Bound:
    average = solver.iterate == "average" and not solver.recalibration_multiplier
    each = solver.estimator in ("projection", "auto") and average
    require(
        each and solver.sampling is None, "every gradient projected by itself, full batches and the average iterate"
    )
    rows = problem.rows
    require(rows.outputs == 1 and problem.domain.convex, "one output and a convex constraint set")
    smoothness = problem.loss.smoothness(Domain()) * rows.radius**2 + problem.ridge
    require(math.isfinite(smoothness) and solver.step * smoothness <= 1 + 1e-12, "a step of at most 1/smoothness")
    uncut(problem, solver.clip, problem.domain.radius_in(dimension(problem)))
    return sparse_descent_smooth(
        d=dimension(problem),
        s=min(solver.sparsity + (rows.intercept > 0), dimension(problem)),
        bound=solver.clip,
        noise_std=solver.noise_std(problem),
        diameter=problem.domain.diameter(dimension(problem)),
        smoothness=1 / solver.step,  # a smaller step is that of a less smooth loss
        iterations=solver.iterations,
        laplace=solver.noise == "laplace",
    )


def _bias_reduced(solver: BiasReduced, problem: Problem, unit: Unit | None) -> Bound:
    rows, diameter = problem.rows, problem.domain.diameter(dimension(problem))
    require(math.isfinite(diameter), "a bounded constraint set")
    averaged = solver.iterate == "average" and not solver.recalibration_multiplier
    require(averaged, "the average iterate, without recalibration")
    require(rows.outputs == 1 and problem.domain.convex, "one output and a convex constraint set")
    require(not problem.ridge, "no ridge")
    uncut(problem, solver.clip, problem.domain.radius_in(dimension(problem)))
    most, least = solver.iterations, None
    if solver.budget:
        # a step is drawn before it is refused: E(τ + 1)·E cost ≤ budget + the dearest step (Wald 1944)
        require(unit is not None, "a unit, on which the number of steps depends")
        assert unit is not None
        dearest = max(level_costs(solver, problem, unit))
        average = math.ceil((solver.budget + dearest) / expected_cost(solver, problem, unit)) - 1
        sure = math.floor(solver.budget / dearest * (1 - 1e-9))
        require(sure > 0, "a budget for any first step")
        if sure < most:
            most = min(most, average)
            least = min(sure, most)
    return biased_descent(
        distance=distance(problem),
        diameter=diameter,
        second_moment=solver.second_moment_bound(problem),
        bias=solver.bias_bound(problem),
        step=solver.step,
        iterations=most,
        least_iterations=least,
    )
