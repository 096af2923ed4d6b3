"""Whatever opens a vault protects persons where it is told whose each row is, and says so."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import discreet as dp
from discreet.data.persons import Persons
from discreet.errors import BudgetExceeded, InvalidInput
from discreet.estimators.loading import load
from discreet.estimators.planned import planned
from discreet.measurements import Noisy

RNG = np.random.default_rng(0)
OWNER = np.repeat(np.arange(600), RNG.integers(1, 6, 600))
X = RNG.normal(size=(len(OWNER), 2)) / 3
LABELS = (X[:, 0] > 0).astype(int)
TABLE = pd.DataFrame({"patient": [f"p{one}" for one in OWNER], "a": X[:, 0], "b": X[:, 1], "y": LABELS})
SCHEMA = dp.Schema({"patient": dp.Person(5), "a": dp.Numeric(-1, 1), "b": dp.Numeric(-1, 1), "y": dp.Boolean()})
PERSONS = dp.Unit("replace-one", 5)


def _model(**changes: Any) -> Any:
    return dp.LogisticRegression(**{"epsilon": 2.0, "delta": 1e-6, "row_norm": 1.0, "classes": [0, 1]} | changes)


FITS: dict[str, Callable[[Any], Any]] = {
    "logistic": lambda ids: _model(rows_per_unit=5).fit(X, LABELS, groups=ids),
    "linear": lambda ids: dp.LinearRegression(2.0, row_norm=1.0, target_bounds=(-1, 1), rows_per_unit=5).fit(
        X, X[:, 0], groups=ids
    ),
    "mean": lambda ids: dp.MeanEstimator(2.0, row_norm=1.0, rows_per_unit=5).fit(X, groups=ids),
    "search": lambda ids: dp.PrivateSearchCV(
        _model(solver="descent", solver_options={"iterations": 5}),
        {"alpha": [0.0]},
        epsilon=2.0,
        delta=1e-6,
        trials=1,
        rows_per_unit=5,
    ).fit(X, LABELS, groups=ids),
    "quantile": lambda ids: dp.quantile(X[:, 0], epsilon=2.0, bounds=(-1, 1), adjacency=PERSONS, groups=ids),
    "bounds": lambda ids: dp.private_bounds(
        TABLE.drop(columns="patient"),
        dp.Schema({name: SCHEMA[name] for name in ("a", "b", "y")}),
        epsilon=8.0,
        adjacency=PERSONS,
        groups=ids,
    ),
}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(persons, rows that took part) of every draw."""
    seen, honest = [], Persons.slots

    def spied(self: Persons, bits: Any) -> Any:
        slots = honest(self, bits)
        seen.append((self.count, len(slots)))
        return slots

    monkeypatch.setattr(Persons, "slots", spied)
    return seen


@pytest.mark.parametrize("name", FITS)
def test_everything_that_opens_a_vault_bounds_persons(name: str, drawn: list[tuple[int, int]]) -> None:
    found = FITS[name](OWNER)
    each = 1 if name == "search" else 5  # a search takes one row of each person, so that nobody is in both parts
    assert set(drawn) == {(600, each * 600)}
    if hasattr(found, "privacy_"):
        unit = found.privacy_.unit
        assert (unit.enforced, unit.rows_per_unit) == (True, each)
        assert "number of people" in found.privacy_.unprotected
        assert "number of rows" not in found.privacy_.unprotected


