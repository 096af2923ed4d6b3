"""Sums of sparse rows, plain and sketched: the enforced bounds, in integers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.queries.sums.sketch import Sketch, SketchedSum
from discreet.queries.sums.sparse_sum import SparseSum
from discreet.rows import ROW_BITS, RowSpec

D = 30
ROWS = RowSpec(D, norm=2.0)
ODD = np.array([0.0, 2.0, -2.0, 1e308, -1e308, np.inf, np.nan, 1e-320, 0.7, -1e-4])


def one_row(rng: np.random.Generator, trial: int) -> np.ndarray:
    """Ordinary, spread, spiky and broken rows."""
    kind = trial % 4
    if kind == 0:
        return rng.normal(size=(1, D))
    if kind == 1:
        return np.full((1, D), rng.choice([1.0, -1.0])) * rng.choice([1, -1], (1, D))
    if kind == 2:
        return rng.choice(ODD, (1, D))
    row = np.zeros((1, D))
    row[0, rng.integers(D)] = rng.choice(ODD)
    return row


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
    sketched = SketchedSum(ROWS, 5, Sketch(D, 8))
    found = sketched.integers(in_memory(X, np.zeros(6000), ROWS))
    assert (found == sketched.integers(in_memory(X.toarray(), np.zeros(6000), ROWS))).all()


def test_sums_are_those_of_plain_arithmetic() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, D)) / 10
    data = in_memory(X, np.zeros(200), ROWS)
    query = SparseSum(ROWS, D)
    assert np.allclose(query.integers(data) * query.grid, X.sum(axis=0), atol=200 * query.grid)
    assert np.allclose(query.unrounded(data), X.sum(axis=0))


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


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match="sparsity"):
        SparseSum(ROWS, 0)
    with pytest.raises(InvalidInput, match="constant"):
        SparseSum(RowSpec(3, 1.0, 1.0), 1)
    with pytest.raises(InvalidInput, match="features"):
        SketchedSum(ROWS, 3, Sketch(D + 1, 4))
    with pytest.raises(InvalidInput, match="blocks"):
        Sketch(10, 0)
    unbounded = RowSpec(2, math.inf)
    with pytest.raises(InvalidInput, match="row_norm"):
        SparseSum(unbounded, 1).integers(in_memory(np.ones((1, 2)), np.zeros(1), unbounded))
