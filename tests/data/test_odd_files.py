"""Files that are not as a tidy mind would have them: each is read as its table in memory is, or refused uncharged."""

from __future__ import annotations

import bz2
import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import discreet as dp
from discreet.data import parquet as reader
from discreet.data import text_files
from discreet.data.files import found_files
from discreet.data.frames import read_table
from discreet.errors import InvalidInput

N, CUT = 300, 120
SCHEMA = dp.Schema(
    {"age": dp.Numeric(0, 100), "job": dp.Categorical(["a", "b"]), "who": dp.Ignore(), "y": dp.Boolean("no", "yes")}
)
PERSONS = dp.Schema({**SCHEMA, "who": dp.Person(2)})
CODES = dp.Schema({**SCHEMA, "job": dp.Categorical([0, 1])})


def made() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        {"age": rng.uniform(0, 100, N).round(), "job": rng.choice(["a", "b"], N), "who": rng.integers(0, 99, N)}
    )
    table["y"] = np.where(table.age + 40 * (table.job == "b") + rng.normal(0, 20, N) > 70, "yes", "no")
    return table


TABLE = made()


def arrow(frame: pd.DataFrame, **columns: Any) -> pa.Table:
    found = pa.Table.from_pandas(frame, preserve_index=False)
    for name, values in columns.items():
        found = found.set_column(found.column_names.index(name), name, values)
    return found


def halves(folder: Path, first: Any = None, second: Any = None) -> None:
    for name, part in (
        ("a", TABLE[:CUT] if first is None else first),
        ("b", TABLE[CUT:] if second is None else second),
    ):
        parquet.write_table(part if isinstance(part, pa.Table) else arrow(part), folder / f"{name}.parquet")


def fitted(scan: Any, schema: dp.Schema = SCHEMA, ledger: Any = None) -> Any:
    model = dp.LogisticRegression(1.0, 1e-6, schema=schema, random_state=2, ledger=ledger)
    return model.fit(scan, "y") if isinstance(scan, dp.Parquet | dp.CSV) else model.fit(scan, scan.y)


def lists(frame: pd.DataFrame, column: str) -> pa.Table:
    return arrow(frame, **{column: pa.array([[cell] for cell in frame[column]])})


def records(frame: pd.DataFrame, column: str) -> pa.Table:
    return arrow(frame, **{column: pa.array([{"cell": cell} for cell in frame[column]])})


FIRST, SECOND = TABLE[:CUT], TABLE[CUT:]
NO_AGE = TABLE.assign(age=TABLE.age.where(TABLE.index >= CUT))
NO_JOB = TABLE.assign(job=TABLE.job.where(TABLE.index < CUT))

#: (what the files hold, the same table in memory)
READ: dict[str, tuple[tuple[Any, Any], pd.DataFrame]] = {
    "whole numbers and floats": ((FIRST.assign(age=FIRST.age.astype("int8")), SECOND), TABLE),
    "other dictionaries": (
        tuple(
            arrow(part, job=pa.array(pd.Categorical(part.job, known)))
            for part, known in ((FIRST, ["a", "b"]), (SECOND, ["z", "b", "a"]))
        ),
        TABLE,
    ),
    "a dictionary and text": ((arrow(FIRST, job=pa.array(FIRST.job).dictionary_encode()), SECOND), TABLE),
    "long text and text": ((arrow(FIRST, job=pa.array(FIRST.job, pa.large_string())), SECOND), TABLE),
    "a dictionary of numbers": ((arrow(FIRST, age=pa.array(FIRST.age).dictionary_encode()), SECOND), TABLE),
    "columns in another order": ((FIRST, SECOND[["y", "who", "job", "age"]]), TABLE),
    "no rows in the first file": ((FIRST[:0].astype(FIRST.dtypes), TABLE), TABLE),
    "no rows in the last file": ((TABLE, FIRST[:0]), TABLE),
    "no row that has a number": ((arrow(FIRST, age=pa.nulls(CUT)), SECOND), NO_AGE),
    "no row that has a text": ((FIRST, arrow(SECOND, job=pa.nulls(N - CUT))), NO_JOB),
    "no rows and no types": ((TABLE, pa.table({name: pa.nulls(0) for name in TABLE})), TABLE),
}


