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
from discreet.geometry.base import Atomic, Projectable
from discreet.losses import Domain, Softmax, Squared
from discreet.solvers import Guarantee, Problem, Solver, recipe
from discreet.solvers.exponential_mechanism import MOST_AXES
from discreet.solvers.planning import rough_multiplier
from discreet.solvers.rehearsal import rehearse
from discreet.theory.predicted import predicted_risk

__all__ = ["Option", "choose", "options"]

_LARGEST_MOMENT = 1000
"""Beyond this dimension a noisy second-moment matrix costs more than the whitening brings: in ``bench/defaults.py``
whitening is ahead with 800 columns, and with 1500 where ε is large only."""
_MANY_COORDINATES = 5000
"""From here on a polytope's vertices are chosen rather than gradients released. Where only a row's length is known,
an entry may be as large, so that a choice is no cheaper than the release: with 20 to 1000 columns the perturbed
minimiser over an ℓ1 ball was ahead in ``bench/defaults.py``. A declared bound on entries is for `Lasso`, or for
``solver="frank_wolfe"`` by name. Beyond, it is time that decides: a step of Frank–Wolfe does not grow with d."""

_BAG_OF_WORDS, _FAINTEST_COLUMNS = 1000, 0.7
"""Sparse rows with this many columns are weighted by their columns' energies, while the noise share √min(d, n)·ν/n of a
gradient stays below 0.7, beyond which energies drown as well. From ``bench/defaults.py``."""


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
    pure, smooth = guarantee.private and guarantee.delta == 0, math.isfinite(loss.smoothness(Domain()))
    if guarantee.private and isinstance(loss, Squared) and guarantee.delta and _whitens(problem):
        return "preconditioned", "least squares: a noisy second moment whitens the gradients that follow"
    if isinstance(domain, SparseSet) and smooth and not pure and problem.rows.outputs == 1:
        return "hard_threshold", "the set is sparse: select coordinates, then spend noise on those alone"
    if isinstance(domain, Atomic) and not isinstance(domain, Projectable) and not problem.ridge:
        return "frank_wolfe", "a polytope without a projection: choosing vertices needs none"
    if isinstance(domain, Atomic) and not problem.ridge and (guarantee.delta == 0 or d > _MANY_COORDINATES):
        return "frank_wolfe", "a polytope in high dimension: choosing vertices costs log d, noisy gradients cost √d"
    if pure and not smooth and d <= MOST_AXES and not problem.ridge:
        return "exponential_mechanism", "pure privacy, a loss without bounded curvature, few dimensions: a grid"
    if not smooth and (guarantee.private or not loss.smooth):
        return "descent", "the loss has no bound on its curvature: clipped gradients"
    if not guarantee.private:
        return "objective_perturbation", "no noise: the exact minimiser"
    if isinstance(loss, Squared) and guarantee.delta and isinstance(domain, WholeSpace):
        return "descent", "least squares in high dimension: a few noisy gradients, as far as their noise allows"
    if _is_bag_of_words(problem, guarantee):
        return "reweighted", "sparse rows of many columns: a few common ones would drown the telling ones"
    if isinstance(loss, Softmax) and guarantee.delta:
        return "descent", "many classes: one release would pay for every class's curvature; noisy gradients do not"
    return "objective_perturbation", "bounded slopes and curvature: one tight release of the minimiser"


def _whitens(problem: Problem) -> bool:
    return math.prod(problem.rows.shape) <= _LARGEST_MOMENT and isinstance(problem.domain, Projectable)


def _is_bag_of_words(problem: Problem, guarantee: Guarantee) -> bool:
    rows, n = problem.rows, problem.n
    if not (problem.sparse and rows.outputs == 1 and rows.dimension >= _BAG_OF_WORDS and guarantee.delta):
        return False
    noise = math.sqrt(min(rows.dimension, n)) * rough_multiplier(guarantee) / n
    classifier = problem.loss.slope_sign_fixed and isinstance(problem.domain, WholeSpace)
    return classifier and noise <= _FAINTEST_COLUMNS


_ORDER = (
    "objective_perturbation",
    "preconditioned",
    "descent",
    "reweighted",
    "sparse_descent",
    "bias_reduced",
    "output_perturbation",
    "sufficient_statistics",
    "frank_wolfe",
    "hard_threshold",
    "heavy_tailed",
    "exponential_mechanism",
    "boosted",
)


def options(problem: Problem, guarantee: Guarantee) -> list[Option]:
    """Every solver, the chosen one first; those that do not apply say why."""
    chosen, reason = _choice(problem, guarantee)
    names = [chosen, *(name for name in _ORDER if name != chosen)]
    found = []
    for name in names:
        try:
            solver = recipe(name)(problem, guarantee)
            plan = rehearse(solver, problem, guarantee.unit)
        except DiscreetError as refusal:
            found.append(Option(name, None, 0, math.nan, math.nan, False, str(refusal).split(";")[0]))
            continue
        why = reason if name == chosen else ""
        noise = float(getattr(solver, "noise_multiplier", math.nan))
        found.append(Option(name, solver, len(plan), noise, predicted_risk(solver, problem), name == chosen, why))
    return found
