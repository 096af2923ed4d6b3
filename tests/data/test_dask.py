"""A real cluster of processes: a killed worker, a Dask DataFrame, and what is sent."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster

import discreet as dp
from discreet.data import dask as clusters
from discreet.data import runs
from discreet.errors import InvalidInput
from discreet.estimators import privacy

N = 900
SCHEMA = dp.Schema({"x": dp.Numeric(-3, 3), "who": dp.Ignore(), "y": dp.Categorical(["no", "yes"])})
PERSONS = dp.Schema({**SCHEMA, "who": dp.Person(2)})


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short in this process; shards are told the length of a run."""
    monkeypatch.setattr(runs, "_LEAST_ENTRIES", 1 << 9)
    monkeypatch.setattr(runs, "_MOST_ENTRIES", 1 << 9)
    monkeypatch.setattr(clusters, "_PATIENCE", 0.2)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as connected,
    ):
        yield connected


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    made = pd.DataFrame({"x": rng.normal(size=N), "who": rng.integers(0, 200, N).astype(str)})
    made["y"] = np.where(made.x + rng.normal(size=N) > 0, "yes", "no")
    return made


def model(schema: dp.Schema = SCHEMA, **settings: Any) -> dp.LogisticRegression:
    return dp.LogisticRegression(1.0, 1e-6, schema=schema, random_state=4, **settings)


def budget() -> dp.Ledger:
    return dp.Ledger(epsilon=5.0, delta=1e-3, adjacency="replace-one")


@pytest.mark.parametrize("schema", [SCHEMA, PERSONS], ids=["rows", "persons"])
@pytest.mark.parametrize("options", [{}, {"batch_size": 60}], ids=["all", "batches"])
def test_a_killed_worker_changes_nothing_that_is_released(
    schema: dp.Schema,
    options: dict[str, Any],
    client: Client,
    table: pd.DataFrame,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the middle of a fit a worker's process is killed: its shard is read again, and the fit ends as planned."""
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=100, index=False)
    settings: dict[str, Any] = {"solver": "descent", "solver_options": {"iterations": 6} | options}
    expected = model(schema, ledger=dp.Ledger(), **settings).fit(table, table.y)
    asked, lost = [0], []
    ask = clusters._Shards.ask

    def killing(self: Any, *question: Any) -> Any:
        asked[0] += 1
        if asked[0] == 3:
            victim = self.shards[0].address
            pid = client.run(os.getpid, workers=[victim])[victim]
            os.kill(pid, signal.SIGKILL)
        answer = ask(self, *question)
        lost.append(self.lost)
        return answer

    monkeypatch.setattr(clusters._Shards, "ask", killing)
    ledger = dp.Ledger()
    found = model(schema, ledger=ledger, **settings).fit(dp.Parquet(tmp_path, target="y", dask=client))
    assert lost[-1] >= 1
    assert np.array_equal(found.coef_, expected.coef_)
    assert found.privacy_ == expected.privacy_
    assert found.n_iter_ == expected.n_iter_
    assert len(ledger.history()) == 1


def test_a_minimiser_is_the_same_after_shards_were_lost(
    client: Client, table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every fourth answer does not arrive: the optimiser inside one release must not notice."""
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=100, index=False)
    waited, answers, lost = clusters._Shards._waited, [0], [0]

    def losing(self: Any, shard: Any, asked: Any) -> tuple[str, Any]:
        answers[0] += 1
        found = waited(self, shard, asked)
        lost[0] = self.lost
        return ("lost", None) if answers[0] % 4 == 0 else found

    monkeypatch.setattr(clusters._Shards, "_waited", losing)
    found = model(solver="objective_perturbation").fit(dp.Parquet(tmp_path, target="y", dask=client))
    assert lost[0] >= 2
    expected = model(solver="objective_perturbation").fit(table, table.y)
    assert np.array_equal(found.coef_, expected.coef_)


def test_a_dask_frame_gives_what_its_table_gives(client: Client, table: pd.DataFrame) -> None:
    """Partitions whose edges are not those of runs; persons have rows in several of them."""
    import dask.dataframe as dd

    frame = dd.from_pandas(table, npartitions=7)
    with client.as_current():
        for schema in (SCHEMA, PERSONS):
            found = model(schema).fit(frame, "y")
            assert np.array_equal(found.coef_, model(schema).fit(table, table.y).coef_)


def test_a_dask_frame_that_cannot_be_computed_is_refused_uncharged(client: Client, table: pd.DataFrame) -> None:
    """As one of Ray's, which only Ray computes; the message shows nothing of the rows."""
    import dask.dataframe as dd

    def failing(part: pd.DataFrame) -> pd.DataFrame:
        raise RuntimeError(f"row {part.x.iloc[0]}")

    frame = dd.from_pandas(table, npartitions=2).map_partitions(failing, meta=table.iloc[:0])
    ledger = budget()
    with client.as_current(), pytest.raises(InvalidInput, match=r"Dask DataFrame: RuntimeError\. Nothing was released"):
        model(ledger=ledger).fit(frame, "y")
    assert not ledger.history()


def test_the_noise_is_drawn_by_the_client_alone(
    client: Client, table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No message holds bits: with them a worker could take the noise off, and two could not agree on it."""
    import pickle

    table.to_parquet(tmp_path / "rows.parquet", index=False)
    sent: list[bytes] = []
    send = clusters._Shards._send
    monkeypatch.setattr(
        clusters._Shards, "_send", lambda self, shard, q, *rest: sent.append(q) or send(self, shard, q, *rest)
    )  # type: ignore[func-returns-value]
    model().fit(dp.Parquet(tmp_path, target="y", dask=client))
    assert sent
    assert not [question for question in sent if b"discreet.noise" in question or b"discreet.vault" in question]
    assert all(pickle.loads(question)[0] in ("sum", "blocks", "fold", "rows") for question in sent)


def test_a_corrupt_file_is_refused_before_anything_is_charged(
    client: Client, table: pd.DataFrame, tmp_path: Path
) -> None:
    """The footer is as it was; a worker finds that a page is damaged."""
    table.to_parquet(tmp_path / "rows.parquet", index=False)
    content = bytearray((tmp_path / "rows.parquet").read_bytes())
    content[4:60] = b"\xff" * 56
    (tmp_path / "rows.parquet").write_bytes(bytes(content))
    ledger = budget()
    with pytest.raises(InvalidInput, match="cannot be read as Parquet"):
        model(ledger=ledger).fit(dp.Parquet(tmp_path, target="y", dask=client))
    assert not ledger.history()


def test_no_scheduler(table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table.to_parquet(tmp_path / "rows.parquet", index=False)
    monkeypatch.setattr(clusters, "_CONNECTING", 0.5)
    monkeypatch.setattr(privacy, "opened", lambda ledger: pytest.fail("a ledger was opened"))
    with pytest.raises(InvalidInput, match="there is no Dask scheduler"):
        model().fit(dp.Parquet(tmp_path, target="y", dask="tcp://127.0.0.1:9"))
