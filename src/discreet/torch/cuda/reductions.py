"""What is kept of a parameter's use between the backward pass and the sum, in tensors of fixed shapes.

A reduction is made while the backward pass is traced (`discreet.torch.cuda.compiled`); what it holds are outputs of the
traced program. It answers the two questions of `discreet.torch.blocks.Block` about tensors that it is given, without a
shape or a branch that depends on their entries, so that a CUDA graph can hold all of it: squared lengths of each slot's
gradient, and the slots' integers, whose length is at most weight × length.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from discreet.torch.cuda import segments
from discreet.torch.uses import DirectUse, EmbeddingUse, MatrixUse, Target

__all__ = [
    "Kept", "NotCompiled", "Reduction", "Rows", "Segmented", "Vectors", "aligned", "channels_last", "merged", "padded",
]  # fmt: skip


class NotCompiled(Exception):
    """The model, its loss or the setting has no compiled form; says why. The usual engine computes the same sums."""


class Reduction(ABC):
    """A part of a parameter, and what is kept of its use.

    Args:
        target: the part of the parameter.
        held: tensors of one pass; all shapes are those of every pass.
    """

    rule = ""

    def __init__(self, target: Target, held: Sequence[Tensor]) -> None:
        self.target, self.held = target, list(held)
        self.shapes: list[tuple[int, ...]] = []

    @property
    @abstractmethod
    def parts(self) -> int:
        """Number of parts in which a squared length is given."""

    @abstractmethod
    def measure(self, held: Sequence[Tensor], squares: Tensor) -> None:
        """Write squared lengths of the slots' gradients in parts, [parts, slots], doubles."""

    @abstractmethod
    def add(self, held: Sequence[Tensor], weights: Tensor, total: Tensor) -> None:
        """Write the sum of the slots' integers to ``total``, zeros of the target's shape, int32.

        Weights are float32, and what `measure` was called with last is what is summed.
        """


class Kept(Reduction):
    """Gradients of each slot, kept in half precision or in float32: [slots, …]."""

    rule = "gradient of each example, kept, truncated"

    def __init__(self, target: Target, gradients: Tensor) -> None:
        super().__init__(target, [gradients])
        self.size = gradients[0].numel()

    @property
    def parts(self) -> int:
        """Parts of `segments.kept_squares`."""
        return segments.kept_parts(self.size)

    def measure(self, held: Sequence[Tensor], squares: Tensor) -> None:
        """Squared lengths of the gradients."""
        segments.kept_squares(held[0].reshape(len(held[0]), -1), squares)

    def add(self, held: Sequence[Tensor], weights: Tensor, total: Tensor) -> None:
        """Σ trunc(w·gradient)."""
        found = total if total.is_contiguous() else torch.empty(total.shape, dtype=total.dtype, device=total.device)
        segments.kept_sums(held[0].reshape(len(held[0]), -1), weights, found.view(-1))
        if found is not total:
            total.copy_(found)


class Segmented(Reduction):
    """A matrix that met several vectors of each slot: inputs and output gradients in half precision."""

    rule = "product over time of each example, truncated"

    def __init__(self, use: MatrixUse, kind: torch.dtype) -> None:
        left, right = (use.inputs, use.outputs) if use.transposed else (use.outputs, use.inputs)
        super().__init__(use.target, [left.to(kind), right.to(kind)])
        self.times, self.rows, self.columns = left.shape[1], left.shape[2], right.shape[2]

    @property
    def parts(self) -> int:
        """Parts of `segments.segment_squares`."""
        return segments.segment_parts(self.times, aligned(self.rows), aligned(self.columns))

    def measure(self, held: Sequence[Tensor], squares: Tensor) -> None:
        """Squared lengths of the products."""
        segments.segment_squares(padded(held[0]), padded(held[1]), squares)

    def add(self, held: Sequence[Tensor], weights: Tensor, total: Tensor) -> None:
        """Σ trunc(w·product)."""
        left, right = padded(held[0]), padded(held[1])
        if (left.shape[2], right.shape[2]) == tuple(total.shape):
            segments.segment_sums(left, right, weights, total)
        else:
            found = total.new_zeros(left.shape[2], right.shape[2])
            segments.segment_sums(left, right, weights, found)
            total.copy_(found[: self.rows, : self.columns])


class Rows(Reduction):
    """A table of which each slot looked up a few rows: output gradients at equal codes of a slot are added first."""

    rule = "rows looked up, merged by code"

    def __init__(self, use: EmbeddingUse) -> None:
        super().__init__(use.target, [use.codes, merged(use)])
        self.size = self.held[1][0].numel()

    @property
    def parts(self) -> int:
        """Parts of `segments.kept_squares`."""
        return segments.kept_parts(self.size)

    def measure(self, held: Sequence[Tensor], squares: Tensor) -> None:
        """Squared lengths of all rows of a slot together."""
        segments.kept_squares(held[1].reshape(len(held[1]), -1), squares)

    def add(self, held: Sequence[Tensor], weights: Tensor, total: Tensor) -> None:
        """Σ trunc(w·row), each at its code."""
        segments.row_sums(held[1].contiguous(), held[0].contiguous(), weights, total)


class Vectors(Kept):
    """All parameters whose gradients were recorded one a slot, together: [slots, sum of sizes]."""

    def __init__(self, uses: Sequence[DirectUse]) -> None:
        values = [use.values.reshape(len(use.values), -1).float() for use in uses]
        super().__init__(uses[0].target, torch.cat(values, 1))
        self.targets = [use.target for use in uses]
        self.first = 0
        """Where their sums begin in the common tensor."""


# --- tensors ----------------------------------------------------------------------------------------------------------


def aligned(size: int) -> int:
    """The next multiple of `segments.ALIGNED`."""
    return -(-size // segments.ALIGNED) * segments.ALIGNED


def padded(values: Tensor) -> Tensor:
    """Contiguous, with columns of zeros up to a multiple of `segments.ALIGNED`."""
    missing = aligned(values.shape[-1]) - values.shape[-1]
    return (functional.pad(values, (0, missing)) if missing else values).contiguous()


def channels_last(parameter: Tensor) -> bool:
    """Whether a parameter, and then the sum of its gradients too, has its channels last in memory."""
    return parameter.dim() == 4 and parameter.is_contiguous(memory_format=torch.channels_last)


def merged(use: EmbeddingUse) -> Tensor:
    """Output gradients [slots, T, size], those at equal codes of a slot added at the first of them, zero elsewhere."""
    codes = use.codes
    same = codes[:, :, None] == codes[:, None, :]
    again = (same & torch.ones_like(same[0]).tril(-1)).any(2)
    first = same & ~again[:, :, None]
    if use.ignored is not None:
        first = first & (codes != use.ignored)[:, :, None]
    return first.float() @ use.outputs.float()
