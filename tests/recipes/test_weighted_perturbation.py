"""Settings of weighted perturbation from public facts, and what it refuses."""

from __future__ import annotations

import math

import pytest

from discreet.accounting import epsilon
from discreet.calibration import Guarantee
from discreet.calibration.one_release import gaussian_multiplier
from discreet.calibration.rehearse import rehearse
from discreet.errors import DiscreetError, InvalidInput
from discreet.events import compose
from discreet.geometry import L2Ball
from discreet.losses import Logistic, Softmax, Squared
from discreet.recipes.weighted_perturbation import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit

ADD, REPLACE = Unit("add-remove"), Unit("replace-one")


@pytest.mark.parametrize("unit", [ADD, REPLACE, Unit("add-remove", 3)], ids=str)
@pytest.mark.parametrize(("columns", "n", "target"), [(30, 500.0, 1.0), (5000, 2000.0, 0.3), (200, 1e5, 4.0)])
def test_the_plan_keeps_the_guarantee_and_spends_it(unit: Unit, columns: int, n: float, target: float) -> None:
    problem = Problem(RowSpec(columns, 1.0, 0.5), Logistic(), n)
    plan = rehearse(recipe(problem, Guarantee(target, 1e-7, unit)), problem, unit)
    assert 0.99 * target <= epsilon(compose(plan), 1e-7, unit).upper <= target


@pytest.mark.parametrize(("n", "columns", "centred"), [(3e3, 100, True), (3e4, 100, False), (3e3, 1500, False)])
def test_rows_are_centred_where_they_are_narrow_and_noise_is_above_a_hundredth(
    n: float, columns: int, centred: bool
) -> None:
    """At ε = 1, δ = 1e-7 the noise multiplier is between 4 and 6, so √d·κ/n is 0.013 to 0.02, or a tenth of that."""
    problem, target = Problem(RowSpec(columns, 1.0, 0.5), Logistic(), n), Guarantee(1.0, 1e-7, ADD)
    assert 4 < gaussian_multiplier(target) < 6
    assert recipe(problem, target).scales.centred == centred


def test_the_ridge_grows_with_columns_over_rows_and_bags_of_words_have_the_largest() -> None:
    """λ/(ν·L·R) is 0.8·(1 + 3·min(d/n, ½)), ν of one release with the minimiser's share: 85 %, 80 % if centred."""

    def factor(columns: int, n: float, *, sparse: bool = False) -> float:
        problem = Problem(RowSpec(columns, 1.0, 0.5), Logistic(), n, sparse=sparse)
        target = Guarantee(1.0, 1e-7, ADD)
        solver = recipe(problem, target)
        noise = gaussian_multiplier(target) / math.sqrt(0.8 if solver.scales.centred else 0.85)
        return solver.regularisation / (noise * solver.slope_bound * problem.rows.radius)

    assert factor(10, 1e4) == pytest.approx(0.8 * 1.003, rel=1e-9)
    assert factor(1000, 4e3) == pytest.approx(1.4, rel=1e-9)
    assert factor(5000, 5e3) == pytest.approx(2.0, rel=1e-9)
    assert factor(1000, 1e5, sparse=True) == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize(
    ("problem", "options", "why"),
    [
        (Problem(RowSpec(5, 1.0), Logistic(), 9.0, L2Ball(1.0)), {}, "no constraint"),
        (Problem(RowSpec(5, 1.0), Logistic(), 9.0, ridge=1.0), {}, "alpha"),
        (Problem(RowSpec(5, 1.0, outputs=3), Softmax(3), 9.0), {}, "two classes"),
        (Problem(RowSpec(5, 1.0), Squared(), 9.0), {}, "two classes"),
        (Problem(RowSpec(5, math.inf), Logistic(), 9.0), {}, "row_norm"),
        (Problem(RowSpec(5, 1.0), Logistic(), 9.0), {"recalibration_share": 0.0}, "shares"),
        (Problem(RowSpec(5, 1.0), Logistic(), 9.0), {"moment_share": 0.95}, "shares"),
        (Problem(RowSpec(5, 1.0), Logistic(), 9.0), {"power": 2.0}, "power"),
        (Problem(RowSpec(5, 1.0), Logistic(), 9.0), {"damping": 0.0}, "damping"),
        (Problem(RowSpec(5, 1.0), Logistic(), 9.0), {"centre_share": 0.1}, "constant column"),
    ],
)
def test_bad_input(problem: Problem, options: dict, why: str) -> None:
    with pytest.raises(DiscreetError, match=why):
        recipe(problem, Guarantee(1.0, 1e-6, ADD), **options)


def test_pure_privacy_is_refused() -> None:
    with pytest.raises(InvalidInput, match="pure DP"):
        recipe(Problem(RowSpec(5, 1.0), Logistic(), 9.0), Guarantee(1.0, 0.0, ADD))


def test_slopes_are_cut_below_their_own_bound_so_that_noise_composes_in_closed_form() -> None:
    """An option at or above the loss's own bound would ask for a numerical convolution at each try of a calibration."""
    problem = Problem(RowSpec(50, 1.0, 0.5), Logistic(), 5000.0)
    for asked in (1.2, math.inf):
        solver = recipe(problem, Guarantee(1.0, 1e-6, Unit("add-remove")), slope_bound=asked)
        assert solver.slope_bound < problem.rows.radius
        assert solver.slope_bound == pytest.approx(problem.rows.radius)
