"""The book: older files, summaries, derived datasets, parts of budgets, freezing, keys, and the witness."""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from discreet.accounting import epsilon as certified
from discreet.accounting.upper import renyi
from discreet.errors import BudgetExceeded, InvalidInput, LedgerUnavailable
from discreet.events import Compose, Event, Gaussian, Laplace, ObjectivePerturbation, Promise, PureDP, Repeat
from discreet.ledger import Ledger, open_book
from discreet.ledger.adaptive import Accountant
from discreet.ledger.book import Book
from discreet.ledger.lines import START, Line, _digest, as_text, next_line
from discreet.ledger.portable import export_book, import_book, verify_book
from discreet.units import Unit

FILES = Path(__file__).parent / "files"
UNIT = Unit("replace-one")
FIT = ObjectivePerturbation(48.38676375877951, 0.02326524068456463, deviation=0.0006666666660000002)


def opened(place: Path | str, **changes: object) -> Ledger:
    arguments = {"epsilon": 3.0, "delta": 1e-6, "adjacency": "replace-one"} | changes
    return Ledger(place, **arguments)  # type: ignore[arg-type]


# --- files of released versions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_of_an_older_version_is_read_and_brought_up_to_date(tmp_path: Path, version: int) -> None:
    path = tmp_path / "old.db"
    shutil.copy(FILES / f"format-{version}.db", path)
    before = path.read_bytes()
    ledger = Ledger(path, dataset="clinic")
    assert Ledger.datasets(path) == ("clinic", "register")
    assert str(ledger.budget) == "ε = 3 at δ = 1e-06 (replace-one)"
    notes = [charge.note for charge in ledger.history()]
    assert notes == (
        ["first model", "counted", "broken off", "open"] if version == 2 else ["first model", "broken off", "open"]
    )
    if version == 2:
        assert [charge.status for charge in ledger.history()] == ["completed", "completed", "stopped-early", "charged"]
        assert ledger.history()[1].ran == Compose([Laplace(50.0), PureDP(0.4)])
        assert ledger.history()[1].stated == (0.55, 1e-7)
    spent, other = ledger.spent(), Ledger(path, dataset="register").spent()
    assert path.read_bytes() == before, "reading changed the file"
    number = ledger.charge(PureDP(0.1), UNIT)
    assert number == len(notes) + 2  # the other dataset has one
    assert [charge.note for charge in Ledger(path, dataset="clinic").history()] == [*notes, ""]
    assert spent.upper < ledger.spent().upper <= spent.upper + 0.100001
    assert Ledger(path, dataset="register").spent() == other


@pytest.mark.parametrize(
    "change",
    [
        "stated_epsilon = -2.0",
        "stated_delta = -1.0",
        "dataset = 'nobody'",
        "relation = 'add-remove'",
        "rows_per_unit = 2",
    ],
)
def test_a_charge_that_no_writer_can_have_made_stops_all_spending(tmp_path: Path, change: str) -> None:
    """Counted as it stands it would give budget back, or would count for nobody."""
    path = tmp_path / "old.db"
    shutil.copy(FILES / "format-2.db", path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"UPDATE charges SET {change} WHERE note = 'counted'")
        connection.commit()
    with pytest.raises(LedgerUnavailable, match="cannot be understood"):
        Ledger(path, dataset="clinic")


# --- summaries ----------------------------------------------------------------------------------------------------


