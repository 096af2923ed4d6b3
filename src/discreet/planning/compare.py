"""Every solver for one problem and guarantee: its plan, and what theory expects of it.

Where a theorem bounds the excess risk, the bound is stated for a target of norm 5/radius (scores up to ±5). Bounds are
worst cases and some solvers have none, so ``auto`` does not choose by them: its rules are in `discreet.planning.auto`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, get_args

from discreet.calibration import Guarantee
from discreet.errors import DiscreetError
from discreet.planning.auto import RULES, Rule
from discreet.planning.options import labelled, option_types
from discreet.planning.plan import Plan
from discreet.planning.predicted import predicted_bound
from discreet.recipes import RECIPES
from discreet.theory.bound import Bound
from discreet.theory.stationarity import SQUARED_GRADIENT

__all__ = ["Comparison", "PlanFor", "compare"]


@dataclass(frozen=True)
class Comparison:
    """One solver among all: its plan, or why it does not apply.

    Args:
        name: of the solver.
        plan: what would be run; None where the solver does not apply.
        predicted_risk: bound on the excess risk; NaN where there is none.
        predicted_gradient: bound on E‖∇𝓛‖², for losses that are not convex; NaN where there is none.
        chosen: whether "auto" takes it.
        reason: why it is chosen, or why it does not apply.
        unpredicted: why there is no bound on the risk.
        scales: the scale model, of a solver that has several.
    """

    name: str
    plan: Plan | None
    predicted_risk: float
    chosen: bool
    reason: str
    unpredicted: str = ""
    scales: str = ""
    predicted_gradient: float = math.nan

    @property
    def label(self) -> str:
        """The solver in words, with its scale model."""
        return labelled(self.name, self.scales)

    @property
    def releases(self) -> int:
        """How many measurements a run asks for; 0 where the solver does not apply."""
        return len(self.plan.events) if self.plan else 0

    @property
    def noise_multiplier(self) -> float:
        """Of its gradients, choices or minimiser; NaN where it has none or several."""
        return float(getattr(self.plan.solver, "noise_multiplier", math.nan)) if self.plan else math.nan


_OF_INTERVALS = RULES[0].solver

PlanFor: TypeAlias = Callable[[str, dict[str, str]], Plan]
"""From a solver's name and its options to its plan."""


def compare(plan_for: PlanFor, auto: Rule) -> list[Comparison]:
    """Every solver, with every scale model, the one that "auto" takes first; what does not apply says why.

    Intervals are another question than the model alone: the solver that gives them is compared with no other.

    Args:
        plan_for: how a plan is made; it raises a `DiscreetError` where a solver does not apply.
        auto: the rule by which "auto" chooses.

    Example:
        >>> from discreet.losses import Logistic
        >>> from discreet.planning.auto import choose
        >>> from discreet.planning.plan import make_plan
        >>> from discreet.rows import RowSpec
        >>> from discreet.solvers import Problem
        >>> from discreet.units import Unit
        >>> problem = Problem(RowSpec(4, 1.0), Logistic(), 1000.0)
        >>> guarantee = Guarantee(1.0, 1e-6, Unit("add-remove"))
        >>> found = compare(lambda *named: make_plan(problem, guarantee, *named), choose(problem, guarantee))
        >>> found[0].name, found[0].chosen, found[0].releases
        ('objective_perturbation', True, 1)
    """
    chosen = auto.solver, auto.scales
    others = () if auto.solver == _OF_INTERVALS else (name for name in RECIPES if name != _OF_INTERVALS)
    ways = [(name, scales) for name in others for scales in _scale_models(name)]
    return [_compared(plan_for, *chosen, auto.why)] + [_compared(plan_for, *way) for way in ways if way != chosen]


def _scale_models(name: str) -> tuple[str, ...]:
    """The scale models of a solver; one without a name where it has none."""
    kinds = option_types(name).get("scales")
    return get_args(kinds[0]) if kinds else ("",)


def _compared(plan_for: PlanFor, name: str, scales: str, why: str = "") -> Comparison:
    try:
        plan = plan_for(name, {"scales": scales} if scales else {})
        _ = plan.events  # the rehearsal, in which a solver refuses what its recipe does not look at, such as a ridge
    except DiscreetError as refusal:
        return Comparison(name, None, math.nan, False, _phrase(refusal), scales=scales)
    bound, unpredicted = _bound(plan, plan.guarantee)
    about_gradient = bound is not None and bound.quantity == SQUARED_GRADIENT
    value = math.nan if bound is None else float(bound)
    risk, gradient = (math.nan, value) if about_gradient else (value, math.nan)
    return Comparison(name, plan, risk, bool(why), why, unpredicted, scales, gradient)


def _bound(plan: Plan, guarantee: Guarantee) -> tuple[Bound | None, str]:
    """What theory expects; or None, and what it lacks."""
    if not guarantee.private:
        return None, "the bounds are on what noise costs, and there is none"
    try:
        return predicted_bound(plan.solver, plan.problem, guarantee.unit), ""
    except DiscreetError as missing:
        return None, _phrase(missing)


def _phrase(refusal: DiscreetError) -> str:
    """The first phrase of a refusal; what follows are remedies for a fit."""
    return str(refusal).split(";")[0].rstrip(".")
