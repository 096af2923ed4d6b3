"""Sums of sparse rows: the enforced bounds, in integers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from tests.queries.sums.cases import ROWS, D, one_row

from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.queries.sums.sparse_sum import SparseSum
from discreet.rows import ROW_BITS, RowSpec


@pytest.mark.parametrize("sparse", [False, True])
def test_one_row_stays_inside_both_bounds(sparse: bool) -> None:
    """5000 rows of each layout, each alone: its contribution is exactly what it adds to any sum."""
    rng = np.random.default_rng(0)
    for trial in range(5000):
        s = int(rng.integers(1, D + 1))
        row = one_row(rng, trial)
        data = in_memory(sp.csr_array(row) if sparse else row, np.zeros(1), ROWS)
        found = SparseSum(ROWS, s, "l2").integers(data)
        assert np.count_nonzero(found) <= s
        assert int((found.astype(object) ** 2).sum()) <= 4**ROW_BITS
        assert int(np.abs(found).sum()) <= SparseSum(ROWS, s, "l1").bound


def test_the_bounds_are_reached() -> None:
    row = np.zeros((1, D))
    row[0, :16] = 0.5  # ‖row‖ = 2 = 4·(1/2), all entries whole steps
    data = in_memory(row, np.zeros(1), ROWS)
    found = SparseSum(ROWS, 16, "l1").integers(data)
    assert int(np.abs(found).sum()) == SparseSum(ROWS, 16, "l1").bound == 4 * 2**ROW_BITS
    assert int((found**2).sum()) == 4**ROW_BITS


def test_the_largest_entries_are_kept_and_the_leftmost_of_equals() -> None:
    row = np.array([[0.1, -0.5, 0.3, 0.3, -0.3, 0.0]])
    rows = RowSpec(6, 1.0)
    for held in (row, sp.csr_array(row)):
        data = in_memory(held, np.zeros(1), rows)
        kept = SparseSum(rows, 3, "l2").unrounded(data)
        assert np.allclose(kept, [0, -0.5, 0.3, 0.3, 0, 0])


def test_layout_and_partition_do_not_matter() -> None:
    rng = np.random.default_rng(1)
    X = sp.random_array((6000, D), density=0.3, rng=rng, format="csr")
    whole = SparseSum(ROWS, 5).integers(in_memory(X, np.zeros(6000), ROWS))
    assert (whole == SparseSum(ROWS, 5).integers(in_memory(X.toarray(), np.zeros(6000), ROWS))).all()
    parts = [SparseSum(ROWS, 5).integers(in_memory(part, np.zeros(3000), ROWS)) for part in (X[:3000], X[3000:])]
    assert (whole == parts[0] + parts[1]).all()


def test_sums_are_those_of_plain_arithmetic() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, D)) / 10
    data = in_memory(X, np.zeros(200), ROWS)
    query = SparseSum(ROWS, D)
    assert np.allclose(query.integers(data) * query.grid, X.sum(axis=0), atol=200 * query.grid)
    assert np.allclose(query.unrounded(data), X.sum(axis=0))


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match="sparsity"):
        SparseSum(ROWS, 0)
    with pytest.raises(InvalidInput, match="constant"):
        SparseSum(RowSpec(3, 1.0, 1.0), 1)
    unbounded = RowSpec(2, math.inf)
    with pytest.raises(InvalidInput, match="row_norm"):
        SparseSum(unbounded, 1).integers(in_memory(np.ones((1, 2)), np.zeros(1), unbounded))
