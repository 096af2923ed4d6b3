"""A plan: a solver with its settings on a problem, what it must keep, and what its run will cost.

`make_plan` is the one function that turns public facts into a plan: ``fit``, ``discreet plan``, `MeanEstimator` and
`PrivateSearchCV` all call it. It uses no data. The vault rehearses the solver once more by itself before it charges:
it trusts no plan that was made elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass
from functools import cached_property
from typing import Any

from discreet.accounting.bounds import Bounds
from discreet.calibration.by_secants import NEARLY_ALL
from discreet.calibration.guarantee import Guarantee
from discreet.calibration.rehearse import foresee
from discreet.errors import InvalidInput
from discreet.events import Event, compose
from discreet.planning.auto import choose, options_of_rules
from discreet.planning.options import checked_options, labelled, option_types
from discreet.recipes import recipe
from discreet.solvers import Filtered, Problem, Solver

__all__ = ["Plan", "make_plan", "spent_epsilon"]


@dataclass(frozen=True, eq=False)
class Plan:
    """What will be run.

    Args:
        name: of the solver.
        solver: with all its settings, its noise among them.
        problem: public facts.
        guarantee: what the run keeps.
        why: the reason of the rule that chose the solver; empty where the user named it.
    """

    name: str
    solver: Solver
    problem: Problem
    guarantee: Guarantee
    why: str = ""

    @property
    def label(self) -> str:
        """The solver in words, with its scale model where it has several."""
        several = "scales" in option_types(self.name)
        return labelled(self.name, getattr(self.solver, "scales").kind if several else "")  # noqa: B009 - of some solvers

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """What a run asks for, in order; the budget of its filter, for a solver that runs until a filter stops it."""
        unit = self.guarantee.unit
        budget = self.solver.filter(unit) if isinstance(self.solver, Filtered) else None
        return tuple(foresee(self.solver, self.problem, unit)) if budget is None else (budget.event(),)

    @property
    def event(self) -> Event:
        """All of `events` as one."""
        return compose(self.events)

    @cached_property
    def epsilon(self) -> Bounds:
        """The certified interval of ε at the guarantee's δ; without privacy both ends are infinite."""
        from discreet.accounting import epsilon

        return epsilon(self.event, self.guarantee.delta, self.guarantee.unit)

    @property
    def settings(self) -> dict[str, Any]:
        """The solver's settings as plain values; those that are None are left out."""
        tree: dict[str, Any] = (
            asdict(self.solver) if is_dataclass(self.solver) and not isinstance(self.solver, type) else {}
        )
        plain = (int, float, str, bool, dict)
        found = {name: value if isinstance(value, plain) else str(value) for name, value in tree.items()}
        return {name: value for name, value in found.items() if tree[name] is not None}


def make_plan(
    problem: Problem, guarantee: Guarantee, solver: str = "auto", options: Mapping[str, Any] | None = None
) -> Plan:
    """The plan for a problem and a guarantee, from public facts alone.

    Args:
        problem: public facts.
        guarantee: what the run must keep.
        solver: ``"auto"`` for the first rule of `discreet.planning.auto.RULES` that applies, or a solver's name.
        options: of a named solver; what they leave open is chosen by the rules of "auto" (the scale model) and by the
            solver's recipe.

    Raises:
        InvalidInput: an unknown solver or option, or a solver that does not apply to the problem.

    Example:
        >>> from discreet.losses import Logistic
        >>> from discreet.rows import RowSpec
        >>> from discreet.units import Unit
        >>> problem = Problem(RowSpec(5, 1.0), Logistic(), 10_000.0)
        >>> plan = make_plan(problem, Guarantee(1.0, 1e-8, Unit("replace-one")))
        >>> plan.name, plan.epsilon.upper <= 1.0
        ('objective_perturbation', True)
    """
    why = ""
    if solver == "auto":
        if options:
            raise InvalidInput("solver_options need a named solver; with solver='auto' all are chosen for you.")
        rule = choose(problem, guarantee)
        solver, why, options = rule.solver, rule.why, rule.options
    taken = options_of_rules(solver, problem, guarantee) | checked_options(solver, options)
    return Plan(solver, recipe(solver)(problem, guarantee.tightened(), **taken), problem, guarantee, why)


def spent_epsilon(event: Event, guarantee: Guarantee) -> float:
    """The ε that a run cost at the guarantee's δ: the guarantee's ε where nearly all is used, else the truth."""
    from discreet.accounting import delta, epsilon

    # a calibrated plan uses all of its budget, which one look at δ(ε) shows; inverting the curve takes dozens
    if guarantee.delta > 0:
        used = delta(event, guarantee.epsilon, guarantee.unit).upper / guarantee.delta
        if NEARLY_ALL <= used <= 1:
            return guarantee.epsilon
    return epsilon(event, guarantee.delta, guarantee.unit).upper
