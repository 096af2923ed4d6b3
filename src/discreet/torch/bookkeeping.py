"""Clipped sums in floating point, by book-keeping (Bu, Wang, Zha and Karypis 2023): fast, and nothing is claimed.

One backward pass records inputs and output gradients; the lengths of examples' gradients follow from them without the
gradients where that is cheaper (Goodfellow 2015; Li, Tramèr, Liang and Hashimoto 2022), and the clipped sum is one
product of matrices. Roundings depend on all examples, so one example may change the sum by more than the bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from discreet.torch.blocks import KEPT, TOGETHER, AccumulatedBlock, Block, SparseBlock
from discreet.torch.threads import as_batch
from discreet.torch.uses import ConvolutionUse, EmbeddingUse, MatrixUse, OuterUse, Use
from discreet.torch.workspace import Workspace

__all__ = ["float_block_of"]

LONG = 64
"""Times from which products of halves of the time axis are faster than those of the whole axis (in host memory)."""


THIN = 15
"""Columns up to which a product of many rows is cut into a batch of products (in host memory)."""


def _square(values: Tensor) -> Tensor:
    flat = values.reshape(values.shape[0], -1)
    return torch.linalg.vector_norm(flat, dim=1, dtype=_kind(flat)).square().double()


def _kind(values: Tensor) -> torch.dtype:
    return torch.float64 if values.dtype == torch.float64 else torch.float32


def _finite(values: Tensor, squares: Tensor) -> Tensor:
    """Values with zeros at slots whose squared lengths are not finite, since zero times these is not zero."""
    if math.isfinite(float(squares.sum())):
        return values
    usable = squares.isfinite()
    return values.masked_fill(~usable.view(-1, *[1] * (values.dim() - 1)), 0.0)


def _times(values: Tensor, weights: Tensor, out: Tensor | None = None) -> Tensor:
    return torch.mul(values, weights.to(values.dtype).view(-1, *[1] * (values.dim() - 1)), out=out)


class FloatProduct(Block):
    """A matrix that met vectors of each slot: its clipped sum is one product of matrices."""

    squares: Tensor

    def __init__(self, use: OuterUse | MatrixUse, workspace: Workspace | None = None) -> None:
        super().__init__(use.target)
        self.use, self.workspace = use, workspace or Workspace()

    def _scaled(self, values: Tensor, weights: Tensor) -> Tensor:
        """Values times weights, in memory that is used again after `add`."""
        place = None if values.is_cuda else self.workspace.empty("scaled", values.shape, values.dtype)
        return _times(values, weights, place)

    def add(self, weights: Tensor, total: Tensor) -> None:
        """Add Σ w g_t a_tᵀ, where the shorter of both vectors is multiplied by w."""
        a, g = _finite(self.use.inputs, self.squares), _finite(self.use.outputs, self.squares)
        a, g = (self._scaled(a, weights), g) if a.shape[-1] < g.shape[-1] else (a, self._scaled(g, weights))
        a, g = (t.reshape(-1, t.shape[-1]).to(total.dtype) for t in (a, g))
        left, right = (a, g) if self.use.transposed else (g, a)
        if min(left.shape[1], right.shape[1]) > THIN or total.is_cuda:
            self.target.of(total).addmm_(left.T, right)
        else:
            self.target.of(total).add_((as_batch(left).transpose(1, 2) @ as_batch(right)).sum(0))


class FloatOuter(FloatProduct):
    """A matrix that met one vector of each slot: ‖g aᵀ‖ = ‖g‖‖a‖."""

    rule = "outer product, floats"

    def square_lengths(self) -> Tensor:
        """‖a‖²‖g‖²."""
        self.squares = _square(self.use.inputs) * _square(self.use.outputs)
        return self.squares


class FloatMatrix(FloatProduct):
    """A matrix that met several vectors of each slot, whose lengths come from inner products of these vectors."""

    rule = "inner products over time, floats"

    def square_lengths(self) -> Tensor:
        """Σ_{t,u} ⟨a_t, a_u⟩⟨g_t, g_u⟩."""
        slots, times, _ = self.use.inputs.shape
        step, found = max(1, TOGETHER // (times * times)), []
        for first in range(0, slots, step):
            found.append(_inner_products(self.use.inputs[first : first + step], self.use.outputs[first : first + step]))
        self.squares = torch.cat(found).clamp(min=0).double()
        return self.squares


def _inner_products(a: Tensor, g: Tensor) -> Tensor:
    """Σ_{t,u} ⟨a_t, a_u⟩⟨g_t, g_u⟩ of each slot. Terms are symmetric, so halves of the axis need to meet only once."""
    half = a.shape[1] // 2
    if a.is_cuda or 2 * half < LONG:
        return _across(a, a, g, g)
    a1, a2, g1, g2 = a[:, :half], a[:, half:], g[:, :half], g[:, half:]
    return _inner_products(a1, g1) + _inner_products(a2, g2) + 2 * _across(a1, a2, g1, g2)


def _across(a1: Tensor, a2: Tensor, g1: Tensor, g2: Tensor) -> Tensor:
    """Σ_{t,u} ⟨a1_t, a2_u⟩⟨g1_t, g2_u⟩ of each slot."""
    a, g = (a1 @ a2.transpose(1, 2)).flatten(1), (g1 @ g2.transpose(1, 2)).flatten(1)
    return torch.linalg.vecdot(a.to(_kind(a)), g.to(_kind(a)))


class FloatSparse(SparseBlock):
    """A table of which each slot looked up a few rows."""

    rule = "rows looked up, floats"

    def measured(self, rows: Tensor) -> Tensor:
        """Squared lengths of rows, as doubles."""
        self.squares = _square(rows)
        return self.squares

    def weighted(self, rows: Tensor, weights: Tensor) -> Tensor:
        """Rows times weights."""
        return _times(_finite(rows, self.squares), weights)


class FloatGradients(AccumulatedBlock):
    """Any other parameter: the gradient of each slot is made, and kept where that takes no more memory."""

    rule = "gradient of each example, floats"

    def measured(self, gradients: Tensor) -> Tensor:
        """Squared lengths of gradients, as doubles."""
        return _square(gradients)

    def add(self, weights: Tensor, total: Tensor) -> None:
        """Add Σ w·gradient."""
        if not self.keeps and len(self.uses) == 1 and isinstance(self.uses[0], ConvolutionUse):
            self.target.of(total).add_(_convolution_sum(self.uses[0], weights, self.squares))
        else:
            super().add(weights, total)

    def add_part(self, gradients: Tensor, weights: Tensor, squares: Tensor, flat: Tensor) -> None:
        """Add Σ w·gradient of some slots."""
        values = _finite(gradients, squares).reshape(len(gradients), -1).to(flat.dtype)
        flat.addmv_(values.T, weights.to(flat.dtype))


def _convolution_sum(use: ConvolutionUse, weights: Tensor, squares: Tensor) -> Tensor:
    """The weighted sum of a convolution's gradients by PyTorch's own gradient of the kernel."""
    several = use.inputs.shape[0] // use.slots
    squares, weights = squares.repeat_interleave(several), weights.repeat_interleave(several)
    x, g = _finite(use.inputs, squares), _times(_finite(use.outputs, squares), weights)
    kernel, zeros = use.target.parameter.detach().to(g.dtype), [0] * len(use.padding)
    return torch.ops.aten.convolution_backward(
        g, x, kernel, None, use.stride, use.padding, use.dilation, False, zeros, use.groups, [False, True, False]
    )[1]


def float_block_of(uses: Sequence[Use], workspace: Workspace | None = None) -> Block:
    """The block for all uses of one part of a parameter, in floating point; gradients are kept in the workspace."""
    only = uses[0] if len(uses) == 1 else None
    if isinstance(only, OuterUse):
        return FloatOuter(only, workspace)
    if isinstance(only, EmbeddingUse):
        return FloatSparse(only)
    if isinstance(only, MatrixUse):
        times, size = only.inputs.shape[1], math.prod(only.target.shape)
        made = only.inputs.is_cpu and size * only.count <= KEPT  # twice as fast as what FloatMatrix computes, or more
        if times * (only.inputs.shape[2] + only.outputs.shape[2]) < size and not made:
            return FloatMatrix(only, workspace)
    return FloatGradients(uses, workspace)
