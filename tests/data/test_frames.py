"""Tables of any make give the same columns."""

from __future__ import annotations

import csv
import gzip
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
from scipy import sparse

from discreet.data.columns import Boolean, Categorical, Numeric
from discreet.data.encoding import Encoder
from discreet.data.frames import Table, as_table, has_column_names, read_table
from discreet.data.lines import cells_of_line, has_open_quote
from discreet.data.schema import Schema
from discreet.errors import InvalidInput

COLUMNS = {"age": [30, 41, None, 25], "job": ["clerk", None, "pilot", "nurse"], "smoker": [True, False, True, None]}
SCHEMA = Schema({"age": Numeric(0, 100), "job": Categorical(["clerk", "nurse"]), "smoker": Boolean()})


@pytest.mark.parametrize(
    "make",
    [
        dict,
        Table,
        pd.DataFrame,
        lambda c: pd.DataFrame(c).convert_dtypes(),
        lambda c: pd.DataFrame(c).astype({"job": "category"}),
        lambda c: pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in c.items()}),
        pl.DataFrame,
        lambda c: pl.DataFrame(c).with_columns(pl.col("job").cast(pl.Categorical)),
        pa.table,
    ],
)
def test_every_make_encodes_alike(make: Any) -> None:
    expected = Encoder(SCHEMA, output="dense").transform(COLUMNS)
    frame = make(COLUMNS)
    assert has_column_names(frame)
    assert np.array_equal(Encoder(SCHEMA, output="dense").transform(frame), expected)


@pytest.mark.parametrize("matrix", [np.eye(3), [[1, 2], [3, 4]], sparse.eye_array(3), sparse.csr_matrix(np.eye(2))])
def test_matrices_have_no_names(matrix: Any) -> None:
    assert not has_column_names(matrix)
    width = matrix.shape[1] if hasattr(matrix, "shape") else 2
    assert as_table(matrix).columns == tuple(f"x{j}" for j in range(width))


def test_refuses_what_is_no_table() -> None:
    with pytest.raises(InvalidInput, match="two dimensions"):
        as_table([1, 2, 3])
    with pytest.raises(InvalidInput, match="one length"):
        as_table({"a": [1, 2], "b": [1]})
    with pytest.raises(InvalidInput, match="one dimension"):
        as_table({"a": np.eye(2)})
    with pytest.raises(InvalidInput, match="must differ"):
        as_table(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(InvalidInput, match="2 columns, but 1"):
        as_table(np.eye(2), ["a"])


def test_table() -> None:
    table = Table(COLUMNS)
    assert table.shape == (4, 3)
    assert table.drop("age").columns == ("job", "smoker")
    assert table.take(slice(1, 3))["age"].tolist() == [41, None]
    assert table.take(np.array([True, False, False, True]))["age"].tolist() == [30, 25]
    assert "clerk" not in repr(table)


def test_csv(tmp_path: Path) -> None:
    text = 'age, job ,note\n30, clerk,"a, ""b"" c"\r\n41,nurse\n\n25,pilot,x,too,much\n?,,\n50,"nu\rrse"'
    (tmp_path / "t.csv").write_text(text, newline="")
    (tmp_path / "t.tsv").write_text(text.replace(",", "\t"), newline="")
    with gzip.open(tmp_path / "t.csv.gz", "wt", newline="") as file:
        file.write("\ufeff" + text)
    for name in ("t.csv", "t.csv.gz"):
        table = read_table(tmp_path / name)
        assert table.columns == ("age", "job", "note")
        assert table["age"].tolist() == ["30", "41", "", "25", "?", "50"]
        assert table["job"].tolist() == ["clerk", "nurse", "", "pilot", "", "nu\rrse"]
        assert table["note"].tolist() == ['a, "b" c', "", "", "x", "", ""]
    assert read_table(tmp_path / "t.tsv")["age"].tolist() == ["30", "41", "", "25", "?", "50"]


LINES = st.text(st.sampled_from(list('", ab\t')), max_size=14)


@settings(max_examples=500)
@given(LINES, st.sampled_from([",", "\t"]))
def test_a_line_is_read_as_the_csv_module_reads_it_alone(line: str, delimiter: str) -> None:
    expected = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    assert cells_of_line(line, delimiter) == (expected or [""])
    both = list(
        csv.reader([line, '"'], delimiter=delimiter, skipinitialspace=True)
    )  # an open quote makes one row of two
    assert has_open_quote(line, delimiter) == (len(both) == 1)


def test_csv_without_names(tmp_path: Path) -> None:
    (tmp_path / "t.data").write_text("30, clerk\n41, nurse\n")
    assert read_table(tmp_path / "t.data", ["age", "job"])["job"].tolist() == ["clerk", "nurse"]


def test_no_line_stops_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"age,job\n30," + b"x" * 200_000 + b'\n\xff\xfe,\x00\n41,"open\n')
    table = read_table(path)
    assert table.shape == (3, 2)
    assert len(table["job"][0]) == 200_000


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("", "a name is missing"), ("a,\n", "a name is missing"), ("a,a\n1,2\n", "a name comes more")],
)
def test_bad_headers(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InvalidInput, match=complaint):
        read_table(tmp_path / "t.csv")


def test_parquet(tmp_path: Path) -> None:
    parquet.write_table(pa.table(COLUMNS), tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    expected = Encoder(SCHEMA, output="dense").transform(COLUMNS)
    assert np.array_equal(Encoder(SCHEMA, output="dense").transform(table), expected)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no file"):
        read_table(tmp_path / "missing.csv")
    (tmp_path / "t.docx").touch()
    with pytest.raises(InvalidInput, match="neither"):
        read_table(tmp_path / "t.docx")
    (tmp_path / "t.parquet").write_text("age,job\n")
    with pytest.raises(InvalidInput, match="Parquet"):
        read_table(tmp_path / "t.parquet")
