"""Everything but ``fit`` that takes files which do not fit in memory: the same answers as for the table in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet.data import runs
from discreet.errors import InvalidInput
from discreet.estimators import scans

N = 1500
COLUMNS = {"x": dp.Numeric(-1, 1), "job": dp.Categorical(["clerk", "nurse"])}
SCHEMA = dp.Schema(COLUMNS | {"y": dp.Categorical([0, 1]), "note": dp.Ignore()})
MEMORY = {"memory": 1}


@pytest.fixture
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.5, 1.5, N)
    job = rng.choice(["clerk", "nurse", "pilot"], N)
    y = (x + (job == "nurse") + rng.normal(size=N) > 0).astype(int)
    return pd.DataFrame({"x": x, "job": job, "y": y, "note": "-", "who": rng.integers(0, 400, N)})


@pytest.fixture
def folder(table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(runs, "_LEAST_ENTRIES", 1 << 9)
    monkeypatch.setattr(runs, "_MOST_ENTRIES", 1 << 9)
    monkeypatch.setattr(scans, "_PREDICTED", 270)
    for k, (first, last) in enumerate([(0, 700), (700, N)]):
        table.drop(columns="who").iloc[first:last].to_parquet(tmp_path / f"part-{k}.parquet", row_group_size=150)
    return tmp_path


def model(**settings: Any) -> Any:
    return dp.LogisticRegression(1.0, 1e-6, schema=SCHEMA, random_state=1, interactions=False, **settings)


@pytest.fixture
def fitted(table: pd.DataFrame) -> Any:
    return model(solver="descent").fit(table.drop(columns=["y", "who"]), table["y"])


def test_files_are_predicted_some_rows_after_others(fitted: Any, table: pd.DataFrame, folder: Path) -> None:
    scan, rows = dp.Parquet(folder), table.drop(columns="who")
    np.testing.assert_array_equal(fitted.predict(scan), fitted.predict(rows))
    np.testing.assert_array_equal(fitted.predict_proba(scan), fitted.predict_proba(rows))
    for file in folder.iterdir():  # new rows have no target
        pd.read_parquet(file).drop(columns=["y", "note"]).to_parquet(file)
    np.testing.assert_array_equal(fitted.predict(scan), fitted.predict(rows))


def test_text_files_are_predicted_too(fitted: Any, table: pd.DataFrame, tmp_path: Path) -> None:
    table[["x", "job"]].to_csv(tmp_path / "rows.csv", index=False)
    np.testing.assert_array_equal(fitted.predict(dp.CSV(tmp_path / "rows.csv")), fitted.predict(table[["x", "job"]]))


def test_files_that_a_model_cannot_read_are_refused(fitted: Any, table: pd.DataFrame, folder: Path) -> None:
    plain = dp.LogisticRegression(1.0, 1e-6, row_norm=1.0, classes=[0, 1]).fit(table[["x"]].to_numpy(), table["y"])
    with pytest.raises(InvalidInput, match="schema"):
        plain.predict(dp.Parquet(folder))
    table[["x"]].to_parquet(folder / "part-2.parquet")
    with pytest.raises(InvalidInput, match="part-2"):
        fitted.predict(dp.Parquet(folder))


def test_private_test_rows_in_files_are_evaluated(fitted: Any, table: pd.DataFrame, folder: Path) -> None:
    for settings in ({"epsilon": 0.5}, {"epsilon": float("inf")}, {"epsilon": 0.5, "adjacency": "add-remove"}):
        in_memory = dp.evaluate(fitted, table.drop(columns="who"), table["y"], random_state=3, **settings)
        files = dp.evaluate(fitted, dp.Parquet(folder, **MEMORY), "y", random_state=3, **settings)
        assert str(files) == str(in_memory)


def test_numbers_in_files_are_evaluated(table: pd.DataFrame, folder: Path) -> None:
    schema = dp.Schema(COLUMNS | {"y": dp.Numeric(0, 1), "note": dp.Ignore()})
    regression = dp.LinearRegression(1.0, 1e-6, schema=schema, random_state=1, solver="descent")
    regression.fit(table.drop(columns=["y", "who"]), table["y"])
    in_memory = dp.evaluate(regression, table.drop(columns="who"), table["y"], epsilon=1.0, random_state=3)
    scan = dp.Parquet(folder, target="y", **MEMORY)
    assert str(dp.evaluate(regression, scan, epsilon=1.0, random_state=3)) == str(in_memory)


def test_what_files_cannot_be_evaluated_by_is_refused_and_not_charged(fitted: Any, folder: Path) -> None:
    ledger = dp.Ledger()
    scan = dp.Parquet(folder)
    for arguments in ({"y": None}, {"y": np.zeros(N)}, {"y": "y", "groups": np.zeros(N)}):
        with pytest.raises(InvalidInput, match="files need"):
            dp.evaluate(fitted, scan, epsilon=1.0, ledger=ledger, **arguments)
    with pytest.raises(InvalidInput, match="in memory"):
        dp.evaluate(fitted, scan, "y", public=True)
    assert not ledger.history()


@pytest.mark.parametrize("persons", [False, True])
def test_files_are_checked_against_a_schema(persons: bool, table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    schema = dp.Schema(dict(SCHEMA) | {"who": dp.Person(2) if persons else dp.Ignore()})
    in_memory = dp.check(table, schema, epsilon=2.0, random_state=2)
    assert "job" in in_memory.suspects
    assert str(dp.check(dp.Parquet(tmp_path, **MEMORY), schema, epsilon=2.0, random_state=2)) == str(in_memory)


@pytest.mark.parametrize("persons", [False, True])
def test_a_search_on_files_finds_what_it_finds_in_memory(
    persons: bool, table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    schema = dp.Schema(dict(SCHEMA) | {"who": dp.Person(2) if persons else dp.Ignore()})
    estimator = dp.LogisticRegression(schema=schema, solver="descent", solver_options={"iterations": 3})
    settings = {"epsilon": 2.0, "delta": 1e-6, "trials": 2, "random_state": 4, "rows_per_unit": 2 if persons else 1}
    search = dp.PrivateSearchCV(estimator, {"alpha": [0.0, 0.1]}, **settings)
    search.fit(table.drop(columns="y"), table["y"])
    found = dp.PrivateSearchCV(estimator, {"alpha": [0.0, 0.1]}, **settings).fit(dp.Parquet(tmp_path, **MEMORY), "y")
    assert (found.best_params_, found.best_score_) == (search.best_params_, search.best_score_)
    assert found.best_estimator_.coef_.tolist() == search.best_estimator_.coef_.tolist()
    assert found.privacy_ == search.privacy_
