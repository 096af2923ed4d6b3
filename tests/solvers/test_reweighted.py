"""Reweighted descent: what it releases, that a weighted row is made from one row, and what each part is worth."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from tests.solvers.test_sparse_descent import words

import discreet as dp
from discreet import events
from discreet.calibration.rehearse import rehearse
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.ledger import Ledger
from discreet.losses import Logistic
from discreet.noise import Bits
from discreet.queries.mapped import ColumnWeights, Mapped
from discreet.queries.sums.column_second_moment import ColumnSecondMoment
from discreet.queries.sums.gradient import GradientSum
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.reweighted import Reweighted
from discreet.units import Unit
from discreet.vault import Vault

ADD, REPLACE = Unit("add-remove"), Unit("replace-one")


def test_releases_are_second_moments_gradients_and_a_line() -> None:
    problem, unit = Problem(RowSpec(30, 1.0, 0.5), Logistic(), 500.0), ADD
    solver = Reweighted(3.0, 7.0, 5.0, 4, 0.5, 1.0, 0.01, spread=25.0)
    plan = rehearse(solver, problem, unit)
    assert plan[0] == events.Gaussian(7.0, math.sqrt(2))
    assert plan[1:5] == [events.Gaussian(3.0)] * 4
    assert len(plan) == 1 + 4 + 2
    # the line's releases cost together what one of its multiplier costs
    line = sum(event.noise_multiplier**-2 for event in plan[5:])  # type: ignore[attr-defined]
    assert line == pytest.approx(5.0**-2)
    assert len(rehearse(replace(solver, recalibrated=False), problem, unit)) == 5


def test_weights_and_recalibration_on_word_like_rows() -> None:
    """4000 rows, 20 000 words, ε = 2: the majority is 70 %. Each part of the solver earns its share."""
    X, y = words(8000, 20_000, 30)
    test, truth, X, y = X[4000:], y[4000:], X[:4000], y[:4000]
    scores = {}
    for name, solver, options in [
        ("all", "reweighted", {"iterations": 60}),
        ("no recalibration", "reweighted", {"iterations": 60, "recalibration_share": 0.0}),
        ("auto", "auto", None),
    ]:
        model = dp.LogisticRegression(
            2.0, 1e-7, adjacency="add-remove", n_public=4000, row_norm=1.0, classes=[-1, 1], random_state=0,
            solver=solver, solver_options=options,
        ).fit(X, y)  # fmt: skip
        scores[name] = model.score(test, truth)
    assert scores["all"] > 0.75
    assert scores["all"] > scores["no recalibration"]


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


def test_second_moments_are_means_of_squares() -> None:
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


def test_without_noise_it_classifies_as_the_minimiser() -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    X *= 0.9 / np.linalg.norm(X, axis=1, keepdims=True)  # one length, so that equal weights change nothing
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=200) > 0, 1.0, -1.0)
    few = {"iterations": 200}
    model = dp.LogisticRegression(math.inf, solver="reweighted", solver_options=few, row_norm=1.0, classes=[-1, 1])
    assert model.fit(X, y).score(X, y) >= LogisticRegression(C=100.0).fit(X, y).score(X, y) - 0.03


def test_memory_grows_with_entries_and_dimension_only() -> None:
    """d = 300 000: a few vectors of length d and a few copies of the entries, never rows × d."""
    import tracemalloc

    X, y = words(500, 300_000, 20)
    data = in_memory(X, y, RowSpec(300_000, 1.0, 0.5))
    problem = Problem(data.rows, Logistic(), 500.0)
    tracemalloc.start()
    solver = Reweighted(3.0, 7.0, 5.0, 2, 0.5, 1.0, 0.01, spread=25.0)
    theta = Vault(data, ADD, Ledger(), Bits.seeded(0)).run(solver, problem)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert theta.shape == (300_001,)
    assert peak < 25 * 8 * 300_000
