"""A hospital with several visits a patient: from a file of visits to a model that protects patients."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from discreet.cli import app

RUN = CliRunner()
SCHEMA = """\
patient: {unit: 5}
age:     {numeric: [0, 100]}
smoker:  boolean
ill:     {boolean: [0, 1]}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Visits of 800 patients, one of whom came 1000 times, and a few lines that do not say whose they are."""
    rng = np.random.default_rng(0)
    patients = np.concatenate([rng.integers(0, 800, 2400), np.full(1000, 800)])
    age, smoker = rng.integers(0, 100, len(patients)), rng.random(len(patients)) < 0.5
    with (tmp_path / "visits.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["patient", "age", "smoker", "ill"])
        for who, years, smokes in zip(patients, age, smoker, strict=True):
            lines.writerow([f"P{who:04d}", years, int(smokes), int(years > 50)])
        lines.writerows([["", 30, 1, 0]] * 5)
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    (tmp_path / "newcomers.csv").write_text("age,smoker\n20,1\n80,0\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run(words: str) -> tuple[int, str]:
    """A command's exit code, and what it says, in one line of single blanks."""
    result = RUN.invoke(app, words.split())
    return result.exit_code, " ".join(f"{result.output} {result.exception or ''}".split())


def _said(words: str) -> str:
    code, said = _run(words)
    assert code == 0, said
    return said


FIT = "fit visits.csv --schema schema.yaml --target ill --quiet --epsilon 2 --delta 1e-7"
BUDGET = "--epsilon 4 --delta 1e-6 --adjacency replace-one"


def test_patients_are_protected_from_the_file_to_the_certificate(folder: Path) -> None:
    _said(f"ledger budget.db {BUDGET} --rows-per-unit 5")
    said = _said(f"{FIT} --ledger budget.db")
    assert "(replace-one, 5 rows a person, enforced)" in said
    assert "not protected number of people" in said
    certificate = json.loads((folder / "model.certificate.json").read_text())
    assert (certificate["unit"], certificate["rows_per_unit"]) == ("enforced", 5)
    assert _said("predict model.npz newcomers.csv") == "prediction 0 1"
    said = _said("quantile visits.csv --schema schema.yaml --column age --epsilon 1 --ledger budget.db")
    assert said.startswith("q,value 0.5,")
    assert "5 rows a unit" in _said("ledger budget.db")


def test_a_budget_for_rows_says_what_it_lacks(folder: Path) -> None:
    _said(f"ledger rows.db {BUDGET}")
    code, said = _run(f"{FIT} --ledger rows.db")
    assert code != 0
    assert "budget under replace-one; a run under replace-one, 5 rows a person, enforced" in said
    assert "Nothing was charged and nothing was released" in said
    assert not (folder / "model.npz").exists()


def test_a_file_without_the_ids_is_refused_before_anything_is_charged(folder: Path) -> None:
    lines = (folder / "visits.csv").read_text().splitlines()
    (folder / "visits.csv").write_text("\n".join(line.split(",", 1)[1] for line in lines) + "\n")
    code, said = _run(FIT)
    assert code != 0
    assert "no column 'patient'" in said
