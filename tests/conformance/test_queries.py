"""Every query enforces, in integers, the bound that it claims; and its sums are exact whatever holds the rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.data.memory import in_memory
from discreet.losses import Huber, Logistic, Poisson, Quantile, SmoothedHinge, Softmax, Squared
from discreet.queries.sums.count import RowCount
from discreet.queries.sums.gradient import GradientSum
from discreet.rows import ROW_BITS, RowSpec

LOSSES = [
    Squared(),
    Logistic(),
    Huber(0.5),
    SmoothedHinge(0.5),
    Poisson(),
    Quantile(0.3),
    Quantile(0.5, 0.1),
    Softmax(3),
]
EXTREMES = [0.0, -0.0, 1.0, -1.0, 1e308, -1e308, 5e-324, 1e-310, 1e-8, 1e16, np.nan, np.inf, -np.inf, 0.1, 1 / 3]


def rows_for(loss, d, norm=1.5, intercept=0.7):
    return RowSpec(d, norm, intercept, loss.classes if isinstance(loss, Softmax) else 1)


def targets(loss, n, rng):
    if isinstance(loss, Softmax):
        return rng.choice([0.0, 1.0, 2.0, -1.0, 7.0, np.nan], n)
    if isinstance(loss, Logistic | SmoothedHinge):
        return rng.choice([-1.0, 1.0, np.nan], n, p=[0.45, 0.45, 0.1])
    return rng.choice([-1.0, 1.0, 0.3, np.nan, 0.0], n)


def awkward_rows(n, d, rng):
    """Gaussian rows at many magnitudes, and rows of extreme entries."""
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-12, 12, (n, 1))
    wild = rng.random(n) < 0.3
    X[wild] = rng.choice(EXTREMES, (int(wild.sum()), d))
    return X


def contribution(query, x, y):
    """One row's contribution as Python integers: no overflow can hide."""
    data = in_memory(x[None, :], np.array([y]), query.rows)
    return [int(v) for v in query.integers(data).ravel()]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_no_row_exceeds_the_claimed_bound(loss):
    rng = np.random.default_rng(1)
    d = 4
    rows = rows_for(loss, d)
    X, y = awkward_rows(1500, d, rng), targets(loss, 1500, rng)
    largest = 0
    for i in range(len(X)):
        theta = rng.standard_normal(rows.shape) * 10.0 ** rng.uniform(-6, 6)
        query = GradientSum(rows, loss, theta, clip=10.0 ** rng.uniform(-3, 3))
        squared = sum(v * v for v in contribution(query, X[i], y[i]))
        assert squared <= query.bound**2
        largest = max(largest, squared)
    assert largest > 0.99 * query.bound**2  # the bound is reached, so a smaller claim would have been caught


def test_a_difference_of_gradients_keeps_the_bound():
    rng = np.random.default_rng(2)
    rows = RowSpec(3, 2.0, 1.0)
    for x, y in zip(awkward_rows(500, 3, rng), rng.choice([-1.0, 1.0], 500), strict=True):
        query = GradientSum(rows, Squared(), rng.standard_normal(4) * 100, 0.5, anchor=rng.standard_normal(4))
        assert sum(v * v for v in contribution(query, x, y)) <= query.bound**2


