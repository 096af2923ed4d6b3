"""The first day with a file, before and after a fit: check the schema, plan, fit, look at the model, evaluate it."""

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
id:     ignore
age:    {numeric: [18, 90]}
job:    {categorical: [nurse, clerk]}
visits: {numeric: [0, 50], encoding: linear}
sick:   {boolean: [no, yes]}
cost:   {numeric: [0, 2000]}
"""
FIT = "fit train.csv --schema schema.yaml --epsilon 4 --ledger budget.db -q"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two files of people; age decides who is sick, and a few cells are not as declared."""
    rng = np.random.default_rng(0)
    for name, n in (("train", 3000), ("test", 2000)):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(["id", "age", "job", "visits", "sick", "cost"])
            for person in range(n):
                age = int(rng.integers(18, 90))
                sick = rng.random() < 1 / (1 + np.exp(-(age - 55) / 6))
                job = rng.choice(["nurse", "clerk"])
                lines.writerow([person, age, job, age // 3, "yes" if sick else "no", 10 * age + int(rng.integers(100))])
            lines.writerow(["x", "", "pilot", "many", "J", "?"])
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(words: str) -> str:
    """What a command that ends well says, in one line of single blanks."""
    result = RUN.invoke(app, words.split())
    assert result.exit_code == 0, f"{result.output} {result.exception!r}"
    return " ".join(result.output.split())


def refused(words: str) -> str:
    result = RUN.invoke(app, words.split())
    assert result.exit_code != 0, result.output
    return " ".join(f"{result.output} {result.exception or ''}".split())


def test_a_wrong_schema_is_found_for_little_before_a_fit_is_paid(folder: Path) -> None:
    """With ε = 0.1 and 3001 rows noise hides 4 %; a column that is all wrong is missed with probability e^-70."""
    said("ledger budget.db --epsilon 10 --delta 1e-6 --adjacency replace-one")
    wrong = SCHEMA.replace("[nurse, clerk]", "[Nurse, Clerk]")
    (folder / "wrong.yaml").write_text(wrong)
    words = said("check train.csv --schema wrong.yaml --epsilon 0.1 --ledger budget.db")
    assert "of its cells are unlisted: compare the declared categories" in words
    assert "job: about " in words
    assert "privacy: ε = 0.1, δ = 0 (replace-one)" in words
    found = json.loads(said("check train.csv --schema schema.yaml --epsilon 0.1 --ledger budget.db --json"))
    assert set(found["shares"]) == {"age", "job", "visits", "sick", "cost"}
    assert "job" not in found["suspects"]
    assert [charge["note"] for charge in json.loads(said("ledger budget.db --json"))["default"]] == [
        "check against the schema", "check against the schema",
    ]  # fmt: skip
    # boolean words of another language, as a target
    (folder / "labels.yaml").write_text(SCHEMA.replace("[no, yes]", "[N, J]"))
    assert "sick: about" in said("check train.csv --schema labels.yaml --epsilon 0.1 --column sick")


def test_what_check_refuses_is_said_before_a_charge(folder: Path) -> None:
    said("ledger budget.db --epsilon 0.01 --delta 1e-6 --adjacency replace-one")
    assert "a table needs a schema" in refused("check train.csv --epsilon 0.1")
    assert "no column 'height'" in refused("check train.csv --schema schema.yaml --epsilon 0.1 --column height")
    assert "epsilon must be positive" in refused("check train.csv --schema schema.yaml --epsilon 0")
    refused("check train.csv --schema schema.yaml --epsilon 0.1 --ledger budget.db")
    assert "spent ε = 0 of" in said("ledger budget.db")


def test_a_plan_needs_a_schema_and_a_number_of_rows_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.estimators.simulation._REPEATS", 1)
    for name in ("train.csv", "test.csv"):
        (folder / name).unlink()
    words = said("plan --schema schema.yaml --n 3000 --target sick --plot plan.png")
    assert "SYNTHETIC rows of the declared shape" in words
    assert "no data was read" in words
    assert "of no privacy from ε ≈" in words
    assert (folder / "plan.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(said("plan --schema schema.yaml --n 3000 --target cost --epsilon 1 --json"))
    assert (found["model"], found["d"]) == ("linear", 6 + 3 + 1 + 1)
    assert found["simulation"]["synthetic"] is True
    assert [one["epsilon"] for one in found["simulation"]["sweep"]] == [0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0]
    assert "leave out --d" in refused("plan --schema schema.yaml --n 3000 --d 5")
    assert "does not fit the target" in refused("plan --schema schema.yaml --n 3000 --target sick --model linear")
    assert "the schema has no column 'ill'" in refused("plan --schema schema.yaml --n 3000 --target ill")


def test_a_model_is_fitted_shown_and_evaluated(folder: Path) -> None:
    said("ledger budget.db --epsilon 10 --delta 1e-6 --adjacency replace-one")
    said(f"{FIT} --target sick")
    words = said("show model.npz --plot model.svg --html model.html")
    assert "effects on the log-odds of sick = yes" in words
    assert "intercept" in words
    assert "per unit" in words  # visits, a straight line
    assert (folder / "model.svg").read_text().count("<svg") == 1
    assert "<script" not in (folder / "model.html").read_text()
    shown = json.loads(said("show model.npz --column age --column visits --column cost --json"))
    (effects,) = shown["outputs"]
    ends = [[point["effect"] for point in one["points"]] for one in effects["effects"].values()]
    assert sum(one[-1] - one[0] for one in ends) > 2  # all three grow with age

    free = json.loads(said("evaluate model.npz test.csv --public --json"))
    assert free["rows"] == 2000  # the last line has neither label
    assert free["metrics"]["accuracy"]["value"] > 0.75 > free["metrics"]["accuracy"]["guess"]
    paid = json.loads(said("evaluate model.npz test.csv --epsilon 1 --ledger budget.db --json"))
    assert paid["private"] is True
    for name, figure in paid["metrics"].items():
        assert figure["low"] <= figure["value"] <= figure["high"], name
    # 2000 rows at ε = 1: intervals of accuracy have a half-width of 2.5 points, and miss with probability 0.05
    assert abs(paid["metrics"]["accuracy"]["value"] - free["metrics"]["accuracy"]["value"]) < 0.08
    notes = [charge["note"] for charge in json.loads(said("ledger budget.db --json"))["default"]]
    assert notes[-1] == "evaluation of LogisticRegression"
    words = said("evaluate model.npz test.csv --epsilon 1 -o figures.json")
    assert "accuracy" in words
    assert "calibration error" in words
    assert "privacy: ε = 1, δ = 0 (replace-one)" in words
    assert json.loads((folder / "figures.json").read_text())["private"] is True


def test_numbers_are_evaluated_too(folder: Path) -> None:
    said(f"{FIT} --target cost -o cost.npz".replace("--ledger budget.db ", ""))
    words = said("evaluate cost.npz test.csv --public")
    assert "r2" in words
    assert "rmse" in words
    found = json.loads(said("evaluate cost.npz test.csv --epsilon 2 --json"))
    assert found["metrics"]["r2"]["value"] > 0.5
    assert "effects on cost" in said("show cost.npz")


def test_test_rows_are_private_unless_they_are_said_to_be_public(folder: Path) -> None:
    said(f"{FIT} --target sick".replace("--ledger budget.db ", ""))
    assert "private unless you say --public" in refused("evaluate model.npz test.csv")
    assert "leave out --epsilon" in refused("evaluate model.npz test.csv --public --epsilon 1")
    assert "predicts 'sick', not 'cost'" in refused("evaluate model.npz test.csv --public --target cost")
    said("ledger budget.db --epsilon 0.5 --delta 1e-6 --adjacency replace-one")
    refused("evaluate model.npz test.csv --epsilon 1 --ledger budget.db")
    assert "spent ε = 0 of" in said("ledger budget.db")
    assert "NOT PRIVATE" in said("evaluate model.npz test.csv --epsilon 1 --seed 3")
    assert "has no column 'height'" in refused("show model.npz --column height").replace("the model has", "has")


def test_files_with_semicolons_and_decimal_commas_are_checked_and_evaluated(folder: Path) -> None:
    said(f"{FIT} --target sick".replace("--ledger budget.db ", ""))
    lines = (folder / "test.csv").read_text().splitlines()
    rows = [line.split(",") for line in lines]
    text = [";".join([*row[:3], f"{row[3]},0" if row[3].isdigit() else row[3], *row[4:]]) for row in rows]
    (folder / "german.csv").write_text("\n".join(text) + "\n")
    options = "--separator ; --decimal , --json"
    found = json.loads(said(f"check german.csv --schema schema.yaml --epsilon 5 {options}"))
    # a clean column is named once in twenty, with a share that noise explains
    assert all(share < 0.02 for shares in found["suspects"].values() for share in shares.values())
    points = json.loads(said("check german.csv --schema schema.yaml --epsilon 5 --separator ; --json"))
    assert "visits" in points["suspects"]  # 12,0 is no number where the decimal point is a point
    german = json.loads(said(f"evaluate model.npz german.csv --public {options}"))
    plain = json.loads(said("evaluate model.npz test.csv --public --json"))
    assert german["metrics"] == plain["metrics"]
