"""From the uses of one parameter to integers: squared lengths of examples' gradients first, then exact sums.

A block is a part of a parameter together with all its uses in one pass. It answers twice: ``square_lengths()`` gives
the squared length of each slot's gradient, from which the clipping factors follow, and ``add(weights, total)`` adds
each slot's integers, whose length is at most weight × length of the gradient. docs/maths/torch.md proves the bounds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from discreet.torch import kernels
from discreet.torch.uses import DirectUse, EmbeddingUse, OuterUse, Target, Use
from discreet.torch.workspace import Workspace

__all__ = ["KEPT", "TOGETHER", "AccumulatedBlock", "Block", "SparseBlock", "block_of", "in_blocks", "quantised_length"]

TOGETHER = 1 << 20
"""Entries of gradients, or of what they are made from, that are made at a time: 4 MiB of floats."""
KEPT = 1 << 23
"""Entries of gradients of one parameter that are kept rather than made twice: 32 MiB of floats."""
LENGTH = 32000.0
"""Length of a quantised vector. Its integers are at most 32001, and so have the two bytes of `kernels.add_outer`."""
TINY = 2.0**-300


def quantised_length(grid: float) -> tuple[float, int]:
    """Length L of quantised inputs and multiple m of products, such that m·L² is about the grid, or just above it.

    Example:
        >>> quantised_length(2.0**20), quantised_length(2.0**36)
        ((1024.0, 1), (32000.0, 68))
    """
    length = min(LENGTH, math.sqrt(grid))
    return length, max(1, math.ceil(grid / length**2))


class Block(ABC):
    """A part of a parameter with all its uses in one pass."""

    rule = ""

    def __init__(self, target: Target) -> None:
        self.target = target

    @abstractmethod
    def square_lengths(self) -> Tensor:
        """Squared length of each slot's gradient, as doubles."""

    @abstractmethod
    def add(self, weights: Tensor, total: Tensor) -> None:
        """Add each slot's integers to ``total``, doubles of the parameter's shape that are whole numbers."""


def _without_tiny(values: Tensor) -> Tensor:
    """``values`` with doubles below 2^−300 as zeros: their squares underflow, and a product of lengths is wrong."""
    return torch.where(values.abs() < TINY, 0.0, values) if values.dtype == torch.float64 else values


class QuantisedBlock(Block):
    """A matrix that met one vector of each slot. Inputs are rounded to integers, output gradients truncated.

    The integers of a slot are the outer product of two integer vectors, so their length is the product of two lengths
    and their sum over slots is one product of integer matrices, exact in double arithmetic.
    """

    rule = "outer product of quantised vectors"

    def __init__(self, use: OuterUse, grid: float) -> None:
        super().__init__(use.target)
        inputs, outputs = _without_tiny(use.inputs), _without_tiny(use.outputs)
        self.use = OuterUse(use.target, inputs, outputs, use.transposed)
        self.length, self.multiple = quantised_length(grid)

    def square_lengths(self) -> Tensor:
        """‖â‖²·‖g‖² / t², where â = round(t·a) are the integers of the input."""
        self.inputs = kernels.quantised(self.use.inputs, self.length)
        squares = self.inputs.squares
        unit = torch.where(squares == 0, 0.0, squares / self.inputs.scales.double().square())
        return unit * kernels.square_lengths(self.use.outputs)

    def add(self, weights: Tensor, total: Tensor) -> None:
        """Add m·trunc(w·g/(m·t)) âᵀ of all slots, by products of matrices of integers."""
        used = (weights != 0) & (self.inputs.squares > 0)
        factors = torch.where(used, weights / self.inputs.scales.double() / self.multiple, 0.0)
        part = self.target.of(total)
        if self.use.transposed:
            turned = torch.zeros(part.T.shape, dtype=part.dtype, device=part.device)
            kernels.add_outer(self.use.outputs, factors, self.inputs, self.multiple, turned)
            part.add_(turned.T)
        else:
            kernels.add_outer(self.use.outputs, factors, self.inputs, self.multiple, part)


class SparseBlock(Block):
    """A table of which each slot looked up a few rows."""

    rule = "rows looked up, merged by code"

    def __init__(self, use: EmbeddingUse) -> None:
        super().__init__(use.target)
        self.use = use

    def square_lengths(self) -> Tensor:
        """Sum over the slot's rows of their squared lengths."""
        self.slot, self.code, self.merged = self.use.rows()
        squares = self.measured(self.merged)
        sums = torch.zeros(self.use.count, dtype=torch.float64, device=squares.device)
        return sums.index_add_(0, self.slot, squares)

    def add(self, weights: Tensor, total: Tensor) -> None:
        """Add the slots' rows, each multiplied by its slot's weight."""
        self.target.of(total).index_add_(0, self.code, self.weighted(self.merged, weights[self.slot]))

    def measured(self, rows: Tensor) -> Tensor:
        """Squared lengths of rows, as doubles."""
        return kernels.square_lengths(rows)

    def weighted(self, rows: Tensor, weights: Tensor) -> Tensor:
        """Rows times weights, truncated: whole numbers, so that the order of additions has no effect."""
        return kernels.truncated(rows, weights)


