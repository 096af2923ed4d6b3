"""Settings of least squares from sufficient statistics: what they spend, their defaults, what is refused."""

from __future__ import annotations

import math

import pytest

from discreet.accounting import epsilon
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.errors import InvalidInput
from discreet.events import compose
from discreet.geometry import L2Ball
from discreet.losses import Logistic, Squared
from discreet.recipes.sufficient_statistics import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.sufficient_statistics import SufficientStatistics
from discreet.units import Unit

ADD_REMOVE, REPLACE_ONE = Unit("add-remove"), Unit("replace-one")


@pytest.mark.parametrize("unit", [ADD_REMOVE, REPLACE_ONE], ids=str)
def test_defaults_keep_the_guarantee_and_waste_little(unit: Unit) -> None:
    problem = Problem(RowSpec(5, 1.0, 0.5), Squared(), 4000.0)
    solver = recipe(problem, Guarantee(1.0, 1e-6, unit))
    assert 0.999 < epsilon(compose(rehearse(solver, problem, unit)), 1e-6, unit).upper <= 1.0
    assert (solver.target_bound, solver.failure) == (1.0, 0.05)


def test_what_is_given_is_taken_and_without_privacy_nothing_is_clipped() -> None:
    problem = Problem(RowSpec(5, math.inf), Squared(), 4000.0)
    free = Guarantee(math.inf, 0.0, ADD_REMOVE)
    assert recipe(problem, free) == SufficientStatistics(0.0, math.inf, 0.05)
    assert recipe(problem, free, target_bound=2.0, failure=0.1) == SufficientStatistics(0.0, 2.0, 0.1)


@pytest.mark.parametrize(
    ("problem", "delta", "why"),
    [
        (Problem(RowSpec(2, 1.0), Logistic(), 10.0), 1e-6, "least squares"),
        (Problem(RowSpec(2, 1.0), Squared(), 10.0, L2Ball(1.0)), 1e-6, "constraint"),
        (Problem(RowSpec(10_000, 1.0), Squared(), 10.0), 1e-6, "at most 8192 columns"),
        (Problem(RowSpec(2, math.inf), Squared(), 10.0, ridge=0.1), 1e-6, "row_norm"),
        (Problem(RowSpec(2, 1.0), Squared(), 10.0), 0.0, "pure DP"),
    ],
)
def test_bad_input(problem: Problem, delta: float, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        recipe(problem, Guarantee(1.0, delta, ADD_REMOVE))
