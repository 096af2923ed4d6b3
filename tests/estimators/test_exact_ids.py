"""Ids of 64 bits stay apart whatever else is in the table: no cell decides how another person's id is read."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet as dp
from discreet.data.persons import id_column, person_codes
from discreet.estimators.persons import persons_of
from discreet.units import Unit

LONG = 2**53
"""Whole numbers from here on are equal in pairs as floats."""
IDS = [LONG + i for i in range(40)]
SCHEMA = dp.Schema({"id": dp.Person(1), "a": dp.Numeric(0, 1)})
REPLACE = Unit("replace-one")


def counted(persons: Any) -> int:
    assert persons is not None
    return int(persons.count)


@pytest.mark.parametrize("cell", [1, 0.5, "half", None])
def test_a_feature_of_a_list_of_rows_does_not_turn_ids_into_floats(cell: Any) -> None:
    rows = [[own, 0] for own in IDS] + [[7, cell]]
    assert counted(persons_of(rows, SCHEMA, None, REPLACE, True)) == 41


@pytest.mark.parametrize("last", [7, None])
@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_a_missing_id_of_a_file_does_not_turn_others_into_floats(tmp_path: Path, ending: str, last: Any) -> None:
    import pyarrow
    from pyarrow import feather, parquet

    table = pyarrow.table({"id": pyarrow.array([*IDS, last], pyarrow.int64()), "a": [0.0] * 41})
    path = tmp_path / f"people.{ending}"
    (parquet.write_table if ending == "parquet" else feather.write_feather)(table, path)
    read = dp.read_table(path, schema=SCHEMA)
    assert counted(persons_of(read, SCHEMA, None, REPLACE, True)) == 40 + (last is not None)


@pytest.mark.parametrize("last", [7, None])
def test_bounds_of_a_frame_see_ids_as_they_are(last: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import polars

    room = importlib.import_module("discreet.estimators.private_bounds")
    seen = []
    real = room.persons_of
    monkeypatch.setattr(room, "persons_of", lambda *given: seen.append(real(*given)) or seen[-1])
    frame = polars.DataFrame({"id": polars.Series([*IDS, last], dtype=polars.Int64), "a": [0.5] * 41})
    dp.private_bounds(frame, SCHEMA, epsilon=50.0, adjacency="replace-one")
    assert [counted(persons) for persons in seen] == [40 + (last is not None)]


def test_a_cell_that_only_says_it_is_an_id_is_missing() -> None:
    class UUID:
        def __str__(self) -> str:
            raise ValueError("cell")

    UUID.__module__ = "uuid"
    assert person_codes([3, UUID(), 3]).tolist() == [0, -1, 0]


def test_persons_found_before_must_fit_the_relation() -> None:
    from discreet.data.persons import Persons

    found = Persons(np.zeros(4, np.int64), dp.Person(4, "rows"))
    with pytest.raises(dp.errors.InvalidInput, match="replace-one"):
        persons_of(np.zeros((4, 1)), None, found, Unit("replace-one", 4), True)


def test_more_cells_than_a_narrow_dictionary_has_room_for(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import feather

    words = [f"w{i}" for i in range(128)]
    column = pyarrow.DictionaryArray.from_arrays(pyarrow.array([*range(128), None], pyarrow.int8()), words)
    feather.write_feather(pyarrow.table({"w": column}), tmp_path / "words.feather")
    read = dp.read_table(tmp_path / "words.feather", schema=dp.Schema({"w": dp.Categorical(words)}))
    assert list(read["w"]) == [*words, None]


def test_labels_of_a_list_stay_apart_when_one_is_missing() -> None:
    from discreet.estimators.targets import Labels, column_vector

    classes = np.array([LONG, LONG + 1])
    whole, missing = (
        Labels(classes).encode(column_vector([LONG, LONG + 1, LONG + 1, last])) for last in (0, float("nan"))
    )
    assert np.array_equal(whole[:3], missing[:3])


def test_the_kind_of_one_cell_does_not_round_the_rows_of_others() -> None:
    rows = [[np.float32(0.1), np.float32(0.2)]] * 5
    one, other = (id_column(rows + [[last, last]], "b", ["a", "b"]) for last in (np.float32(0.5), 0.5))
    assert [float(x) for x in one[:5]] == [float(x) for x in other[:5]]
    from discreet.data.cells import untyped

    first, second = (untyped(rows + [[last, last]]) for last in (np.float32(0.5), 0.5))
    assert first.dtype == second.dtype == np.float64


@pytest.mark.parametrize("kind", ["bool_", "int8", "int64"])
def test_the_type_of_labels_of_a_file_does_not_tell_whether_one_is_missing(tmp_path: Path, kind: str) -> None:
    import pyarrow
    from pyarrow import parquet

    schema = dp.Schema({"a": dp.Numeric(0, 1), "y": dp.Boolean()})
    found = []
    for last in (1, None):
        cells = [*([0, 1] * 20), last]
        labels = [None if cell is None else bool(cell) for cell in cells] if kind == "bool_" else cells
        table = pyarrow.table({"a": [0.5] * 41, "y": pyarrow.array(labels, getattr(pyarrow, kind)())})
        parquet.write_table(table, tmp_path / "rows.parquet")
        read = dp.read_table(tmp_path / "rows.parquet", schema=schema)
        model = dp.LogisticRegression(1.0, schema=schema).fit(read.drop("y"), read["y"])
        found.append((read["y"].dtype, model.classes_.dtype, model.classes_.tolist()))
    assert found[0] == found[1]
