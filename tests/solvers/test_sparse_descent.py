"""Sparse descent: what it releases, that the rest is post-processing, and what it attains."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.geometry import L1Ball, L2Ball
from discreet.ledger import Ledger
from discreet.losses import Logistic, Squared
from discreet.measurements import Noisy
from discreet.mechanisms import Gaussian
from discreet.noise import Bits
from discreet.queries.sums.gradient import GradientSum
from discreet.recipes import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.parts.sparse_means import project, projecting_helps
from discreet.solvers.sparse_descent import SparseDescent
from discreet.theory import sparse_descent_smooth, sparse_descent_strongly_convex
from discreet.units import Unit
from discreet.vault import Vault

ADD, REPLACE = Unit("add-remove"), Unit("replace-one")


def words(n: int, d: int, s: int, seed: int = 0) -> tuple[sp.csr_array, np.ndarray]:
    """Zipf words; half of them lean to one of two classes, the commonest twenty to none."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.3, 1.0, -1.0)
    lean = np.where(np.arange(d) < 20, 0.0, rng.normal(size=d))
    rows = []
    for sign in (1.0, -1.0):
        edges = np.cumsum(np.exp(sign * lean) / np.arange(3, d + 3))
        rows.append(edges / edges[-1])
    where = np.where(
        (y > 0)[:, None], np.searchsorted(rows[0], draws := rng.random((n, s))), np.searchsorted(rows[1], draws)
    )
    X = sp.csr_array((np.ones(n * s), where.ravel(), np.arange(0, n * s + 1, s)), shape=(n, d))
    X.sum_duplicates()
    X.data = np.log1p(X.data)
    return sp.csr_array(sp.diags_array(1 / np.sqrt(X.multiply(X).sum(axis=1))) @ X), y


def test_estimates_touch_the_noisy_sum_alone() -> None:
    """Projection only where it is proved to help; a declared sparsity changes no release."""
    problem = Problem(RowSpec(400, 1.0), Logistic(), 1000.0)
    noisy = np.random.default_rng(0).normal(size=400) * 30
    quiet = SparseDescent(4.0, 3, 0.5, 1.0, 2)
    assert projecting_helps(problem, 2, 0.5, 4.0 * 0.5 / 1000) is False  # d·τ² is less
    assert np.array_equal(quiet.estimate(noisy, problem), noisy / 1000)
    loud = replace(quiet, noise_multiplier=20.0)
    assert projecting_helps(problem, 2, 0.5, 20.0 * 0.5 / 1000) is True
    projected = loud.estimate(noisy, problem)
    assert np.allclose(projected, L2Ball(0.5).project(L1Ball(0.5 * math.sqrt(2)).project(noisy / 1000)))
    cut = replace(loud, estimator="threshold").estimate(noisy, problem)
    assert np.count_nonzero(cut) <= np.count_nonzero(projected)
    for s in (1, 400):
        assert rehearse(replace(loud, sparsity=s), problem, ADD) == rehearse(loud, problem, ADD)


def test_without_noise_it_finds_the_minimiser() -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    X *= 0.9 / np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=200) > 0, 1.0, -1.0)
    rows = RowSpec(3, 1.0, 0.5)
    problem = Problem(rows, Logistic(), 200.0, ridge=0.05)
    guarantee = Guarantee(math.inf, 0.0, REPLACE)
    data = in_memory(X, y, rows)
    design = np.hstack([X, np.full((200, 1), 0.5)])
    expected = LogisticRegression(C=1 / (0.05 * 200), fit_intercept=False, tol=1e-10).fit(design, y).coef_[0]
    found = Vault(data, REPLACE, Ledger(), Bits.seeded(0)).run(
        recipe("sparse_descent")(problem, guarantee, iterate="last", iterations=150), problem
    )
    np.testing.assert_allclose(found, expected, atol=0.02)


def test_memory_grows_with_entries_and_dimension_only() -> None:
    """d = 300 000: a few vectors of length d and a few copies of the entries, never rows × d."""
    import tracemalloc

    X, y = words(500, 300_000, 20)
    data, unit = in_memory(X, y, RowSpec(300_000, 1.0, 0.5)), ADD
    problem = Problem(data.rows, Logistic(), 500.0)
    solver = SparseDescent(300.0, 2, 0.5, 1.0, 20, "projection")
    tracemalloc.start()
    theta = Vault(data, unit, Ledger(), Bits.seeded(0)).run(solver, problem)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert theta.shape == (300_001,)
    assert peak < 25 * 8 * 300_000


def test_measured_risk_stays_below_its_bound() -> None:
    """Ten runs of sparse descent on a ball, squared loss: the mean excess is below the theorem's."""
    rng = np.random.default_rng(4)
    n, d = 2000, 200
    X = np.zeros((n, d))
    X[np.arange(n), rng.integers(0, 5, n)] = 1.0
    y = np.where(X[:, 0] > 0, 0.8, -0.2)
    rows, domain = RowSpec(d, 1.0), L2Ball(1.0)
    problem = Problem(rows, Squared(), float(n), domain)
    best = np.zeros(d)
    best[:5] = [0.8, -0.2, -0.2, -0.2, -0.2]

    def risk(theta: np.ndarray) -> float:
        return float(np.mean((X @ theta - y) ** 2)) / 2

    solver = SparseDescent(40.0, 8, 2.0, 1.0, 1, "projection")
    data = in_memory(X, y, rows)
    excess = [
        risk(Vault(data, ADD, Ledger(), Bits.seeded(seed)).run(solver, problem)) - risk(best) for seed in range(10)
    ]
    proved = sparse_descent_smooth(
        d=d, s=1, bound=2.0, noise_std=40.0 * 2.0 / n, diameter=2.0, smoothness=1.0, iterations=8
    )
    assert 0 <= np.mean(excess) <= proved.value
    strong = sparse_descent_strongly_convex(
        d=d, s=1, bound=2.0, noise_std=0.0, smoothness=1.0, convexity=0.1, gap=1.0, iterations=100
    )
    assert strong.value == pytest.approx(0.9**100)


def test_the_random_iterate_is_one_of_the_points_visited() -> None:
    rows = RowSpec(5, 1.0)
    data, problem = in_memory(np.eye(5), np.ones(5), rows), Problem(rows, Logistic(), 5.0)
    solver = SparseDescent(1.0, 6, 0.5, 1.0, 1, iterate="random", seed=3)
    chosen = Vault(data, ADD, Ledger(), Bits.seeded(4)).run(solver, problem)
    theta, bits, visited = np.zeros(5), Bits.seeded(4), []
    for _ in range(6):
        visited.append(theta)
        total = Noisy(GradientSum(rows, Logistic(), theta, 0.5), Gaussian(1.0)).sample(data, ADD, bits)
        theta = theta - solver.estimate(total, problem)
    assert any(np.array_equal(chosen, point) for point in visited)
    assert np.array_equal(project(np.zeros(5), 0.5, 1), np.zeros(5))


def test_lazy_steps_without_noise_are_those_of_gradient_descent() -> None:
    X, y = words(200, 30, 5)
    problem = Problem(RowSpec(30, 1.0, 0.5), Logistic(), 200.0, ridge=0.1)
    data = in_memory(X, y, problem.rows)
    lazy, eager = (
        Vault(data, ADD, Ledger(), Bits.seeded(0)).run(
            SparseDescent(0.0, 20, 0.56, 2.0, 30, way, None, "last"), problem
        )
        for way in ("lazy", "auto")
    )
    np.testing.assert_allclose(lazy, eager, atol=1e-9)
