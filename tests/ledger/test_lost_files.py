"""A ledger whose file is lost, emptied, exchanged or linked refuses; it never goes on with another budget or none."""

from __future__ import annotations

import math
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet as dp
from discreet.accounting.bounds import Bounds
from discreet.errors import BudgetExceeded, DiscreetError, InvalidInput, LedgerUnavailable
from discreet.events import Event, Promise, PureDP, Repeat
from discreet.ledger import Accountant, Ledger
from discreet.units import Unit

X = np.repeat([[0.6, 0.8], [-0.6, -0.8]], 50, axis=0)
Y = np.repeat([1, 0], 50)
OTHER_BUDGETS: list[dict[str, object]] = [
    {"epsilon": 100.0},
    {"delta": 1e-5},
    {"adjacency": "add-remove"},
    {"adjacency": Unit("replace-one", 2)},
]


def opened(path: Path, **changes: object) -> Ledger:
    arguments = {"epsilon": 1.0, "delta": 1e-6, "adjacency": "replace-one"} | changes
    return Ledger(path, **arguments)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "budget.db"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    """Of a budget of 1 with 0.9 spent."""
    path.parent.mkdir()
    found = opened(path)
    found.charge(PureDP(0.9), "replace-one")
    return found


def delete(path: Path) -> None:
    path.unlink()


