"""Tensors on a GPU, handed to an estimator: the rows stay there, and the model is that of the same rows as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import discreet as dp
from discreet.errors import InvalidInput
from discreet.rows import RowSpec

torch = pytest.importorskip("torch")
from discreet.data.cuda import rows as device_rows  # noqa: E402

N = 400


def on_gpu(values: Any) -> Any:
    """A tensor that says of itself that it is on a GPU; no machine of these tests has one."""

    class OnGPU(torch.Tensor):  # type: ignore[misc, name-defined]
        is_cuda = True

    return torch.from_numpy(values).as_subclass(OnGPU)


@pytest.fixture
def rows() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 5)).astype(np.float32) / 3
    return X, (X[:, 0] + rng.normal(size=N) / 3 > 0).astype(np.int64)


def descent(**settings: Any) -> Any:
    own = {"row_norm": 1.0, "classes": [0, 1], "solver": "descent", "random_state": 1} | settings
    return dp.LogisticRegression(1.0, 1e-6, **own)


@pytest.mark.parametrize(
    "settings",
    [{}, {"solver_options": {"batch_size": 50, "iterations": 3}}, {"solver": "auto"}, {"adjacency": "add-remove"}],
)
def test_a_tensor_gives_the_model_of_the_array(settings: Any, rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows
    held = []
    hold = device_rows.on_device
    monkeypatch.setattr(device_rows, "on_device", lambda *given: held.append(hold(*given)) or held[-1])
    array, tensor = descent(**settings).fit(X, y), descent(**settings).fit(on_gpu(X), on_gpu(y))
    assert len(held) == 1
    np.testing.assert_array_equal(tensor.coef_, array.coef_)
    assert tensor.privacy_ == array.privacy_
    assert tensor.n_features_in_ == 5
    np.testing.assert_array_equal(tensor.predict(torch.from_numpy(X)), array.predict(X))


def test_fits_that_need_host_memory_take_tensors_too(rows: Any) -> None:
    X, y = rows
    plain = {"solver": "descent", "random_state": 1, "row_norm": 1.0, "classes": [0, 1]}
    one = dp.LogisticRegression(float("inf"), **plain).fit(on_gpu(X), y)
    np.testing.assert_array_equal(one.coef_, dp.LogisticRegression(float("inf"), **plain).fit(X, y).coef_)


@pytest.mark.parametrize("shape", [(N,), (N, 5, 1), (N - 1, 5)])
def test_what_is_no_matrix_of_as_many_rows_is_refused(shape: Any, rows: Any) -> None:
    with pytest.raises(InvalidInput):
        descent().fit(on_gpu(np.zeros(shape, np.float32)), rows[1])


def test_tensors_without_columns_or_of_stored_entries_are_refused(rows: Any) -> None:
    X, y = rows
    for given in (on_gpu(X[:, :0]), torch.from_numpy(X).to_sparse()):
        ledger = dp.Ledger()
        with pytest.raises(InvalidInput, match=r"0 feature\(s\)|must be dense"):
            descent(ledger=ledger).fit(given, y)
        assert not ledger.history()
    with pytest.raises(InvalidInput, match="must be dense"):  # no tensor of a test is on a GPU and sparse
        device_rows.on_device(torch.from_numpy(X).to_sparse(), y.astype(float), RowSpec(5, 1.0))


@pytest.mark.parametrize("make", [lambda y: y.bfloat16(), lambda y: y.double().requires_grad_(), lambda y: y.half()])
def test_labels_are_tensors_of_any_kind(make: Any, rows: Any) -> None:
    """Also of such as numpy does not have or take: every label counted as missing."""
    X, y = rows
    expected = descent().fit(X, y).coef_
    np.testing.assert_array_equal(descent().fit(X, make(torch.from_numpy(y))).coef_, expected)
    np.testing.assert_array_equal(descent().fit(on_gpu(X), make(torch.from_numpy(y))).coef_, expected)


def test_rows_are_tensors_in_host_memory_of_any_kind(rows: Any) -> None:
    X, y = rows
    short = torch.from_numpy(X).bfloat16()
    for tensor, array in ((torch.from_numpy(X).requires_grad_(), X), (short, short.double().numpy())):
        np.testing.assert_array_equal(descent().fit(tensor, y).coef_, descent().fit(array, y).coef_)


def test_a_device_that_is_not_there_is_refused_before_anything_is_charged(tmp_path: Any) -> None:
    import pandas as pd

    table = pd.DataFrame({"x": np.linspace(-1, 1, 50), "y": np.arange(50) % 2})
    table.to_parquet(tmp_path / "rows.parquet")
    schema = dp.Schema({"x": dp.Numeric(-1, 1), "y": dp.Categorical([0, 1])})
    ledger = dp.Ledger()
    model = dp.LogisticRegression(1.0, 1e-6, schema=schema, ledger=ledger)
    for settings, said in (
        ({"device": "cuda:77"}, "cannot be held"),
        ({"device": "cpu", "dask": "tcp://127.0.0.1:1"}, "not by both"),
    ):
        with pytest.raises(InvalidInput, match=said):
            model.fit(dp.Parquet(tmp_path, target="y", **settings))
    assert not ledger.history()
