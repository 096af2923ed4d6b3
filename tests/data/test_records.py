"""Parquet, Feather and Excel files by declared kinds."""

from __future__ import annotations

import datetime
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import discreet as dp
from discreet.data.encoding import Encoder
from discreet.data.frames import column_names, read_table
from discreet.errors import InvalidInput

COLUMNS: dict[str, list[Any]] = {
    "age": [30, None, 41, 200],
    "job": ["clerk", None, "nurse", "pilot"],
    "sick": [True, False, None, True],
    "id": ["p1", "p2", "p3", "p4"],
}
SCHEMA = dp.Schema(
    {"age": dp.Numeric(0, 100), "job": dp.Categorical(["clerk", "nurse"]), "sick": dp.Boolean(), "id": dp.Ignore()}
)


def write(path: Path, columns: dict[str, list[Any]]) -> Path:
    table = pa.table({**columns, "job": pa.array(columns["job"]).dictionary_encode()})
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=3)
    elif path.suffix == ".feather":
        feather.write_feather(table, path, chunksize=3)
    else:
        book = openpyxl.Workbook()
        for row in [list(columns), *zip(*columns.values(), strict=True)]:
            book.active.append(row)
        book.save(path)
    return path


@pytest.mark.parametrize("name", ["t.parquet", "t.feather", "t.xlsx"])
def test_declared_columns_are_read_and_encoded_as_the_table_is(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, COLUMNS)
    assert column_names(path) == tuple(COLUMNS)
    table = read_table(path, schema=SCHEMA)
    assert table.columns == ("age", "job", "sick")
    assert table["age"].dtype == np.float64
    encoder = Encoder(SCHEMA, output="dense")
    assert np.array_equal(encoder.transform(table), encoder.transform(COLUMNS))
    assert np.array_equal(encoder.transform(read_table(path)), encoder.transform(COLUMNS))
    assert read_table(path, schema=SCHEMA, columns=["id"])["id"].tolist() == COLUMNS["id"]
    told: list[int] = []
    read_table(path, schema=SCHEMA, notify=lambda share, rows: told.append(rows))
    assert told[-1:] == ([4] if name != "t.xlsx" else [])
    with pytest.raises(InvalidInput, match="does not know 'id'"):
        read_table(path, schema=dp.Schema({key: SCHEMA[key] for key in ("age", "job", "sick")}))
    (tmp_path / name).write_bytes(b"nothing of the kind")
    with pytest.raises(InvalidInput, match="cannot be read as"):
        read_table(path)


def test_one_record_changes_one_row(tmp_path: Path) -> None:
    """Nulls, words and dates in one record; the others are read as before."""
    encoder = Encoder(SCHEMA, output="dense")
    for name in ("t.parquet", "t.feather", "t.xlsx"):
        before = encoder.transform(read_table(write(tmp_path / name, COLUMNS), schema=SCHEMA))
        for job, age in ((None, None), ("zebra", 1)):
            changed = {"age": [30, age, 41, 200], "job": ["clerk", job, "nurse", "pilot"]}
            after = encoder.transform(read_table(write(tmp_path / name, {**COLUMNS, **changed}), schema=SCHEMA))
            assert np.array_equal(before[[0, 2, 3]], after[[0, 2, 3]])


def test_a_cell_of_excel_says_nothing(tmp_path: Path) -> None:
    """A number beyond all dates in a date's format makes the reader warn about that cell."""
    path = write(tmp_path / "t.xlsx", COLUMNS)
    book = openpyxl.load_workbook(path)
    book.active["A2"].value, book.active["A2"].number_format = 1e12, "yyyy-mm-dd"
    book.active["A3"] = datetime.date(2020, 1, 1)
    book.save(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(read_table(path, schema=SCHEMA)["age"][:2]).all()
