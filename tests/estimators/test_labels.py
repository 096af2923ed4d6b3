"""The user's own labels come back, are scored, and what could not be scored is refused before it is paid for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.metrics import accuracy_score
from sklearn.model_selection import cross_val_score

import discreet as dp
from discreet.errors import InvalidInput

N = 400
AGES = np.random.default_rng(0).integers(20, 80, N)
OLD = AGES > 50


def schema(target: Any) -> dp.Schema:
    return dp.Schema({"age": dp.Numeric(20, 80, encoding="linear"), "sick": target})


def model(target: Any, **more: Any) -> Any:
    return dp.LogisticRegression(8.0, 1e-6, schema=schema(target), **more)


def ledger() -> dp.Ledger:
    return dp.Ledger(epsilon=100.0, delta=1e-3, adjacency="replace-one")


WORDS = pd.Series(np.where(OLD, "J", "N"), name="sick")
TYPED: dict[str, tuple[Any, Any]] = {
    "words": (dp.Boolean("N", "J"), WORDS),
    "words of objects": (dp.Boolean("N", "J"), WORDS.astype(object)),
    "words of Polars": (dp.Boolean("N", "J"), pl.Series("sick", WORDS.tolist())),
    "zero and one": (dp.Boolean(0, 1), pd.Series(OLD.astype(int), name="sick")),
    "truth values": (dp.Boolean(), pd.Series(OLD, name="sick")),
    "truth values of Polars": (dp.Boolean(), pl.Series("sick", OLD)),
    "whole numbers": (dp.Boolean(), pd.Series(OLD.astype(int), name="sick")),
    "nullable": (dp.Boolean(), pd.Series(OLD, name="sick", dtype="boolean")),
    "floats": (dp.Boolean(), pd.Series(OLD.astype(float), name="sick")),
    "categories": (dp.Categorical(["N", "J"]), WORDS),
    "numbers of three": (dp.Categorical([1, 2, 3]), pd.Series(np.where(OLD, 3, 1), name="sick")),
}


@pytest.mark.parametrize("kind", TYPED)
def test_the_labels_of_y_come_back_and_are_scored(kind: str) -> None:
    target, y = TYPED[kind]
    fitted = model(target).fit({"age": AGES}, y)
    predicted = fitted.predict({"age": AGES})
    assert set(predicted.tolist()) <= set(y.to_list() if hasattr(y, "to_list") else y.tolist())
    assert len(set(predicted.tolist())) == 2
    right = np.mean([a == b for a, b in zip(predicted, y, strict=True)])
    assert right > 0.8
    assert fitted.score({"age": AGES}, y) == pytest.approx(right)
    if isinstance(y, pd.Series) and kind != "nullable":
        assert accuracy_score(y, predicted) == pytest.approx(right)


@pytest.mark.parametrize("scoring", [None, "accuracy", "roc_auc"])
def test_cross_validation_scores_words(scoring: str | None) -> None:
    """With `boolean` alone these were NaN, after ε had been spent. Ranks are scored by classes in order, J before N."""
    frame = pd.DataFrame({"age": AGES})
    target = dp.Boolean("N", "J")
    scores = cross_val_score(model(target), frame, WORDS, cv=2, scoring=scoring)
    assert np.all(scores > 0.7)


@pytest.mark.parametrize("y", [WORDS, WORDS.astype(object), pl.Series("sick", WORDS.tolist())])
def test_words_under_boolean_alone_are_refused_before_they_are_paid_for(y: Any) -> None:
    """All of them were read as no, and all predictions were False."""
    budget = ledger()
    with pytest.raises(InvalidInput, match=r"boolean: \[no, yes\]"):
        model(dp.Boolean(), ledger=budget).fit({"age": AGES}, y)
    assert budget.history() == ()


@pytest.mark.parametrize(
    ("target", "y"),
    [
        (dp.Boolean("no", "yes"), pd.Series(OLD, name="sick")),
        (dp.Categorical(["a", "b"]), pd.Series(AGES, name="sick")),
    ],
)
def test_numbers_under_words_are_refused_before_they_are_paid_for(target: Any, y: Any) -> None:
    budget = ledger()
    with pytest.raises(InvalidInput, match="declared as numbers"):
        model(target, ledger=budget).fit({"age": AGES}, y)
    assert budget.history() == ()


def test_what_is_no_class_is_scored_as_wrong() -> None:
    fitted = model(dp.Boolean("N", "J")).fit({"age": AGES}, WORDS)
    truth = WORDS.astype(object)
    before = fitted.score({"age": AGES}, truth)
    right = fitted.predict({"age": AGES}) == WORDS.to_numpy()
    truth[int(np.flatnonzero(right)[0])] = "?"
    assert fitted.score({"age": AGES}, truth) == pytest.approx(before - 1 / N)
    assert fitted.score({"age": AGES}, WORDS, sample_weight=right.astype(float)) == 1.0


@pytest.mark.parametrize("missing", [np.nan, None, ""])
def test_a_missing_label_is_no_class(missing: Any) -> None:
    """Without declared classes one NaN made the fit raise."""
    y: Any = OLD.astype(float) if isinstance(missing, float) else WORDS.to_numpy(object).copy()
    y[3] = missing
    X = np.column_stack([AGES / 80, np.ones(N)]) / 2
    with pytest.warns(dp.PrivacyWarning, match="classes were taken"):
        fitted = dp.LogisticRegression(8.0, 1e-6, row_norm=1.0).fit(X, y)
    assert len(fitted.classes_) == 2


def test_a_name_in_place_of_a_column_and_a_column_without_a_name_are_explained() -> None:
    frame = pd.DataFrame({"age": AGES, "sick": WORDS})
    budget = ledger()
    with pytest.raises(InvalidInput, match=r"fit\(table, table\['sick'\]\)"):
        model(dp.Boolean("N", "J"), ledger=budget).fit(frame, "sick")
    with pytest.raises(InvalidInput, match=r"y must be named so.*schema.without\('sick'\)"):
        model(dp.Boolean("N", "J"), ledger=budget).fit(frame[["age"]], WORDS.to_numpy())
    assert budget.history() == ()


def test_a_column_of_a_table_knows_its_name(tmp_path: Path) -> None:
    lines = [f"{age};{word}" for age, word in zip(AGES, WORDS, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["age;sick", *lines, ""]))
    declared = schema(dp.Boolean("N", "J"))
    table = dp.read_table(tmp_path / "t.csv", schema=declared, separator=";")
    fitted = dp.LogisticRegression(8.0, 1e-6, schema=declared).fit(table, table["sick"])
    assert fitted.classes_.tolist() == ["J", "N"]
    assert fitted.score(table, table["sick"]) > 0.8
    assert table["sick"][3:9].name == "sick"
    half = table.take(slice(0, 200))
    assert half["age"].tolist() == AGES[:200].tolist()
