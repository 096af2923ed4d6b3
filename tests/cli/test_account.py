"""``discreet account`` and ``discreet calibrate`` from the shell's side."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from discreet.accounting import LastIterate
from discreet.cli.account import register
from discreet.events import Allocation, Compose, Gaussian, NonPrivate, PureDP, Repeat, Selection

app = typer.Typer()
register(app)


def run(*arguments, stdin=None):
    return CliRunner().invoke(app, list(arguments), input=stdin)


def run_json(*arguments, stdin=None):
    result = run(*arguments, "--json", stdin=stdin)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


MNIST = ("--noise-multiplier", "1.1", "--rate", "0.004266666666666667", "--steps", "14062", "--delta", "1e-5")


@pytest.mark.parametrize(("adjacency", "epsilon"), [("add-remove", 2.3815969), ("replace-one", 4.221297)])
def test_account_of_sampled_steps(adjacency, epsilon):
    answer = run_json("account", *MNIST, "--adjacency", adjacency, "--attack")
    assert answer["epsilon"]["lower"] <= epsilon + 1e-6
    assert answer["epsilon"]["upper"] == pytest.approx(epsilon, rel=1e-6)
    assert answer["adjacency"] == adjacency
    assert [row["false_positive_rate"] for row in answer["attack"]] == [0.001, 0.01, 0.1]
    assert 0.001 < answer["attack"][0]["most_true_positives"] < 0.2


def test_account_prints_the_relation():
    result = run("account", *MNIST, "--adjacency", "add-remove", "--rows-per-unit", "2", "--attack")
    assert result.exit_code == 0
    assert "add-remove, 2 rows a unit" in result.stdout
    assert "true positives" in result.stdout


def test_epochs_of_batches():
    flags = ("--batches", "20", "--epochs", "2", "--delta", "1e-5", "--adjacency", "add-remove")
    answer = run_json("account", "--noise-multiplier", "2", *flags)
    assert answer["event"] == Repeat(Allocation(20, Gaussian(2.0)), 2).to_dict()
    steps = ("--rate", "0.05", "--steps", "40", "--delta", "1e-5", "--adjacency", "add-remove")
    assert answer["epsilon"]["upper"] < run_json("account", "--noise-multiplier", "2", *steps)["epsilon"]["lower"]
    target = str(answer["epsilon"]["upper"])
    assert run_json("calibrate", "--epsilon", target, *flags)["noise_multiplier"] == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize("method", ["renyi", "auto"])
def test_methods(method):
    answer = run_json("account", *MNIST, "--adjacency", "add-remove", "--method", method)
    assert answer["method"] == method
    assert 2.38 < answer["epsilon"]["upper"] < 2.6


def test_events_from_a_file_and_from_standard_input(tmp_path):
    event = Compose([Repeat(Gaussian(20.0), 10), Selection(0.1), LastIterate(30.0, 100, 0.9)])
    path = tmp_path / "event.json"
    path.write_text(event.to_json())
    from_file = run_json("account", "--event", str(path), "--delta", "1e-6", "--adjacency", "replace-one")
    piped = run_json("account", "--event", "-", "--delta", "1e-6", "--adjacency", "replace-one", stdin=event.to_json())
    assert from_file == piped
    assert from_file["event"]["kind"] == "Compose"


def test_infinity_is_written_as_a_word():
    answer = run_json(
        "account", "--event", "-", "--delta", "1e-6", "--adjacency", "add-remove", stdin=NonPrivate().to_json()
    )
    assert answer["epsilon"]["upper"] == "inf"
    pure = run_json("account", "--event", "-", "--delta", "0", "--adjacency", "add-remove", stdin=PureDP(0.5).to_json())
    assert pure["epsilon"]["upper"] == pytest.approx(0.5)


def test_plot_and_textbook(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "curve.png"
    flags = ("--noise-multiplier", "30", "--steps", "100", "--delta", "1e-5", "--adjacency", "replace-one")
    answer = run_json("account", *flags, "--plot", str(path), "--textbook")
    assert path.stat().st_size > 10_000
    book = {(row["name"], row["adjacency"]): row for row in answer["textbook"]}
    assert not book["noisy gradient descent, rank bound", "replace-one"]["holds"]
    assert book["noisy gradient descent, union bound", "replace-one"]["noise_over_needed"] > 10
    shown = run("account", *flags, "--textbook")
    assert shown.exit_code == 0
    assert "Textbooks" in shown.stdout


def test_calibrate_never_overshoots():
    answer = run_json(
        "calibrate",
        "--epsilon",
        "1",
        "--delta",
        "1e-5",
        "--rate",
        "0.01",
        "--steps",
        "10000",
        "--adjacency",
        "add-remove",
    )
    assert answer["noise_multiplier"] == pytest.approx(3.812817, rel=1e-5)
    assert 0.9999 < answer["epsilon"]["upper"] <= 1.0
    shown = run("calibrate", "--epsilon", "1", "--delta", "1e-5", "--adjacency", "replace-one")
    assert shown.exit_code == 0
    assert "replace-one" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("account", "--noise-multiplier", "1", "--delta", "1e-5"), "adjacency"),
        (("calibrate", "--epsilon", "1", "--delta", "1e-5"), "adjacency"),
        (("account", *MNIST, "--adjacency", "bounded"), "replace-one"),
        (("account", "--delta", "1e-5", "--adjacency", "add-remove"), "say what was released"),
        (("account", "--noise-multiplier", "-1", "--delta", "1e-5", "--adjacency", "add-remove"), "positive"),
        (("account", "--noise-multiplier", "1", "--rate", "2", "--delta", "1e-5", "--adjacency", "add-remove"), "rate"),
        (
            ("account", "--noise-multiplier", "1", "--steps", "0", "--delta", "1e-5", "--adjacency", "add-remove"),
            "steps",
        ),
        (("account", *MNIST, "--batches", "9", "--adjacency", "add-remove"), "--rate"),
        (
            ("account", "--noise-multiplier", "1", "--epochs", "9", "--delta", "1e-5", "--adjacency", "add-remove"),
            "--batches",
        ),
        (("account", "--event", "-", "--batches", "9", "--delta", "1e-5", "--adjacency", "add-remove"), "--batches"),
        (("account", "--noise-multiplier", "nan", "--delta", "1e-5", "--adjacency", "add-remove"), "noise_multiplier"),
        (("account", "--noise-multiplier", "1", "--delta", "2", "--adjacency", "add-remove"), "delta"),
        (("account", *MNIST, "--adjacency", "add-remove", "--method", "guess"), "guess"),
        (("account", *MNIST, "--adjacency", "add-remove", "--method", "zcdp"), "zCDP"),
        (("account", "--event", "/nowhere.json", "--delta", "1e-5", "--adjacency", "add-remove"), "nowhere"),
        (("account", "--event", "-", "--steps", "9", "--delta", "1e-5", "--adjacency", "add-remove"), "--steps"),
        (("calibrate", "--epsilon", "-1", "--delta", "1e-5", "--adjacency", "add-remove"), "epsilon"),
        (("calibrate", "--epsilon", "1", "--delta", "0", "--adjacency", "add-remove"), "pure DP"),
        (("calibrate", "--epsilon", "1", "--delta", "1e-5", "--rate", "3", "--adjacency", "add-remove"), "rate"),
    ],
)
def test_mistakes_exit_with_two_and_say_why(arguments, words):
    result = run(*arguments)
    assert result.exit_code == 2
    assert words in result.output


@pytest.mark.parametrize("text", ["not json", '{"kind": "Teapot"}', "[1, 2]"])
def test_bad_events_are_refused(text):
    result = run("account", "--event", "-", "--delta", "1e-5", "--adjacency", "add-remove", stdin=text)
    assert result.exit_code == 2
    assert "event" in result.output


@pytest.mark.parametrize("name", ["picture.c", "picture"])
def test_a_picture_that_nobody_writes_is_refused(tmp_path, name):
    """It was an error of matplotlib, or a file of another name."""
    asked = ["account", "--noise-multiplier", "2", "--adjacency", "replace-one", "--delta", "1e-6", "--plot"]
    result = run(*asked, str(tmp_path / name))
    assert result.exit_code == 2
    assert "must end in one of" in " ".join(result.output.replace("│", " ").split())
    assert list(tmp_path.iterdir()) == []
