"""A list declares no type, so no cell of it may decide how the others are read; and no refusal shows a cell or n."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

import discreet as dp
from discreet.data.cells import untyped
from discreet.data.frames import as_table
from discreet.errors import InvalidInput
from discreet.estimators.features import numbers_only
from discreet.estimators.targets import Bounded, Labels, column_vector

ODD: list[Any] = [
    "text",
    "",
    None,
    b"1",
    1j,
    [1],
    (1, 2),
    {1},
    10**400,
    np.array(1.0),
    np.array([1.0]),
    np.zeros((2, 3)),
    pd.NA,
    object,
]
PLAIN: list[Any] = [1, 0, True, 1.0, np.int64(1), np.float32(0.5), np.bool_(True), "1", 2**60]


def cases(plain: list[Any]) -> list[Any]:
    return [pytest.param(plain, odd, id=f"{type(plain[0]).__name__} and {type(odd).__name__}") for odd in ODD]


@pytest.mark.parametrize(("plain", "odd"), [case for cell in PLAIN for case in cases([cell] * 5)])
def test_one_cell_does_not_change_how_the_others_are_read(plain: list[Any], odd: Any) -> None:
    labels, numbers = Labels(np.array([0, 1])), Bounded.declare((0, 2), None, True)
    column = dp.Categorical([0, 1, 2])
    changed = [*plain[:2], odd, *plain[3:]]
    kept = [0, 1, 3, 4]
    for read in (
        lambda y: labels.encode(column_vector(y)),
        lambda y: Labels(np.array([0, 1, 2]), column=column).encode(column_vector(y)),
    ):
        assert np.array_equal(read(plain)[kept], read(changed)[kept], equal_nan=True)
    if not isinstance(plain[0], str):  # a list that is all text is no list of numbers; the type of all is public
        assert np.array_equal(numbers.encode(column_vector(plain))[kept], numbers.encode(column_vector(changed))[kept])
        before = numbers_only([[cell, 2.0] for cell in plain])
        after = numbers_only([[cell, 2.0] for cell in changed])
        assert np.array_equal(before[kept].astype(float), after[kept].astype(float), equal_nan=True)
    table = dp.Schema({"a": dp.Numeric(-9, 9), "b": column})
    before, after = (as_table([[cell, cell] for cell in cells], list(table)) for cells in (plain, changed))
    for name in table:
        reader: Any = table[name]
        assert np.array_equal(reader.read(before[name])[kept], reader.read(after[name])[kept])


def test_one_text_among_labels_costs_one_label() -> None:
    X = np.repeat([[0.6, 0.8], [-0.6, -0.8]], 200, axis=0)
    y: list[Any] = [1] * 200 + [0] * 200
    y[7] = "unknown"
    model = dp.LogisticRegression(8.0, 1e-6, row_norm=1.0, classes=[0, 1], random_state=0)
    assert model.fit(X, y).score(X, [1] * 200 + [0] * 200) == 1.0


@pytest.mark.parametrize("kind", [pa.array, lambda cells: pa.chunked_array([cells]), pl.Series, pd.Series])
def test_one_missing_label_of_a_column_costs_one_label(kind: Any) -> None:
    labels = Labels(np.array([0, 1]))
    for cells in ([0, 1, 1, 0], [False, True, True, False]):
        whole = labels.encode(column_vector(kind(cells)))
        missing = labels.encode(column_vector(kind([*cells[:3], None])))
        assert whole.tolist() == [-1, 1, 1, -1]
        assert np.array_equal(missing, [-1, 1, 1, np.nan], equal_nan=True)


def test_damaged_sparse_rows_are_refused_before_any_kernel_reads_them() -> None:
    for beyond in (-1, 2, 10**6):
        X = sp.csr_array(np.ones((7, 2)))
        X.indices[3] = beyond
        with pytest.raises(InvalidInput, match="damaged"):
            MODELS[0].fit(X, np.zeros(7, int))


def test_lists_of_numbers_keep_their_type() -> None:
    assert untyped([1, 2]).dtype == np.int64
    assert untyped([[1.5], [2]]).shape == (2, 1)
    assert untyped(["a", "b"]).tolist() == ["a", "b"]


SECRET = 0.123456789
MODELS: list[Any] = [
    dp.LogisticRegression(1.0, 1e-6, row_norm=1.0, classes=[0, 1]),
    dp.LinearRegression(1.0, 1e-6, row_norm=1.0, target_bounds=(0, 1)),
    dp.MeanEstimator(1.0, 1e-6, row_norm=1.0),
]
MALFORMED: dict[str, Any] = {
    "one dimension": np.full(7, SECRET),
    "a list of numbers": [SECRET] * 7,
    "a series": pd.Series([SECRET] * 7),
    "a single number": np.array(SECRET),
    "complex": np.full((7, 2), SECRET * (1 + 1j)),
    "complex and sparse": sp.csr_array(np.full((7, 2), SECRET * (1 + 1j))),
    "complex frame": pd.DataFrame({"a": np.full(7, SECRET * (1 + 1j))}),
    "rows of several lengths": [[SECRET, SECRET]] * 6 + [[SECRET]],
    "three dimensions": np.full((7, 2, 2), SECRET),
}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("X", MALFORMED.values(), ids=MALFORMED.keys())
def test_no_refusal_shows_a_cell(model: Any, X: Any) -> None:
    with pytest.raises(ValueError) as refusal:
        model.fit(X, np.zeros(7, int))
    shown = str(refusal.value)
    assert "123" not in shown
    assert "7" not in shown


def test_no_refusal_shows_the_number_of_rows() -> None:
    X, y = np.zeros((1234, 2)), np.zeros(1233, int)
    refused: list[Any] = [
        lambda: MODELS[0].fit(X, y),
        lambda: MODELS[0].fit(X, np.zeros((1234, 2), int)),
        lambda: dp.quantile(X, epsilon=1.0, bounds=(0, 1), adjacency="add-remove"),
        lambda: as_table({"a": X[:, 0], "b": y}),
    ]
    for call in refused:
        with pytest.raises(InvalidInput) as refusal:
            call()
        assert "123" not in str(refusal.value)
