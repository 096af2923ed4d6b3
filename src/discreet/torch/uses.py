"""How a layer used a parameter in one pass: what is kept of it, and the gradient of each example that follows.

A use holds tensors whose first axis is the slot. ``gradients(first, last)`` makes the gradients of some slots with
respect to the used part of the parameter, from tensors of these slots alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Parameter

from discreet.torch.convolutions import convolution_gradients, is_compiled
from discreet.torch.patches import patches

__all__ = ["ConvolutionUse", "DirectUse", "EmbeddingUse", "MatrixUse", "OuterUse", "Target", "Use"]


@dataclass(frozen=True)
class Target:
    """The part of a parameter that a layer used: rows ``first`` to ``last``, or all of it where ``last`` is None."""

    parameter: Parameter
    first: int = 0
    last: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the used part."""
        shape = tuple(self.parameter.shape)
        return shape if self.last is None else (self.last - self.first, *shape[1:])

    def of(self, tensor: Tensor) -> Tensor:
        """The used part of a tensor that has the parameter's shape."""
        return tensor if self.last is None else tensor[self.first : self.last]


@dataclass(frozen=True)
class Use(ABC):
    """Base of all uses of a parameter."""

    target: Target

    @abstractmethod
    def gradients(self, first: int, last: int) -> Tensor:
        """Gradients of the slots ``first`` to ``last``, of shape [slots, …shape of the target]."""

    def fill(self, first: int, last: int, out: Tensor) -> None:
        """Write these gradients to ``out``, of type `kind`."""
        out.copy_(self.gradients(first, last))

    @property
    @abstractmethod
    def kind(self) -> torch.dtype:
        """The type of the gradients."""

    @property
    @abstractmethod
    def kept(self) -> int:
        """Entries that are kept for one slot."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of slots."""

    @property
    def work(self) -> int:
        """Entries of the largest tensor that is made for one slot's gradient."""
        return math.prod(self.target.shape)


def _work_type(*tensors: Tensor) -> torch.dtype:
    """The type of the per-example sums: double for doubles, and otherwise float32, also for half precision."""
    return torch.float64 if any(t.dtype == torch.float64 for t in tensors) else torch.float32


@dataclass(frozen=True)
class DirectUse(Use):
    """The gradients themselves, one a slot."""

    values: Tensor

    @property
    def kind(self) -> torch.dtype:
        """The type of the gradients."""
        return _work_type(self.values)

    def gradients(self, first: int, last: int) -> Tensor:
        """The slots' gradients as they were recorded."""
        return self.values[first:last].to(self.kind)

    @property
    def count(self) -> int:
        """Number of slots."""
        return len(self.values)

    @property
    def kept(self) -> int:
        """Entries of one gradient."""
        return self.values[0].numel()


@dataclass(frozen=True)
class _ProductUse(Use):
    """A matrix that met vectors of each slot: inputs a and output gradients g; the parameter is g aᵀ, or a gᵀ."""

    inputs: Tensor
    outputs: Tensor
    transposed: bool = False

    @property
    def count(self) -> int:
        """Number of slots."""
        return len(self.inputs)

    @property
    def kept(self) -> int:
        """Entries of one slot's inputs and output gradients."""
        return self.inputs[0].numel() + self.outputs[0].numel()

    @property
    def kind(self) -> torch.dtype:
        """The type of the gradients."""
        return _work_type(self.inputs, self.outputs)

    def factors(self, first: int, last: int) -> tuple[Tensor, Tensor]:
        """Left and right factor of the slots' gradients: output gradients and inputs, or inputs first if transposed."""
        a, g = self.inputs[first:last].to(self.kind), self.outputs[first:last].to(self.kind)
        return (a, g) if self.transposed else (g, a)


@dataclass(frozen=True)
class OuterUse(_ProductUse):
    """A matrix that met one vector of each slot: the gradient is the outer product g aᵀ, or a gᵀ if transposed."""

    def gradients(self, first: int, last: int) -> Tensor:
        """Outer products of the slots' output gradients and inputs."""
        left, right = self.factors(first, last)
        return left[:, :, None] * right[:, None, :]


