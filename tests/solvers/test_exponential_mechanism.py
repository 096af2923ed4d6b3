"""The exponential mechanism over candidates: its noise, its twin, its risk, bad input."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.calibration import Guarantee
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.ledger import Ledger
from discreet.losses import Logistic, Squared
from discreet.noise import Bits
from discreet.recipes.exponential_mechanism import product_grid, recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.theory import exponential_mechanism
from discreet.units import Unit
from discreet.vault import Vault

ROWS = RowSpec(2, norm=1.0, intercept=0.5)


def test_the_noise_is_that_of_the_relation() -> None:
    problem = Problem(ROWS, Logistic(), 100)
    noise = {
        (relation, k): recipe(problem, Guarantee(1.0, 0.0, Unit(relation, k))).noise_multiplier  # type: ignore[arg-type]
        for relation in ("add-remove", "replace-one")
        for k in (1, 3)
    }
    assert noise["add-remove", 1] == pytest.approx(2.0)
    assert noise["replace-one", 1] == pytest.approx(4.0)
    assert noise["add-remove", 3] == pytest.approx(6.0)


def test_without_noise_it_is_the_best_candidate() -> None:
    rng = np.random.default_rng(2)
    X = rng.uniform(-0.6, 0.6, size=(500, 2))
    y = X @ [0.5, -0.25] + 0.1
    problem = Problem(ROWS, Squared(), 500)
    grid = product_grid([-1, -1, -1], [1, 1, 1], 9)
    solver = recipe(problem, Guarantee(math.inf, 0.0, Unit("replace-one")), candidates=grid)
    theta = Vault(in_memory(X, y, ROWS), Unit("replace-one"), Ledger(), Bits.secure()).run(solver, problem)
    risks = ((np.column_stack([X, np.full(500, 0.5)]) @ grid.T - y[:, None]) ** 2).sum(axis=0)
    assert (theta == grid[risks.argmin()]).all()
    assert theta.tolist() == [0.5, -0.25, 0.25]


def test_excess_risk_is_below_the_theorem() -> None:
    """Mean excess over 40 seeds against ln(m)/a; the mean's own error is far smaller than the slack seen."""
    rng = np.random.default_rng(3)
    n = 300
    X = rng.uniform(-0.6, 0.6, size=(n, 2))
    y = np.sign(X[:, 0] + 0.1)
    problem, unit = Problem(ROWS, Logistic(), n), Unit("replace-one")
    solver = recipe(problem, Guarantee(1.0, 0.0, unit), mechanism="exponential")
    assert len(solver.candidates) == 15**3
    data = in_memory(X, y, ROWS)
    risks = np.logaddexp(0, -y[:, None] * (np.column_stack([X, np.full(n, 0.5)]) @ solver.candidates.T)).mean(axis=0)
    found = [Vault(data, unit, Ledger(), Bits.seeded(seed)).run(solver, problem) for seed in range(40)]
    excess = np.mean([risks[(solver.candidates == theta).all(axis=1)][0] for theta in found]) - risks.min()
    rate = n / (solver.noise_multiplier * solver.loss_bound / 2)
    assert excess <= exponential_mechanism(candidates=len(risks), inverse_temperature=rate).value


def test_bad_input() -> None:
    problem, guarantee = Problem(ROWS, Logistic(), 10), Guarantee(1.0, 0.0, Unit("replace-one"))
    with pytest.raises(InvalidInput, match="ridge"):
        next(recipe(problem, guarantee).steps(Problem(ROWS, Logistic(), 10, ridge=1.0)))
