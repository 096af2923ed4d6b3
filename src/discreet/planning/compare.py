"""Which solver for which problem, from public facts alone. ``solver="auto"`` is this plan.

Every solver that applies is set up for the guarantee; where a theorem bounds its excess risk, the bound is stated for a
target of norm 5/radius (scores up to ±5). Bounds are worst cases and some solvers have none, so the choice follows
rules that rest on what each solver spends its budget on; `Option.reason` says which.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from discreet.calibration import Guarantee
from discreet.calibration.guarantee import rough_multiplier
from discreet.calibration.rehearse import foresee
from discreet.errors import DiscreetError
from discreet.geometry import SparseSet, WholeSpace
from discreet.geometry.base import Atomic, Projectable
from discreet.losses import Domain, Softmax, Squared
from discreet.planning.predicted import predicted_bound
from discreet.recipes import recipe
from discreet.recipes.weighted_perturbation import is_bag_of_words
from discreet.solvers import Problem, Solver
from discreet.solvers.exponential_mechanism import MOST_AXES

__all__ = ["Option", "SetUp", "choice", "choose", "options"]

_LARGEST_MOMENT = 1000
"""Beyond this dimension a noisy second-moment matrix costs more than the whitening brings: in ``bench/defaults.py``
whitening is ahead with 800 columns, and with 1500 where ε is large only."""
_DROWNED_MOMENT = 0.35
"""Beyond this noise share √min(d, n)·ν/n of a gradient a second moment buys nothing, whatever the dimension."""
_MANY_COORDINATES = 5000
"""From here on a polytope's vertices are chosen rather than gradients released. Where only a row's length is known,
an entry may be as large, so that a choice is no cheaper than the release: with 20 to 1000 columns the perturbed
minimiser over an ℓ1 ball was ahead on synthetic problems. A declared bound on entries is for `Lasso`, or for
``solver="frank_wolfe"`` by name. Beyond, it is time that decides: a step of Frank–Wolfe does not grow with d."""

_FAINTEST_COLUMNS = 0.7
"""Columns of bags of words are weighted while the noise share √min(d, n)·ν/n of a gradient stays below 0.7, beyond
which their energies drown as well. From ``bench/defaults.py``."""
_LOUDEST_COUNTS, _QUIET, _FEW = 4.5e-3, 2.5e-3, 32
"""Weights, scale and offset are worth their budget where columns are 32 at least, the noise of a count, ν, is at most
0.45 % of n, and the noise in the mean gradient, √d·ν/n, more than 0.25 % of its bound: with less, the plain minimiser
is less biased. Chosen on synthetic problems, the last with a look at a9a (``docs/benchmarks.md``)."""


@dataclass(frozen=True)
class Option:
    """A solver set up for a guarantee, and what theory expects of it.

    Args:
        name: of the solver.
        solver: as it is set up; None where it does not apply.
        releases: how many measurements a run asks for, counted by a rehearsal.
        noise_multiplier: of its gradients, choices or minimiser; NaN where it has none or several.
        predicted_risk: bound on the excess risk; NaN where there is none.
        chosen: whether "auto" takes it.
        reason: why it is chosen, or why it does not apply.
        unpredicted: why there is no bound on the risk.
    """

    name: str
    solver: Solver | None
    releases: int
    noise_multiplier: float
    predicted_risk: float
    chosen: bool
    reason: str
    unpredicted: str = ""


def choose(problem: Problem, guarantee: Guarantee) -> str:
    """The name of the solver that ``auto`` takes."""
    return _choice(problem, guarantee)[0]


def choice(problem: Problem, guarantee: Guarantee) -> tuple[str, str]:
    """The name of the solver that ``auto`` takes, and why."""
    return _choice(problem, guarantee)


def _choice(problem: Problem, guarantee: Guarantee) -> tuple[str, str]:
    loss, domain, d = problem.loss, problem.domain, math.prod(problem.rows.shape)
    pure, smooth = guarantee.private and guarantee.delta == 0, math.isfinite(loss.smoothness(Domain()))
    if guarantee.private and isinstance(loss, Squared) and guarantee.delta:
        if _is_surveyed(problem) and d > _LARGEST_MOMENT:
            return "wide_descent", "least squares in high dimension: gradients in scales that a survey found"
        if _is_surveyed(problem) and _noise_share(problem, guarantee) > _DROWNED_MOMENT:
            return "wide_descent", "least squares under strong noise: first the targets' centre, then what weights can"
        if d <= _LARGEST_MOMENT and isinstance(domain, Projectable):
            return "preconditioned", "least squares: a noisy second moment whitens the gradients that follow"
    if isinstance(domain, SparseSet) and smooth and not pure and problem.rows.outputs == 1:
        return "hard_threshold", "the set is sparse: select coordinates, then spend noise on those alone"
    if isinstance(domain, Atomic) and not isinstance(domain, Projectable) and not problem.ridge:
        return "frank_wolfe", "a polytope without a projection: choosing vertices needs none"
    if isinstance(domain, Atomic) and not problem.ridge and (pure or d > _MANY_COORDINATES):
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
        return "weighted_perturbation", "sparse rows of many columns: a few common ones would drown the telling ones"
    if _is_worth_weights(problem, guarantee):
        return (
            "weighted_perturbation",
            "two classes: columns nearer to one scale, then a direction, then scale and offset",
        )
    if isinstance(loss, Softmax) and guarantee.delta:
        if isinstance(domain, WholeSpace) and not problem.ridge and problem.rows.bounded:
            return "scaled_descent", "several classes: columns centred and brought to one scale, then noisy gradients"
        return "descent", "many classes: one release would pay for every class's curvature; noisy gradients do not"
    return "objective_perturbation", "bounded slopes and curvature: one tight release of the minimiser"


def _is_surveyed(problem: Problem) -> bool:
    return isinstance(problem.domain, WholeSpace) and bool(problem.rows.intercept) and not problem.ridge


def _is_free_of_choices(problem: Problem, guarantee: Guarantee) -> bool:
    """Two classes and nothing that weights would contradict."""
    two_classes = problem.loss.slope_sign_fixed and problem.rows.outputs == 1
    free = isinstance(problem.domain, WholeSpace) and not problem.ridge
    return bool(two_classes and free and problem.rows.bounded and guarantee.delta)


def _is_bag_of_words(problem: Problem, guarantee: Guarantee) -> bool:
    quiet = _noise_share(problem, guarantee) <= _FAINTEST_COLUMNS
    return is_bag_of_words(problem) and quiet and _is_free_of_choices(problem, guarantee)


def _is_worth_weights(problem: Problem, guarantee: Guarantee) -> bool:
    rows, n = problem.rows, problem.n
    if not (_is_free_of_choices(problem, guarantee) and rows.dimension >= _FEW):
        return False
    noise = rough_multiplier(guarantee) / n
    return noise <= _LOUDEST_COUNTS and noise * math.sqrt(rows.dimension) > _QUIET


def _noise_share(problem: Problem, guarantee: Guarantee) -> float:
    """√min(d, n)·ν/n: the noise in a mean gradient over its bound."""
    n = problem.n
    return math.sqrt(min(problem.rows.dimension, n)) * rough_multiplier(guarantee) / n


_ORDER = (
    "weighted_perturbation",
    "objective_perturbation",
    "preconditioned",
    "descent",
    "wide_descent",
    "reweighted",
    "scaled_descent",
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


SetUp: TypeAlias = Callable[[str], tuple[Problem, Solver]]
"""From a solver's name to the problem and the solver that will be run."""


