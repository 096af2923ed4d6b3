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

from discreet.torch.blocks import TOGETHER, Block, worth_keeping
from discreet.torch.uses import ConvolutionUse, EmbeddingUse, MatrixUse, OuterUse, Use

__all__ = ["float_block_of"]


def _square(values: Tensor) -> Tensor:
    flat = values.reshape(values.shape[0], -1)
    return torch.linalg.vector_norm(flat, dim=1, dtype=torch.float32 if flat.dtype != torch.float64 else None).square()


def _finite(values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Values and weights for a product over slots, in which a weight of zero removes what is not finite."""
    weights = weights.to(values.dtype)
    keeps = weights != 0
    if bool(keeps.all()):
        return values, weights
    return values.masked_fill(~keeps.view(-1, *[1] * (values.dim() - 1)), 0.0), weights


class FloatOuter(Block):
    """A matrix that met one vector of each slot: ‖g aᵀ‖ = ‖g‖‖a‖."""

    rule = "outer product, floats"

    def __init__(self, use: OuterUse) -> None:
        super().__init__(use.target)
        self.use = use

    def square_lengths(self) -> Tensor:
        """‖a‖²‖g‖²."""
        return (_square(self.use.inputs) * _square(self.use.outputs)).double()

    def add(self, weights: Tensor, total: Tensor) -> None:
        """Add Σ w g aᵀ."""
        g, w = _finite(self.use.outputs, weights)
        a, _ = _finite(self.use.inputs, weights)
        g, a = (g * w[:, None]).to(total.dtype), a.to(total.dtype)
        self.target.of(total).addmm_(*((a.T, g) if self.use.transposed else (g.T, a)))


class FloatMatrix(Block):
    """A matrix that met several vectors of each slot, whose lengths come from inner products of these vectors."""

    rule = "inner products over time, floats"

    def __init__(self, use: MatrixUse) -> None:
        super().__init__(use.target)
        self.use = use

    def square_lengths(self) -> Tensor:
        """Σ_{t,u} ⟨a_t, a_u⟩⟨g_t, g_u⟩."""
        slots, times, _ = self.use.inputs.shape
        step, found = max(1, TOGETHER // (times * times)), []
        for first in range(0, slots, step):
            a, g = self.use.inputs[first : first + step], self.use.outputs[first : first + step]
            found.append(((a @ a.transpose(1, 2)) * (g @ g.transpose(1, 2))).sum((1, 2), dtype=torch.float32))
        return torch.cat(found).clamp(min=0).double()

    def add(self, weights: Tensor, total: Tensor) -> None:
        """Add Σ w g_t a_tᵀ."""
        g, w = _finite(self.use.outputs, weights)
        a, _ = _finite(self.use.inputs, weights)
        g = (g * w[:, None, None]).reshape(-1, g.shape[-1]).to(total.dtype)
        a = a.reshape(-1, a.shape[-1]).to(total.dtype)
        self.target.of(total).addmm_(*((a.T, g) if self.use.transposed else (g.T, a)))


class FloatSparse(Block):
    """A table of which each slot looked up a few rows."""

    rule = "rows looked up, floats"

    def __init__(self, use: EmbeddingUse) -> None:
        super().__init__(use.target)
        self.use = use

    def square_lengths(self) -> Tensor:
        """Sum over the slot's rows of their squared lengths."""
        self.slot, self.code, self.merged = self.use.rows()
        sums = torch.zeros(self.use.count, dtype=torch.float64, device=self.slot.device)
        return sums.index_add_(0, self.slot, _square(self.merged).double())

    def add(self, weights: Tensor, total: Tensor) -> None:
        """Add the slots' rows."""
        rows, w = _finite(self.merged, weights[self.slot])
        self.target.of(total).index_add_(0, self.code, (rows * w[:, None]).to(total.dtype))


class FloatGradients(Block):
    """Any other parameter: the gradient of each slot is made, and kept where that takes no more memory."""

    rule = "gradient of each example, floats"

    def __init__(self, uses: Sequence[Use]) -> None:
        super().__init__(uses[0].target)
        self.uses, self.slots = list(uses), uses[0].count
        self.together = max(1, TOGETHER // max(1, *(use.work for use in uses)))
        self.keeps = worth_keeping(uses)
        self.made: list[Tensor] = []

    def _part(self, first: int) -> Tensor:
        last = min(first + self.together, self.slots)
        gradients = self.uses[0].gradients(first, last)
        for use in self.uses[1:]:
            gradients = gradients + use.gradients(first, last)
        return gradients

    def square_lengths(self) -> Tensor:
        """Squared lengths of the gradients."""
        squares = []
        for first in range(0, self.slots, self.together):
            gradients = self._part(first)
            squares.append(_square(gradients))
            if self.keeps:
                self.made.append(gradients)
        return torch.cat(squares).double()

    def add(self, weights: Tensor, total: Tensor) -> None:
        """Add Σ w·gradient."""
        flat = self.target.of(total).view(-1)
        if not self.keeps and len(self.uses) == 1 and isinstance(self.uses[0], ConvolutionUse):
            self.target.of(total).add_(_convolution_sum(self.uses[0], weights))
            return
        for place, first in enumerate(range(0, self.slots, self.together)):
            gradients = self.made[place] if self.keeps else self._part(first)
            values, w = _finite(gradients, weights[first : first + len(gradients)])
            flat.addmv_(values.reshape(len(values), -1).T, w)


def _convolution_sum(use: ConvolutionUse, weights: Tensor) -> Tensor:
    """The weighted sum of a convolution's gradients by PyTorch's own gradient of the kernel."""
    several = use.inputs.shape[0] // use.slots
    g, w = _finite(use.outputs, weights.repeat_interleave(several))
    x, _ = _finite(use.inputs, weights.repeat_interleave(several))
    kernel = use.target.parameter.detach().to(g.dtype)
    return torch.ops.aten.convolution_backward(
        g * w.view(-1, *[1] * (g.dim() - 1)), x, kernel, None, use.stride, use.padding, use.dilation, False,
        [0] * len(use.padding), use.groups, [False, True, False],
    )[1]  # fmt: skip


def float_block_of(uses: Sequence[Use]) -> Block:
    """The block for all uses of one part of a parameter, in floating point."""
    only = uses[0] if len(uses) == 1 else None
    if isinstance(only, OuterUse):
        return FloatOuter(only)
    if isinstance(only, EmbeddingUse):
        return FloatSparse(only)
    if isinstance(only, MatrixUse):
        times, size = only.inputs.shape[1], math.prod(only.target.shape)
        if times * (only.inputs.shape[2] + only.outputs.shape[2]) <= size:
            return FloatMatrix(only)
    return FloatGradients(uses)
