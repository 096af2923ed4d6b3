"""Delimited files are read as their lines are, one by one, whatever the blocks, the kinds and the separator."""

from __future__ import annotations

import gzip
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import discreet as dp
from discreet.data import delimited
from discreet.data.cells import read_codes, read_floats
from discreet.data.decimals import read_decimals
from discreet.data.frames import column_names, read_table
from discreet.data.lines import cells_of_line
from discreet.data.tokens import place_cells
from discreet.errors import InvalidInput

SCHEMA = dp.Schema(
    {"a": dp.Numeric(0, 100), "b": dp.Categorical(["x", "07", 2.5]), "c": dp.Ignore(), "d": dp.Numeric(-1, 1)}
)
PIECES = [
    *(b'"', b'""', b";", b",", b" ", b"\r", b"\x00", b"\xc3\xa9", b"\xf0\x9f", b"\xff", b"\xef\xbb\xbf", b"\x85"),
    *(b"1", b"0", b".5", b"2,5", b"-3", b"+", b"e2", b"E-1", b"1_0", b"nan", b"true", b"x", b"07", b"9007199254740993"),
    *(b"18446744073709551616", b"0" * 30, b"1e-400", b"1e99999", b"\xd9\xa3", b"\t", b"\x1c"),
]  # fmt: skip
LINE = st.lists(st.sampled_from(PIECES), max_size=9).map(b"".join)


def by_lines(content: bytes, separator: str, width: int) -> list[list[str]]:
    """The definition: whole text, then lines, then cells."""
    lines = content.decode("utf-8", errors="replace").replace("\r\n", "\n").split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    return [(cells_of_line(line, separator) + [""] * width)[:width] for line in lines]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("delimited")


@settings(max_examples=200, deadline=None)
@given(
    st.lists(LINE, max_size=6),
    st.sampled_from([(",", "."), (";", "."), (";", ","), ("\t", ","), ("|", ".")]),
    st.sampled_from([1, 7, 1 << 23]),
    st.booleans(),
    st.booleans(),
)
def test_a_file_is_read_as_its_lines_are(
    folder: Path, lines: list[bytes], form: tuple[str, str], block: int, ends: bool, packed: bool
) -> None:
    separator, decimal = form
    rows = b"\n".join(lines) + (b"\n" if ends and lines else b"")
    content = separator.join(SCHEMA).encode() + b"\n" + rows
    path = folder / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(content, 1) if packed else content)
    expected = by_lines(rows, separator, 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "_BLOCK", block)
        text = read_table(path, separator=separator)
        typed = read_table(path, schema=SCHEMA, separator=separator, decimal=decimal)
    for j, name in enumerate(SCHEMA):
        cells = [row[j] for row in expected]
        assert text[name].tolist() == cells
        if name == "c":
            assert name not in typed
        elif name == "b":
            column: Any = SCHEMA["b"]
            assert column.read(typed.cells("b")).tolist() == column.read(cells).tolist()
        else:
            if decimal == ",":
                cells = ["" if "." in cell else cell.replace(",", ".") for cell in cells]
            assert np.array_equal(typed[name].view(np.uint64), read_floats(cells).view(np.uint64))


NUMBERS = st.one_of(
    st.floats(allow_nan=False).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.tuples(st.integers(0, 10**20), st.integers(-70, 70)).map(lambda pair: f"{pair[0]}e{pair[1]}"),
    # half-way between two floats, and one digit beside it
    st.tuples(st.integers(2**53, 2**54), st.integers(-8, 8), st.sampled_from([0, 1, -1])).map(
        lambda parts: str((Decimal(2 * parts[0] + 1) + parts[2] * Decimal("0.01")) * Decimal(2) ** parts[1])
    ),
)


