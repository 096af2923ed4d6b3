"""Settings of boosting: the selection keeps the guarantee; the options of the boosted solver are checked."""

from __future__ import annotations

import pytest

from discreet.accounting import epsilon
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.errors import InvalidInput
from discreet.events import compose
from discreet.losses import Logistic, Softmax
from discreet.planning.options import checked_options
from discreet.recipes import scaled_descent
from discreet.recipes.boosted import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit

ADD, REPLACE = Unit("add-remove"), Unit("replace-one")


@pytest.mark.parametrize("unit", [ADD, REPLACE], ids=str)
@pytest.mark.parametrize("scales", ["full", "diagonal"])
def test_the_plan_keeps_the_guarantee_and_spends_it(unit: Unit, scales: str) -> None:
    """All noise is raised by one factor, that of the scale model too."""
    problem, options = Problem(RowSpec(30, 1.0, 0.5), Logistic(), 500.0), {"scales": scales, "iterations": 4}
    solver = recipe(problem, Guarantee(1.0, 1e-6, unit), solver="scaled_descent", options=options)
    plan = compose(rehearse(solver, problem, unit))
    assert 0.98 <= epsilon(plan, 1e-6, unit).upper <= 1.0
    alone = scaled_descent.recipe(problem, Guarantee(1.0, 1e-6, unit), **options)
    factors = [
        boosted.noise_multiplier / usual.noise_multiplier
        for boosted, usual in zip(rehearse(solver.solver, problem, unit), rehearse(alone, problem, unit), strict=True)
    ]
    assert factors == pytest.approx([factors[0]] * len(factors))
    assert factors[0] > 1


@pytest.mark.parametrize(
    ("options", "why"), [({"solver": "objective_perturbation"}, "boosted"), ({"score_share": 0.0}, "score_share")]
)
def test_bad_input(options: dict, why: str) -> None:
    problem = Problem(RowSpec(5, 1.0), Logistic(), 100.0)
    with pytest.raises(InvalidInput, match=why):
        recipe(problem, Guarantee(1.0, 1e-6, ADD), **options)
    with pytest.raises(InvalidInput, match="pure DP"):
        recipe(problem, Guarantee(1.0, 0.0, ADD))
    many = Problem(RowSpec(5, 1.0, 0.5, 3), Softmax(3), 100.0)
    with pytest.raises(InvalidInput, match="one score a row"):
        recipe(many, Guarantee(1.0, 1e-6, ADD))


def test_options_of_the_boosted_solver_are_checked_like_its_own() -> None:
    asked = {"solver": "descent", "options": {"iterations": 4, "clip": None}}
    assert checked_options("boosted", asked) == {"solver": "descent", "options": {"iterations": 4}}
    with pytest.raises(InvalidInput, match="'descent' has no option 'sparsity'"):
        checked_options("boosted", {"solver": "descent", "options": {"sparsity": 3}})
    with pytest.raises(InvalidInput, match="whole number"):
        checked_options("boosted", {"options": {"iterations": 0.5}})
