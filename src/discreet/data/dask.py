"""Rows on the workers of a Dask cluster: one long-lived actor a worker holds a shard, and answers one message a query.

Claim: the dataset answers as the same rows in memory do, bit by bit. A shard is a stretch of runs of rows
(`discreet.data.runs`); integer sums of shards are added, and sums of floats are joined along the tree of all runs. The
noise is drawn and added once, by the vault, in the process of the client.

A lost worker: its shard is read again by another one and the question is asked again, before anything is released. An
answer of a shard is a function of the question alone, so that asking twice gives the same answer and releases nothing.

What workers answer is not noised. Scheduler, workers and the connections between them belong to the trusted side.
"""

from __future__ import annotations

import itertools
import logging
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from discreet.data.base import Block, Dataset, Integers, exact_sum
from discreet.data.places import placed
from discreet.data.runs import RunTree
from discreet.data.sources import Source
from discreet.data.streamed import BlockReader, Coding, Streamed, joined_rows
from discreet.data.threads import cores
from discreet.errors import InvalidInput

__all__ = ["Clustered", "Shard", "clustered", "connection", "current_client"]

T = TypeVar("T")
Kind = Literal["sum", "blocks", "fold", "rows"]
_SELECTIONS = 8
"""Selections of rows that a shard remembers: the persons' rows and a few batches."""
_ATTEMPTS = 5
_PATIENCE = 2.0
"""Seconds after which it is looked whether a worker that has not answered is still there."""
_CONNECTING = 10.0
"""Seconds in which a scheduler must answer."""
_NUMBERS = itertools.count()


class Shard:
    """An actor: some runs of the rows, in the memory of a worker.

    Args:
        source: the table, opened by the client.
        coding: how it becomes rows.
        memory: bytes that encoded rows may take.
        cache: a folder of the worker for those that do not fit.
        part: the runs.
        size: rows of a run, as the client has found.
        workers: cores of the worker.
        frames: the partitions that hold the rows, where the table is a Dask DataFrame.
    """

    def __init__(
        self,
        source: Any,
        coding: Coding,
        memory: int,
        cache: Path | None,
        part: tuple[int, int],
        size: int,
        workers: int,
        frames: Sequence[Any] = (),
    ) -> None:
        own: Source = source.with_frames(frames) if frames else source
        reader = BlockReader(own, coding, memory, cache, part=part, size=size, workers=workers)
        self._whole = Streamed(reader.open())
        self._selected: OrderedDict[int, Streamed] = OrderedDict()

    def answer(self, question: bytes, selection: int | None, rows: Integers | None) -> tuple[str, Any]:
        """("ok", what was asked), ("failed", the exception) or ("unknown", None) for rows that were forgotten.

        Args:
            question: a kind and its functions, pickled.
            selection: the number of a selection of rows; None for all.
            rows: the selected rows, where the shard may not know them yet.
        """
        data: Streamed | None = self._whole
        if selection is not None:
            if rows is not None:
                self._selected[selection] = Streamed(self._whole.reader, rows)
                while len(self._selected) > _SELECTIONS:
                    self._selected.popitem(last=False)
            data = self._selected.get(selection)
        if data is None:
            return "unknown", None
        try:
            return "ok", _answered(data, *pickle.loads(question))
        except Exception as problem:  # the client raises it: here it would look like a lost worker
            return "failed", problem


def _answered(data: Streamed, kind: Kind, function: Any, more: Any) -> Any:
    match kind:
        case "sum":
            return data.map_sum(function, more)
        case "blocks":
            return data.map_blocks(function)
        case "fold":
            return data.nodes(function, more).nodes
        case "rows":
            return data.pieces()


@dataclass
class _Placed:
    """Where a shard is."""

    part: tuple[int, int]
    future: Any
    actor: Any
    address: str
    known: set[int]  # selections that it was sent