@pytest.mark.parametrize("what", READ)
def test_odd_files_are_read_as_their_table(what: str, tmp_path: Path) -> None:
    files, table = READ[what]
    halves(tmp_path, *files)
    assert np.array_equal(fitted(dp.Parquet(tmp_path, memory=1)).coef_, fitted(table).coef_)


@pytest.mark.parametrize("first", [True, False])
def test_a_column_of_codes_without_a_type(first: bool, tmp_path: Path) -> None:
    """Codes of classes are whole numbers in one file, and all missing, so without a type, in the other."""
    table = TABLE.assign(job=(TABLE.job == "b").astype(int))
    empty, other = (table[:CUT], table[CUT:]) if first else (table[CUT:], table[:CUT])
    parts = (arrow(empty, job=pa.nulls(len(empty))), other)
    halves(tmp_path, *(parts if first else parts[::-1]))
    expected = table.assign(job=table.job.where(~table.index.isin(empty.index)))
    assert np.array_equal(fitted(dp.Parquet(tmp_path), CODES).coef_, fitted(expected, CODES).coef_)


def _links(folder: Path) -> None:
    halves(folder)
    (folder / "c.parquet").symlink_to(folder / "nothing.parquet")


def _hard_links(folder: Path) -> None:
    halves(folder)
    os.link(folder / "a.parquet", folder / "c.parquet")


def _text_between(folder: Path) -> None:
    halves(folder, arrow(FIRST, age=pa.nulls(CUT)))
    parquet.write_table(arrow(FIRST.assign(age="old")), folder / "c.parquet")


def _packed(folder: Path) -> None:
    halves(folder)
    (folder / "c.parquet.bz2").write_bytes(bz2.compress((folder / "a.parquet").read_bytes()))


