"""Settings of descent on centred and scaled columns from public facts, and what it refuses."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

from discreet import events
from discreet.accounting import calibrate, epsilon
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.errors import InvalidInput
from discreet.events import compose
from discreet.geometry import L2Ball
from discreet.losses import Logistic, Poisson, Quantile, Softmax
from discreet.recipes import scaled_descent
from discreet.recipes.shared import NUMBERS
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit

ADD, REPLACE = Unit("add-remove"), Unit("replace-one")
ROWS = RowSpec(5, 2.0, 1.0, outputs=3)
TWO_CLASSES = Problem(RowSpec(30, 1.0, 0.5), Logistic(), 500.0)
recipe = partial(scaled_descent.recipe, scales="diagonal")


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
    _, _, *gradients, temperature = rehearse(plan, problem, ADD)
    assert temperature == events.Gaussian(plan.recalibration_multiplier)
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
        (Problem(RowSpec(5, 1.0), Logistic(), 9.0), {"score_noise": 1.0}, "several outputs"),
        (Problem(ROWS, Softmax(3), 9.0, L2Ball(1.0)), {}, "L2Ball"),
        (Problem(ROWS, Softmax(3), 9.0, ridge=0.1), {"recalibration_share": 0.1}, "several classes"),
        (Problem(ROWS, Softmax(3), 9.0), {"spread": 0.1}, "spread"),
        (TWO_CLASSES, {"moment_share": 1.0}, "shares"),
        (TWO_CLASSES, {"moment_share": 0.5, "recalibration_share": 0.5}, "shares"),
        (Problem(RowSpec(5, 1.0), Logistic(), 9.0, L2Ball(1.0)), {}, "no constraint"),
        (Problem(RowSpec(5, math.inf), Logistic(), 9.0), {}, "row_norm"),
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


@pytest.mark.parametrize(("epsilon", "capped"), [(0.1, True), (1.0, False), (8.0, False)])
def test_the_temperature_gets_a_fiftieth_of_the_budget_and_less_under_little_noise(
    epsilon: float, capped: bool
) -> None:
    """q = 4B/c·ν/n with B·e^B = n/ν; the whole is what one release with the whole budget would have."""
    n = 5000.0
    solver = recipe(Problem(ROWS, Softmax(3), n), Guarantee(epsilon, 1e-6, ADD), rate=1.0)
    found = (solver.scales.moment_multiplier / solver.recalibration_multiplier) ** 2 * NUMBERS.estimate_share
    nu = calibrate(events.Gaussian, epsilon, 1e-6, ADD)
    bound = next(b for b in np.linspace(1.0, 10.0, 9001) if b * math.exp(b) >= n / nu)
    wanted = 4 * bound / NUMBERS.score_noise * nu / n
    assert (wanted > 0.02) == capped
    assert found == pytest.approx(min(wanted, 0.02), rel=1e-3)


# --- one output -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [ADD, REPLACE], ids=str)
@pytest.mark.parametrize("options", [{}, {"recalibration_share": 0.0}, {"iterations": 4}], ids=repr)
def test_a_plan_for_two_classes_keeps_the_guarantee_and_spends_it(unit: Unit, options: dict[str, Any]) -> None:
    plan = compose(rehearse(recipe(TWO_CLASSES, Guarantee(1.0, 1e-6, unit), **options), TWO_CLASSES, unit))
    assert 0.99 <= epsilon(plan, 1e-6, unit).upper <= 1.0


def test_the_path_length_is_the_formula_of_the_docstring() -> None:
    """(ηT)³ = D²n²/(2βν²C²), ν with what mean row, second moments, scale and offset leave: 80 % of the budget."""
    solver = recipe(TWO_CLASSES, Guarantee(1.0, 1e-6, ADD))
    nu = calibrate(events.Gaussian, 1.0, 1e-6, ADD) / math.sqrt(0.8)
    radius, beta = TWO_CLASSES.rows.radius, 0.25 * TWO_CLASSES.rows.radius**2
    expected = ((NUMBERS.score_bound / radius * 500 / (nu * solver.clip)) ** 2 / (2 * beta)) ** (1 / 3)
    assert solver.path_length == pytest.approx(expected)
    assert solver.step <= 1 / beta
    assert solver.clip == pytest.approx(0.5 * radius)


def test_shares_are_those_of_the_budget() -> None:
    asked = {"moment_share": 0.2, "recalibration_share": 0.3, "centre_share": 0.1}
    solver = recipe(TWO_CLASSES, Guarantee(1.0, 1e-6, ADD), **asked)
    parts = {
        "moment_share": solver.scales.moment_multiplier,
        "centre_share": solver.scales.centre_multiplier,
        "recalibration_share": solver.recalibration_multiplier,
    }
    gradients = solver.noise_multiplier / math.sqrt(solver.iterations)
    whole = (sum(noise**-2 for noise in parts.values()) + gradients**-2) ** -0.5
    assert {name: (whole / noise) ** 2 for name, noise in parts.items()} == pytest.approx(asked)


@pytest.mark.parametrize(("loss", "ridge"), [(Softmax(3), 0.1), (Quantile(0.5), 0.0), (Poisson(), 0.0)], ids=repr)
def test_scale_and_offset_are_fitted_for_one_smooth_score_or_classes_without_a_ridge(loss: Any, ridge: float) -> None:
    rows = RowSpec(30, 1.0, 0.5, outputs=3 if isinstance(loss, Softmax) else 1)
    problem = Problem(rows, loss, 500.0, ridge=ridge)
    assert recipe(problem, Guarantee(1.0, 1e-6, ADD)).recalibration_multiplier == 0
    assert recipe(TWO_CLASSES, Guarantee(1.0, 1e-6, ADD)).recalibration_multiplier > 0


@pytest.mark.parametrize("loss", [Poisson(), Quantile(0.5)], ids=repr)
def test_steps_are_no_longer_than_a_bound_on_the_curvature_allows(loss: Any) -> None:
    """Poisson: e^z ≤ 2 on rows of one length; a kink: the slope over its width."""
    problem = Problem(RowSpec(30, 1.0, 0.5), loss, 1e7)
    bound = (2.0 if isinstance(loss, Poisson) else 0.5 / NUMBERS.kink_width) * problem.rows.radius**2
    for target in (1.0, math.inf):
        solver = recipe(problem, Guarantee(target, 1e-6 if target < math.inf else 0.0, ADD))
        assert solver.step == pytest.approx(1 / bound)
        assert solver.clip < math.inf or not isinstance(loss, Poisson)
