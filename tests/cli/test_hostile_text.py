"""What comes from files and names is shown as text, obeyed by no terminal, and never ends in a traceback."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import discreet as dp
from discreet.cli import app, main
from discreet.errors import DiscreetError, InvalidInput
from discreet.events import PureDP

RUN = CliRunner()
NOTES = [
    "[/red]",
    "[bold]",
    "[link=x]y[/link]",
    ":smile:",
    "\x1b[2J\x1b[31mred",
    "\x9b31m",
    "a\rb",
    "a\nb",
    "\u202eabc",
]
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30)


def obeyed(output: str) -> list[str]:
    """The characters that a terminal would obey instead of showing."""
    return [c for c in output if not c.isprintable() and c != "\n"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "500")
    return tmp_path


def ledger_with(path: Path, note: str, dataset: str = "default") -> None:
    ledger = dp.Ledger(path, epsilon=1.0, delta=1e-6, adjacency="replace-one", dataset=dataset)
    ledger.charge(PureDP(0.1), "replace-one", note=note)


@pytest.mark.parametrize("note", NOTES)
def test_a_note_is_shown_as_it_was_written(folder: Path, note: str) -> None:
    ledger_with(folder / "budget.db", note)
    shown = RUN.invoke(app, ["ledger", "budget.db"])
    assert shown.exit_code == 0, shown.exception
    assert obeyed(shown.output) == []
    if note.isprintable():
        assert note in shown.output
    facts = RUN.invoke(app, ["ledger", "budget.db", "--json"])
    assert json.loads(facts.output)["default"][0]["note"] == note
    assert obeyed(facts.output) == []


@given(note=ANY_TEXT, dataset=ANY_TEXT)
@example(note="[/red]", dataset="[/]\x1b[0m")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_note_and_any_dataset(tmp_path_factory: pytest.TempPathFactory, note: str, dataset: str) -> None:
    path = tmp_path_factory.mktemp("ledgers") / "budget.db"
    try:
        ledger_with(path, note, dataset)
    except InvalidInput:  # a name of blanks alone
        return
    shown = RUN.invoke(app, ["ledger", str(path)])
    assert shown.exit_code == 0, shown.exception
    assert obeyed(shown.output) == []


def command(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setattr(sys, "argv", ["discreet", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code, capsys.readouterr()


@pytest.mark.parametrize("name", ["\x1b[31m", "\x9b2J", "\u202e", "[/red]"])
def test_a_refusal_shows_names_as_text(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (folder / "t.csv").write_text(f"age,b{name}\n1,2\n")
    (folder / "schema.yaml").write_text(dp.Schema({f"c{name}": dp.Boolean()}).to_yaml())
    for arguments in (
        ["schema", "t.csv", "--check", "schema.yaml"],
        ["fit", "t.csv", "--epsilon", "1", "--target", name],
        ["fit", "t.csv", "--epsilon", "1", "--target", name, "--schema", "schema.yaml"],
        ["quantile", "t.csv", "--epsilon", "1", "--column", name, "--schema", "schema.yaml"],
        ["predict", f"{name}.npz", "t.csv"],
        ["ledger", f"{name}.db"],
        ["ledger", "new.db", "--dataset", name],
        ["account", "--adjacency", "replace-one", "--delta", "1e-6", "--event", name],
        ["fit", "t.csv", "--epsilon", name, "--target", "age"],
        [name],
    ):
        code, said = command(arguments, monkeypatch, capsys)
        assert code == 2, arguments
        assert said.err.startswith(("discreet:", "error:")), said.err
        assert obeyed(said.out + said.err) == [], arguments


def test_a_template_for_odd_names_can_be_read_and_is_not_obeyed(folder: Path) -> None:
    (folder / "t.csv").write_text("age,\x1b[31mb,[/red]\n1,2,3\n")
    shown = RUN.invoke(app, ["schema", "t.csv"])
    assert obeyed(shown.output) == []
    declared = dp.Schema.from_yaml(shown.output.replace("[LOW, HIGH]", "[0, 1]"))
    assert list(declared) == ["age", "\x1b[31mb", "[/red]"]


def odd_model(folder: Path) -> None:
    labels = ["\x1b[31mno", "[/red]"]
    schema = dp.Schema({"x": dp.Numeric(0, 1), "y": dp.Categorical(labels)})
    (folder / "schema.yaml").write_text(schema.to_yaml())
    with (folder / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["x", "y"], *([j / 100, labels[j > 50]] for j in range(100))])
    asked = ["fit", "t.csv", "--schema", "schema.yaml", "--target", "y", "--epsilon", "5", "-q"]
    shown = RUN.invoke(app, [*asked, "-o", "[red].npz"])
    assert shown.exit_code == 0, shown.exception
    assert "[red].npz" in shown.output
    (folder / "[red].npz").rename(folder / "m.npz")


def test_labels_of_a_model_are_shown_as_text_and_written_as_they_are(folder: Path) -> None:
    odd_model(folder)
    for extra in ([], ["--probabilities"]):
        shown = RUN.invoke(app, ["predict", "m.npz", "t.csv", *extra])
        assert shown.exit_code == 0, shown.exception
        assert obeyed(shown.output.replace("\r\n", "\n")) == []
    assert RUN.invoke(app, ["predict", "m.npz", "t.csv", "-o", "out.csv"]).exit_code == 0
    rows = list(csv.reader(io.StringIO((folder / "out.csv").read_text(), newline="")))
    assert {row[0] for row in rows[1:]} <= {"\x1b[31mno", "[/red]"}


LINKS: dict[str, Callable[[Path, Path], object]] = {
    "symbolic": lambda file, name: name.symlink_to(file.absolute()),
    "hard": os.link,
}


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("file", ["m.npz", "t.csv"])
def test_predictions_are_not_written_over_what_they_are_made_from(folder: Path, file: str, link: str) -> None:
    odd_model(folder)
    before = {name: (folder / name).read_bytes() for name in ("m.npz", "t.csv")}
    LINKS[link](folder / file, folder / "linked")
    for output in (file, f"./{file}", "linked"):
        shown = RUN.invoke(app, ["predict", "m.npz", "t.csv", "-o", output])
        assert isinstance(shown.exception, InvalidInput)
        assert "written over" in str(shown.exception)
    assert {name: (folder / name).read_bytes() for name in before} == before


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("file", ["schema.yaml", "t.csv"])
def test_models_and_schemas_are_not_written_over_what_they_are_made_from(folder: Path, file: str, link: str) -> None:
    odd_model(folder)
    LINKS[link](folder / file, folder / "linked")
    before = (folder / file).read_bytes()
    asked = ["t.csv", "--schema", "schema.yaml", "--epsilon", "1"]
    for words in (
        ["fit", *asked, "--target", "y", "-q", "-o", "linked"],
        ["fit", *asked, "--target", "y", "-q", "--certificate", "linked"],
        ["bounds", *asked, "-o", "linked"],
    ):
        shown = RUN.invoke(app, words)
        assert "written over" in str(shown.exception)
    assert (folder / file).read_bytes() == before


@pytest.mark.parametrize("path", ["a\0b", "\ud800"])
def test_paths_and_names_that_no_system_knows_are_declared_errors(folder: Path, path: str) -> None:
    (folder / "t.csv").write_text("x,y\n0,1\n1,0\n")
    (folder / "schema.yaml").write_text("x: {numeric: [0, 1]}\ny: boolean\n")
    fit = ["fit", "t.csv", "--schema", "schema.yaml", "--target", "y", "--epsilon", "1"]
    for words in (
        ["predict", path, "t.csv"],
        ["predict", "t.csv", "t.csv", "-o", path],
        ["fit", path, "--target", "y", "--epsilon", "1"],
        ["fit", "t.csv", "--schema", path, "--target", "y", "--epsilon", "1"],
        [*fit, "-o", path],
        [*fit, "--ledger", path],
        [*fit, "--ledger", f"sqlite:///{path}"],
        ["ledger", path],
        ["ledger", "new.db", "--dataset", path, "--epsilon", "1", "--delta", "0", "--adjacency", "replace-one"],
        ["schema", "t.csv", "--check", path],
    ):
        shown = RUN.invoke(app, words)
        assert isinstance(shown.exception, DiscreetError | SystemExit), (words, shown.exception)
        assert shown.exit_code != 0
    shown = RUN.invoke(app, ["account", "--adjacency", "replace-one", "--delta", "1e-6", "--event", path])
    assert shown.exit_code == 2
    assert isinstance(shown.exception, SystemExit), shown.exception


@pytest.mark.parametrize("text", ["[" * 100_000, '{"kind": "BandedMatrix", "steps": 1e13}', "{", "\\", '{"kind": []}'])
def test_hostile_events_on_standard_input(text: str) -> None:
    asked = ["account", "--adjacency", "replace-one", "--delta", "1e-6", "--event", "-"]
    shown = RUN.invoke(app, asked, input=text)
    assert shown.exit_code == 2
    assert isinstance(shown.exception, SystemExit), shown.exception
    assert "error:" in shown.stderr


@pytest.mark.parametrize(
    "value", ["[" * 100_000, "NaN", "1" * 5000, '{"a": 1, "a": 2}'], ids=["deep", "nan", "long", "twice"]
)
def test_hostile_values_of_options(folder: Path, value: str) -> None:
    odd_model(folder)
    asked = ["fit", "t.csv", "--schema", "schema.yaml", "--target", "y", "--epsilon", "1", "--param", f"alpha={value}"]
    shown = RUN.invoke(app, asked)
    assert isinstance(shown.exception, DiscreetError), shown.exception


def test_a_plot_is_not_written_over_its_event(folder: Path) -> None:
    (folder / "event.json").write_text(PureDP(1.0).to_json())
    asked = ["account", "--adjacency", "replace-one", "--delta", "0", "--event", "event.json", "--plot", "event.json"]
    assert RUN.invoke(app, asked).exit_code == 2
    assert (folder / "event.json").read_text() == PureDP(1.0).to_json()