class _Shards:
    """All shards of a table, and how they are asked."""

    def __init__(self, client: Any, source: Any, coding: Coding, memory: int, cache: Path | None) -> None:
        self.client, self.source, self.coding, self.memory, self.cache = client, source, coding, memory, cache
        facts = BlockReader(source, coding, memory)  # of the runs alone; it reads nothing
        self.edges, self.rows, self.sparse, self.n = facts.edges, facts.rows, facts.sparse, facts.n
        self.lost = 0
        with self._as_current():
            threads = self._threads()
            runs = len(self.edges) - 1
            shares = np.concatenate([[0], np.cumsum(list(threads.values()))]) / sum(threads.values())
            cuts = np.rint(shares * runs).astype(int).tolist()
            parts = [(a, b) for a, b in itertools.pairwise(cuts)]
            begun = [
                (part, address, self._begin(part, address, threads[address]))
                for part, address in zip(parts, threads, strict=True)
                if part[1] > part[0]
            ]
            self.shards = [_Placed(part, future, future.result(), address, set()) for part, address, future in begun]

    @contextmanager
    def _as_current(self) -> Iterator[None]:
        with self.client.as_current():
            yield

    def _threads(self) -> dict[str, int]:
        """The cores of each worker that is there."""
        self.client.wait_for_workers(1, timeout=60)
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return {address: max(1, facts["nthreads"]) for address, facts in sorted(workers.items())}

    def _begin(self, part: tuple[int, int], address: str, threads: int) -> Any:
        """Have a worker read a shard."""
        size = self.edges[1] - self.edges[0]
        source, frames = self.source, []
        if hasattr(source, "frames_of"):
            source, frames = source.frames_of(self.edges[part[0]], self.edges[part[1]])
        given = (source, self.coding, self.memory, self.cache, part, size, threads, frames)
        return self.client.submit(Shard, *given, actor=True, pure=False, workers=[address], allow_other_workers=False)

    def ask(
        self, kind: Kind, function: Any, more: Any = None, selected: tuple[int, Integers] | None = None
    ) -> list[Any]:
        """The answers of all shards that have rows of the selection, in row order."""
        import cloudpickle  # type: ignore[import-untyped]  # comes with dask

        question = cloudpickle.dumps((kind, function, more))
        with self._as_current():
            waiting = []
            for shard in self.shards:
                rows = None if selected is None else self._own(shard, selected[1])
                if rows is None or len(rows) or kind == "fold":
                    waiting.append((shard, rows, self._send(shard, question, selected, rows)))
            return [self._received(shard, question, selected, rows, asked) for shard, rows, asked in waiting]

    def _own(self, shard: _Placed, rows: Integers) -> Integers:
        first, last = np.searchsorted(rows, [self.edges[shard.part[0]], self.edges[shard.part[1]]])
        return rows[first:last]

    def _send(
        self, shard: _Placed, question: bytes, selected: tuple[int, Integers] | None, rows: Integers | None
    ) -> Any:
        """The future of an answer; None if the worker cannot be reached."""
        number = None if selected is None else selected[0]
        sent = None if number in shard.known else rows
        try:
            asked = shard.actor.answer(question, number, sent)
        except Exception:  # dask says in many ways that a worker is gone
            return None
        if number is not None:
            shard.known.add(number)
        return asked

    def _received(
        self, shard: _Placed, question: bytes, selected: tuple[int, Integers] | None, rows: Integers | None, asked: Any
    ) -> Any:
        """The answer of a shard, which is read again where it was lost."""
        for _ in range(_ATTEMPTS):
            state, value = self._waited(shard, asked)
            if state == "ok":
                return value
            if state == "failed":
                raise value
            if state == "lost":
                self._revive(shard)
            shard.known.clear()
            asked = self._send(shard, question, selected, rows)
        raise InvalidInput(
            f"a shard was lost {_ATTEMPTS} times: the cluster is not able to finish. What was charged stays charged; "
            "nothing more was released."
        )

    def _waited(self, shard: _Placed, asked: Any) -> tuple[str, Any]:
        """("ok", …), ("failed", …), ("unknown", …) or ("lost", None)."""
        while asked is not None:
            try:
                found: tuple[str, Any] = asked.result(timeout=_PATIENCE)
                return found
            except TimeoutError:
                if shard.address not in self.client.scheduler_info(n_workers=-1)["workers"]:
                    break
            except Exception:  # connections break in many ways; what a query raises comes back as "failed"
                break
        return "lost", None

    def _revive(self, shard: _Placed) -> None:
        """Read a lost shard on the worker that has the fewest."""
        self.lost += 1
        for _ in range(_ATTEMPTS):
            threads = self._threads()
            there = [address for address in threads if address != shard.address] or list(threads)
            held = [other.address for other in self.shards]
            address = min(there, key=held.count)
            future = self._begin(shard.part, address, threads[address])
            try:
                actor = future.result(timeout=600)
            except InvalidInput:
                raise
            except Exception:  # that worker is gone, too
                continue
            shard.future, shard.actor, shard.address = future, actor, address
            return
        raise InvalidInput("no worker is left to read a lost shard. What was charged stays charged.")