REFUSED: dict[str, tuple[Callable[[Path], Any], dp.Schema, str]] = {
    "lists": (lambda folder: halves(folder, lists(FIRST, "age")), SCHEMA, "'age' of 'a.parquet' holds lists or rec"),
    "records": (
        lambda folder: halves(folder, None, records(SECOND, "job")),
        SCHEMA,
        "'job' of 'b.parquet' holds lists",
    ),
    "lists as target": (lambda folder: halves(folder, lists(FIRST, "y")), SCHEMA, "'y' of 'a.parquet' holds lists"),
    "records as ids": (lambda folder: halves(folder, records(FIRST, "who")), PERSONS, "'who' of 'a.parquet' holds"),
    "bytes": (
        lambda folder: halves(folder, arrow(FIRST, job=pa.array([cell.encode() for cell in FIRST.job]))),
        SCHEMA,
        "'job' of 'a.parquet' holds bytes",
    ),
    "dates": (
        lambda folder: halves(folder, FIRST.assign(age=pd.Timestamp("2020-01-01"))),
        SCHEMA,
        "'age' of 'a.parquet' holds dates",
    ),
    "another kind after a column without one": (
        _text_between,
        SCHEMA,
        "'age' is numbers in 'b.parquet' and text in 'c",
    ),
    "a link to nothing": (_links, SCHEMA, r"'c\.parquet' cannot be read: FileNotFoundError"),
    "two names of one file": (_hard_links, SCHEMA, "a file comes twice"),
    "a packed file among others": (_packed, SCHEMA, r"'c\.parquet\.bz2' is packed"),
    "a column twice": (
        lambda folder: parquet.write_table(
            pa.table([*arrow(TABLE).columns, arrow(TABLE)["age"]], names=[*TABLE, "age"]), folder / "a.parquet"
        ),
        SCHEMA,
        "each once",
    ),
    "no bytes": (
        lambda folder: (folder / "a.parquet").write_bytes(b""),
        SCHEMA,
        "'a.parquet' cannot be read as Parquet",
    ),
    "no rows at all": (lambda folder: halves(folder, FIRST[:0], FIRST[:0]), SCHEMA, r"0 sample\(s\)"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_odd_files_are_refused_before_anything_is_charged(what: str, tmp_path: Path) -> None:
    write, schema, words = REFUSED[what]
    write(tmp_path)
    ledger = dp.Ledger()
    with pytest.raises(InvalidInput, match=words):
        fitted(dp.Parquet(tmp_path), schema, ledger)
    assert not ledger.history()


def test_one_file_is_refused_by_its_types_as_several_are(tmp_path: Path) -> None:
    parquet.write_table(lists(TABLE, "age"), tmp_path / "rows.parquet")
    with pytest.raises(InvalidInput, match=r"'age' of 'rows\.parquet' holds lists"):
        read_table(tmp_path / "rows.parquet", schema=SCHEMA)
    assert len(read_table(tmp_path / "rows.parquet")["job"]) == N  # nothing is declared


@pytest.mark.parametrize("name", ["a.csv.bz2", "a.csv.zip", "a.csv.xz", "a.csv.zst"])
def test_text_that_is_packed_otherwise_is_refused(name: str, tmp_path: Path) -> None:
    """By its name, whether it is named itself or left in a folder beside others: no cell is shown, none is left out."""
    (tmp_path / name).write_bytes(bz2.compress(TABLE.to_csv(index=False).encode()))
    TABLE.to_csv(tmp_path / "b.csv", index=False)
    for paths in (tmp_path, tmp_path / name):
        with pytest.raises(InvalidInput, match="is packed in a way"):
            fitted(dp.CSV(paths))


@pytest.mark.parametrize("ending", [".csv.gz", ".txt.gz", ".data.gz", ".CSV.GZ"])
def test_text_of_every_ending_may_be_packed_by_gzip(ending: str, tmp_path: Path) -> None:
    (tmp_path / f"a{ending}").write_bytes(gzip.compress(TABLE.to_csv(index=False).encode()))
    assert np.array_equal(fitted(dp.CSV(tmp_path)).coef_, fitted(TABLE).coef_)


def test_links_to_folders_are_followed_once(tmp_path: Path) -> None:
    """One leads to rows elsewhere, which were left out; one leads back, and one into the folder itself."""
    place, elsewhere = tmp_path / "claims", tmp_path / "elsewhere"
    for folder in (place / "inner", elsewhere):
        folder.mkdir(parents=True)
    parquet.write_table(arrow(FIRST), place / "inner" / "a.parquet")
    parquet.write_table(arrow(SECOND), elsewhere / "b.parquet")
    (place / "more").symlink_to(elsewhere)
    (place / "loop").symlink_to(place)
    (place / "same").symlink_to(place / "inner")
    assert np.array_equal(fitted(dp.Parquet(place)).coef_, fitted(TABLE).coef_)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="who is root may read every folder")
def test_a_folder_that_may_not_be_read_is_not_left_out(tmp_path: Path) -> None:
    halves(tmp_path)
    (tmp_path / "secret").mkdir(mode=0)
    with pytest.raises(InvalidInput, match="the folder 'secret' cannot be read"):
        found_files(tmp_path, (".parquet",), {})


def test_urls_of_this_machine_are_its_files(tmp_path: Path) -> None:
    halves(tmp_path)
    expected = fitted(TABLE).coef_
    for url in (f"file://{tmp_path}", f"file://{tmp_path}/*.parquet", [f"file://{tmp_path}/{n}.parquet" for n in "ab"]):
        assert np.array_equal(fitted(dp.Parquet(url)).coef_, expected)
    with pytest.raises(InvalidInput, match="comes twice"):
        fitted(dp.Parquet([tmp_path / "a.parquet", f"file://{tmp_path}/a.parquet"]))


def test_patterns_of_folders(tmp_path: Path) -> None:
    for job, part in TABLE.groupby("job"):
        (tmp_path / f"job={job}").mkdir()
        parquet.write_table(arrow(part.drop(columns="job")), tmp_path / f"job={job}" / "part.parquet")
    expected = fitted(TABLE.sort_values("job", kind="stable")).coef_
    assert np.array_equal(fitted(dp.Parquet(tmp_path / "job=*")).coef_, expected)


@pytest.mark.parametrize("paths", [3, None, [3], b"claims"])
def test_what_is_no_path(paths: Any) -> None:
    with pytest.raises(InvalidInput, match="a path is text"):
        fitted(dp.Parquet(paths))


def test_file_systems_have_errors_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of urls are refused as those of files are, when they are listed, opened and read."""
    import fsspec
    from fsspec.implementations.memory import MemoryFileSystem

    class OwnError(Exception):
        pass

    class Failing(MemoryFileSystem):
        protocol = "failing"
        failing = ""

        def _fail(self, name: str) -> None:
            if self.failing == name:
                raise OwnError("secret")

        def isdir(self, path: str) -> bool:
            self._fail("list")
            return bool(super().isdir(path))

        def open(self, *given: Any, **more: Any) -> Any:
            self._fail("open")
            return super().open(*given, **more)

        def info(self, *given: Any, **more: Any) -> Any:
            self._fail("facts")
            return super().info(*given, **more)

    fsspec.register_implementation("failing", Failing, clobber=True)
    system = fsspec.filesystem("failing")
    halves(tmp_path)
    system.pipe("failing://claims/a.parquet", (tmp_path / "a.parquet").read_bytes())
    system.pipe("failing://lines/a.csv", TABLE.to_csv(index=False).encode())
    assert fitted(dp.Parquet("failing://claims")).coef_.any()
    for name in ("list", "open", "facts"):
        monkeypatch.setattr(Failing, "failing", name)
        for scan in (dp.Parquet("failing://claims"), dp.CSV("failing://lines")):
            with pytest.raises(InvalidInput, match=r"cannot be read.*OwnError") as refused:
                fitted(scan)
            assert "secret" not in str(refused.value)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_file_that_is_taken_away_during_a_fit(kind: str, tmp_path: Path) -> None:
    halves(tmp_path)
    (tmp_path / "a.csv").write_text(TABLE.to_csv(index=False))
    source = (dp.Parquet if kind == "parquet" else dp.CSV)(tmp_path).source(SCHEMA, "y")
    (tmp_path / f"a.{kind}").unlink()
    with pytest.raises(InvalidInput, match=f"'a.{kind}' cannot be read: FileNotFoundError"):
        list(source.tables([(0, 0, N)]))


@pytest.mark.parametrize("columns", [1, 40])
def test_a_large_row_group_is_never_in_memory_as_a_whole(columns: int, tmp_path: Path) -> None:
    """One group of 96 MB: what Arrow holds while it is read is a small part of it."""
    rows = 12_000_000 // columns
    X = np.random.default_rng(0).normal(size=(rows, columns))
    table = pa.table({f"x{j}": X[:, j] for j in range(columns)})
    parquet.write_table(
        table, tmp_path / "a.parquet", row_group_size=rows, use_dictionary=False, data_page_size=1 << 16
    )
    del table
    schema = {f"x{j}": dp.Numeric(-4, 4) for j in range(columns)}
    source = dp.Parquet(tmp_path / "a.parquet").source(schema, "x0")
    assert isinstance(source, reader.ParquetSource)
    before, held = pa.total_allocated_bytes(), [0]
    edges = range(0, rows, 5000)
    for _, make in source.tables([(k, first, min(first + 5000, rows)) for k, first in enumerate(edges)]):
        held.append(pa.total_allocated_bytes() - before)
        make()
    assert 0 < max(held) < X.nbytes / 2


def test_wide_files_are_decoded_few_rows_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_BATCH_CELLS", 40)
    halves(tmp_path)
    source = dp.Parquet(tmp_path).source(SCHEMA, "y")
    assert isinstance(source, reader.ParquetSource)
    assert {stop - start for start, stop, _ in source._batches([(0, 0, N)])} <= {13, CUT % 13, (N - CUT) % 13}
    assert np.array_equal(fitted(dp.Parquet(tmp_path)).coef_, fitted(TABLE).coef_)


def test_lines_are_counted_by_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Carriage returns, a mark of UTF-8, blanks around names, and no line feed at the end, cut at odd places."""
    text = TABLE.to_csv(index=False, lineterminator="\r\n").replace("age,job", " age , job", 1).rstrip()
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    expected = fitted(TABLE).coef_
    for piece in (7, 64, 1 << 20):
        monkeypatch.setattr(text_files, "_PIECE", piece)
        assert np.array_equal(fitted(dp.CSV(tmp_path)).coef_, expected)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_ids_are_read_some_after_others(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never all cells of the column at once: of ten million rows they would take a gigabyte."""
    monkeypatch.setattr(reader, "_BATCH_ROWS", 50)
    monkeypatch.setattr(text_files, "_NOTED", 1)
    halves(tmp_path)
    for name, part in (("a", FIRST), ("b", SECOND)):
        part.to_csv(tmp_path / f"{name}.csv", index=False)
    scan = (dp.Parquet if kind == "parquet" else dp.CSV)(tmp_path)
    parts = list(scan.source(PERSONS, "y").ids("who"))
    assert max(map(len, parts)) <= 64
    assert [str(cell) for part in parts for cell in part] == [str(cell) for cell in TABLE.who]
