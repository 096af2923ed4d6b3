"""Sparse and reweighted descent: what they release, that the rest is post-processing, and what they reach."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import discreet as dp
from discreet import events
from discreet.accounting import epsilon
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.events import compose
from discreet.geometry import L1Ball, L2Ball
from discreet.ledger import Ledger
from discreet.losses import Logistic, Softmax, Squared
from discreet.measurements import Noisy
from discreet.mechanisms import Gaussian
from discreet.noise import Bits
from discreet.queries.mapped import ColumnWeights, Mapped
from discreet.queries.sums.column_second_moment import ColumnSecondMoment
from discreet.queries.sums.gradient import GradientSum
from discreet.recipes import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.reweighted import Reweighted
from discreet.solvers.sparse_descent import SparseDescent, onto_balls, projecting_helps
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


@pytest.mark.parametrize("unit", [ADD, REPLACE], ids=str)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("sparse_descent", {"sparsity": 3}),
        ("sparse_descent", {"sparsity": 3, "rate": 0.5, "iterations": 5}),
        ("reweighted", {}),
        ("boosted", {"solver": "reweighted", "options": {"iterations": 4}}),
    ],
)
def test_the_plan_keeps_the_guarantee_and_spends_it(unit: Unit, name: str, options: dict) -> None:
    problem = Problem(RowSpec(30, 1.0, 0.5), Logistic(), 500.0)
    guarantee = Guarantee(1.0, 1e-6, unit)
    plan = compose(rehearse(recipe(name)(problem, guarantee, **options), problem, unit))
    assert 0.98 <= epsilon(plan, 1e-6, unit).upper <= 1.0


def test_releases_are_energies_gradients_and_a_line() -> None:
    problem, unit = Problem(RowSpec(30, 1.0, 0.5), Logistic(), 500.0), ADD
    solver = Reweighted(3.0, 7.0, 5.0, 4, 0.5, 1.0, 0.01)
    plan = rehearse(solver, problem, unit)
    assert plan[0] == events.Gaussian(7.0, math.sqrt(2))
    assert plan[1:5] == [events.Gaussian(3.0)] * 4
    assert len(plan) == 1 + 4 + 2
    # the line's releases cost together what one of its multiplier costs
    line = sum(event.noise_multiplier**-2 for event in plan[5:])  # type: ignore[attr-defined]
    assert line == pytest.approx(5.0**-2)
    assert len(rehearse(replace(solver, line=False), problem, unit)) == 5


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


def test_without_noise_both_find_the_minimiser() -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    X *= 0.9 / np.linalg.norm(X, axis=1, keepdims=True)  # one length, so that equal weights change nothing
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
    few = {"iterations": 200}
    model = dp.LogisticRegression(math.inf, solver="reweighted", solver_options=few, row_norm=1.0, classes=[-1, 1]).fit(
        X, y
    )
    assert model.score(X, y) >= LogisticRegression(C=100.0).fit(X, y).score(X, y) - 0.03


def test_weights_and_a_line_on_word_like_rows() -> None:
    """4000 rows, 20 000 words, ε = 2: the majority is 70 %. Each part of the solver earns its share."""
    X, y = words(8000, 20_000, 30)
    test, truth, X, y = X[4000:], y[4000:], X[:4000], y[:4000]
    scores = {}
    for name, solver, options in [
        ("all", "reweighted", {"iterations": 60}),
        ("no line", "reweighted", {"iterations": 60, "line_share": 0.0}),
        ("auto", "auto", None),
    ]:
        model = dp.LogisticRegression(
            2.0, 1e-7, adjacency="add-remove", n_public=4000, row_norm=1.0, classes=[-1, 1], random_state=0,
            solver=solver, solver_options=options,
        ).fit(X, y)  # fmt: skip
        scores[name] = model.score(test, truth)
    assert scores["all"] > 0.75
    assert scores["all"] > scores["no line"]


def test_memory_grows_with_entries_and_dimension_only() -> None:
    """d = 300 000: a few vectors of length d and a few copies of the entries, never rows × d."""
    import tracemalloc

    X, y = words(500, 300_000, 20)
    data, unit = in_memory(X, y, RowSpec(300_000, 1.0, 0.5)), ADD
    problem = Problem(data.rows, Logistic(), 500.0)
    for solver in (Reweighted(3.0, 7.0, 5.0, 2, 0.5, 1.0, 0.01), SparseDescent(300.0, 2, 0.5, 1.0, 20, "projection")):
        tracemalloc.start()
        theta = Vault(data, unit, Ledger(), Bits.seeded(0)).run(solver, problem)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert theta.shape == (300_001,)
        assert peak < 25 * 8 * 300_000


def test_a_weighted_row_is_made_from_one_row_alone() -> None:
    """Sums over weighted rows are those of rows that were weighted beforehand, sparse or dense."""
    rng = np.random.default_rng(2)
    rows = RowSpec(6, 1.0, 0.5)
    X, y = rng.normal(size=(50, 6)) * (rng.random((50, 6)) < 0.5), rng.choice([-1.0, 1.0], 50)
    weights = rng.uniform(0.1, 10, 6)
    query = GradientSum(rows, Logistic(), rng.normal(size=7), 0.5)
    through = ColumnWeights(rows, weights)
    expected = query.integers(in_memory(X * weights, y, rows))
    for table in (X, sp.csr_array(X)):
        assert np.array_equal(Mapped(query, through).integers(in_memory(table, y, rows)), expected)
    with pytest.raises(InvalidInput, match="positive"):
        ColumnWeights(rows, np.zeros(6))
    with pytest.raises(InvalidInput, match="do not fit"):
        ColumnWeights(rows, np.ones(5))


def test_energies_are_means_of_squares() -> None:
    rng = np.random.default_rng(3)
    rows = RowSpec(50, 2.0, 1.0)
    X = rng.uniform(-0.2, 0.2, size=(100, 50))
    query = ColumnSecondMoment(rows, 25.0)
    data = in_memory(X, np.zeros(100), rows)
    np.testing.assert_allclose(query.grid * query.integers(data), (X**2).sum(axis=0), rtol=1e-3)
    np.testing.assert_allclose(query.unrounded(data), (X**2).sum(axis=0), rtol=1e-4)
    spike = np.zeros((1, 50))
    spike[0, 3] = 2.0  # all of its length in one entry: cut to the bound
    assert query.integers(in_memory(spike, np.zeros(1), rows))[3] == query.bound
    with pytest.raises(InvalidInput, match="spread"):
        ColumnSecondMoment(rows, 0.5)


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
    assert np.array_equal(onto_balls(np.zeros(5), problem, 1, 0.5), np.zeros(5))


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("sparse_descent", {"rate": 0.1, "batch_size": 3}, "not both"),
        ("sparse_descent", {"estimator": "magic"}, "estimator"),
        ("sparse_descent", {"sparsity": 0}, "sparsity"),
        ("reweighted", {"energy_share": 1.0}, "shares"),
        ("reweighted", {"spread": 0.1}, "spread"),
        ("boosted", {"solver": "objective_perturbation"}, "boosted"),
        ("boosted", {"score_share": 0.0}, "score_share"),
    ],
)
def test_bad_input(name: str, options: dict, why: str) -> None:
    problem = Problem(RowSpec(5, 1.0), Logistic(), 100.0)
    with pytest.raises(InvalidInput, match=why):
        recipe(name)(problem, Guarantee(1.0, 1e-6, ADD), **options)
    with pytest.raises(InvalidInput, match="pure DP"):
        recipe(name)(problem, Guarantee(1.0, 0.0, ADD))


def test_constraints_and_many_classes() -> None:
    with pytest.raises(InvalidInput, match="no constraint"):
        recipe("reweighted")(Problem(RowSpec(5, 1.0), Logistic(), 9.0, L2Ball(1.0)), Guarantee(1.0, 1e-6, ADD))
    many = Problem(RowSpec(5, 1.0, 0.5, 3), Softmax(3), 100.0)
    with pytest.raises(InvalidInput, match="one score a row"):
        recipe("boosted")(many, Guarantee(1.0, 1e-6, ADD))