def test_whoever_begins_at_a_summary_knows_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_book, "_SUMMARY_EVERY", 5)
    path = tmp_path / "budget.db"
    first = opened(path, epsilon=50.0)
    first.allocate("ann", epsilon=20.0, delta=5e-7)
    ann = Ledger(path, analyst="ann")
    for index, event in enumerate([FIT, Gaussian(30.0), PureDP(0.1), FIT, Gaussian(31.0), FIT, FIT, PureDP(0.2)]):
        (ann if index % 2 else first).charge(event, UNIT, stated=(0.2, 1e-7) if event == FIT else None)
    promised = first.charge(Compose([Laplace(50.0), Promise(0.5, 1e-8)]), UNIT, stated=(0.55, 1e-8))
    for _ in range(6):
        first.charge(FIT, UNIT)
    with first._store.transaction(write=False) as lines:
        assert lines.last_summary() is not None
        whole = Book(first._accountant)
        for line in lines.after(0):
            whole.take(line, "here")
    for dataset, analyst in (("default", ""), ("default", "ann")):
        again = Ledger(path, dataset=dataset, analyst=analyst)
        assert again._book.head == whole.head
        (expected,) = [limit for limit in whole.limits(dataset, analyst) if limit.analyst == analyst]
        assert again.spent() == expected.tally.spent()
    again = Ledger(path)
    again.fulfil(promised, PureDP(0.4))
    assert again.spent() == first.spent()


def test_a_line_out_of_place_is_refused(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "budget.db")
    ledger.charge(PureDP(0.1), UNIT)
    with ledger._store.transaction(write=False) as lines:
        kept = list(lines.after(0))
    for wrong in ([*kept[:1], kept[2]], [kept[0], kept[2], kept[1]], [kept[0], kept[1]._replace(at="now")]):
        book = Book(ledger._accountant)
        for line in wrong[: 1 if wrong[1] is not kept[1] else 2]:
            book.take(line, "here")
        with pytest.raises(LedgerUnavailable, match="line"):
            book.take(wrong[1], "here")


@pytest.mark.parametrize("problem", [KeyboardInterrupt, OverflowError])
def test_a_line_that_was_read_by_halves_is_read_again(problem: type[BaseException]) -> None:
    """Else what a promise was used for would be missing from the sums, and the next charge would be admitted."""
    broken = []

    def divergence(event: Event, order: float, unit: Unit) -> float:
        if broken:
            raise broken.pop()()
        return renyi.divergence(event, order, unit)

    ledger = opened("memory:", accountant=Accountant(divergence=divergence))
    ledger.charge(Gaussian(30.0), UNIT)
    charge = ledger.charge(Promise(1.0, 1e-8), UNIT)
    ledger.fulfil(charge, Gaussian(20.0))
    broken.append(problem)
    with pytest.raises(problem):
        ledger.spent()
    ledger.spent()
    anew = Book(ledger._accountant)
    with ledger._store.transaction(write=False) as lines:
        anew.follow(lines, "memory:")
    (found,), (expected,) = ledger._book.limits("default"), anew.limits("default")
    assert found.tally.to_dict() == expected.tally.to_dict()
    assert min(expected.tally._sums.divergences) > 0


# --- twenty fits, and rules for them ---------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [4.0, 10.0])
def test_twenty_default_fits_cost_far_less_than_their_sum(budget: float) -> None:
    ledger = opened("memory:", epsilon=budget)
    for _ in range(20):
        ledger.charge(FIT, UNIT, stated=(0.1999999999, 9.37499999e-08))
    assert ledger.spent().upper <= 0.6 * 20 * 0.2
    # no rule for adaptive charges can be below what the same charges cost when they are fixed beforehand
    assert ledger.spent().upper >= certified(Gaussian(48.38676375877951 / math.sqrt(20)), 1e-6, UNIT).lower


# --- derived datasets, parts, freezing, keys --------------------------------------------------------------------------


def test_what_is_derived_spends_the_budget_of_its_people() -> None:
    ledger = opened("memory:", epsilon=1.0)
    store = ledger._store

    def beside(**arguments: object) -> Ledger:
        found = Ledger.__new__(Ledger)
        found._attach(str(arguments.pop("dataset")), "", store, ledger._accountant, None, START)
        found._open(None, tuple(arguments.pop("parents", ())))  # type: ignore[arg-type]
        return found

    women, old = beside(dataset="women", parents=["default"]), beside(dataset="old women", parents=["women"])
    women.charge(PureDP(0.5), UNIT)
    old.charge(PureDP(0.25), UNIT)
    ledger.charge(PureDP(0.125), UNIT)
    for one in (ledger, women, old):
        assert one.spent().upper == pytest.approx(0.875)
        with pytest.raises(BudgetExceeded):
            one.charge(PureDP(0.25), UNIT)
    assert [charge.dataset for charge in ledger.history()] == ["women", "old women", "default"]
    assert [charge.dataset for charge in women.history()] == ["women", "old women"]
    ledger.freeze("under review")
    with pytest.raises(InvalidInput, match="under review"):
        old.charge(PureDP(0.01), UNIT)
    ledger.thaw()
    old.charge(PureDP(0.01), UNIT)
    with pytest.raises(InvalidInput, match="no dataset 'nobody'"):
        beside(dataset="new", parents=["nobody"])


