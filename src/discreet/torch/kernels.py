"""Sums over examples whose integers are exact: squared lengths, truncated sums and quantised rows.

Each function exists twice: compiled loops (numba) for contiguous float32 tensors in host memory, and the same formulas
in PyTorch for everything else. Both keep the bounds of docs/maths/torch.md; they may differ in the last bit of a
squared length, so one process should use one of them for a given layer, which it does because the choice depends on
the tensor's type and device alone.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from numba import njit
from torch import Tensor

from discreet.torch.threads import in_parts

__all__ = ["LARGEST", "Quantised", "add_outer", "add_truncated", "quantised", "square_lengths", "truncated"]

COLUMNS = 4096
"""Columns of a running sum that are worked on together: 32 KiB of doubles, which a first-level cache holds."""
LARGEST = 32512.0
"""The largest quantised integer, 127·256: it is low + 256·high for signed bytes low and high."""
TERMS = 1 << 16
"""Examples whose products of bytes are summed together: 2^16 products of at most 2^14 stay below 2^31."""


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
def _quantise(rows, length, scales, squares, digits):  # type: ignore[no-untyped-def]
    """Scales and squared lengths of quantised rows; also their digits, where ``digits`` is not empty."""
    for i in range(rows.shape[0]):
        row, total = rows[i], 0.0
        for j in range(row.shape[0]):
            x = np.float64(row[j])
            total += x * x
        scales[i] = length / np.sqrt(total) if total > 0.0 else 0.0  # rounded to the type of the rows
        if not np.isfinite(total) or not np.isfinite(scales[i]):
            scales[i] = np.nan
            squares[i] = np.nan
            if len(digits):
                digits[i, :] = 0
            continue
        scale, square = scales[i], 0.0
        if len(digits):
            found = digits[i]
            for j in range(row.shape[0]):
                value = np.int32(np.rint(scale * row[j]))
                square += np.float64(value) * np.float64(value)
                found[j] = np.int16((value + np.int32(128)) ^ np.int32(128))
        else:
            for j in range(row.shape[0]):
                q = np.float64(np.rint(scale * row[j]))
                square += q * q
        squares[i] = square


@njit(nogil=True, cache=True)
def _truncate(rows, scales, out):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        scale = scales[i]
        if scale == 0.0:
            out[i, :] = 0.0
        else:
            for j in range(rows.shape[1]):
                out[i, j] = np.trunc(scale * np.float64(rows[i, j]))


@njit(nogil=True, cache=True)
def _truncated_digits(rows, scales, out):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        scale, row, digits = scales[i], rows[i], out[i]
        if scale == 0.0:
            digits[:] = 0
        else:
            for j in range(row.shape[0]):
                scaled = scale * np.float64(row[j])
                scaled = LARGEST if scaled > LARGEST else scaled
                scaled = -LARGEST if scaled < -LARGEST else scaled
                digits[j] = np.int16((np.int32(scaled) + np.int32(128)) ^ np.int32(128))


@njit(nogil=True, cache=True)
def _add_digits(products, multiple, total):  # type: ignore[no-untyped-def]
    for i in range(total.shape[0]):
        low, high, sums = products[2 * i], products[2 * i + 1], total[i]
        for j in range(sums.shape[0]):
            middle = np.int64(low[2 * j + 1]) + np.int64(high[2 * j])
            value = (np.int64(high[2 * j + 1]) << 16) + (middle << 8) + np.int64(low[2 * j])
            sums[j] += np.float64(multiple * value)


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
    in_parts(lambda i, k: _square_lengths(values[i:k], out[i:k]), len(out), values.size)
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
    in_parts(lambda i, k: _add_truncated(values, factors, sums, i, k), len(sums), values.size)


class Quantised(NamedTuple):
    """Rows q_i = round(t_i·row_i) of integers.

    Args:
        rows: the rows a_i.
        scales: t_i, of the type of the rows (float32 for shorter ones); 0 for a row of zeros, and NaN for one that is
            not finite or whose scale is not.
        squares: ‖q_i‖², or NaN where the scale is.
        digits: q_i as low + 256·high: bytes [n, 2d], low and high in turn, both from −128 to 127; zeros where the scale
            is NaN. None where they are not used.
    """

    rows: Tensor
    scales: Tensor
    squares: Tensor
    digits: Tensor | None


def quantised(rows: Tensor, length: float) -> Quantised:
    """The rows, each scaled to the given length and rounded to integers.

    The product is rounded to the type of the row (float32 for shorter ones) before it is rounded to an integer. With
    digits, integers must be at most `LARGEST`.
    """
    if not _compiled(rows):
        wide = rows.double()
        square = wide.square().sum(1)
        scales = torch.where(square > 0, length / square.sqrt(), square * 0.0).to(_kind(rows))
        usable = square.isfinite() & scales.isfinite()
        scales = scales.masked_fill(~usable, torch.nan)
        return Quantised(rows, scales, _whole(rows, scales, False).square().sum(1), None)
    values = rows.contiguous().numpy()
    scale, squares = np.empty(len(values), values.dtype), np.empty(len(values))
    digits = np.empty(values.shape if _has_products_of_bytes() else (0, 0), np.int16)
    in_parts(
        lambda i, k: _quantise(values[i:k], length, scale[i:k], squares[i:k], digits[i:k]), len(values), values.size
    )
    found = torch.from_numpy(digits).view(torch.int8) if digits.size else None
    return Quantised(rows, torch.from_numpy(scale), torch.from_numpy(squares), found)


def _kind(rows: Tensor) -> torch.dtype:
    return torch.float64 if rows.dtype == torch.float64 else torch.float32


def truncated(rows: Tensor, scales: Tensor) -> Tensor:
    """trunc(t_i·row_i) as whole doubles. A scale of zero gives zeros, whatever the row holds."""
    if not _compiled(rows):
        return (rows.double() * scales[:, None]).trunc().masked_fill((scales == 0)[:, None], 0.0)
    values, factors = rows.contiguous().numpy(), scales.numpy()
    out = torch.empty(rows.shape, dtype=torch.float64)
    whole = out.numpy()
    in_parts(lambda i, k: _truncate(values[i:k], factors[i:k], whole[i:k]), len(values), values.size)
    return out


def _whole(rows: Tensor, scales: Tensor, towards_zero: bool) -> Tensor:
    """round(t_i·row_i), or trunc(t_i·row_i) cut to ±`LARGEST`, as doubles."""
    if towards_zero:
        whole = (rows.double() * scales.double()[:, None]).trunc().clamp(-LARGEST, LARGEST)
    else:
        whole = (rows.to(_kind(rows)) * scales.to(_kind(rows))[:, None]).round().double()
    return whole.masked_fill((scales == 0)[:, None], 0.0)


def _in_digits(rows: Tensor, scales: Tensor) -> Tensor:
    """The integers trunc(t_i·row_i), cut to ±`LARGEST`, as low + 256·high: see `Quantised`.

    The low byte of (v + 128) has 128 more than the digit; flipping its first bit takes them off again.
    """
    values, factors = rows.contiguous().numpy(), scales.double().numpy()
    out = torch.empty(values.shape, dtype=torch.int16)
    digits = out.numpy()
    in_parts(lambda i, k: _truncated_digits(values[i:k], factors[i:k], digits[i:k]), len(values), values.size)
    return out.view(torch.int8)


def add_outer(outputs: Tensor, scales: Tensor, inputs: Quantised, multiple: int, total: Tensor) -> None:
    """Add m·Σ_i trunc(u_i·g_i) q_iᵀ to ``total`` [p, d], a matrix of doubles that are whole numbers.

    g_i are ``outputs``, u_i ``scales`` and q_i ``inputs``. A scale of zero adds nothing, whatever the rows hold.
    Truncated integers are cut to ±32512, which shortens. The sum is exact, by products of bytes where the processor
    has instructions for them and by a product of doubles otherwise: both give the same integers, as long as the
    absolute values of an entry's terms sum to less than 2^53.
    """
    if inputs.digits is None or not _compiled(outputs):
        used = torch.where(scales == 0, 0.0, inputs.scales)
        whole = _whole(outputs, scales, True).T @ _whole(inputs.rows, used, False)
        total.add_(whole, alpha=multiple)
        return
    for first in range(0, len(outputs), TERMS):
        part = slice(first, first + TERMS)
        left = _in_digits(outputs[part], scales[part])
        products, sums = torch._int_mm(left.T, inputs.digits[part]).numpy(), total.numpy()
        _add_digits(products, multiple, sums)


@cache
def _has_products_of_bytes() -> bool:
    """Whether products of bytes are fast here, and exact for the largest bytes (older instructions saturate)."""
    if sys.byteorder != "little" or not torch.cpu.get_capabilities().get("avx512_vnni", False):
        return False
    left = torch.tensor([-128, 127, -127, 1], dtype=torch.int8).repeat(256)[:, None].expand(-1, 32).contiguous()
    right = torch.tensor([-128, 127, 127, -1], dtype=torch.int8).repeat(256)[:, None].expand(-1, 32).contiguous()
    found = torch._int_mm(left.T, right)
    return bool((found == int((left[:, 0].long() * right[:, 0].long()).sum())).all())
