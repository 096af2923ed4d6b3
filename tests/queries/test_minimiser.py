"""The certified minimiser: bounds on one row, on its move between neighbours, and on float64's own errors."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.data.memory import in_memory
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.events import NonPrivate
from discreet.losses import Huber, Logistic, Poisson, Quantile, SmoothedHinge, Softmax, Squared
from discreet.measurements.noisy_minimum import NoisyMinimum
from discreet.measurements.perturbed_minimum import PerturbedMinimum
from discreet.queries.minimiser.extended_precision import minimise_in_decimals
from discreet.queries.minimiser.held_rows import held_rows
from discreet.queries.minimiser.objective import Objective
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.rows import RowSpec
from discreet.units import Unit

LOSSES = [Logistic(), SmoothedHinge(0.5), Huber(0.7), Squared(), Quantile(0.3, width=0.2)]


def adversarial_rows(rng, n, d):
    """Rows of every size, with infinities and NaN, and targets to match."""
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-6, 7, size=(n, 1))
    X[rng.random((n, d)) < 0.02] = rng.choice([np.nan, np.inf, -np.inf, 1e300, 0.0])
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[rng.random(n) < 0.1] = rng.choice([0.0, 3.0, np.nan, np.inf, -1e300, 1e-300])
    return X, y


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_one_rows_gradient_never_exceeds_its_bound(loss):
    """slope²·‖row‖² ≤ L², in exact fractions, over 10⁴ adversarial rows; one row more moves the sum by just that."""
    rng = np.random.default_rng(1)
    rows = RowSpec(3, norm=2.0, intercept=0.5)
    query = RidgeMinimiser(rows, loss, 1.0, slope_bound=1.3)
    bound = Fraction(query.gradient_bound) / Fraction(rows.unit)
    X, y = adversarial_rows(rng, 10_000, 3)
    checked = 0
    for start in range(0, 10_000, 2000):
        (block,) = in_memory(X[start : start + 2000], y[start : start + 2000], rows).map_blocks(lambda b: b)
        theta = rng.normal(size=4) * 10.0 ** rng.integers(-2, 3)
        for i in range(2000):
            single = held_row(block, i, loss, query.slope_bound)
            high, low = single.gradient(theta)
            whole = [Fraction(float(a)) + Fraction(float(b)) for a, b in zip(high, low, strict=True)]
            # products slope·step are rounded once, by 2^-53 each
            assert sum(v * v for v in whole) <= bound * bound * (1 + Fraction(1, 2**50))
            checked += 1
    assert checked == 10_000


def held_row(block, i, loss, slope_bound):
    from discreet.data.base import DenseBlock

    one = slice(i, i + 1)
    single = DenseBlock(block.rows, block.X[one], block.y[one], block.scale[one], block.squared_length[one])
    return held_rows(single, loss, slope_bound, rounded=True)


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


@pytest.mark.parametrize("loss", [*LOSSES, Softmax(3)], ids=repr)
@pytest.mark.parametrize("sparse", [False, True])
def test_certificate_holds_in_long_arithmetic(loss, sparse):
    """The float64 gradient is within its own error bound of the decimal one, and both solvers find the same point."""
    rng = np.random.default_rng(3)
    outputs = 3 if isinstance(loss, Softmax) else 1
    rows = RowSpec(3, norm=1.0, intercept=0.5, outputs=outputs)
    X = rng.normal(size=(12, 3))
    y = rng.integers(0, 3, 12).astype(float) if outputs > 1 else np.where(rng.random(12) < 0.5, 1.0, -1.0)
    data = in_memory(sp.csr_array(X) if sparse else X, y, rows)
    query = RidgeMinimiser(rows, loss, 0.8, math.inf if outputs > 1 else 0.9)
    tilt = rng.normal(size=rows.shape)
    theta = query.minimise(data, tilt, 1e-9)
    longer = minimise_in_decimals(query, data, tilt, np.zeros(rows.shape), 1e-11)
    assert np.linalg.norm(theta - longer) <= (1e-9 + 1e-11) / 0.8
    objective = Objective(query, data, tilt, rounded=True)
    # at the decimal solution the exact gradient is at most 1e-11: float64 may add only its declared error
    assert np.linalg.norm(objective.gradient(longer)) <= 2e-11 + objective.rounding_error(longer)
    assert objective.rounding_error(longer) < 1e-11


def test_uncertifiable_tolerance_goes_to_long_arithmetic(monkeypatch):
    """Below float64's error bound nothing is certified, and the decimal solver answers."""
    rng = np.random.default_rng(4)
    rows = RowSpec(2, norm=1.0)
    data = in_memory(rng.normal(size=(8, 2)), np.ones(8), rows)
    query = RidgeMinimiser(rows, Logistic(), 1.0)
    called = []
    from discreet.queries.minimiser import extended_precision

    real = extended_precision.minimise_in_decimals
    monkeypatch.setattr(extended_precision, "minimise_in_decimals", lambda *a: called.append(1) or real(*a))
    near = query.minimise(data, np.zeros(2), 1e-17)
    assert called
    assert np.allclose(near, query.minimise(data, np.zeros(2), 1e-10), atol=1e-9)
    assert len(called) == 1


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


@pytest.mark.parametrize(
    ("loss", "kwargs", "error"),
    [
        (Quantile(0.5), {}, HypothesisViolated),
        (Softmax(3), {"slope_bound": 0.5}, HypothesisViolated),
        (Logistic(), {"slope_bound": 0.0}, InvalidInput),
        (Logistic(), {"regularisation": -1.0}, InvalidInput),
    ],
)
def test_refusals(loss, kwargs, error):
    arguments = {"regularisation": 1.0} | kwargs
    with pytest.raises(error):
        RidgeMinimiser(RowSpec(2, 1.0), loss, **arguments)


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


@pytest.mark.parametrize("cut", [0.05, 0.25, 0.4, 0.5, 0.8])
def test_cut_logistic_losses_bend_no_more_than_claimed(cut):
    """Over lengths r ≤ R and scores z: the curvature where the slope is below L/r, times r²; nearly attained."""
    rows = RowSpec(3, 2.0, 1.0)
    query = RidgeMinimiser(rows, Logistic(), 1.0, cut * rows.radius)
    z = np.linspace(-8, 8, 20_001)
    most = 0.0
    for length in np.linspace(0.01, 1.0, 100) * rows.radius:
        uncut = np.abs(Logistic().slope(z, 1.0)) < query.gradient_bound / length
        most = max(most, float((Logistic().curvature(z, 1.0) * uncut).max() * length**2))
    assert 0.999 * query.curvature_bound < most <= query.curvature_bound
