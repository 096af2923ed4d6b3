"""Rows in files: which are read, what is refused before anything is charged, and what memory they take."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet.data import parquet, runs
from discreet.data.files import DataFile
from discreet.data.frames import as_table
from discreet.data.streamed import BlockReader, Coding, Streamed, joined_rows
from discreet.errors import InvalidInput
from discreet.estimators.targets import Labels
from discreet.losses import Logistic
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.rows import RowSpec

N = 600
SCHEMA = dp.Schema(
    {"age": dp.Numeric(0, 100), "job": dp.Categorical(["a", "b"]), "who": dp.Person(2), "y": dp.Boolean("no", "yes")}
)
BY_ROWS = dp.Schema({**SCHEMA, "who": dp.Ignore()})


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_LEAST_ENTRIES", 1 << 8)
    monkeypatch.setattr(runs, "_MOST_ENTRIES", 1 << 9)


@pytest.fixture
def table() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    made = pd.DataFrame(
        {"age": rng.uniform(0, 100, N), "job": rng.choice(["a", "b"], N), "who": rng.integers(0, 99, N)}
    )
    made["y"] = np.where(made.age + 40 * (made.job == "b") + rng.normal(0, 20, N) > 70, "yes", "no")
    return made


def model(schema: dp.Schema = SCHEMA, **settings: Any) -> dp.LogisticRegression:
    return dp.LogisticRegression(1.0, 1e-6, schema=schema, random_state=2, **settings)


def halves(table: pd.DataFrame, folder: Path) -> Path:
    table.iloc[:200].to_parquet(folder / "a.parquet", row_group_size=70)
    table.iloc[200:].to_parquet(folder / "b.parquet", row_group_size=70)
    return folder


def test_text_files_give_what_one_table_in_memory_gives(table: pd.DataFrame, tmp_path: Path) -> None:
    """Persons have rows in both files, one of which is packed and one of which does not end in a line feed."""
    with gzip.open(tmp_path / "a.csv.gz", "wt") as packed:
        packed.write(table.iloc[:200].to_csv(index=False))
    (tmp_path / "b.csv").write_text(table.iloc[200:, ::-1].to_csv(index=False).rstrip("\n"))
    expected = model().fit(table, table.y)
    for memory in (1, "1GB"):
        found = model().fit(dp.CSV(tmp_path, memory=memory), "y")
        assert np.array_equal(found.coef_, expected.coef_)


def test_rows_beyond_the_memory_go_to_the_cache(table: pd.DataFrame, tmp_path: Path) -> None:
    """Half of the blocks fit; the others are mapped from a file that has no name, so the folder stays empty."""
    cache = tmp_path / "cache"
    cache.mkdir()
    scan = dp.Parquet(halves(table, tmp_path), target="y", memory=20_000, cache=cache)
    assert np.array_equal(model().fit(scan).coef_, model().fit(table, table.y).coef_)
    assert not list(cache.iterdir())


def test_urls_and_partitions(table: pd.DataFrame) -> None:
    """Files of an object store, in folders whose names hold a column."""
    import fsspec

    system = fsspec.filesystem("memory")
    expected = table.sort_values("job", kind="stable")
    for job in ("a", "b"):
        with system.open(f"/claims/job={job}/part.parquet", "wb") as file:
            expected[expected.job == job].drop(columns="job").to_parquet(file, index=False)
    found = model(BY_ROWS).fit(dp.Parquet("memory://claims", target="y"))
    assert np.array_equal(found.coef_, model(BY_ROWS).fit(expected, expected.y).coef_)


def test_only_row_groups_with_drawn_rows_are_read(
    table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = streamed(table, tmp_path)
    read: list[tuple[int, int]] = []
    real = parquet.ParquetSource._batches
    monkeypatch.setattr(
        parquet.ParquetSource,
        "_batches",
        lambda self, wanted: (read.append(piece[:2]) or piece for piece in real(self, wanted)),  # type: ignore[func-returns-value]
    )
    drawn = np.array([3, 230, 231])
    total = data.take(drawn).map_sum(lambda block: np.array(len(block.y)), ())
    assert total == 3
    edges = [(a, b) for a, b in zip(data.reader.edges, data.reader.edges[1:], strict=False)]
    needed = [edge for edge in edges if any(edge[0] <= row < edge[1] for row in drawn)]
    assert read
    assert all(any(a < stop and b > start for a, b in needed) for start, stop in read)
    assert sum(b - a for a, b in read) < N / 2


def _cut_off(folder: Path) -> None:
    place = folder / "b.parquet"
    place.write_bytes(place.read_bytes()[:-200])


def _damage_pages(folder: Path) -> None:
    """The footer stays as it is, so that only reading the pages tells."""
    place = folder / "b.parquet"
    content = bytearray(place.read_bytes())
    content[4:60] = b"\xff" * 56
    place.write_bytes(bytes(content))


def _without(folder: Path, column: str) -> None:
    pd.read_parquet(folder / "b.parquet").drop(columns=column).to_parquet(folder / "b.parquet")


def _of_another_kind(folder: Path) -> None:
    pd.read_parquet(folder / "b.parquet").assign(age="old").to_parquet(folder / "b.parquet")


BROKEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "cut off": (_cut_off, "'b.parquet' cannot be read as Parquet"),
    "damaged pages": (_damage_pages, "'b.parquet' cannot be read as Parquet"),
    "no such column": (lambda folder: _without(folder, "age"), "'b.parquet': .*no column 'age'"),
    "no target": (lambda folder: _without(folder, "y"), "'b.parquet': .*no column 'y'"),
    "no ids": (lambda folder: _without(folder, "who"), "'b.parquet': .*no column 'who'"),
    "another kind": (_of_another_kind, "'age' is numbers in 'a.parquet' and text in 'b.parquet'"),
}


@pytest.mark.parametrize("how", ["packed file cut off", "no such column"])
def test_broken_text_files_are_refused_before_anything_is_charged(
    how: str, table: pd.DataFrame, tmp_path: Path
) -> None:
    table.to_csv(tmp_path / "a.csv", index=False)
    packed = gzip.compress(table.drop(columns=["age"] if how == "no such column" else []).to_csv(index=False).encode())
    (tmp_path / "b.csv.gz").write_bytes(packed if how == "no such column" else packed[: len(packed) // 2])
    ledger = dp.Ledger(epsilon=5.0, delta=1e-3, adjacency="replace-one")
    with pytest.raises(InvalidInput, match=r"'b\.csv\.gz'.*(cannot be read|no column 'age')"):
        model(BY_ROWS, ledger=ledger).fit(dp.CSV(tmp_path, target="y"))
    assert not ledger.history()


@pytest.mark.parametrize("how", BROKEN)
def test_broken_files_are_refused_before_anything_is_charged(how: str, table: pd.DataFrame, tmp_path: Path) -> None:
    breaking, words = BROKEN[how]
    breaking(halves(table, tmp_path))
    ledger = dp.Ledger(epsilon=5.0, delta=1e-3, adjacency="replace-one")
    with pytest.raises(InvalidInput, match=words):
        model(SCHEMA if how == "no ids" else BY_ROWS, ledger=ledger).fit(dp.Parquet(tmp_path, target="y"))
    assert not ledger.history()


def test_a_file_that_is_written_during_a_fit_ends_it(table: pd.DataFrame, tmp_path: Path) -> None:
    """Rows that differ from step to step are no dataset; what was charged stays charged."""
    halves(table, tmp_path)
    source = dp.Parquet(tmp_path).source(BY_ROWS, "y")
    table.iloc[200:].to_parquet(tmp_path / "b.parquet")
    with pytest.raises(InvalidInput, match="written after it was opened"):
        list(source.tables([(0, 0, N)]))


def test_declarations_that_files_need(table: pd.DataFrame, tmp_path: Path) -> None:
    scan = dp.Parquet(halves(table, tmp_path))
    for fit, words in (
        (lambda: dp.LogisticRegression(1.0, row_norm=1.0).fit(scan, "y"), "files need a schema"),
        (lambda: model().fit(scan), "say which column is the target"),
        (lambda: model().fit(dp.Parquet(tmp_path, target="age"), "y"), "two columns are named"),
        (lambda: model().fit(scan, table.y), "give its name as y"),
        (lambda: model().fit(scan, "y", groups=table.who), "declare a Person in the schema"),
        (lambda: model().fit(dp.Parquet(tmp_path / "none"), "y"), "there is no file"),
        (lambda: model().fit(dp.Parquet([tmp_path, tmp_path / "a.parquet"]), "y"), "comes twice"),
        (lambda: model().fit(dp.Parquet(tmp_path, memory="much"), "y"), "memory is a number of bytes"),
    ):
        with pytest.raises(InvalidInput, match=words):
            fit()


def test_files_are_refused_where_a_table_is_needed(table: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="linear models"):
        as_table(dp.Parquet(halves(table, tmp_path), target="y"))


def test_names_that_are_no_data_are_left_out(table: pd.DataFrame, tmp_path: Path) -> None:
    halves(table, tmp_path)
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".b.parquet.crc").write_text("x")
    assert dp.Parquet(tmp_path).source(BY_ROWS, "y").n == N
    assert DataFile("memory://claims/part.parquet").name == "part.parquet"


def streamed(table: pd.DataFrame, folder: Path, memory: int = 1) -> Streamed:
    encoder = dp.Encoder(BY_ROWS, target="y")
    rows = RowSpec(encoder.n_features, 1.0, 0.5)
    source = dp.Parquet(halves(table, folder)).source(BY_ROWS, "y")
    coding = Coding(encoder, "y", Labels(np.array(["no", "yes"]), True, BY_ROWS["y"]), rows)
    return Streamed(BlockReader(source, coding, memory))


def held(data: Streamed) -> Any:
    """The same rows in memory."""
    return joined_rows(data.pieces(), data.rows, sparse=data.sparse)


@pytest.mark.parametrize("threads", ["1", "2", "3"])
def test_a_minimiser_is_the_same_to_the_last_bit_wherever_its_rows_are(
    threads: str, table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all rows, and of some that come twice, as those of persons do; with one block a core the bits follow cores."""
    monkeypatch.setattr("discreet.data.memory._LEAST_ENTRIES", 8)
    files = streamed(table, tmp_path)
    query = RidgeMinimiser(files.rows, Logistic(), 1.0)
    some = np.sort(np.random.default_rng(7).integers(0, N, 400))
    monkeypatch.setenv("DISCREET_THREADS", "2")
    memory = held(files)
    expected = [query.minimise(data, np.zeros(query.rows.shape), 1e-9) for data in (memory, memory.take(some))]
    monkeypatch.setenv("DISCREET_THREADS", threads)
    again = held(files)
    for datasets in ((files, files.take(some)), (again, again.take(some))):
        found = [query.minimise(data, np.zeros(query.rows.shape), 1e-9) for data in datasets]
        assert [one.tobytes() for one in found] == [one.tobytes() for one in expected]
