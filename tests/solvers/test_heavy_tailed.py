"""Heavy-tailed regression: heavy tails are cut, and one bad row costs one row."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from discreet import events, theory
from discreet.accounting import epsilon
from discreet.accounting.classical import zcdp_epsilon_upper
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.events import compose
from discreet.ledger import Ledger
from discreet.losses import Logistic, Squared
from discreet.mechanisms import LaplacePeeling, Peeling
from discreet.noise.bits import Bits
from discreet.rows import RowSpec
from discreet.solvers import Problem, heavy_tailed
from discreet.solvers.heavy_tailed import HeavyTailed
from discreet.units import Unit
from discreet.vault import Vault

ADD_REMOVE, REPLACE_ONE = Unit("add-remove"), Unit("replace-one")
ROWS = RowSpec(1, 1.0)


def heavy(n, d, s, seed=0):
    """Student-t features with 5 degrees of freedom (infinite sixth moment), unit variance, and heavy noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(5, (n, d)) / math.sqrt(5 / 3)
    theta = np.zeros(d)
    theta[:s] = rng.choice([-1.0, 1.0], s) * 0.5
    return X, X @ theta + 0.3 * rng.standard_t(5, n), theta


def run(solver, X, y, *, unit=ADD_REMOVE, seed=0):
    rows = RowSpec(X.shape[1], math.inf)
    problem = Problem(rows, Squared(), float(len(y)))
    return Vault(in_memory(X, y, rows), unit, Ledger(), Bits.seeded(seed)).run(solver, problem)


def test_the_twin_without_noise_takes_one_gradient_step_on_each_part():
    X, y, truth = heavy(3000, 10, 2)
    solver = HeavyTailed(Peeling(2, 0.0, 0.0), 12, math.inf, 0.5, 5.0)
    theta = run(solver, X, y, unit=REPLACE_ONE)
    assert np.flatnonzero(theta).tolist() == [0, 1]
    np.testing.assert_allclose(theta[:2], truth[:2], atol=0.15)
    # with one part it is one step of hard thresholding on all rows, in closed form
    once = run(HeavyTailed(Peeling(2, 0.0, 0.0), 1, math.inf, 0.5, 5.0), X, y)
    gradient = -0.5 * (X.T @ -y) / len(y)
    expected = np.where(np.abs(gradient) >= np.sort(np.abs(gradient))[-2], gradient, 0.0)
    np.testing.assert_allclose(once, expected, atol=1e-6)


@pytest.mark.parametrize("unit", [ADD_REMOVE, REPLACE_ONE], ids=str)
def test_private_regression_finds_the_support_under_heavy_tails(unit):
    X, y, truth = heavy(60_000, 50, 2)
    X[0], y[1] = 1e300, -1e300  # rows that would move any unbounded sum
    problem = Problem(RowSpec(50, math.inf), Squared(), 60_000.0)
    solver = heavy_tailed.default(
        problem, Guarantee(2.0, 1e-6, unit), sparsity=2, radius=3.0, step=0.5, entry_bound=4.0
    )
    theta = run(solver, X, y, unit=unit)
    assert np.flatnonzero(theta).tolist() == [0, 1]
    assert np.linalg.norm(theta - truth) < 0.3 * np.linalg.norm(truth)


def test_defaults_keep_the_guarantee_with_one_part_s_cost():
    problem = Problem(RowSpec(200, math.inf), Squared(), 10_000.0)
    solver = heavy_tailed.default(problem, Guarantee(0.8, 1e-6, REPLACE_ONE), sparsity=5, radius=2.0)
    assert solver.parts == math.ceil(math.log(10_000))
    plan = compose(rehearse(solver, problem, REPLACE_ONE))
    assert isinstance(plan, events.Parallel)
    assert len(plan.events) == solver.parts
    assert 0.799 < zcdp_epsilon_upper(plan, 1e-6, REPLACE_ONE) <= 0.8
    dearer = heavy_tailed.default(problem, Guarantee(0.8, 1e-6, Unit("replace-one", 2)), sparsity=5, radius=2.0)
    assert dearer.peeling.noise_multiplier > 2 * math.sqrt(solver.parts) * 0.99 * solver.peeling.noise_multiplier


def test_shrinkage_and_step_are_those_of_the_error_bound():
    """The default K has the least bound of all K within a twentieth; the default step contracts on Gaussian columns."""
    n, d, s, moment = 1e6, 200, 5, 3.0
    problem = Problem(RowSpec(d, math.inf), Squared(), n)
    for epsilon_ in (0.3, 1.0, 8.0):
        solver = heavy_tailed.default(
            problem, Guarantee(epsilon_, 1e-6, ADD_REMOVE), sparsity=s, radius=1.0, moment=moment
        )
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
    declared = heavy_tailed.default(
        problem, Guarantee(1.0, 1e-6, ADD_REMOVE), sparsity=s, radius=1.0, moment=moment, smoothness=0.8
    )
    assert declared.step == 1 / 0.8


