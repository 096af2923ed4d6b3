"""``discreet plan``: what it shows, and that every word of it counts or is refused."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import discreet as dp
from discreet.cli import app, main
from discreet.estimators.planned import planned

RUN = CliRunner()
SIZE = ["--n", "30000", "--d", "50", "--epsilon", "1"]


def plan(*options):
    result = RUN.invoke(app, ["plan", *SIZE, *options])
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())  # whatever the width of the terminal


def facts(*options):
    """The last of two equal options counts. What is not a number in JSON is refused."""
    return json.loads(plan(*options, "--json"), parse_constant=pytest.fail)


def chosen(*options):
    (option,) = [option for option in facts(*options)["options"] if option["chosen"]]
    return option


def test_a_plan_needs_no_data_and_marks_its_choice():
    found = facts()
    (option,) = [option for option in found["options"] if option["chosen"]]
    assert option == found["options"][0]
    assert option["solver"] == "weighted_perturbation"
    (one,) = [option for option in found["options"] if option["solver"] == "output_perturbation"]
    assert 0 < one["predicted_excess_risk"] < 1
    assert found["delta"] == 1 / 30_000**2
    assert {option["solver"] for option in found["options"]} == set(dp.recipes.RECIPES) - {"intervals"}


def test_a_plan_in_words_says_why_something_is_chosen_does_not_apply_or_is_not_predicted():
    words = plan("--verbose")
    assert f", noise_multiplier = {chosen()['noise_multiplier']:.4g}, " in words
    assert "its settings: scales = diagonal, moment_multiplier = " in words
    assert "auto takes weighted_perturbation: columns nearer to one scale" in words
    assert "frank_wolfe does not apply: WholeSpace" in words
    assert "no bound for scaled_descent (diagonal): its steps depend on columns' second moments" in words
    assert "no bound for scaled_descent (full): the theorem needs gradients that are not cut" in words
    assert "no bound for objective_perturbation" not in words  # its slopes are not cut under so little noise
    assert "ε = 1" in words
    assert "replace-one" in words
    assert "does not apply" not in plan()
    assert "no bound for" not in plan()


@pytest.mark.parametrize(
    "options", [[], ["--model", "linear"], ["--model", "sparse"], ["--model", "lasso"], ["--epsilon", "inf"]], ids=str
)
def test_every_solver_has_a_number_or_a_phrase(options):
    for option in facts(*options)["options"]:
        assert option["applies"] == (option["releases"] > 0)
        if not option["applies"]:
            assert option["reason"]
            assert option["predicted_excess_risk"] is None
        else:
            assert bool(option["unpredicted"]) == (option["predicted_excess_risk"] is None)
        assert "\n" not in option["reason"] + option["unpredicted"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--loss", "squared"], "full"),
        (["--loss", "squared", "--sparsity", "5"], "full"),
        (["--loss", "logistic", "--sparsity", "5"], "hard_threshold"),
        (["--l1-radius", "5", "--d", "5001"], "frank_wolfe"),
        (["--model", "lasso"], "full"),
        (["--model", "lasso", "--d", "2000"], "frank_wolfe"),
        (["--model", "linear", "--d", "2000"], "single"),
        (["--model", "linear", "--d", "2000", "--param", "fit_intercept=false"], "descent"),
        (["--model", "sparse", "--d", "2000"], "hard_threshold"),
        (["--classes", "4"], "diagonal"),
        (["--delta", "0"], "objective_perturbation"),
        (["--d", "5000", "--sparse-rows"], "weighted_perturbation"),
        (["--epsilon", "inf"], "objective_perturbation"),
        (["--domain", "simplex:1", "--d", "10000000"], "frank_wolfe"),
    ],
    ids=str,
)
def test_the_choice_follows_the_problem(options, expected):
    found = chosen(*options)
    assert (found["scales"] or found["solver"]) == expected
    assert bool(found["scales"]) == (found["solver"] == "scaled_descent")


@pytest.mark.parametrize(
    "options",
    [
        ["--n", "40000"],
        ["--d", "60"],
        ["--epsilon", "2"],
        ["--delta", "1e-5"],
        ["--adjacency", "add-remove"],
        ["--rows-per-unit", "2"],
        ["--model", "svc"],
        ["--param", "alpha=0.01"],
        ["--param", "fit_intercept=false"],
        ["--classes", "3"],
        ["--row-norm", "2"],
        ["--l1-radius", "3"],
        ["--sparsity", "3"],
        ["--domain", "l2:3"],
        ["--d", "2000", "--sparse-rows"],
    ],
    ids=str,
)
def test_every_option_has_an_effect(options):
    before = ["--d", "2000"] if "--sparse-rows" in options else []
    assert facts(*options)["options"] != facts(*before)["options"]


@pytest.mark.parametrize(
    ("model", "parameter"),
    [
        ("svc", "smoothing=0.5"),
        ("huber", "width=0.5"),
        ("quantile", "smoothing=0.2"),
        ("lasso", "radius=2"),
        ("lasso", "feature_bound=0.1"),
        ("sparse", "sparsity=3"),
    ],
)
def test_every_parameter_of_a_model_has_an_effect(model, parameter):
    d = ["--d", "1200"] if model == "sparse" else []
    assert facts("--model", model, *d, "--param", parameter)["options"] != facts("--model", model, *d)["options"]


def test_a_private_number_of_rows_is_paid_for():
    private = ["--adjacency", "add-remove", "--delta", "1e-9"]
    counted, public = chosen(*private, "--count-rows"), chosen(*private)
    assert counted["noise_multiplier"] > public["noise_multiplier"]
    assert "of which 0.02 counts the rows" in plan(*private, "--count-rows")
    model = dp.LogisticRegression(1.0, 1e-9, adjacency="add-remove", row_norm=1.0, classes=[0, 1])
    assert counted["noise_multiplier"] == planned(model, 30_000, 50).solver.noise_multiplier


def test_a_set_may_be_given_in_two_ways():
    assert facts("--l1-radius", "3")["options"] == facts("--domain", "l1:3")["options"]
    assert facts("--sparsity", "3")["options"] == facts("--domain", "sparse:3")["options"]
    lasso = ["--model", "lasso"]
    assert facts(*lasso, "--l1-radius", "3")["options"] == facts(*lasso, "--param", "radius=3")["options"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "magic"], "unknown model 'magic'"),
        (["--n", "0"], "n must be between 1 and"),
        (["--n", "many"], "'--n'"),
        (["--d", "0"], "d must be between 1 and"),
        (["--d", "2000000000"], "d must be between 1 and"),
        (["--epsilon", "0"], "epsilon must be positive"),
        (["--epsilon", "nan"], "epsilon must be positive"),
        (["--epsilon", "1e9"], "epsilon must be between"),
        (["--delta", "1"], "delta must be in [0, 1)"),
        (["--delta", "1e-6", "--epsilon", "inf"], "--delta 1e-06 has no meaning without privacy"),
        (["--adjacency", "friends"], "adjacency must be"),
        (["--rows-per-unit", "0"], "rows_per_unit must be at least 1"),
        (["--row-norm", "0"], "row_norm must be a positive number"),
        (["--row-norm", "inf"], "finite row_norm"),
        (["--classes", "1"], "--classes must be between 2"),
        (["--classes", "2", "--model", "linear"], "--classes 2 goes with"),
        (["--classes", "3", "--model", "svc"], "LinearSVC takes two classes"),
        (["--l1-radius", "1", "--sparsity", "2"], "give one of"),
        (["--l1-radius", "-1"], "radius must be"),
        (["--sparsity", "0"], "s must be a positive integer"),
        (["--domain", "l7:1"], "a set is l1:RADIUS"),
        (["--domain", "group:1:0,0,1"], "set lives in dimension 3"),
        (["--domain", "l1:1", "--model", "lasso"], "Lasso's set is the ℓ1 ball"),
        (["--sparsity", "3", "--model", "lasso"], "Lasso's set is the ℓ1 ball"),
        (["--l1-radius", "3", "--model", "sparse"], "that of sparse vectors"),
        (["--param", "radius=1"], "has no --param 'radius'"),
        (["--param", "target_bounds=[0, 1]", "--model", "linear"], "has no --param 'target_bounds'"),
        (["--param", "alpha=-1"], "alpha must be"),
        (["--param", "alpha"], "NAME=VALUE"),
        (["--count-rows"], "--count-rows is for"),
        (["--count-rows", "--adjacency", "add-remove"], "give --delta"),
        (["--seed", "3"], "--seed"),
        (["--target", "sick"], "--target and --plot go with --schema"),
        (["--plot", "plan.png"], "--target and --plot go with --schema"),
    ],
    ids=str,
)
def test_nonsense_is_refused_in_one_line(options, message, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["discreet", "plan", *SIZE, *options])
    with pytest.raises(SystemExit) as stop:
        main()
    shown = capsys.readouterr()
    assert stop.value.code == 2
    assert message in shown.err
    assert shown.err.count("\n") == 1
    assert not shown.out


def test_a_missing_option_is_named(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["discreet", "plan", *SIZE[:4]])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert "give --epsilon, or --schema" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["discreet", "plan", "--d", "5"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err == "discreet: Missing option '--n'.\n"


def test_the_program_ends_well_and_helps_without_words(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["discreet", "plan", *SIZE, "--json"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 0
    assert json.loads(capsys.readouterr().out)["model"] == "logistic"
    monkeypatch.setattr("sys.argv", ["discreet"])
    with pytest.raises(SystemExit) as stop:
        main()
    shown = capsys.readouterr()
    assert stop.value.code == 2
    assert "Usage" in shown.out + shown.err


def test_a_choice_that_is_refused_is_said_to_be():
    """Pure DP for a loss with a kink in a polytope: Frank–Wolfe's theory chooses nothing."""
    options = ["--delta", "0", "--model", "quantile", "--param", "smoothing=0", "--l1-radius", "2", "--d", "3"]
    found = facts(*options)["options"]
    assert not any(option["chosen"] for option in found)
    assert [option["solver"] for option in found if option["applies"]] == ["exponential_mechanism", "sparse_descent"]
    assert "auto takes frank_wolfe and is refused" in plan(*options)


def test_a_plan_for_intervals_says_how_many_rows_they_need_before_anything_is_spent():
    few = plan("--model", "linear", "--inference", "--n", "3000")
    assert "WARNING: intervals will hardly be estimable at this ε: needs about n ≥" in few
    assert "auto takes intervals" in few
    assert "intervals can be expected" in plan("--model", "linear", "--inference", "--n", "10000000")
    assert facts("--model", "linear", "--inference")["rows_needed"] > 30_000
    assert RUN.invoke(app, ["plan", *SIZE, "--model", "svc", "--inference"]).exit_code != 0
