"""The certified minimiser over a set: what is certified is near, what is not near is not certified."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.geometry import Box, GroupL1Ball, L1Ball, L2Ball, Polytope, Simplex, SparseSet
from discreet.losses import Huber, Logistic, SmoothedHinge, Softmax, Squared
from discreet.queries.minimiser import extended_precision
from discreet.queries.minimiser.constrained import certified_within, minimise_within
from discreet.queries.minimiser.extended_precision import minimise_in_decimals
from discreet.queries.minimiser.newton import minimise_anywhere
from discreet.queries.minimiser.objective import Objective
from discreet.queries.minimiser.problem import project
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.rows import RowSpec

ROWS = RowSpec(3, norm=1.0, intercept=0.5)
SETS = [L2Ball(0.4), L1Ball(0.5), Simplex(0.7), Box(-0.1, 0.2), GroupL1Ball([0, 0, 1, 1], 0.4), L2Ball(50.0)]
NAMES = {"ids": lambda value: type(value).__name__}
LOSSES = [Logistic(), SmoothedHinge(0.5), Huber(0.7)]


def small(rng, n=12, loss=LOSSES[0]):
    labels = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y = rng.integers(0, 3, n).astype(float) if isinstance(loss, Softmax) else labels
    return rng.normal(size=(n, 3)), y


@pytest.mark.parametrize("loss", LOSSES, **NAMES)
@pytest.mark.parametrize("domain", SETS, **NAMES)
def test_float_and_decimal_arithmetic_agree(domain, loss):
    """Within the sum of the two tolerances over λ; moved by more than that in any direction, nothing is certified."""
    rng = np.random.default_rng(3)
    X, y = small(rng, loss=loss)
    data, query, tilt = in_memory(X, y, ROWS), RidgeMinimiser(ROWS, loss, 0.8, 0.9, domain), rng.normal(size=4)
    objective = Objective(query, data, tilt, rounded=True)
    theta, certified = minimise_within(objective, 1e-9)
    assert certified
    longer = minimise_in_decimals(query, data, tilt, theta, 1e-11)
    assert np.linalg.norm(theta - longer) <= (1e-9 + 1e-11) / 0.8
    assert domain.contains(theta)
    for direction in rng.normal(size=(40, 4)):
        far = longer + 1.1e-9 / 0.8 * direction / np.linalg.norm(direction)
        assert not certified_within(objective, objective.gradient(far), far, 1e-9)
    # an unconstrained minimiser is another point, so the certificate is about the set
    free, _ = minimise_anywhere(Objective(RidgeMinimiser(ROWS, loss, 0.8, 0.9), data, tilt, rounded=True), 1e-9)
    inside = domain.contains(free)
    assert certified_within(objective, objective.gradient(free), free, 1e-8) == inside


@pytest.mark.parametrize("domain", [L1Ball(0.5), Simplex(1.0)], **NAMES)
def test_softmax_within_a_set(domain):
    rng = np.random.default_rng(4)
    rows = RowSpec(3, norm=1.0, intercept=0.5, outputs=3)
    X, y = small(rng, loss=Softmax(3))
    query, data, tilt = RidgeMinimiser(rows, Softmax(3), 0.8, math.inf, domain), in_memory(X, y, rows), np.zeros((3, 4))
    theta = query.minimise(data, tilt, 1e-9)
    assert np.linalg.norm(theta - minimise_in_decimals(query, data, tilt, theta, 1e-11)) <= 1.1e-9 / 0.8


@pytest.mark.parametrize("domain", SETS, **NAMES)
def test_neighbours_minimisers_stay_close(domain):
    """‖θ̂(D) − θ̂(D')‖ ≤ L/λ for a row more and 2L/λ for one replaced, over the set as without it."""
    rng = np.random.default_rng(5)
    most = 0.0
    for _ in range(25):
        ridge = 10 ** rng.uniform(-1, 1)
        query = RidgeMinimiser(ROWS, Logistic(), ridge, domain=domain)
        X, y = small(rng, 6)
        base, added, replaced = (
            query.minimise(in_memory(X[keep], y[keep], ROWS), np.full(4, 0.1), 1e-9)
            for keep in ([0, 1, 2, 3], [0, 1, 2, 3, 4], [0, 1, 2, 5])
        )
        unit = query.gradient_bound / ridge
        assert np.linalg.norm(added - base) <= unit + 2e-9 / ridge
        assert np.linalg.norm(replaced - base) <= 2 * unit + 2e-9 / ridge
        most = max(most, np.linalg.norm(added - base) / unit)
    assert most > 0.02


def test_what_float64_cannot_certify_goes_to_long_arithmetic(monkeypatch):
    rng = np.random.default_rng(6)
    X, y = small(rng, 8)
    query, data = RidgeMinimiser(ROWS, Logistic(), 1.0, domain=L1Ball(0.3)), in_memory(X, y, ROWS)
    called, real = [], extended_precision.minimise_in_decimals
    monkeypatch.setattr(extended_precision, "minimise_in_decimals", lambda *a: called.append(1) or real(*a))
    near = query.minimise(data, np.zeros(4), 1e-17)
    assert called == [1]
    assert np.allclose(near, query.minimise(data, np.zeros(4), 1e-10), atol=1e-9)
    assert called == [1]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_features", [30, 700])
def test_sizes_and_storage_agree(n_features, sparse):
    """Hessians and products with them, dense and sparse rows: each within tolerance/λ of one reference."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(400, n_features)) * (rng.random((400, n_features)) < 0.05)
    y = np.sign(rng.normal(size=400))
    rows = RowSpec(n_features, norm=2.0, intercept=1.0)
    query = RidgeMinimiser(rows, Logistic(), 3.0, domain=L1Ball(2.0))
    tilt = rng.normal(size=n_features + 1)
    theta = query.minimise(in_memory(sp.csr_array(X) if sparse else X, y, rows), tilt, 1e-6)
    reference = query.minimise(in_memory(X, y, rows), tilt, 1e-8)
    assert np.linalg.norm(theta - reference) <= 1.1e-6 / 3.0
    assert np.abs(theta).sum() == pytest.approx(2.0)


@pytest.mark.parametrize("loss", [Logistic(), Squared()], **NAMES)
def test_twin_is_scipys(loss):
    """Without noise, over a box: L-BFGS-B of the same objective."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(300, 4))
    y = np.where(X @ [1.0, -2.0, 0.5, 0.0] + rng.logistic(size=300) > 0, 1.0, -1.0)
    rows = RowSpec(4, math.inf)
    found = RidgeMinimiser(rows, loss, 2.0, domain=Box(-0.3, 0.25)).unrounded(in_memory(X, y, rows))

    def objective(theta):
        z = X @ theta
        losses = np.logaddexp(0, -y * z) if isinstance(loss, Logistic) else (z - y) ** 2 / 2
        slopes = -y / (1 + np.exp(y * z)) if isinstance(loss, Logistic) else z - y
        return losses.sum() + theta @ theta, X.T @ slopes + 2 * theta

    bounds = [(-0.3, 0.25)] * 4
    reference = minimize(objective, np.zeros(4), jac=True, bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-10}).x
    assert np.allclose(found, reference, atol=1e-6)
    assert np.sum((found > -0.3) & (found < 0.25)) in (1, 2, 3)  # some bounds bind, some do not


@pytest.mark.parametrize("domain", [SparseSet(2), Polytope(np.eye(4))], **NAMES)
def test_sets_without_a_certificate_are_refused(domain):
    with pytest.raises(InvalidInput, match=type(domain).__name__):
        RidgeMinimiser(ROWS, Logistic(), 1.0, domain=domain)


def test_a_set_away_from_the_origin_is_part_of_the_least_tolerance():
    near, far = (RidgeMinimiser(ROWS, Logistic(), 1e12, domain=domain) for domain in (Box(0.0, 1.0), Box(9.0, 10.0)))
    assert far.least_tolerance(0.0) > near.least_tolerance(0.0)
    assert project(far.domain, np.zeros(4)).tolist() == [9.0] * 4