@settings(max_examples=500, deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=8))
@example(["18446744073709551616", "1e23", "9007199254740993", "0.1", "-0", "00", "8.5e-64", "7e64"])
def test_numbers_are_those_of_python(cells: list[str]) -> None:
    places = place_cells("\n".join(cells).encode(), ";", np.array([0]), 1)
    found, doubtful = read_decimals(places.text, places.starts[0], places.ends[0], places.quoted[0], ".")
    plain = np.setdiff1d(np.arange(len(cells)), doubtful)
    expected = np.array([float(cell) for cell in cells])
    assert np.array_equal(found[plain].view(np.uint64), expected[plain].view(np.uint64))


def test_plain_numbers_are_read_by_the_quick_way() -> None:
    """A mistake that leaves all cells to Python would be seen nowhere else but in the time."""
    rng = np.random.default_rng(0)
    cells = [repr(float(x)) for x in rng.normal(size=1000) * 10.0 ** rng.integers(-5, 5, 1000)] + ["7", "-3.", ".5 "]
    places = place_cells("\n".join(cells).encode(), ";", np.array([0]), 1)
    assert len(read_decimals(places.text, places.starts[0], places.ends[0], places.quoted[0], ".")[1]) == 0


def test_only_what_is_asked_for_is_read(folder: Path) -> None:
    path = folder / "few.csv"
    path.write_bytes(b"a,b,c,d\n1,x,secret,0\n2,07,secret,1\n")
    assert read_table(path, schema=SCHEMA).columns == ("a", "b", "d")
    kept = read_table(path, schema=SCHEMA, columns=["c", "a"])
    assert kept.columns == ("a", "c")
    assert kept["c"].tolist() == ["secret", "secret"]
    assert read_codes(read_table(path, schema=SCHEMA).cells("b"), {"x": 5}, 9).tolist() == [5, 9]
    assert column_names(path) == ("a", "b", "c", "d")
    with pytest.raises(InvalidInput, match="no column 'e'"):
        read_table(path, schema=SCHEMA, columns=["e"])
    with pytest.raises(InvalidInput, match="does not know 'c', 'd'"):
        read_table(path, schema=dp.Schema({"a": dp.Numeric(0, 1), "b": dp.Boolean()}))


@pytest.mark.parametrize(
    ("header", "shown"), [(b"age;job", "--separator ';'"), (b"age\tjob", "a tab"), (b"age|job", "--separator '|'")]
)
def test_another_separator_is_hinted_at_without_showing_the_line(folder: Path, header: bytes, shown: str) -> None:
    path = folder / "other.csv"
    path.write_bytes(header + b"\n1;2\n")
    for read in (read_table, column_names):
        with pytest.raises(InvalidInput) as refusal:
            read(path)
        assert shown in str(refusal.value)
        assert "age" not in str(refusal.value)
    assert len(column_names(path, separator=",")) == 1  # whoever says that it is one column, has one


@pytest.mark.parametrize("separator", ["", ";;", '"', " ", "\n", "\r", "é", "a", "7"])
def test_separators_that_are_none(folder: Path, separator: str) -> None:
    with pytest.raises(InvalidInput, match="separator must be"):
        read_table(folder / "none.csv", separator=separator)


def test_a_decimal_comma_needs_another_separator_and_a_schema(folder: Path) -> None:
    path = folder / "comma.csv"
    path.write_bytes(b"a,b,c,d\n")
    with pytest.raises(InvalidInput, match="another separator"):
        read_table(path, schema=SCHEMA, decimal=",")
    with pytest.raises(InvalidInput, match="give the schema"):
        read_table(path, decimal=",", separator=";")
    with pytest.raises(InvalidInput, match="must be"):
        read_table(path, schema=SCHEMA, decimal="x")


def test_progress_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "_BLOCK", 64)
    path = folder / "long.csv"
    path.write_bytes(b"a\n" + b"1\n" * 2000)
    seen: list[tuple[float, int]] = []
    read_table(path, notify=lambda share, rows: seen.append((share, rows)))
    assert seen == sorted(seen)
    assert 0 < seen[0][0] < 1
    assert seen[-1] == (1.0, 2000)
