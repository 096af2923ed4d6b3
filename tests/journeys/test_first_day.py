"""The first day of somebody with a file from elsewhere: each command as it is typed, and all that it says.

Every journey starts in an empty folder with the files that such a person has.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import discreet as dp
from discreet.cli import main

N = 600


class Said(NamedTuple):
    """What a command ended with and wrote."""

    code: int
    out: str
    err: str


Type = Callable[[str], Said]


@pytest.fixture
def type_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Type:
    """Runs a line such as ``discreet fit …`` in the folder of the journey."""
    monkeypatch.chdir(tmp_path)

    def run(line: str) -> Said:
        import shlex

        monkeypatch.setattr("sys.argv", shlex.split(line))
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr()
        return Said(stop.value.code if isinstance(stop.value.code, int) else 0, said.out, said.err)

    return run


def people(words: tuple[str, str]) -> list[list[str]]:
    rng = np.random.default_rng(0)
    ages = rng.integers(18, 90, N)
    incomes = np.round(rng.lognormal(10, 0.5, N), 2)
    rows = zip(ages.tolist(), incomes.tolist(), strict=True)
    return [[f"p{k}", str(age), str(income), words[age > 55]] for k, (age, income) in enumerate(rows)]


NAMES = ["id", "age", "income", "sick"]
SCHEMA = "id: ignore\nage: {numeric: [18, 90]}\nincome: {numeric: [0, 500000]}\nsick: {boolean: [no, yes]}\n"


def written(rows: list[list[str]], separator: str = ",") -> str:
    return "".join(separator.join(row) + "\n" for row in [NAMES, *rows])


def answers(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_a_file_with_semicolons_and_decimal_commas(type_in: Type, tmp_path: Path) -> None:
    rows = [[cell.replace(".", ",") for cell in row] for row in people(("nein", "ja"))]
    (tmp_path / "leute.csv").write_text(written(rows, ";"))

    said = type_in("discreet schema leute.csv")
    assert said.code == 2
    assert "--separator ';'" in said.err
    said = type_in("discreet schema leute.csv --separator ';'")
    assert said.code == 0
    assert [line.split(":")[0] for line in said.out.splitlines() if not line.startswith("#")] == NAMES
    (tmp_path / "schema.yaml").write_text(SCHEMA.replace("[no, yes]", "[nein, ja]"))
    said = type_in("discreet schema leute.csv --check schema.yaml --separator ';'")
    assert said.code == 0

    fit = "discreet fit leute.csv --schema schema.yaml --target sick --epsilon 4 --delta 1e-6 --separator ';'"
    said = type_in(fit + " --decimal ,")
    assert said.code == 0, said.err
    assert f"{N} rows" in said.err  # replace-one: the number of rows is public
    assert "replace-one" in said.out
    said = type_in("discreet predict model.npz leute.csv -o out.csv --separator ';' --decimal ,")
    assert said.code == 0, said.err
    found = answers(tmp_path / "out.csv")
    assert [row["id"] for row in found] == [row[0] for row in rows]
    assert {row["prediction"] for row in found} == {"ja", "nein"}
    right = np.mean([row["prediction"] == truth[3] for row, truth in zip(found, rows, strict=True)])
    assert right > 0.75
    said = type_in("discreet evaluate model.npz leute.csv --public --json --separator ';' --decimal ,")
    assert said.code == 0, said.err
    assert json.loads(said.out)["metrics"]["accuracy"]["value"] == pytest.approx(right)
    assert type_in("discreet check leute.csv --schema schema.yaml --epsilon 1 --separator ';'").code == 0


def test_the_number_of_rows_is_not_shown_where_it_is_private(type_in: Type, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(written(people(("no", "yes"))))
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    fit = "discreet fit people.csv --schema schema.yaml --target sick --epsilon 1 --delta 1e-6 --adjacency add-remove"
    said = type_in(fit)
    assert said.code == 0, said.err
    assert "reading people.csv" in said.err
    assert "rows" not in said.err
    assert str(N) not in said.err


def test_a_packed_file_is_the_same_file(type_in: Type, tmp_path: Path) -> None:
    text = written(people(("no", "yes")))
    (tmp_path / "people.csv").write_text(text)
    (tmp_path / "people.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    for k, file in enumerate(("people.csv", "people.csv.gz")):
        fit = f"discreet fit {file} --schema schema.yaml --target sick --epsilon inf -q -o model{k}.npz"
        assert type_in(fit).code == 0
    assert np.array_equal(dp.load("model0.npz").coef_, dp.load("model1.npz").coef_)


def test_wrong_labels(type_in: Type, tmp_path: Path) -> None:
    rows = people(("N", "J"))
    (tmp_path / "people.csv").write_text(written(rows))
    (tmp_path / "schema.yaml").write_text(SCHEMA.replace("{boolean: [no, yes]}", "boolean"))
    assert type_in("discreet ledger create budget.db --epsilon 9 --delta 1e-4 --adjacency replace-one").code == 0
    fit = "discreet fit people.csv --schema schema.yaml --target sick --epsilon 4 --ledger budget.db -q"
    said = type_in(fit)
    assert said.code == 2
    assert "sick: {boolean: [no, yes]}" in said.err
    assert dp.Ledger("budget.db").history() == ()
    (tmp_path / "schema.yaml").write_text(SCHEMA.replace("[no, yes]", "[N, J]"))
    assert type_in(fit).code == 0
    assert type_in("discreet predict model.npz people.csv -o out.csv").code == 0
    assert {row["prediction"] for row in answers(tmp_path / "out.csv")} == {"J", "N"}
    header = type_in("discreet predict model.npz people.csv --probabilities --no-ids").out.splitlines()[0]
    assert header == "probability_J,probability_N"


def test_a_budget_that_refuses(type_in: Type, tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(written(people(("no", "yes"))))
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    assert type_in("discreet ledger create budget.db --epsilon 1.5 --delta 1e-5 --adjacency replace-one").code == 0
    fit = "discreet fit people.csv --schema schema.yaml --target sick --epsilon 1 --delta 1e-6 --ledger budget.db -q"
    assert type_in(fit).code == 0
    before = (tmp_path / "model.npz").read_bytes()

    said = type_in(fit)
    assert said.code == 2
    assert "model.npz" in said.err
    assert "--force" in said.err
    said = type_in(fit + " --force")
    assert said.code == 3
    assert "Nothing was charged and nothing was released" in said.err
    assert (tmp_path / "model.npz").read_bytes() == before

    said = type_in("discreet ledger show budget.db")
    lines = said.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert re.search(r"^1 +\d{4}-\d\d-\d\d \d\d:\d\d +1 +\S+ +completed +LogisticRegression", said.out, re.M)
    said = type_in(fit + " --force --rows-per-unit 3")
    assert said.code == 2
    assert "Use rows_per_unit=1." in said.err


def _interrupt(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_an_interrupted_fit(type_in: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adjacency: str) -> None:
    (tmp_path / "people.csv").write_text(written(people(("no", "yes"))))
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    assert type_in(f"discreet ledger create budget.db --epsilon 9 --delta 1e-5 --adjacency {adjacency}").code == 0
    fit = (
        "discreet fit people.csv --schema schema.yaml --target sick --epsilon 1 --delta 1e-6 --ledger budget.db -q "
        f"--adjacency {adjacency}"
    )
    for place, charged in (("discreet.cli.fit.read_declared", False), ("discreet.vault.Vault._sample", True)):
        with monkeypatch.context() as patch:
            patch.setattr(place, _interrupt)
            said = type_in(fit)
        assert said.code == 130  # as shells have it
        assert "No model was written." in said.err
        assert not (tmp_path / "model.npz").exists()
        assert ("Nothing was charged" in said.err) != charged
        history = dp.Ledger("budget.db").history()
        assert len(history) == charged
        if charged:
            assert f"not refunded: up to ε = 1, δ = 1e-06 ({adjacency}), as charge {history[0].id} of" in said.err
            assert "budget.db" in said.err
    with monkeypatch.context() as patch:
        patch.setattr("discreet.estimators.base.save", _interrupt)
        said = type_in(fit)
    assert "Charged, and not refunded: ε = " in said.err
    assert len(dp.Ledger("budget.db").history()) == 2


def test_all_that_can_be_refused_is_refused_before_a_row_is_read(
    type_in: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large file nobody waits for a mistake that was there before."""
    (tmp_path / "people.csv").write_text(written(people(("no", "yes"))))
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    monkeypatch.setattr("discreet.data.delimited.read_lines", _interrupt)
    monkeypatch.setattr("discreet.data.delimited._blocks", _interrupt)
    fit = "discreet fit people.csv --schema schema.yaml --target sick --epsilon 1 "
    for more in (
        "--epsilon -1",
        "--delta 2",
        "--target wealth",
        "--output nowhere/model.npz",
        "--ledger people.csv",
        "--adjacency near",
        "--model linear",
        "--separator ;;",
        "--decimal x",
        "--param alpha=-1",
    ):
        assert type_in(fit + more).code == 2, more
    (tmp_path / "people.csv").write_text("id,age,income\n1,2,3\n")
    said = type_in(fit)
    assert said.code == 2
    assert "no column 'sick'" in said.err
    assert type_in("discreet fit people.csv --target sick --epsilon 1").code == 2
    assert type_in("discreet schema people.csv").code == 0


def test_the_version_and_what_is_not_written_over(type_in: Type, tmp_path: Path) -> None:
    said = type_in("discreet --version")
    assert (said.code, said.out) == (0, f"discreet {dp.__version__}\n")
    (tmp_path / "people.csv").write_text(written(people(("no", "yes"))))
    (tmp_path / "schema.yaml").write_text(SCHEMA)
    (tmp_path / "model.certificate.json").write_text("mine")
    said = type_in("discreet fit people.csv --schema schema.yaml --target sick --epsilon 1 -q")
    assert said.code == 2
    assert "model.certificate.json would be written over" in said.err
    assert (tmp_path / "model.certificate.json").read_text() == "mine"
    assert type_in("discreet fit people.csv --schema schema.yaml --target sick --epsilon 1 -q --force").code == 0
    assert json.loads((tmp_path / "model.certificate.json").read_text())["private"] is True
