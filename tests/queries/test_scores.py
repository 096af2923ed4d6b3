"""Scores of vertices: their sensitivity in integers, and the lazy selection that has the very same integers."""

from __future__ import annotations

import gc
import math

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.geometry import GroupInfL1Ball, L1Ball, L2Ball, Polytope, Simplex
from discreet.geometry.base import Geometry
from discreet.losses import Huber, Logistic, Loss, Poisson, Softmax, Squared
from discreet.noise.bits import Bits
from discreet.queries.frank_wolfe import lazy_selection
from discreet.queries.frank_wolfe.lazy_selection import selection_of
from discreet.queries.frank_wolfe.scores import ChosenVertices, VertexScores
from discreet.queries.frank_wolfe.vertices import CoordinateVertices, whole_vertices
from discreet.rows import RowSpec

D = 6
RNG = np.random.default_rng(0)
SETS: list[Geometry] = [
    L1Ball(3.0),
    Simplex(0.7),
    GroupInfL1Ball([0, 0, 1, 2, 2, 2], 1.5),
    Polytope(RNG.normal(size=(15, D)) * 10.0 ** RNG.integers(-3, 3, (15, 1))),
]


def after_steps(domain: Geometry, d: int, steps: int, seed: int = 0) -> tuple[object, ChosenVertices]:
    vertices, chosen = whole_vertices(domain, d), ChosenVertices()
    for vertex in np.random.default_rng(seed).integers(0, vertices.count, steps):
        chosen.append(int(vertex))
    return vertices, chosen


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
    queries = [VertexScores(rows, loss, vertices, chosen, clip) for loss in losses for clip in (1e-3, 0.5, 40.0)]  # type: ignore[arg-type]
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
    query = VertexScores(rows, Logistic(), vertices, chosen, 1.0)  # type: ignore[arg-type]
    data = in_memory(rng.uniform(-1, 1, (200, D)), rng.choice([-1.0, 1.0], 200), rows)
    rounded, exact = query.grid * query.integers(data), query.unrounded(data)
    assert np.allclose(rounded, exact, atol=200 * 1e-4 * query.grid * query.bound)


@pytest.mark.parametrize("domain", SETS, ids=lambda s: type(s).__name__)
def test_the_iterate_is_that_of_frank_wolfe(domain: Geometry) -> None:
    """Weights 1, 2, 3, … over their sum are what steps of 2/(t + 2) give."""
    vertices, chosen = after_steps(domain, D, 40)
    theta = np.zeros(D)
    for t, vertex in enumerate(chosen.indices):
        theta += 2 / (t + 2) * (domain.atom(vertex, D) - theta)  # type: ignore[attr-defined]
    whole, step = vertices.point(chosen.indices)  # type: ignore[attr-defined]
    assert np.allclose(whole * step, theta, rtol=1e-9, atol=1e-9 * np.abs(theta).max())
    assert np.array_equal(whole, np.rint(whole))


def test_many_outputs() -> None:
    """Multinomial slopes: one row moves every (class, feature) entry by at most the bound."""
    rows = RowSpec(D, norm=2.0, outputs=3)
    vertices = whole_vertices(L1Ball(2.0), 3 * D)
    query = VertexScores(rows, Softmax(3), vertices, ChosenVertices(), 0.1)
    X, _ = extreme_rows(300, seed=4)
    for i, row in enumerate(X):
        scores = query.integers(in_memory(row[None], np.array([float(i % 5)]), rows))
        assert np.abs(scores).max() <= query.bound


def sparse_case(intercept: float, dtype: type) -> tuple[RowSpec, sp.csr_array, NDArray[np.float64]]:
    rng = np.random.default_rng(7)
    table = np.zeros((5000, 80))
    for j in range(80):  # columns of 4000 non-zeros and of 2, so that every tier is met
        table[rng.choice(5000, int(2 + 4000 * 0.9**j), replace=False), j] = 1.0
    X = sp.csr_array(table)
    X.data = rng.uniform(-1, 1, X.nnz)
    X.data[:20] = np.nan
    y = rng.choice([-1.0, 1.0], 5000)
    y[:10] = np.nan
    return RowSpec(80, norm=1.5, intercept=intercept), sp.csr_array(X.astype(dtype)), y


