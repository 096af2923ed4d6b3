"""Schemas: contradictions are refused, values never are, and what is written is read back."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.data.columns import Boolean, Categorical, Column, Ignore, Numeric
from discreet.data.schema import Schema, schema_missing, schema_template
from discreet.errors import InvalidInput

EXAMPLE = Schema(
    {
        "age": Numeric(17, 90),
        "gain": Numeric(0, 99999.5, fill=0, bins=12, scale="linear", encoding="both"),
        "visits": Numeric(0, 100, integer=True),
        "job": Categorical(["clerk", "nurse", "no", "null", "007", "1e6"]),
        "grade": Categorical([1, 2, 3.5], fill=2),
        "smoker": Boolean(),
        "sex": Boolean("female", "male", fill=True),
        "id: of #person": Ignore(),
    }
)


@pytest.mark.parametrize(
    ("low", "high", "options", "complaint"),
    [
        (1, 1, {}, "low must be less"),
        (2, 1, {}, "low must be less"),
        (math.nan, 1, {}, "low must be a finite"),
        (0, math.inf, {}, "high must be a finite"),
        (-math.inf, 0, {}, "low must be a finite"),
        ("low", 1, {}, "low must be a finite"),
        (None, 1, {}, "low must be a finite"),
        (False, 1, {}, "low must be a finite"),
        (-1.7e308, 1.7e308, {}, "too wide"),
        (0, 10**400, {}, "high must be a finite"),
        (0, 1, {"fill": 2}, "outside"),
        (0, 1, {"fill": math.nan}, "fill must be a finite"),
        (0, 1, {"bins": 1}, "bins must be"),
        (0, 1, {"bins": 2.5}, "bins must be"),
        (0, 1, {"bins": True}, "bins must be"),
        (0, 1, {"bins": 10**9}, "bins must be"),
        (0, 1, {"scale": "cubic"}, "scale must be"),
        (-1, 1, {"scale": "log"}, "low ≥ 0"),
        (0, 1, {"encoding": "hash"}, "encoding must be"),
        (0, 1, {"integer": "yes"}, "integer must be"),
    ],
)
def test_contradictory_numeric_columns(low: Any, high: Any, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        Numeric(low, high, **options)


@pytest.mark.parametrize(
    ("categories", "fill", "complaint"),
    [
        ([], None, "empty"),
        (["a", "a"], None, "'a' more than once"),
        (["a", " a "], None, "'a' more than once"),
        ([1, "1"], None, "'1' more than once"),
        ([1, 1.0], None, "'1' more than once"),
        (["a", ""], None, "blank"),
        (["a", math.nan], None, "blank or undefined"),
        (["a", None], None, "text or a number"),
        ([True, False], None, "Boolean"),
        (["a"], "b", "not one of"),
        ("abc", None, "a list"),
        (3, None, "a list"),
    ],
)
def test_contradictory_categories(categories: Any, fill: Any, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        Categorical(categories, fill=fill)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"false": "f"}, "both"),
        ({"true": "t"}, "both"),
        ({"false": 1, "true": "1"}, "differ"),
        ({"fill": "yes"}, "fill"),
    ],
)
def test_contradictory_booleans(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        Boolean(**arguments)


@pytest.mark.parametrize("columns", [{}, None, [], {"a": "numeric"}, {"": Numeric(0, 1)}, {1: Numeric(0, 1)}])
def test_not_a_schema(columns: Any) -> None:
    with pytest.raises(InvalidInput):
        Schema(columns)


STRANGE_CELLS: list[Any] = [
    None,
    math.nan,
    math.inf,
    -math.inf,
    1e308,
    10**400,
    "",
    "?",
    "ten",
    "1_0",
    " 12 ",
    "nan",
    "-inf",
    "1e999",
    b"12",
    True,
    3 + 4j,
    Decimal("5.5"),
    Decimal("sNaN"),
    [1, 2],
    {"a": 1},
    np.float32(3.5),
    np.array([1.0]),
    np.datetime64("2020-01-01"),
    datetime.date(2020, 1, 1),
    object(),
]


@pytest.mark.parametrize(
    "column", [Numeric(0, 10), Categorical([1, "ten", 3.5], fill=1), Categorical(["x"]), Boolean()]
)
def test_no_cell_raises_and_none_changes_how_another_is_read(column: Numeric | Categorical | Boolean) -> None:
    alone = [column.read([cell])[0] for cell in STRANGE_CELLS]
    assert column.read(STRANGE_CELLS).tolist() == alone
    for neighbour in STRANGE_CELLS:
        together = [column.read([neighbour, cell])[1] for cell in STRANGE_CELLS]
        assert together == alone


def test_numbers_are_clipped_and_filled() -> None:
    read = Numeric(0, 10, fill=1).read([None, "ten", math.inf, -math.inf, "1e999", " 12 ", "3.5", Decimal(2), True])
    assert read.tolist() == [1.0, 1.0, 10.0, 0.0, 10.0, 10.0, 3.5, 2.0, 1.0]


@given(st.lists(st.floats(allow_nan=True) | st.text(max_size=5) | st.integers() | st.none(), max_size=30))
def test_read_numbers_stay_inside(cells: list[Any]) -> None:
    read = Numeric(-3, 7.5).read(cells)
    assert len(read) == len(cells)
    assert np.all((read >= -3) & (read <= 7.5))


def test_the_fill_is_the_middle_of_the_scale() -> None:
    assert Numeric(10, 20).constant == 15.0
    assert Numeric(1, 10_000, scale="log").constant == pytest.approx(100.0)
    assert 0 < Numeric(0, 10_000).constant < 1000


@pytest.mark.parametrize(
    ("column", "logarithmic"),
    [
        (Numeric(0, 999), False),
        (Numeric(0, 1000), True),
        (Numeric(1900, 2030), False),
        (Numeric(1, 1000), True),
        (Numeric(-1, 1e6), False),
        (Numeric(0, 1e6, scale="linear"), False),
        (Numeric(0, 1, scale="log"), True),
    ],
)
def test_the_scale_follows_from_the_bounds(column: Numeric, logarithmic: bool) -> None:
    assert column.logarithmic is logarithmic


@given(st.sampled_from([Numeric(-5, 5), Numeric(0, 1e5), Numeric(2, 1e7), Numeric(0, 50, scale="log", integer=True)]))
def test_rescaling_is_increasing_onto_the_unit_interval(column: Numeric) -> None:
    inside = column.unscale(np.linspace(0, 1, 50))
    assert inside[0] == pytest.approx(column.low, abs=1e-9)
    assert inside[-1] == pytest.approx(column.high)
    assert np.all(np.diff(inside) > 0)
    assert column.rescale(inside) == pytest.approx(np.linspace(0, 1, 50), abs=1e-12)


def test_categories_are_compared_as_text() -> None:
    column = Categorical([1, 2.5, "x"])
    assert column.read([1, 1.0, "1", " 1 ", True, np.int8(1), 2.5, "2.5", "x ", "X", None]).tolist() == [
        *[0] * 6,
        *[1] * 2,
        2,
        3,
        3,
    ]
    assert column.levels == ("1", "2.5", "x", "other")


def test_a_fill_replaces_the_other_category() -> None:
    column = Categorical(["a", "b"], fill="b")
    assert column.levels == ("a", "b")
    assert column.read(["a", "c", None]).tolist() == [0, 1, 1]


def test_booleans() -> None:
    assert Boolean().read(["Yes", "no", "TRUE", 0, 1.0, False, "?", None]).tolist() == [1, -1, 1, -1, 1, -1, 0, 0]
    assert Boolean(fill=False).read([None]).tolist() == [-1]
    assert Boolean("0", "2").read([0, 2, "1"]).tolist() == [-1, 1, 0]


def test_a_target_that_is_unknown_has_no_label_unless_a_fill_says_so() -> None:
    assert Categorical(["a", "b"]).labels(["b", "a", "?", None]).tolist() == [1, 0, -1, -1]
    assert Categorical(["a", "b"], fill="b").labels(["b", "a", "?"]).tolist() == [1, 0, 1]
    assert Boolean().labels(["yes", 0, None, "J"]).tolist() == [1, 0, -1, -1]
    assert Boolean(fill=False).labels(["yes", 0, None]).tolist() == [1, 0, 0]
    assert Boolean(fill=True).labels(["yes", 0, None]).tolist() == [1, 0, 1]


def test_written_and_read_back() -> None:
    assert Schema.from_yaml(EXAMPLE.to_yaml()) == EXAMPLE
    assert Schema.from_dict(EXAMPLE.to_dict()) == EXAMPLE
    assert hash(Schema.from_dict(EXAMPLE.to_dict())) == hash(EXAMPLE)
    assert Schema({"a": Numeric(0, 1)}) != Schema({"a": Numeric(0, 2)})


@given(
    st.lists(st.text(max_size=8).filter(lambda text: text.strip() == text != ""), min_size=1, max_size=5, unique=True),
    st.floats(-1e300, 1e300),
    st.floats(1e-3, 1e300),
)
def test_any_schema_is_read_back(names: list[str], low: float, width: float) -> None:
    columns: dict[str, Column] = {name: Categorical(names) for name in names}
    if low < low + width < math.inf:
        columns[names[0]] = Numeric(low, low + width)
    schema = Schema(columns)
    assert Schema.from_yaml(schema.to_yaml()) == schema


def test_reads_a_file_and_text(tmp_path: Path) -> None:
    path = tmp_path / "schema.yaml"
    path.write_text("country: {categorical: [no, se]}\nage: {numeric: [0, 120]}\nsmoker: boolean\n")
    expected = Schema({"country": Categorical(["no", "se"]), "age": Numeric(0, 120), "smoker": Boolean()})
    assert Schema.from_yaml(path) == Schema.from_yaml(str(path)) == Schema.from_yaml(path.read_text()) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("missing.yaml", "cannot read"),
        ("a: [1", "not YAML"),
        ("- a\n- b", "mapping"),
        ("a: {numeric: [0, 1]}\na: {numeric: [0, 2]}\n", "'a' more than once"),
        ("a: {numeric: [0, 1], numeric: [0, 2]}", "'numeric' more than once"),
        ("a: {numeric: [0, 1], categorical: [x]}", "one of"),
        ("a: {number: [0, 1]}", "one of"),
        ("a: {numeric: [LOW, HIGH]}", "column 'a': low must be"),
        ("a: {numeric: [3, 1]}", "column 'a': low must be less"),
        ("a: {numeric: [1]}", "low, high"),
        ("a: {numeric: 3}", "takes a list"),
        ("a: {numeric: [0, 1], filling: 3}", "'filling'"),
        ("a: {numeric: [0, 1], bins: many}", "bins must be"),
        ("a: {boolean: [x]}", "boolean takes"),
        ("a: {ignore: [x]}", "ignore takes nothing"),
        ("a: [1, 2]", "declared as"),
        ("a: {categorical: [[x]]}", "text or a number"),
        ("a: !!python/object:os.system {}", "not YAML"),
    ],
)
def test_bad_yaml(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        Schema.from_yaml(text)


def test_target() -> None:
    assert EXAMPLE.target("age") == Numeric(17, 90)
    assert "age" not in EXAMPLE.without("age")
    with pytest.raises(InvalidInput, match="no column 'wage'"):
        EXAMPLE.without("wage")
    with pytest.raises(InvalidInput, match="ignored"):
        EXAMPLE.target("id: of #person")


def test_the_template_is_a_schema_once_filled_in() -> None:
    template = schema_template(["age", "yes", "a: b", "1e3"])
    with pytest.raises(InvalidInput, match="LOW"):
        Schema.from_yaml(template)
    assert list(Schema.from_yaml(template.replace("LOW, HIGH", "0, 1"))) == ["age", "yes", "a: b", "1e3"]
    assert template in str(schema_missing(["age", "yes", "a: b", "1e3"]))


def test_a_logarithmic_scale_has_a_finite_ratio() -> None:
    with pytest.raises(InvalidInput, match="high/low"):
        Numeric(1e-300, 1e300, scale="log")
    assert not Numeric(1e-300, 1e300).logarithmic


def test_a_path_in_place_of_a_schema_is_told_how_files_are_read():
    with pytest.raises(InvalidInput, match=r"Schema\.from_yaml reads a file"):
        Schema("schema.yaml")


def test_crosses_are_read_and_written() -> None:
    text = "age: {numeric: [17, 90]}\njob: {categorical: [clerk, nurse]}\ncrosses: [[age, job]]\n"
    schema = Schema.from_yaml(text)
    assert schema.crosses == (("age", "job"),)
    assert list(schema) == ["age", "job"]
    assert schema.to_yaml() == text
    assert schema != Schema(dict(schema))
    assert hash(schema) != hash(Schema(dict(schema)))
    assert Schema.from_dict(schema.to_dict()) == schema


def test_a_column_may_be_named_crosses() -> None:
    schema = Schema.from_yaml("crosses: {numeric: [0, 9]}\nage: {numeric: [17, 90]}\n")
    assert list(schema) == ["crosses", "age"]
    assert Schema.from_dict(schema.to_dict()) == schema


@pytest.mark.parametrize(
    ("crosses", "message"),
    [
        ("age", "a list of pairs"),
        ([["age"]], "two different columns"),
        ([["age", "age"]], "two different columns"),
        (["ab"], "two different columns"),
        ([["age", "height"]], "needs a column 'height'"),
        ([["age", "id"]], "needs a column 'id'"),
        ([["age", "job"], ["job", "age"]], "more than once"),
        ([["age", 3]], "name"),
    ],
)
def test_crosses_of_columns_that_are_not_there_are_refused(crosses: Any, message: str) -> None:
    columns = {"age": Numeric(17, 90), "job": Categorical(["clerk", "nurse"]), "id": Ignore()}
    with pytest.raises(InvalidInput, match=message):
        Schema(columns, crosses)


@pytest.mark.parametrize(
    "table",
    ["age,dose\n27,87.654321\n", "age: 1\n- 87.654321\n", '"87.654321" b: c\n', "{87.654321: [}\n", "%87.654321"],
)
def test_a_table_given_as_a_schema_is_not_repeated(tmp_path, table):
    """Its rows stood in the message, up to 200 characters of them."""
    (tmp_path / "people.csv").write_text(table)
    with pytest.raises(InvalidInput, match="A schema looks like this") as refused:
        Schema.from_yaml(tmp_path / "people.csv")
    assert "87.654321" not in str(refused.value)
