"""``discreet fit --interactions``: pairs that are named, none, and what is refused before a row is read."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from discreet.cli import app
from discreet.estimators.loading import load

RUN = CliRunner()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    with (tmp_path / "t.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "y"])
        writer.writerows([a, b, "yes" if (a - 0.5) * (b - 0.5) > 0 else "no"] for a, b in rng.random((4000, 2)))
    (tmp_path / "s.yaml").write_text("a: {numeric: [0, 1]}\nb: {numeric: [0, 1]}\ny: {boolean: [no, yes]}\n")
    return tmp_path


def fit(*options: str) -> Any:
    return RUN.invoke(app, ["fit", "t.csv", "--schema", "s.yaml", "--target", "y", "-q", "--force", *options])


def test_the_choice_is_shown_and_kept(folder: Path) -> None:
    result = fit("--epsilon", "8")
    assert result.exit_code == 0, result.output
    assert "chosen       a × b" in result.output
    assert "a × b" in json.loads((folder / "model.certificate.json").read_text())["settings"]["chosen"]
    shown = RUN.invoke(app, ["show", "model.npz"])
    assert "a × b" in shown.output


@pytest.mark.parametrize(("words", "found"), [(["none"], ()), (["a, b"], (("a", "b"),))])
def test_none_and_pairs_are_taken_as_said(folder: Path, words: list[str], found: Any) -> None:
    result = fit("--epsilon", "4", *(part for word in words for part in ("--interactions", word)))
    assert result.exit_code == 0, result.output
    assert load(folder / "model.npz").interactions_ == found


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--interactions", "a"], "COLUMN,COLUMN"),
        (["--interactions", "a,b,c"], "COLUMN,COLUMN"),
        (["--interactions", "auto", "--model", "svc"], "LinearSVC chooses no interactions"),
    ],
)
def test_what_cannot_be_is_refused(folder: Path, options: list[str], said: str) -> None:
    result = fit("--epsilon", "4", *options)
    assert result.exit_code != 0
    assert said in str(result.exception)
    assert not (folder / "model.npz").exists()
