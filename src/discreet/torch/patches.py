"""The patches of its input that a convolution sees: the rows that its kernel is multiplied with."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor
from torch.nn import functional

__all__ = ["patches"]


def patches(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> Tensor:
    """The patches of ``x`` [n, channels, …], padded by zeros: [n, ∏ positions, channels · ∏ kernel]."""
    if any(padding):
        x = functional.pad(x, [side for width in reversed(padding) for side in (width, width)])
    x = x.contiguous()
    sizes = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)]
    steps = x.stride()
    strided = x.as_strided(
        (x.shape[0], x.shape[1], *kernel, *sizes),
        (steps[0], steps[1], *(d * t for d, t in zip(dilation, steps[2:], strict=True)),
         *(s * t for s, t in zip(stride, steps[2:], strict=True))),
    )  # fmt: skip
    return strided.reshape(x.shape[0], -1, math.prod(sizes)).transpose(1, 2)