def rename(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def remove_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def another_format(path: Path) -> None:
    path.write_text("age,income\n" * 1000)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def without_a_budget(path: Path) -> None:
    path.unlink()
    Ledger(path).charge(PureDP(0.9), "replace-one")


def without_charges(path: Path) -> None:
    path.unlink()
    opened(path)


def with_another_dataset(path: Path) -> None:
    path.unlink()
    opened(path, dataset="clinic")


def with_smaller_charges(path: Path) -> None:
    path.unlink()
    opened(path).charge(PureDP(0.1), "replace-one")


def deleted_charges(path: Path) -> None:
    with sqlite3.connect(path) as raw:
        raw.execute("DELETE FROM lines WHERE kind = 'charge'")
    raw.close()


def a_raised_budget(path: Path) -> None:
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE lines SET body = replace(body, '1.0', '100.0') WHERE kind = 'dataset'")
    raw.close()


LOSSES: list[Callable[[Path], None]] = [
    delete, rename, remove_folder, empty, cut, another_format, a_folder, without_a_budget, without_charges,
    with_another_dataset, with_smaller_charges, deleted_charges,
]  # fmt: skip


def uses(ledger: Ledger) -> list[Callable[[], object]]:
    return [
        lambda: ledger.charge(PureDP(50.0), "replace-one"),
        lambda: ledger.charge(PureDP(0.01), "replace-one"),
        lambda: ledger.require([PureDP(50.0)], "replace-one"),
        lambda: ledger.release(1),
        lambda: ledger.portion(1e-6),
        ledger.spent,
        ledger.remaining,
        ledger.history,
        lambda: ledger.budget,
    ]


@pytest.mark.parametrize("lose", LOSSES)
@pytest.mark.parametrize("sent", [False, True], ids=["here", "pickled"])
def test_every_use_is_refused_and_nothing_is_created(
    path: Path, ledger: Ledger, lose: Callable[[Path], None], sent: bool
) -> None:
    message = pickle.dumps(ledger)
    lose(path)
    there = sorted(path.parent.rglob("*")) if path.parent.exists() else []
    ledger = pickle.loads(message) if sent else ledger
    for use in uses(ledger):
        with pytest.raises(LedgerUnavailable):
            use()
    assert (sorted(path.parent.rglob("*")) if path.parent.exists() else []) == there
    assert "budget.db" in repr(ledger)


def test_a_budget_that_was_raised_in_the_file_is_refused_by_readers_and_ignored_by_who_had_read_it(
    path: Path, ledger: Ledger
) -> None:
    message = pickle.dumps(ledger)
    a_raised_budget(path)
    with pytest.raises(BudgetExceeded):
        ledger.charge(PureDP(50.0), "replace-one")
    for use in (lambda: Ledger(path), lambda: opened(path), pickle.loads(message).spent):
        with pytest.raises(LedgerUnavailable, match="line 2"):
            use()


@pytest.mark.parametrize("change", OTHER_BUDGETS)
def test_a_file_with_another_budget_is_refused(path: Path, ledger: Ledger, change: dict[str, object]) -> None:
    path.unlink()
    opened(path, **change)
    with pytest.raises(LedgerUnavailable, match="not the one that was read"):
        ledger.charge(PureDP(0.01), "replace-one")


@pytest.mark.parametrize("lose", [delete, rename, without_a_budget])
def test_no_fit_is_certified_by_a_lost_ledger(path: Path, ledger: Ledger, lose: Callable[[Path], None]) -> None:
    lose(path)
    model = dp.LogisticRegression(100.0, 1e-6, row_norm=1.0, classes=[0, 1], ledger=ledger)
    with pytest.raises(LedgerUnavailable):
        model.fit(X, Y)
    assert not hasattr(model, "privacy_")


def test_a_twin_with_the_same_budget_and_no_charges_is_another_file(tmp_path: Path) -> None:
    """Nothing was charged yet that could be missed: only the file's own name tells that its past is unknown."""
    path = tmp_path / "budget.db"
    first = opened(path)
    path.rename(tmp_path / "elsewhere.db")
    opened(path)
    with pytest.raises(LedgerUnavailable, match="another file"):
        first.charge(PureDP(0.1), "replace-one")


def test_an_older_copy_is_refused_and_the_right_file_is_welcome_again(path: Path, ledger: Ledger) -> None:
    copy = path.read_bytes()
    ledger.charge(PureDP(0.05), "replace-one")
    kept = path.read_bytes()
    path.write_bytes(copy)
    with pytest.raises(LedgerUnavailable, match="charges that were there"):
        ledger.charge(PureDP(0.05), "replace-one")
    path.write_bytes(kept)
    with pytest.raises(BudgetExceeded):
        ledger.charge(PureDP(0.1), "replace-one")
    ledger.charge(PureDP(0.04), "replace-one")


def test_an_older_copy_with_the_same_charge_paid_again_is_refused(tmp_path: Path) -> None:
    """The copy has lost one release of ε = 0.5, whatever was paid to it since."""
    path = tmp_path / "budget.db"
    ledger = Ledger(path, epsilon=1.0, delta=1e-6, adjacency="replace-one")
    shutil.copy(path, tmp_path / "copy.db")
    ledger.charge(PureDP(0.5), "replace-one", note="model")
    shutil.copy(tmp_path / "copy.db", path)
    Ledger(path).charge(PureDP(0.5), "replace-one", note="model")
    with pytest.raises(LedgerUnavailable):
        ledger.charge(PureDP(0.5), "replace-one")


def test_a_promise_is_not_used_again_in_an_older_copy(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    ledger = Ledger(path, epsilon=1.0, delta=1e-6, adjacency="replace-one")
    charge = ledger.charge(Promise(0.9, 0.0), "replace-one")
    shutil.copy(path, tmp_path / "copy.db")
    ledger.fulfil(charge, PureDP(0.9))
    shutil.copy(tmp_path / "copy.db", path)
    with pytest.raises(LedgerUnavailable):
        ledger.fulfil(charge, PureDP(0.8))
    with pytest.raises(LedgerUnavailable):
        pickle.loads(pickle.dumps(ledger)).fulfil(charge, PureDP(0.8))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_fork_cannot_spend_a_budget_in_memory_once_more() -> None:
    ledger = Ledger("memory:", epsilon=1.0, delta=1e-6, adjacency="replace-one")
    child = os.fork()
    if child == 0:
        try:
            ledger.charge(PureDP(0.9), "replace-one")
        except LedgerUnavailable:
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    ledger.charge(PureDP(0.9), "replace-one")


def test_a_ledger_that_only_records_misses_its_charges_too(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    ledger = Ledger(path)
    ledger.charge(PureDP(5.0), "replace-one")
    path.unlink()
    with pytest.raises(LedgerUnavailable):
        ledger.charge(PureDP(5.0), "replace-one")


def test_a_file_lost_during_a_run_keeps_the_answer_back(path: Path, ledger: Ledger) -> None:
    """The run was charged; how it ended cannot be written, and no model is handed out."""

    class Loses(dp.LogisticRegression):  # type: ignore[misc, name-defined]
        def _run(self, *arguments: object) -> object:
            vault = arguments[0]
            sample = vault._sample  # type: ignore[attr-defined]
            vault._sample = lambda m: (path.unlink(missing_ok=True), sample(m))[1]  # type: ignore[attr-defined]
            return super()._run(*arguments)

    model = Loses(0.05, 1e-7, row_norm=1.0, classes=[0, 1], ledger=ledger)
    with pytest.raises(LedgerUnavailable):
        model.fit(X, Y)
    assert not hasattr(model, "coef_")


def test_a_file_exchanged_inside_a_charge_is_noticed_before_anything_is_released(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"

    def slow(event: Event, delta: float, unit: Unit) -> Bounds:
        if path.exists():
            path.rename(tmp_path / "elsewhere.db")
        return Bounds(0.1, 0.1)

    opened(path)
    ledger = Ledger(path, accountant=Accountant(slow, lambda event, order, unit: math.inf))
    with pytest.raises(LedgerUnavailable):
        ledger.charge(PureDP(0.1), "replace-one")


def test_charges_of_others_are_no_loss(path: Path, ledger: Ledger) -> None:
    other = Ledger(path)
    sent = pickle.loads(pickle.dumps(ledger))
    for one in (other, ledger, sent, other, ledger):
        one.charge(PureDP(0.01), "replace-one")
    assert [len(one.history()) for one in (ledger, other, sent)] == [6, 6, 6]


def test_a_child_process_goes_on_with_what_its_parent_knew(path: Path, ledger: Ledger) -> None:
    script = (
        "import pickle, sys\n"
        "from discreet.events import PureDP\n"
        "from discreet.errors import LedgerUnavailable\n"
        "ledger = pickle.load(sys.stdin.buffer)\n"
        "ledger.charge(PureDP(0.05), 'replace-one')\n"
        f"import os; os.remove({str(path)!r})\n"
        "try:\n    ledger.charge(PureDP(0.01), 'replace-one')\n"
        "except LedgerUnavailable:\n    print('refused')\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        input=pickle.dumps(ledger),
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=True,
    )
    assert ran.stdout == b"refused\n"
    with pytest.raises(LedgerUnavailable):
        ledger.spent()


def test_threads_that_read_while_others_charge_are_not_refused(path: Path, ledger: Ledger) -> None:
    problems: list[BaseException] = []

    def work(use: Callable[[], object]) -> None:
        try:
            for _ in range(8):
                use()
        except BaseException as problem:
            problems.append(problem)

    def charge() -> object:
        return ledger.charge(PureDP(0.001), "replace-one")

    threads = [threading.Thread(target=work, args=(use,)) for use in (ledger.history, charge, ledger.history, charge)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(ledger.history()) == 17


def test_a_symbolic_link_is_followed_once(path: Path, ledger: Ledger) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)
    through = Ledger(link)
    assert through.remaining() == pytest.approx(0.1, abs=1e-5)
    fresh = path.with_name("fresh.db")
    opened(fresh)
    link.unlink()
    link.symlink_to(fresh)
    with pytest.raises(BudgetExceeded):
        through.charge(PureDP(0.5), "replace-one")
    assert len(Ledger(fresh).history()) == 0


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "a.db").symlink_to(tmp_path / "b.db")
    (tmp_path / "b.db").symlink_to(tmp_path / "a.db")
    with pytest.raises(LedgerUnavailable):
        Ledger(tmp_path / "a.db")


def test_a_file_with_two_names_is_refused_at_opening_and_at_every_charge(path: Path, ledger: Ledger) -> None:
    """A crash under one name leaves a journal that the other name does not find: committed charges are then lost."""
    second = path.with_name("second.db")
    os.link(path, second)
    for use in (lambda: Ledger(path), lambda: Ledger(second), lambda: Ledger.datasets(second), *uses(ledger)):
        with pytest.raises(LedgerUnavailable, match="2 names"):
            use()
    second.unlink()
    ledger.charge(PureDP(0.05), "replace-one")


def test_a_link_made_inside_a_charge_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"

    def slow(event: Event, delta: float, unit: Unit) -> Bounds:
        if not (tmp_path / "second.db").exists():
            os.link(path, tmp_path / "second.db")
        return Bounds(0.1, 0.1)

    opened(path)
    ledger = Ledger(path, accountant=Accountant(slow, lambda event, order, unit: math.inf))
    with pytest.raises(LedgerUnavailable, match="2 names"):
        ledger.charge(PureDP(0.1), "replace-one")


def test_a_write_ahead_log_is_folded_into_the_file_before_a_charge(path: Path, ledger: Ledger) -> None:
    """Otherwise the charge would lie in a second file, which a copy of the first would leave behind."""
    with sqlite3.connect(path) as raw:
        assert raw.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    raw.close()
    ledger.charge(PureDP(0.05), "replace-one")
    assert [entry.name for entry in path.parent.iterdir()] == ["budget.db"]
    assert len(Ledger(path).history()) == 2


# --- hostile text -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["\0", "a\0b", "\ud800", "a\udcff", "", " ", 3, None])
def test_names_that_no_file_can_hold_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput):
        opened(tmp_path / "budget.db", dataset=name)
    with pytest.raises(InvalidInput):
        Ledger("memory:", dataset=name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["\0", "a\0b.db", "\ud800.db"])
def test_places_that_no_system_knows_are_refused(tmp_path: Path, place: str) -> None:
    for url in (f"sqlite:///{tmp_path}/{place}", tmp_path / place):
        with pytest.raises(InvalidInput, match="not a path"):
            Ledger(url)


def test_an_event_that_could_not_be_read_back_is_not_charged(path: Path, ledger: Ledger) -> None:
    deep: Event = PureDP(1e-9)
    for _ in range(60):
        deep = Repeat(deep, 1)
    with pytest.raises(InvalidInput, match="nested"):
        ledger.charge(deep, "replace-one")
    assert len(ledger.history()) == 1


@given(note=st.text(st.characters(exclude_categories=[])), name=st.text(st.characters(exclude_categories=[])))
@settings(max_examples=60, deadline=None)
def test_any_note_and_any_name_is_kept_as_it_is_or_refused(
    tmp_path_factory: pytest.TempPathFactory, note: str, name: str
) -> None:
    path = tmp_path_factory.mktemp("ledger") / "budget.db"
    try:
        ledger = opened(path, dataset=name)
        ledger.charge(PureDP(0.1), "replace-one", note=note)
    except DiscreetError:
        return
    again = Ledger(path, dataset=name)
    assert [charge.note for charge in again.history()] == [note]
    assert Ledger.datasets(path) == (name,)
