"""Crosses of a schema reach the model: what only acts together is learnt, kept in the file and named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet as dp

ROWS = 4000
COLUMNS = {"dose": dp.Numeric(0, 1), "age": dp.Numeric(0, 1), "ward": dp.Categorical(["a", "b"])}


@pytest.fixture(scope="module")
def people() -> tuple[dict[str, Any], np.ndarray]:
    """A dose that helps one half of the ages and harms the other: no column says anything by itself."""
    rng = np.random.default_rng(11)
    table = {"dose": rng.uniform(size=ROWS), "age": rng.uniform(size=ROWS), "ward": rng.choice(["a", "b"], ROWS)}
    chance = np.where((table["dose"] > 0.5) == (table["age"] > 0.5), 0.9, 0.1)
    return table, rng.uniform(size=ROWS) < chance


def fitted(people: tuple[dict[str, Any], np.ndarray], crosses: list[tuple[str, str]]) -> Any:
    table, sick = people
    schema = dp.Schema(COLUMNS, crosses)
    return dp.LogisticRegression(2.0, 1e-8, schema=schema, classes=[False, True], random_state=5).fit(table, sick)


def test_what_acts_together_is_learnt_from_a_cross_alone(people: tuple[dict[str, Any], np.ndarray]) -> None:
    """Ceiling .9. Without a cross at most chance: the standard deviation of 4000 guesses is .008."""
    table, sick = people
    assert fitted(people, []).score(table, sick) < 0.6
    assert fitted(people, [("dose", "age")]).score(table, sick) > 0.8


def test_a_model_with_crosses_is_saved_and_loaded(people: tuple[dict[str, Any], np.ndarray], tmp_path: Path) -> None:
    model = fitted(people, [("dose", "age")])
    model.save(tmp_path / "model.npz")
    loaded = dp.load(tmp_path / "model.npz")
    assert loaded.schema.crosses == (("dose", "age"),)
    assert np.array_equal(loaded.decision_function(people[0]), model.decision_function(people[0]))
    assert "dose ~ 0 × age ~ 0.2" in model.coef_names_
