"""One line of a file, or one cell of a table, changes its own row: never how many rows there are, nor another row.

Claim: for every reader r there are functions f_i of public facts with r(table)_i = f_i(line i alone). So replacing one
line changes one encoded row, which is what the sensitivities of all queries assume.
"""

from __future__ import annotations

import datetime
import gzip
import io
import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

import discreet as dp
from discreet.data.encoding import Encoder
from discreet.data.frames import as_table, read_table
from discreet.data.steps import chunks
from discreet.errors import InvalidInput

SCHEMA = dp.Schema(
    {
        "age": dp.Numeric(0, 100),
        "sick": dp.Boolean(),
        "job": dp.Categorical(["clerk", "nurse", 3, "07", 9007199254740993, "True"]),
    }
)
HEADER = b"age,sick,job"
FRAGMENTS: list[bytes] = [
    *(b'"', b'""', b",", b"\t", b" ", b"'", b"\\", b";", b"#", b"\r", b"\r\r", b"\x0b", b"\x0c", b"\x1a", b"\x1c"),
    *(b"\x1e", b"\x00", b"\x85", b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9", b"\xff\xfe", b"\xfe\xff"),
    *(b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xf0\x9f", b"1", b"2.5", b"1e999", b"nan", b"3,5", b"1_0", b"0x1", b"yes"),
    *(b"clerk", b"nurse", b"no", b"True", b"9007199254740993", "\u0663".encode(), b"x" * 140_000, b"\x1b[2J", b"=1+1"),
]  # fmt: skip
LINES = st.lists(st.sampled_from(FRAGMENTS), max_size=8).map(b"".join)
FILES = ["t.csv", "t.tsv", "t.txt", "t.csv.gz"]


def encoded(table: Any) -> tuple[Any, Any]:
    """Encoded rows and labels by the public way."""
    encoder = Encoder(SCHEMA, target="sick", output="dense")
    column: Any = SCHEMA["sick"]
    return encoder.transform(table), column.labels(as_table(table, list(SCHEMA))["sick"])


def assert_one_row_changed(before: Any, after: Any, row: int) -> None:
    (X, y), (X_new, y_new) = encoded(before), encoded(after)
    assert X.shape == X_new.shape
    assert y.shape == y_new.shape
    others = np.arange(len(y)) != row
    assert np.array_equal(X[others], X_new[others])
    assert np.array_equal(y[others], y_new[others])


def written(folder: Path, name: str, lines: list[bytes], *, last: bytes = b"\n", typed: bool = False) -> Any:
    header = HEADER.replace(b",", b"\t") if name.endswith(".tsv") else HEADER
    content = b"\n".join([header, *lines]) + last
    (folder / name).write_bytes(gzip.compress(content, 1) if name.endswith(".gz") else content)
    return read_table(folder / name, schema=SCHEMA if typed else None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lines")


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=150, deadline=None)
@given(
    lines=st.lists(LINES, min_size=1, max_size=6),
    new=LINES,
    place=st.integers(0, 5),
    ends=st.booleans(),
    typed=st.booleans(),
)
def test_one_line_of_a_file_is_one_row(
    folder: Path, name: str, lines: list[bytes], new: bytes, place: int, ends: bool, typed: bool
) -> None:
    place %= len(lines)
    changed = [*lines[:place], new, *lines[place + 1 :]]
    last = b"\n" if ends or b"" in (lines[-1], changed[-1]) else b""  # an empty line without its end is no line
    before, after = (written(folder, name, cells, last=last, typed=typed) for cells in (lines, changed))
    assert before.shape == after.shape == (len(lines), 3)
    assert_one_row_changed(before, after, place)


@pytest.mark.parametrize(
    "line",
    [
        b'"', b'41,"no,clerk', b"41\r42,no,clerk", b"", b"\r", b"\x0b", b"\xe2\x80\xa8", b"\x00", b"\xff", b"\xf0\x9f",
        b"\xef\xbb\xbf41,no,clerk", b"1," + b"x" * 200_000, b'"a"b"c,"d""', b",,,,,,", b"\x1a", b"\xff\xfe4\x001\x00",
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", FILES)
def test_no_line_swallows_adds_or_removes_a_row(folder: Path, name: str, line: bytes) -> None:
    """The first four did: of 2000 lines after an open quote none was left."""
    lines = [b"%d,yes,nurse" % (i % 90) for i in range(2000)]
    changed = [*lines[:11], line, *lines[12:]]
    if name.endswith(".tsv"):
        lines, changed = ([one.replace(b",", b"\t") for one in some] for some in (lines, changed))
    for typed in (False, True):  # as text, and by declared kinds, as fits read it
        before, after = (written(folder, name, some, typed=typed) for some in (lines, changed))
        assert after.shape == (2000, 3)
        assert_one_row_changed(before, after, 11)


NUMBERS = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, 1, 3, 7, 2**53 + 1]))
CELLS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "integers": (pa.int64(), NUMBERS),
    "floats": (pa.float64(), st.one_of(st.none(), st.floats(), st.sampled_from([3.0, 7.0]))),
    "truth values": (pa.bool_(), st.one_of(st.none(), st.booleans())),
    "text": (pa.string(), st.one_of(st.none(), st.sampled_from(["clerk", "nurse", "3", "07", "7", "", "yes"]))),
    "decimals": (pa.decimal128(9, 2), st.one_of(st.none(), st.sampled_from([Decimal("3"), Decimal("7.5")]))),
    "dates": (pa.timestamp("ns"), st.sampled_from([None, *(datetime.datetime(year, 1, 1) for year in (1999, 2030))])),
}  # fmt: skip
FRAMES: dict[str, Callable[[pa.Table, Path], Any]] = {
    "arrow": lambda table, folder: table,
    "parquet": lambda table, folder: through_parquet(table, folder),
    "pandas": lambda table, folder: table.to_pandas(),
    "pandas of Arrow": lambda table, folder: table.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas nullable": lambda table, folder: table.to_pandas().convert_dtypes(),
    "pandas objects": lambda table, folder: table.to_pandas().astype(object),
    "polars": lambda table, folder: pl.from_arrow(table),
    "columns of lists": lambda table, folder: table.to_pydict(),
    "rows of lists": lambda table, folder: [list(row.values()) for row in table.to_pylist()],
    "object matrix": lambda table, folder: np.array([list(row.values()) for row in table.to_pylist()], dtype=object),
}


