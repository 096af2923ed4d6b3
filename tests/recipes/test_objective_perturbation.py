"""Settings of objective perturbation: noise, regularisation and cuts from public facts."""

import math
from dataclasses import replace

import numpy as np
import pytest

import discreet as dp
from discreet.accounting import epsilon
from discreet.accounting.exact.objective_perturbation import objective_profile
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.events import PureDP, compose
from discreet.geometry import L2Ball
from discreet.ledger import Ledger
from discreet.losses import Huber, Logistic, SmoothedHinge, Softmax, Squared
from discreet.noise.bits import Bits
from discreet.recipes.objective_perturbation import recipe
from discreet.rows import RowSpec
from discreet.solvers.base import Problem
from discreet.units import Unit
from discreet.vault import Vault

ROWS = RowSpec(4, norm=1.0, intercept=0.5)


def problem(loss=Logistic(), n=1000.0, rows=ROWS, **kwargs):  # noqa: B008
    return Problem(rows, loss, n, **kwargs)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("loss", [Logistic(), SmoothedHinge(0.5), Huber(0.5), Squared(), Softmax(4)], ids=repr)
@pytest.mark.parametrize(("eps", "delta"), [(0.1, 1e-9), (1.0, 1e-6), (8.0, 1e-5), (0.1, 0.01), (1.0, 0.0)])
def test_default_keeps_the_guarantee_and_wastes_nothing(relation, loss, eps, delta):
    rows = RowSpec(4, 1.0, 0.5, outputs=4 if isinstance(loss, Softmax) else 1)
    unit = Unit(relation)
    asked = problem(loss, rows=rows)
    solver = recipe(asked, Guarantee(eps, delta, unit))
    (event,) = rehearse(solver, asked, unit)
    if delta == 0:
        assert isinstance(event, PureDP)
        assert eps * (1 - 1e-5) < event.epsilon <= eps
        return
    bound = float(objective_profile(event, unit)(np.array([eps]))[0])
    assert 0.99 * delta < bound <= delta
    assert epsilon(event, delta, relation).upper <= eps * (1 + 1e-6)


def test_logistic_noise_is_that_of_a_gaussian_release():
    """Uncut, λ by default is in the range where log det is free: noise within 2 % of the Gaussian mechanism's."""
    from discreet.accounting import calibrate
    from discreet.events import Gaussian

    for eps in (0.1, 1.0, 8.0):
        solver = recipe(problem(), Guarantee(eps, 1e-9, Unit("add-remove")), slope_bound=math.inf)
        assert solver.noise_multiplier < 1.02 * calibrate(Gaussian, eps, 1e-9, "add-remove")


def test_slopes_are_cut_under_much_noise_only():
    """Cut at a half, the tilt is at most 0.6 times as large although log det now counts; under little noise, uncut."""
    asked, radius = problem(), problem().rows.radius
    for eps in (0.1, 0.25):
        noisy, uncut = (
            recipe(asked, Guarantee(eps, 1e-9, Unit("add-remove")), slope_bound=bound) for bound in (None, math.inf)
        )
        assert noisy.slope_bound == 0.5 * radius
        assert noisy.noise_multiplier * noisy.slope_bound < 0.6 * uncut.noise_multiplier * radius
    many = Problem(asked.rows, asked.loss, 1e7)
    assert recipe(many, Guarantee(1.0, 1e-9, Unit("add-remove"))).slope_bound == math.inf


@pytest.mark.parametrize("seed", range(4))
def test_a_cut_is_not_made_where_it_costs_several_times_the_noise_it_saves(seed):
    """Unit rows at d·ν/n = 0.03: the default has less than half of the excess of a model with cut slopes.

    The cut loss has another minimiser, whose excess (about 0.01) does not fall with n. It was made from 0.02 on.
    """
    rng = np.random.default_rng(seed)
    rows, unit = RowSpec(5, 1.0, 0.5), Unit("add-remove")
    X = np.tile(np.eye(5), (500, 1))
    y = np.where(X @ rng.uniform(-1.5, 1.5, 5) + rng.logistic(size=2500) > 0, 1.0, -1.0)
    asked, data = Problem(rows, Logistic(), 2500.0), in_memory(X, y, rows)

    def risk(solver, runs):
        loss = 0.0
        for k in range(runs):
            theta = Vault(data, unit, Ledger(), Bits.seeded(10 * seed + k)).run(solver, asked)
            loss += float(np.logaddexp(0, -y * (X @ theta[:5] + 0.5 * theta[5])).mean()) / runs
        return loss

    target = Guarantee(0.6, 1e-6, unit)
    least = risk(recipe(asked, Guarantee(math.inf, 0.0, unit), regularisation=1e-6), 1)
    usual, cut = (risk(recipe(asked, target, slope_bound=bound), 8) - least for bound in (None, 0.5 * rows.radius))
    assert 0 < usual < cut / 2


