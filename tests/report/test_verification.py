"""``discreet verify`` refuses a certificate that was changed: by its event, by its book, by its signature."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import discreet as dp
from discreet.cli import app
from discreet.errors import InvalidInput
from discreet.report.certificate import Certificate
from discreet.report.signature import new_key, sign

RUN = CliRunner()
X = np.random.default_rng(5).normal(size=(300, 2))
BUDGET = {"epsilon": 9.0, "delta": 1e-4, "adjacency": "replace-one"}
Tree = dict[str, Any]


def fitted(book: dp.Ledger) -> Tree:
    model = dp.LogisticRegression(1.0, 1e-6, row_norm=1.0, classes=[False, True], solver="descent", ledger=book)
    return dict(json.loads(model.fit(X, X[:, 0] > 0).privacy_.to_json()))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a ledger of two datasets, and the certificate of Ann's fit on the clinic's people."""
    folder = tmp_path_factory.mktemp("verification")
    owner = dp.Ledger(folder / "budget.db", **BUDGET, dataset="clinic")
    owner.allocate("ann", epsilon=5.0, delta=1e-5)
    dp.Ledger(folder / "budget.db", **BUDGET, dataset="survey")
    fitted(owner)
    tree = fitted(dp.Ledger(folder / "budget.db", dataset="clinic", analyst="ann"))
    (folder / "c.json").write_text(json.dumps(tree))
    return folder


def verify(place: Path, tree: Tree, *, ledger: bool) -> str | None:
    """Why the certificate is refused; None where it is not."""
    (place / "t.json").write_text(json.dumps(tree))
    result = RUN.invoke(app, ["verify", str(place / "t.json"), *(["--ledger", str(place / "budget.db")] * ledger)])
    if result.exit_code == 0:
        return None
    assert result.exception is not None
    assert isinstance(result.exception, dp.errors.DiscreetError), result.exception
    return str(result.exception)


def changed(tree: Tree, path: str, change: Callable[[Any], Any]) -> Tree:
    found = copy.deepcopy(tree)
    *way, last = path.split(".")
    inner: Any = found
    for name in way:
        inner = inner[int(name) if name.isdigit() else name]
    last_key: Any = int(last) if last.isdigit() else last
    inner[last_key] = change(inner[last_key])
    return found


def half(value: float) -> float:
    return value / 2


BY_ITSELF: list[tuple[str, Callable[[Any], Any]]] = [
    ("epsilon", half),
    ("delta", half),
    ("private", lambda v: not v),
    ("protective_randomness", lambda v: not v),
    ("rows_per_unit", lambda v: v + 1),
    ("event.event.noise_multiplier", half),
    ("event.times", lambda v: v + 1),
    ("figures.curve.0.epsilon", half),
    ("figures.curve.5.epsilon", lambda v: None if v is None else "0"),
    ("figures.curve.5.delta", lambda v: v / 10),
    ("figures.rho", half),
    ("figures.mu", half),
    ("figures.mechanisms.0.noise_multiplier", lambda v: 2 * v),
    ("figures.mechanisms.0.steps", half),
    ("figures.mechanisms.0.sampling", lambda v: "each row with probability 0.01"),
    ("figures", lambda v: "none"),
]
BY_THE_BOOK: list[tuple[str, Callable[[Any], Any]]] = [
    ("adjacency", lambda v: "add-remove"),
    ("record.dataset", lambda v: "survey"),
    ("record.dataset", lambda v: "unknown"),
    ("record.ledger.id", lambda v: "0" * 64),
    ("record.ledger.analyst", lambda v: "bob"),
    ("record.ledger.charges", lambda v: [1]),
    ("record.ledger.charges", lambda v: [2, 7]),
    ("record.ledger.charges", lambda v: []),
    ("record.ledger.sequence", lambda v: v + 1),
    ("record.ledger.head", lambda v: v[:-1] + ("0" if v[-1] != "0" else "1")),
    ("record.ledger.head", lambda v: ""),
]