def test_prepared_rows_obey_the_length_bound_in_integers():
    from discreet.data.steps import chunks

    rng = np.random.default_rng(3)
    X = awkward_rows(4000, 7, rng)
    for dtype in (np.float32, np.float64):
        with np.errstate(over="ignore"):
            data = in_memory(X.astype(dtype), np.zeros(4000), RowSpec(7, 3.0, 1.0))
        for block in data.map_blocks(lambda b: b):
            for part, steps in chunks(block):
                squared = (steps.astype(object) ** 2).sum(axis=1)
                assert (steps == np.rint(steps)).all()
                assert all(s <= 4**ROW_BITS for s in squared)
                assert squared.tolist() == block.squared_length[part].tolist()


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_do_not_depend_on_order_partition_threads_or_storage(loss, dtype, monkeypatch):
    rng = np.random.default_rng(4)
    n, d = 6000, 9
    X = (rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.4)).astype(dtype)
    X[0, 0], X[1], X[2, 3] = np.nan, 3e30, -np.inf
    y = targets(loss, n, rng)
    rows = rows_for(loss, d)
    query = GradientSum(rows, loss, rng.standard_normal(rows.shape), 0.8)
    monkeypatch.setenv("DISCREET_THREADS", "1")
    expected = query.integers(in_memory(X, y, rows))
    order = rng.permutation(n)
    parts = np.split(order, sorted(rng.choice(n, 6, replace=False)))
    assert (query.integers(in_memory(X[order], y[order], rows)) == expected).all()
    assert (sum(query.integers(in_memory(X[p], y[p], rows)) for p in parts) == expected).all()
    monkeypatch.setenv("DISCREET_THREADS", "3")
    monkeypatch.setattr("discreet.data.memory._LEAST_ENTRIES", 100)
    assert (query.integers(in_memory(X, y, rows)) == expected).all()
    assert (query.integers(in_memory(np.asfortranarray(X), y, rows)) == expected).all()
    assert (query.integers(in_memory(sp.csr_array(X), y, rows)) == expected).all()
    assert (query.integers(in_memory(sp.coo_array(X), y, rows).take(order)) == expected).all()


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("made", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("share", [0.2, 0.9])
def test_a_batch_sums_to_what_its_rows_sum_to(loss, made, share, monkeypatch):
    """Entries of a batch are not copied but named: the right rows, whichever block they are in, batch after batch."""
    monkeypatch.setenv("DISCREET_THREADS", "3")
    monkeypatch.setattr("discreet.data.memory._LEAST_ENTRIES", 100)
    rng = np.random.default_rng(11)
    X = rng.standard_normal((900, 6)) * (rng.random((900, 6)) < share)
    X[0, 0], X[1], X[2, 3], X[5] = np.nan, 3e30, -np.inf, 0.0
    y, rows = targets(loss, 900, rng), rows_for(loss, 6)
    query = GradientSum(rows, loss, rng.standard_normal(rows.shape), 0.8)
    anchored = GradientSum(rows, loss, rng.standard_normal(rows.shape), 0.8, anchor=rng.standard_normal(rows.shape))
    data = in_memory(made(X), y, rows)
    for chosen in (np.arange(900), np.flatnonzero(rng.random(900) < 0.3), np.array([899]), np.array([], np.int64)):
        batch, copied = data.take(chosen), in_memory(X[chosen], y[chosen], rows)
        again = batch.take(np.flatnonzero(np.arange(len(chosen)) % 3 == 0))
        for asked in (query, anchored):
            assert (asked.integers(batch) == asked.integers(copied)).all()
            assert (asked.integers(again) == asked.integers(in_memory(X[chosen[::3]], y[chosen[::3]], rows))).all()
            assert np.allclose(asked.unrounded(batch), asked.unrounded(copied), rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_integers_agree_with_floating_point(loss):
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((3000, 6)), targets(loss, 3000, rng)
    rows = rows_for(loss, 6)
    query = GradientSum(rows, loss, 0.5 * rng.standard_normal(rows.shape), 1.0)
    data = in_memory(X, y, rows)
    exact, rounded = query.unrounded(data), query.grid * query.integers(data)
    # each row is off by at most a few grid steps; for softmax by the truncation of K slopes
    assert np.abs(exact - rounded).max() <= 3000 * 2e-5


def test_without_bounds_the_sum_is_the_plain_gradient():
    rng = np.random.default_rng(6)
    X, y = rng.standard_normal((200, 5)) * 50, rng.standard_normal(200)
    theta = rng.standard_normal(6)
    query = GradientSum(RowSpec(5, np.inf, 1.0), Squared(), theta, np.inf)
    residual = X @ theta[:5] + theta[5] - y
    expected = np.append(X.T @ residual, residual.sum())
    for data in (X, sp.csr_array(X)):
        np.testing.assert_allclose(query.unrounded(in_memory(data, y, query.rows)), expected, rtol=1e-10)


def test_private_sums_refuse_rows_without_a_bound():
    query = GradientSum(RowSpec(2, np.inf), Squared(), np.zeros(2), 1.0)
    with pytest.raises(ValueError, match="finite row_norm"):
        query.integers(in_memory(np.zeros((1, 2)), np.zeros(1), query.rows))


def test_a_row_counts_once():
    data = in_memory(np.zeros((5, 2)), np.zeros(5), RowSpec(2, 1.0))
    assert int(RowCount().integers(data)) == 5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 2, 7, 8, 9, 15, 16, 17, 31, 100])