@dataclass(frozen=True)
class MatrixUse(_ProductUse):
    """A matrix that met several vectors of each slot (a time axis): the gradient is Σ_t g_t a_tᵀ."""

    def gradients(self, first: int, last: int) -> Tensor:
        """Products of the slots' output gradients and inputs, summed over time."""
        found = self.inputs.new_empty(last - first, *self.target.shape, dtype=self.kind)
        self.fill(first, last, found)
        return found

    def fill(self, first: int, last: int, out: Tensor) -> None:
        """Write these gradients to ``out``."""
        left, right = self.factors(first, last)
        torch.bmm(left.transpose(1, 2), right, out=out)


@dataclass(frozen=True)
class ConvolutionUse(Use):
    """The weight of a convolution: the gradient is Σ over positions of output gradient times patch, group by group."""

    inputs: Tensor
    outputs: Tensor
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    slots: int

    @property
    def kind(self) -> torch.dtype:
        """The type of the gradients."""
        return _work_type(self.inputs, self.outputs)

    def gradients(self, first: int, last: int) -> Tensor:
        """Products of the slots' output gradients and patches, summed over positions."""
        found = self.inputs.new_empty(last - first, *self.target.shape, dtype=self.kind)
        self.fill(first, last, found)
        return found

    def fill(self, first: int, last: int, out: Tensor) -> None:
        """Write these gradients to ``out``."""
        several, shape, n = self.inputs.shape[0] // self.slots, self.target.shape, last - first
        x = self.inputs[first * several : last * several].to(self.kind)
        g = self.outputs[first * several : last * several].to(self.kind)
        if is_compiled(x, self.dilation):
            convolution_gradients(x, g, self.stride, self.padding, self.groups, out)
            return
        seen = patches(x, shape[2:], self.stride, self.padding, self.dilation)
        positions = seen.shape[1]
        seen = seen.reshape(n, several, positions, self.groups, -1).permute(0, 3, 1, 2, 4)
        g = g.reshape(n, several, self.groups, -1, positions).permute(0, 2, 3, 1, 4)
        left, right = g.reshape(n * self.groups, g.shape[2], -1), seen.reshape(n * self.groups, -1, seen.shape[-1])
        torch.bmm(left, right, out=out.view(n * self.groups, left.shape[1], right.shape[2]))

    @property
    def count(self) -> int:
        """Number of slots."""
        return self.slots

    @property
    def kept(self) -> int:
        """Entries of one slot's inputs and output gradients."""
        return (self.inputs.numel() + self.outputs.numel()) // self.slots

    @property
    def work(self) -> int:
        """Entries of one slot's gradient, or of its patches where they are made and are more."""
        size = math.prod(self.target.shape)
        if is_compiled(self.inputs, self.dilation):
            return size
        several, positions = self.inputs.shape[0] // self.slots, math.prod(self.outputs.shape[2:])
        return max(several * positions * self.inputs.shape[1] * math.prod(self.target.shape[2:]), size)


@dataclass(frozen=True)
class EmbeddingUse(Use):
    """Rows of a table, looked up by ``codes`` [slots, T]: a row's gradient sums the output gradients at its code."""

    codes: Tensor
    outputs: Tensor
    ignored: int | None = None

    @property
    def kind(self) -> torch.dtype:
        """The type of the gradients."""
        return _work_type(self.outputs)

    def rows(self) -> tuple[Tensor, Tensor, Tensor]:
        """(slot, code, gradient) of each row of the table that a slot looked up, every pair of slot and code once."""
        count, slots = self.target.shape[0], self.codes.shape[0]
        keys = self.codes + count * torch.arange(slots, device=self.codes.device)[:, None]
        pairs, place = torch.unique(keys.reshape(-1), return_inverse=True)
        values = self.outputs.to(self.kind).reshape(-1, self.outputs.shape[-1])
        merged = values.new_zeros(len(pairs), values.shape[1]).index_add_(0, place, values)
        slot, code = pairs // count, pairs % count
        if self.ignored is not None:
            merged = merged.masked_fill((code == self.ignored)[:, None], 0.0)
        return slot, code, merged

    def gradients(self, first: int, last: int) -> Tensor:
        """The slots' gradients as whole tables."""
        part = EmbeddingUse(self.target, self.codes[first:last], self.outputs[first:last], self.ignored)
        slot, code, merged = part.rows()
        table = merged.new_zeros(last - first, *self.target.shape)
        table[slot, code] = merged
        return table

    @property
    def count(self) -> int:
        """Number of slots."""
        return len(self.codes)

    @property
    def kept(self) -> int:
        """Entries of one slot's output gradients."""
        return self.outputs[0].numel()
