"""A table in partitions that others hold, such as a Dask DataFrame's, which the shards of a cluster read.

A partition is a pandas frame in the memory of some worker. The client knows how many rows each has; a worker is sent
those that hold rows of its shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from discreet.data.cells import column_cells
from discreet.data.columns import Column
from discreet.data.files import DataFile
from discreet.data.frames import Table, as_table
from discreet.data.scans import Scan
from discreet.data.sources import TableOf, Wanted, cut, declared_kinds
from discreet.errors import InvalidInput

__all__ = ["FrameScan", "FrameSource", "frame_scan"]


@dataclass(frozen=True)
class FrameScan(Scan):
    """A Dask DataFrame; ``paths`` is the frame."""

    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(str(name) for name in self.paths.columns)

    def source(self, schema: Mapping[str, Column], target: str, client: Any = None) -> FrameSource:
        """The partitions, computed by the workers and held by them; their rows are counted.

        Raises:
            InvalidInput: the declarations do not fit the columns, or a partition cannot be computed.
        """
        kinds, ids = declared_kinds(DataFile("the Dask DataFrame"), self.names(), schema, target)
        needed = [*kinds, *([ids] if ids else [])]
        own = [name for name in self.paths.columns if str(name) in needed]
        with client.as_current():
            try:
                parts = client.compute(self.paths[own].to_delayed())
                lengths = [int(rows) for rows in client.gather(client.map(len, parts, pure=False))]
            except Exception as problem:  # code of others, which may say what is in a cell
                raise InvalidInput(
                    f"the workers cannot compute the Dask DataFrame: {type(problem).__name__}. Nothing was released."
                ) from None
        return FrameSource(tuple(np.cumsum([0, *lengths]).tolist()), tuple(kinds), parts, client)


@dataclass(frozen=True, eq=False)
class FrameSource:
    """Frames whose rows follow each other.

    Args:
        edges: the first row of each frame of the table, and the row after the last of all.
        names: the columns to read.
        parts: futures of the frames; on the client alone.
        client: which computes them; on the client alone.
        frames: the frames; on a worker alone.
        first: the number of the first frame that is here.
    """

    edges: tuple[int, ...]
    names: tuple[str, ...]
    parts: Sequence[Any] = ()
    client: Any = None
    frames: Sequence[Any] = field(default=(), repr=False)
    first: int = 0

    @property
    def n(self) -> int:
        """The number of rows of the table."""
        return self.edges[-1]

    def frames_of(self, low: int, high: int) -> tuple[FrameSource, list[Any]]:
        """What a worker is sent that reads these rows: public facts, and the futures of the frames that hold them."""
        held = [k for k in range(len(self.parts)) if self.edges[k] < high and self.edges[k + 1] > low]
        return FrameSource(self.edges, self.names, first=held[0]), [self.parts[k] for k in held]

    def with_frames(self, frames: Sequence[Any]) -> FrameSource:
        """The source of a worker, which has got its frames."""
        return FrameSource(self.edges, self.names, frames=frames, first=self.first)

    def tables(self, wanted: Wanted) -> Iterator[tuple[int, TableOf]]:
        """For each run, in order, its number and what makes its table."""
        pieces = (
            (self.edges[k], self.edges[k + 1], frame)
            for k, frame in enumerate(self.frames, start=self.first)
            if len(frame) == self.edges[k + 1] - self.edges[k]
        )
        for number, parts in cut(pieces, wanted, lambda frame, low, high: frame.iloc[low:high]):
            yield number, partial(self._table, parts)

    def _table(self, parts: list[Any]) -> Table:
        tables = [as_table(part) for part in parts]
        return Table({name: np.concatenate([table[name] for table in tables]) for name in self.names})

    def ids(self, name: str) -> Iterator[list[Any]]:
        """All cells of the column that says whose a row is, partition by partition."""
        with self.client.as_current():
            for found in self.client.map(_cells, self.parts, name=name, pure=False):
                yield found.result()


def _cells(frame: Any, *, name: str) -> list[Any]:
    column = frame[name]
    if getattr(column.dtype, "kind", "O") in "iu":
        return list(np.asarray(column).tolist())
    return list(column_cells(column).tolist())


def frame_scan(data: Any, y: Any) -> Scan | None:
    """The scan of a Dask DataFrame, on its current client or on workers of this machine; None for anything else."""
    if isinstance(data, Scan):
        return data
    if type(data).__module__.split(".")[0] not in ("dask", "dask_expr") or not hasattr(data, "to_delayed"):
        return None
    if not hasattr(data, "columns"):
        raise InvalidInput("a Dask DataFrame has columns; arrays and bags have none. Nothing was released.")
    from discreet.data.dask import current_client

    return FrameScan(data, target=y if isinstance(y, str) else None, dask=current_client() or True)
