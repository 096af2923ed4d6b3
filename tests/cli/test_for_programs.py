"""What scripts rely on: ``--json`` of every command, completion, and whose part of which budget a command charges."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

import discreet as dp
from discreet.cli import app
from discreet.cli.common import shown_place
from discreet.errors import BudgetExceeded, InvalidInput, LedgerUnavailable

RUN = CliRunner()
SCHEMA = "age: {numeric: [0, 120]}\ndose: {numeric: [0, 10]}\nsick: {boolean: [no, yes]}\n"


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


EVERY = dict(commands(get_command(app)))


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_every_command_has_json(path: tuple[str, ...]) -> None:
    options = {word for param in EVERY[path].params for word in (*param.opts, *param.secondary_opts)}
    assert "--json" in options


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table, its schema and a ledger, of whose budget Ann has a part."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{20 + k % 60},{k % 7},{'yes' if k % 60 > 30 else 'no'}\n" for k in range(400))
    (tmp_path / "people.csv").write_text(f"age,dose,sick\n{rows}")
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    owner = dp.Ledger("budget.db", epsilon=5.0, delta=1e-4, adjacency="replace-one")
    owner.allocate("ann", epsilon=1.2, delta=1e-5)
    return tmp_path


def run(*words: str) -> Result:
    return RUN.invoke(app, list(words))


def answer(*words: str) -> Any:
    result = run(*words)
    assert result.exit_code == 0, result.exception
    return json.loads(result.stdout)


FIT = ("fit", "people.csv", "--schema", "schema.yaml", "--target", "sick", "--epsilon", "1", "--delta", "1e-6")
FIT += ("--option", "iterations=3", "--solver", "descent", "--force")


def test_answers_are_one_json_value(people: Path) -> None:
    certificate = answer(*FIT, "--ledger", "budget.db", "--json")
    assert certificate["record"]["target"] == "sick"
    predictions = answer("predict", "model.npz", "people.csv", "--json")
    assert len(predictions) == 400
    assert set(predictions[0]) == {"prediction"}
    shares = answer("predict", "model.npz", "people.csv", "--probabilities", "--json")
    assert sum(shares[0].values()) == pytest.approx(1.0)
    assert answer("schema", "people.csv", "--json") == {"columns": ["age", "dose", "sick"]}
    checked = answer("schema", "people.csv", "--check", "schema.yaml", "--json")
    assert checked == {"columns": ["age", "dose", "sick"], "unprotected": []}
    bounds = ("bounds", "people.csv", "--schema", "schema.yaml", "--epsilon", "2", "--low", "0.1", "--high", "0.9")
    narrow = answer(*bounds, "--json")
    assert narrow["age"]["bounds_epsilon"] == 1
    dp.Schema.from_dict(narrow)
    book = answer("ledger", "export", "budget.db", "--json")
    kept = answer("ledger", "export", "budget.db", "--output", "book.jsonl", "--json")
    assert kept["lines"] == len(book) - 1
    assert kept["head"] == str(dp.Ledger("budget.db").head)
    key = answer("report", "--new-key", "key.pem", "--json")["public_key"]
    assert answer("report", "model.certificate.json", "--json")["membership_advantage"] < 1
    both = answer("report", "model.certificate.json", "--new-key", "other.pem", "--json")
    assert {"public_key", "in_words"} <= set(both)
    assert both["public_key"] != key


def test_a_part_is_charged_and_overdrawn(people: Path) -> None:
    answer(*FIT, "--ledger", "budget.db", "--analyst", "ann", "--json")
    assert [charge.analyst for charge in dp.Ledger("budget.db").history()] == ["ann"]
    refusal = run(*FIT, "--ledger", "budget.db", "--analyst", "ann")
    assert isinstance(refusal.exception, BudgetExceeded)
    assert "part of 'ann'" in str(refusal.exception)
    stranger = run(*FIT, "--ledger", "budget.db", "--analyst", "bob")
    assert isinstance(stranger.exception, InvalidInput)
    assert run(*FIT, "--ledger", "budget.db", "--quiet").exit_code == 0  # the rest of the budget is there


def test_a_restored_ledger_is_refused_by_its_witness(people: Path) -> None:
    before = (people / "budget.db").read_bytes()
    witness = {"DISCREET_WITNESS": str(people / "head")}
    assert RUN.invoke(app, [*FIT, "--ledger", "budget.db", "--quiet"], env=witness).exit_code == 0
    (people / "budget.db").write_bytes(before)
    again = RUN.invoke(app, [*FIT, "--ledger", "budget.db", "--quiet"], env=witness)
    assert isinstance(again.exception, LedgerUnavailable)
    over = run(*FIT, "--ledger", "budget.db", "--witness", "people.csv")
    assert isinstance(over.exception, LedgerUnavailable)  # not a witness; nothing was written over, nor repeated
    assert "age" not in str(over.exception)
    assert (people / "people.csv").read_text().startswith("age,dose,sick\n")


def test_no_message_repeats_a_password(people: Path) -> None:
    nowhere = "postgresql://ann:topsecret@/privacy?host=/nonexistent"
    for words in (["ledger", "show", nowhere], ["verify", "c.json", "--ledger", nowhere], [*FIT, "--ledger", nowhere]):
        result = run(*words)
        assert result.exit_code != 0
        assert "topsecret" not in f"{result.output}{result.exception}"
    assert shown_place(nowhere) == "postgresql://ann:***@/privacy?host=/nonexistent"


@pytest.mark.parametrize(("line", "expected"), [("ledger fr", "freeze"), ("fit --eps", "--epsilon")])
def test_the_shell_completes_commands_and_options(line: str, expected: str) -> None:
    words = f"discreet {line}"
    asked = {"_DISCREET_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    code = "import sys; sys.argv = ['discreet']; from discreet.cli import main; main()"
    found = subprocess.run([sys.executable, "-c", code], env=os.environ | asked, capture_output=True, text=True)
    assert expected in found.stdout.split()
