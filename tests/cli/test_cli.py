"""The command line, as a person would use it."""

from __future__ import annotations

import csv
import json
import re

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
sick: {boolean: [no, yes]}
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
    words = ["fit", "people.csv", "--schema", "schema.yaml", "-q", "--force", *options]
    return RUN.invoke(app, words, catch_exceptions=True)


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
    agree = np.mean([a == t for a, t in zip(answers, truth, strict=True)])
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
        (["--target", "sick", "--epsilon", "1", "-o", "."], "cannot be written"),
        (["--target", "sick", "--epsilon", "1", "-o", "people.csv"], "written over"),
        (["--target", "sick", "--epsilon", "1", "-o", "schema.yaml"], "written over"),
        (["--target", "sick", "--epsilon", "1", "-o", "ledger.db"], "written over"),
        (["--target", "sick", "--epsilon", "1", "--certificate", "nowhere/c.json"], "nowhere"),
        (["--target", "sick", "--epsilon", "1", "--certificate", "./schema.yaml"], "written over"),
        (["--target", "sick", "--epsilon", "1", "--certificate", "./model.npz"], "written over"),
        (["--target", "sick", "--epsilon", "1", "--solver", "magic"], "magic"),
        (["--target", "sick", "--epsilon", "1", "--option", "iterations=3"], "--solver"),
        (["--target", "sick", "--epsilon", "1", "--solver", "descent", "--option", "iterations"], "NAME=VALUE"),
        (["--target", "sick", "--epsilon", "1", "--solver", "descent", "--option", "iterations=many"], "whole number"),
        (["--target", "sick", "--epsilon", "1", "--solver", "descent", "--option", "sigma=1"], "no option 'sigma'"),
        (
            ["--target", "sick", "--epsilon", "1", "--solver", "descent", "--option", "update=adam:1:2:3:4:5:6:7"],
            "adam:0.1",
        ),
        (["--target", "sick", "--epsilon", "1", "--solver", "descent", "--option", "update=magic:1"], "magic"),
        (["--target", "sick", "--epsilon", "1", "--param", "quantile=0.9"], "alpha, fit_intercept"),
        (["--target", "sick", "--epsilon", "1", "--param", "epsilon=9"], "no --param 'epsilon'"),
        (["--target", "sick", "--epsilon", "1", "--param", "alpha=much"], "alpha must be a number"),
        (["--target", "sick", "--epsilon", "1", "--param", "alpha=1", "--param", "alpha=2"], "twice"),
        (["--target", "sick", "--epsilon", "1", "--domain", "l1"], "l1:RADIUS"),
        (["--target", "sick", "--epsilon", "1", "--domain", "l2:wide"], "'wide'"),
        (["--target", "sick", "--epsilon", "1", "--domain", "sparse:nan"], "sparse:S"),
        (["--target", "sick", "--epsilon", "1", "--domain", "group:1"], "group:RADIUS:0,0,1"),
        (["--target", "sick", "--epsilon", "1", "--domain", "group:1:0,x"], "'x'"),
        (["--target", "sick", "--epsilon", "1", "--domain", "group:1:0,0,2"], "group 1 has no coordinate"),
        (["--target", "sick", "--epsilon", "1", "--domain", "group:1:0,1"], "dimension 2, but was asked about"),
        (["--target", "sick", "--epsilon", "1", "--dataset", "clinic"], "no dataset 'clinic'"),
        (
            ["--target", "visits", "--epsilon", "1", "--model", "quantile", "--param", "quantile=high"],
            "must be a number",
        ),
    ],
)
def test_mistakes_are_explained_and_nothing_is_written(folder, options, message):
    dp.Ledger("sqlite:///ledger.db", epsilon=9.0, delta=1e-3, adjacency="replace-one")
    result = fit(*options, "--ledger", "sqlite:///ledger.db")
    assert message in problem(result)
    assert isinstance(result.exception, dp.errors.DiscreetError)
    assert dp.Ledger("sqlite:///ledger.db").history() == ()
    assert not (folder / "model.npz").exists()


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("sick", ["--solver", "bias_reduced", "--option", "sparsity=3"]),
        ("sick", ["--solver", "descent", "--option", "update=adam:0.1", "--option", "rate=0.5"]),
        ("sick", ["--solver", "descent", "--option", "update=adafactor"]),
        ("sick", ["--solver", "descent", "--option", "update=svrg:0.1:3", "--option", "iterations=4"]),
        ("sick", ["--solver", "objective_perturbation", "--option", "regularisation=30", "--param", "alpha=0.01"]),
        ("sick", ["--solver", "output_perturbation", "--domain", "box:-3:3", "--option", "projection=linf"]),
        ("visits", ["--solver", "scaled_descent", "--option", "scales=full", "--option", "moment_share=0.2"]),
        ("visits", ["--solver", "sufficient_statistics", "--option", "failure=0.1"]),
        ("visits", ["--solver", "frank_wolfe", "--domain", "l1:3", "--option", "iterations=5"]),
        ("visits", ["--solver", "frank_wolfe", "--domain", "polytope:corners.csv"]),
        ("visits", ["--solver", "descent", "--domain", "l2:2"]),
        ("visits", ["--solver", "descent", "--domain", "group:2:0,1"]),
        ("visits", ["--solver", "frank_wolfe", "--domain", "group-inf:2:0,0"]),
        ("visits", ["--solver", "hard_threshold", "--domain", "sparse:2", "--option", "peel=true"]),
        ("visits", ["--solver", "heavy_tailed", "--domain", "sparse:2:1.5"]),
        ("visits", ["--solver", "exponential_mechanism", "--delta", "0", "--option", "candidates=[[0,0],[1,0]]"]),
        ("visits", ["--model", "lasso", "--param", "radius=2"]),
        ("visits", ["--model", "sparse", "--param", "sparsity=2", "--param", "fit_intercept=false"]),
        ("visits", ["--model", "quantile", "--param", "quantile=0.9"]),
        ("visits", ["--model", "huber", "--param", "width=0.5"]),
    ],
)
def test_every_solver_set_and_parameter_is_within_reach(folder, target, options):
    (folder / "schema.yaml").write_text(
        "age: {numeric: [18, 90], encoding: linear}\njob: ignore\nvisits: {numeric: [0, 50]}\nsick: "
        + ("{boolean: [no, yes]}\n" if target == "sick" else "ignore\n")
    )
    columns = 2 if target == "visits" else 8
    (folder / "corners.csv").write_text("\n".join(",".join(map(str, row)) for row in np.eye(columns)))
    result = fit("--target", target, "--epsilon", "1", *options)
    assert result.exit_code == 0, (result.output, result.exception)
    certificate = json.loads((folder / "model.certificate.json").read_text())
    assert certificate["private"]
    if options[0] == "--solver":
        assert certificate["solver"] == options[1]


