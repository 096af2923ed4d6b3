"""Which solver for which problem, from public facts alone. ``solver="auto"`` is this plan.

Every solver that applies is set up for the guarantee; where a theorem bounds its excess risk, the bound is stated for a
target of norm 5/radius (scores up to ±5). Bounds are worst cases and some solvers have none, so the choice follows
rules that rest on what each solver spends its budget on; `Option.reason` says which.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.errors import DiscreetError
from discreet.geometry import SparseSet, WholeSpace
from discreet.geometry.base import Atomic
from discreet.losses import Domain, Softmax, Squared
from discreet.solvers import Guarantee, Problem, Solver, recipe
from discreet.solvers.descent import Descent
from discreet.solvers.frank_wolfe import FrankWolfe
from discreet.solvers.objective_perturbation import ObjectivePerturbation
from discreet.solvers.output_perturbation import OutputPerturbation
from discreet.solvers.rehearsal import rehearse
from discreet.theory.descent import smooth_average_iterate
from discreet.theory.frank_wolfe import frank_wolfe, glm_curvature, selection_gap
from discreet.theory.perturbation import objective_perturbation, output_perturbation
from discreet.updates import Sgd

__all__ = ["Option", "choose", "options"]

_REACH = 5.0
_LARGEST_MOMENT = 600
"""Beyond this dimension a noisy second-moment matrix costs more than the whitening brings."""


@dataclass(frozen=True)
class Option:
    """A solver set up for a guarantee, and what theory expects of it."""

    name: str
    solver: Solver | None
    releases: int
    noise_multiplier: float
    predicted_risk: float
    chosen: bool
    reason: str


def choose(problem: Problem, guarantee: Guarantee) -> str:
    """The name of the solver that ``auto`` takes."""
    return _choice(problem, guarantee)[0]


def _choice(problem: Problem, guarantee: Guarantee) -> tuple[str, str]:
    loss, domain, d = problem.loss, problem.domain, math.prod(problem.rows.shape)
    if isinstance(domain, SparseSet):
        return "hard_threshold", "the set is sparse: select coordinates, then spend noise on those alone"
    if isinstance(domain, Atomic) and not problem.ridge and (guarantee.delta == 0 or d > _LARGEST_MOMENT):
        return "frank_wolfe", "a polytope in high dimension: choosing vertices costs log d, noisy gradients cost √d"
    if not math.isfinite(loss.smoothness(Domain())):
        return "descent", "the loss has no bound on its curvature: clipped gradients"
    if not guarantee.private:
        return "objective_perturbation", "no noise: the exact minimiser"
    if isinstance(loss, Squared) and guarantee.delta and d <= _LARGEST_MOMENT and isinstance(domain, WholeSpace):
        return "preconditioned", "least squares: a noisy second moment whitens the gradients that follow"
    if isinstance(loss, Softmax) and guarantee.delta:
        return "descent", "many classes: one release would pay for every class's curvature; noisy gradients do not"
    return "objective_perturbation", "bounded slopes and curvature: one tight release of the minimiser"


_CANDIDATES = (
    "objective_perturbation",
    "preconditioned",
    "descent",
    "reweighted",
    "sparse_descent",
    "output_perturbation",
    "sufficient_statistics",
)


def options(problem: Problem, guarantee: Guarantee) -> list[Option]:
    """Every solver that applies, the chosen one first."""
    chosen, reason = _choice(problem, guarantee)
    names = [chosen, *(name for name in _CANDIDATES if name != chosen)]
    if isinstance(problem.domain, Atomic) and chosen != "frank_wolfe":
        names.append("frank_wolfe")
    found = []
    for name in names:
        try:
            solver = recipe(name)(problem, guarantee)
            plan = rehearse(solver, problem, guarantee.unit)
        except (DiscreetError, TypeError) as refusal:
            found.append(Option(name, None, 0, math.nan, math.nan, False, str(refusal).split(";")[0]))
            continue
        why = reason if name == chosen else ""
        noise = float(getattr(solver, "noise_multiplier", math.nan))
        found.append(Option(name, solver, len(plan), noise, _risk(solver, problem), name == chosen, why))
    return found


def _risk(solver: Solver, problem: Problem) -> float:
    """The theorem's bound on the expected excess risk for ‖θ*‖ = 5/radius; NaN where there is none."""
    n, d, radius = problem.n, math.prod(problem.rows.shape), problem.rows.radius
    target = _REACH / radius
    smoothness = problem.loss.smoothness(Domain(score_bound=_REACH))
    try:
        match solver:
            case Descent(noise, iterations, clip, Sgd(step), None, _) if isinstance(step, float):
                bound = smooth_average_iterate(
                    distance=target,
                    smoothness=smoothness * radius**2,
                    d=d,
                    noise_std=noise * clip / n,
                    iterations=iterations,
                    step=min(step, 0.5 / (smoothness * radius**2)),
                )
            case ObjectivePerturbation(noise, regularisation, slope_bound):
                bound = objective_perturbation(
                    n=round(n),
                    rank=d,
                    regularisation=regularisation,
                    noise_std=noise * min(slope_bound, problem.loss.lipschitz(Domain()) * radius),
                    target_norm=target,
                )
            case OutputPerturbation(noise, regularisation, slope_bound):
                lipschitz = min(slope_bound, problem.loss.lipschitz(Domain()) * radius)
                bound = output_perturbation(
                    d=d,
                    regularisation=regularisation / n,
                    noise_std=noise * lipschitz / regularisation,
                    target_norm=target,
                    lipschitz=lipschitz,
                    smoothness=smoothness * radius**2,
                )
            case FrankWolfe(noise, iterations, clip, _):
                diameter = problem.domain.diameter(d, order=1)
                atoms = problem.domain.n_atoms(d) if isinstance(problem.domain, Atomic) else 1
                scale = noise * clip * problem.domain.radius_in(d, order=1) / n
                bound = frank_wolfe(
                    curvature=glm_curvature(smoothness, problem.rows.norm, diameter),
                    iterations=iterations,
                    gap=selection_gap(atoms=atoms, scale=scale, noise="gumbel"),
                )
            case _:
                return math.nan
    except (DiscreetError, TypeError, ValueError):
        return math.nan
    return float(bound.value)
