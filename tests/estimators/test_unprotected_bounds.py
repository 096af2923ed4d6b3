"""Quantiles and bounds that protect nobody say so, and so does every schema, fit and certificate made with them."""

from __future__ import annotations

import copy
import json
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

import discreet as dp
from discreet.cli import app
from discreet.data.unprotected import UnprotectedFloat, is_unprotected
from discreet.errors import InvalidInput
from discreet.geometry import L2Ball

RNG = np.random.default_rng(0)
AGES = RNG.integers(18, 91, 2000)
TABLE = {"age": AGES}
WIDE = dp.Schema({"age": dp.Numeric(0, 10_000, scale="linear")})
SICK = (AGES > 50).astype(int)
UNPROTECTED: list[dict[str, Any]] = [
    {"epsilon": 1.0, "random_state": 0},
    {"epsilon": math.inf},
    {"epsilon": math.inf, "random_state": 0},
]
PROTECTED: dict[str, Any] = {"epsilon": 1.0}


def quantile(q: Any, **changes: Any) -> Any:
    return dp.quantile(AGES, q, **{"bounds": (0, 200), "adjacency": "replace-one", **changes})


def narrow(schema: dp.Schema = WIDE, **changes: Any) -> dp.Schema:
    return dp.private_bounds(TABLE, schema, **{"adjacency": "replace-one", **changes})


def fitted(**changes: Any) -> dp.Certificate:
    certificate = dp.LogisticRegression(1.0, 1e-6, **{"classes": [0, 1], **changes}).fit(TABLE, SICK).privacy_
    assert isinstance(certificate, dp.Certificate)
    return certificate


def assert_not_private(certificate: dp.Certificate, item: str) -> None:
    assert not certificate.private
    assert not certificate.protective
    assert any(item in what for what in certificate.unprotected)
    assert "NOT PRIVATE: bounds taken from the data without protection" in str(certificate)
    tree = json.loads(certificate.to_json())
    assert tree["private"] is False
    assert dp.Certificate.from_json(certificate.to_json()) == certificate


@pytest.mark.parametrize("settings", UNPROTECTED)
def test_quantiles_are_marked_and_take_the_mark_along(settings: dict[str, Any]) -> None:
    one, several = quantile(0.5, **settings), quantile([0.1, 0.9], **settings)
    assert one.private is False
    assert several.private is False
    assert "not private" in repr(one)
    low, high = several
    for number in (one, low, several[1], 1.1 * high, high - 3, -low, several * 2, copy.deepcopy(one)):
        assert is_unprotected(number)
    assert is_unprotected(pickle.loads(pickle.dumps(one)))
    assert dp.Numeric(low, high).bounds_private is False
    assert dp.Numeric(0, 200, fill=one).bounds_private is False


def test_private_quantiles_are_plain_numbers() -> None:
    one, several = quantile(0.5, **PROTECTED), quantile([0.1, 0.9], **PROTECTED)
    assert type(one) is float
    assert type(several) is np.ndarray
    assert dp.Numeric(*several).bounds_private is True


@pytest.mark.parametrize("settings", UNPROTECTED)
def test_bounds_are_marked_and_the_mark_survives_every_file(settings: dict[str, Any], tmp_path: Any) -> None:
    found = narrow(**settings)
    (tmp_path / "schema.yaml").write_text(found.to_yaml())
    for schema in (
        found,
        dp.Schema.from_yaml(found.to_yaml()),
        dp.Schema.from_yaml(tmp_path / "schema.yaml"),
        dp.Schema.from_dict(json.loads(json.dumps(found.to_dict()))),
        pickle.loads(pickle.dumps(found)),
        narrow(found, epsilon=1.0),  # private quantiles between bounds that are not
    ):
        assert schema.unprotected == ("age",)
        assert schema["age"].bounds_private is False
    assert "bounds_private: false" in found.to_yaml()


def test_private_and_declared_bounds_are_not_marked() -> None:
    assert WIDE.unprotected == narrow(**PROTECTED).unprotected == ()
    assert "bounds_private" not in narrow(**PROTECTED).to_yaml()


