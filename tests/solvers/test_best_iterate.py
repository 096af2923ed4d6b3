"""Where descents start, and the best point of their path."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression as Public

import discreet as dp
from discreet.accounting import epsilon
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.events import Gaussian, Selection, compose
from discreet.geometry import Box, L2Ball, Simplex
from discreet.ledger import Ledger
from discreet.losses import Logistic, Squared
from discreet.noise.bits import Bits
from discreet.recipes.descent import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.best_iterate import BestIterate
from discreet.solvers.descent import Descent
from discreet.units import Unit
from discreet.updates import Sgd
from discreet.vault import Vault

ADD, REPLACE = Unit("add-remove"), Unit("replace-one")
ROWS = RowSpec(3, 1.0)
RNG = np.random.default_rng(0)
X = RNG.uniform(-0.5, 0.5, (200, 3))
Y = np.clip(X @ [0.8, -0.4, 0.2], -1, 1)


@pytest.mark.parametrize("domain", [Box(1.0, 2.0), Simplex(1.0), L2Ball(1.0)], ids=lambda d: type(d).__name__)
def test_a_descent_starts_inside_its_set(domain):
    problem = Problem(ROWS, Squared(), 200.0, domain)
    first = next(Descent(1.0, 2, 1.0, Sgd(0.1)).steps(problem)).query.theta
    assert domain.contains(first)
    given = Problem(ROWS, Squared(), 200.0, domain, initial=np.full(3, 5.0))
    assert domain.contains(given.start)
    assert np.array_equal(given.start, domain.project(np.full(3, 5.0)))
    assert given.start is not given.start  # a solver may write into what it is given


def test_a_start_that_does_not_fit_is_refused():
    for initial in (np.zeros(2), np.array([0.0, np.nan, 0.0])):
        with pytest.raises(InvalidInput, match="start"):
            Problem(ROWS, Squared(), 200.0, initial=initial)


@pytest.mark.parametrize("unit", [ADD, REPLACE], ids=str)
def test_the_choice_is_charged(unit):
    problem = Problem(ROWS, Logistic(), 200.0)
    solver = recipe(problem, Guarantee(1.0, 1e-6, unit), iterate="best", iterations=20)
    events = rehearse(solver, problem, unit)
    assert [type(event) for event in events] == [Gaussian] * 20 + [Selection]
    assert 0.9 < epsilon(compose(events), 1e-6, unit).upper <= 1.0
    plain = recipe(problem, Guarantee(1.0, 1e-6, unit), iterations=20)
    assert solver.descent.noise_multiplier > plain.noise_multiplier
    with pytest.raises(InvalidInput, match="full batches"):
        recipe(problem, Guarantee(1.0, 1e-6, unit), iterate="best", rate=0.5)


def test_without_noise_the_best_of_the_path_is_chosen():
    """Steps that are far too long leave the minimiser; the best candidate is then the start."""
    problem = Problem(ROWS, Squared(), 200.0, initial=np.array([0.8, -0.4, 0.2]))
    data = in_memory(X, np.clip(Y + RNG.normal(size=200) * 0.1, -1, 1), ROWS)
    wild = Descent(0.0, 8, math.inf, Sgd(50.0), iterate="last")
    found = [Vault(data, ADD, Ledger(), Bits.seeded(0)).run(s, problem) for s in (wild, BestIterate(wild, 0.0, 3.0))]
    assert np.linalg.norm(found[0]) > 100
    assert np.array_equal(found[1], problem.start)


def test_a_public_model_is_a_start_in_the_user_s_units():
    """So few rows and so small an ε that descent learns nothing: what it returns is the public model or near it.

    The choice prefers the start to the noise by hundreds of scales, so it fails with probability below 1e-9.
    """
    rng = np.random.default_rng(2)
    rows = rng.uniform(-1, 1, (4000, 2))
    y = 50 + 10 * rows[:, 0] - 5 * rows[:, 1]
    public = Public().fit(rows[:500], y[:500])
    facts = {"row_norm": 2**0.5, "target_bounds": (0.0, 100.0), "solver": "descent", "random_state": 0}
    options = {"start": public, "iterate": "best"}
    warm = dp.LinearRegression(1.0, 1e-6, solver_options=options, **facts).fit(rows, y)
    cold = dp.LinearRegression(1.0, 1e-6, solver_options={"iterations": 1}, **facts).fit(rows, y)
    assert np.abs(warm.predict(rows) - y).mean() < 1.5 < np.abs(cold.predict(rows) - y).mean()
    with pytest.raises(InvalidInput, match="no effect"):
        dp.LinearRegression(1.0, 1e-6, **facts | {"solver": "sufficient_statistics"}, solver_options=options).fit(
            rows, y
        )
    with pytest.raises(InvalidInput, match="linear model"):
        dp.LinearRegression(1.0, 1e-6, solver_options={"start": 3.0}, **facts).fit(rows, y)


def test_the_clip_is_the_largest_slope_over_the_set():
    """Logistic slopes at scores within ±½ are at most 1/(1 + e^−½) = 0.62."""
    guarantee = Guarantee(1.0, 1e-6, ADD)
    small, free = (Problem(ROWS, Logistic(), 200.0, *domain) for domain in ((L2Ball(0.5),), ()))
    assert recipe(small, guarantee).clip == pytest.approx(1 / (1 + math.exp(-0.5)))
    assert recipe(free, guarantee).clip == 1.0
