"""Gradient sums of centred and scaled rows: those of rows made one by one, within their bound in integers."""

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
from discreet.losses import Softmax
from discreet.queries.sums.gradient import GradientSum
from discreet.queries.sums.scaled_gradient import LARGEST_WEIGHT, ScaledGradientSum, Scaling
from discreet.rows import ROW_BITS, RowSpec

ROWS = RowSpec(5, 2.0, 1.0, outputs=3)


def by_hand(query: ScaledGradientSum, X: Any, y: Any) -> list[list[int]]:
    """Each row made for itself, its slopes by the loss, clipped and cut to whole numbers; sums in Python's integers."""
    rows, scaling, d = query.rows, query.scaling, query.rows.n_features
    total = [[0] * rows.dimension for _ in range(rows.outputs)]
    steps = in_memory(X, y, rows).map_blocks(lambda block: np.rint(block.X * block.scale[:, None]))
    for x, label in zip(np.vstack(steps), y, strict=True):
        given = [*(int(v) for v in x), int(rows.constant)]
        centre = [*(int(c) for c in scaling.centre), 0]
        made = [int(w) * (v - c) for w, v, c in zip(scaling.weights, given, centre, strict=True)]
        z = rows.unit * query.theta @ np.array(made, dtype=np.float64)
        slope = np.asarray(query.loss.slope(z, int(label))) * rows.unit / query.grid
        largest = min(math.isqrt(query.bound**2 // sum(m * m for m in made)), 2**17)
        slope *= min(1.0, largest / float(np.linalg.norm(slope)))
        for k in range(rows.outputs):
            for j in range(d + 1):
                total[k][j] += int(np.trunc(slope[k])) * made[j]
    return total


def some_scaling(rng: np.random.Generator, rows: RowSpec = ROWS) -> Scaling:
    centre = rng.integers(-(2**16), 2**16, rows.n_features)
    return Scaling(rows, rng.integers(1, LARGEST_WEIGHT + 1, rows.dimension), centre)


def test_the_sum_is_that_of_rows_made_one_by_one() -> None:
    """To a step in a slope of each row, since slopes are whole and scores differ in their last bits."""
    rng = np.random.default_rng(0)
    for clip in (0.3, 3.0, 300.0):
        X, y = rng.normal(size=(40, 5)), rng.integers(3, size=40).astype(float)
        query = ScaledGradientSum(some_scaling(rng), Softmax(3), rng.normal(size=ROWS.shape) / 50, clip)
        found, expected = query.integers(in_memory(X, y, ROWS)), np.array(by_hand(query, X, y), dtype=np.float64)
        assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()
        exact = query.unrounded(in_memory(X, y, ROWS))
        # 2^ROW_BITS steps a row, and a clip of 2^34 steps with up to 2^10 slopes
        assert np.abs(found * query.grid - exact).max() <= 40 * clip * 2.0**-9


def test_without_weights_and_centre_it_is_the_gradient_sum() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(50, 5)), rng.integers(3, size=50).astype(float)
    plain = Scaling(ROWS, np.ones(6, dtype=np.int64), np.zeros(5, dtype=np.int64))
    theta, data = rng.normal(size=ROWS.shape), in_memory(X, y, ROWS)
    found, expected = (
        kind.integers(data)
        for kind in (ScaledGradientSum(plain, Softmax(3), theta, 0.7), GradientSum(ROWS, Softmax(3), theta, 0.7))
    )
    assert np.array_equal(found, expected)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.05, 1.0))
def test_dense_and_sparse_rows_have_one_sum(seed: int, share: float) -> None:
    """More rows than are worked on together, with labels that are none; θ up to where scores leave all floats."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((150, 5)) < share, rng.normal(size=(150, 5)), 0.0)
    X[0, 0] = rng.choice([np.nan, np.inf, 1e308])
    y = rng.choice([0.0, 1.0, 2.0, 3.0, -1.0, 0.3, np.nan, np.inf], 150)
    theta = rng.normal(size=ROWS.shape) * 10.0 ** rng.choice([-3, 0, 300])
    query = ScaledGradientSum(some_scaling(rng), Softmax(3), theta, 0.5)
    assert np.array_equal(query.integers(in_memory(X, y, ROWS)), query.integers(in_memory(sp.csr_array(X), y, ROWS)))


def test_lengths_are_exact_and_slopes_stay_whole_at_the_largest_weights() -> None:
    """A row opposite to the longest centre, with the largest weights: the bound is kept in Python's integers."""
    rows = RowSpec(1, 1.0, 1e-3, outputs=2)
    largest = 2**ROW_BITS - 1
    scaling = Scaling(rows, np.array([LARGEST_WEIGHT, 1]), np.array([-largest]))
    data = in_memory(np.array([[1.0]]), np.array([1.0]), rows)
    (squared,) = data.map_blocks(lambda block: scaling.squared_lengths(block, rounded=True))
    (step,) = data.map_blocks(lambda block: int(np.rint(block.X * block.scale[:, None])[0, 0]))
    assert int(squared[0]) == (LARGEST_WEIGHT * (step + largest)) ** 2 + int(rows.constant) ** 2
    total = ScaledGradientSum(scaling, Softmax(2), np.zeros(rows.shape), 1e-6).integers(data)
    length = sum(int(v) ** 2 for v in total.ravel())
    assert 0.9 * ScaledGradientSum.bound**2 < length <= ScaledGradientSum.bound**2


@pytest.mark.parametrize(
    ("weights", "centre", "rows", "words"),
    [
        ([0, 1, 1], [0, 0], RowSpec(2, 1.0, 0.5), "between 1 and 64"),
        ([65, 1, 1], [0, 0], RowSpec(2, 1.0, 0.5), "between 1 and 64"),
        ([1, 1], [0, 0], RowSpec(2, 1.0, 0.5), "3 whole numbers"),
        ([1, 1, 1], [0], RowSpec(2, 1.0, 0.5), "2 whole numbers"),
        ([1, 1, 1], [2**18, 1], RowSpec(2, 1.0, 0.5), "longer than a row"),
        ([1, 1], [0, 1], RowSpec(2, 1.0), "constant column"),
    ],
)
def test_a_scaling_whose_bound_would_not_hold_is_refused(weights: Any, centre: Any, rows: RowSpec, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Scaling(rows, np.array(weights), np.array(centre))
