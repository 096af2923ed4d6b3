"""The minimiser in decimal arithmetic: float64 agrees with it up to its declared error, and gives way to it below."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.data.memory import in_memory
from discreet.losses import Huber, Logistic, Quantile, SmoothedHinge, Softmax, Squared
from discreet.queries.minimiser import extended_precision
from discreet.queries.minimiser.extended_precision import minimise_in_decimals
from discreet.queries.minimiser.objective import Objective
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.rows import RowSpec

LOSSES = [Logistic(), SmoothedHinge(0.5), Huber(0.7), Squared(), Quantile(0.3, width=0.2), Softmax(3)]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
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
    real = extended_precision.minimise_in_decimals
    monkeypatch.setattr(extended_precision, "minimise_in_decimals", lambda *a: called.append(1) or real(*a))
    near = query.minimise(data, np.zeros(2), 1e-17)
    assert called
    assert np.allclose(near, query.minimise(data, np.zeros(2), 1e-10), atol=1e-9)
    assert len(called) == 1
