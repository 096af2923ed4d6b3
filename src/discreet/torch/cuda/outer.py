"""Sums of outer products of two vectors a slot: inputs rounded to integers, output gradients truncated, on a GPU too.

The formulas are those of `discreet.torch.blocks.QuantisedBlock`. On a GPU the integers of the input are kept between
both answers, and two kernels of this module take the place of many of PyTorch's; in host memory the block itself runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from discreet.torch.blocks import QuantisedBlock, quantised_length
from discreet.torch.cuda.reductions import Reduction
from discreet.torch.kernels import LARGEST
from discreet.torch.uses import OuterUse, Target

try:
    import triton
    import triton.language as tl
except ImportError:
    from discreet.torch.cuda.without_triton import tl, triton

__all__ = ["Outer", "Part"]


@dataclass(frozen=True)
class Part:
    """Where in a kernel [p, channels, …] a matrix [p, ∏ sizes · channels], channels last, belongs; the rest is zero."""

    places: tuple[slice, ...]

    def put(self, found: Tensor, total: Tensor) -> None:
        """Write the matrix."""
        part = total[(slice(None), slice(None), *self.places)]
        whole = found.reshape(part.shape[0], *part.shape[2:], part.shape[1])
        part.copy_(whole.permute(0, whole.dim() - 1, *range(1, whole.dim() - 1)))


class Outer(Reduction):
    """A matrix that met one vector of each slot: inputs and output gradients, quantised when they are summed.

    Args:
        use: inputs and output gradients.
        grid: whole steps to the clipping bound.
        part: for convolutions with one position, where the matrix belongs.
    """

    rule = QuantisedBlock.rule

    def __init__(self, use: OuterUse, grid: float, part: Part | None = None) -> None:
        super().__init__(use.target, [use.inputs, use.outputs])
        self.grid, self.transposed, self.part = grid, use.transposed, part
        self.rows, self.columns = use.outputs.shape[1], use.inputs.shape[1]
        self.length, self.multiple = quantised_length(grid)
        self.block: QuantisedBlock | None = None
        self.integers: tuple[Tensor, Tensor] | None = None

    @property
    def parts(self) -> int:
        """One."""
        return 1

    def measure(self, held: Sequence[Tensor], squares: Tensor) -> None:
        """‖â‖²·‖g‖²/t² for the integers â of the input."""
        inputs, outputs = held[0].contiguous(), held[1].contiguous()
        if not inputs.is_cuda:
            self.block = QuantisedBlock(OuterUse(Target(self.target.parameter), inputs, outputs), self.grid)
            squares[0] = self.block.square_lengths()
            return
        whole = torch.empty(inputs.shape, dtype=torch.int16, device=inputs.device)
        scales = torch.empty(len(inputs), device=inputs.device)
        with torch.cuda.device(inputs.device):
            _quantised[(len(inputs),)](
                inputs, outputs, whole, scales, squares, self.length, self.columns, self.rows, BLOCK=512, num_warps=4
            )
        self.integers = whole, scales

    def add(self, held: Sequence[Tensor], weights: Tensor, total: Tensor) -> None:
        """Σ m·ĝ âᵀ, by a product of doubles that are whole numbers."""
        found = self._product(held[1].contiguous(), weights)
        if self.part is not None:
            self.part.put(found, total)
        else:
            total.copy_(found.T if self.transposed else found)

    def _product(self, outputs: Tensor, weights: Tensor) -> Tensor:
        if self.block is not None:
            found = torch.zeros(self.rows, self.columns, dtype=torch.float64, device=weights.device)
            block, self.block = self.block, None
            block.add(weights.double(), found)
            return found
        assert self.integers is not None, "measured before"
        (whole, scales), self.integers = self.integers, None
        truncated = torch.empty(outputs.shape, dtype=torch.float64, device=outputs.device)
        with torch.cuda.device(outputs.device):
            _truncated[(len(outputs),)](
                outputs, weights, scales, truncated, self.multiple, self.rows, LARGEST=LARGEST, BLOCK=512, num_warps=4
            )
        found = truncated.T @ whole.double()
        return found if self.multiple == 1 else found.mul_(self.multiple)


@triton.jit
def _quantised(  # type: ignore[no-untyped-def]
    inputs, outputs, whole, scales, squares, length, columns, rows, BLOCK: tl.constexpr
):
    """Integers â = round(t·a) of a slot's input, t ≈ length/‖a‖ and ‖â‖²·‖g‖²/t²; NaN where a or t is not finite."""
    slot = tl.program_id(0).to(tl.int64)
    entry = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float64)
    for first in range(0, columns, BLOCK):
        value = tl.load(inputs + slot * columns + first + entry, mask=first + entry < columns, other=0.0).to(tl.float64)
        total += value * value
    square = tl.sum(total, 0)
    some = square > 0.0
    scale = tl.where(some, length.to(tl.float64) / tl.sqrt(tl.where(some, square, 1.0)), 0.0).to(tl.float32)
    total = tl.zeros((BLOCK,), tl.float64)
    for first in range(0, columns, BLOCK):
        inside = first + entry < columns
        value = tl.load(inputs + slot * columns + first + entry, mask=inside, other=0.0).to(tl.float32) * scale
        integer = (value + tl.where(value < 0.0, -0.5, 0.5)).to(tl.int32).to(tl.int16)
        tl.store(whole + slot * columns + first + entry, integer, mask=inside)
        total += integer.to(tl.float64) * integer.to(tl.float64)
    of_integers = tl.sum(total, 0)
    total = tl.zeros((BLOCK,), tl.float64)
    for first in range(0, rows, BLOCK):
        value = tl.load(outputs + slot * rows + first + entry, mask=first + entry < rows, other=0.0).to(tl.float64)
        total += value * value
    wide = scale.to(tl.float64)
    unit = tl.where(of_integers > 0.0, of_integers / tl.where(wide > 0.0, wide * wide, 1.0), 0.0)
    usable = (square < float("inf")) & (tl.abs(scale) < float("inf"))
    tl.store(squares + slot, tl.where(usable, unit * tl.sum(total, 0), float("nan")))
    tl.store(scales + slot, scale)


@triton.jit
def _truncated(  # type: ignore[no-untyped-def]
    outputs, weights, scales, whole, multiple, rows, LARGEST: tl.constexpr, BLOCK: tl.constexpr
):
    """trunc(w·g/(t·m)) of a slot, cut to ±LARGEST, as doubles; zeros where the weight or t is zero."""
    slot = tl.program_id(0).to(tl.int64)
    entry = tl.arange(0, BLOCK)
    weight, scale = tl.load(weights + slot).to(tl.float64), tl.load(scales + slot).to(tl.float64)
    used = (weight != 0.0) & (scale > 0.0)
    factor = tl.where(used, weight / tl.where(used, scale, 1.0) / multiple, 0.0)
    for first in range(0, rows, BLOCK):
        inside = (first + entry < rows) & used
        value = tl.load(outputs + slot * rows + first + entry, mask=inside, other=0.0).to(tl.float64) * factor
        value = tl.minimum(tl.maximum(value, -LARGEST), LARGEST)
        tl.store(whole + slot * rows + first + entry, value.to(tl.int32).to(tl.float64), mask=first + entry < rows)
