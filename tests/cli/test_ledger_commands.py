"""``discreet ledger``: every command on a real file, and its short form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from discreet.cli import app
from discreet.events import PureDP
from discreet.ledger import Ledger

RUN = CliRunner()
BUDGET = ["--epsilon", "1", "--delta", "1e-6", "--adjacency", "replace-one"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(*words: str) -> str:
    result = RUN.invoke(app, ["ledger", *words])
    assert result.exit_code == 0, result.exception
    return result.output


def refused(*words: str) -> str:
    result = RUN.invoke(app, ["ledger", *words])
    assert result.exit_code != 0
    return str(result.exception)


def test_a_year_of_a_team(folder: Path) -> None:
    assert "of ε = 1" in said("create", "budget.db", *BUDGET)
    said("allocate", "budget.db", "ann", "--epsilon", "0.5", "--delta", "5e-7")
    said("create", "budget.db", "--dataset", "women", "--derived-from", "default")
    Ledger("budget.db", dataset="women", analyst="ann").charge(PureDP(0.25), "replace-one", note="model")
    shown = said("show", "budget.db")
    assert "ann: spent ε = 0.25 of ε = 0.5" in shown
    assert "model (ann, women)" in shown
    facts = json.loads(said("show", "budget.db", "--json"))
    assert facts["default"]["spent"] == facts["women"]["spent"] == pytest.approx(0.25, abs=1e-5)
    assert facts["default"]["allocations"]["ann"] == {"epsilon": 0.5, "delta": 5e-7}
    (charge,) = json.loads(said("history", "budget.db", "--json"))
    assert (charge["analyst"], charge["dataset"], charge["note"]) == ("ann", "women", "model")
    said("freeze", "budget.db", "--note", "audit")
    assert "frozen audit" in said("show", "budget.db")
    assert "has no part" in refused_charge(Ledger("budget.db", analyst="bob"), thawed=True)
    assert "frozen" in refused_charge(Ledger("budget.db", dataset="women"))
    said("thaw", "budget.db")
    Ledger("budget.db").charge(PureDP(0.25), "replace-one")


def refused_charge(ledger: Ledger, thawed: bool = False) -> str:
    if thawed:
        ledger.thaw()
    with pytest.raises(Exception, match="Nothing was charged") as problem:
        ledger.charge(PureDP(0.01), "replace-one")
    if thawed:
        ledger.freeze("audit")
    return str(problem.value)


def test_a_book_moves_to_another_file_with_every_line(folder: Path) -> None:
    said("create", "budget.db", *BUDGET)
    Ledger("budget.db").charge(PureDP(0.25), "replace-one")
    said("export", "budget.db", "--output", "book.jsonl")
    said("import", "other.db", "book.jsonl")
    head = json.loads(said("verify", "budget.db", "--json"))["head"]
    assert head in said("verify", "other.db", "--head", head)
    assert Ledger("other.db").history() == Ledger("budget.db").history()
    assert "already" in refused("import", "other.db", "book.jsonl")
    changed = (folder / "book.jsonl").read_text().replace("0.25", "0.125")
    (folder / "changed.jsonl").write_text(changed)
    assert "not a book as it was exported" in refused("import", "third.db", "changed.jsonl")
    assert not (folder / "third.db").exists()
    for wrong in ("", "{}", '{"discreet ledger": 3}\n[1, 2]', '{"discreet ledger": 3}\n[1,2,3,4,5,6,7,8]', "\0"):
        (folder / "wrong.jsonl").write_text(wrong)
        assert "exported" in refused("import", "third.db", "wrong.jsonl")
    Ledger("budget.db").charge(PureDP(0.25), "replace-one")
    newer = json.loads(said("verify", "budget.db", "--json"))["head"]
    assert "does not contain" in refused("verify", "other.db", "--head", newer)


def test_the_short_form(folder: Path) -> None:
    said("budget.db", *BUDGET)
    assert "spent ε = 0" in said("budget.db")
    assert "cannot be changed" in refused("create", "budget.db", "--epsilon", "2", *BUDGET[2:])
    assert "together" in refused("create", "new.db")
    assert "has no dataset" in refused("freeze", "nowhere.db")
    assert not (folder / "nowhere.db").exists()


@pytest.mark.parametrize("option", [["--dataset", "people"], ["--analyst", "anna"], ["--witness", "seen.json"]])
def test_options_of_a_ledger_need_one(option: list[str]) -> None:
    """They were ignored, and a fit that was meant to be charged was not."""
    from pathlib import Path

    from discreet.cli.common import ledger_for
    from discreet.errors import InvalidInput

    names = {"--dataset": "dataset", "--analyst": "analyst", "--witness": "witness"}
    value = Path(option[1]) if option[0] == "--witness" else option[1]
    with pytest.raises(InvalidInput, match=f"{option[0]} is about the budget in a ledger"):
        ledger_for(None, **{"dataset": "default", names[option[0]]: value})


def test_a_budget_in_memory_would_be_gone(folder: Path) -> None:
    """`create` said that it was done."""
    for words in (["create", "memory:", *BUDGET], ["show", "memory:"]):
        assert "gone when the command ends" in refused(*words)


@pytest.mark.parametrize("head", ["²:ab", "99999999999999999999:ab", "x", ""])
def test_a_head_that_is_none_is_said_so(folder: Path, head: str) -> None:
    said("create", "budget.db", *BUDGET)
    assert "a head is number:digest" in refused("verify", "budget.db", "--head", head)


def test_a_book_that_is_not_there_is_not_verified(folder: Path) -> None:
    for command in ("verify", "export"):
        assert "there is no book" in refused(command, "misspelt.db")


def test_what_is_spent_is_shown_rounded_up(folder: Path) -> None:
    said("create", "budget.db", *BUDGET)
    Ledger("budget.db").charge(PureDP(0.123412), "replace-one", stated=(0.123412, 0.0))
    assert "spent ε = 0.1235 of" in said("show", "budget.db")
