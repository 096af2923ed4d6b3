"""Interactions from the user's side: what is chosen, shown, saved, refused, and what it costs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import discreet as dp
from discreet.errors import InvalidInput
from discreet.estimators.loading import load

SCHEMA = dp.Schema(
    {
        "a": dp.Numeric(0, 1),
        "b": dp.Numeric(0, 1),
        "c": dp.Categorical(["x", "y", "z"], fill="x"),
        "d": dp.Boolean(),
        "e": dp.Numeric(0, 1, encoding="linear"),
    }
)


def table(n: int, seed: int = 0) -> tuple[dict[str, Any], Any]:
    """a and b together tell the label, and each alone nothing."""
    rng = np.random.default_rng(seed)
    a, b, e = rng.random((3, n))
    cells = {"a": a, "b": b, "c": rng.choice(["x", "y", "z"], n), "d": rng.choice(["yes", "no"], n), "e": e}
    return cells, ((a - 0.5) * (b - 0.5) + 0.02 * rng.normal(size=n) > 0).astype(int)


X, Y = table(6000)
NEW, NEW_Y = table(1000, 1)


@pytest.fixture(scope="module")
def classifier() -> dp.LogisticRegression:
    return dp.LogisticRegression(4.0, 1e-6, schema=SCHEMA, classes=[0, 1], random_state=1).fit(X, Y)


@pytest.fixture(scope="module")
def regressor() -> dp.LinearRegression:
    model = dp.LinearRegression(4.0, 1e-6, schema=SCHEMA, target_bounds=(-1, 1), random_state=1)
    return model.fit(X, (X["a"] - 0.5) * (X["b"] - 0.5) * 3)


def test_the_pair_is_found_and_predicts(classifier: Any, regressor: Any) -> None:
    assert ("a", "b") in classifier.interactions_
    assert ("a", "b") in regressor.interactions_
    assert classifier.score(NEW, NEW_Y) > 0.8
    assert regressor.score(NEW, (NEW["a"] - 0.5) * (NEW["b"] - 0.5) * 3) > 0.7


def test_an_additive_model_is_left_additive() -> None:
    model = dp.LogisticRegression(4.0, 1e-6, schema=SCHEMA, classes=[0, 1], interactions=False, random_state=1)
    assert model.fit(X, Y).interactions_ == ()
    assert model.score(NEW, NEW_Y) < 0.6
    assert model.privacy_.solver != "interactions"


def test_the_certificate_says_what_was_chosen_and_adds_up(classifier: Any) -> None:
    privacy = classifier.privacy_
    assert privacy.solver == "interactions"
    assert "a × b" in privacy.settings["chosen"]
    assert privacy.recompute().upper <= 4.0
    assert "a × b" in str(classifier.summary())


def test_effects_add_up_to_the_scores(classifier: Any) -> None:
    """At knots the intercept and the effects of columns and pairs are the score."""
    effects = classifier.effects()
    assert "a × b" in {effect.column for effect in effects.effects[0]}
    by_column = {effect.column: {point.label: point for point in effect.points} for effect in effects.effects[0]}
    pick = {name: list(by_column[name])[1] for name in SCHEMA}
    cells = {
        name: [by_column[name][label].x if by_column[name][label].x is not None else label]
        for name, label in pick.items()
    }
    total = effects.intercepts[0] + sum(by_column[name][label].effect for name, label in pick.items())
    for left, right in classifier.interactions_:
        total += by_column[f"{left} × {right}"][f"{pick[left]} × {pick[right]}"].effect
    assert math.isclose(total, float(classifier.decision_function(cells)[0]), abs_tol=1e-6)


def test_a_saved_model_predicts_and_shows_the_same(classifier: Any, regressor: Any, tmp_path: Any) -> None:
    for model in (classifier, regressor):
        model.save(tmp_path / "model.npz")
        loaded = load(tmp_path / "model.npz")
        assert (loaded.predict(NEW) == model.predict(NEW)).all()
        assert loaded.interactions_ == model.interactions_
        assert loaded.effects().to_json() == model.effects().to_json()
        assert loaded.coef_names_.tolist() == model.coef_names_.tolist()


def test_little_budget_leaves_the_model_additive() -> None:
    model = dp.LogisticRegression(0.05, 1e-6, schema=SCHEMA, classes=[0, 1]).fit(X, Y)
    assert model.privacy_.solver != "interactions"


def test_without_privacy_the_pair_is_found_too() -> None:
    model = dp.LogisticRegression(math.inf, schema=SCHEMA, classes=[0, 1]).fit(X, Y)
    assert ("a", "b") in model.interactions_
    assert model.score(NEW, NEW_Y) > 0.85


def test_named_pairs_are_crosses() -> None:
    model = dp.LogisticRegression(4.0, 1e-6, schema=SCHEMA, classes=[0, 1], interactions=[("a", "b")]).fit(X, Y)
    assert model.interactions_ == (("a", "b"),)
    assert model.score(NEW, NEW_Y) > 0.8


@pytest.mark.parametrize(
    ("asked", "said"),
    [(True, "False, 'auto' or a list"), ("all", "False, 'auto' or a list"), (3, "False, 'auto' or a list"),
     ([("a", "q")], "'q'"), ([("a",)], "two different columns"), ([("a", "a")], "two different columns")],
)  # fmt: skip
def test_what_is_no_interaction_is_refused(asked: Any, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        dp.LogisticRegression(1.0, 1e-6, schema=SCHEMA, classes=[0, 1], interactions=asked).fit(X, Y)


def test_pairs_need_a_schema() -> None:
    with pytest.raises(InvalidInput, match="schema"):
        dp.LinearRegression(1.0, 1e-6, row_norm=1.0, target_bounds=(0, 1), interactions=[("a", "b")]).fit(
            np.ones((3, 2)), np.ones(3)
        )


def test_the_plan_does_not_depend_on_what_is_chosen() -> None:
    """Targets that nothing tells, targets that a pair tells, and hostile cells: the same events are charged."""
    found = set()
    wild = {**X, "a": ["?"] * 6000, "c": [None] * 6000}
    for cells, targets in ((X, Y), (X, np.arange(6000) % 2), (wild, Y)):
        model = dp.LogisticRegression(4.0, 1e-6, schema=SCHEMA, classes=[0, 1], random_state=2).fit(cells, targets)
        found.add(str(model.privacy_.event))
    assert len(found) == 1


def test_the_plan_of_a_regression_does_not_depend_on_residuals() -> None:
    """Slopes are cut by the size of the pilot's residuals: none at all, large ones, and targets that are no numbers."""
    found = set()
    told = (X["a"] - 0.5) * (X["b"] - 0.5) * 3
    for targets in (told, np.sign(told), np.where(X["a"] > 0.5, np.nan, told)):
        model = dp.LinearRegression(4.0, 1e-6, schema=SCHEMA, target_bounds=(-1, 1), random_state=2).fit(X, targets)
        assert model.privacy_.solver == "interactions"
        found.add(str(model.privacy_.event))
    assert len(found) == 1


