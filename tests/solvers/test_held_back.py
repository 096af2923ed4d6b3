"""Under much noise defaults hold the model back, by public facts alone: a fit of nothing predicts nothing."""

import math

import numpy as np
import pytest

import discreet as dp
from discreet.calibration import Guarantee
from discreet.calibration.guarantee import rough_multiplier
from discreet.losses import Logistic, Squared
from discreet.rows import RowSpec
from discreet.solvers import Problem, descent, objective_perturbation, preconditioned
from discreet.units import Unit


def guarantee(eps, delta=1e-8):
    return Guarantee(eps, delta, Unit("add-remove"))


@pytest.mark.parametrize(
    ("columns", "n", "eps"), [(10, 100.0, 0.1), (5000, 100.0, 0.1), (10, 1e6, 8.0), (50, 1e6, 8.0)]
)
def test_regularisation_is_the_formula_of_the_docstring(columns, n, eps):
    """Where log det is free or next to nothing (a large λ, or the uncut logistic link), λ is λ₀ itself."""
    rows = RowSpec(columns, 1.0, 0.5)
    solver = objective_perturbation.default(Problem(rows, Logistic(), n), guarantee(eps))
    noise, bound = solver.noise_multiplier, min(solver.slope_bound, rows.radius)
    wide, share = noise * min((columns + 1) / n, 1.0), math.sqrt(min(columns + 1, n)) * noise / n
    factor = max(0.3 + 0.2 * math.sqrt(wide) + 3 * min((columns + 1) / n, 1.0), 4 * share)
    assert solver.regularisation == pytest.approx(noise * bound * rows.radius * factor, rel=0.05)


def test_gamma_noise_counts_by_coordinate():
    """Its length is about d scales, so a coordinate's is √d: 100 times the columns, 10 times the ridge against it."""
    few, many = (
        objective_perturbation.default(Problem(RowSpec(d, 1.0), Logistic(), 1e12), guarantee(1.0, 0.0))
        for d in (400, 40_000)
    )
    assert few.noise_multiplier == pytest.approx(many.noise_multiplier, rel=0.01)
    assert many.regularisation == pytest.approx(10 * few.regularisation, rel=0.05)


def test_newton_takes_fewer_steps_and_then_more_damping_as_noise_grows():
    problems = [Problem(RowSpec(100, 1.0, 0.5), Squared(), n) for n in (1e6, 3000.0, 100.0, 1.0)]
    solvers = [preconditioned.default(problem, guarantee(0.05)) for problem in problems]
    assert [s.iterations for s in solvers] == sorted((s.iterations for s in solvers), reverse=True)
    assert solvers[0].iterations > solvers[1].iterations > solvers[2].iterations
    assert solvers[0].damping == solvers[1].damping == 1.5 < solvers[3].damping
    asked = preconditioned.default(problems[3], guarantee(0.5), iterations=7, damping=2.0)
    assert (asked.iterations, asked.damping) == (7, 2.0)
    assert preconditioned.default(problems[2], guarantee(math.inf)).iterations == 8


@pytest.mark.parametrize(("delta", "eps"), [(1e-8, 0.1), (1e-8, 1.0), (1e-4, 8.0), (0.0, 1.0)])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_the_rough_multiplier_is_near_the_exact_one(delta, eps, relation):
    asked = Guarantee(eps, delta, Unit(relation))
    if delta:
        problem = Problem(RowSpec(3, 1.0), Squared(), 100.0)
        exact = descent.default(problem, asked, iterations=1).noise_multiplier
    else:
        exact = asked.unit.sensitivity(1.0) / eps
    assert 0.95 * exact < rough_multiplier(asked) < 1.4 * exact


@pytest.mark.parametrize(("n", "d"), [(300, 100), (60, 1500)])
def test_a_regression_on_nothing_predicts_the_middle(n, d):
    """Targets of mean 0 that no column explains. A fit to noise alone has R² far below 0; chance alone is ± 0.05."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(2 * n, d)) / math.sqrt(d)
    y = rng.choice([-0.5, 0.5], size=2 * n)
    y[:n] -= y[:n].mean()
    y[n:] -= y[n:].mean()
    scores = [
        dp.LinearRegression(0.1, delta=1e-6, row_norm=1.0, target_bounds=(-1, 1), random_state=seed)
        .fit(X[:n], y[:n])
        .score(X[n:], y[n:])
        for seed in range(5)
    ]
    assert np.mean(scores) > -0.25


def test_a_budget_that_buys_nothing_leaves_the_majority():
    """90 % of one class, columns that say nothing: predictions are not worse than the majority by more than 3 %."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(1200, 200)) / math.sqrt(200)
    y = np.arange(1200) % 10 == 0
    scores = [
        dp.LogisticRegression(0.2, delta=1e-6, row_norm=1.0, classes=[False, True], random_state=seed)
        .fit(X[:600], y[:600])
        .score(X[600:], y[600:])
        for seed in range(5)
    ]
    assert np.mean(scores) > 0.87