class AccumulatedBlock(Block):
    """Any other parameter: the gradient of each slot is made, measured, multiplied and truncated.

    Gradients are kept between the two answers where this takes little memory, or no more than what they are made of,
    and made a second time otherwise. If they then come out longer than before, they are shortened to the length that
    was measured.
    """

    rule = "gradient of each example, truncated"

    def __init__(self, uses: Sequence[Use], workspace: Workspace | None = None) -> None:
        super().__init__(uses[0].target)
        self.uses, self.slots = list(uses), uses[0].count
        self.together = max(1, TOGETHER // max(1, *(use.work for use in uses)))
        self.keeps = _worth_keeping(uses)
        self.made: list[tuple[int, int, Tensor]] = []
        self.held = self._place(uses, workspace or Workspace())

    def _place(self, uses: Sequence[Use], workspace: Workspace) -> Tensor | None:
        """Where gradients are kept, if they are few, and are made and not given."""
        shape, only = (self.slots, *self.target.shape), uses[0]
        if len(uses) > 1 or isinstance(only, DirectUse) or math.prod(shape) > KEPT or not self.target.parameter.is_cpu:
            return None
        return workspace.empty((id(self.target.parameter), self.target.first), shape, only.kind)

    def _parts(self) -> Iterator[tuple[int, int, Tensor]]:
        """First slot, last slot and gradients of parts of the slots."""
        if len(self.uses) == 1 and isinstance(self.uses[0], DirectUse):
            yield 0, self.slots, self.uses[0].gradients(0, self.slots)
            return
        for first in range(0, self.slots, self.together):
            last = min(first + self.together, self.slots)
            if self.held is not None:
                self.uses[0].fill(first, last, self.held[first:last])
                yield first, last, self.held[first:last]
                continue
            gradients = self.uses[0].gradients(first, last)
            for use in self.uses[1:]:
                gradients = gradients + use.gradients(first, last)
            yield first, last, gradients

    def square_lengths(self) -> Tensor:
        """Squared lengths of the very gradients that are added later."""
        squares = []
        for part in self._parts():
            squares.append(self.measured(part[2]))
            if self.keeps:
                self.made.append(part)
        if self.keeps:
            self.uses = []
        if self.held is not None:
            self.made = [(0, self.slots, self.held)]
        self.squares = torch.cat(squares)
        return self.squares

    def add(self, weights: Tensor, total: Tensor) -> None:
        """Add weight × gradient of all slots."""
        flat = self.target.of(total).view(-1)
        for first, last, gradients in self.made if self.keeps else self._parts():
            self.add_part(gradients, weights[first:last], self.squares[first:last], flat)

    def measured(self, gradients: Tensor) -> Tensor:
        """Squared lengths of gradients, as doubles."""
        return kernels.square_lengths(gradients)

    def add_part(self, gradients: Tensor, weights: Tensor, squares: Tensor, flat: Tensor) -> None:
        """Add trunc(w·gradient) of some slots."""
        if not self.keeps:
            shorter = (squares / kernels.square_lengths(gradients)).clamp(max=1.0).sqrt().nan_to_num(0.0)
            weights = weights * shorter
        kernels.add_truncated(gradients, weights, flat)


def _worth_keeping(uses: Sequence[Use]) -> bool:
    """Whether gradients are kept: they are few, or no more than what they are made of."""
    size = math.prod(uses[0].target.shape)
    return isinstance(uses[0], DirectUse) or size * uses[0].count <= KEPT or size <= sum(use.kept for use in uses)


def block_of(uses: Sequence[Use], grid: float, workspace: Workspace | None = None) -> Block:
    """The block for all uses of one part of a parameter; it keeps gradients in the workspace, if one is given."""
    if len(uses) == 1 and isinstance(uses[0], OuterUse):
        return QuantisedBlock(uses[0], grid)
    if len(uses) == 1 and isinstance(uses[0], EmbeddingUse):
        return SparseBlock(uses[0])
    return AccumulatedBlock(uses, workspace)


def in_blocks(uses: Sequence[Use]) -> list[list[Use]]:
    """Uses of one parameter, put together where they concern the same rows of it.

    If parts overlap without being equal, all uses become uses of the whole parameter.
    """
    parts: dict[tuple[int, int], list[Use]] = {}
    for use in uses:
        target = use.target
        last = target.last if target.last is not None else (target.parameter.shape[0] if target.parameter.dim() else 1)
        parts.setdefault((target.first, last), []).append(use)
    ends = sorted(parts)
    if any(left[1] > right[0] for left, right in pairwise(ends)):
        return [[_whole(use) for use in uses]]
    return list(parts.values())


def _whole(use: Use) -> Use:
    """A use of some rows as a use of the whole parameter, zero elsewhere."""
    target = use.target
    values = use.gradients(0, use.count)
    whole = values.new_zeros(use.count, *target.parameter.shape)
    whole[:, target.first : target.last] = values
    return DirectUse(Target(target.parameter), whole)