def test_sums_follow_the_definition_at_every_width(d, dtype):
    """Σ rint(clip(slope))·rint(scale·x) in Python integers; a squared loss, so that no exponential is in the way."""
    from discreet.data.steps import chunks
    from discreet.queries.kernels.slope_caps import whole_slope_caps
    from discreet.queries.parameters import whole_parameter

    rng = np.random.default_rng(d)
    n = 37  # two blocks of the kernel and a part of one
    X, y = rng.standard_normal((n, d)).astype(dtype), rng.standard_normal(n)
    X[3, d // 2], X[20, -1], X[36, 0], y[5] = np.nan, np.inf, -np.inf, np.nan
    rows = RowSpec(d, 1.5, 0.7)
    query = GradientSum(rows, Squared(), rng.standard_normal(d + 1), 0.8)
    data = in_memory(X, y, rows)
    (block,) = data.map_blocks(lambda b: b)
    theta, z_unit = whole_parameter(query.theta, rows.unit)
    caps = whole_slope_caps(block.squared_length, query.bound)
    expected = [0] * (d + 1)
    for part, steps in chunks(block):
        for row, target, cap in zip(steps, y[part], caps[part], strict=True):
            z = sum(int(a) * int(b) for a, b in zip(row, theta, strict=True))
            slope = (z * z_unit - target) * (rows.unit / query.grid)
            slope = 0 if np.isnan(slope) else round(min(max(slope, -cap), cap))
            expected = [e + slope * int(a) for e, a in zip(expected, row, strict=True)]
    assert query.integers(data).tolist() == expected


def test_the_kernels_exponential_is_exact_to_a_few_units_in_the_last_place():
    from discreet.losses._kernels import exp

    x = np.concatenate([np.linspace(-708, 708, 4001), np.linspace(-1, 1, 1001), [0.0]])
    np.testing.assert_allclose([exp(v) for v in x], np.exp(x), rtol=1e-15)
    assert exp(1e9) == exp(708.0)
    assert exp(-1e9) == exp(-708.0)
    assert np.isnan(exp(np.nan))


def test_large_sparse_sums_stay_exact():
    """A sum beyond 2^53 must not round: rounding would let one row move it by more than its bound."""
    from discreet.queries.kernels.gradient import softmax_sparse

    rng = np.random.default_rng(8)
    X = sp.random_array((50, 4), density=0.5, format="csr", rng=rng)
    y, theta = rng.integers(0, 3, 50).astype(float), np.rint(rng.standard_normal((3, 5)) * 1000)
    stored = (np.rint(1000 * X.data), X.indices.astype(np.uint32), X.indptr[:-1], X.indptr[1:])
    rows = (*stored, y, np.full(50, 2.0**16), theta, 7.0)
    small, large = np.zeros((3, 5), np.int64), np.full((3, 5), 2**60 + 1, np.int64)
    for out in (small, large):
        softmax_sparse(*rows, 1e-6, 65536.0, True, out)
    assert small.any()
    assert (large - (2**60 + 1) == small).all()
