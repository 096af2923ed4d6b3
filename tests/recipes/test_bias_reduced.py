"""Settings of bias-reduced descent: batches that fit, plans without a filter, what is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from discreet.calibration import Guarantee
from discreet.errors import InvalidInput
from discreet.losses import Logistic
from discreet.recipes.bias_reduced import expected_cost, level_costs, planned, recipe
from discreet.recipes.shared import NUMBERS
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.bias_reduced import BiasReduced
from discreet.units import Unit

REPLACE = Unit("replace-one")
PROBLEM = Problem(RowSpec(40, 1.0), Logistic(), 64.0)
SOLVER = BiasReduced(0.4, 30, 1.0, 0.5, smallest=2, levels=4, sparsity=2)


def test_a_plan_without_filter_has_as_many_steps_as_the_budget_is_expected_to_pay_for() -> None:
    filtered = replace(SOLVER, budget=0.1)
    plan = planned(filtered, PROBLEM, REPLACE)
    assert plan.filter(REPLACE) is None
    assert plan.iterations == max(1, min(30, math.floor(0.1 / expected_cost(filtered, PROBLEM, REPLACE))))
    assert planned(SOLVER, PROBLEM, REPLACE) == SOLVER


def test_steps_are_no_dearer_than_the_budget_that_the_fits_leave() -> None:
    solver = recipe(PROBLEM, Guarantee(2.0, 1e-5, REPLACE))
    assert solver.costs[:-1] == level_costs(solver, PROBLEM, REPLACE)
    assert solver.costs[-1] == pytest.approx(NUMBERS.large_share * solver.budget)
    without = recipe(PROBLEM, Guarantee(2.0, 1e-5, REPLACE), recalibration_share=0.0)
    assert (without.costs, without.recalibration_multiplier, without.iterate) == ((), 0.0, "average")


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match="pure DP"):
        recipe(PROBLEM, Guarantee(1.0, 0.0, REPLACE))
    with pytest.raises(InvalidInput, match="must fit"):
        recipe(PROBLEM, Guarantee(1.0, 1e-5, REPLACE), smallest=64, levels=1)
    with pytest.raises(InvalidInput, match="admits no step"):
        recipe(PROBLEM, Guarantee(0.1, 1e-5, REPLACE), smallest=32, levels=1, noise_multiplier=0.1)
    with pytest.raises(InvalidInput, match="row_norm"):
        recipe(Problem(RowSpec(40, math.inf), Logistic(), 64.0), Guarantee(math.inf, 0.0, REPLACE))
    with pytest.raises(InvalidInput, match="projecting=False"):
        recipe(PROBLEM, Guarantee(1.0, 1e-5, REPLACE), sparsity=2, projecting=False)


@pytest.mark.parametrize("n", [2.0, 3.0, 4.0, 5.0])
def test_the_defaults_fit_in_any_number_of_rows_that_a_private_count_may_give(n: float) -> None:
    problem = Problem(RowSpec(2, 1.0), Logistic(), n)
    solver = recipe(problem, Guarantee(1.0, 1e-6, Unit("add-remove", 2)), iterations=3)
    assert solver.smallest << solver.levels <= n


def test_the_default_is_the_debiased_estimator_where_projecting_is_proved_to_help() -> None:
    """d = 1000 words of which one is in a row: the largest batch is projected. With ten columns there is no bias."""
    guarantee = Guarantee(1.0, 1e-8, REPLACE)
    many, few = (Problem(RowSpec(d, 1.0), Logistic(), 50_000.0) for d in (1000, 10))
    debiased = recipe(many, guarantee, sparsity=1)
    assert debiased.projecting
    assert debiased.projects(many, debiased.smallest << debiased.levels)
    assert not recipe(few, guarantee, sparsity=1).projecting
    assert not recipe(many, guarantee, projecting=False).projecting


def test_small_batches_are_projected_only_where_the_largest_is() -> None:
    """The estimate has the expectation of the largest batch's mean: unless that is projected nothing is undone."""
    problem = Problem(RowSpec(3000, 1.0), Logistic(), 1e6)
    for noise in (0.5, 4.0, 32.0, 256.0, 2048.0):
        solver = BiasReduced(noise, 30, 1.0, 0.5, smallest=1000, levels=4, sparsity=1)
        levels = [solver.projects(problem, solver.smallest << k) for k in range(solver.levels + 1)]
        assert levels[-1] or not any(levels)
