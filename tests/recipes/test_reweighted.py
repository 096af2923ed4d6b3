"""Settings of reweighted descent from public facts, and what it refuses."""

from __future__ import annotations

import math

import pytest

from discreet.accounting import calibrate, epsilon
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.errors import InvalidInput
from discreet.events import Gaussian, compose
from discreet.geometry import L2Ball
from discreet.losses import Logistic, Quantile, Softmax
from discreet.recipes.reweighted import recipe
from discreet.recipes.shared import NUMBERS
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit

ADD, REPLACE = Unit("add-remove"), Unit("replace-one")
PROBLEM = Problem(RowSpec(30, 1.0, 0.5), Logistic(), 500.0)


@pytest.mark.parametrize("unit", [ADD, REPLACE], ids=str)
@pytest.mark.parametrize("options", [{}, {"recalibration_share": 0.0}, {"iterations": 4}], ids=repr)
def test_the_plan_keeps_the_guarantee_and_spends_it(unit: Unit, options: dict) -> None:
    plan = compose(rehearse(recipe(PROBLEM, Guarantee(1.0, 1e-6, unit), **options), PROBLEM, unit))
    assert 0.99 <= epsilon(plan, 1e-6, unit).upper <= 1.0


def test_the_path_length_is_the_formula_of_the_docstring() -> None:
    """(ηT)³ = D²n²/(2βν²C²), ν with what second moments, scale and offset leave: 85 % of the budget."""
    solver = recipe(PROBLEM, Guarantee(1.0, 1e-6, ADD))
    nu = calibrate(Gaussian, 1.0, 1e-6, ADD) / math.sqrt(0.85)
    radius, beta = PROBLEM.rows.radius, 0.25 * PROBLEM.rows.radius**2
    expected = ((NUMBERS.score_bound / radius * 500 / (nu * solver.clip)) ** 2 / (2 * beta)) ** (1 / 3)
    assert solver.step * solver.iterations == pytest.approx(expected)
    assert solver.step <= 1 / beta
    assert solver.clip == pytest.approx(0.5 * radius)


def test_shares_are_those_of_the_budget() -> None:
    solver = recipe(PROBLEM, Guarantee(1.0, 1e-6, ADD), moment_share=0.2, recalibration_share=0.3)
    gradients = solver.noise_multiplier / math.sqrt(solver.iterations)
    whole = (solver.moment_multiplier**-2 + solver.recalibration_multiplier**-2 + gradients**-2) ** -0.5
    assert (whole / solver.moment_multiplier) ** 2 == pytest.approx(0.2)
    assert (whole / solver.recalibration_multiplier) ** 2 == pytest.approx(0.3)


@pytest.mark.parametrize("loss", [Softmax(3), Quantile(0.5)], ids=repr)
def test_scale_and_offset_are_fitted_for_one_smooth_score_alone(loss) -> None:
    rows = RowSpec(30, 1.0, 0.5, outputs=3 if isinstance(loss, Softmax) else 1)
    solver = recipe(Problem(rows, loss, 500.0), Guarantee(1.0, 1e-6, ADD))
    assert (solver.recalibrated, solver.recalibration_multiplier) == (False, 0.0)


@pytest.mark.parametrize(
    ("problem", "options", "why"),
    [
        (PROBLEM, {"moment_share": 1.0}, "shares"),
        (PROBLEM, {"moment_share": 0.5, "recalibration_share": 0.5}, "shares"),
        (PROBLEM, {"spread": 0.1}, "spread"),
        (Problem(RowSpec(5, 1.0), Logistic(), 9.0, L2Ball(1.0)), {}, "no constraint"),
        (Problem(RowSpec(5, math.inf), Logistic(), 9.0), {}, "row_norm"),
    ],
)
def test_what_it_cannot_do_is_refused(problem: Problem, options: dict, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        recipe(problem, Guarantee(1.0, 1e-6, ADD), **options)
    with pytest.raises(InvalidInput, match="pure DP"):
        recipe(PROBLEM, Guarantee(1.0, 0.0, ADD))
