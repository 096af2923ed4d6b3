"""The private Newton method: what it releases, and least squares over a set."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.geometry import L1Ball, L2Ball, SparseSet
from discreet.ledger import Ledger
from discreet.losses import Squared
from discreet.noise.bits import Bits
from discreet.recipes.preconditioned import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit
from discreet.vault import Vault


def rows_and_targets(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(n, 5))
    X[:, 1] = 0.7 * X[:, 0] + 0.3 * X[:, 1]
    return X, np.clip(X @ [0.4, 0.3, -0.3, 0.0, 0.0] + 0.05 * rng.normal(size=n), -1, 1)


def test_without_noise_it_is_least_squares_over_the_set():
    X, y = rows_and_targets(400)
    rows, domain = RowSpec(5, math.inf), L1Ball(0.6)
    problem = Problem(rows, Squared(), float(len(y)), domain)
    solver = recipe(problem, Guarantee(math.inf, 0.0, Unit("add-remove")))
    theta = Vault(in_memory(X, y, rows), Unit("add-remove"), Ledger(), Bits.seeded(0)).run(solver, problem)
    gradient = X.T @ (X @ theta - y) / len(y)
    assert np.abs(theta).sum() == pytest.approx(0.6, abs=1e-9)
    assert gradient @ (domain.linear_minimiser(gradient) - theta) > -1e-6


@pytest.mark.parametrize("domain", [L1Ball(0.6), SparseSet(2), L2Ball(0.3)], ids=str)
def test_with_noise_the_model_lies_in_the_set(domain):
    X, y = rows_and_targets(2000)
    rows, unit = RowSpec(5, math.sqrt(5)), Unit("replace-one")
    problem = Problem(rows, Squared(), 2000.0, domain)
    solver = recipe(problem, Guarantee(2.0, 1e-7, unit))
    theta = Vault(in_memory(X, y, rows), unit, Ledger(), Bits.seeded(0)).run(solver, problem)
    np.testing.assert_allclose(domain.project(theta), theta, atol=1e-9)
    assert np.mean((X @ theta - y) ** 2) < 0.7 * np.var(y)


@pytest.mark.parametrize("domain", [L1Ball(0.6), SparseSet(2)], ids=str)
def test_a_set_costs_no_privacy(domain):
    """The releases over a set are those without one, and so is the whole transcript up to the end."""
    X, y = rows_and_targets(300)
    rows, unit, guarantee = RowSpec(5, math.sqrt(5)), Unit("replace-one"), Guarantee(1.0, 1e-6, Unit("replace-one"))
    free, within = Problem(rows, Squared(), 300.0), Problem(rows, Squared(), 300.0, domain)
    solver = recipe(free, guarantee)
    assert recipe(within, guarantee) == solver
    assert rehearse(solver, within, unit) == rehearse(solver, free, unit)
    data = in_memory(X, y, rows)
    ends = []
    for problem in (free, within):
        steps, bits, answers = solver.steps(problem), Bits.seeded(7), []
        try:
            measurement = next(steps)
            while True:
                answers.append(measurement.sample(data, unit, bits))
                measurement = steps.send(answers[-1])
        except StopIteration as end:
            ends.append((answers, end.value))
    for one, other in zip(ends[0][0], ends[1][0], strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(domain.project(ends[1][1]), ends[1][1], atol=1e-9)
