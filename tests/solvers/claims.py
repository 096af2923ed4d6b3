"""A claim and the attack on it: a solver as its recipe sets it up, and two worlds that it must not tell apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tests.solvers.attacks import proved_epsilon, quieter
from tests.solvers.transcripts import log_ratio, overhear

from discreet.accounting import epsilon
from discreet.calibration import Guarantee
from discreet.calibration.calibrate import scaled_event
from discreet.data.memory import in_memory
from discreet.ledger import Ledger
from discreet.noise.bits import Bits
from discreet.recipes import recipe
from discreet.solvers import Filtered, Problem
from discreet.units import Unit
from discreet.vault import Vault

__all__ = ["Case", "check", "rows"]


@dataclass(frozen=True)
class Case:
    """One solver, set up for one guarantee, and the two worlds that it must not tell apart.

    Args:
        solver: name of the recipe.
        label: what is special about the case.
        problem: public facts.
        worlds: the rows and targets of either neighbour.
        epsilon, delta, unit: the claim.
        options: of the recipe.
        runs: in either world, at either noise.
        by_result: the attacker sees θ alone, and takes it for the answer of the one release before it.
        statistic: of the transcript and θ, where no law is known: what is above 0 tells of the first world. None is the
            exact likelihood ratio.
        make: sets the solver up where no recipe does.
    """

    solver: str
    label: str
    problem: Problem
    worlds: tuple[tuple[Any, Any], tuple[Any, Any]]
    unit: Unit
    epsilon: float = 1.0
    delta: float = 0.1
    options: dict[str, Any] = field(default_factory=dict)
    runs: int = 500
    by_result: bool = False
    statistic: Callable[[list[Any], Any], Any] | None = None
    make: Callable[[Problem, Guarantee], Any] | None = None

    def __str__(self) -> str:
        return f"{self.solver}-{self.label}-{self.unit.relation}"

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, self.delta, self.unit)

    def set_up(self) -> Any:
        """The solver, as its recipe sets it up."""
        if self.make:
            return self.make(self.problem, self.guarantee)
        return recipe(self.solver)(self.problem, self.guarantee, **self.options)

    def datasets(self) -> list[Any]:
        return [in_memory(X, y, self.problem.rows) for X, y in self.worlds]


def charged(case: Case, solver: Any) -> float:
    """ε that a vault charges for one run."""
    ledger = Ledger()
    vault = Vault(case.datasets()[0], case.unit, ledger, Bits.seeded(0))
    budget = solver.filter(case.unit) if isinstance(solver, Filtered) else None
    if budget:
        vault.run_filtered(solver, case.problem, budget)
    else:
        vault.run(solver, case.problem)
    return float(epsilon(ledger.history()[0].event, case.delta, case.unit).upper)


def proved(case: Case, solver: Any, claim: float, noise: float = 1.0) -> float:
    """The ε that the attack proves against the solver at ``noise`` times its noise; a filter sees the claimed one."""
    attacked = solver if noise == 1.0 else quieter(solver, noise)
    worlds, bits = case.datasets(), Bits.seeded(17)

    def ratio(world: Any) -> Any:
        budget = solver.filter(case.unit) if isinstance(solver, Filtered) else None
        spend = budget and (lambda measurement: budget.spend(scaled_event(measurement.event(case.unit), 1 / noise)))
        heard, theta = overhear(attacked, case.problem, world, case.unit, bits, spend)
        if case.statistic:
            return case.statistic(heard, theta)
        if case.by_result:
            ((measurement, _),) = heard
            heard = [(measurement, theta)]
        return log_ratio(heard, *worlds)

    ratios = [np.ravel([ratio(world) for _ in range(case.runs)]) for world in worlds]
    return proved_epsilon(*ratios, case.delta, 0.0 if case.statistic else claim)


def check(case: Case) -> None:
    """The claim holds; the same attack breaks it on the same solver with half the noise. Error: 1e-3 a proof."""
    solver = case.set_up()
    claim = charged(case, solver)
    assert claim <= case.epsilon * (1 + 1e-9)
    assert proved(case, solver, claim) <= claim
    assert proved(case, solver, claim, 0.5) > claim


def rows(*pairs: tuple[Any, float]) -> tuple[Any, Any]:
    """((x, y), …) as a world."""
    width = max((np.size(x) for x, _ in pairs), default=1)
    return np.array([x for x, _ in pairs], float).reshape(len(pairs), width), np.array([y for _, y in pairs], float)
