"""Sums over examples whose integers are exact: squared lengths, truncated sums and quantised rows.

Each function exists twice: compiled loops (numba) for contiguous float32 tensors in host memory, and the same formulas
in PyTorch for everything else. Both keep the bounds of docs/maths/torch.md; they may differ in the last bit of a
squared length, so one process should use one of them for a given layer, which it does because the choice depends on
the tensor's type and device alone.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import torch
from numba import njit
from torch import Tensor

__all__ = ["add_truncated", "quantise", "quantised_lengths", "square_lengths"]

COLUMNS = 4096
"""Columns of a running sum that are worked on together: 32 KiB of doubles, which a first-level cache holds."""
SMALL = 1 << 16
"""Below so many entries a second thread costs more than it saves."""


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _square_lengths(rows, out):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        total = 0.0
        for j in range(rows.shape[1]):
            x = np.float64(rows[i, j])
            total += x * x
        out[i] = total


@njit(nogil=True, cache=True)
def _add_truncated(rows, weights, total, begin, end):  # type: ignore[no-untyped-def]
    for first in range(begin, end, COLUMNS):
        last = min(first + COLUMNS, end)
        part = total[first:last]
        for i in range(rows.shape[0]):
            w = weights[i]
            if w != 0.0:
                row = rows[i, first:last]
                for j in range(part.shape[0]):
                    part[j] += np.trunc(w * np.float64(row[j]))


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
def _quantised_lengths(rows, length, scales, squares):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        total = 0.0
        for j in range(rows.shape[1]):
            x = np.float64(rows[i, j])
            total += x * x
        scale = length / np.sqrt(total) if total > 0.0 else 0.0
        if not np.isfinite(total) or not np.isfinite(scale):
            scales[i] = np.nan
            squares[i] = np.nan
            continue
        square = 0.0
        for j in range(rows.shape[1]):
            q = np.rint(scale * np.float64(rows[i, j]))
            square += q * q
        scales[i] = scale
        squares[i] = square


@njit(nogil=True, cache=True)
def _quantise(rows, scales, out):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        scale = scales[i]
        if scale == 0.0:
            out[i, :] = 0.0
        else:
            for j in range(rows.shape[1]):
                out[i, j] = np.rint(scale * np.float64(rows[i, j]))


@njit(nogil=True, cache=True)
def _truncate(rows, scales, out):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        scale = scales[i]
        if scale == 0.0:
            out[i, :] = 0.0
        else:
            for j in range(rows.shape[1]):
                out[i, j] = np.trunc(scale * np.float64(rows[i, j]))


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="discreet")


def _in_parts(work: Callable[[int, int], None], count: int, entries: int) -> None:
    """Call ``work(first, last)`` on parts of ``range(count)``, one a thread of PyTorch's."""
    threads = torch.get_num_threads()
    if threads == 1 or entries < SMALL or count < threads:
        work(0, count)
        return
    ends = [count * k // threads for k in range(threads + 1)]
    list(_pool(threads).map(work, ends[:-1], ends[1:]))


def _compiled(rows: Tensor) -> bool:
    return rows.device.type == "cpu" and rows.dtype in (torch.float32, torch.float64)


def square_lengths(rows: Tensor) -> Tensor:
    """Squared length of each row as doubles; the relative error is at most (columns + 1)·2^−53.

    Squares of floats of at most 24 digits are exact in double arithmetic and no term is negative, so the bound holds in
    any order of summation. A row with an entry that is not finite has a squared length that is not finite.
    """
    rows = rows.reshape(rows.shape[0], -1)
    if not _compiled(rows):
        return rows.double().square().sum(1)
    values, out = rows.contiguous().numpy(), np.empty(rows.shape[0])
    _in_parts(lambda i, k: _square_lengths(values[i:k], out[i:k]), len(out), values.size)
    return torch.from_numpy(out)


def add_truncated(rows: Tensor, weights: Tensor, total: Tensor) -> None:
    """Add Σ_i trunc(w_i·row_i) to ``total``, a flat tensor of doubles that are whole numbers.

    The product is rounded to double before it is truncated towards zero, so that a row adds integers of length at most
    (1 + 2^−53)·w_i·‖row_i‖. A weight of zero adds nothing, whatever the row holds. The sum is exact, and hence the same
    in any order, as long as the absolute values of an entry's terms sum to less than 2^53.
    """
    rows = rows.reshape(rows.shape[0], -1)
    if not _compiled(rows):
        scaled = (rows.double() * weights[:, None]).trunc()
        total += scaled.masked_fill((weights == 0)[:, None], 0.0).sum(0)
        return
    values, factors, sums = rows.contiguous().numpy(), weights.numpy(), total.numpy()
    _in_parts(lambda i, k: _add_truncated(values, factors, sums, i, k), len(sums), values.size)


def quantised_lengths(rows: Tensor, length: float) -> tuple[Tensor, Tensor]:
    """Scales t_i that give rows the given length, and the squared lengths of the integers round(t_i·row_i).

    A row of zeros has the scale 0; a row that is not finite, or so short that its scale is not, has NaN for both.
    """
    if not _compiled(rows):
        wide = rows.double()
        square = wide.square().sum(1)
        scales = torch.where(square > 0, length / square.sqrt(), square * 0.0)
        usable = square.isfinite() & scales.isfinite()
        scales = scales.masked_fill(~usable, torch.nan)
        return scales, (wide * scales[:, None]).round().square().sum(1)
    values = rows.contiguous().numpy()
    scale, squares = np.empty(len(values)), np.empty(len(values))
    _in_parts(lambda i, k: _quantised_lengths(values[i:k], length, scale[i:k], squares[i:k]), len(values), values.size)
    return torch.from_numpy(scale), torch.from_numpy(squares)


def quantise(rows: Tensor, scales: Tensor, *, towards_zero: bool = False) -> Tensor:
    """round(t_i·row_i), or trunc(t_i·row_i), as whole doubles. A scale of zero gives zeros, whatever the row holds."""
    if not _compiled(rows):
        scaled = rows.double() * scales[:, None]
        whole = scaled.trunc() if towards_zero else scaled.round()
        return whole.masked_fill((scales == 0)[:, None], 0.0)
    values, factors = rows.contiguous().numpy(), scales.numpy()
    out = torch.empty(rows.shape, dtype=torch.float64)
    whole, kernel = out.numpy(), _truncate if towards_zero else _quantise
    _in_parts(lambda i, k: kernel(values[i:k], factors[i:k], whole[i:k]), len(values), values.size)
    return out