def test_a_search_compares_additive_models() -> None:
    model = dp.LogisticRegression(schema=SCHEMA, classes=[0, 1])
    search = dp.PrivateSearchCV(model, {"alpha": [0.0, 0.1]}, epsilon=8.0, delta=1e-6, random_state=1).fit(X, Y)
    assert search.best_estimator_.interactions_ == ()
    assert len(search.predict(NEW)) == 1000


AMOUNTS = dp.Schema({"paid": dp.Numeric(0, 1000, scale="linear"), "f": dp.Boolean()})
CODES = np.array([100.0, 130, 160, 190, 220, 250, 280, 310])


def amounts(n: int, seed: int) -> tuple[dict[str, Any], Any]:
    """Most rows pay nothing; of those who do, every other amount tells the label."""
    rng = np.random.default_rng(seed)
    code = rng.integers(len(CODES), size=n)
    paid = np.where(rng.random(n) < 0.4, CODES[code], 0.0)
    return {"paid": paid, "f": rng.choice(["yes", "no"], n)}, np.where(paid > 0, code % 2, rng.integers(2, size=n))


@pytest.fixture(scope="module")
def payer() -> dp.LogisticRegression:
    cells, labels = amounts(8000, 0)
    return dp.LogisticRegression(4.0, 1e-6, schema=AMOUNTS, classes=[0, 1], random_state=1).fit(cells, labels)


def test_amounts_that_recur_have_cells_of_their_own(payer: Any) -> None:
    cells, labels = amounts(2000, 1)
    paying = cells["paid"] > 0
    assert (payer.predict(cells) == labels)[paying].mean() > 0.95
    additive = dp.LogisticRegression(
        4.0, 1e-6, schema=AMOUNTS, classes=[0, 1], interactions=False, random_state=1
    ).fit(*amounts(8000, 0))  # fmt: skip
    assert (additive.predict(cells) == labels)[paying].mean() < 0.8
    assert "paid in" in payer.privacy_.settings["chosen"]
    assert "cells" in payer.privacy_.settings["chosen"]


def test_effects_of_cells_add_up_and_are_saved(payer: Any, tmp_path: Any) -> None:
    """On either side of every jump: the intercept and the effects are the score, and labels tell the sides apart."""
    (found,) = payer.effects().effects
    by_column = {effect.column: effect for effect in found}
    points, flag = by_column["paid"].points, by_column["f"].points[0]
    assert len({point.label for point in points}) == len(points)
    cells = {"paid": [point.x for point in points], "f": [flag.label] * len(points)}
    expected = payer.effects().intercepts[0] + flag.effect + np.array([point.effect for point in points])
    assert payer.decision_function(cells) == pytest.approx(expected, abs=1e-6)
    payer.save(tmp_path / "model.npz")
    loaded, (new, _) = load(tmp_path / "model.npz"), amounts(500, 2)
    assert (loaded.decision_function(new) == payer.decision_function(new)).all()
    assert loaded.effects().to_json() == payer.effects().to_json()