@pytest.mark.parametrize("loss", [Logistic(), Squared()], ids=["logistic", "squared"])
@pytest.mark.parametrize("domain", [L1Ball(5.0), Simplex(30.0)], ids=["ball", "simplex"])
@pytest.mark.parametrize(("intercept", "dtype"), [(0.0, np.float64), (1.0, np.float32)])
@pytest.mark.parametrize("noise", [0.3, 30.0, 1e5])
def test_lazy_selection_has_the_same_integers(
    loss: Loss, domain: Geometry, intercept: float, dtype: type, noise: float
) -> None:
    """Every score at every step equals the one computed from scratch, and no recorded score is off by more than the
    slack, whether changes stay pending (much noise) or are recorded at every step (little noise)."""
    rows, X, y = sparse_case(intercept, dtype)
    data = in_memory(X, y, rows)
    vertices, chosen, bits = whole_vertices(domain, rows.dimension), ChosenVertices(), Bits.seeded(3)
    recorded_at: set[bytes] = set()
    for _ in range(25):
        query = VertexScores(rows, loss, vertices, chosen, 0.8)
        state = selection_of(query, data)
        vertex = state.choose(query, noise * query.bound, bits)
        expected = query.integers(data)
        assert [state.score_of(k) for k in range(vertices.count)] == expected.tolist()
        assert np.abs(state._recorded_scores() - expected).max() <= state.slack
        assert len(state.longest) == 5
        recorded_at.add(state._recorded_scores().tobytes())
        chosen.append(vertex)
    if noise == 0.3:
        assert len(recorded_at) > 10
    elif noise == 1e5 and not intercept:
        assert len(recorded_at) == 1


def test_a_selection_can_be_joined_late_or_started_again() -> None:
    rows, X, y = sparse_case(1.0, np.float64)
    data = in_memory(X, y, rows)
    vertices, chosen = after_steps(L1Ball(2.0), rows.dimension, 12)
    late = VertexScores(rows, Logistic(), vertices, chosen, 1.0)  # type: ignore[arg-type]
    state = selection_of(late, data)
    state.choose(late, late.bound * 5.0, Bits.seeded(0))
    assert [state.score_of(k) for k in range(vertices.count)] == late.integers(data).tolist()  # type: ignore[attr-defined]
    other_clip = VertexScores(rows, Logistic(), vertices, chosen, 0.1)  # type: ignore[arg-type]
    fresh = selection_of(other_clip, data)
    assert fresh is not state
    fresh.choose(other_clip, late.bound * 5.0, Bits.seeded(0))
    assert [fresh.score_of(k) for k in range(vertices.count)] == other_clip.integers(data).tolist()  # type: ignore[attr-defined]


def test_what_is_remembered_of_the_rows_goes_with_the_chosen_vertices() -> None:
    rows, X, y = sparse_case(0.0, np.float64)
    data = in_memory(X, y, rows)
    query = VertexScores(rows, Logistic(), whole_vertices(L1Ball(2.0), 80), ChosenVertices(), 1.0)
    selection_of(query, data)
    assert len(lazy_selection._SELECTIONS[data]) == 1
    del query
    gc.collect()
    assert len(lazy_selection._SELECTIONS[data]) == 0


def test_bad_input() -> None:
    rows = RowSpec(D, norm=math.inf)
    vertices = whole_vertices(L1Ball(1.0), D)
    assert isinstance(vertices, CoordinateVertices)
    query = VertexScores(rows, Logistic(), vertices, ChosenVertices(), 1.0)
    with pytest.raises(InvalidInput, match="finite row_norm"):
        query.integers(in_memory(np.zeros((2, D)), np.ones(2), rows))
    with pytest.raises(InvalidInput, match="clip must be positive"):
        VertexScores(RowSpec(D, norm=1.0), Logistic(), vertices, ChosenVertices(), 0.0)
    with pytest.raises(InvalidInput, match="coordinates"):
        VertexScores(RowSpec(D + 1, norm=1.0), Logistic(), vertices, ChosenVertices(), 1.0)
    with pytest.raises(InvalidInput, match="no finite list of vertices"):
        whole_vertices(L2Ball(1.0), D)
    with pytest.raises(InvalidInput, match="6 coordinates"):
        whole_vertices(SETS[3], D + 1)
