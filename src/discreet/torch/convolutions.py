"""Gradients of a convolution's kernel, one for each example, by compiled loops over images in host memory.

The patches of one image fill a small matrix that stays in the cache, and are multiplied with the output gradients at
once. Batches of such small products are what libraries for large matrices are slow at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numba import njit, uintp
from torch import Tensor
from torch.nn import functional

from discreet.torch.threads import in_parts

__all__ = ["convolution_gradients", "is_compiled"]


@njit(nogil=True, cache=True, inline="always")
def _copy_four(x, start, out, place):  # type: ignore[no-untyped-def]
    """Copy four entries, all read before one is written, so that the compiler may move them together."""
    a, b, c, d = x[start], x[start + uintp(1)], x[start + uintp(2)], x[start + uintp(3)]
    out[place], out[place + uintp(1)], out[place + uintp(2)], out[place + uintp(3)] = a, b, c, d


@njit(nogil=True, cache=True, inline="always")
def _copy_row(x, start, out, place, width):  # type: ignore[no-untyped-def]
    """Copy ``width`` entries by fours, the last four of which may overlap those before."""
    if width < uintp(4):
        for j in range(width):
            out[place + j] = x[start + j]
    else:
        last, j = width - uintp(4), uintp(0)
        while j < last:
            _copy_four(x, start + j, out, place + j)
            j += uintp(4)
        _copy_four(x, start + last, out, place + last)


@njit(nogil=True, cache=True)
def _copy_patches(x, first, channels, shape, kernel, stride, sizes, out):  # type: ignore[no-untyped-def]
    """Patches of the channels from ``first`` on of an image; places are unsigned, which spares a test for each."""
    width, step, place = uintp(kernel[1]), uintp(shape[1]), uintp(0)
    for y in range(sizes[0]):
        for z in range(sizes[1]):
            for c in range(first, first + channels):
                start = uintp((c * shape[0] + y * stride[0]) * shape[1] + z * stride[1])
                for _ in range(kernel[0]):
                    _copy_row(x, start, out, place, width)
                    place += width
                    start += step


@njit(nogil=True, cache=True, fastmath={"contract"})
def _add_four(p, q, r, s, a, b, c, d, rows):  # type: ignore[no-untyped-def]
    """Add Σ_t a_t·row_t to p, and so on for b and q, c and r, d and s: sixteen products for eight rows in memory."""
    count, width = rows.shape[0], rows.shape[1]
    for t in range(0, count - 3, 4):
        w, x, y, z = rows[t], rows[t + 1], rows[t + 2], rows[t + 3]
        a0, a1, a2, a3 = a[t], a[t + 1], a[t + 2], a[t + 3]
        b0, b1, b2, b3 = b[t], b[t + 1], b[t + 2], b[t + 3]
        c0, c1, c2, c3 = c[t], c[t + 1], c[t + 2], c[t + 3]
        d0, d1, d2, d3 = d[t], d[t + 1], d[t + 2], d[t + 3]
        for k in range(width):
            p[k] += a0 * w[k] + a1 * x[k] + a2 * y[k] + a3 * z[k]
            q[k] += b0 * w[k] + b1 * x[k] + b2 * y[k] + b3 * z[k]
            r[k] += c0 * w[k] + c1 * x[k] + c2 * y[k] + c3 * z[k]
            s[k] += d0 * w[k] + d1 * x[k] + d2 * y[k] + d3 * z[k]
    for t in range(count - count % 4, count):
        w, a0, b0, c0, d0 = rows[t], a[t], b[t], c[t], d[t]
        for k in range(width):
            p[k] += a0 * w[k]
            q[k] += b0 * w[k]
            r[k] += c0 * w[k]
            s[k] += d0 * w[k]


@njit(nogil=True, cache=True, fastmath={"contract"})
def _add_product(left, rows, out):  # type: ignore[no-untyped-def]
    """Add the product of left [p, n] and rows [n, d] to out [p, d]."""
    count = left.shape[0]
    for c in range(0, count - 3, 4):
        _add_four(
            out[c], out[c + 1], out[c + 2], out[c + 3], left[c], left[c + 1], left[c + 2], left[c + 3], rows
        )  # fmt: skip
    for c in range(count - count % 4, count):
        sums = out[c]
        for t in range(rows.shape[0]):
            factor, row = left[c, t], rows[t]
            for k in range(row.shape[0]):
                sums[k] += factor * row[k]


@njit(nogil=True, cache=True)
def _gradients(images, shape, kernel, stride, sizes, groups, outputs, out):  # type: ignore[no-untyped-def]
    """Gradients [slots, p, d] from flat images [slots, several, …] and output gradients [slots, several, p, n]."""
    channels, several, each = shape[0] // groups, outputs.shape[1], outputs.shape[2] // groups
    seen = np.empty((outputs.shape[3], channels * kernel[0] * kernel[1]), images.dtype)
    for slot in range(out.shape[0]):
        out[slot] = 0.0
        for one in range(several):
            for group in range(groups):
                first = group * each
                _copy_patches(
                    images[slot, one], group * channels, channels, shape[1:], kernel, stride, sizes, seen.reshape(-1)
                )  # fmt: skip
                _add_product(outputs[slot, one, first : first + each], seen, out[slot, first : first + each])


def is_compiled(x: Tensor, dilation: Sequence[int]) -> bool:
    """Whether there are compiled loops: images or sequences of floats in host memory, kernels without holes."""
    known = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)
    return known and len(dilation) <= 2 and all(d == 1 for d in dilation)


def convolution_gradients(
    x: Tensor, g: Tensor, stride: Sequence[int], padding: Sequence[int], groups: int, out: Tensor
) -> None:
    """Write the sums over positions of output gradient times patch to ``out`` [slots, p, channels/groups, …kernel].

    ``x`` [slots · several, channels, …] and ``g`` [slots · several, p, …positions] have one image or several a slot.
    """
    kernel, sizes = tuple(out.shape[3:]), tuple(g.shape[2:])
    if any(padding):
        x = functional.pad(x, [side for width in reversed(padding) for side in (width, width)])
    if len(kernel) == 1:  # a sequence is an image of height 1
        x, kernel, stride, sizes = x[:, :, None], (1, *kernel), (1, *stride), (1, *sizes)
    slots, several = len(out), len(x) // len(out)
    images = x.contiguous().numpy().reshape(slots, several, -1)
    outputs = g.contiguous().numpy().reshape(slots, several, g.shape[1], math.prod(sizes))
    found = out.numpy().reshape(slots, g.shape[1], -1)
    settings = tuple(x.shape[1:]), kernel, tuple(stride), sizes, groups

    def write(first: int, last: int) -> None:
        _gradients(images[first:last], *settings, outputs[first:last], found[first:last])

    in_parts(write, slots, images.size + outputs.size * found.shape[2] // 4)  # four products take as long as an entry
