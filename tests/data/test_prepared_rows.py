"""Rows made ready for many passes: whichever form they take, every sum stays the same to the last digit."""

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.data.entries import entries, mostly_zero, whole_rows, with_constant
from discreet.data.memory import in_memory
from discreet.data.patterns import patterns
from discreet.data.steps import chunks
from discreet.losses import Logistic, Softmax, Squared
from discreet.queries.sums.gradient import GradientSum
from discreet.rows import RowSpec

WILD = (np.nan, np.inf, -np.inf, 1e300, 1e-300, -3e-160, 5e-324)


def table_like(rng, n, d):
    """Rows with few distinct values a column, some empty, some of full width, and some with a value of their own."""
    kinds = rng.integers(1, 4, (20, d)) * (rng.random((20, d)) < 0.6) / 16.0
    X = kinds[rng.integers(0, 20, n)]
    X[: n // 50], X[n // 50 : n // 25] = 0.0, 0.125
    own = rng.random(n) < 0.02
    X[own, d // 2] = rng.standard_normal(own.sum())
    return X


def block_of(X, rows, y=None):
    (block,) = in_memory(X, np.zeros(X.shape[0]) if y is None else y, rows).map_blocks(lambda b: b)
    return block


@pytest.fixture(autouse=True)
def one_block(monkeypatch):
    monkeypatch.setenv("DISCREET_THREADS", "1")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_gets_the_same_scale_dense_or_sparse_short_or_long(dtype):
    """Lengths within one part in 10⁶ of the bound are summed in column order, others in any; both end alike."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 11)) * (rng.random((4000, 11)) < 0.6)
    lengths = np.sqrt((X**2).sum(axis=1, keepdims=True))
    X = 2.0 * X / np.maximum(lengths, 1e-9) * (1 + rng.choice([-1e-3, -1e-7, -1e-15, 0.0, 1e-15, 1e-7, 1.0], (4000, 1)))
    X[2000:] *= rng.uniform(0.5, 3.0, (2000, 1))
    X[:200] *= 10.0 ** rng.integers(-320, 300, (200, 1))
    X[rng.integers(0, 4000, 300), rng.integers(0, 11, 300)] = rng.choice(WILD, 300)
    with np.errstate(over="ignore"):
        X = X.astype(dtype)
    rows = RowSpec(11, 2.0, 0.7)
    dense, sparse = block_of(X, rows), block_of(sp.csr_array(X), rows)
    assert (dense.scale == sparse.scale).all()
    assert (dense.squared_length == sparse.squared_length).all()
    assert (dense.squared_length <= 4**18).all()
    assert len(np.unique(dense.scale)) > 1000  # clipped rows have scales of their own


@pytest.mark.parametrize("intercept", [0.0, 0.7])
def test_entries_and_whole_rows_are_the_prepared_rows(intercept):
    rng = np.random.default_rng(1)
    X = table_like(rng, 500, 10)
    X[rng.integers(0, 500, 60), rng.integers(0, 10, 60)] = rng.choice(WILD, 60)
    rows = RowSpec(10, 1.5, intercept)
    for block in (block_of(X, rows), block_of(sp.csr_array(X), rows)):
        steps = [piece if isinstance(piece, np.ndarray) else piece.toarray() for _, piece in chunks(block)]
        stored = entries(block, rounded=True)
        if intercept:
            stored = with_constant(stored, 10, rows.constant)
        columns = stored.indices.astype(np.int64)
        found = sp.csr_array((stored.values.astype(float), columns, stored.indptr), shape=(500, rows.dimension))
        assert (found.toarray() == np.vstack(steps)).all()
    assert (whole_rows(block_of(X, rows)) == np.vstack(steps)).all()


def test_dense_rows_are_judged_by_how_much_is_zero():
    rows = RowSpec(20, 1.0)
    assert mostly_zero(block_of(np.eye(20), rows))
    assert not mostly_zero(block_of(np.ones((200, 20)), rows))


@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=repr)
@pytest.mark.parametrize("intercept", [0.0, 0.4])
def test_sums_by_patterns_equal_sums_by_entries(loss, intercept):
    rng = np.random.default_rng(2)
    X, y = table_like(rng, 3000, 14), np.where(rng.random(3000) < 0.5, 1.0, -1.0)
    y[:7] = np.nan
    rows = RowSpec(14, 1.0, intercept)
    sparse, dense = in_memory(sp.csr_array(X), y, rows), in_memory(X, y, rows)
    for _ in range(4):
        query = GradientSum(rows, loss, rng.standard_normal(rows.shape), 0.6)
        assert (query.integers(sparse) == query.integers(dense)).all()
    (block,) = sparse.map_blocks(lambda b: b)
    found = patterns(block)
    assert found is not None
    assert len(found.codes) > 8 * len(found.values)  # patterns repeat


def test_rows_that_do_not_repeat_stay_as_they_are():
    rng = np.random.default_rng(3)
    rows = RowSpec(40, 1.0)
    block = block_of(sp.random_array((9000, 40), density=0.3, format="csr", rng=rng), rows)
    assert patterns(block) is None  # the first pass never looks for patterns
    assert patterns(block) is None


def test_a_full_table_of_patterns_leaves_the_rest_as_entries(monkeypatch):
    monkeypatch.setattr("discreet.data.patterns._MOST", 20)
    rng = np.random.default_rng(4)
    X, y = table_like(rng, 2000, 6), rng.standard_normal(2000)
    X[:, :3], rows = 0.25, RowSpec(6, 1.0, 0.5)
    sparse, dense = in_memory(sp.csr_array(X), y, rows), in_memory(X, y, rows)
    for _ in range(3):
        query = GradientSum(rows, Squared(), rng.standard_normal(7), 0.6)
        assert (query.integers(sparse) == query.integers(dense)).all()
    (block,) = sparse.map_blocks(lambda b: b)
    found = patterns(block)
    assert found is not None
    assert len(found.values) == 20
    assert len(found.rest.values) > 100


@pytest.mark.parametrize("classes", [2, 3, 4, 5, 8, 11, 16, 19])
@pytest.mark.parametrize("density", [0.2, 0.95])
def test_class_sums_follow_the_definition_at_every_number_of_classes(classes, density):
    """Σ trunc(clip(slopes)) ⊗ row in Python integers, for rows held dense, by entries and sparse."""
    from discreet.queries.kernels.gradient import _softmax_steps
    from discreet.queries.kernels.slope_caps import whole_slope_caps
    from discreet.queries.parameters import whole_parameter

    rng = np.random.default_rng(classes)
    n, d = 60, 9
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < density)
    y = rng.integers(-1, classes + 1, n).astype(float)  # some labels are unknown
    rows = RowSpec(d, 1.5, 0.7, classes)
    query = GradientSum(rows, Softmax(classes), rng.standard_normal(rows.shape), 0.5)
    block = block_of(X, rows, y)
    theta, z_unit = whole_parameter(query.theta, rows.unit)
    caps = whole_slope_caps(block.squared_length, query.bound)
    expected = np.zeros(rows.shape, object)
    for part, steps in chunks(block):
        for row, label, cap in zip(steps, y[part], caps[part], strict=True):
            z = np.array([sum(int(a) * int(b) for a, b in zip(row, t, strict=True)) for t in theta], float) * z_unit
            slopes = np.empty(classes)
            _softmax_steps(z, label, rows.unit / query.grid, cap, True, slopes)
            assert (slopes**2).sum() <= cap**2
            expected += np.array([[int(a) * int(x) for x in row] for a in slopes], object)
    for given in (X, sp.csr_array(X)):
        assert query.integers(in_memory(given, y, rows)).tolist() == expected.tolist()


@pytest.mark.parametrize("rounded", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps_of_dense_rows_are_those_of_sparse_rows(dtype, rounded):
    """Dense steps are compiled, sparse ones are not: wild entries included, they agree to the last bit."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((3000, 7)) * 10.0 ** rng.integers(-30, 30, (3000, 7)) * (rng.random((3000, 7)) < 0.7)
    X[rng.integers(0, 3000, 300), rng.integers(0, 7, 300)] = rng.choice(WILD, 300)
    with np.errstate(over="ignore"):
        X = X.astype(dtype)
    rows = RowSpec(7, 1.0, 0.5)
    dense = np.concatenate([steps for _, steps in chunks(block_of(X, rows), rounded=rounded)])
    sparse = np.concatenate([steps.toarray() for _, steps in chunks(block_of(sp.csr_array(X), rows), rounded=rounded)])
    assert (dense == sparse).all()
    assert np.isfinite(dense).all()
    assert (np.abs(dense) > 0).mean() > 0.1
