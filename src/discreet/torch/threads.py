"""Loops in parts, by as many threads as PyTorch's own operations use."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

import torch

__all__ = ["in_parts"]

SMALL = 1 << 16
"""Below so many entries a second thread costs more than it saves."""
PARTS = 4
"""Parts for each thread: one that comes late, because its processor is busy, leaves most of them to others."""


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="discreet")


def in_parts(work: Callable[[int, int], None], count: int, entries: int) -> None:
    """Call ``work(first, last)`` on parts of ``range(count)``.

    This thread begins at once and never waits for a part that has not begun, so that on a busy machine it does all.

    Args:
        work: is called by several threads at once; it must release the interpreter's lock for most of its time.
        count: the number of rows.
        entries: the number of entries that are read or written, which says whether threads pay.
    """
    threads = min(torch.get_num_threads(), count)
    if threads <= 1 or entries < SMALL:
        work(0, count)
        return
    number = min(PARTS * threads, count)
    left = list(pairwise([count * k // number for k in range(number, -1, -1)]))

    def body() -> None:
        while True:
            try:
                last, first = left.pop()
            except IndexError:
                return
            work(first, last)

    others = [_pool(threads - 1).submit(body) for _ in range(threads - 1)]
    try:
        body()
    finally:
        for other in others:
            if not other.cancel():
                other.result()
