"""The command line, as a person would use it."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import discreet as dp
from discreet.cli import app, main

RUN = CliRunner()
SCHEMA = """
age: {numeric: [18, 90]}
job: {categorical: [nurse, clerk]}
visits: {numeric: [0, 50]}
sick: boolean
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    ages = rng.integers(18, 90, 1000)
    with (tmp_path / "people.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "job", "visits", "sick"])
        for age in ages:
            writer.writerow([age, rng.choice(["nurse", "clerk", "pilot"]), age // 4, "yes" if age > 55 else "no"])
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    return tmp_path


def fit(*options):
    return RUN.invoke(app, ["fit", "people.csv", "--schema", "schema.yaml", "-q", *options], catch_exceptions=True)


def problem(result):
    assert result.exception is not None
    return str(result.exception)


def test_from_a_csv_to_a_model_a_certificate_and_predictions(folder):
    result = fit("--target", "sick", "--epsilon", "2", "--ledger", "sqlite:///ledger.db")
    assert result.exit_code == 0, result.output
    assert "replace-one" in result.output
    certificate = json.loads((folder / "model.certificate.json").read_text())
    assert certificate["private"] is True
    assert certificate["epsilon"] <= 2
    assert len(dp.Ledger("sqlite:///ledger.db").history()) == 1
    predicted = RUN.invoke(app, ["predict", "model.npz", "people.csv", "-o", "out.csv"])
    assert predicted.exit_code == 0, predicted.output
    answers = [row["prediction"] for row in csv.DictReader((folder / "out.csv").read_text().splitlines())]
    truth = [row["sick"] for row in csv.DictReader((folder / "people.csv").read_text().splitlines())]
    agree = np.mean([(a in ("True", "yes", "1")) == (t == "yes") for a, t in zip(answers, truth, strict=True)])
    assert agree > 0.8
    shown = RUN.invoke(app, ["predict", "model.npz", "people.csv", "--probabilities"])
    assert shown.output.splitlines()[0].startswith("probability_")


@pytest.mark.parametrize(("model", "target"), [("linear", "visits"), ("poisson", "visits"), ("svc", "sick")])
def test_other_models(folder, model, target):
    result = fit("--target", target, "--epsilon", "5", "--model", model, "--adjacency", "add-remove", "--delta", "1e-6")
    assert result.exit_code == 0, result.output
    assert dp.load("model.npz").privacy_.adjacency == "add-remove"


def test_parquet(folder):
    import pandas as pd

    pd.read_csv("people.csv").to_parquet("people.parquet")
    result = RUN.invoke(
        app, ["fit", "people.parquet", "--schema", "schema.yaml", "--target", "sick", "--epsilon", "1", "-q"]
    )
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target", "wealth", "--epsilon", "1"], "wealth"),
        (["--target", "sick", "--epsilon", "-1"], "epsilon"),
        (["--target", "sick", "--epsilon", "1", "--delta", "2"], "delta"),
        (["--target", "sick", "--epsilon", "1", "--model", "linear"], "linear"),
        (["--target", "sick", "--epsilon", "1", "--model", "magic"], "magic"),
        (["--target", "sick", "--epsilon", "1", "--adjacency", "near"], "adjacency"),
        (["--target", "sick", "--epsilon", "1", "--adjacency", "add-remove"], "delta"),
        (["--target", "sick", "--epsilon", "1", "-o", "nowhere/model.npz"], "nowhere"),
    ],
)
def test_mistakes_are_explained_and_nothing_is_written(folder, options, message):
    result = fit(*options, "--ledger", "sqlite:///ledger.db")
    assert message in problem(result)
    assert not (folder / "model.npz").exists()


def test_without_a_schema_a_template_is_shown(folder):
    result = RUN.invoke(app, ["fit", "people.csv", "--target", "sick", "--epsilon", "1"])
    assert "age: {numeric: [LOW, HIGH]}" in problem(result)


def test_the_program_ends_with_one_clear_line(folder, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["discreet", "fit", "missing.csv", "--target", "x", "--epsilon", "1"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert "missing.csv" in capsys.readouterr().err


def test_the_demonstration_runs_once_and_is_refused_past_its_budget(tmp_path):
    folder = tmp_path / "demo"
    first = RUN.invoke(app, ["demo", "--folder", str(folder)])
    assert first.exit_code == 0, first.output
    assert "test accuracy" in first.output
    assert "plan:" in first.output
    assert json.loads((folder / "certificate.json").read_text())["private"] is True
    second = RUN.invoke(app, ["demo", "--folder", str(folder)])
    assert second.exit_code == 3
    assert "refused" in second.output
    assert "rm -r" in second.output


def plan(*options):
    return RUN.invoke(app, ["plan", "--n", "30000", "--d", "50", "--epsilon", "1", *options])


def test_a_plan_needs_no_data_and_marks_its_choice():
    result = plan("--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.output)
    (chosen,) = [option for option in facts["options"] if option["chosen"]]
    assert chosen["solver"] == "objective_perturbation"
    assert 0 < chosen["predicted_excess_risk"] < 1
    assert "auto takes objective_perturbation" in plan().output


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--loss", "squared"], "preconditioned"),
        (["--loss", "squared", "--sparsity", "5"], "hard_threshold"),
        (["--l1-radius", "5", "--d", "5000"], "frank_wolfe"),
        (["--classes", "4"], "descent"),
        (["--delta", "0"], "objective_perturbation"),
    ],
)
def test_the_choice_follows_the_problem(options, expected):
    facts = json.loads(plan(*options, "--json").output)
    assert [option["solver"] for option in facts["options"] if option["chosen"]] == [expected]


@pytest.mark.parametrize("options", [["--loss", "magic"], ["--n", "0"], ["--l1-radius", "1", "--sparsity", "2"]])
def test_a_plan_refuses_nonsense(options):
    assert plan(*options).exception is not None


def test_a_schema_template_uses_names_alone(folder):
    result = RUN.invoke(app, ["schema", "people.csv"])
    assert result.output.count(": {numeric: [LOW, HIGH]}") == 4  # one a column
    assert "pilot" not in result.output
    assert RUN.invoke(app, ["schema", "people.csv", "--check", "schema.yaml"]).exit_code == 0
    (folder / "schema.yaml").write_text("age: {numeric: [0, 1]}\nwealth: boolean\n")
    assert "wealth" in problem(RUN.invoke(app, ["schema", "people.csv", "--check", "schema.yaml"]))


def test_a_ledger_can_be_read(folder):
    fit("--target", "sick", "--epsilon", "1", "--ledger", "sqlite:///ledger.db")
    shown = RUN.invoke(app, ["ledger", "sqlite:///ledger.db"])
    assert "LogisticRegression" in shown.output
    facts = json.loads(RUN.invoke(app, ["ledger", "sqlite:///ledger.db", "--json"]).output)
    assert facts["default"][0]["status"] == "completed"
    assert "absent" in problem(RUN.invoke(app, ["ledger", "sqlite:///ledger.db", "--dataset", "absent"]))


def test_no_refusal_shows_the_first_person_of_a_file_without_names(folder):
    lines = (folder / "people.csv").read_text().splitlines()[1:]
    for first in ("41,SECRET,7,yes", "SECRET,SECRET,7,yes", "SECRET,,7,yes"):
        (folder / "people.csv").write_text("\n".join([first, *lines]))
        message = problem(fit("--target", "sick", "--epsilon", "1"))
        assert "first line" in message
        assert "SECRET" not in message
        assert "41" not in message
    schema = dp.Schema.from_yaml(SCHEMA)
    with pytest.raises(dp.errors.InvalidInput, match="first line") as refusal:
        dp.LogisticRegression(schema=schema, classes=[0, 1]).fit({"SECRET": [1, 2], "41": [3, 4]}, [0, 1])
    assert "SECRET" not in str(refusal.value)


def test_a_ledger_may_be_a_path(folder):
    assert fit("--target", "sick", "--epsilon", "2", "--ledger", "ledger.db").exit_code == 0
    shown = RUN.invoke(app, ["ledger", "ledger.db", "--json"])
    assert len(json.loads(shown.output)["default"]) == 1