def test_a_column_that_keeps_its_bounds_because_of_its_rows_is_marked_too() -> None:
    found = dp.private_bounds({"age": [50] * 100}, WIDE, epsilon=math.inf, adjacency="replace-one")
    assert found == WIDE
    assert found.unprotected == ("age",)


@pytest.mark.parametrize("settings", UNPROTECTED)
def test_a_fit_with_such_a_schema_is_certified_as_not_private(settings: dict[str, Any], tmp_path: Any) -> None:
    schema = narrow(**settings)
    ledger = dp.Ledger(epsilon=2.0, delta=1e-5, adjacency="replace-one")
    assert_not_private(fitted(schema=schema, ledger=ledger), "bounds of age")
    assert "NOT PRIVATE" in ledger.history()[0].note
    assert_not_private(fitted(schema=dict(schema)), "bounds of age")
    model = dp.LogisticRegression(1.0, 1e-6, schema=schema, classes=[0, 1]).fit(TABLE, SICK)
    model.save(tmp_path / "model.npz")
    again = dp.load(tmp_path / "model.npz")
    assert_not_private(again.privacy_, "bounds of age")
    assert again.schema.unprotected == ("age",)
    assert fitted(schema=narrow(**PROTECTED)).private


@pytest.mark.parametrize("settings", UNPROTECTED)
def test_a_fit_with_such_numbers_is_certified_as_not_private(settings: dict[str, Any]) -> None:
    norm = quantile(0.9, **settings)
    matrix = AGES[:, None].astype(float)
    model = dp.LogisticRegression(1.0, 1e-6, row_norm=norm, classes=[0, 1])
    for one in (model, clone(model)):
        assert_not_private(one.fit(matrix, SICK).privacy_, "row_norm")
    bounds = tuple(quantile([0.1, 0.9], **settings))
    line = dp.LinearRegression(1.0, 1e-6, row_norm=200.0, target_bounds=bounds).fit(matrix, AGES)
    assert_not_private(line.privacy_, "target_bounds")
    mean = dp.MeanEstimator(1.0, 1e-6, row_norm=norm).fit(matrix)
    assert_not_private(mean.privacy_, "row_norm")


@pytest.mark.parametrize("settings", UNPROTECTED)
def test_a_target_with_such_bounds(settings: dict[str, Any]) -> None:
    import pandas as pd

    schema = dp.Schema({"age": narrow(**settings)["age"], "x": dp.Numeric(0, 1)})
    table = pd.DataFrame({"x": AGES / 100, "age": AGES})
    model = dp.LinearRegression(1.0, 1e-6, schema=schema).fit(table[["x"]], table["age"])
    assert_not_private(model.privacy_, "bounds of age")


def test_a_search_with_such_bounds_among_its_candidates() -> None:
    model = dp.LogisticRegression(row_norm=1.0, classes=[0, 1], solver="descent", solver_options={"iterations": 2})
    grid = {"row_norm": [100.0, quantile(0.9, epsilon=math.inf)]}
    search = dp.PrivateSearchCV(model, grid, epsilon=2.0, delta=1e-6, trials=1).fit(AGES[:, None].astype(float), SICK)
    assert_not_private(search.privacy_, "row_norm")


@pytest.mark.parametrize("word", ["maybe", "0", 1, None, []])
def test_the_mark_is_true_or_false(word: Any) -> None:
    with pytest.raises(InvalidInput, match="bounds_private"):
        dp.Schema.from_dict({"age": {"numeric": [0, 1], "bounds_private": word}})


def test_a_marked_number_is_a_number() -> None:
    number = UnprotectedFloat(2.5)
    assert number == 2.5
    assert json.dumps(number) == "2.5"
    assert f"{number:.2f}" == "2.50"
    assert not is_unprotected(number > 1)
    assert 2**number == pytest.approx(2**2.5)
    with pytest.raises(TypeError):
        number + "a"