def test_as_it_was_issued_it_is_believed(place: Path) -> None:
    tree = json.loads((place / "c.json").read_text())
    assert verify(place, tree, ledger=False) is None
    assert verify(place, tree, ledger=True) is None
    older = {name: value for name, value in tree.items() if name != "figures"}  # as certificates once were
    assert verify(place, older, ledger=True) is None


@pytest.mark.parametrize(("path", "change"), BY_ITSELF)
def test_what_follows_from_the_event_is_computed_again(path: str, change: Callable[[Any], Any], place: Path) -> None:
    tree = json.loads((place / "c.json").read_text())
    assert verify(place, changed(tree, path, change), ledger=False)


@pytest.mark.parametrize(("path", "change"), BY_THE_BOOK)
def test_what_the_book_says_is_compared(path: str, change: Callable[[Any], Any], place: Path) -> None:
    tree = json.loads((place / "c.json").read_text())
    assert verify(place, changed(tree, path, change), ledger=True)


def test_another_run_with_more_noise_is_not_the_one_that_was_paid_for(place: Path) -> None:
    tree = json.loads((place / "c.json").read_text())
    del tree["figures"]
    quieter = changed(tree, "event.event.noise_multiplier", lambda v: 2 * v)
    assert verify(place, quieter, ledger=False) is None  # ε is then more than it costs
    assert "event" in (verify(place, quieter, ledger=True) or "")


def test_two_charges_and_promises_are_found(place: Path) -> None:
    """A private number of rows before the run: one charge with a promise, or two charges where less is left."""
    for name, epsilon in (("one.db", 2.0), ("two.db", 0.999)):
        book = dp.Ledger(place / name, epsilon=epsilon, delta=1e-4, adjacency="add-remove")
        model = dp.LogisticRegression(
            1.0 if epsilon > 1 else 0.9, 1e-6, row_norm=1.0, classes=[False, True], adjacency="add-remove", ledger=book,
            solver="descent", solver_options={"iterations": 3},
        )  # fmt: skip
        (place / "p.json").write_text(model.fit(X, X[:, 0] > 0).privacy_.to_json())
        result = RUN.invoke(app, ["verify", str(place / "p.json"), "--ledger", str(place / name)])
        assert result.exit_code == 0, result.exception


def test_a_search_over_persons_is_found_by_its_promise(place: Path) -> None:
    book = dp.Ledger(place / "persons.db", epsilon=2.0, delta=1e-4, adjacency=dp.units.Unit("replace-one", 2))
    inner = dp.LogisticRegression(
        row_norm=1.0, classes=[False, True], solver="descent", solver_options={"iterations": 3}
    )
    search = dp.PrivateSearchCV(
        inner, {"alpha": [0.0]}, epsilon=1.0, delta=1e-6, trials=1, rows_per_unit=2, ledger=book
    )
    search.fit(X, X[:, 0] > 0, groups=np.arange(300) // 2)
    (place / "s.json").write_text(search.privacy_.to_json())
    result = RUN.invoke(app, ["verify", str(place / "s.json"), "--ledger", str(place / "persons.db")])
    assert result.exit_code == 0, result.exception


def leaves(tree: Any, path: str = "") -> Iterator[str]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    if not items:
        yield path
    for name, value in items:
        yield from leaves(value, f"{path}.{name}" if path else str(name))


def other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int | float) else f"{value}x"


def test_any_change_of_a_signed_certificate_is_noticed(place: Path) -> None:
    key = place / "key.pem"
    new_key(key)
    tree = sign(json.loads((place / "c.json").read_text()), key)
    assert Certificate.from_dict(tree).signer == tree["signature"]["public_key"]
    paths = [path for path in leaves(tree) if path != "signature.algorithm"]
    assert len(paths) > 80
    for path in paths:
        with pytest.raises(InvalidInput):
            Certificate.from_dict(changed(tree, path, other))
    bare = {name: value for name, value in tree.items() if name != "signature"}
    assert Certificate.from_dict(bare).signer == ""
    assert "by the key" in Certificate.from_dict(tree).to_html()
    with pytest.raises(InvalidInput):
        Certificate.from_dict(tree | {"more": 1})
