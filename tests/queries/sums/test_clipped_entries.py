"""Sums of entries around a centre are those of NumPy, dense or sparse; what is not finite counts nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.queries.sums.clipped_entries import ClippedEntrySum
from discreet.rows import RowSpec

ROWS = RowSpec(3, 1.0, 0.5)


@pytest.mark.parametrize("held", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_the_sum_is_that_of_cut_entries(held):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3)) * (rng.random((400, 3)) < 0.5) * 3
    X[0] = [math.nan, math.inf, 1e300]
    centre = np.array([0.5, -2.0, 0.1])
    expected = np.clip(X[1:] - centre, -1.2, 1.2).sum(axis=0) + [0.0, 0.0, 1.2]
    query, data = ClippedEntrySum(ROWS, centre, 1.2), in_memory(held(X), np.zeros(400), ROWS)
    np.testing.assert_allclose(query.unrounded(data), expected, atol=1e-9)
    np.testing.assert_allclose(query.grid * query.integers(data), expected, atol=400 * query.grid)
    batch = data.take(np.arange(0, 400, 3))
    again = in_memory(X[::3], np.zeros(134), ROWS)
    assert (query.integers(batch) == query.integers(again)).all()


def test_the_bound_is_reached_by_a_row_whose_entries_are_all_cut():
    query = ClippedEntrySum(ROWS, np.zeros(3), 0.5)
    row = query.integers(in_memory(np.full((1, 3), 1e9), np.zeros(1), ROWS))
    assert query.bound - 1 < math.sqrt(sum(int(v) ** 2 for v in row)) <= query.bound


def test_bad_input():
    with pytest.raises(InvalidInput, match="columns"):
        ClippedEntrySum(ROWS, np.zeros(4), 1.0)
    with pytest.raises(InvalidInput, match="width"):
        ClippedEntrySum(ROWS, np.zeros(3), 0.0)
    with pytest.raises(InvalidInput, match="finite width"):
        ClippedEntrySum(ROWS, np.zeros(3), math.inf).integers(in_memory(np.ones((1, 3)), np.zeros(1), ROWS))