@pytest.mark.parametrize("options", [["--epsilon", "1", "--seed", "1"], ["--epsilon", "inf"]])
def test_the_command_line_says_so_and_writes_it(tmp_path: Any, monkeypatch: Any, options: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "\n".join(f"{age},{'yes' if age > 50 else 'no'}" for age in AGES)
    (tmp_path / "people.csv").write_text(f"age,sick\n{rows}\n")
    (tmp_path / "wide.yaml").write_text("age: {numeric: [0, 1000]}\nsick: {boolean: [no, yes]}\n")
    run = CliRunner()
    asked = ["people.csv", "--schema", "wide.yaml"]
    shown = run.invoke(app, ["quantile", *asked, "--column", "age", *options])
    assert shown.exit_code == 0, shown.output
    assert "NOT PRIVATE" in shown.stderr
    assert shown.stdout.startswith("q,value\n0.5,")
    shown = run.invoke(app, ["bounds", *asked, *options, "-o", "narrow.yaml"])
    assert shown.exit_code == 0, shown.output
    assert "NOT PRIVATE" in shown.stderr
    assert "bounds_private: false" in (tmp_path / "narrow.yaml").read_text()
    shown = run.invoke(app, ["schema", "people.csv", "--check", "narrow.yaml"])
    assert "age" in shown.stderr
    assert "NOT PRIVATE" in shown.stderr
    fit = ["fit", "people.csv", "--schema", "narrow.yaml", "--target", "sick", "--epsilon", "1", "-q"]
    shown = run.invoke(app, fit)
    assert shown.exit_code == 0, shown.output
    assert "NOT PRIVATE" in shown.stdout
    assert json.loads((tmp_path / "model.certificate.json").read_text())["private"] is False


def test_the_command_line_is_silent_about_private_ones(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("age\n" + "\n".join(map(str, AGES)) + "\n")
    (tmp_path / "wide.yaml").write_text("age: {numeric: [0, 1000]}\n")
    for command in (["quantile", "--column", "age"], ["bounds"]):
        shown = CliRunner().invoke(
            app, [command[0], "people.csv", "--schema", "wide.yaml", "--epsilon", "1", *command[1:]]
        )
        assert shown.exit_code == 0, shown.output
        assert "NOT PRIVATE" not in shown.output


@pytest.mark.parametrize(
    "derived",
    [
        lambda bound: np.float64(1.1) * bound,
        lambda bound: np.float32(2.0) + bound,
        lambda bound: np.sqrt(bound),
        lambda bound: np.minimum(bound, 300.0),
        lambda bound: round(bound, 1),
        lambda bound: bound // 5 * 5,
        lambda bound: -(-bound % 7),
    ],
)
def test_a_mark_survives_numpy_numbers_and_rounding(derived: Callable[[float], float]) -> None:
    found = derived(UnprotectedFloat(38.5))
    assert is_unprotected(found)
    assert float(found) == float(derived(38.5))


def test_quantiles_between_unprotected_bounds_are_unprotected() -> None:
    low, high = quantile([0.01, 0.99], epsilon=1.0, random_state=5)
    assert is_unprotected(quantile(0.5, epsilon=1.0, bounds=(low, high)))
    assert is_unprotected(quantile(0.5, epsilon=1.0, step=low / 9))


def test_bounds_at_unprotected_quantiles_are_unprotected() -> None:
    assert narrow(**PROTECTED, quantiles=(UnprotectedFloat(0.1), 0.9)).unprotected == ("age",)


def test_a_domain_of_unprotected_size_is_not_private() -> None:
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(300, 2))
    labels = (rows[:, 0] > 0).astype(int)
    model = dp.LogisticRegression(
        epsilon=2.0, delta=1e-5, row_norm=2.0, classes=[0, 1], domain=L2Ball(UnprotectedFloat(3.0))
    )
    certificate = model.fit(rows, labels).privacy_
    assert not certificate.private
    assert any(what.startswith("domain") for what in certificate.unprotected)
