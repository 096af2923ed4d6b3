"""``discreet fit`` of several files: the same model as of one, and refusals before anything is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import discreet as dp
from discreet.cli import app

RUN = CliRunner()
SCHEMA = "x: {numeric: [-3, 3]}\ny: {categorical: ['no', 'yes']}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=300)})
    table["y"] = np.where(table.x + rng.normal(size=300) > 0, "yes", "no")
    (tmp_path / "rows").mkdir()
    table.to_parquet(tmp_path / "whole.parquet", index=False)
    table.iloc[:100].to_parquet(tmp_path / "rows" / "a.parquet", index=False)
    table.iloc[100:].to_parquet(tmp_path / "rows" / "b.parquet", index=False)
    table.to_csv(tmp_path / "whole.csv", index=False)
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fit(*words: str) -> str:
    options = ["--schema", "schema.yaml", "--target", "y", "--epsilon", "1", "--seed", "1", "--force", "-q"]
    result = RUN.invoke(app, ["fit", *words, *options, "-o", "model.npz"])
    return result.output + result.stderr + (str(result.exception) if result.exception else "")


def test_several_files_and_a_folder_give_the_model_of_one_file(folder: Path) -> None:
    fit("whole.parquet")
    expected = dp.load("model.npz").coef_
    for words in (
        ("rows/a.parquet", "rows/b.parquet"),
        ("rows",),
        ("rows/*.parquet", "--memory", "10KB"),
        ("whole.csv", "--memory", "1MB", "--cache", "."),
    ):
        Path("model.npz").unlink()
        fit(*words)
        assert np.array_equal(dp.load("model.npz").coef_, expected), words


def test_a_scheduler_is_named_by_its_address(folder: Path) -> None:
    """A cluster of two processes that other programs have started."""
    from distributed import LocalCluster

    fit("whole.parquet")
    expected = dp.load("model.npz").coef_
    Path("model.npz").unlink()
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        assert cluster.scheduler_address.startswith("tcp://")
        fit(str(folder / "rows"), "--dask", cluster.scheduler_address)
    assert np.array_equal(dp.load("model.npz").coef_, expected)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("rows", "none.parquet"), "there is no file 'none.parquet'"),
        (("rows", "--memory", "lots"), "memory is a number of bytes"),
        (("rows", "rows/a.parquet"), "a file comes twice"),
    ],
)
def test_what_cannot_be_read_is_said(folder: Path, words: tuple[str, ...], said: str) -> None:
    assert said in " ".join(fit(*words).split())
    assert not Path("model.npz").exists()