def test_a_budget_is_set_once_and_kept_from_the_command_line(folder):
    budget = ["ledger", "budget.db", "--dataset", "clinic", "--epsilon", "1.5", "--delta", "1e-4"]
    assert "together" in problem(RUN.invoke(app, budget))
    set_once = RUN.invoke(app, [*budget, "--adjacency", "replace-one"])
    assert set_once.exit_code == 0, set_once.output
    assert "of ε = 1.5" in set_once.output
    assert "cannot be changed" in problem(
        RUN.invoke(app, [*budget[:4], "--epsilon", "9", "--delta", "1e-4", "--adjacency", "replace-one"])
    )
    asked = ["--target", "sick", "--epsilon", "1", "--ledger", "budget.db", "--dataset", "clinic"]
    assert fit(*asked).exit_code == 0
    assert "remaining: ε = 0.7" in problem(fit(*asked))
    assert len(dp.Ledger("sqlite:///budget.db", dataset="clinic").history()) == 1
    assert "give --ledger" in problem(fit("--target", "sick", "--epsilon", "1", "--dataset", "clinic"))


@pytest.mark.parametrize("options", [["--adjacency", "replace-one"], ["--adjacency", "add-remove"]])
@pytest.mark.parametrize("target", ["sick", "visits"])
def test_a_budget_of_one_fit_has_room_for_one(folder, capsys, monkeypatch, options, target):
    same = ["--epsilon", "1", "--delta", "1e-6", *options]
    assert RUN.invoke(app, ["ledger", "budget.db", *same]).exit_code == 0
    result = fit("--target", target, *same, "--ledger", "budget.db")
    assert result.exit_code == 0, result.output
    again = [
        "fit",
        "people.csv",
        "--schema",
        "schema.yaml",
        "--target",
        target,
        "--ledger",
        "budget.db",
        "-q",
        "--force",
    ]
    monkeypatch.setattr("sys.argv", ["discreet", *again, *same])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 3
    refusal = capsys.readouterr().err
    assert "Spent: ε = 1; remaining: ε = " in refusal
    (charge,) = json.loads(RUN.invoke(app, ["ledger", "budget.db", "--json"]).output)["default"]
    assert charge["stated"] == {"epsilon": pytest.approx(1.0), "delta": 1e-6}
    assert (charge["ran"] is not None) == ("add-remove" in options)
    assert re.search(r"1 +1e-06 +completed", RUN.invoke(app, ["ledger", "budget.db"]).output)


