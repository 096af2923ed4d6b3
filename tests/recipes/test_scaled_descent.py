"""The scale models of scaled descent: which options each has, what is taken if none is named, and former names."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from discreet.calibration import Guarantee
from discreet.cli.settings import solver_options
from discreet.errors import InvalidInput
from discreet.losses import Logistic, Squared
from discreet.planning.options import option_types
from discreet.planning.plan import make_plan
from discreet.recipes import RECIPES, recipe
from discreet.recipes.scaled_descent import _MODELS
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit

GUARANTEE = Guarantee(1.0, 1e-6, Unit("add-remove"))
REGRESSION = Problem(RowSpec(5, 1.0, 0.5), Squared(), 5000.0)


def test_every_option_belongs_to_a_scale_model() -> None:
    from dataclasses import fields

    own = {name: {field.name for field in fields(options)} for name, (options, _) in _MODELS.items()}
    assert set.union(*own.values()) == set(option_types("scaled_descent")) - {"scales"}
    assert set(own) == set(get_args(option_types("scaled_descent")["scales"][0]))


@pytest.mark.parametrize(
    ("scales", "option"),
    [("full", {"power": 0.5}), ("full", {"scale_share": 0.1}), ("diagonal", {"target_bound": 2.0}),
     ("single", {"damping": 1.0})],
)  # fmt: skip
def test_an_option_of_another_scale_model_is_refused(scales: str, option: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=f"scales='{scales}' has no option {next(iter(option))}"):
        recipe("scaled_descent")(REGRESSION, GUARANTEE, scales=scales, **option)


def test_without_a_name_the_rules_of_auto_decide_and_else_the_number_of_columns() -> None:
    wide = Problem(RowSpec(1200, 1.0, 0.5), Squared(), 5000.0)
    two, words = (Problem(RowSpec(d, 1.0, 0.5), Logistic(), 5000.0) for d in (20, 1200))
    kinds = [make_plan(problem, GUARANTEE, "scaled_descent").solver.scales.kind for problem in (REGRESSION, wide)]
    assert kinds == ["full", "single"]
    kinds = [make_plan(problem, GUARANTEE, "scaled_descent").solver.scales.kind for problem in (two, words)]
    assert kinds == ["full", "diagonal"]
    named = make_plan(wide, GUARANTEE, "scaled_descent", {"scales": "diagonal"})
    assert named.solver.scales.kind == "diagonal"
    assert named.settings["scales"]["kind"] == "diagonal"
    assert named.label == "scaled_descent (diagonal)"


@pytest.mark.parametrize(
    ("former", "scales"), [("preconditioned", "full"), ("reweighted", "diagonal"), ("wide_descent", "single")]
)
def test_former_names_say_how_it_is_done_now(former: str, scales: str) -> None:
    assert former not in RECIPES
    for ask in (
        lambda: make_plan(REGRESSION, GUARANTEE, former),
        lambda: make_plan(REGRESSION, GUARANTEE, former, {"iterations": 3}),
        lambda: solver_options(former, ["iterations=3"]),
        lambda: make_plan(REGRESSION, GUARANTEE, "boosted", {"solver": former, "options": {"iterations": 3}}),
    ):
        with pytest.raises(InvalidInput, match=f"solver='scaled_descent'.*'scales': '{scales}'.*scales={scales}"):
            ask()


def test_a_scale_model_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidInput, match="scales must be 'full', 'diagonal', 'residual' or 'single'"):
        make_plan(REGRESSION, GUARANTEE, "scaled_descent", {"scales": "none"})
