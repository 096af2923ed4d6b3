"""Scores of vertices: their sensitivity in integers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from tests.queries.frank_wolfe.cases import SETS, D, after_steps

from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.geometry import L1Ball
from discreet.geometry.base import Geometry
from discreet.losses import Huber, Logistic, Loss, Poisson, Softmax, Squared
from discreet.queries.frank_wolfe.scores import ChosenVertices, VertexScores
from discreet.queries.frank_wolfe.vertices import whole_vertices
from discreet.rows import RowSpec


def extreme_rows(count: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Random, one-hot, huge, tiny, non-finite and mixed rows and targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, D)) * 10.0 ** rng.integers(-8, 9, (count, 1))
    hot = rng.random(count) < 0.3
    X[hot] = 0.0
    X[hot, rng.integers(0, D, hot.sum())] = rng.choice([-5.0, 1.0, 1e-9, 1e300], hot.sum())
    odd = rng.random((count, D)) < 0.03
    X[odd] = rng.choice([np.inf, -np.inf, np.nan, 5e-324, 1.7e308], odd.sum())
    y = rng.choice([-1.0, 1.0, 1e9, -1e308, np.inf, np.nan, 0.3], count)
    return X, y


@pytest.mark.parametrize("domain", SETS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_no_row_moves_a_score_beyond_the_bound(domain: Geometry, sparse: bool) -> None:
    """1500 pairs a set and storage (12 000 in all): with a row, without it, and with another in its place."""
    rows = RowSpec(D, norm=2.0)
    vertices, chosen = after_steps(domain, D, 7)
    losses: list[Loss] = [Squared(), Logistic(), Huber(1.0), Poisson()]
    queries = [VertexScores(rows, loss, vertices, chosen, clip) for loss in losses for clip in (1e-3, 0.5, 40.0)]
    X, y = extreme_rows(1500, seed=int(sparse))
    base, base_y = np.random.default_rng(3).normal(size=(5, D)), np.array([1.0, -1.0, 1.0, 1.0, -1.0])

    def scores(query: VertexScores, table: NDArray[np.float64], targets: NDArray[np.float64]) -> NDArray[np.int64]:
        return query.integers(in_memory(sp.csr_array(table) if sparse else table, targets, rows))

    alone = [scores(query, base, base_y) for query in queries]
    last: dict[int, NDArray[np.int64]] = {}
    for i in range(len(y)):
        which = i % len(queries)
        query = queries[which]
        with_row = scores(query, np.vstack([base, X[i]]), np.append(base_y, y[i]))
        assert np.abs(with_row - alone[which]).max() <= query.bound
        if which in last:
            assert np.abs(with_row - last[which]).max() <= 2 * query.bound
        last[which] = with_row


@pytest.mark.parametrize("domain", SETS, ids=lambda s: type(s).__name__)
def test_the_bound_is_attained(domain: Geometry) -> None:
    """A row at the clip with the signs of the longest vertex uses the whole bound, but for rounding."""
    rows = RowSpec(D, norm=2.0)
    vertices = whole_vertices(domain, D)
    points = np.array([vertices.domain.atom(k, D) for k in range(vertices.count)])
    longest = points[int(np.abs(points).sum(axis=1).argmax())]
    row = np.where(longest >= 0, 1.0, -1.0) if np.count_nonzero(longest) > 1 else (longest != 0).astype(float)
    query = VertexScores(rows, Squared(), vertices, ChosenVertices(), 1e-3)
    scores = query.integers(in_memory(row[None], np.array([1e6]), rows))
    assert query.bound * (1 - 1e-4) <= np.abs(scores).max() <= query.bound


@pytest.mark.parametrize("domain", SETS, ids=lambda s: type(s).__name__)
def test_integers_agree_with_floats(domain: Geometry) -> None:
    rng = np.random.default_rng(1)
    rows = RowSpec(D, norm=3.0)
    vertices, chosen = after_steps(domain, D, 9)
    query = VertexScores(rows, Logistic(), vertices, chosen, 1.0)
    data = in_memory(rng.uniform(-1, 1, (200, D)), rng.choice([-1.0, 1.0], 200), rows)
    rounded, exact = query.grid * query.integers(data), query.unrounded(data)
    assert np.allclose(rounded, exact, atol=200 * 1e-4 * query.grid * query.bound)


def test_many_outputs() -> None:
    """Multinomial slopes: one row moves every (class, feature) entry by at most the bound."""
    rows = RowSpec(D, norm=2.0, outputs=3)
    vertices = whole_vertices(L1Ball(2.0), 3 * D)
    query = VertexScores(rows, Softmax(3), vertices, ChosenVertices(), 0.1)
    X, _ = extreme_rows(300, seed=4)
    for i, row in enumerate(X):
        scores = query.integers(in_memory(row[None], np.array([float(i % 5)]), rows))
        assert np.abs(scores).max() <= query.bound


def test_bad_input() -> None:
    rows = RowSpec(D, norm=math.inf)
    vertices = whole_vertices(L1Ball(1.0), D)
    query = VertexScores(rows, Logistic(), vertices, ChosenVertices(), 1.0)
    with pytest.raises(InvalidInput, match="finite row_norm"):
        query.integers(in_memory(np.zeros((2, D)), np.ones(2), rows))
    with pytest.raises(InvalidInput, match="clip must be positive"):
        VertexScores(RowSpec(D, norm=1.0), Logistic(), vertices, ChosenVertices(), 0.0)
    with pytest.raises(InvalidInput, match="coordinates"):
        VertexScores(RowSpec(D + 1, norm=1.0), Logistic(), vertices, ChosenVertices(), 1.0)
