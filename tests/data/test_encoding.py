"""The encoder: public structure, bounded rows, and blind to all but its own cell."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from discreet.data.columns import Boolean, Categorical, Encoding, Ignore, Numeric
from discreet.data.encoding import Encoder
from discreet.data.schema import Schema
from discreet.errors import InvalidInput

SCHEMA = Schema(
    {
        "age": Numeric(17, 90),
        "gain": Numeric(0, 99_999),
        "visits": Numeric(0, 5, integer=True, encoding="bins", bins=10),
        "job": Categorical(["clerk", "nurse", "teacher"]),
        "smoker": Boolean(),
        "id": Ignore(),
        "sick": Boolean(),
    }
)
CROSSED = Schema(SCHEMA, [("age", "job"), ("smoker", "gain"), ("visits", "age")])
ENCODINGS: list[Encoding] = ["bins", "spline", "linear", "both"]
CELLS = st.one_of(
    st.none(), st.floats(), st.integers(), st.text(max_size=4), st.sampled_from(["clerk", "yes", "no", 17, 90, 99_999])
)
ROWS = st.lists(st.tuples(*[CELLS] * 5), min_size=1, max_size=12)


def table(rows: list[tuple[Any, ...]]) -> dict[str, list[Any]]:
    return {name: [row[j] for row in rows] for j, name in enumerate(("age", "gain", "visits", "job", "smoker"))}


def dense(encoded: Any) -> np.ndarray:
    return encoded.toarray() if sparse.issparse(encoded) else encoded


@settings(max_examples=60)
@given(
    ROWS,
    st.sampled_from(ENCODINGS),
    st.sampled_from([np.float64, np.float32]),
    st.integers(2, 12),
    st.sampled_from([SCHEMA, CROSSED]),
)
def test_every_row_is_within_the_bound(
    rows: list[Any], encoding: Encoding, dtype: type, bins: int, schema: Schema
) -> None:
    encoder = Encoder(schema, target="sick", encoding=encoding, dtype=dtype, bins=bins)
    encoded = dense(encoder.transform(table(rows)))
    assert encoded.dtype == dtype
    assert encoded.shape == (len(rows), encoder.n_features)
    exact = [math.fsum(float(value) ** 2 for value in row) for row in encoded]
    assert max(exact) <= encoder.row_norm**2
    assert np.linalg.norm(encoded, axis=1).max() <= encoder.row_norm


@settings(max_examples=60)
@given(ROWS, ROWS, st.sampled_from(ENCODINGS), st.sampled_from([SCHEMA, CROSSED]))
def test_a_row_is_encoded_the_same_in_any_company(
    mine: list[Any], others: list[Any], encoding: Encoding, schema: Schema
) -> None:
    encoder = Encoder(schema, target="sick", encoding=encoding, output="csr")
    alone, together = encoder.transform(table(mine)), encoder.transform(table(mine + others))
    assert np.array_equal(alone.toarray(), together.toarray()[: len(mine)])
    # Not even the number of stored entries depends on the rows.
    assert set(np.diff(together.indptr)) == {encoder.transform(table(mine[:1])).nnz}


@pytest.mark.parametrize("schema", [SCHEMA, CROSSED])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_sparse_and_dense_agree(encoding: Encoding, schema: Schema) -> None:
    rows = [(20, 0, 3, "nurse", "yes"), (90, 5000, 9, "pilot", None), (None, 99_999, 0, "clerk", "no")]
    csr = Encoder(schema, target="sick", encoding=encoding, output="csr").transform(table(rows))
    plain = Encoder(schema, target="sick", encoding=encoding, output="dense").transform(table(rows))
    assert isinstance(csr, sparse.csr_array)
    assert csr.has_canonical_format
    assert np.array_equal(csr.toarray(), plain)


def test_auto_output_is_public() -> None:
    assert Encoder(SCHEMA, target="sick", bins=20, encoding="bins").sparse
    assert not Encoder(SCHEMA, target="sick", encoding="linear").sparse


def test_bins() -> None:
    schema = Schema({"x": Numeric(0, 10)})
    encoder = Encoder(schema, encoding="bins", bins=5)
    assert encoder.feature_names_out == ("x [0, 2)", "x [2, 4)", "x [4, 6)", "x [6, 8)", "x [8, 10]")
    encoded = dense(encoder.transform({"x": [0, 1.99, 2, 9.99, 10, 11, None]}))
    assert encoded.argmax(axis=1).tolist() == [0, 0, 1, 4, 4, 4, 2]
    assert np.count_nonzero(encoded, axis=1).tolist() == [1] * 7


def test_log_bins_tell_nothing_from_little_and_much() -> None:
    encoder = Encoder(Schema({"x": Numeric(0, 100_000)}), encoding="bins", bins=10, output="dense")
    encoded = encoder.transform({"x": [0, 50, 101, 250, 1000, 5000, 20_000, 60_000, 100_000]})
    assert np.all(np.diff(encoded.argmax(axis=1)) >= 0)
    assert encoded.argmax(axis=1).tolist() == [0, 0, 1, 1, 3, 5, 7, 9, 9]


def test_whole_numbers_have_bins_of_their_own() -> None:
    encoder = Encoder(Schema({"x": Numeric(1, 4, integer=True)}), encoding="bins", bins=6, output="dense")
    assert encoder.feature_names_out == ("x 1", "x 2", "x 3", "x 4")
    assert encoder.transform({"x": [1, 2, 3, 4, 0, 5, 2.2]}).argmax(axis=1).tolist() == [0, 1, 2, 3, 0, 3, 1]
    assert Encoder(Schema({"x": Numeric(1, 40, integer=True)}), encoding="bins", bins=6).n_features == 6


def test_a_spline_contains_straight_lines() -> None:
    column = Numeric(-2, 6)
    encoder = Encoder(Schema({"x": column}), encoding="spline", bins=5, output="dense")
    numbers = np.linspace(-2, 6, 37)
    encoded = encoder.transform({"x": numbers})
    assert encoded @ column.unscale(np.linspace(0, 1, 5)) == pytest.approx(numbers, abs=1e-12)
    assert encoded.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    assert encoder.feature_names_out == ("x ~ -2", "x ~ 0", "x ~ 2", "x ~ 4", "x ~ 6")


def test_linear_and_both() -> None:
    schema = Schema({"x": Numeric(0, 10)})
    line = Encoder(schema, encoding="linear", output="dense").transform({"x": [0, 5, 10]})
    assert line.ravel() == pytest.approx([-1, 0, 1])
    both = Encoder(schema, encoding="both", bins=2, output="dense").transform({"x": [0, 10]})
    assert both == pytest.approx(np.array([[1, 0, -1], [0, 1, 1]]) * math.sqrt(0.5))


def test_a_column_can_say_its_own_encoding() -> None:
    schema = Schema({"x": Numeric(0, 1, encoding="linear"), "y": Numeric(0, 1, bins=3), "z": Categorical(["ab"])})
    assert Encoder(schema, encoding="bins", bins=7).n_features == 1 + 3 + 2


def test_one_column_cannot_drown_another() -> None:
    encoded = dense(Encoder(SCHEMA, target="sick").transform(table([(17, 0, 0, "clerk", "yes")])))
    assert np.linalg.norm(encoded) == pytest.approx(1.0)


def test_matrices_follow_the_order_of_the_schema() -> None:
    schema = Schema({"a": Numeric(0, 1), "y": Boolean(), "b": Numeric(0, 1)})
    encoder = Encoder(schema, target="y", encoding="linear")
    full, without = np.array([[0.0, 1.0, 1.0]]), np.array([[0.0, 1.0]])
    expected = np.array([[-1.0, 1.0]]) / math.sqrt(2)
    for matrix in (full, without, sparse.csr_array(full), sparse.csc_matrix(without), full.tolist()):
        assert encoder.transform(matrix) == pytest.approx(expected)
    with pytest.raises(InvalidInput, match="4 columns"):
        encoder.transform(np.zeros((2, 4)))


def test_columns_that_are_missing_or_unknown_are_named() -> None:
    encoder = Encoder(SCHEMA, target="sick")
    good = table([(20, 0, 3, "nurse", "yes")])
    assert dense(encoder.transform(good | {"id": ["x"], "sick": [None]})).shape[0] == 1
    with pytest.raises(InvalidInput, match="no column 'gain'"):
        encoder.transform({name: cells for name, cells in good.items() if name != "gain"})
    with pytest.raises(InvalidInput, match="does not know 'wage'"):
        encoder.transform(good | {"wage": [1]})


def test_no_rows() -> None:
    assert Encoder(SCHEMA, target="sick").transform(table([])).shape == (0, Encoder(SCHEMA, target="sick").n_features)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"encoding": "hash"}, "encoding must be"),
        ({"output": "list"}, "output must be"),
        ({"dtype": np.int32}, "dtype must be"),
        ({"bins": 0}, "bins must be"),
        ({"target": "wage"}, "no column 'wage'"),
    ],
)
def test_bad_options(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        Encoder(SCHEMA, **options)


def test_nothing_to_learn_from() -> None:
    with pytest.raises(InvalidInput, match="no column to learn from"):
        Encoder(Schema({"id": Ignore(), "y": Boolean()}), target="y")


def test_a_block_that_breaks_its_bound_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Numeric, "rescale", lambda self, numbers: np.full(len(numbers), 3.0))
    with pytest.raises(AssertionError, match="exceeds the norm"):
        Encoder(Schema({"x": Numeric(0, 1)}), encoding="linear").transform({"x": [1]})


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_cross_holds_all_products_of_two_columns_features(encoding: Encoding) -> None:
    rows = [(20, 0, 3, "nurse", "yes"), (90, 5000, 9, "pilot", None), (33, 99_999, 0, "clerk", "no")]
    alone, crossed = (Encoder(schema, target="sick", encoding=encoding) for schema in (SCHEMA, CROSSED))
    first, second = (encoder.feature_names_out for encoder in (alone, crossed))
    plain, both = dense(alone.transform(table(rows))), dense(crossed.transform(table(rows)))
    assert second[: len(first)] == first
    assert np.allclose(both[:, : len(first)] * math.sqrt(8 / 5), plain)  # five columns, and three crosses
    units, position = plain * math.sqrt(5), len(first)
    columns = {name: [j for j, full in enumerate(first) if full.split()[0].split("=")[0] == name] for name in SCHEMA}
    for left, right in CROSSED.crosses:
        for j in columns[left]:
            for k in columns[right]:
                assert second[position] == f"{first[j]} × {first[k]}"
                assert np.allclose(both[:, position] * math.sqrt(8), units[:, j] * units[:, k])
                position += 1
    assert position == crossed.n_features == len(second)


def test_crosses_of_too_many_features_are_refused_before_they_are_named() -> None:
    wide = {name: Numeric(0, 1, bins=1024, encoding="bins") for name in ("a", "b")}
    with pytest.raises(InvalidInput, match="cross fewer columns"):
        Encoder(Schema(wide, [("a", "b")]))


def test_the_target_is_not_crossed() -> None:
    with pytest.raises(InvalidInput, match="'sick' is the target"):
        Encoder(Schema(SCHEMA, [("age", "sick")]), target="sick")
