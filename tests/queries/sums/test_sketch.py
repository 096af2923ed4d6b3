"""Sketched sums of sparse rows: the sketch is a linear map, and the bound holds for every seed, in integers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from tests.queries.sums.cases import ROWS, D, one_row

from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.queries.sums.gaussian_sketch import GaussianSketch
from discreet.queries.sums.sketch import Sketch, SketchedSum
from discreet.queries.sums.sparse_sum import SparseSum


def matrix(sketch: Sketch) -> np.ndarray:
    return np.column_stack([sketch.apply(column) for column in np.eye(sketch.d)])


def test_a_sketch_is_a_linear_map_with_unit_columns_and_this_adjoint() -> None:
    sketch = Sketch(40, 7, 3, seed=5)
    A = matrix(sketch)
    assert A.shape == (21, 40)
    assert np.allclose((A**2).sum(axis=0), 1.0)
    assert (np.count_nonzero(A.reshape(3, 7, 40), axis=1) == 1).all()
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=40), rng.normal(size=21)
    assert np.allclose(sketch.apply(x), A @ x)
    assert np.allclose(sketch.adjoint(y), A.T @ y)
    assert np.linalg.norm(A, 2) ** 2 <= sketch.squared_norm() * (1 + 1e-12)
    assert not np.array_equal(A, matrix(Sketch(40, 7, 3, seed=6)))


def test_places_and_signs_are_spread_evenly() -> None:
    """10⁵ columns on 16 places, by χ² at p = 1e-6, and signs within five standard deviations."""
    from scipy.stats import chisquare

    sketch = Sketch(100_000, 16, 2, seed=1)
    loads = np.zeros(32, np.int64)
    from discreet.queries.kernels.sketch import bucket_loads

    bucket_loads(sketch.d, *sketch.facts, loads)
    assert chisquare(loads[:16]).pvalue > 1e-6
    assert abs(sketch.apply(np.ones(sketch.d)).sum()) * math.sqrt(2) <= 5 * math.sqrt(2 * 100_000)


def test_a_sketched_row_stays_inside_its_bound_however_unlucky_the_sketch() -> None:
    """Narrow sketches make every column collide; 5000 rows, and for each seed the worst row there is."""
    rng = np.random.default_rng(4)
    cut = 0
    for trial in range(5000):
        sketch = Sketch(D, int(rng.integers(1, 4)), int(rng.integers(1, 5)), seed=trial)
        query = SketchedSum(ROWS, D, sketch)
        row = one_row(rng, trial)
        if trial % 5 == 0:  # the direction that the sketch stretches most
            row = np.linalg.svd(matrix(sketch))[2][:1] * 2.0
            cut += 2.0 * np.linalg.norm(matrix(sketch), 2) > query.bound * query.grid
        found = query.integers(in_memory(row, np.zeros(1), ROWS))
        assert int((found.astype(object) ** 2).sum()) <= query.bound**2
    assert cut > 500  # without the cut most of them would have been longer than the claim


def test_a_gaussian_sketch_is_the_public_matrix_and_stays_inside_its_bound() -> None:
    """400 rows, a third of them in the direction that the matrix stretches most."""
    rng, cut = np.random.default_rng(5), 0
    for trial in range(400):
        sketch = GaussianSketch(D, int(rng.integers(1, 30)), seed=trial, stretch=1.05)
        A = np.column_stack([sketch.apply(column) for column in np.eye(D)])
        query, row = SketchedSum(ROWS, D, sketch), one_row(rng, trial)
        if trial % 3 == 0:
            row = np.linalg.svd(A)[2][:1] * 2.0
        data = in_memory(row, np.zeros(1), ROWS)
        found = query.integers(data)
        assert int((found.astype(object) ** 2).sum()) <= query.bound**2
        exact = A @ (SparseSum(ROWS, D, "l2").integers(data) * ROWS.unit)
        if np.linalg.norm(exact) <= query.bound * query.grid * (1 - 1e-6):
            np.testing.assert_allclose(found * query.grid, exact, atol=1.01 * query.grid * math.sqrt(sketch.rows))
        else:
            cut += 1
    assert cut > 50
    with pytest.raises(InvalidInput, match="entries"):
        GaussianSketch(10**7, 100)
    with pytest.raises(InvalidInput, match="stretch"):
        GaussianSketch(10, 4, stretch=0.5)


def test_layout_does_not_matter() -> None:
    X = sp.random_array((6000, D), density=0.3, rng=np.random.default_rng(1), format="csr")
    sketched = SketchedSum(ROWS, 5, Sketch(D, 8))
    found = sketched.integers(in_memory(X, np.zeros(6000), ROWS))
    assert (found == sketched.integers(in_memory(X.toarray(), np.zeros(6000), ROWS))).all()


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match="features"):
        SketchedSum(ROWS, 3, Sketch(D + 1, 4))
    with pytest.raises(InvalidInput, match="blocks"):
        Sketch(10, 0)


def test_a_length_beyond_the_precision_of_doubles_is_still_cut() -> None:
    """2^58 + 15 999 rounds to 2^58 when the ones are added one by one: the sum of squares looks short enough."""
    from discreet.queries.kernels.sketch import sketch_rows_densely

    columns = np.full((1, 16_000), 2.0**-18, np.float32)
    columns[0, 0] = 2.0**11
    total = np.zeros(16_000)
    sketch_rows_densely(np.array([2.0**18]), np.zeros(1, np.int64), np.array([0, 1]), columns, 2.0**58, True, total)
    assert 0.99 * 2**58 < sum(int(value) ** 2 for value in total) <= 2**58


def test_a_sketch_whose_sums_would_leave_exact_doubles_is_refused() -> None:
    """2^27 rows, each of at most 2^8·2^ROW_BITS steps in an entry, sum to 2^53."""
    GaussianSketch(4, 2**14, stretch=2.0)
    with pytest.raises(InvalidInput, match="at most 2"):
        GaussianSketch(4, 2**14, stretch=2.1)