def through_parquet(table: pa.Table, folder: Path) -> Any:
    parquet.write_table(table, folder / "t.parquet")
    return read_table(folder / "t.parquet")


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("kind", CELLS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_one_cell_of_a_typed_column_is_one_row(folder: Path, frame: str, kind: str, data: st.DataObject) -> None:
    arrow, cells = CELLS[kind]
    column = data.draw(st.lists(cells, min_size=2, max_size=5))
    place, new = data.draw(st.integers(0, len(column) - 1)), data.draw(cells)
    dictionary = data.draw(st.booleans()) and kind in ("text", "integers")

    def table(values: list[Any]) -> Any:
        made = pa.array(values, arrow)
        made = made.dictionary_encode() if dictionary else made
        return FRAMES[frame](pa.table({"age": made, "sick": made, "job": made}), folder)

    changed = [*column[:place], new, *column[place + 1 :]]
    assert_one_row_changed(table(column), table(changed), place)


@pytest.mark.parametrize("values", [["clerk", None, "nurse"], [3, None, 7]])
@pytest.mark.parametrize("make", [lambda column: column, lambda column: pa.chunked_array([column])])
def test_a_null_of_a_dictionary_column_is_nobodys_value(values: list[Any], make: Any) -> None:
    """It was read as the dictionary's last value, so it changed with other people's categories."""
    column = make(pa.array(values).dictionary_encode())
    plain = encoded({"age": values, "sick": values, "job": values})
    for table in (
        {"age": column, "sick": column, "job": column},
        pa.table({"age": column, "sick": column, "job": column}),
    ):
        assert np.array_equal(encoded(table)[0], plain[0])


class Hostile:
    """Every way of asking what it is raises."""

    def _refuse(self, *_: Any) -> Any:
        raise RuntimeError("somebody's cell")

    __hash__ = __eq__ = __float__ = __int__ = __index__ = __str__ = __repr__ = __len__ = __bool__ = _refuse  # type: ignore[assignment]
    __iter__ = __array__ = __lt__ = _refuse


class HostileText(str):
    """Text whose methods raise."""

    __hash__ = strip = lower = __len__ = Hostile._refuse  # type: ignore[assignment]


class HostileFloat(float):
    """A number whose methods raise."""

    __hash__ = __float__ = is_integer = __eq__ = Hostile._refuse  # type: ignore[assignment]


OBJECTS: list[Any] = [
    1, 0, 3, 3.0, "3", "3.0", "03", 7, "7", True, False, "yes", "no", "clerk", " nurse", "", None, float("nan"),
    2**53 + 1, 10**400, "1e400", -(10**5000), b"clerk", 1j, [1], (1, 2), {1}, {"a": 1}, np.array(1.0), np.zeros((2, 3)),
    pd.NA, pd.NaT, np.ma.masked, np.float32(3), np.longdouble(7), np.str_("clerk"), np.datetime64("2020-01-01"),
    datetime.date(2020, 1, 1), Decimal("3"), Decimal("sNaN"), Hostile(), HostileText("clerk"), HostileFloat(3.0), str,
]  # fmt: skip


WHICH = st.integers(0, len(OBJECTS) - 1)  # by number: some of them have no repr to show


def one_replaced(cells: list[int], new: int, place: int) -> tuple[list[Any], list[Any]]:
    numbers = [*cells[:place], new, *cells[place + 1 :]]
    return [OBJECTS[k] for k in cells], [OBJECTS[k] for k in numbers]


def objects(cells: list[Any]) -> Any:
    return np.fromiter(cells, dtype=object, count=len(cells))


UNTYPED: dict[str, Callable[[list[Any]], Any]] = {
    "columns of lists": lambda cells: {"age": cells, "sick": cells, "job": cells},
    "rows of lists": lambda cells: [[cell, cell, cell] for cell in cells],
    "rows of tuples": lambda cells: [(cell, cell, cell) for cell in cells],
    "object columns": lambda cells: {"age": objects(cells), "sick": objects(cells), "job": objects(cells)},
    "object matrix": lambda cells: np.repeat(objects(cells), 3).reshape(-1, 3),
    "pandas objects": lambda cells: pd.DataFrame({name: pd.Series(objects(cells), dtype=object) for name in SCHEMA}),
}


@pytest.mark.parametrize("make", UNTYPED)
@settings(max_examples=150, deadline=None)
@given(numbers=st.lists(WHICH, min_size=2, max_size=5), new=WHICH, place=st.integers(0, 4))
def test_one_cell_without_a_type_is_one_row(make: str, numbers: list[int], new: int, place: int) -> None:
    place %= len(numbers)
    cells, changed = one_replaced(numbers, new, place)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_one_row_changed(UNTYPED[make](cells), UNTYPED[make](changed), place)


WRITTEN = [
    "3",
    "3.0",
    "03",
    "7",
    "07",
    "+3",
    "1e1",
    "0.5",
    "",
    "True",
    "False",
    "true",
    "TRUE",
    "1",
    "0",
    "100000",
    "-4",
]
WORDS = [*WRITTEN, "clerk", "unknown", "-", "9007199254740993", "12345678901234567890123"]
INFERRED: dict[str, Callable[[bytes], Any]] = {
    "pandas": lambda content: pd.read_csv(io.BytesIO(content), skip_blank_lines=False),
    "polars": lambda content: pl.read_csv(content, infer_schema_length=None),
}


@pytest.mark.parametrize("library", INFERRED)
@settings(max_examples=150, deadline=None)
@given(
    cells=st.lists(st.sampled_from(WRITTEN), min_size=2, max_size=6),
    new=st.sampled_from(WORDS),
    place=st.integers(0, 5),
)
def test_a_type_inferred_elsewhere_does_not_change_how_a_cell_is_read(
    library: str, cells: list[str], new: str, place: int
) -> None:
    """One word makes pandas and Polars hold a column of numbers as text; the numbers are still the same numbers."""
    place %= len(cells)

    def frame(column: list[str]) -> Any:
        lines = [",".join([cell] * 3) for cell in column]
        return INFERRED[library]("\n".join(["age,sick,job", *lines, ""]).encode())

    assert_one_row_changed(frame(cells), frame([*cells[:place], new, *cells[place + 1 :]]), place)


def integer_rows(X: Any, y: Any, **declared: Any) -> tuple[Any, Any]:
    """What the queries of a fit sum over: rows as whole numbers, and coded targets."""
    kind = dp.LogisticRegression if "classes" in declared else dp.LinearRegression
    model = kind(1.0, 1e-6, row_norm=0.9, **declared)
    _, data = model._prepare(X, y, True)
    return np.vstack([steps for block in data.parts()[1] for _, steps in chunks(block)]), data.y


MATRICES: dict[str, Callable[[list[Any]], Any]] = {
    "rows of lists": lambda cells: [[cell, 1.0] for cell in cells],
    "object matrix": lambda cells: np.column_stack([objects(cells), objects([1.0] * len(cells))]),
    "pandas objects": lambda cells: pd.DataFrame({"a": pd.Series(objects(cells), dtype=object), "b": np.float32(1.0)}),
    "columns": lambda cells: {"a": cells, "b": np.ones(len(cells), np.float32)},
}


@pytest.mark.parametrize("make", MATRICES)
@settings(max_examples=60, deadline=None)
@given(numbers=st.lists(WHICH, min_size=2, max_size=5), new=WHICH, place=st.integers(0, 4))
def test_one_cell_changes_one_row_of_integers_and_one_target(
    make: str, numbers: list[int], new: int, place: int
) -> None:
    place = 1 + place % len(numbers)
    cells, changed = one_replaced([0, *numbers], new, place)  # not all labels are lists: the shape of y is public
    others = np.arange(len(cells)) != place
    for declared in ({"classes": [0, 1, 3]}, {"classes": ["clerk", "nurse"]}, {"target_bounds": (0, 9)}):
        for labels in (list, objects, lambda y: pd.Series(objects(y), dtype=object)):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                before = integer_rows(MATRICES[make](cells), labels(cells), **declared)
                after = integer_rows(MATRICES[make](changed), labels(changed), **declared)
            for one, two in zip(before, after, strict=True):
                assert np.array_equal(one[others], two[others], equal_nan=True)


SMALL: dict[str, Callable[[list[Any]], Any]] = {
    "arrow": lambda cells: pa.table({"a": pa.array(cells, pa.int8()), "b": THIRDS}),
    "polars": lambda cells: pl.DataFrame({"a": pl.Series(cells, dtype=pl.Int8), "b": THIRDS}),
    "pandas": lambda cells: pd.DataFrame({"a": pd.array(cells, dtype="Int8"), "b": THIRDS}),
    "pandas of Arrow": lambda cells: pd.DataFrame({"a": pd.array(cells, dtype=pd.ArrowDtype(pa.int8())), "b": THIRDS}),
}
THIRDS = (np.arange(1, 200) / 300).astype(np.float32)


@pytest.mark.parametrize("frame", SMALL)
def test_one_missing_cell_does_not_change_the_precision_of_all(frame: str) -> None:
    """Small integers beside single floats were float32 together, and float64 where an integer was missing."""
    cells: list[Any] = [1] * len(THIRDS)
    rows = [integer_rows(SMALL[frame](some), THIRDS, target_bounds=(0, 1))[0] for some in (cells, [*cells[:-1], None])]
    assert np.array_equal(rows[0][:-1], rows[1][:-1])


def test_text_of_arrow_that_is_no_utf8_is_missing() -> None:
    """It stopped the reading with an error of pyarrow."""
    good, bad = ([b"clerk", b"nurse", cell] for cell in (b"clerk", b"\xff\xfe"))
    tables = []
    for cells in (good, bad):
        raw = pa.array(cells, pa.binary())
        column = pa.StringArray.from_buffers(3, raw.buffers()[1], raw.buffers()[2])
        tables.append(pa.table({"age": column, "sick": column, "job": column}))
    assert_one_row_changed(*tables, 2)
    with_types = [
        pd.DataFrame({name: pd.Series(pd.arrays.ArrowExtensionArray(t[name])) for name in SCHEMA}) for t in tables
    ]
    assert_one_row_changed(*with_types, 2)
    y = [integer_rows(np.ones((3, 1)), table["job"], classes=["clerk", "nurse"])[1] for table in tables]
    assert np.array_equal(y[0][:2], y[1][:2])


def test_masked_cells_are_missing() -> None:
    numbers = np.ma.masked_array([3, 7, 50], mask=[False, True, False])
    table = {"age": numbers, "sick": numbers, "job": numbers}
    assert np.array_equal(encoded(table)[0], encoded({name: [3, None, 50] for name in SCHEMA})[0])
    X = np.ma.masked_array(np.ones((3, 2)), mask=[[False, False], [True, False], [False, False]])
    rows, _ = integer_rows(X, np.zeros(3), target_bounds=(0, 1))
    assert rows[1, 0] == 0
    assert rows[0, 0] == rows[2, 0] > 0


class TestPublicFactsOfAFile:
    """What is refused is refused by the header or by the file as a whole, before anything is charged."""

    @pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff"])
    def test_other_encodings(self, tmp_path: Path, mark: bytes) -> None:
        (tmp_path / "t.csv").write_bytes(mark + b"a\x00,\x00b\x00\n\x001\x00")
        with pytest.raises(InvalidInput, match="save it as UTF-8"):
            read_table(tmp_path / "t.csv")
        # without a header the first line is somebody's
        assert read_table(tmp_path / "t.csv", ["a", "b"]).shape == (2, 2)

    @pytest.mark.parametrize("content", [b"a,b\r1,2\r3,4\r", b"a,b\r1,2\n3,4\n"])
    def test_lone_carriage_returns(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "t.csv").write_bytes(content)
        with pytest.raises(InvalidInput, match="line feeds"):
            read_table(tmp_path / "t.csv")

    def test_a_header_with_an_open_quote(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_bytes(b'a,"b\n1,2\n')
        with pytest.raises(InvalidInput, match="does not close"):
            read_table(tmp_path / "t.csv")

    @pytest.mark.parametrize(
        "damage", [lambda c: c[:-9], lambda c: c[:40], lambda c: b"a,b\n1,2\n", lambda c: c[:30] + b"zz" + c[32:]]
    )
    def test_damaged_compression(self, tmp_path: Path, damage: Any) -> None:
        content = gzip.compress(b"a,b\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(999)))
        (tmp_path / "t.csv.gz").write_bytes(damage(content))
        with pytest.raises(InvalidInput, match="cannot be read"):
            read_table(tmp_path / "t.csv.gz")
