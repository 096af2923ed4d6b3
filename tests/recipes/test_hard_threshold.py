"""Settings of hard thresholding: what they spend, how many steps they take, what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.solvers.test_hard_threshold import planted, run

from discreet.accounting import epsilon
from discreet.accounting.upper.classical import zcdp_epsilon_upper
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.errors import InvalidInput
from discreet.events import compose
from discreet.losses import Logistic, Quantile, Squared
from discreet.recipes.hard_threshold import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit

ADD_REMOVE, REPLACE_ONE = Unit("add-remove"), Unit("replace-one")


@pytest.mark.parametrize("unit", [ADD_REMOVE, REPLACE_ONE, Unit("add-remove", 3)], ids=str)
@pytest.mark.parametrize("peel", [True, False])
def test_defaults_keep_the_guarantee_and_waste_little(unit, peel):
    problem = Problem(RowSpec(50, 5.0), Logistic(), 3000.0)
    solver = recipe(problem, Guarantee(0.7, 1e-6, unit), sparsity=4, peel=peel, entry_bound=1.0)
    plan = compose(rehearse(solver, problem, unit))
    if peel:
        assert 0.699 < zcdp_epsilon_upper(plan, 1e-6, unit) <= 0.7
    else:
        assert 0.699 < epsilon(plan, 1e-6, unit).upper <= 0.7
    assert math.ceil(math.log(3000)) <= solver.iterations <= math.ceil(8 * math.log(3000))


def test_steps_grow_with_the_condition_number_as_far_as_noise_allows():
    """Rows of 50 entries within ±1 and s = 4: smoothness 8 along sparse directions, least curvature at most 1."""
    rows = RowSpec(50, math.sqrt(50))
    options = {"sparsity": 4, "peel": True, "entry_bound": 1.0}

    def steps(n, epsilon, **more):
        problem = Problem(rows, Squared(), n)
        solver = recipe(problem, Guarantee(epsilon, 1e-6, ADD_REMOVE), **options, **more)
        return solver.iterations

    assert steps(1e5, 4.0) == math.ceil(8 * math.log(1e5))
    assert steps(1e5, 4.0, smoothness=1.0) == math.ceil(math.log(1e5))
    assert steps(1e3, 0.1) == math.ceil(math.log(1e3))  # more would be noise
    assert math.ceil(math.log(3000)) < steps(3e3, 1.0) < math.ceil(8 * math.log(3000))


def test_many_short_steps_find_what_few_do_not():
    """Worst-case steps of 1/2s = 1/12: 2·ln n = 20 of them leave (11/12)^20 = 0.18 of each coefficient."""
    X, y, truth = planted(20_000, 30, 3)
    rows = RowSpec(30, math.sqrt(30))
    problem, guarantee = Problem(rows, Squared(), 20_000.0), Guarantee(1.0, 1e-6, ADD_REMOVE)
    options = {"sparsity": 6, "peel": True, "entry_bound": 1.0}
    errors = [
        np.linalg.norm(run(recipe(problem, guarantee, **options, **more), X, y, rows) - truth)
        for more in ({}, {"iterations": math.ceil(2 * math.log(20_000))})
    ]
    assert errors[0] < 0.25 * errors[1]


def test_a_declared_condition_number_gives_longer_steps_and_never_shorter_ones():
    problem, guarantee = Problem(RowSpec(50, 5.0), Squared(), 3000.0), Guarantee(1.0, 1e-6, ADD_REMOVE)
    options = {"sparsity": 10, "entry_bound": 1.0}
    plain, better, vague = (
        recipe(problem, guarantee, condition=condition, **options) for condition in (None, 4.0, 1e6)
    )
    assert plain.step == vague.step == 1 / 20  # 2s·entry_bound² < r² = 25
    assert better.step == 1 / (4 * 0.5)  # r²/d = ½ < entry_bound²
    # the claim behind it: the least eigenvalue of any Hessian with such rows is at most r²/d and at most 1
    rng = np.random.default_rng(0)
    for _ in range(50):
        X = rng.uniform(-1, 1, (60, 50)) * (rng.random(50) < 0.9)
        X *= np.minimum(1.0, 5.0 / np.linalg.norm(X, axis=1, keepdims=True))
        values = np.linalg.eigvalsh(X.T @ X / 60)
        assert values[0] <= 0.5
    for more in ({"condition": 0.5}, {"condition": 4.0, "smoothness": 1.0}):
        with pytest.raises(InvalidInput, match="condition"):
            recipe(problem, guarantee, **options, **more)


def test_bad_input():
    rows = RowSpec(3, 1.0)
    problem = Problem(rows, Squared(), 10.0)
    guarantee = Guarantee(1.0, 1e-6, ADD_REMOVE)
    with pytest.raises(InvalidInput, match="smoothness"):
        recipe(Problem(rows, Quantile(0.5), 10.0), guarantee, sparsity=2)
    with pytest.raises(InvalidInput, match="without a bound"):
        recipe(Problem(RowSpec(3, math.inf), Squared(), 10.0), guarantee, sparsity=2)
    with pytest.raises(InvalidInput, match="target_bound"):
        recipe(problem, guarantee, sparsity=2, target_bound=-1.0)
    with pytest.raises(InvalidInput, match="pure DP"):
        recipe(problem, Guarantee(1.0, 0.0, ADD_REMOVE), sparsity=2, peel=True)
