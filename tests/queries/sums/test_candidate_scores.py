"""Scores of candidate parameters: their sensitivity, in integers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.data.memory import in_memory
from discreet.losses import Logistic, Loss, Squared
from discreet.queries.sums.candidate_scores import CandidateScores
from discreet.rows import RowSpec

ROWS = RowSpec(2, norm=1.0, intercept=0.5)


@pytest.mark.parametrize("loss", [Squared(), Logistic()])
def test_one_row_moves_every_score_by_at_most_half_the_bound(loss: Loss) -> None:
    """10⁴ rows, ordinary and adversarial, each alone: its contribution is exactly what it adds to any sum."""
    rng = np.random.default_rng(0)
    candidates = 5 * rng.normal(size=(7, 3))
    query = CandidateScores(ROWS, loss, candidates, 3.0)
    odd = np.array([0.0, 1.0, -1.0, 1e308, -1e308, np.inf, np.nan, 1e-320])
    for trial in range(10_000):
        x = rng.normal(size=(1, 2)) if trial % 2 else rng.choice(odd, (1, 2))
        y = np.sign(rng.normal(size=1)) if trial % 3 else rng.choice(odd[:4], 1)
        scores = query.integers(in_memory(x, y, ROWS))
        assert abs(scores).max() <= query.bound, (x, y)


def test_blocks_and_sparse_rows_give_the_same_integers() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(5000, 2)), np.sign(rng.normal(size=5000))
    query = CandidateScores(ROWS, Logistic(), rng.normal(size=(5, 3)), 3.0)
    whole = query.integers(in_memory(X, y, ROWS))
    assert (whole == query.integers(in_memory(sp.csr_array(X), y, ROWS))).all()
    halves = [query.integers(in_memory(X[part], y[part], ROWS)) for part in (slice(0, 1234), slice(1234, None))]
    assert (whole == sum(halves)).all()
    assert np.allclose(query.unrounded(in_memory(X, y, ROWS)), whole * query.grid - 5000 * 1.5, rtol=1e-4)