def test_an_unknown_ledger_says_how_to_begin_and_is_not_created(folder):
    assert "set a budget" in problem(RUN.invoke(app, ["ledger", "nowhere.db"]))
    assert not (folder / "nowhere.db").exists()


def test_a_ledger_without_a_budget_says_that_it_only_records(folder):
    result = fit("--target", "sick", "--epsilon", "1", "--ledger", "log.db")
    assert result.exit_code == 0, result.output
    assert "only records" in result.output


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
    private, free, guess = map(float, re.findall(r"([\d.]+)%", first.output[first.output.index("test accuracy") :]))
    assert free == pytest.approx(77.3, abs=0.3)  # scikit-learn's additive model has 77.0
    assert guess < private < free + 1
    assert "plan:" in first.output
    assert json.loads((folder / "certificate.json").read_text())["private"] is True
    second = RUN.invoke(app, ["demo", "--folder", str(folder)])
    assert second.exit_code == 3
    assert "refused" in second.output
    assert "rm -r" in second.output


def test_private_quantiles_of_a_column(folder):
    asked = ["quantile", "people.csv", "--schema", "schema.yaml", "--column", "age", "--epsilon", "2", "--seed", "1"]
    result = RUN.invoke(app, [*asked, "--q", "0.25", "--q", "0.75", "--ledger", "memory:"])
    assert result.exit_code == 0, result.output
    (head, *rows) = list(csv.reader(result.stdout.splitlines()))
    assert head == ["q", "value"]
    assert [float(row[0]) for row in rows] == [0.25, 0.75]
    assert [float(row[1]) for row in rows] == pytest.approx([36, 72], abs=6)
    assert RUN.invoke(app, asked).stdout.startswith("q,value\n0.5,")
    assert "not declared numeric" in problem(RUN.invoke(app, ["job" if word == "age" else word for word in asked]))
    assert "'wealth'" in problem(RUN.invoke(app, ["wealth" if word == "age" else word for word in asked]))


def test_fits_and_quantiles_answer_as_json(folder):
    result = RUN.invoke(
        app,
        ["fit", "people.csv", "--schema", "schema.yaml", "--target", "visits", "--epsilon", "2", "--force", "--json"],
    )
    assert json.loads(result.stdout) == json.loads((folder / "model.certificate.json").read_text())
    asked = ["quantile", "people.csv", "--schema", "schema.yaml", "--column", "age", "--epsilon", "2"]
    (found,) = json.loads(RUN.invoke(app, [*asked, "--json"]).stdout)
    assert found["q"] == 0.5
    assert 18 <= found["value"] <= 90


def test_bounds_are_narrowed_privately_charged_and_fitted_with(folder):
    (folder / "wide.yaml").write_text(SCHEMA.replace("[18, 90]", "[0, 100000]").replace("[0, 50]", "[0, 100000]"))
    asked = ["bounds", "people.csv", "--schema", "wide.yaml", "--epsilon", "1", "--ledger", "ledger.db"]
    for output, message in (("wide.yaml", "written over"), ("nowhere/schema.yaml", "no folder")):
        assert message in problem(RUN.invoke(app, [*asked, "-o", output]))
    assert "go together" in problem(RUN.invoke(app, [*asked, "--low", "0.1"]))
    result = RUN.invoke(app, [*asked, "-o", "narrow.yaml"])
    assert result.exit_code == 0, result.output
    found = dp.Schema.from_yaml(folder / "narrow.yaml")
    assert 70 < found["age"].high < 200
    assert found["sick"] == dp.Schema.from_yaml(folder / "wide.yaml")["sick"]
    assert [charge.note for charge in dp.Ledger("sqlite:///ledger.db").history()] == [
        "bounds of age",
        "bounds of visits",
    ]
    again = ["fit", "people.csv", "--schema", "narrow.yaml", "--target", "sick", "--epsilon", "1", "-q"]
    assert RUN.invoke(app, again).exit_code == 0
    shown = RUN.invoke(app, [*asked[:6], "--column", "age", "--seed", "0"])
    assert shown.exit_code == 0, shown.output
    assert dp.Schema.from_yaml(shown.stdout)["visits"].high == 100_000
    assert dp.Schema.from_yaml(shown.stdout)["age"].high < 1000


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
