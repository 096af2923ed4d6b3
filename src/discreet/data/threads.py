"""Run a function over parts of the rows on all cores that this process may use."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import numpy as np

__all__ = ["cores", "in_order", "on_all_cores", "split"]

S = TypeVar("S")
T = TypeVar("T")


def cores() -> int:
    """Cores to use: ``DISCREET_THREADS`` if set, else those the process may run on."""
    asked = os.environ.get("DISCREET_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@cache
def _pool(workers: int, process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="discreet")


def on_all_cores(function: Callable[[S], T], parts: Sequence[S]) -> list[T]:
    """function(part) for each part, in order; without numpy's floating-point warnings, which would tell about rows."""

    def quiet(part: S) -> T:
        with np.errstate(all="ignore"):  # its setting belongs to a thread, so each sets its own
            return function(part)

    if not parts:
        return []
    others = [_pool(cores(), os.getpid()).submit(quiet, part) for part in parts[1:]]
    return [quiet(parts[0]), *(other.result() for other in others)]  # the caller works too: one hand-over less


def in_order(function: Callable[[S], T], items: Iterable[S], *, workers: int | None = None) -> Iterator[T]:
    """function(item) for each item, on all cores, in order: at most one item a core and one more are at work.

    The items of an iterator are made by the caller's thread while the others work, which is how files are read ahead.

    Args:
        function: what is done with each.
        items: in order.
        workers: how many cores to use; by default all.
    """
    workers = cores() if workers is None else workers

    def quiet(item: S) -> T:
        with np.errstate(all="ignore"):
            return function(item)

    if isinstance(items, Sequence) and (workers == 1 or len(items) == 1):
        yield from map(quiet, items)
        return
    due: deque[Future[T]] = deque()
    try:
        for item in items:
            due.append(_pool(workers, os.getpid()).submit(quiet, item))
            if len(due) > workers:
                yield due.popleft().result()
        while due:
            yield due.popleft().result()
    finally:
        for waiting in due:
            waiting.cancel()


def split(n: int, least: int) -> list[slice]:
    """Contiguous slices of n rows, one a core, none shorter than ``least`` unless n is."""
    parts = min(cores(), n // least) if n >= 2 * least else 1
    edges = [n * k // parts for k in range(parts + 1)]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]
