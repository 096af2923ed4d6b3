"""What is kept of a convolution's kernel between the backward pass and the sum.

Inputs and output gradients are kept with channels last, in half precision. Patches are read from images by the kernels
of `discreet.torch.cuda.segments` where they can, and made before otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from discreet.torch.cuda import segments
from discreet.torch.cuda.outer import Outer, Part
from discreet.torch.cuda.reductions import Kept, Reduction, aligned, channels_last, padded
from discreet.torch.uses import ConvolutionUse, OuterUse

__all__ = ["convolved", "reduction_of_convolution"]


class Convolution(Reduction):
    """The kernel of a convolution: inputs and output gradients in half precision; patches are made when needed."""

    rule = "product over positions of each example, truncated"

    def __init__(self, use: ConvolutionUse, kind: torch.dtype) -> None:
        super().__init__(use.target, [_last(use.inputs).to(kind), _last(use.outputs).to(kind)])
        self.slots, self.stride, self.padding, self.dilation = use.slots, use.stride, use.padding, use.dilation
        self.kernel = use.target.shape[2:]
        self.times = math.prod(use.outputs.shape[2:]) * len(use.outputs) // use.slots
        self.rows, self.columns = use.target.shape[0], math.prod(use.target.shape[1:])
        self.window, self.last = _window(use), channels_last(use.target.parameter)

    @property
    def parts(self) -> int:
        """Parts of `segments.segment_squares`."""
        return segments.segment_parts(self.times, aligned(self.rows), aligned(self.columns))

    def _factors(self, held: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        if self.window is not None:
            return held[1].reshape(self.slots, self.times, -1).contiguous(), held[0].contiguous()
        seen = _patches(held[0], self.kernel, self.stride, self.padding, self.dilation)
        left, right = (t.reshape(self.slots, self.times, t.shape[-1]) for t in (held[1], seen))
        return padded(left), padded(right)

    def measure(self, held: Sequence[Tensor], squares: Tensor) -> None:
        """Squared lengths of the products of output gradients and patches."""
        segments.segment_squares(*self._factors(held), squares, self.window, last=self.last)

    def add(self, held: Sequence[Tensor], weights: Tensor, total: Tensor) -> None:
        """Σ trunc(w·product)."""
        left, right = self._factors(held)
        if self.window is not None:
            segments.segment_sums(left, right, weights, total, self.window, last=self.last)
        else:
            found = total.new_zeros(left.shape[2], right.shape[2])
            segments.segment_sums(left, right, weights, found, last=self.last)
            _put(found[: self.rows, : self.columns], self.kernel, total)


def reduction_of_convolution(use: ConvolutionUse, grid: float, kind: torch.dtype) -> Reduction:
    """The reduction of a convolution that uses its kernel alone.

    Args:
        use: inputs and output gradients.
        grid: whole steps to the clipping bound.
        kind: the type to which factors of products are rounded.
    """
    if use.groups > 1:
        return Kept(use.target, convolved(use, torch.float32))
    several = len(use.inputs) // use.slots
    if several * math.prod(use.outputs.shape[2:]) > 1:
        small = use.slots * math.prod(use.target.shape) <= use.inputs.numel() + use.outputs.numel()
        return Kept(use.target, convolved(use, kind)) if small and _window(use) is None else Convolution(use, kind)
    return _one_position(use, grid)


def _one_position(use: ConvolutionUse, grid: float) -> Outer:
    """The outer product of the only output gradient and the patch, without places in the kernel that see padding."""
    axes = list(zip(use.inputs.shape[2:], use.target.shape[2:], use.padding, use.dilation, strict=True))
    seen = [[k for k in range(width) if 0 <= k * apart - before < size] for size, width, before, apart in axes]
    if all(seen):
        ends = [(places[0], places[-1]) for places in seen]
        in_kernel = tuple(slice(first, last + 1) for first, last in ends)
        in_image = [
            slice(first * apart - before, last * apart - before + 1, apart)
            for (first, last), (_, _, before, apart) in zip(ends, axes, strict=True)
        ]
        patch = _last(use.inputs[(slice(None), slice(None), *in_image)])
    else:  # padding alone
        in_kernel = (slice(None),) * len(axes)
        patch = _patches(_last(use.inputs), use.target.shape[2:], use.stride, use.padding, use.dilation)
    outer = OuterUse(use.target, patch.reshape(use.slots, -1), use.outputs.reshape(use.slots, -1))
    return Outer(outer, grid, Part(in_kernel))


# --- tensors ----------------------------------------------------------------------------------------------------------


def _last(values: Tensor) -> Tensor:
    """[n, channels, …positions] as [n, …positions, channels]."""
    return values.permute(0, *range(2, values.dim()), 1).contiguous()


def _put(found: Tensor, kernel: Sequence[int], total: Tensor) -> None:
    """Write [p, ∏ kernel · channels], channels last, to the weight of a convolution."""
    whole = found.reshape(total.shape[0], *kernel, total.shape[1])
    total.copy_(whole.permute(0, whole.dim() - 1, *range(1, whole.dim() - 1)))


def _patches(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> Tensor:
    """The patches that a convolution sees, [n, …positions, ∏ kernel · channels], of x [n, …places, channels]."""
    x = functional.pad(x, [0, 0, *(side for width in reversed(padding) for side in (width, width))]).contiguous()
    steps, places = x.stride(), x.shape[1:-1]
    sizes = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(places, kernel, stride, dilation, strict=True)]
    strided = x.as_strided(
        (len(x), *sizes, *kernel, x.shape[-1]),
        (steps[0], *(s * t for s, t in zip(stride, steps[1:-1], strict=True)),
         *(d * t for d, t in zip(dilation, steps[1:-1], strict=True)), 1),
    )  # fmt: skip
    return strided.reshape(len(x), *sizes, -1)


def _window(use: ConvolutionUse) -> segments.Window | None:
    """The patches that kernels read from images themselves; None where they have to be made."""
    p, d, *kernel = use.target.shape
    aligned = p % segments.ALIGNED == 0 and d % segments.ALIGNED == 0
    if not (use.inputs.is_cuda and aligned and len(kernel) == 2 and len(use.inputs) == use.slots):
        return None
    (high, wide), (down, right), (above, beside), (row, column) = kernel, use.stride, use.padding, use.dilation
    return segments.Window((high, wide), (down, right), (above, beside), (row, column), use.outputs.shape[3])


def convolved(use: ConvolutionUse, kind: torch.dtype) -> Tensor:
    """The kernel's gradients of each slot, by products of output gradients and patches, group by group."""
    p, d, *kernel = use.target.shape
    slots, groups = use.slots, use.groups
    seen = _patches(_last(use.inputs).to(kind), kernel, use.stride, use.padding, use.dilation)
    left = _last(use.outputs).to(kind).reshape(slots, -1, groups, p // groups)
    right = seen.reshape(slots, left.shape[1], -1, groups, d).permute(0, 3, 1, 2, 4)
    found = left.permute(0, 2, 3, 1) @ right.reshape(slots, groups, left.shape[1], -1)
    whole = found.reshape(slots, p, *kernel, d)
    return whole.permute(0, 1, whole.dim() - 1, *range(2, whole.dim() - 1)).contiguous()
