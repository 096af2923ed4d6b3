"""Loops in parts, by the threads of PyTorch's own operations.

Between two operations the threads of OpenMP wait for the next one without giving up their processors. A thread of
another pool then shares a processor with one that waits, and comes late: with two threads on two processors nothing is
gained by it. Parts are therefore given to OpenMP's own team, wherever PyTorch's OpenMP has GNU's interface (all builds
for Linux), and to threads of Python otherwise.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

__all__ = ["as_batch", "in_parts"]

SMALL = 1 << 20
"""Below so many entries, a quarter of a millisecond's work, a second thread costs more than it saves: up to a tenth of
a millisecond, in which it waits for the interpreter's lock."""
PARTS = 4
"""Parts for each thread: one that comes late, because its processor is busy, leaves most of them to others."""
MANY = 1 << 10
"""Rows from which a product with few columns is given to several threads as a batch of products."""
_Region = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@cache
def _team() -> Any:
    """GNU's entry to a parallel region, from the library that PyTorch itself uses; None where there is none."""
    try:
        enter = ctypes.CDLL(torch._C.__file__).GOMP_parallel
    except (AttributeError, OSError):
        return None
    enter.argtypes, enter.restype = [_Region, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint], None
    return enter


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="discreet")


def in_parts(work: Callable[[int, int], None], count: int, entries: int) -> None:
    """Call ``work(first, last)`` on parts of ``range(count)``, by as many threads as PyTorch's operations use.

    Args:
        work: is called by several threads at once; it must release the interpreter's lock for most of its time.
        count: the number of rows.
        entries: the work, as a number of entries that are read, multiplied and written, which says whether threads pay.

    Raises:
        BaseException: the first that ``work`` raised, after all threads have ended.
        KeyboardInterrupt: a part was not done.
    """
    threads = min(torch.get_num_threads(), count)
    if threads <= 1 or entries < SMALL:
        work(0, count)
        return
    number = min(PARTS * threads, count)
    left = list(pairwise([count * k // number for k in range(number, -1, -1)]))
    ended: list[BaseException | None] = []

    def body() -> None:
        while left and not any(ended):
            try:
                last, first = left.pop()
            except IndexError:  # another thread took the last part
                return
            try:
                work(first, last)
                ended.append(None)
            except BaseException as error:
                ended.append(error)

    enter = _team()
    if enter is None:
        _by_python(body, threads)
    else:
        enter(_Region(lambda _: body()), None, threads, 0)
    for error in filter(None, ended):
        raise error
    if len(ended) < number:  # an interrupt that came between two parts is lost on its way through foreign code
        raise KeyboardInterrupt


def as_batch(rows: Tensor) -> Tensor:
    """Rows [n, d] as a batch [parts, n / parts, d] of 16 parts, or fewer where 16 does not divide n.

    A product of n rows with a matrix of few rows or columns takes nearly as long by two threads as by one, because it
    is not cut along n. A batch of products is.

    Example:
        >>> as_batch(torch.ones(4096, 3)).shape, as_batch(torch.ones(1001, 3)).shape
        (torch.Size([16, 256, 3]), torch.Size([1, 1001, 3]))
    """
    parts = math.gcd(len(rows), 16) if len(rows) >= MANY else 1
    return rows.reshape(parts, len(rows) // parts, rows.shape[1])


def _by_python(body: Callable[[], None], threads: int) -> None:
    """Run a loop by this thread and by others of a pool; one that has not begun by its end is not waited for."""
    others = [_pool(threads - 1).submit(body) for _ in range(threads - 1)]
    body()
    for other in others:
        if not other.cancel():
            other.result()