def options(
    problem: Problem,
    guarantee: Guarantee,
    *,
    set_up: SetUp | None = None,
    chosen: tuple[str, str] | None = None,
) -> list[Option]:
    """Every solver, the chosen one first; those that do not apply, and risks that cannot be predicted, say why.

    Args:
        problem: public facts.
        guarantee: what every solver must keep.
        set_up: how a solver is set up; by default its recipe on this very problem.
        chosen: the name of the solver that will be taken, and why; by default `choice`.
    """
    taken, reason = chosen or choice(problem, guarantee)

    def by_recipe(name: str) -> tuple[Problem, Solver]:
        return problem, recipe(name)(problem, guarantee)

    found = []
    for name in [taken, *(name for name in _ORDER if name != taken)]:
        try:
            own, solver = (set_up or by_recipe)(name)
            plan = foresee(solver, own, guarantee.unit)
        except DiscreetError as refusal:
            found.append(Option(name, None, 0, math.nan, math.nan, False, _phrase(refusal)))
            continue
        risk, unpredicted = _risk(solver, own, guarantee)
        noise = float(getattr(solver, "noise_multiplier", math.nan))
        why = reason if name == taken else ""
        found.append(Option(name, solver, len(plan), noise, risk, name == taken, why, unpredicted))
    return found


def _risk(solver: Solver, problem: Problem, guarantee: Guarantee) -> tuple[float, str]:
    """What theory expects; or NaN, and what it lacks."""
    if not guarantee.private:
        return math.nan, "the bounds are on what noise costs, and there is none"
    try:
        return float(predicted_bound(solver, problem, guarantee.unit).value), ""
    except DiscreetError as missing:
        return math.nan, _phrase(missing)


def _phrase(refusal: DiscreetError) -> str:
    """The first phrase of a refusal; what follows are remedies for a fit."""
    return str(refusal).split(";")[0].rstrip(".")