def test_whoever_opens_a_vault_says_whose_the_rows_are() -> None:
    """Or says by ``persons=None`` that there is nothing to bound: nobody can forget it.

    Networks make one example of a person's rows (tests/torch/test_persons.py); without ids they take ``rows_per_unit``
    as declared, and refuse a unit that claims bounded persons (tests/torch/test_tabular.py).
    """
    calls = [
        (file.name, {keyword.arg for keyword in node.keywords})
        for file in Path(dp.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "Vault"
    ]
    assert calls
    assert [file for file, keywords in calls if "persons" not in keywords] == []


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("ids", [OWNER[:-1], OWNER[None, :], [None] * len(OWNER)])
def test_ids_that_do_not_fit_are_refused(name: str, ids: Any) -> None:
    with pytest.raises(InvalidInput, match="Nothing was released"):
        FITS[name](ids)


def test_a_schema_says_whose_a_row_is(drawn: list[tuple[int, int]], tmp_path: Any) -> None:
    model = dp.LogisticRegression(2.0, 1e-6, schema=SCHEMA).fit(TABLE, TABLE["y"])
    assert drawn == [(600, 3000)]
    assert len(model.coef_names_) == 12  # two columns of six knots; the id is no feature
    newcomers = TABLE.drop(columns=["patient", "y"])
    predicted = model.predict(newcomers)
    model.save(tmp_path / "model.npz")
    assert (load(tmp_path / "model.npz").predict(newcomers) == predicted).all()
    dp.private_bounds(TABLE, SCHEMA, epsilon=8.0, adjacency="replace-one")
    assert drawn[1:] == [(600, 3000)] * 2
    search = dp.PrivateSearchCV(
        dp.LogisticRegression(schema=SCHEMA, solver="descent"), {"alpha": [0.0]}, epsilon=2.0, delta=1e-6, trials=1
    ).fit(TABLE, TABLE["y"])
    assert drawn[3:] == [(600, 600)]
    assert str(search.privacy_).endswith("(replace-one, 1 row a person, enforced)")


def test_a_certificate_says_whether_rows_were_bounded_or_believed() -> None:
    believed = _model(rows_per_unit=5).fit(X, LABELS).privacy_
    assert "5 rows a unit, declared" in str(believed)
    assert believed.to_dict()["unit"] == "declared"
    bounded = _model(rows_per_unit=5).fit(X, LABELS, groups=OWNER).privacy_
    assert "5 rows a person, enforced" in str(bounded)
    for certificate in (believed, bounded):
        again = dp.Certificate.from_json(certificate.to_json())
        assert again == certificate
        assert again.unit.enforced is certificate.unit.enforced
        assert again.recompute().upper <= certificate.epsilon * (1 + 1e-9)
    older = {key: value for key, value in bounded.to_dict().items() if key != "unit"}
    assert not dp.Certificate.from_dict(older).unit.enforced
    with pytest.raises(InvalidInput):
        dp.Certificate.from_dict(bounded.to_dict() | {"unit": "sworn"})


def test_the_number_of_persons_is_public_and_the_number_of_rows_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under replace-one a person may have any number of rows: plan, δ and noise depend on the number of persons."""
    first = _model(delta=None, rows_per_unit=5).fit(X, LABELS, groups=OWNER)
    once = np.unique(OWNER, return_index=True)[1]
    second = _model(delta=None, rows_per_unit=5).fit(X[once], LABELS[once], groups=OWNER[once])
    assert first.privacy_ == second.privacy_
    assert first.privacy_.delta == 1 / 600**2
    with pytest.raises(InvalidInput, match="600 persons"):
        _model(rows_per_unit=5, n_public=len(X)).fit(X, LABELS, groups=OWNER)


def test_the_number_of_persons_is_counted_where_it_is_private(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[Any] = []
    honest = Noisy.sample

    def spied(self: Noisy, data: Any, unit: Any, bits: Any) -> Any:
        answer = honest(self, data, unit, bits)
        counted.append((type(self.query).__name__, len(data), float(np.ravel(answer)[0])))
        return answer

    monkeypatch.setattr(Noisy, "sample", spied)
    shares = {"persons": 3000, "rows": len(X)}
    for weights, rows in shares.items():
        schema = dp.Schema({**SCHEMA, "patient": dp.Person(5, weights)})
        model = dp.LogisticRegression(2.0, 1e-6, schema=schema, adjacency="add-remove", solver="descent")
        model.fit(TABLE, TABLE["y"])
        _, held, answer = next(found for found in counted if found[0] == "RowCount")
        assert held == rows
        assert abs(answer - rows) < 40 * 5 / 0.04  # Laplace noise of scale 5/(0.02·ε): beyond 40 scales once in 2e17
        counted.clear()


def test_nobody_with_an_id_is_a_private_fact_under_add_remove() -> None:
    model = _model(adjacency="add-remove").fit(X, LABELS, groups=[None] * len(X))
    assert model.privacy_.unit.enforced


def test_without_privacy_every_row_takes_part(drawn: list[tuple[int, int]]) -> None:
    free = _model(epsilon=math.inf, delta=None, rows_per_unit=5).fit(X, LABELS, groups=OWNER)
    assert (free.coef_ == _model(epsilon=math.inf, delta=None).fit(X, LABELS).coef_).all()
    assert drawn == []


def test_contradictory_declarations_are_refused() -> None:
    labels = TABLE["y"]
    with pytest.raises(InvalidInput, match="leave groups out"):
        dp.LogisticRegression(schema=SCHEMA).fit(TABLE, labels, groups=OWNER)
    with pytest.raises(InvalidInput, match="leave rows_per_unit out"):
        dp.LogisticRegression(schema=SCHEMA, rows_per_unit=3).fit(TABLE, labels)
    with pytest.raises(InvalidInput, match="no column 'patient'"):
        dp.LogisticRegression(schema=SCHEMA).fit(TABLE.drop(columns="patient"), labels)
    by_rows = dp.Schema({**SCHEMA, "patient": dp.Person(5, "rows")})
    with pytest.raises(InvalidInput, match="adjacency='add-remove', or weights 'persons'"):
        dp.LogisticRegression(schema=by_rows).fit(TABLE, labels)
    with pytest.raises(InvalidInput, match="all candidates"):
        dp.PrivateSearchCV(dp.LogisticRegression(), {"schema": [SCHEMA, by_rows]}).fit(TABLE, labels)
    without = {name: dp.Ignore() if name == "patient" else column for name, column in SCHEMA.items()}
    with pytest.raises(InvalidInput, match="all candidates"):
        dp.PrivateSearchCV(dp.LogisticRegression(), {"schema": [without, dict(SCHEMA)]}).fit(TABLE, labels)
    with pytest.raises(InvalidInput, match="one id a row; a column is named by a schema"):
        _model().fit(X, LABELS, groups="patient")
    with pytest.raises(InvalidInput, match="whose each row is"):
        dp.PrivateSearchCV(_model(), {"alpha": [0.0]}, rows_per_unit=5).fit(X, LABELS)


def test_noise_relative_to_a_persons_part_is_the_same_for_every_bound() -> None:
    """Sums of k rows a person have k times the noise and k times the signal; curvature adds up a little faster."""

    def noise(solver: str, most: int) -> float:
        plan = planned(_model(epsilon=1.0, delta=1e-8, solver=solver, rows_per_unit=most), 800 * most, 75)
        return float(plan.settings["noise_multiplier"]) / most

    for solver in ("descent", "scaled_descent"):
        assert noise(solver, 5) == pytest.approx(noise(solver, 1), rel=1e-6)
    few, many = (noise("objective_perturbation", most) / noise("objective_perturbation", 1) for most in (5, 20))
    assert 1 < few < 1.05 < many < 1.3


def test_one_budget_serves_all_runs_by_persons() -> None:
    ledger = dp.Ledger(epsilon=6.0, delta=1e-5, adjacency=PERSONS)
    _model(rows_per_unit=5, ledger=ledger).fit(X, LABELS, groups=OWNER)
    dp.quantile(X[:, 0], epsilon=1.0, bounds=(-1, 1), adjacency=PERSONS, groups=OWNER, ledger=ledger)
    search = dp.PrivateSearchCV(
        _model(solver="descent"), {"alpha": [0.0]}, epsilon=2.0, delta=1e-6, trials=1, rows_per_unit=5, ledger=ledger
    )
    search.fit(X, LABELS, groups=OWNER)
    assert ledger.spent().upper <= 5.0
    with pytest.raises(BudgetExceeded):
        search.fit(X, LABELS, groups=OWNER)
    with pytest.raises(InvalidInput, match=r"give persons rows up to 5: \{unit: 5\} in the schema, or rows_per_unit=5"):
        _model(ledger=ledger).fit(X, LABELS, groups=OWNER)
    with pytest.raises(InvalidInput, match=r"Use rows_per_unit=5\."):
        _model(ledger=ledger).fit(X, LABELS)
    with pytest.raises(InvalidInput, match="Use adjacency='replace-one'"):
        _model(ledger=ledger, adjacency="add-remove", n_public=600).fit(X, LABELS)


def test_a_ledger_does_not_claim_to_have_bounded_persons() -> None:
    """It keeps budgets for so many rows, and cannot see whose rows a run had."""
    ledger = dp.Ledger(epsilon=6.0, delta=1e-5, adjacency=dp.Unit("replace-one", 5, enforced=True))
    assert ledger.budget is not None
    assert not ledger.budget.unit.enforced
    assert "enforced" not in repr(ledger)


def test_scikit_learn_passes_ids_on() -> None:
    scores = cross_val_score(
        _model(rows_per_unit=5),
        X,
        LABELS,
        cv=GroupKFold(2),
        groups=OWNER,
        params={"groups": OWNER},
        error_score="raise",
    )
    assert scores.min() > 0.7
    made = make_pipeline(FunctionTransformer(), _model(rows_per_unit=5))
    assert made.fit(X, LABELS, logisticregression__groups=OWNER)[-1].privacy_.unit.enforced


# --- weights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [_model(), dp.MeanEstimator(row_norm=1.0), dp.PrivateSearchCV(_model(), {})])
def test_weights_of_rows_are_refused_with_the_reason(model: Any) -> None:
    with pytest.raises(InvalidInput, match=r"count a person ten times.*groups=.*Nothing was released"):
        model.fit(X, LABELS, sample_weight=np.ones(len(X)))
    with pytest.raises(TypeError, match="colour"):
        model.fit(X, LABELS, colour="red")


def test_no_weights_are_as_good_as_none() -> None:
    _model().fit(X, LABELS, sample_weight=None)


def test_weights_of_classes_are_refused_with_the_reason() -> None:
    for kind in (dp.LogisticRegression, dp.LinearSVC):
        with pytest.raises(InvalidInput, match=r"class_weight is not supported: .*threshold"):
            kind(class_weight="balanced")