class Clustered:
    """Rows on a cluster, all of them or some: the `Dataset` of what does not fit on one machine."""

    def __init__(self, shards: _Shards, indices: Integers | None = None) -> None:
        self._shards, self.indices, self.rows, self.sparse = shards, indices, shards.rows, shards.sparse
        self._selected = None if indices is None else (next(_NUMBERS), indices)
        self._all: Dataset | None = None

    def __len__(self) -> int:
        return self._shards.n if self.indices is None else len(self.indices)

    @property
    def lost(self) -> int:
        """How often a shard was lost and read again."""
        return self._shards.lost

    def map_sum(self, function: Callable[[Block], Integers], shape: tuple[int, ...]) -> Integers:
        """Σ function(block), exact: one message and one answer for each worker."""
        return exact_sum(self._shards.ask("sum", function, shape, self._selected), shape, len(self))

    def map_blocks(self, function: Callable[[Block], Any]) -> list[Any]:
        """function(block) for each run that has rows, in row order."""
        return [value for part in self._shards.ask("blocks", function, None, self._selected) for value in part]

    def fold(self, function: Callable[[Block], T], add: Callable[[T, T], T]) -> T | None:
        """The values of ``function``, added over fixed runs of rows in a fixed tree."""
        tree = RunTree(add)
        for nodes in self._shards.ask("fold", function, add, self._selected):
            for (level, index), value in sorted(nodes.items(), key=lambda node: node[0][1] << node[0][0]):
                tree.push(index, value, level)
        return tree.total()

    def take(self, indices: Integers) -> Dataset:
        """The dataset of the given rows."""
        if (np.diff(indices) < 0).any():
            return placed(self, indices)
        return Clustered(self._shards, indices if self.indices is None else self.indices[indices])

    def gather(self, indices: Integers) -> Dataset:
        """Rows in the client's memory, given by their rising places."""
        chosen = self.take(indices)
        assert isinstance(chosen, Clustered)
        return chosen._in_memory()

    def held(self) -> Dataset | None:
        """All rows in the client's memory, where they fit into what was declared."""
        width = min(64, self.rows.n_features) if self.sparse else self.rows.n_features
        if self._all is None and 12 * width * len(self) <= self._shards.memory:
            self._all = self._in_memory()
        return self._all

    def _in_memory(self) -> Dataset:
        found = self._shards.ask("rows", None, None, self._selected)
        return joined_rows([piece for part in found for piece in part], self.rows, sparse=self.sparse)


@contextmanager
def clustered(client: Any, source: Source, coding: Coding, memory: int, cache: Path | None) -> Iterator[Clustered]:
    """The rows of a source on a cluster, which is given its memory back at the end.

    Args:
        client: connected to the cluster.
        source: the table.
        coding: how it becomes rows.
        memory: bytes that encoded rows may take in each worker.
        cache: a folder of each worker for those that do not fit.
    """
    shards = _Shards(client, source, coding, memory, cache)
    try:
        yield Clustered(shards)
    finally:
        for shard in shards.shards:
            shard.actor = shard.future = None
        shards.shards.clear()


@contextmanager
def connection(dask: Any) -> Iterator[Any]:
    """A client of a cluster; it is closed at the end, unless it was given.

    Args:
        dask: a scheduler's address, a `distributed.Client`, or True for a cluster of this machine's cores.

    Raises:
        InvalidInput: dask is not installed, or the scheduler cannot be reached.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise InvalidInput("a cluster needs dask.distributed: pip install 'discreet[dask]'.") from None
    if isinstance(dask, Client):
        yield dask
        return
    if dask is True:
        hidden = {"dashboard_address": "127.0.0.1:0", "scheduler_kwargs": {"dashboard": False}}  # nobody else looks on
        own = LocalCluster(n_workers=cores(), threads_per_worker=1, silence_logs=logging.ERROR, **hidden)
        with own as cluster, Client(cluster, direct_to_workers=True, set_as_default=False) as client:
            yield client
        return
    try:
        client = Client(str(dask), direct_to_workers=True, set_as_default=False, timeout=_CONNECTING)
    except (OSError, ValueError) as problem:
        raise InvalidInput(f"there is no Dask scheduler at {dask!r}: {type(problem).__name__}.") from None
    with client:
        yield client


def current_client() -> Any | None:
    """The client that Dask uses now; None without one."""
    from distributed import get_client

    try:
        return get_client()
    except ValueError:
        return None