def test_a_part_and_the_whole_are_both_limits(tmp_path: Path) -> None:
    whole = opened(tmp_path / "budget.db", epsilon=1.0)
    whole.allocate("ann", epsilon=0.5, delta=5e-7)
    whole.allocate("bob", epsilon=0.75, delta=5e-7)
    ann, bob = (Ledger(tmp_path / "budget.db", analyst=name) for name in ("ann", "bob"))
    ann.charge(PureDP(0.5), UNIT)
    with pytest.raises(BudgetExceeded, match="'ann'"):
        ann.charge(PureDP(0.01), UNIT)
    bob.charge(PureDP(0.375), UNIT)
    with pytest.raises(BudgetExceeded, match="dataset 'default' has"):
        bob.charge(PureDP(0.25), UNIT)
    assert (ann.spent().upper, bob.spent().upper) == (pytest.approx(0.5, abs=1e-5), pytest.approx(0.375, abs=1e-5))
    assert whole.spent().upper == pytest.approx(0.875, abs=1e-5)
    assert [charge.analyst for charge in whole.history()] == ["ann", "bob"]
    assert len(ann.history()) == 1
    with pytest.raises(InvalidInput, match="no part"):
        Ledger(tmp_path / "budget.db", analyst="eve").charge(PureDP(0.01), UNIT)
    with pytest.raises(InvalidInput, match="already"):
        whole.allocate("ann", epsilon=0.6, delta=5e-7)
    with pytest.raises(InvalidInput, match="not a part"):
        whole.allocate("cy", epsilon=1.5, delta=5e-7)


def test_a_key_pays_once_and_for_one_release() -> None:
    ledger = opened("memory:")
    first = ledger.charge(Gaussian(20.0), UNIT, key="run 7")
    assert ledger.charge(Gaussian(20.0), UNIT, key="run 7") == first
    assert len(ledger.history()) == 1
    with pytest.raises(InvalidInput, match="something else"):
        ledger.charge(Gaussian(10.0), UNIT, key="run 7")
    ledger.release(first)
    with pytest.raises(InvalidInput, match="has ended"):
        ledger.charge(Gaussian(20.0), UNIT, key="run 7")


def test_a_key_of_one_analyst_pays_for_no_other(tmp_path: Path) -> None:
    """Otherwise two people's releases would be paid for once, from the part of the first."""
    owner = opened(tmp_path / "budget.db")
    for name in ("ann", "bob"):
        owner.allocate(name, epsilon=0.5, delta=1e-7)
    Ledger(tmp_path / "budget.db", analyst="ann").charge(Gaussian(40.0), UNIT, key="run 7")
    for other in (Ledger(tmp_path / "budget.db", analyst="bob"), owner):
        with pytest.raises(InvalidInput, match="something else"):
            other.charge(Gaussian(40.0), UNIT, key="run 7")
    assert len(owner.history()) == 1


# --- the witness ------------------------------------------------------------------------------------------------------


