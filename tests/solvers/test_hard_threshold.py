"""Entrywise bounds hold in integers; hard thresholding finds sparse models, with and without noise, at its price."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LinearRegression

from discreet import events
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.geometry import L1Ball, SparseSet
from discreet.ledger import Ledger
from discreet.losses import Huber, Logistic, Squared
from discreet.noise.bits import Bits
from discreet.queries.sums.entrywise_gradient import EntrywiseGradientSum
from discreet.recipes.hard_threshold import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.hard_threshold import HardThreshold, PeeledThreshold
from discreet.units import Unit
from discreet.vault import Vault

ADD_REMOVE, REPLACE_ONE = Unit("add-remove"), Unit("replace-one")
EXTREMES = [0.0, -0.0, 1.0, -1.0, 1e308, -1e308, 5e-324, 1e-310, 1e-8, 1e16, np.nan, np.inf, -np.inf, 0.1, 1 / 3]


@pytest.mark.parametrize("loss", [Squared(), Logistic(), Huber(0.5)], ids=repr)
def test_no_entry_exceeds_the_claimed_bound(loss):
    """Entry by entry in Python integers: 10 000 rows of extremes over three losses, one neighbour each."""
    rng = np.random.default_rng(0)
    rows = RowSpec(4, math.inf, 0.7)
    largest = 0
    for _ in range(3400):
        x = rng.standard_normal(4) * 10.0 ** rng.uniform(-12, 12)
        if rng.random() < 0.4:
            x = rng.choice(EXTREMES, 4)
        y = rng.choice([-1.0, 1.0, np.nan, 0.3]) if isinstance(loss, Logistic) else rng.choice(EXTREMES)
        theta = rng.standard_normal(5) * 10.0 ** rng.uniform(-6, 6)
        query = EntrywiseGradientSum(rows, loss, theta, *(10.0 ** rng.uniform(-3, 3, 3)))
        for value in query.integers(in_memory(x[None, :], np.array([y]), rows)).tolist():
            assert abs(value) <= query.bound
            largest = max(largest, abs(value))
    assert largest > 0.99 * EntrywiseGradientSum.bound


def test_one_outlying_entry_does_not_change_the_rest_of_its_row():
    rows = RowSpec(3, 1.0)  # the ℓ2 clip would shrink the whole row
    query = EntrywiseGradientSum(rows, Squared(), np.zeros(3), 1.0, 1.0)
    tame, wild = (
        query.grid * query.integers(in_memory(np.array([[0.5, -0.25, x]]), np.array([-1.0]), rows)) for x in (1.0, 1e9)
    )
    np.testing.assert_allclose(tame, [0.5, -0.25, 1.0], atol=1e-4)
    np.testing.assert_array_equal(tame, wild)


def test_sums_do_not_depend_on_order_partition_or_storage(monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((5000, 6)) * (rng.random((5000, 6)) < 0.4)
    X[0, 0], X[1], X[2, 3] = np.nan, 3e30, -np.inf
    y, order = rng.standard_normal(5000), rng.permutation(5000)
    rows = RowSpec(6, math.inf, 0.5)
    query = EntrywiseGradientSum(rows, Squared(), rng.standard_normal(7), 1.3, 0.9, 2.0, offset=rng.standard_normal(7))
    monkeypatch.setenv("DISCREET_THREADS", "1")
    expected = query.integers(in_memory(X, y, rows))
    assert (query.integers(in_memory(sp.csr_array(X[order]), y[order], rows)) == expected).all()
    monkeypatch.setenv("DISCREET_THREADS", "3")
    assert (query.integers(in_memory(X[order], y[order], rows)) == expected).all()
    clean = np.where(np.isfinite(X), X, 0.0)
    augmented = np.clip(np.hstack([clean, np.full((5000, 1), 0.5)]), -1.3, 1.3)
    slopes = np.clip(augmented @ query.theta - np.clip(y, -2, 2), -0.9, 0.9)
    reference = augmented.T @ slopes + query.offset
    np.testing.assert_allclose(query.unrounded(in_memory(X, y, rows)), reference, atol=1e-9)
    np.testing.assert_allclose(query.grid * expected, reference, atol=5000 * 2**-15)


def planted(n, d, s, seed=2, noise=0.05):
    """Rows of signs, s strong coefficients, targets inside ±1."""
    rng = np.random.default_rng(seed)
    X = rng.choice([-1.0, 1.0], (n, d))
    theta = np.zeros(d)
    theta[rng.choice(d, s, replace=False)] = rng.choice([-1.0, 1.0], s) * 0.9 / s
    return X, X @ theta + noise * rng.uniform(-1, 1, n), theta


def run(solver, X, y, rows, *, unit=ADD_REMOVE, loss=None, seed=0):
    problem = Problem(rows, loss or Squared(), float(len(y)))
    return Vault(in_memory(X, y, rows), unit, Ledger(), Bits.seeded(seed)).run(solver, problem)


@pytest.mark.parametrize("peel", [False, True])
@pytest.mark.parametrize("rows", [RowSpec(30, math.inf), RowSpec(30, 6.0)], ids=["unbounded", "bounded"])
def test_twins_without_noise_are_least_squares_on_the_support(peel, rows):
    X, y, truth = planted(600, 30, 3)
    problem = Problem(rows, Squared(), 600.0)
    free = Guarantee(math.inf, 0.0, ADD_REMOVE)
    solver = recipe(problem, free, sparsity=3, peel=peel, smoothness=2.0)
    assert {type(event) for event in rehearse(solver, problem, ADD_REMOVE)} == {events.NonPrivate}
    theta = run(solver, X, y, rows)
    support = np.flatnonzero(truth)
    assert np.flatnonzero(theta).tolist() == support.tolist()
    expected = LinearRegression(fit_intercept=False).fit(X[:, support], y).coef_
    np.testing.assert_allclose(theta[support], expected, atol=1e-6)


@pytest.mark.parametrize("unit", [ADD_REMOVE, REPLACE_ONE], ids=str)
def test_peeling_finds_a_planted_support_where_noise_on_all_coordinates_hides_it(unit):
    """d = 400, n = 4000, ε = 1: the ℓ2 route has √(d/2s) = 8 times the noise."""
    X, y, truth = planted(4000, 400, 3)
    rows = RowSpec(400, 20.0)
    problem = Problem(rows, Squared(), 4000.0)
    guarantee = Guarantee(1.0, 1e-6, unit)
    options = {"sparsity": 3, "entry_bound": 1.0, "iterations": 5, "smoothness": 1.0}
    error = {}
    for peel in (True, False):
        solver = recipe(problem, guarantee, peel=peel, **options)
        error[peel] = np.mean([np.linalg.norm(run(solver, X, y, rows, unit=unit, seed=s) - truth) for s in range(3)])
    assert error[True] < 0.5 * np.linalg.norm(truth)
    assert error[True] < 0.5 * error[False]
    automatic = recipe(problem, guarantee, **options)
    assert isinstance(automatic, PeeledThreshold)


def test_every_iterate_is_sparse_and_short():
    X, y, _ = planted(500, 20, 3)
    rows = RowSpec(20, math.sqrt(20))
    for solver in (HardThreshold(50.0, 3, 1.0, 1.0, 4, 0.1), PeeledThreshold(50.0, 3, 1.0, 1.0, 1.0, 4, 0.1)):
        theta = run(solver, X, y, rows)
        assert np.count_nonzero(theta) <= 4
        assert np.linalg.norm(theta) <= 0.1 + 1e-12


def test_bad_input():
    rows = RowSpec(3, 1.0)
    with pytest.raises(InvalidInput, match="iterations"):
        HardThreshold(1.0, 0, 1.0, 1.0, 2)
    with pytest.raises(InvalidInput, match="step"):
        PeeledThreshold(1.0, 1, 1.0, 1.0, math.inf, 2)
    with pytest.raises(InvalidInput, match="works over a SparseSet, but the problem has L1Ball"):
        rehearse(HardThreshold(1.0, 1, 1.0, 1.0, 2), Problem(rows, Squared(), 10.0, L1Ball(1.0)), ADD_REMOVE)
    rehearse(HardThreshold(1.0, 1, 1.0, 1.0, 2), Problem(rows, Squared(), 10.0, SparseSet(2)), ADD_REMOVE)
    with pytest.raises(InvalidInput, match="one output"):
        rehearse(HardThreshold(1.0, 1, 1.0, 1.0, 2), Problem(RowSpec(3, 1.0, outputs=3), Squared(), 10.0), ADD_REMOVE)
    with pytest.raises(InvalidInput, match="entry_bound"):
        EntrywiseGradientSum(rows, Squared(), np.zeros(3), 0.0, 1.0)
    with pytest.raises(InvalidInput, match="shape"):
        EntrywiseGradientSum(rows, Squared(), np.zeros(4), 1.0, 1.0)
    with pytest.raises(InvalidInput, match="finite entry_bound"):
        EntrywiseGradientSum(rows, Squared(), np.zeros(3), math.inf, 1.0).integers(
            in_memory(np.eye(3), np.ones(3), rows)
        )
