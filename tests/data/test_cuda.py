"""Rows on a device give the integers of the same rows in host memory, whatever they contain.

Here the device is "cpu": the code is that of CUDA tensors, but for the compiled kernel, which `bench/scale.py --part d`
compares with host memory on a GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from discreet.data.memory import in_memory
from discreet.losses import Huber, Logistic, Loss, Poisson, SmoothedHinge, Squared
from discreet.queries.sums.gradient import GradientSum
from discreet.queries.sums.row_sum import RowSum
from discreet.queries.sums.scaled_gradient import ScaledGradientSum, Scaling
from discreet.rows import RowSpec

torch = pytest.importorskip("torch")
from discreet.data.cuda.rows import OnDevice, on_device  # noqa: E402

LOSSES = [Logistic(), Squared(), Huber(0.3), SmoothedHinge(0.7)]
SPECS = [RowSpec(1, 1.0, 0.5), RowSpec(7, 2.0), RowSpec(33, 1.0, 0.5)]


def hostile(rows: RowSpec, kind: Any, n: int = 700) -> tuple[Any, Any]:
    """Rows of all lengths, with entries that no table should have; targets likewise."""
    rng = np.random.default_rng(rows.n_features)
    X = rng.normal(size=(n, rows.n_features)) * rng.choice([1e-3, 0.1, 1.0, 30.0], n)[:, None]
    with np.errstate(over="ignore"):
        X = X.astype(kind)
    largest = float(np.finfo(kind).max)
    odd = [0.0, np.nan, np.inf, -np.inf, largest, -largest, float(np.finfo(kind).tiny), 1e-30, 2.0**-18]
    for k, value in enumerate(odd):
        X[k, 0] = value
        X[20 + k] = value
    y = rng.choice([-1.0, 1.0], n)
    y[40:46] = [np.nan, np.inf, -np.inf, 0.0, 1e300, -1e-300]
    return X, y


def both(rows: RowSpec, kind: Any) -> tuple[Any, OnDevice]:
    X, y = hostile(rows, kind)
    return in_memory(X, y, rows), on_device(torch.from_numpy(X), y, rows)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("rows", SPECS)
def test_rows_are_prepared_as_in_host_memory(rows: RowSpec, kind: Any) -> None:
    host, device = both(rows, kind)
    scale, squared = host._grid
    np.testing.assert_array_equal(device.whole.scale.numpy(), scale)
    np.testing.assert_array_equal(device.whole.squared_length.numpy(), squared)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("rows", SPECS)
def test_gradient_sums_are_those_of_host_memory(rows: RowSpec, kind: Any, loss: Loss) -> None:
    host, device = both(rows, kind)
    rng = np.random.default_rng(1)
    chosen = np.sort(rng.choice(len(host), 100, replace=False))
    for size in (0.0, 1.0, 50.0, 1e300):
        theta = size * rng.normal(size=rows.shape)
        query = GradientSum(rows, loss, theta, 0.8)
        np.testing.assert_array_equal(query.integers(device), query.integers(host))
        np.testing.assert_array_equal(query.integers(device.take(chosen)), query.integers(host.take(chosen)))
        scaling = Scaling(
            rows,
            rng.integers(1, 65, rows.dimension),
            rng.integers(-9000, 9000, rows.n_features) * (rows.constant > 0),
        )
        scaled = ScaledGradientSum(scaling, loss, theta, 0.8)
        np.testing.assert_array_equal(scaled.integers(device), scaled.integers(host))
    assert "host" not in device.__dict__


@pytest.mark.parametrize("repeats", [1, 3])
def test_rows_taken_in_any_order_and_repeatedly(repeats: int) -> None:
    rows = SPECS[2]
    host, device = both(rows, np.float32)
    places = np.tile(np.random.default_rng(2).permutation(len(host))[:50], repeats)
    query = GradientSum(rows, Logistic(), np.ones(rows.shape), 1.0)
    np.testing.assert_array_equal(query.integers(device.take(places)), query.integers(host.take(places)))
    again = np.arange(0, 50 * repeats, 2)
    np.testing.assert_array_equal(
        query.integers(device.take(places).take(again)), query.integers(host.take(places).take(again))
    )


def test_other_questions_are_answered_by_one_copy_in_host_memory() -> None:
    rows = SPECS[2]
    host, device = both(rows, np.float32)
    poisson = GradientSum(rows, Poisson(), np.ones(rows.shape), 1.0)  # whose exp is a library's
    np.testing.assert_array_equal(poisson.integers(device), poisson.integers(host))
    copy = device.host
    part = device.take(np.arange(10, 90))
    for there, here in ((part, host.take(np.arange(10, 90))), (device, host)):
        np.testing.assert_array_equal(RowSum(rows).integers(there), RowSum(rows).integers(here))
    assert part._host_whole is copy
    assert device.held() is copy


def test_nobody_else_can_change_the_rows() -> None:
    rows = SPECS[1]
    X, y = hostile(rows, np.float32)
    given = torch.from_numpy(X)
    device = on_device(given, y, rows)
    query = GradientSum(rows, Logistic(), np.ones(rows.shape), 1.0)
    before = query.integers(device)
    given[:] = 1e6
    y[:] = 1.0
    np.testing.assert_array_equal(query.integers(device), before)