def test_a_restored_backup_is_refused_where_a_witness_knows_better(tmp_path: Path) -> None:
    path, witness, backup = tmp_path / "budget.db", tmp_path / "elsewhere" / "head", tmp_path / "backup.db"
    witness.parent.mkdir()
    ledger = opened(path, witness=witness)
    ledger.charge(PureDP(0.5), UNIT)
    shutil.copy(path, backup)
    ledger.charge(PureDP(0.5), UNIT)
    assert witness.read_text().strip() == str(ledger.head)
    kept = path.read_bytes()
    shutil.copy(backup, path)
    for use in (ledger.spent, lambda: Ledger(path, witness=witness), lambda: opened(path, witness=witness)):
        with pytest.raises(LedgerUnavailable, match="older copy"):
            use()
    assert len(Ledger(path).history()) == 1  # without its witness a new reader cannot know
    path.write_bytes(kept)
    Ledger(path, witness=witness).charge(Repeat(PureDP(0.1), 2), UNIT)
    path.unlink()
    with pytest.raises(LedgerUnavailable):
        opened(path, witness=witness)
    assert not path.exists()


def test_a_witness_that_cannot_be_read_stops_all_spending(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "budget.db", witness=tmp_path / "head")
    (tmp_path / "head").write_text("what?")
    with pytest.raises(LedgerUnavailable, match="witness"):
        ledger.charge(PureDP(0.1), UNIT)


@pytest.mark.parametrize("text", ["", "0:", "-4:ab", "9" * 30 + ":ab", "9" * 5000 + ":ab", "²:ab", "1:AB", "1:", "1:g"])
def test_a_head_is_a_number_and_a_digest(tmp_path: Path, text: str) -> None:
    """Some were errors of Python or of the database; a witness of "0:" would be none."""
    path = tmp_path / "budget.db"
    opened(path)
    (tmp_path / "head").write_text(text)
    with pytest.raises(LedgerUnavailable, match=r"witness .* cannot be read"):
        Ledger(path, witness=tmp_path / "head")
    with pytest.raises(InvalidInput, match="head is number:digest"):
        verify_book(path, text)


def test_a_witness_that_cannot_be_written_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened(tmp_path / "budget.db", witness=tmp_path / "head")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("discreet.ledger.witness.os.fsync", full)
    with pytest.raises(LedgerUnavailable, match=r"No space left.*may stay charged"):
        ledger.charge(PureDP(0.1), UNIT)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["budget.db", "head"]
    assert len(Ledger(tmp_path / "budget.db").history()) == 1  # spent, as an unknown outcome is


# --- what no writer makes ---------------------------------------------------------------------------------------------


def forged(kept: list[Line], *facts: tuple[Any, ...]) -> list[Line]:
    """A book with further lines whose digests are right: (dataset, kind, body, charge, key)."""
    found = list(kept)
    for dataset, kind, body, *more in facts:
        text = body if isinstance(body, str) else as_text(body)
        found.append(next_line(found[-1].head, "", dataset, kind, text, *more))
    return found


SMALL = {"epsilon": 1e-3, "delta": 0.0, "relation": "replace-one", "rows": 1}
LARGE = SMALL | {"epsilon": 1e9, "delta": 0.5}
PAID = {"event": PureDP(0.1).to_json(), "relation": "replace-one", "rows": 1, "note": "", "stated": None, "analyst": ""}
WRONG: list[tuple[str, tuple[Any, ...]]] = [
    ("a second, larger budget", ("default", "dataset", {"budget": LARGE, "parents": []})),
    ("a parent that is not there", ("other", "dataset", {"budget": LARGE, "parents": ["nobody"]})),
    ("a part larger than the whole", ("default", "allocation", {"name": "ann", "budget": LARGE})),
    ("a part for no name", ("default", "allocation", {"name": ["ann"], "budget": SMALL})),
    ("no kind of line", ("default", "tally", {})),
    ("a method that is no kind", ("default", "skip_to_a_summary", {})),
    ("an end of no charge", ("default", "end", {"status": "completed"}, 7)),
    ("a use of no charge", ("default", "use", {"event": PureDP(0.1).to_json(), "analyst": ""}, 7)),
    ("an end of no kind", ("default", "end", {"status": "refunded"}, 1)),
    ("a note that is no text", ("default", "charge", PAID | {"note": 5}, 2)),
    ("an analyst that is no text", ("default", "charge", PAID | {"analyst": 5}, 2)),
    ("brackets without an end", ("default", "freeze", "[" * 100_000)),
    ("a number beyond all floats", ("default", "dataset", '{"budget": {"epsilon": 1' + "0" * 400 + "}}")),
]


