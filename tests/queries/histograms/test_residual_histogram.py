"""Counts of residuals: what is counted where, and what a row can change."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.queries.histograms.residual_histogram import ResidualHistogram
from discreet.rows import RowSpec

ROWS = RowSpec(2, 2.0, 1.0)
THETA, EDGES = np.array([0.5, -1.0, 0.25]), np.array([-1.0, -0.25, 0.0, 0.5, 2.0])


def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.uniform(-1, 1, (200, 2)), rng.normal(size=200)


def test_counts_are_those_of_the_residuals() -> None:
    X, y = table()
    residuals = y - (X @ THETA[:2] + THETA[2])
    expected = np.histogram(np.clip(residuals, -1, 2), EDGES)[0]
    query = ResidualHistogram(ROWS, THETA, EDGES)
    np.testing.assert_array_equal(query.integers(in_memory(X, y, ROWS)), expected)
    np.testing.assert_array_equal(query.unrounded(in_memory(X, y, ROWS)), expected)


@pytest.mark.parametrize("target", [math.nan, math.inf, -math.inf])
def test_a_row_without_a_finite_target_is_not_counted(target: float) -> None:
    X, y = table()
    y[3] = target
    assert ResidualHistogram(ROWS, THETA, EDGES).integers(in_memory(X, y, ROWS)).sum() == 199


def test_no_row_changes_more_than_one_count() -> None:
    """Whatever it contains, also where its score is beyond all numbers."""
    X, y = table()
    query = ResidualHistogram(ROWS, np.array([1e200, -1e300, 0.0]), EDGES)
    before = query.integers(in_memory(X, y, ROWS))
    for x, target in (((1e308, -1e308), 1e308), ((np.nan, np.inf), -1e308), ((0.0, 0.0), 0.0)):
        after = query.integers(in_memory(np.vstack([X, x]), np.append(y, target), ROWS))
        assert np.abs(after - before).sum() == 1


@pytest.mark.parametrize("edges", [[0.0], [1.0, 0.0], [0.0, math.inf]], ids=str)
def test_edges_that_are_none_are_refused(edges: list[float]) -> None:
    with pytest.raises(InvalidInput, match="edges"):
        ResidualHistogram(ROWS, THETA, np.array(edges))


def test_a_parameter_of_another_shape_and_rows_without_bound_are_refused() -> None:
    with pytest.raises(InvalidInput, match="one output"):
        ResidualHistogram(ROWS, THETA[:2], EDGES)
    free = RowSpec(2, math.inf, 1.0)
    with pytest.raises(InvalidInput, match="row_norm"):
        ResidualHistogram(free, THETA, EDGES).integers(in_memory(*table(), free))
