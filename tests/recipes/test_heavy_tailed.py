"""Settings of heavy-tailed regression: what they spend, how far they are those of the error bound, what is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from discreet import events, theory
from discreet.accounting import epsilon
from discreet.accounting.upper.classical import zcdp_epsilon_upper
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.events import compose
from discreet.losses import Logistic, Squared
from discreet.mechanisms import LaplacePeeling, Peeling
from discreet.recipes.heavy_tailed import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit

ADD_REMOVE, REPLACE_ONE = Unit("add-remove"), Unit("replace-one")


def test_defaults_keep_the_guarantee_with_one_part_s_cost():
    problem = Problem(RowSpec(200, math.inf), Squared(), 10_000.0)
    solver = recipe(problem, Guarantee(0.8, 1e-6, REPLACE_ONE), sparsity=5, radius=2.0)
    assert solver.parts == math.ceil(math.log(10_000))
    plan = compose(rehearse(solver, problem, REPLACE_ONE))
    assert isinstance(plan, events.Parallel)
    assert len(plan.events) == solver.parts
    assert 0.799 < zcdp_epsilon_upper(plan, 1e-6, REPLACE_ONE) <= 0.8
    dearer = recipe(problem, Guarantee(0.8, 1e-6, Unit("replace-one", 2)), sparsity=5, radius=2.0)
    assert dearer.peeling.noise_multiplier > 2 * math.sqrt(solver.parts) * 0.99 * solver.peeling.noise_multiplier


def test_shrinkage_and_step_are_those_of_the_error_bound():
    """The default K has the least bound of all K within a twentieth; the default step contracts on Gaussian columns."""
    n, d, s, moment = 1e6, 200, 5, 3.0
    problem = Problem(RowSpec(d, math.inf), Squared(), n)
    for epsilon_ in (0.3, 1.0, 8.0):
        solver = recipe(problem, Guarantee(epsilon_, 1e-6, ADD_REMOVE), sparsity=s, radius=1.0, moment=moment)
        assert solver.step == pytest.approx(1 / math.sqrt(3))

        def bound(entry_bound, solver=solver):
            return theory.heavy_tailed(
                distance=1.0,
                s=s,
                target_sparsity=s,
                d=d,
                strong_convexity=1.0,  # variance 1 and kurtosis 3
                smoothness=1.0,
                step=solver.step,
                parts=solver.parts,
                rows=n / solver.parts,
                moment=moment,
                entry_bound=entry_bound,
                radius=1.0,
                selection_multiplier=solver.peeling.selection_multiplier,
                value_multiplier=solver.peeling.noise_multiplier,
            ).value

        chosen = bound(solver.entry_bound)
        assert chosen < 1.05 * min(bound(solver.entry_bound * 1.1**k) for k in range(-20, 21))
        assert chosen < 0.8 * min(bound(solver.entry_bound / 2), bound(solver.entry_bound * 2))
        with pytest.raises(HypothesisViolated, match="contraction"):
            bound(solver.entry_bound, replace(solver, step=solver.step / 2))
    declared = recipe(problem, Guarantee(1.0, 1e-6, ADD_REMOVE), sparsity=s, radius=1.0, moment=moment, smoothness=0.8)
    assert declared.step == 1 / 0.8


@pytest.mark.parametrize("unit", [ADD_REMOVE, REPLACE_ONE, Unit("replace-one", 2)], ids=str)
def test_scales_are_found_with_a_share_of_the_budget_where_nothing_is_declared(unit):
    """The searches for scales see all rows, and are charged beside the parts, whose costs do not add up."""
    problem = Problem(RowSpec(200, 20.0, 10.0), Squared(), 10_000.0)
    solver = recipe(problem, Guarantee(0.8, 1e-6, unit), sparsity=5)
    plan = compose(rehearse(solver, problem, unit))
    assert 0.799 < zcdp_epsilon_upper(plan, 1e-6, unit) <= 0.8
    searches = replace(solver, peeling=Peeling(5, 1e9, 1e9))
    alone = zcdp_epsilon_upper(compose(rehearse(searches, problem, unit)), 1e-6, unit)
    assert 0.01 < alone < 0.3
    free = recipe(problem, Guarantee(math.inf, 0.0, unit), sparsity=5)
    assert (free.entry_bound, free.slope_bound, free.scale_multiplier) == (math.inf, math.inf, 0.0)
    assert recipe(problem, Guarantee(0.8, 1e-6, unit), sparsity=5, moment=3.0).scale_multiplier is None
    assert recipe(problem, Guarantee(0.8, 0.0, unit), sparsity=5).scale_multiplier is None


def test_without_privacy_nothing_is_shrunk():
    problem = Problem(RowSpec(20, math.inf), Squared(), 1000.0)
    solver = recipe(problem, Guarantee(math.inf, 0.0, ADD_REMOVE), sparsity=2, radius=1.0)
    assert solver.entry_bound == math.inf


@pytest.mark.parametrize(("eps", "delta", "s"), [(0.5, 1e-6, 10), (2.0, 0.05, 3), (1.0, 0.0, 2)])
def test_laplace_noise_is_the_accountant_s_for_every_guarantee(eps, delta, s):
    """Also for pure DP, and without the hypotheses of the printed scale."""
    problem = Problem(RowSpec(200, math.inf), Squared(), 10_000.0)
    for unit in (ADD_REMOVE, REPLACE_ONE, Unit("add-remove", 2)):
        solver = recipe(problem, Guarantee(eps, delta, unit), sparsity=s, radius=2.0, mechanism="laplace", parts=3)
        assert isinstance(solver.peeling, LaplacePeeling)
        plan = compose(rehearse(solver, problem, unit))
        assert 0.9999 * eps < epsilon(plan, delta, unit).upper <= eps
    free = Guarantee(math.inf, 0.0, ADD_REMOVE)
    quiet = recipe(problem, free, sparsity=s, radius=2.0, mechanism="laplace")
    assert quiet.peeling == LaplacePeeling(s, 0.0)
    assert quiet.entry_bound == math.inf


def test_pure_privacy_takes_laplace_noise_unless_it_is_told_otherwise():
    problem = Problem(RowSpec(3, math.inf), Squared(), 100.0)
    pure = Guarantee(1.0, 0.0, ADD_REMOVE)
    solver = recipe(problem, pure, sparsity=2)
    assert isinstance(solver.peeling, LaplacePeeling)
    assert epsilon(compose(rehearse(solver, problem, ADD_REMOVE)), 0.0, ADD_REMOVE).upper <= 1.0
    assert isinstance(recipe(problem, Guarantee(1.0, 1e-6, ADD_REMOVE), sparsity=2).peeling, Peeling)
    with pytest.raises(InvalidInput, match="mechanism='laplace'"):
        recipe(problem, pure, sparsity=2, mechanism="gumbel")


ROWS = RowSpec(1, 1.0)


def test_bad_input():
    problem = Problem(RowSpec(3, math.inf), Squared(), 10.0)
    guarantee = Guarantee(1.0, 1e-6, ADD_REMOVE)
    with pytest.raises(InvalidInput, match="hard_threshold"):  # before a sparsity is asked for
        recipe(Problem(ROWS, Logistic(), 10.0), guarantee)
    with pytest.raises(InvalidInput, match="moment"):
        recipe(problem, guarantee, sparsity=2, radius=1.0, moment=0.0)
    with pytest.raises(InvalidInput, match="smoothness"):
        recipe(problem, guarantee, sparsity=2, radius=1.0, smoothness=-1.0)
    with pytest.raises(InvalidInput, match="mechanism"):
        recipe(problem, guarantee, sparsity=2, radius=1.0, mechanism="gauss")
    with pytest.raises(InvalidInput, match="needs a sparsity"):
        recipe(problem, guarantee)
    with pytest.raises(TypeError):
        recipe(problem, guarantee, sparsity=2, radius=1.0, wrong=1)


@pytest.mark.parametrize("given", [{"step": 0.1, "smoothness": 1.0}, {"step": 0.1, "entry_bound": 1.0, "moment": 3.0}])
def test_what_would_have_no_effect_is_refused(given) -> None:
    problem, guarantee = Problem(RowSpec(4, math.inf), Squared(), 100.0), Guarantee(1.0, 1e-6, ADD_REMOVE)
    settled = dict(list(given.items())[:-1])
    recipe(problem, guarantee, sparsity=2, radius=1.0, **settled)
    with pytest.raises(InvalidInput, match=list(given)[-1]):
        recipe(problem, guarantee, sparsity=2, radius=1.0, **given)
