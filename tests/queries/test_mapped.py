"""Rows that a public map makes: each from one row alone, within the bounds that queries claim for every row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.losses import Logistic
from discreet.queries.mapped import ColumnWeights, MappedRows
from discreet.queries.sums.column_second_moment import ColumnSecondMoment
from discreet.queries.sums.gradient import GradientSum
from discreet.queries.sums.row_sum import RowSum
from discreet.rows import ROW_BITS, RowSpec

ROWS, PLAIN = RowSpec(3, 1.0, 0.5), RowSpec(3, 1.0)
WEIGHTS = np.array([0.2, 1.0, 7.0])


def summed(query: Any, data: Any, through: ColumnWeights) -> Any:
    return query.integers(MappedRows(data, through, True))


rows_of_any_kind = st.lists(st.tuples(*[st.floats(allow_nan=True, allow_infinity=True)] * 3), min_size=1, max_size=6)


@settings(max_examples=150, deadline=None)
@given(rows_of_any_kind, st.booleans(), st.integers(0, 5), st.sampled_from([-1.0, 1.0, math.nan]))
def test_one_row_moves_sums_over_made_rows_by_no_more_than_their_bounds(
    X: Any, sparse: bool, which: int, label: float
) -> None:
    X = np.array(X)
    y = np.resize([1.0, -1.0, label], len(X))
    keep = np.arange(len(X)) != which % len(X)
    centre = np.array([0.3, -0.2, 0.1])
    for spec, through in (
        (ROWS, ColumnWeights(ROWS, WEIGHTS)),
        (ROWS, ColumnWeights(ROWS, WEIGHTS, centre)),
        (PLAIN, ColumnWeights(PLAIN, WEIGHTS, centre)),
    ):
        tables = [sp.csr_array(X[part]) if sparse else X[part] for part in (slice(None), keep)]
        worlds = [in_memory(table, y[part], spec) for table, part in zip(tables, (slice(None), keep), strict=True)]
        theta = np.array([0.3, -2.0, 1.0, 0.1])[: spec.dimension]
        for query in (GradientSum(spec, Logistic(), theta, 0.5), RowSum(spec), ColumnSecondMoment(spec, 2.0)):
            more, less = (summed(query, world, through) for world in worlds)
            assert ((more - less).astype(object) ** 2).sum() <= query.bound**2
        (made,) = MappedRows(worlds[0], through, True).map_blocks(lambda block: block.squared_length)
        assert (made <= 4**ROW_BITS).all()


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
        assert np.array_equal(summed(query, in_memory(table, y, rows), through), expected)


def test_maps_make_rows_of_their_own_facts_from_any() -> None:
    query, longer = RowSum(ROWS), RowSpec(3, 2.0, 0.5)
    X = np.full((1, 3), 1.0)
    for rows in (ROWS, longer):
        found = summed(query, in_memory(X, np.ones(1), rows), ColumnWeights(ROWS, np.ones(3)))
        assert int(found @ found) <= query.bound**2


def test_weights_that_make_no_rows_are_refused() -> None:
    with pytest.raises(InvalidInput, match="positive"):
        ColumnWeights(ROWS, np.zeros(3))
    with pytest.raises(InvalidInput, match="do not fit"):
        ColumnWeights(ROWS, np.ones(5))
    with pytest.raises(InvalidInput, match="centre"):
        ColumnWeights(ROWS, np.ones(3), np.array([math.nan, 0.0, 0.0]))