def test_without_privacy_nothing_is_shrunk():
    problem = Problem(RowSpec(20, math.inf), Squared(), 1000.0)
    solver = heavy_tailed.default(problem, Guarantee(math.inf, 0.0, ADD_REMOVE), sparsity=2, radius=1.0)
    assert solver.entry_bound == math.inf


@pytest.mark.parametrize(("eps", "delta", "s"), [(0.5, 1e-6, 10), (2.0, 0.05, 3), (1.0, 0.0, 2)])
def test_laplace_noise_is_the_accountant_s_for_every_guarantee(eps, delta, s):
    """Also for pure DP, and without the hypotheses of the printed scale."""
    problem = Problem(RowSpec(200, math.inf), Squared(), 10_000.0)
    for unit in (ADD_REMOVE, REPLACE_ONE, Unit("add-remove", 2)):
        solver = heavy_tailed.default(
            problem, Guarantee(eps, delta, unit), sparsity=s, radius=2.0, mechanism="laplace", parts=3
        )
        assert isinstance(solver.peeling, LaplacePeeling)
        plan = compose(rehearse(solver, problem, unit))
        assert 0.9999 * eps < epsilon(plan, delta, unit).upper <= eps
    free = Guarantee(math.inf, 0.0, ADD_REMOVE)
    quiet = heavy_tailed.default(problem, free, sparsity=s, radius=2.0, mechanism="laplace")
    assert quiet.peeling == LaplacePeeling(s, 0.0)
    assert quiet.entry_bound == math.inf


def test_pure_privacy_takes_laplace_noise_unless_it_is_told_otherwise():
    problem = Problem(RowSpec(3, math.inf), Squared(), 100.0)
    pure = Guarantee(1.0, 0.0, ADD_REMOVE)
    solver = heavy_tailed.default(problem, pure, sparsity=2)
    assert isinstance(solver.peeling, LaplacePeeling)
    assert epsilon(compose(rehearse(solver, problem, ADD_REMOVE)), 0.0, ADD_REMOVE).upper <= 1.0
    assert isinstance(heavy_tailed.default(problem, Guarantee(1.0, 1e-6, ADD_REMOVE), sparsity=2).peeling, Peeling)
    with pytest.raises(InvalidInput, match="mechanism='laplace'"):
        heavy_tailed.default(problem, pure, sparsity=2, mechanism="gumbel")


def test_bad_input():
    problem = Problem(RowSpec(3, math.inf), Squared(), 10.0)
    guarantee = Guarantee(1.0, 1e-6, ADD_REMOVE)
    with pytest.raises(InvalidInput, match="squared loss"):
        rehearse(HeavyTailed(Peeling(2, 1.0, 1.0), 2, 1.0, 1.0, 1.0), Problem(ROWS, Logistic(), 10.0), ADD_REMOVE)
    with pytest.raises(InvalidInput, match="hard_threshold"):  # before a sparsity is asked for
        heavy_tailed.default(Problem(ROWS, Logistic(), 10.0), guarantee)
    with pytest.raises(InvalidInput, match="step"):
        HeavyTailed(Peeling(2, 1.0, 1.0), 2, 1.0, 0.0, 1.0)
    with pytest.raises(InvalidInput, match="moment"):
        heavy_tailed.default(problem, guarantee, sparsity=2, radius=1.0, moment=0.0)
    with pytest.raises(InvalidInput, match="smoothness"):
        heavy_tailed.default(problem, guarantee, sparsity=2, radius=1.0, smoothness=-1.0)
    with pytest.raises(InvalidInput, match="mechanism"):
        heavy_tailed.default(problem, guarantee, sparsity=2, radius=1.0, mechanism="gauss")
    with pytest.raises(InvalidInput, match="needs a sparsity"):
        heavy_tailed.default(problem, guarantee)
    with pytest.raises(TypeError):
        heavy_tailed.default(problem, guarantee, sparsity=2, radius=1.0, wrong=1)


@pytest.mark.parametrize("given", [{"step": 0.1, "smoothness": 1.0}, {"step": 0.1, "entry_bound": 1.0, "moment": 3.0}])
def test_what_would_have_no_effect_is_refused(given) -> None:
    problem, guarantee = Problem(RowSpec(4, math.inf), Squared(), 100.0), Guarantee(1.0, 1e-6, ADD_REMOVE)
    settled = dict(list(given.items())[:-1])
    heavy_tailed.default(problem, guarantee, sparsity=2, radius=1.0, **settled)
    with pytest.raises(InvalidInput, match=list(given)[-1]):
        heavy_tailed.default(problem, guarantee, sparsity=2, radius=1.0, **given)
