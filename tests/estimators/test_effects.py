"""Effects in natural units: they add up to what the model predicts, and are shown as they are."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

import discreet as dp
from discreet.cli import app
from discreet.errors import InvalidInput

N = 3000
RNG = np.random.default_rng(3)
TABLE: dict[str, Any] = {
    "age": RNG.uniform(17, 90, N),
    "income": np.exp(RNG.uniform(3, 11, N)),
    "height": RNG.uniform(150, 200, N),
    "children": RNG.integers(0, 5, N),
    "weight": RNG.uniform(40, 120, N),
    "job": RNG.choice(np.array(["nurse", "clerk", "pilot"], dtype=object), N),
    "country": RNG.choice(np.array(["de", "no"], dtype=object), N),
    "smoker": RNG.random(N) < 0.4,
}
COLUMNS: dict[str, Any] = {
    "age": dp.Numeric(17, 90),
    "income": dp.Numeric(0, 100_000),
    "height": dp.Numeric(150, 200, encoding="linear"),
    "children": dp.Numeric(0, 4, encoding="bins", integer=True),
    "weight": dp.Numeric(40, 120, encoding="both", bins=4),
    "job": dp.Categorical(["nurse", "clerk"]),
    "country": dp.Categorical(["de", "no"], fill="de"),
    "smoker": dp.Boolean(),
}
SCHEMA = dp.Schema(COLUMNS)
SCORES = 0.05 * (TABLE["age"] - 50) + TABLE["smoker"] + 0.1 * (TABLE["height"] - 175)
LABELS = (RNG.random(N) < 1 / (1 + np.exp(-SCORES))).astype(int)
THREE = np.digitize(SCORES + RNG.logistic(size=N), [-1.0, 1.0])


def fitted(kind: Any, y: Any, **options: Any) -> Any:
    return kind(math.inf, schema=SCHEMA, alpha=1e-3, **options).fit(TABLE, y)


LOGISTIC = fitted(dp.LogisticRegression, LABELS, classes=[0, 1])


def score_at(effects: Any, output: int, row: dict[str, Any]) -> float:
    """Intercept and effects of one row, read off the points as a reader would."""
    total = effects.intercepts[output]
    for effect in effects.effects[output]:
        value, points = row[effect.column], effect.points
        column = COLUMNS[effect.column]
        if effect.kind == "curve":
            along = column.rescale(np.array([value, *(p.x for p in points)], dtype=float))
            total += float(np.interp(along[0], along[1:], [p.effect for p in points]))
        elif effect.kind == "steps":
            total += min(points, key=lambda p: abs(p.x - value)).effect
        else:
            labels = {p.label: p.effect for p in points}
            total += labels.get(str(value), labels.get("other", 0.0))
    return total


@pytest.mark.parametrize(
    ("kind", "y", "options"),
    [
        (dp.LogisticRegression, LABELS, {"classes": [0, 1]}),
        (dp.LinearSVC, LABELS, {"classes": [0, 1]}),
        (dp.LinearRegression, SCORES, {"target_bounds": (-10, 10)}),
        (dp.PoissonRegression, RNG.poisson(np.exp(SCORES / 4)), {"target_bounds": (0, 30)}),
    ],
    ids=["logistic", "svc", "linear", "poisson"],
)
def test_effects_add_up_to_the_score(kind: Any, y: Any, options: Any) -> None:
    model = fitted(kind, y, **options)
    effects = model.effects()
    expected = model._scores(TABLE).ravel()
    for i in range(0, N, 100):
        row = {name: cells[i] for name, cells in TABLE.items()}
        row["weight"] = 10.0 * (4 + 2 * (row["weight"] // 20 - 2)) + 10  # the middle of a bin, where it is shown
        shown = {name: np.array([cell], dtype=object) for name, cell in row.items()}
        assert score_at(effects, 0, row) == pytest.approx(float(model._scores(shown)[0, 0]), abs=1e-9)
    assert np.isfinite(expected).all()


def test_three_classes_have_effects_that_sum_to_zero_over_classes() -> None:
    model = fitted(dp.LogisticRegression, THREE, classes=[0, 1, 2])
    effects = model.effects()
    assert effects.outputs == ("0", "1", "2")
    row = {name: cells[7] for name, cells in TABLE.items()} | {"weight": 70.0}
    scores = np.array([score_at(effects, k, row) for k in range(3)])
    assert scores.sum() == pytest.approx(0.0, abs=1e-9)
    shown = {name: np.array([cell], dtype=object) for name, cell in row.items()}
    chances = np.exp(scores) / np.exp(scores).sum()
    assert chances == pytest.approx(model.predict_proba(shown)[0], abs=1e-9)


def test_effects_with_crosses_add_up_to_the_score() -> None:
    schema = dp.Schema(
        {name: COLUMNS[name] for name in ("age", "height", "job", "smoker")}, [("age", "job"), ("height", "smoker")]
    )
    table = {name: TABLE[name] for name in schema}
    model = dp.LogisticRegression(math.inf, schema=schema, classes=[0, 1], alpha=1e-3).fit(table, LABELS)
    effects = model.effects()
    assert {effect.column for effect in effects.effects[0]} == {*schema, "age × job", "height × smoker"}
    by_name = {effect.column: effect for effect in effects.effects[0]}
    for knot in by_name["age"].points:
        for job in by_name["job"].points:
            row = {"age": [knot.x], "height": [150.0], "job": [job.label], "smoker": [True]}
            cross = {p.label: p.effect for p in by_name["age × job"].points}
            other = {p.label: p.effect for p in by_name["height × smoker"].points}
            total = effects.intercepts[0] + knot.effect + job.effect + cross[f"{knot.label} × {job.label}"]
            total += by_name["height"].points[0].effect + by_name["smoker"].points[1].effect + other["150 × True"]
            assert total == pytest.approx(float(model.decision_function(row)[0]), abs=1e-9)
    listed = [p.effect for p in by_name["height × smoker"].points]
    assert listed[0] + listed[1] == pytest.approx(0.0, abs=1e-9)  # what is left of a cross has no means


def test_units_are_those_of_the_column() -> None:
    """The truth is 0.1 a centimetre, and 1 between smokers and others; ``coef_`` says neither."""
    by_name = {effect.column: effect for effect in LOGISTIC.effects().effects[0]}
    assert by_name["height"].slope == pytest.approx(0.1, abs=0.03)
    no, yes = by_name["smoker"].points
    assert yes.effect - no.effect == pytest.approx(1.0, abs=0.35)
    assert [p.label for p in by_name["children"].points] == ["0", "1", "2", "3", "4"]
    assert [p.label for p in by_name["job"].points] == ["nurse", "clerk", "other"]
    assert by_name["income"].log_scale
    spans = [effect.span for effect in LOGISTIC.effects().effects[0]]
    assert spans == sorted(spans, reverse=True)
    for effect in by_name.values():
        assert sum(p.effect for p in effect.points if p.usual) == pytest.approx(0.0, abs=1e-9)


def test_plain_arrays_have_slopes() -> None:
    X = RNG.normal(size=(500, 2)) / 4
    model = dp.LinearRegression(math.inf, row_norm=2.0, target_bounds=(-4, 4)).fit(X, X @ [2.0, -1.0] + 1)
    effects = model.effects()
    assert effects.intercepts == pytest.approx((1.0,), abs=1e-6)
    assert {e.column: e.slope for e in effects.effects[0]} == pytest.approx({"x0": 2.0, "x1": -1.0}, abs=1e-6)


def test_a_loaded_model_has_the_same_effects(tmp_path: Path) -> None:
    LOGISTIC.save(tmp_path / "model.npz")
    assert dp.load(tmp_path / "model.npz").effects() == LOGISTIC.effects()


def test_bands_are_drawn_where_a_model_has_standard_errors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    size = LOGISTIC.coef_.size + 1
    monkeypatch.setattr(type(LOGISTIC), "coef_covariance_", 4.0 * np.eye(size))
    effects = LOGISTIC.effects()
    height = next(effect for effect in effects.effects[0] if effect.column == "height")
    # one feature, ±1/√8 at the ends: a standard error of 2/√8 at each
    assert [p.error for p in height.points] == pytest.approx([2 / math.sqrt(8)] * 2)
    assert "±" in effects.to_html()
    assert "<polygon" in effects.to_html()
    effects.plot(tmp_path / "bands.svg")
    monkeypatch.setattr(type(LOGISTIC), "coef_covariance_", np.eye(2))
    assert LOGISTIC.effects().effects[0][0].points[0].error is None


def test_pictures_and_pages_are_whole_and_show_names_as_text(tmp_path: Path) -> None:
    wild = dp.Schema({"<b>$x$": dp.Categorical(["</td>", "\x1b[31m", "$\\frac"]), "y": dp.Numeric(0, 1)})
    rows = {"<b>$x$": ["</td>", "\x1b[31m", "$\\frac", None] * 50, "y": np.linspace(0, 1, 200)}
    model = dp.LogisticRegression(math.inf, schema=wild, classes=[0, 1], alpha=0.1).fit(rows, [0, 1] * 100)
    figure = model.plot(tmp_path / "model.svg")
    assert len(figure.axes) == 2
    ElementTree.parse(tmp_path / "model.svg")
    model.plot(tmp_path / "model.png")
    assert (tmp_path / "model.png").read_bytes().startswith(b"\x89PNG")
    page = model.effects().to_html()
    assert "&lt;b&gt;$x$" in page
    assert "<b>" not in page
    assert "\x1b" not in page
    assert "<script" not in page
    assert "http" not in page
    assert json.loads(model.effects().to_json())["scale"] == "log-odds"
    with pytest.raises(InvalidInput, match="must end in one of"):
        model.plot(tmp_path / "model.exe")
    model.save(tmp_path / "model.npz")
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "model.npz")])
    assert shown.exit_code == 0
    assert "<b>$x$" in shown.output
    assert "\x1b" not in shown.output


def test_a_missing_matplotlib_is_named_and_needed_for_pictures_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InvalidInput, match=r"discreet\[report\]"):
        LOGISTIC.plot()
    assert LOGISTIC.effects().to_html()
