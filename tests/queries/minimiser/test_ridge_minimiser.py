"""The certified minimiser: its move between neighbours, its agreement however rows are held, and what it refuses."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.data.memory import in_memory
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.events import NonPrivate
from discreet.losses import Huber, Logistic, Poisson, Quantile, SmoothedHinge, Squared
from discreet.measurements.noisy_minimum import NoisyMinimum
from discreet.measurements.perturbed_minimum import PerturbedMinimum
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.rows import RowSpec
from discreet.units import Unit

LOSSES = [Logistic(), SmoothedHinge(0.5), Huber(0.7), Squared(), Quantile(0.3, width=0.2)]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_neighbours_minimisers_stay_close(loss):
    """‖θ(D) − θ(D')‖ ≤ L/λ (one row more) and 2L/λ (one replaced), up to twice the tolerance, on random small data."""
    rng = np.random.default_rng(2)
    rows = RowSpec(2, norm=1.0, intercept=1.0)
    most = 0.0
    for _ in range(60):
        ridge = 10 ** rng.uniform(-1, 1)
        query = RidgeMinimiser(rows, loss, ridge, slope_bound=1.0)
        X, y = rng.normal(size=(6, 2)), np.where(rng.random(6) < 0.5, 1.0, -1.0)
        solve = lambda keep, q=query, X=X, y=y: q.minimise(in_memory(X[keep], y[keep], rows), np.zeros(3), 1e-9)  # noqa: E731
        base, added, replaced = solve([0, 1, 2, 3]), solve([0, 1, 2, 3, 4]), solve([0, 1, 2, 5])
        unit = query.gradient_bound / ridge
        assert np.linalg.norm(added - base) <= unit + 2e-9 / ridge
        assert np.linalg.norm(replaced - base) <= 2 * unit + 2e-9 / ridge
        most = max(most, np.linalg.norm(added - base) / unit)
    assert most > 0.1  # the bound is of the right size


def test_dense_and_sparse_and_many_dimensions_agree():
    """Cholesky and conjugate gradients, arrays and compressed rows find the same minimiser."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(3000, 700)) * (rng.random((3000, 700)) < 0.02)
    y = np.sign(rng.normal(size=3000))
    for d in (40, 700):
        rows = RowSpec(d, norm=2.0, intercept=1.0)
        query = RidgeMinimiser(rows, Logistic(), 3.0)
        found = [
            query.minimise(in_memory(A(X[:, :d]), y, rows), np.full(d + 1, 0.1), 1e-6) for A in (np.array, sp.csr_array)
        ]
        assert np.linalg.norm(found[0] - found[1]) <= 2e-6 / 3.0


def test_unbounded_curvature_rows_or_slopes_cannot_be_released():
    data = in_memory(np.ones((2, 1)), np.ones(2), RowSpec(1, 1.0))
    counts = RidgeMinimiser(RowSpec(1, 1.0), Poisson(), 1.0, slope_bound=1.0)
    with pytest.raises(HypothesisViolated, match="curvature"):
        counts.minimise(data, np.zeros(1), 1e-6)
    for measurement in (PerturbedMinimum(counts, 0.0, 1.0, 0.0), NoisyMinimum(counts, 0.0, 0.0)):
        assert measurement.event(Unit("add-remove")) == NonPrivate()
        with pytest.raises(HypothesisViolated, match="curvature"):
            replace(measurement, noise_multiplier=1.0, tolerance=1.0)
    with pytest.raises(InvalidInput, match="slope_bound"):
        RidgeMinimiser(RowSpec(1, 1.0), Squared(), 1.0).minimise(data, np.zeros(1), 1e-6)
