"""Every solver's claim is attacked: as a user sets it up it must hold, and with half the noise it must break.

For each case the two worlds are neighbours that the solver tells apart as well as any. The solver comes from its own
recipe for a guarantee (ε, δ); what a vault charges for it is checked once; then it runs some hundreds of times in
either world. The statistic is the exact likelihood ratio of everything that was released, and a Clopper–Pearson bound
turns it into a lower bound on ε at δ, which exceeds a true claim with probability at most 1e-3 a case. The same attack
on the same solver with half the noise must exceed the claim: otherwise it would prove nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from tests.solvers.attacks import proved_epsilon, quieter
from tests.solvers.transcripts import log_ratio, overhear

import discreet as dp
from discreet.accounting import epsilon
from discreet.data.memory import Sparse, in_memory
from discreet.geometry import L1Ball, L2Ball
from discreet.ledger import Ledger
from discreet.losses import Huber, Logistic, SmoothedHinge, Squared
from discreet.noise.bits import Bits
from discreet.rows import RowSpec
from discreet.solvers import RECIPES, Filtered, Guarantee, Problem, recipe
from discreet.solvers.planning import _scaled
from discreet.solvers.rehearsal import rehearse
from discreet.units import Unit
from discreet.updates import Adafactor, Adam, AdamW, Momentum, Sgd, Svrg
from discreet.vault import Vault

ADD, REPLACE = Unit("add-remove"), Unit("replace-one")
ONE = RowSpec(1, 1.0)
FAR = 1e6  # a target so far away that the clip alone decides a row's gradient, wherever θ is


@dataclass(frozen=True)
class Case:
    """One solver, set up for one guarantee, and the two worlds that it must not tell apart.

    Args:
        solver: name of the recipe.
        problem: public facts.
        worlds: the rows and targets of either neighbour.
        epsilon, delta, unit: the claim.
        options: of the recipe.
        runs: in either world, at either noise.
        by_result: the attacker sees θ alone, and takes it for the answer of the one release before it.
        factor: of the noise that must be caught.
        label: what is special about the case.
    """

    solver: str
    label: str
    problem: Problem
    worlds: tuple[tuple[Any, Any], tuple[Any, Any]]
    unit: Unit
    epsilon: float = 1.0
    delta: float = 0.1
    options: dict[str, Any] = field(default_factory=dict)
    runs: int = 600
    by_result: bool = False
    factor: float = 0.5
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
        spend = budget and (lambda measurement: budget.spend(_scaled(measurement.event(case.unit), 1 / noise)))
        heard, theta = overhear(attacked, case.problem, world, case.unit, bits, spend)
        if case.by_result:
            ((measurement, _),) = heard
            heard = [(measurement, theta)]
        return log_ratio(heard, *worlds)

    ratios = [np.ravel([ratio(world) for _ in range(case.runs)]) for world in worlds]
    return proved_epsilon(*ratios, case.delta, claim)


def rows(*pairs: tuple[Any, float]) -> tuple[Any, Any]:
    """((x, y), …) as a world."""
    width = max((np.size(x) for x, _ in pairs), default=1)
    return np.array([x for x, _ in pairs], float).reshape(len(pairs), width), np.array([y for _, y in pairs], float)


# A row whose gradient is as long as the clip allows: there or not, or turned round.
LONGEST = {ADD: (rows((1, FAR)), rows()), REPLACE: (rows((1, FAR)), rows((1, -FAR)))}
BOTH = (ADD, REPLACE)


def least_squares(n: float = 2.0, **options: Any) -> Problem:
    return Problem(options.pop("rows", ONE), Squared(), n, **options)


def descent() -> list[Case]:
    found = [
        Case("descent", "full-batch", least_squares(), LONGEST[unit], unit, options={"iterations": 2}) for unit in BOTH
    ]
    found += [
        Case("descent", "poisson", least_squares(), LONGEST[unit], unit, options={"iterations": 2, "rate": 0.7})
        for unit in BOTH
    ]
    one_of_two = {"iterations": 1, "batch_size": 1}
    pair = rows((1, FAR), (1, -FAR)), rows((1, -FAR), (1, -FAR))
    found.append(Case("descent", "fixed-size", least_squares(), pair, REPLACE, options=one_of_two))
    for rule in (Momentum(0.5), Adam(0.1), AdamW(0.1), Adafactor(0.1), Svrg(0.5, 2)):
        with_rule = {"iterations": 3 if isinstance(rule, Svrg) else 2, "update": rule}
        found.append(Case("descent", type(rule).__name__, least_squares(ridge=0.1), LONGEST[ADD], ADD, options=with_rule))
    return found


def hard_threshold() -> list[Case]:
    """Gaussian gradients as in descent. Peeling: 20 rows hold every v_j far from 0, and one moves them apart."""
    found = [
        Case(
            "hard_threshold", "gaussian", least_squares(), LONGEST[unit], unit,
            options={"sparsity": 1, "peel": False, "iterations": 2},
        )
        for unit in BOTH
    ]  # fmt: skip
    for d, s, steps, unit in ((2, 1, 1, REPLACE), (2, 1, 1, ADD), (3, 2, 1, REPLACE), (2, 1, 2, REPLACE)):
        rest = [(np.ones(d), -1.0)] * 20
        apart = np.where(np.arange(d) < s, 1.0, -1.0)
        other = [(apart, 1.0)] if unit == REPLACE else []
        found.append(
            Case(
                "hard_threshold", f"peeling-{s}-of-{d}-{steps}-steps",
                least_squares(21.0, rows=RowSpec(d, 2.0)), (rows(*rest, (apart, -1.0)), rows(*rest, *other)), unit,
                options={"sparsity": s, "peel": True, "iterations": steps, "entry_bound": 1.0, "smoothness": 1e6},
            )
        )  # fmt: skip
    return found


def heavy_tailed() -> list[Case]:
    """The row that differs is in one of two parts; all |y| are above the cut, different, and tell rows apart."""
    found = []
    for unit in BOTH:
        rest = [(np.ones(2), -2.0 - i) for i in range(20)]
        other = [((1, -1), 100.0)] if unit == REPLACE else []
        worlds = rows(*rest, ((1, -1), -100.0)), rows(*rest, *other)
        settings = {"sparsity": 1, "parts": 2, "entry_bound": 1.0, "radius": 1e3, "step": 1e-6}
        problem = least_squares(21.0, rows=RowSpec(2, math.inf))
        found.append(Case("heavy_tailed", "gumbel", problem, worlds, unit, options=settings))
    return found


def perturbation() -> list[Case]:
    """Gaussian noise on many coordinates at once: a row each, so that every coordinate is a run of its own."""
    found = []
    columns = 100
    each = np.eye(columns)
    for unit in BOTH:
        turned = (each, -np.ones(columns)) if unit == REPLACE else (np.empty((0, columns)), np.empty(0))
        worlds = (each, np.ones(columns)), turned
        # λ = 50 keeps θ near 0, where a hinge row has its whole slope −y
        hinge = Problem(RowSpec(columns, 1.0), SmoothedHinge(0.5), 500.0)
        strong = {"regularisation": 50.0}
        found.append(Case("objective_perturbation", "gaussian", hinge, worlds, unit, options=strong, runs=6))
        small = Problem(ONE, SmoothedHinge(0.5), 500.0)
        pure = rows((1, 1)), rows((1, -1)) if unit == REPLACE else rows()
        found.append(Case("objective_perturbation", "gamma", small, pure, unit, delta=0.0, options=strong))

        far = tuple((X, FAR * y) for X, y in worlds)
        huber = Problem(RowSpec(columns, 1.0), Huber(1.0), 500.0)
        found.append(Case("output_perturbation", "gaussian", huber, far, unit, options={"regularisation": 2.0}, runs=6))
        small = Problem(ONE, Huber(1.0), 500.0)
        found.append(
            Case("output_perturbation", "gamma", small, LONGEST[unit], unit, delta=0.0, options={"regularisation": 2.0})
        )
        # a projection that cuts off one answer in ten, and the attacker sees what is left
        inside = Problem(ONE, Huber(1.0), 500.0, domain=L1Ball(1.5))
        cut = {"regularisation": 2.0, "projection": "linf"}
        found.append(Case("output_perturbation", "linf", inside, LONGEST[unit], unit, options=cut, by_result=True))
    return found


def frank_wolfe() -> list[Case]:
    """Two vertices, ±e. Some rows make +e the rarer one; one row more, or turned, makes it likelier or rarer still."""
    found = []
    problem = least_squares(5.0, domain=L1Ball(1.0))
    for unit in BOTH:
        for sparse in (False, True):
            for selection in ("exponential", "permute-and-flip"):
                base = [(1, -FAR)] * (3 if selection == "exponential" else 1)
                one, other = rows(*base, (1, FAR)), rows(*base, *[(1, -FAR)] * (unit == REPLACE))
                if sparse:
                    one, other = ((sp.csr_array(X), y) for X, y in (one, other))
                label = f"{selection}-{'sparse' if sparse else 'dense'}"
                settings = {"clip": 1.0, "iterations": 1, "selection": selection}
                found.append(
                    Case("frank_wolfe", label, problem, (one, other), unit, delta=0.0, options=settings, runs=1500)
                )
    walk = {"clip": 1.0, "iterations": 3}
    one, other = rows((1, -FAR), (1, FAR)), rows((1, -FAR), (1, -FAR))
    found.append(Case("frank_wolfe", "three-steps", problem, (one, other), REPLACE, options=walk))
    return found


def moments() -> list[Case]:
    """One row as long as it may be, with the largest target: every release feels all of it."""
    found = []
    for unit in BOTH:
        d = 1 if unit == ADD else 2
        problem = least_squares(1000.0, rows=RowSpec(d, 1.0))
        # replaced, XᵀX moves most, by √2 of the 2 that are claimed, if the new row is orthogonal to the old one
        worlds = (rows((1, 1)), rows()) if unit == ADD else (rows(((1, 0), 1)), rows(((0, 1), -1)))
        far = (rows((1, FAR)), rows()) if unit == ADD else (rows(((1, 0), FAR)), rows(((-1, 0), FAR)))
        found.append(Case("sufficient_statistics", "adassp", problem, worlds, unit))
        found.append(
            Case("preconditioned", "newton", problem, far, unit, options={"iterations": 2, "share": 0.1, "clip": 1e-3})
        )
    return found


def candidates() -> list[Case]:
    """The row that differs makes the first candidate the best or the worst of many; on a grid it tilts the line."""
    found = []
    many = np.vstack([[[1.0]], np.tile([[-1.0]], (40, 1))])
    for unit in BOTH:
        problem = least_squares()
        worlds = rows((1, 1)), rows((1, -1)) if unit == REPLACE else rows()
        for mechanism in ("exponential", "permute-and-flip"):
            declared = {"candidates": many, "loss_bound": 2.0, "mechanism": mechanism}
            found.append(
                Case("exponential_mechanism", f"declared-{mechanism}", problem, worlds, unit, 2.0, 0.0, options=declared)
            )
    grid = rows((1, -1), (1, 1)), rows((1, -1), (1, -1))
    logistic = Problem(ONE, Logistic(), 2.0)
    for mechanism in ("exponential", "permute-and-flip"):
        drawn = {"mechanism": mechanism}
        found.append(
            Case("exponential_mechanism", f"grid-{mechanism}", logistic, grid, REPLACE, 2.0, 0.0, options=drawn)
        )
    return found


def bias_reduced() -> list[Case]:
    """Batches of two rows and their halves, under the filter; the row that differs has the whole slope or none."""
    settings = {"smallest": 1, "levels": 1, "noise_multiplier": 4.0, "clip": 0.1, "iterations": 3}
    pair = rows((1, FAR), (1, -FAR)), rows((1, -FAR), (1, -FAR))
    return [
        Case("bias_reduced", "filtered", least_squares(2.0), pair, REPLACE, 1.0, 0.1, options=settings),
        Case("bias_reduced", "filtered", least_squares(2.0), LONGEST[ADD], ADD, 1.0, 0.1, options=settings),
    ]


CASES = [*descent(), *hard_threshold(), *heavy_tailed(), *perturbation(), *frank_wolfe(), *moments(), *candidates(), *bias_reduced()]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_attack_stays_below_the_claim_and_breaks_it_when_noise_is_halved(case: Case) -> None:
    """Each proof is wrong with probability at most 1e-3."""
    solver = case.set_up()
    claim = charged(case, solver)
    assert claim <= case.epsilon * (1 + 1e-9)
    assert proved(case, solver, claim) <= claim
    assert proved(case, solver, claim, case.factor) > claim


def test_an_attack_is_made_on_every_recipe() -> None:
    assert {case.solver for case in CASES} >= set(RECIPES)
