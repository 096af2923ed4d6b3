"""Settings of Frank–Wolfe: what they spend, how many steps they plan, what is refused."""

from __future__ import annotations

import math

import pytest

from discreet import accounting, events
from discreet.accounting.upper.stated import pure_epsilon
from discreet.calibration.guarantee import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.geometry import L1Ball, Simplex
from discreet.losses import Logistic, Quantile, Squared
from discreet.recipes.frank_wolfe import recipe
from discreet.rows import RowSpec
from discreet.solvers.base import Problem
from discreet.solvers.frank_wolfe import FrankWolfe
from discreet.units import Unit


@pytest.mark.parametrize("epsilon", [1.0, 100.0, 1e4])
def test_next_to_no_noise_plans_no_more_steps_than_help(epsilon: float) -> None:
    """The bound would ask for T ∝ (nε)^⅔; what is asked for by name is still taken."""
    problem = Problem(RowSpec(100, norm=10.0, intercept=1.0), Squared(), 1e8, L1Ball(4.0))
    guarantee = Guarantee(epsilon, 1e-16, Unit("add-remove"))
    assert recipe(problem, guarantee).iterations == 4096
    assert recipe(problem, guarantee, iterations=20_000).iterations == 20_000
    fewer = recipe(Problem(problem.rows, Squared(), 1e3, L1Ball(4.0)), Guarantee(1.0, 1e-6, Unit("add-remove")))
    assert fewer.iterations < 100


@pytest.mark.parametrize("unit", [Unit("add-remove"), Unit("replace-one"), Unit("add-remove", 3)], ids=str)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_default_spends_the_budget_and_no_more(unit: Unit, epsilon: float) -> None:
    problem = Problem(RowSpec(50, norm=2.0), Logistic(), 10_000, L1Ball(4.0))
    solver = recipe(problem, Guarantee(epsilon, 1e-8, unit))
    plan = events.compose(rehearse(solver, problem, unit))
    assert (1 - 1e-6) * epsilon < accounting.epsilon(plan, 1e-8, unit).upper <= epsilon * (1 + 1e-9)
    assert solver.clip == 1.0  # logistic slopes are cut at ½, features are at most 2


@pytest.mark.parametrize("steps", [1, 2, 6, 16, 17, 100])
def test_any_number_of_steps_has_the_noise_that_the_accountant_asks_for(steps: int) -> None:
    problem = Problem(RowSpec(50, norm=2.0), Logistic(), 10_000, L1Ball(4.0))
    unit = Unit("replace-one")
    solver = recipe(problem, Guarantee(1.0, 1e-6, unit), iterations=steps)
    plan = events.compose(rehearse(solver, problem, unit))
    assert 1 - 1e-6 < accounting.epsilon(plan, 1e-6, unit).upper <= 1 + 1e-9


@pytest.mark.parametrize("unit", [Unit("add-remove"), Unit("replace-one", 2)], ids=str)
def test_the_default_can_be_pure(unit: Unit) -> None:
    problem = Problem(RowSpec(50, norm=2.0), Squared(), 10_000, Simplex(1.0))
    solver = recipe(problem, Guarantee(0.7, 0.0, unit), feature_bound=1.0)
    plan = rehearse(solver, problem, unit)
    assert 0.7 * (1 - 1e-9) < sum(pure_epsilon(event, unit) for event in plan) <= 0.7 * (1 + 1e-12)


def test_the_default_takes_more_steps_for_more_data_and_less_privacy() -> None:
    def steps(n: float, epsilon: float) -> int:
        problem = Problem(RowSpec(50, norm=1.0), Logistic(), n, L1Ball(5.0))
        return recipe(problem, Guarantee(epsilon, 1e-8, Unit("add-remove"))).iterations

    assert steps(10**4, 1.0) < steps(10**5, 1.0) < steps(10**5, 4.0)


def test_the_default_respects_what_is_given() -> None:
    problem = Problem(RowSpec(50, norm=1.0), Logistic(), 1000, L1Ball(5.0))
    solver = recipe(problem, Guarantee(math.inf, 0.0, Unit("add-remove")), iterations=17, clip=0.3)
    assert solver == FrankWolfe(0.0, 17, 0.3)


def test_bad_input() -> None:
    rows, guarantee = RowSpec(4, norm=1.0), Guarantee(1.0, 1e-6, Unit("add-remove"))
    with pytest.raises(InvalidInput, match="row_norm or feature_bound"):
        recipe(Problem(RowSpec(4, norm=math.inf), Logistic(), 10, L1Ball(1.0)), guarantee)
    with pytest.raises(HypothesisViolated, match="no finite curvature"):
        recipe(Problem(rows, Quantile(0.5), 10, L1Ball(1.0)), guarantee)
    with pytest.raises(TypeError, match="unexpected"):
        recipe(Problem(rows, Logistic(), 10, L1Ball(1.0)), guarantee, step=1.0)  # type: ignore[call-arg]