@pytest.mark.parametrize("line", [line for _, line in WRONG], ids=[name for name, _ in WRONG])
def test_a_forged_line_with_the_right_digest_is_refused(tmp_path: Path, line: tuple[Any, ...]) -> None:
    """Whoever can write the file can make digests too; the book must still be one that a ledger could have written."""
    opened(tmp_path / "budget.db").charge(PureDP(0.1), UNIT)
    text = list(export_book(tmp_path / "budget.db"))
    kept = [Line(*json.loads(row)) for row in text[1:]]
    rows = [text[0], *(json.dumps(one) for one in forged(kept, line))]
    with pytest.raises(InvalidInput, match="cannot be understood"):
        import_book(tmp_path / "other.db", rows)
    assert not (tmp_path / "other.db").exists()


@pytest.mark.parametrize(
    "change",
    [{"number": 1 << 63}, {"number": True}, {"charge": 1 << 80}, {"charge": -1}, {"charge": 1.0}, {"dataset": "a\0b"},
     {"dataset": "\ud800"}, {"key": 5}, {"body": None}],
    ids=str,
)  # fmt: skip
def test_values_that_no_database_holds_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    opened(tmp_path / "budget.db").freeze()
    *before, last = [json.loads(row) for row in export_book(tmp_path / "budget.db")]
    line = Line(*last)._replace(**change)
    again = line._replace(digest=_digest(before[-1][-1], line))
    with pytest.raises(InvalidInput, match=r"no exported ledger.*Nothing was written"):
        import_book(tmp_path / "other.db", [json.dumps(row) for row in [*before, again]])
    assert not (tmp_path / "other.db").exists()


def test_a_key_that_names_two_lines_is_refused(tmp_path: Path) -> None:
    """The database refused it, and an empty file was left behind."""
    opened(tmp_path / "budget.db").charge(PureDP(0.1), UNIT, key="run 7")
    text = list(export_book(tmp_path / "budget.db"))
    kept = [Line(*json.loads(row)) for row in text[1:]]
    rows = [text[0], *(json.dumps(one) for one in forged(kept, ("default", "freeze", {"note": ""}, None, "run 7")))]
    with pytest.raises(InvalidInput, match="a key names two lines"):
        import_book(tmp_path / "other.db", rows)
    assert not (tmp_path / "other.db").exists()


@pytest.mark.parametrize("text", ["", "[" * 100_000, "NaN", '{"discreet ledger": 3}\n[]', '{"discreet ledger": 4}'])
def test_text_that_is_no_book_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInput, match=r"no exported ledger.*Nothing was written"):
        import_book(tmp_path / "other.db", text.splitlines())


def test_where_there_is_no_book_nothing_is_verified_or_exported(tmp_path: Path) -> None:
    """A misspelt name was a book of 0 lines, each bound to the one before."""
    for use in (lambda: verify_book(tmp_path / "nowhere.db"), lambda: list(export_book(tmp_path / "nowhere.db"))):
        with pytest.raises(LedgerUnavailable, match="no book"):
            use()


@pytest.mark.parametrize("number", [0, -1, 1 << 80, True, 1.0, "1", None])
def test_a_charge_has_a_number(place: str, number: Any) -> None:
    ledger = opened(place)
    ledger.charge(Compose([Laplace(50.0), Promise(0.5, 1e-8)]), UNIT, stated=(0.55, 1e-8))
    for use in (lambda: ledger.release(number), lambda: ledger.fulfil(number, PureDP(0.1))):
        with pytest.raises(InvalidInput, match="has no charge"):
            use()


def test_a_dataset_is_derived_from_names(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="a name or a list of names"):
        Ledger(tmp_path / "budget.db", dataset="women", derived_from=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("times", [-1, 1.5, True])
def test_a_forecast_is_of_a_whole_number_of_runs(times: Any) -> None:
    with pytest.raises(InvalidInput, match="whole number"):
        opened("memory:").forecast(PureDP(0.1), UNIT, None, times)
