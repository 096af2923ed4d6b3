"""Settings of scaled descent from public facts, and what it refuses."""

from __future__ import annotations

import math
from typing import Any

import pytest

from discreet import events
from discreet.accounting import epsilon
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.errors import InvalidInput
from discreet.events import compose
from discreet.geometry import L2Ball
from discreet.losses import Logistic, Softmax
from discreet.recipes.scaled_descent import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit

ADD, REPLACE = Unit("add-remove"), Unit("replace-one")
ROWS = RowSpec(5, 2.0, 1.0, outputs=3)


@pytest.mark.parametrize("unit", [ADD, REPLACE, Unit("add-remove", 3)], ids=str)
@pytest.mark.parametrize("intercept", [0.0, 0.5])
@pytest.mark.parametrize(("n", "target"), [(500.0, 1.0), (2000.0, 0.05), (1e5, 8.0)])
def test_the_plan_keeps_the_guarantee_and_spends_it(unit: Unit, intercept: float, n: float, target: float) -> None:
    problem = Problem(RowSpec(30, 1.0, intercept, outputs=4), Softmax(4), n)
    plan = rehearse(recipe(problem, Guarantee(target, 1e-7, unit)), problem, unit)
    assert 0.99 * target <= epsilon(compose(plan), 1e-7, unit).upper <= target


@pytest.mark.parametrize(("n", "rate"), [(3000.0, 1.0), (12_000.0, 0.5), (75_000.0, 0.2)])
def test_of_many_rows_each_step_takes_a_sample_that_is_charged_as_one(n: float, rate: float) -> None:
    problem = Problem(ROWS, Softmax(3), n)
    plan = recipe(problem, Guarantee(1.0, 1e-6, ADD))
    _, _, *gradients = rehearse(plan, problem, ADD)
    whole = events.Gaussian(plan.noise_multiplier)
    assert gradients == [whole if rate == 1 else events.Poisson(rate, whole)] * plan.iterations
    full = recipe(problem, Guarantee(1.0, 1e-6, ADD), rate=1.0)
    assert full.sampling is None
    # noise over the rows that a step expects
    assert full.noise_multiplier <= plan.noise_multiplier / rate * 1.0001
    assert plan.noise_multiplier / rate <= 1.1 * full.noise_multiplier


@pytest.mark.parametrize(("n", "steps"), [(300.0, 32), (1e6, 64)])
def test_no_step_is_longer_than_a_hundred_and_no_clip_longer_than_half_the_longest_slope(n: float, steps: int) -> None:
    plan = recipe(Problem(ROWS, Softmax(3), n), Guarantee(8.0, 1e-6, ADD))
    assert plan.iterations == steps
    assert plan.step * plan.clip * ROWS.radius <= 100.0 * (1 + 1e-12)
    assert plan.clip <= math.sqrt(0.5) * ROWS.radius


def test_replacing_a_row_at_twice_the_epsilon_is_hardly_worse_than_adding_one() -> None:
    """The noise of one release is all that the plan depends on, and doubling ε nearly halves it."""
    problem = Problem(ROWS, Softmax(3), 500.0)
    added, replaced = (recipe(problem, Guarantee(e, 1e-6, u)) for e, u in ((0.5, ADD), (1.0, REPLACE)))
    assert replaced.noise_multiplier <= 1.06 * added.noise_multiplier
    assert (replaced.iterations, replaced.clip) == (added.iterations, added.clip)


@pytest.mark.parametrize(
    ("problem", "options", "words"),
    [
        (Problem(RowSpec(5, 1.0), Logistic(), 9.0), {}, "several classes"),
        (Problem(ROWS, Softmax(3), 9.0, L2Ball(1.0)), {}, "L2Ball"),
        (Problem(ROWS, Softmax(3), 9.0, ridge=0.1), {}, "alpha"),
        (Problem(RowSpec(5, math.inf, 1.0, outputs=3), Softmax(3), 9.0), {}, "row_norm"),
        (Problem(RowSpec(5, 1.0, outputs=3), Softmax(3), 9.0), {"centre_share": 0.1}, "centre_share=0"),
        (Problem(ROWS, Softmax(3), 9.0), {"centre_share": 0.6, "moment_share": 0.4}, "leave some budget"),
        (Problem(ROWS, Softmax(3), 9.0), {"step": 1.0, "score_noise": 1.0}, "leave one out"),
        (Problem(ROWS, Softmax(3), 9.0), {"decay": 1.0}, "decay"),
        (Problem(ROWS, Softmax(3), 9.0), {"power": 2.0}, "power"),
        (Problem(ROWS, Softmax(3), 9.0), {"iterations": 0}, "iterations"),
        (Problem(ROWS, Softmax(3), 9.0), {"damping": math.inf}, "damping"),
    ],
)
def test_what_it_is_not_for_is_refused(problem: Problem, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        recipe(problem, Guarantee(1.0, 1e-6, ADD), **options)
    with pytest.raises(InvalidInput, match="delta"):
        recipe(Problem(ROWS, Softmax(3), 9.0), Guarantee(1.0, 0.0, ADD))
