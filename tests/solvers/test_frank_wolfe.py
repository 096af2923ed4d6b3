"""Private Frank–Wolfe: its plan, its laws, its twin without noise, its risk against its theorem."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.linear_model import Lasso

from discreet import events
from discreet.calibration.guarantee import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.geometry import GroupInfL1Ball, L1Ball, L2Ball, Polytope, Simplex
from discreet.geometry.base import Geometry
from discreet.ledger import Ledger
from discreet.losses import Logistic, Squared
from discreet.noise.bits import Bits
from discreet.recipes.frank_wolfe import recipe
from discreet.rows import RowSpec
from discreet.solvers.base import Problem
from discreet.solvers.frank_wolfe import FrankWolfe
from discreet.units import Relation, Unit
from discreet.vault import Vault

Floats = NDArray[np.float64]


def run(solver: FrankWolfe, problem: Problem, X: object, y: Floats, seed: int = 0, unit: str = "add-remove") -> Floats:
    data = in_memory(X, y, problem.rows)
    return Vault(data, Unit(unit), Ledger(), Bits.seeded(seed)).run(solver, problem)  # type: ignore[arg-type]


def logistic_sample(n: int, d: int, seed: int = 0) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    truth = np.zeros(d)
    truth[:2] = [3.0, -2.0]
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-X @ truth)), 1.0, -1.0)


# Plan


def test_4096_steps_are_as_good_as_more() -> None:
    """Correlated columns and no noise, where more steps only help: at most a thousandth of what is explained is gained.

    ``bench/defaults.py`` has more kinds of columns.
    """
    rng = np.random.default_rng(0)
    X = np.clip((rng.normal(size=(300, 4)) @ rng.normal(size=(4, 40)) + rng.normal(size=(300, 40))) / 5, -1, 1)
    y = X[:, :5] @ [0.2, -0.2, 0.1, 0.1, -0.1] + 0.1 * rng.normal(size=300)
    problem = Problem(RowSpec(40, norm=math.sqrt(40)), Squared(), 300.0, L1Ball(4.0))

    def risk(steps: int) -> float:
        theta = run(FrankWolfe(0.0, steps, math.inf), problem, X, y)
        return float(0.5 * np.mean((X @ theta - y) ** 2))

    few, enough, many = risk(64), risk(4096), risk(8192)
    assert many < enough < few
    assert enough - many < 1e-3 * (0.5 * np.mean(y**2) - many)


@pytest.mark.parametrize(("relation", "sensitivity"), [("add-remove", 1), ("replace-one", 2)])
def test_the_plan_is_one_selection_a_step(relation: Relation, sensitivity: int) -> None:
    """ε = 2Δ/b a step, Δ = C (add-remove) or 2C (replace-one), b = 8C."""
    problem = Problem(RowSpec(5, norm=1.0), Logistic(), 100, L1Ball(2.0))
    plan = rehearse(FrankWolfe(8.0, 7, 1.0), problem, Unit(relation))
    assert plan == [events.Selection(2 * sensitivity / 8.0)] * 7
    assert rehearse(FrankWolfe(0.0, 2, 1.0), problem, Unit(relation)) == [events.NonPrivate()] * 2
    flip = FrankWolfe(8.0, 1, 1.0, "permute-and-flip")
    assert rehearse(flip, problem, Unit(relation)) == [events.Selection(2 * sensitivity / 8.0, "permute-and-flip")]


def test_a_rehearsal_lists_no_vertices() -> None:
    """A plan for 10^9 features and 1000 steps is made without an array of that size."""
    problem = Problem(RowSpec(10**9, norm=1.0), Logistic(), 100, L1Ball(2.0))
    steps = FrankWolfe(8.0, 1000, 1.0).steps(problem)
    measurement = next(steps)
    for _ in range(999):
        measurement = steps.send(measurement.blank())
    assert measurement.event(Unit("add-remove")) == events.Selection(0.25)


# Dense and sparse choose alike


def test_the_solver_runs_alike_on_dense_and_sparse_rows() -> None:
    """Both storages give a vertex mean of the set, by the same plan."""
    X, y = logistic_sample(3000, 20)
    X[np.random.default_rng(1).random(X.shape) < 0.7] = 0.0
    problem = Problem(RowSpec(20, norm=4.0), Logistic(), 3000, L1Ball(5.0))
    solver = FrankWolfe(3.0, 100, 1.0)
    for table in (X, sp.csr_array(X)):
        theta = run(solver, problem, table, y)
        assert problem.domain.contains(theta)
        assert theta[0] > 0.5
        assert theta[1] < -0.3


# Without noise


def test_without_noise_it_is_the_lasso() -> None:
    """The ball through scikit-learn's Lasso solution: the same objective to 1e-6, coefficients to 1e-3."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 6)) / 2
    y = X @ np.array([0.6, -0.4, 0.0, 0.2, 0.0, 0.0]) + 0.01 * rng.normal(size=60)
    lasso = Lasso(alpha=2e-3, fit_intercept=False, tol=1e-14, max_iter=10**6).fit(X, y)
    radius = float(np.abs(lasso.coef_).sum())
    problem = Problem(RowSpec(6, norm=math.inf), Squared(), 60, L1Ball(radius))
    theta = run(FrankWolfe(0.0, 8000, math.inf), problem, X, y)

    def risk(w: Floats) -> float:
        return float(np.mean((X @ w - y) ** 2) / 2)

    assert risk(theta) - risk(lasso.coef_) == pytest.approx(0.0, abs=1e-6)
    assert theta == pytest.approx(lasso.coef_, abs=1e-3)