def guarantee(eps, delta=1e-8):
    return Guarantee(eps, delta, Unit("add-remove"))


@pytest.mark.parametrize(
    ("columns", "n", "eps"), [(10, 100.0, 0.1), (5000, 100.0, 0.1), (10, 1e6, 8.0), (50, 1e6, 8.0)]
)
def test_regularisation_is_the_formula_of_the_docstring(columns, n, eps):
    """Where log det is free or next to nothing (a large λ, or the uncut logistic link), λ is λ₀ itself."""
    rows = RowSpec(columns, 1.0, 0.5)
    solver = recipe(Problem(rows, Logistic(), n), guarantee(eps))
    noise, bound = solver.noise_multiplier, min(solver.slope_bound, rows.radius)
    wide, share = noise * min((columns + 1) / n, 1.0), math.sqrt(min(columns + 1, n)) * noise / n
    factor = max(0.3 + 0.2 * math.sqrt(wide) + 3 * min((columns + 1) / n, 1.0), 4 * share)
    assert solver.regularisation == pytest.approx(noise * bound * rows.radius * factor, rel=0.05)


def test_gamma_noise_counts_by_coordinate():
    """Its length is about d scales, so a coordinate's is √d: 100 times the columns, 10 times the ridge against it."""
    few, many = (recipe(Problem(RowSpec(d, 1.0), Logistic(), 1e12), guarantee(1.0, 0.0)) for d in (400, 40_000))
    assert few.noise_multiplier == pytest.approx(many.noise_multiplier, rel=0.01)
    assert many.regularisation == pytest.approx(10 * few.regularisation, rel=0.05)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("eps", [0.1, 1.0])
def test_the_sum_of_labels_is_paid_for(relation, eps):
    """A tenth of the budget goes to the labels, and both releases together keep the guarantee."""
    asked, unit = problem(), Unit(relation)
    solver = recipe(asked, Guarantee(eps, 1e-6, unit), label_share=0.1)
    plan = rehearse(solver, asked, unit)
    assert len(plan) == 2
    assert solver.noise_multiplier / solver.label_multiplier == pytest.approx(1 / 3)  # √(0.1/0.9)
    spent = epsilon(compose(plan), 1e-6, relation)
    assert 0.98 * eps < spent.upper <= eps * (1 + 1e-6)
    less = replace(solver, label_multiplier=solver.label_multiplier / 2)
    assert epsilon(compose(rehearse(less, asked, unit)), 1e-6, relation).upper > 1.05 * eps


def test_labels_are_summed_only_where_asked_for_and_the_offset_is_free():
    unit = Unit("add-remove")
    loud = Guarantee(0.1, 1e-6, unit)
    assert recipe(problem(), loud).label_multiplier == 0
    for asked in (
        problem(rows=RowSpec(4, 1.0)),
        problem(ridge=0.1),
        problem(domain=L2Ball(1.0)),
        problem(SmoothedHinge(0.5)),
    ):
        with pytest.raises(InvalidInput, match="share of a class"):
            recipe(asked, loud, label_share=0.1)


def test_classes_without_privacy_have_finite_minimisers():
    """Two rows of one class in a cell of their own: certain without a ridge; with it, odds of a few to one."""
    exact = Guarantee(math.inf, 0.0, Unit("add-remove"))
    assert recipe(problem(), exact).regularisation == pytest.approx(1.25 / 25)  # (radius/5)²
    for asked in (problem(ridge=0.1), problem(domain=L2Ball(1.0)), problem(Huber(0.5))):
        assert recipe(asked, exact).regularisation == 0
    assert recipe(problem(), exact, regularisation=0.0).regularisation == 0
    X, y = np.repeat(np.eye(2), [40, 2], axis=0), np.array([0, 1] * 20 + [1, 1])
    odds = [
        dp.LogisticRegression(
            math.inf, classes=[0, 1], row_norm=1.0, solver="objective_perturbation", solver_options=options
        )
        .fit(X, y)
        .decision_function([[0.0, 1.0]])[0]
        for options in (None, {"regularisation": 0.0})
    ]
    assert 1 < odds[0] < 4 < 10 < odds[1]
