"""Settings of sparse descent: what they spend, how far they go, what is refused."""

from __future__ import annotations

import math

import pytest

from discreet.accounting import epsilon
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.errors import InvalidInput
from discreet.events import compose
from discreet.geometry import L2Ball
from discreet.losses import Logistic
from discreet.recipes.sparse_descent import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit

ADD, REPLACE = Unit("add-remove"), Unit("replace-one")


@pytest.mark.parametrize("unit", [ADD, REPLACE], ids=str)
@pytest.mark.parametrize("options", [{"sparsity": 3}, {"sparsity": 3, "rate": 0.5, "iterations": 5}], ids=str)
def test_the_plan_keeps_the_guarantee_and_spends_it(unit: Unit, options: dict) -> None:
    problem = Problem(RowSpec(30, 1.0, 0.5), Logistic(), 500.0)
    plan = compose(rehearse(recipe(problem, Guarantee(1.0, 1e-6, unit), **options), problem, unit))
    assert 0.98 <= epsilon(plan, 1e-6, unit).upper <= 1.0


def test_the_path_follows_the_noise_in_scores_or_the_theorem() -> None:
    """Lazily (ηT)³ = D²n²/(2β·κ²C²): eight times the rows make four times the path. Else steps of size 1/β."""

    def path(n: float, **options: object) -> float:
        problem = Problem(RowSpec(30, 1.0), Logistic(), n)
        solver = recipe(problem, Guarantee(0.1, 1e-6, ADD), **options)  # type: ignore[arg-type]
        return solver.step * solver.iterations

    assert path(8000.0) == pytest.approx(4 * path(1000.0), rel=1e-3)
    inside = Problem(RowSpec(3000, 1.0), Logistic(), 1000.0, L2Ball(1.0))
    each = recipe(inside, Guarantee(1.0, 1e-6, ADD), sparsity=2, estimator="projection")
    assert (each.step, each.recalibration_multiplier, each.iterate) == (4.0, 0.0, "average")  # the smoothness is ¼


def test_without_privacy_nothing_is_clipped() -> None:
    solver = recipe(Problem(RowSpec(5, 1.0), Logistic(), 100.0), Guarantee(math.inf, 0.0, ADD))
    assert (solver.noise_multiplier, solver.clip, solver.iterations) == (0.0, math.inf, 2000)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"rate": 0.1, "batch_size": 3}, "not both"),
        ({"estimator": "magic"}, "estimator"),
        ({"sparsity": 0}, "sparsity"),
        ({"recalibration_share": 1.0}, "recalibration_share"),
    ],
)
def test_bad_input(options: dict, why: str) -> None:
    problem = Problem(RowSpec(5, 1.0), Logistic(), 100.0)
    with pytest.raises(InvalidInput, match=why):
        recipe(problem, Guarantee(1.0, 1e-6, ADD), **options)
    with pytest.raises(InvalidInput, match="pure DP"):
        recipe(problem, Guarantee(1.0, 0.0, ADD), recalibration_share=0.1)
    with pytest.raises(InvalidInput, match="batches"):
        recipe(problem, Guarantee(1.0, 0.0, ADD), rate=0.5)


@pytest.mark.parametrize("unit", [ADD, REPLACE, Unit("replace-one", 3)], ids=str)
@pytest.mark.parametrize("options", [{}, {"estimator": "projection"}], ids=str)
def test_pure_plans_keep_epsilon_and_spend_it(unit: Unit, options: dict) -> None:
    """δ = 0: Laplace noise, and the ε of all releases add up to ε."""
    problem = Problem(RowSpec(30, 1.0, 0.5), Logistic(), 500.0)
    solver = recipe(problem, Guarantee(2.0, 0.0, unit), sparsity=3, **options)
    assert (solver.noise, solver.recalibration_multiplier) == ("laplace", 0.0)
    assert 1.96 <= epsilon(compose(rehearse(solver, problem, unit)), 0.0, unit).upper <= 2.0 * (1 + 1e-12)


def test_the_path_of_a_pure_run_is_the_best_of_all_numbers_of_steps() -> None:
    """Noise of T releases is T times that of one, so T is small where noise is large, and the path stays stable."""
    few, many = (
        recipe(Problem(RowSpec(1000, 1.0), Logistic(), n), Guarantee(1.0, 0.0, REPLACE), sparsity=5) for n in (1e3, 1e7)
    )
    assert few.iterations < many.iterations
    assert many.step == pytest.approx(4.0)  # the smoothness is ¼
