"""The patches of its input that a convolution sees: the rows that its kernel is multiplied with.

Compiled loops (numba) copy the patches of images and sequences in host memory, whose kernel has no holes; views of
PyTorch give those of everything else. Both give the same numbers, since nothing is computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from numba import njit, uintp
from torch import Tensor
from torch.nn import functional

from discreet.torch.kernels import in_parts

__all__ = ["patches"]


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
def _copy_patches(x, shape, kernel, stride, sizes, out):  # type: ignore[no-untyped-def]
    """Patches of images [n, channels, rows, columns] in a row; places are unsigned, which spares a test for each."""
    count, channels, rows, columns = shape
    width, step, place = uintp(kernel[1]), uintp(columns), uintp(0)
    for i in range(count):
        for y in range(sizes[0]):
            for z in range(sizes[1]):
                for c in range(channels):
                    start = uintp(((i * channels + c) * rows + y * stride[0]) * columns + z * stride[1])
                    for _ in range(kernel[0]):
                        _copy_row(x, start, out, place, width)
                        place += width
                        start += step


def patches(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> Tensor:
    """The patches of ``x`` [n, channels, …], padded by zeros: [n, ∏ positions, channels · ∏ kernel]."""
    if any(padding):
        x = functional.pad(x, [side for width in reversed(padding) for side in (width, width)])
    x = x.contiguous()
    sizes = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)]
    compiled = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)
    if compiled and len(sizes) <= 2 and all(d == 1 for d in dilation):
        return _compiled_patches(x, kernel, stride, sizes)
    steps = x.stride()
    strided = x.as_strided(
        (x.shape[0], x.shape[1], *kernel, *sizes),
        (steps[0], steps[1], *(d * t for d, t in zip(dilation, steps[2:], strict=True)),
         *(s * t for s, t in zip(stride, steps[2:], strict=True))),
    )  # fmt: skip
    return strided.reshape(x.shape[0], -1, math.prod(sizes)).transpose(1, 2)


def _compiled_patches(x: Tensor, kernel: Sequence[int], stride: Sequence[int], sizes: Sequence[int]) -> Tensor:
    if len(sizes) == 1:  # a sequence is an image of height 1
        x, kernel, stride, sizes = x[:, :, None], (1, *kernel), (1, *stride), (1, *sizes)
    out = x.new_empty(x.shape[0], math.prod(sizes), x.shape[1] * math.prod(kernel))
    images, found = x.numpy(), out.numpy()

    def copy(first: int, last: int) -> None:
        part = images[first:last]
        settings = part.shape, tuple(kernel), tuple(stride), tuple(sizes)
        _copy_patches(part.reshape(-1), *settings, found[first:last].reshape(-1))

    in_parts(copy, len(found), found.size)
    return out
