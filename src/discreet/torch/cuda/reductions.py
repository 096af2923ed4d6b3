"""What is kept of a parameter's use between the backward pass and the sum, in tensors of fixed shapes.

A reduction is made while the backward pass is traced (`discreet.torch.cuda.tracing`); what it holds are outputs of the
traced program. It answers the two questions of `discreet.torch.blocks.Block` about tensors that it is given, without a
shape or a branch that depends on their entries, so that a CUDA graph can hold all of it: squared lengths of each slot's
gradient, and the slots' integers, whose length is at most weight × length.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from discreet.torch.blocks import QuantisedBlock
from discreet.torch.cuda import segments
from discreet.torch.uses import ConvolutionUse, DirectUse, EmbeddingUse, MatrixUse, OuterUse, Target, Use

__all__ = ["Reduction", "Vectors", "reduction_of"]

KEPT = 2
"""Gradients of a matrix are kept if they have at most so many times the entries of what they are made of."""
LONGEST = 4096
"""The longest row of codes that is merged by comparing all pairs of them."""
HALF = (torch.bfloat16, torch.float16)


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
        """Write the sum of the slots' integers to ``total``, zeros of the target's shape, int32. Weights are doubles."""


class _Kept(Reduction):
    """Gradients of each slot, kept in half precision or in float32: [slots, …]."""

    rule = "gradient of each example, kept, truncated"

    def __init__(self, target: Target, gradients: Tensor, moved: tuple[int, ...] | None = None) -> None:
        super().__init__(target, [gradients])
        self.size, self.moved = gradients[0].numel(), moved

    @property
    def parts(self) -> int:
        return segments.kept_parts(self.size)

    def measure(self, held: Sequence[Tensor], squares: Tensor) -> None:
        segments.kept_squares(held[0].reshape(len(held[0]), -1), squares)

    def add(self, held: Sequence[Tensor], weights: Tensor, total: Tensor) -> None:
        values = held[0].reshape(len(held[0]), -1)
        if self.moved is None:
            segments.kept_sums(values, weights.float(), total.view(-1))
        else:
            flat = torch.empty(self.size, dtype=torch.int32, device=total.device)
            segments.kept_sums(values, weights.float(), flat)
            _put(flat.view(-1, self.size // total.shape[0]), self.moved, total)


class _Segmented(Reduction):
    """A matrix that met several vectors of each slot: inputs and output gradients in half precision."""

    rule = "product over time of each example, truncated"

    def __init__(self, use: MatrixUse, kind: torch.dtype) -> None:
        left, right = (use.inputs, use.outputs) if use.transposed else (use.outputs, use.inputs)
        super().__init__(use.target, [left.to(kind), right.to(kind)])
        self.times, self.rows, self.columns = left.shape[1], left.shape[2], right.shape[2]

    @property
    def parts(self) -> int:
        return segments.segment_parts(self.times, _aligned(self.rows), _aligned(self.columns))

    def _factors(self, held: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        return _padded(held[0]), _padded(held[1])

    def measure(self, held: Sequence[Tensor], squares: Tensor) -> None:
        segments.segment_squares(*self._factors(held), squares)

    def add(self, held: Sequence[Tensor], weights: Tensor, total: Tensor) -> None:
        found = segments.segment_sums(*self._factors(held), weights.float())
        total.copy_(found[: self.rows, : self.columns])


class _SegmentedConvolution(_Segmented):
    """The kernel of a convolution: inputs and output gradients in half precision; patches are made when needed."""

    rule = "product over positions of each example, truncated"

    def __init__(self, use: ConvolutionUse, kind: torch.dtype) -> None:
        Reduction.__init__(self, use.target, [_last(use.inputs).to(kind), _last(use.outputs).to(kind)])
        self.slots, self.stride, self.padding, self.dilation = use.slots, use.stride, use.padding, use.dilation
        self.kernel = use.target.shape[2:]
        self.times = math.prod(use.outputs.shape[2:]) * len(use.outputs) // use.slots
        self.rows, self.columns = use.target.shape[0], math.prod(use.target.shape[1:])

    def _factors(self, held: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        seen = _patches(held[0], self.kernel, self.stride, self.padding, self.dilation)
        left, right = (t.reshape(self.slots, self.times, t.shape[-1]) for t in (held[1], seen))
        return _padded(left), _padded(right)

    def add(self, held: Sequence[Tensor], weights: Tensor, total: Tensor) -> None:
        found = segments.segment_sums(*self._factors(held), weights.float())
        _put(found[: self.rows, : self.columns], self.kernel, total)


class _Outer(Reduction):
    """A matrix that met one vector of each slot: inputs and output gradients, quantised when they are summed."""

    rule = QuantisedBlock.rule

    def __init__(self, use: OuterUse, grid: float, moved: tuple[int, ...] | None = None) -> None:
        super().__init__(use.target, [use.inputs, use.outputs])
        self.grid, self.transposed, self.moved = grid, use.transposed, moved
        self.rows, self.columns = use.outputs.shape[1], use.inputs.shape[1]

    @property
    def parts(self) -> int:
        return 1

    def _block(self, held: Sequence[Tensor]) -> QuantisedBlock:
        return QuantisedBlock(OuterUse(self.target, held[0], held[1], False), self.grid)

    def measure(self, held: Sequence[Tensor], squares: Tensor) -> None:
        squares[0] = self._block(held).square_lengths()

    def add(self, held: Sequence[Tensor], weights: Tensor, total: Tensor) -> None:
        block = self._block(held)
        block.square_lengths()
        found = torch.zeros(self.rows, self.columns, dtype=torch.float64, device=total.device)
        block.target = Target(self.target.parameter)
        block.add(weights, found)
        if self.moved is not None:
            _put(found, self.moved, total)
        else:
            total.copy_(found.T if self.transposed else found)


class _Rows(Reduction):
    """A table of which each slot looked up a few rows: output gradients at equal codes of a slot are added first."""

    rule = "rows looked up, merged by code"

    def __init__(self, use: EmbeddingUse) -> None:
        super().__init__(use.target, [use.codes, _merged(use)])
        self.size = self.held[1][0].numel()

    @property
    def parts(self) -> int:
        return segments.kept_parts(self.size)

    def measure(self, held: Sequence[Tensor], squares: Tensor) -> None:
        segments.kept_squares(held[1].reshape(len(held[1]), -1), squares)

    def add(self, held: Sequence[Tensor], weights: Tensor, total: Tensor) -> None:
        segments.row_sums(held[1], held[0].contiguous(), weights.float(), total)


class Vectors(_Kept):
    """All parameters whose gradients were recorded one a slot, together: [slots, sum of sizes]."""

    def __init__(self, uses: Sequence[DirectUse]) -> None:
        values = [use.values.reshape(len(use.values), -1).float() for use in uses]
        super().__init__(uses[0].target, torch.cat(values, 1))
        self.targets = [use.target for use in uses]
        self.first = 0
        """Where their sums begin in the common tensor."""


# --- tensors ----------------------------------------------------------------------------------------------------------


def _aligned(size: int) -> int:
    return -(-size // segments.ALIGNED) * segments.ALIGNED


def _padded(values: Tensor) -> Tensor:
    """Contiguous, with columns of zeros up to a multiple of `segments.ALIGNED`."""
    return functional.pad(values, (0, _aligned(values.shape[-1]) - values.shape[-1])).contiguous()


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


def _merged(use: EmbeddingUse) -> Tensor:
    """Output gradients [slots, T, size], those at equal codes of a slot added at the first of them, zero elsewhere."""
    codes = use.codes
    same = codes[:, :, None] == codes[:, None, :]
    again = (same & torch.ones_like(same[0]).tril(-1)).any(2)
    first = same & ~again[:, :, None]
    if use.ignored is not None:
        first = first & (codes != use.ignored)[:, :, None]
    return first.float() @ use.outputs.float()


# --- choice -----------------------------------------------------------------------------------------------------------


def reduction_of(uses: Sequence[Use], grid: float, kind: torch.dtype) -> Reduction | DirectUse:
    """The reduction of all uses of one part of a parameter; gradients themselves stay what they are.

    Args:
        uses: uses of the same part.
        grid: whole steps to the clipping bound.
        kind: the type to which factors of products are rounded.

    Raises:
        NotImplementedError: no reduction of a fixed shape is known.
    """
    if len(uses) > 1:
        return _several(uses, kind)
    use = uses[0]
    if isinstance(use, DirectUse):
        return use if use.target.last is None else _Kept(use.target, use.values.float())
    if isinstance(use, OuterUse):
        return _Outer(use, grid)
    if isinstance(use, EmbeddingUse):
        if use.codes.shape[1] > LONGEST:
            raise NotImplementedError("long rows of codes")
        return _Rows(use)
    if isinstance(use, MatrixUse):
        if _is_kept(use.target, use.inputs.shape[1], use.inputs.shape[2], use.outputs.shape[2]):
            left, right = (use.inputs, use.outputs) if use.transposed else (use.outputs, use.inputs)
            return _Kept(use.target, left.to(kind).transpose(1, 2) @ right.to(kind))
        return _Segmented(use, kind)
    if isinstance(use, ConvolutionUse):
        return _convolution(use, grid, kind)
    raise NotImplementedError(type(use).__name__)


def _is_kept(target: Target, times: int, inputs: int, outputs: int) -> bool:
    return math.prod(target.shape) <= KEPT * times * (inputs + outputs)


def _convolution(use: ConvolutionUse, grid: float, kind: torch.dtype) -> Reduction:
    if use.groups > 1:
        return _Kept(use.target, use.gradients(0, use.slots))
    several = len(use.inputs) // use.slots
    if several * math.prod(use.outputs.shape[2:]) > 1:
        return _SegmentedConvolution(use, kind)
    kernel = use.target.shape[2:]
    seen = _patches(_last(use.inputs), kernel, use.stride, use.padding, use.dilation)
    outer = OuterUse(use.target, seen.reshape(use.slots, -1), use.outputs.reshape(use.slots, -1))
    return _Outer(outer, grid, kernel)


def _several(uses: Sequence[Use], kind: torch.dtype) -> Reduction | DirectUse:
    """The sum of several uses' gradients, slot by slot."""
    total = _dense(uses[0])
    for use in uses[1:]:
        total = total + _dense(use)
    if all(isinstance(use, DirectUse) for use in uses):
        return DirectUse(uses[0].target, total)
    return _Kept(uses[0].target, total.to(kind))


def _dense(use: Use) -> Tensor:
    if not isinstance(use, EmbeddingUse):
        return use.gradients(0, use.count)
    rows = _merged(use)
    table = rows.new_zeros(use.count, *use.target.shape)
    slot = torch.arange(use.count, device=rows.device)[:, None].expand_as(use.codes)
    return table.index_put((slot, use.codes), rows, accumulate=True)
