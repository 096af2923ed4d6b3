"""Lazy selection on sparse rows has the very integers of `VertexScores`, at every step."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from tests.queries.frank_wolfe.cases import after_steps

from discreet.data.memory import in_memory
from discreet.geometry import L1Ball, Simplex
from discreet.geometry.base import Geometry
from discreet.losses import Logistic, Loss, Squared
from discreet.noise.bits import Bits
from discreet.queries.frank_wolfe import lazy_selection
from discreet.queries.frank_wolfe.lazy_selection import selection_of
from discreet.queries.frank_wolfe.scores import ChosenVertices, VertexScores
from discreet.queries.frank_wolfe.vertices import whole_vertices
from discreet.rows import RowSpec


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
    late = VertexScores(rows, Logistic(), vertices, chosen, 1.0)
    state = selection_of(late, data)
    state.choose(late, late.bound * 5.0, Bits.seeded(0))
    assert [state.score_of(k) for k in range(vertices.count)] == late.integers(data).tolist()
    other_clip = VertexScores(rows, Logistic(), vertices, chosen, 0.1)
    fresh = selection_of(other_clip, data)
    assert fresh is not state
    fresh.choose(other_clip, late.bound * 5.0, Bits.seeded(0))
    assert [fresh.score_of(k) for k in range(vertices.count)] == other_clip.integers(data).tolist()


def test_what_is_remembered_of_the_rows_goes_with_the_chosen_vertices() -> None:
    rows, X, y = sparse_case(0.0, np.float64)
    data = in_memory(X, y, rows)
    query = VertexScores(rows, Logistic(), whole_vertices(L1Ball(2.0), 80), ChosenVertices(), 1.0)
    selection_of(query, data)
    assert len(lazy_selection._SELECTIONS[data]) == 1
    del query
    gc.collect()
    assert len(lazy_selection._SELECTIONS[data]) == 0
