"""Second moments and the least eigenvalue keep their bounds in integers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.data.memory import in_memory
from discreet.queries.sums.moments import MOMENT_BITS, CrossMoment, LeastEigenvalue, SecondMoment, TargetMoment
from discreet.rows import RowSpec

EXTREMES = [0.0, -0.0, 1.0, -1.0, 1e308, -1e308, 5e-324, 1e-310, 1e-8, 1e16, np.nan, np.inf, -np.inf, 0.1, 1 / 3]
ROWS = RowSpec(4, 1.5, 0.7)


def awkward_rows(n, d, rng):
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-12, 12, (n, 1))
    wild = rng.random(n) < 0.3
    X[wild] = rng.choice(EXTREMES, (int(wild.sum()), d))
    X[rng.random(n) < 0.1] = 3.0  # all entries equal and clipped: where rounding to the nearest lengthens most
    return X


def contribution(query, x, y, rows=ROWS):
    return [int(v) for v in query.integers(in_memory(x[None, :], np.array([y]), rows)).ravel()]


@pytest.mark.parametrize(
    "query", [SecondMoment(ROWS), CrossMoment(ROWS, 0.8), TargetMoment(0.8)], ids=lambda q: type(q).__name__
)
def test_no_row_exceeds_the_claimed_bound(query):
    """Sums of rows: the contribution of one row is the difference between add-remove neighbours."""
    rng = np.random.default_rng(0)
    count = 3500
    targets = rng.choice([*EXTREMES, 0.8, -0.8, 0.5], count)
    largest = 0
    for x, y in zip(awkward_rows(count, 4, rng), targets, strict=True):
        squared = sum(v * v for v in contribution(query, x, y))
        assert squared <= query.bound**2
        largest = max(largest, squared)
    assert largest > 0.97 * query.bound**2  # the bound is reached, so a smaller claim would have been caught


def test_packed_weights_make_the_bound_tight_for_every_direction():
    """(1, 0) uses the diagonal weight alone, (1, 1)/√2 both: the packed norm is 5‖x‖² within 2 % for each."""
    rows = RowSpec(2, 1.0)
    for x in ([1.0, 0.0], [math.sqrt(0.5)] * 2, [0.6, 0.8]):
        packed = contribution(SecondMoment(rows), np.array(x), 0.0, rows)
        assert 0.985 * SecondMoment(rows).bound < math.sqrt(sum(v * v for v in packed)) <= SecondMoment(rows).bound


def test_the_least_eigenvalue_moves_by_at_most_its_bound():
    rng = np.random.default_rng(1)
    rows = RowSpec(3, 2.0)
    query = LeastEigenvalue(rows)
    largest = 0
    for trial in range(1500):
        n = int(rng.integers(0, 7))
        X = awkward_rows(n + 1, 3, rng)
        if trial % 3 == 0:  # isotropic rows, and one that fills the least direction
            X = np.repeat(np.eye(3), 3, axis=0)[:8] * 2.0
            X = np.vstack([X, [0.0, 0.0, 2.0]])
        other = X.copy()
        other[-1] = awkward_rows(1, 3, rng)[0]
        y = np.zeros(len(X))
        full, less, replaced = (
            int(query.integers(in_memory(part, y[: len(part)], rows))[0]) for part in (X, X[:-1], other)
        )
        assert abs(full - less) <= query.bound
        assert abs(full - replaced) <= query.bound
        largest = max(largest, abs(full - less))
    assert largest > 0.97 * query.bound


def test_moments_do_not_depend_on_order_partition_or_storage(monkeypatch):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((5000, 4)) * (rng.random((5000, 4)) < 0.5)
    X[0, 0], X[1], X[2, 3] = np.nan, 3e30, -np.inf
    y = rng.standard_normal(5000)
    order = rng.permutation(5000)
    for query in (SecondMoment(ROWS), CrossMoment(ROWS, 1.0), TargetMoment(1.0)):
        monkeypatch.setenv("DISCREET_THREADS", "1")
        expected = query.integers(in_memory(X, y, ROWS))
        assert (query.integers(in_memory(sp.csr_array(X[order]), y[order], ROWS)) == expected).all()
        halves = sum(query.integers(in_memory(X[part], y[part], ROWS)) for part in np.split(order, [1234]))
        assert (halves == expected).all()
        monkeypatch.setenv("DISCREET_THREADS", "2")
        assert (query.integers(in_memory(X, y, ROWS)) == expected).all()


def test_moments_agree_with_numpy():
    rng = np.random.default_rng(3)
    X, y = rng.uniform(-0.7, 0.7, (3000, 4)), rng.uniform(-2, 2, 3000)
    data = in_memory(X, y, ROWS)
    full, clipped = np.hstack([X, np.full((3000, 1), ROWS.intercept)]), np.clip(y, -1, 1)
    # the constant column is a whole number of steps, and rounding errs by half a step of 2^−15 of the radius
    room = 3000 * 2 * ROWS.radius**2 / 2**MOMENT_BITS
    second, cross, squares = SecondMoment(ROWS), CrossMoment(ROWS, 1.0), TargetMoment(1.0)
    for query, expected in ((second, full.T @ full), (cross, full.T @ clipped), (squares, [clipped @ clipped])):
        unpack = query.matrix if query is second else np.asarray
        assert np.abs(unpack(query.grid * query.integers(data)) - expected).max() < room
        assert np.abs(unpack(query.unrounded(data)) - expected).max() < 1e-3 * room + 0.05
    least = np.linalg.eigvalsh(full.T @ full)[0]
    query = LeastEigenvalue(ROWS)
    assert abs(query.grid * query.integers(data)[0] - least) < 5 * room
    assert abs(query.unrounded(data)[0] - least) < 0.05