@pytest.mark.parametrize(
    ("domain", "best"),
    [
        (L1Ball(0.5), [0.5, 0.0, 0.0, 0.0]),
        (Simplex(0.5), [0.5, 0.0, 0.0, 0.0]),
        (GroupInfL1Ball([0, 0, 1, 1], 0.4), [0.4, -0.4, 0.0, 0.0]),
        (Polytope([[0.5, 0.0, 0.0, 0.0], [0.0, 0.1, 0.0, 0.0], [0.1, 0.3, 0.0, 0.2]]), [0.5, 0.0, 0.0, 0.0]),
    ],
    ids=["ball", "simplex", "groups", "polytope"],
)
def test_without_noise_a_best_vertex_is_found_exactly(domain: Geometry, best: list[float]) -> None:
    """Strong, uncorrelated truth (3, −2, 0, 0): the risk is least at a vertex."""
    X, y = logistic_sample(4000, 4)
    problem = Problem(RowSpec(4, norm=2.0), Logistic(), 4000, domain)
    assert run(FrankWolfe(0.0, 50, 1.0), problem, X, y) == pytest.approx(best, abs=1e-9)


def test_bounds_do_not_change_the_twin_that_respects_them() -> None:
    """Rows and gradients within their bounds: clipping and the grid alter nothing but rounding."""
    X, y = logistic_sample(500, 4)
    free = Problem(RowSpec(4, norm=math.inf), Logistic(), 500, L1Ball(3.0))
    bounded = Problem(RowSpec(4, norm=2.0), Logistic(), 500, L1Ball(3.0))
    loose = run(FrankWolfe(0.0, 300, math.inf), free, X, y)
    assert run(FrankWolfe(0.0, 300, 1.0), bounded, X, y) == pytest.approx(loose, abs=1e-9)


# Risk


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_excess_risk_is_below_the_theorem(sparse: bool) -> None:
    """2Γ/(T + 2) + b·ln m / n on average over runs, with the worst-case Γ = β·diam₁² (‖x‖∞ ≤ 1)."""
    n, d, radius = 4000, 30, 3.0
    X, y = logistic_sample(n, d)
    problem = Problem(RowSpec(d, norm=math.sqrt(d)), Logistic(), n, L1Ball(radius))
    solver = recipe(problem, Guarantee(1.0, 1e-6, Unit("add-remove")), feature_bound=1.0)

    def risk(w: Floats) -> float:
        return float(np.logaddexp(0, -y * (X @ w)).mean())

    table = sp.csr_array(X) if sparse else X
    best = risk(run(FrankWolfe(0.0, 3000, 1.0), problem, X, y))
    excess = np.mean([risk(run(solver, problem, table, y, seed)) for seed in range(5)]) - best
    scale = solver.noise_multiplier * radius * solver.clip / n
    bound = 2 * 0.25 * (2 * radius) ** 2 / (solver.iterations + 2) + scale * math.log(2 * d)
    assert 0 < excess < bound


# Bad input


def test_bad_input() -> None:
    rows = RowSpec(4, norm=1.0)
    with pytest.raises(InvalidInput, match="iterations"):
        FrankWolfe(1.0, 0, 1.0)
    with pytest.raises(InvalidInput, match="iterations"):
        FrankWolfe(1.0, 10**6, 1.0)
    with pytest.raises(InvalidInput, match="takes no ridge"):
        next(FrankWolfe(1.0, 3, 1.0).steps(Problem(rows, Logistic(), 10, L1Ball(1.0), ridge=0.1)))
    with pytest.raises(InvalidInput, match="no finite list of vertices"):
        next(FrankWolfe(1.0, 3, 1.0).steps(Problem(rows, Logistic(), 10, L2Ball(1.0))))
    with pytest.raises(InvalidInput, match="noise_multiplier"):
        next(FrankWolfe(-1.0, 3, 1.0).steps(Problem(rows, Logistic(), 10, L1Ball(1.0))))
