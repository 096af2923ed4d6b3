"""How one cell is read: by itself, and alike in whatever holds it."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.data.cells import column_cells, read_codes, read_floats, untyped
from discreet.data.columns import Boolean, Categorical, Numeric

SAME: list[list[Any]] = [
    [3, 3.0, "3", "3.0", " 03 ", "3e0", np.int8(3), np.float32(3), np.longdouble(3), Decimal("3.00"), np.str_("3")],
    [1, 1.0, "1", True, "True", "TRUE", " true", np.bool_(True), "1.0"],
    [0, False, "false", "0", "-0.0", np.bool_(False)],
    [2**53 + 1, float(2**53), str(2**53 + 1), np.uint64(2**53 + 1)],
    [10**400, "1e400", "1" + "0" * 400, math.inf, "inf"],
    [None, math.nan, "", " ", b"3", 1j, pd.NA, pd.NaT, np.ma.masked, np.datetime64("2020"), [3], {}, "some word"],
]


@pytest.mark.parametrize("cells", SAME, ids=lambda cells: str(cells[0])[:9])
def test_equal_cells_are_read_alike(cells: list[Any]) -> None:
    for column in (
        Numeric(-5, 5),
        Numeric(0, 2**60, encoding="linear"),
        Categorical([0, 1, 3, 2**53 + 1, "inf"]),
        Categorical(["00", "01.0", "3.0"]),
        Categorical(["False", "True"], fill="False"),
        Boolean(),
        Boolean(3, 1),
    ):
        assert len(set(column.read(cells).tolist())) == 1, column


CATEGORIES = st.lists(
    st.sampled_from(["a", "b", "1", "01", "1.0", "0", "2", "True", "false", "0.5", "9007199254740993", "inf"]),
    min_size=1,
    unique=True,
)
CELLS = st.sampled_from([0, 1, 2, 0.5, math.nan, math.inf, float(2**53), 7])


@given(CATEGORIES, st.lists(CELLS, min_size=1, max_size=6))
def test_arrays_of_numbers_are_read_as_lists_of_them(texts: list[str], cells: list[Any]) -> None:
    codes = {text: code for code, text in enumerate(texts)}
    array = np.array(cells, dtype=np.float64)
    expected = read_codes(array.tolist(), codes, -7)
    for held in (array, array.astype(object), pd.Series(array).to_numpy()):
        assert np.array_equal(read_codes(held, codes, -7), expected)


def test_categories_that_are_equal_numbers_are_told_apart_by_their_text() -> None:
    column = Categorical(["250", "250.0", "250.00", "V27"])
    assert column.read(["250", "250.0", "250.00", "V27", "0250"]).tolist() == [0, 1, 2, 3, 4]
    assert column.read([250, 250.0, Decimal("250.00")]).tolist() == [0, 0, 0]


def test_whole_numbers_beyond_all_floats_are_at_the_end_of_the_interval() -> None:
    assert Numeric(0, 9).read([10**400, -(10**400), "1e400", None]).tolist() == [9, 0, 9, 4.5]
    assert read_floats([10**400, -(10**400)]).tolist() == [math.inf, -math.inf]


def test_masked_null_and_dated_cells() -> None:
    for kind in (np.int8, np.float32, bool, object, "U3"):
        masked = np.ma.masked_array(np.array([1, 0], dtype=kind), mask=[True, False])
        assert np.array_equal(read_floats(column_cells(masked))[:1], [math.nan], equal_nan=True)
        assert np.array_equal(read_floats(untyped(masked)), read_floats(column_cells(masked)), equal_nan=True)
    assert column_cells(np.array(["2020", "NaT"], dtype="M8[ns]")).tolist() == [None, None]
    assert column_cells(pa.array(["a", None]).dictionary_encode()).tolist() == ["a", None]


@pytest.mark.parametrize("cells", [[1, 2], [1.5, 2], [True, 0], [np.float32(1), 2]])
def test_lists_of_numbers_are_arrays_of_numbers(cells: list[Any]) -> None:
    assert untyped(cells).dtype.kind in "biuf"
    assert untyped([cells, cells]).shape == (2, 2)
