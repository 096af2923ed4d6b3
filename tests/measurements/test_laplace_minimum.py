"""Output perturbation with Laplace noise: how far a row moves a minimiser in ℓ1, what it costs, what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from discreet import events
from discreet.data.memory import in_memory
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.geometry import Box, L2Ball, WholeSpace
from discreet.losses import Logistic, Softmax, Squared
from discreet.measurements.laplace_minimum import LaplaceMinimum, l1_movement
from discreet.noise.bits import Bits
from discreet.queries.largest_entries import LargestEntries
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.rows import RowSpec
from discreet.units import Unit

REPLACE, ADD = Unit("replace-one"), Unit("add-remove")
FREE = WholeSpace()


def sparse_minimiser(rows, loss, ridge, s, domain=FREE, slope=np.inf):
    return RidgeMinimiser(rows, loss, ridge, slope, domain, LargestEntries(rows, s))


def claimed(query, n):
    return l1_movement(
        most_rows=n,
        d=int(np.prod(query.rows.shape)),
        entries=query.through.entries,
        gradient_bound=query.gradient_bound,
        curvature_bound=query.curvature_bound,
        regularisation=query.regularisation,
    )


def test_a_sparse_row_can_move_every_coordinate():
    """A star: each of many rows ties one coordinate to the hub, so one row at the hub moves all of them.

    The ℓ1 movement is then a multiple of √s·2L/λ, which bounds it where Hessians keep sparse vectors sparse: noise for
    that would be too small. It stays within what is claimed.
    """
    leaves, each, ridge = 400, 4, 2.0
    rows = RowSpec(leaves + 1, 1.0)
    ties = np.zeros((leaves, leaves + 1))
    ties[:, 0], ties[np.arange(leaves), 1 + np.arange(leaves)] = leaves**-0.5, np.sqrt(1 - 1 / leaves)
    hub = np.eye(leaves + 1)[:1]
    X = sp.csr_array(np.vstack([np.tile(ties, (each, 1)), hub]))
    y = np.zeros(len(range(X.shape[0])))
    query = sparse_minimiser(rows, Squared(), ridge, 2, slope=1.0)
    places = []
    for label in (50.0, -50.0):
        y[-1] = label
        places.append(query.minimise(in_memory(X, y, rows), np.zeros(leaves + 1), 1e-6))
    moved = float(np.abs(places[0] - places[1]).sum())
    naive = np.sqrt(2) * 2 * query.gradient_bound / ridge
    assert naive < 0.5 * moved
    assert 0.05 * claimed(query, X.shape[0]) < moved <= claimed(query, X.shape[0])


@pytest.mark.parametrize("domain", [WholeSpace(), Box(-0.3, 0.25)], ids=lambda domain: type(domain).__name__)
@pytest.mark.parametrize("loss", [Logistic(), Squared(), Softmax(3)], ids=lambda loss: type(loss).__name__)
def test_no_row_moves_a_minimiser_further_than_the_noise_is_for(loss, domain):
    """Random sparse rows, one of them of another class or left out; some have more entries than are kept."""
    rng, d, n, s = np.random.default_rng(3), 40, 60, 3
    outputs = 3 if isinstance(loss, Softmax) else 1
    rows = RowSpec(d, 1.0, 0.3, outputs)
    query = sparse_minimiser(rows, loss, 1.5, s, domain, np.inf if outputs > 1 else 1.0)
    most, slack = claimed(query, n), 2 * np.sqrt(d + 1) * 1e-7 / 1.5
    largest = 0.0
    for _ in range(8):
        X = rng.standard_normal((n, d)) * (rng.random((n, d)) < rng.choice([0.05, 0.5]))
        X[:, 0] += rng.choice([0, 1.0])  # a column that ties all rows
        y = rng.integers(0, 3, n).astype(float) if outputs > 1 else rng.choice([-1.0, 1.0], n)
        labels = y.copy()
        labels[0] = (y[0] + 1) % 3 if outputs > 1 else -y[0]
        found = [
            query.minimise(in_memory(a, b, rows), np.zeros(rows.shape), 1e-7)
            for a, b in ((X, y), (X, labels), (X[1:], y[1:]))
        ]
        for there in found[1:]:
            moved = float(np.abs(found[0] - there).sum())
            assert moved <= most + slack
            largest = max(largest, moved)
    assert largest > 0.02 * most


def test_cost_and_noise_are_those_of_the_larger_relation():
    """PureDP(2/ν) under both. 400 releases of 30 coordinates: a mean |noise| is within 5 % but for 1e-7."""
    rng, rows, n = np.random.default_rng(5), RowSpec(30, 1.0), 50
    X, y = rng.standard_normal((n, 30)), rng.choice([-1.0, 1.0], n)
    query = sparse_minimiser(rows, Logistic(), 5.0, 4)
    measurement, data, bits = LaplaceMinimum(query, 4.0, 1e-6, n), in_memory(X, y, rows), Bits.seeded(3)
    assert measurement.event(REPLACE) == measurement.event(ADD) == events.PureDP(0.5)
    assert LaplaceMinimum(query, 0.0, 1e-6, n).event(ADD) == events.NonPrivate()
    shown = np.array([measurement.sample(data, REPLACE, bits) for _ in range(400)])
    exact = query.minimise(data, np.zeros(30), 1e-6)
    assert np.abs(shown - exact).mean() == pytest.approx(4.0 * claimed(query, n) / 2, rel=0.05)
    assert measurement.blank().tolist() == [0.0] * 30


def test_rows_beyond_those_that_the_noise_is_for_are_not_used():
    """With one row more than N, of an earlier release or a wrong declaration, the answer is that of the first N."""
    rng, rows = np.random.default_rng(6), RowSpec(5, 1.0)
    X, y = rng.standard_normal((21, 5)), rng.choice([-1.0, 1.0], 21)
    measurement = LaplaceMinimum(sparse_minimiser(rows, Logistic(), 5.0, 2), 1e-3, 1e-6, 20)
    first, more = (measurement.sample(in_memory(X[:n], y[:n], rows), REPLACE, Bits.seeded(1)) for n in (20, 21))
    assert np.array_equal(first, more)


def test_refusals():
    rows = RowSpec(5, 1.0)
    with pytest.raises(HypothesisViolated, match="L2Ball"):
        LaplaceMinimum(sparse_minimiser(rows, Logistic(), 1.0, 2, L2Ball(1.0)), 1.0, 1e-6, 10)
    with pytest.raises(HypothesisViolated, match="sparsity"):
        LaplaceMinimum(RidgeMinimiser(rows, Logistic(), 1.0), 1.0, 1e-6, 10)
    with pytest.raises(HypothesisViolated, match="regularisation"):
        LaplaceMinimum(sparse_minimiser(rows, Logistic(), 0.0, 2), 1.0, 1e-6, 10)
    with pytest.raises(InvalidInput, match="most_rows"):
        LaplaceMinimum(sparse_minimiser(rows, Logistic(), 1.0, 2), 1.0, 1e-6, 0)
    with pytest.raises(InvalidInput, match="sparsity"):
        LargestEntries(rows, 0)
