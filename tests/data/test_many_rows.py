"""More rows than int64 holds the sums of: they are added in parts, exactly, by the one solver that is proved for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet import rows as limits
from discreet.data import runs
from discreet.data.base import exact_sum
from discreet.errors import InvalidInput
from discreet.mechanisms import Gaussian
from discreet.noise.bits import Bits
from discreet.queries.sums.gradient import GradientSum
from discreet.queries.sums.scaled_gradient import Scaling

N = 900
SCHEMA = dp.Schema({"x": dp.Numeric(-1, 1, encoding="linear"), "y": dp.Categorical([0, 1])})
DESCENT = {"solver": "descent", "solver_options": {"iterations": 3}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of several runs, of which one holds fewer rows than a sum may have, and all hold more."""
    monkeypatch.setattr(runs, "_LEAST_ENTRIES", 1 << 9)
    monkeypatch.setattr(runs, "_MOST_ENTRIES", 1 << 9)
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, N)
    table = pd.DataFrame({"x": x, "y": (x + rng.normal(size=N) > 0).astype(int)})
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=200)
    return tmp_path


def fitted(folder: Path, **settings: Any) -> Any:
    model = dp.LogisticRegression(1.0, 1e-6, schema=SCHEMA, random_state=1, **settings)
    return model.fit(dp.Parquet(folder, target="y", memory=1))


def test_parts_add_up_exactly_beyond_int64() -> None:
    parts = [np.array([2**62, -(2**62)])] * 5
    total = exact_sum(parts, (2,), limits.MOST_ROWS + 1)
    assert total.tolist() == [5 * 2**62, -5 * 2**62]
    assert exact_sum(parts[:1], (2,), limits.MOST_ROWS).dtype == np.int64


def test_noise_is_added_to_sums_beyond_int64() -> None:
    query = GradientSum(limits.RowSpec(2, 1.0), None, np.zeros(2), 1.0)  # type: ignore[arg-type]
    few, many = np.array([2**40, 0]), np.array([2**70, 0], dtype=object)
    noise = [
        Gaussian(1.0).perturb(sums, query, Bits.seeded(1)) / query.grid - sums.astype(float) for sums in (few, many)
    ]
    assert noise[1][1] == noise[0][1]
    assert abs(noise[1][0] - noise[0][0]) <= 2.0**18  # half the distance of doubles near 2^70


def test_descent_releases_the_same_numbers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = fitted(folder, **DESCENT)
    monkeypatch.setattr(limits, "MOST_ROWS", N - 1)
    many = fitted(folder, **DESCENT)
    assert many.coef_.tolist() == expected.coef_.tolist()
    assert many.privacy_ == expected.privacy_


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_other_solvers_are_refused_before_anything_is_charged(
    adjacency: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_ROWS", N - 1)
    ledger, scan = dp.Ledger(), dp.Parquet(folder, target="y")
    with pytest.raises(InvalidInput, match="solver='descent'"):
        fitted(folder, adjacency=adjacency, ledger=ledger)
    model, given = fitted(folder, **DESCENT), {"epsilon": 1.0, "ledger": ledger}
    for other in (
        lambda: dp.evaluate(model, scan, **given),
        lambda: dp.check(scan, SCHEMA, **given),
        lambda: dp.PrivateSearchCV(model, {"alpha": [0.0]}, **given).fit(scan),
    ):
        with pytest.raises(InvalidInput, match="fits alone"):
            other()
    assert not ledger.history()


def test_scaled_sums_stay_whole_beyond_int64() -> None:
    rows = limits.RowSpec(1, 1.0, 0.5)
    scaling = Scaling(rows, np.array([1, 1]), np.array([2**17]))
    constant = int(rows.constant)
    slopes, features = 2**53 + 1, 2**70
    total = np.array([features, slopes * constant], dtype=object)
    assert scaling.of_sum(total).tolist() == [features - slopes * 2**17, slopes * constant]
