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

__all__ = ["NotCompiled", "Reduction", "Vectors", "reduction_of", "worth_keeping"]

LONGEST = 4096
"""The longest row of codes that is merged by comparing all pairs of them."""


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


class _Kept(Reduction):
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
        segments.kept_sums(held[0].reshape(len(held[0]), -1), weights, total.view(-1))


class _Segmented(Reduction):
    """A matrix that met several vectors of each slot: inputs and output gradients in half precision."""

    rule = "product over time of each example, truncated"

    def __init__(self, use: MatrixUse, kind: torch.dtype) -> None:
        left, right = (use.inputs, use.outputs) if use.transposed else (use.outputs, use.inputs)
        super().__init__(use.target, [left.to(kind), right.to(kind)])
        self.times, self.rows, self.columns = left.shape[1], left.shape[2], right.shape[2]

    @property
    def parts(self) -> int:
        """Parts of `segments.segment_squares`."""
        return segments.segment_parts(self.times, _aligned(self.rows), _aligned(self.columns))

    def measure(self, held: Sequence[Tensor], squares: Tensor) -> None:
        """Squared lengths of the products."""
        segments.segment_squares(_padded(held[0]), _padded(held[1]), squares)

    def add(self, held: Sequence[Tensor], weights: Tensor, total: Tensor) -> None:
        """Σ trunc(w·product)."""
        left, right = _padded(held[0]), _padded(held[1])
        if (left.shape[2], right.shape[2]) == tuple(total.shape):
            segments.segment_sums(left, right, weights, total)
        else:
            found = total.new_zeros(left.shape[2], right.shape[2])
            segments.segment_sums(left, right, weights, found)
            total.copy_(found[: self.rows, : self.columns])


class _SegmentedConvolution(Reduction):
    """The kernel of a convolution: inputs and output gradients in half precision; patches are made when needed."""

    rule = "product over positions of each example, truncated"

    def __init__(self, use: ConvolutionUse, kind: torch.dtype) -> None:
        super().__init__(use.target, [_last(use.inputs).to(kind), _last(use.outputs).to(kind)])
        self.slots, self.stride, self.padding, self.dilation = use.slots, use.stride, use.padding, use.dilation
        self.kernel = use.target.shape[2:]
        self.times = math.prod(use.outputs.shape[2:]) * len(use.outputs) // use.slots
        self.rows, self.columns = use.target.shape[0], math.prod(use.target.shape[1:])
        self.window = _window(use)

    @property
    def parts(self) -> int:
        """Parts of `segments.segment_squares`."""
        return segments.segment_parts(self.times, _aligned(self.rows), _aligned(self.columns))

    def _factors(self, held: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        if self.window is not None:
            return held[1].reshape(self.slots, self.times, -1).contiguous(), held[0].contiguous()
        seen = _patches(held[0], self.kernel, self.stride, self.padding, self.dilation)
        left, right = (t.reshape(self.slots, self.times, t.shape[-1]) for t in (held[1], seen))
        return _padded(left), _padded(right)

    def measure(self, held: Sequence[Tensor], squares: Tensor) -> None:
        """Squared lengths of the products of output gradients and patches."""
        segments.segment_squares(*self._factors(held), squares, self.window)

    def add(self, held: Sequence[Tensor], weights: Tensor, total: Tensor) -> None:
        """Σ trunc(w·product)."""
        left, right = self._factors(held)
        if self.window is not None:
            segments.segment_sums(left, right, weights, total, self.window)
        else:
            found = total.new_zeros(left.shape[2], right.shape[2])
            segments.segment_sums(left, right, weights, found)
            _put(found[: self.rows, : self.columns], self.kernel, total)


class _Outer(Reduction):
    """A matrix that met one vector of each slot: inputs and output gradients, quantised when they are summed."""

    rule = QuantisedBlock.rule

    def __init__(self, use: OuterUse, grid: float, moved: tuple[int, ...] | None = None) -> None:
        super().__init__(use.target, [use.inputs, use.outputs])
        self.grid, self.transposed, self.moved = grid, use.transposed, moved
        self.rows, self.columns = use.outputs.shape[1], use.inputs.shape[1]
        self.block: QuantisedBlock | None = None

    @property
    def parts(self) -> int:
        """One."""
        return 1

    def measure(self, held: Sequence[Tensor], squares: Tensor) -> None:
        """‖â‖²·‖g‖²/t² for the integers â of the input."""
        self.block = QuantisedBlock(OuterUse(Target(self.target.parameter), held[0], held[1]), self.grid)
        squares[0] = self.block.square_lengths()

    def add(self, held: Sequence[Tensor], weights: Tensor, total: Tensor) -> None:
        """Σ m·ĝ âᵀ, by a product of doubles that are whole numbers."""
        block, self.block = self.block, None
        assert block is not None
        found = torch.zeros(self.rows, self.columns, dtype=torch.float64, device=total.device)
        block.add(weights.double(), found)
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
        """Parts of `segments.kept_squares`."""
        return segments.kept_parts(self.size)

    def measure(self, held: Sequence[Tensor], squares: Tensor) -> None:
        """Squared lengths of all rows of a slot together."""
        segments.kept_squares(held[1].reshape(len(held[1]), -1), squares)

    def add(self, held: Sequence[Tensor], weights: Tensor, total: Tensor) -> None:
        """Σ trunc(w·row), each at its code."""
        segments.row_sums(held[1].contiguous(), held[0].contiguous(), weights, total)


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
    missing = _aligned(values.shape[-1]) - values.shape[-1]
    return (functional.pad(values, (0, missing)) if missing else values).contiguous()


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


def _convolved(use: ConvolutionUse, kind: torch.dtype) -> Tensor:
    """The kernel's gradients of each slot, by products of output gradients and patches, group by group."""
    p, d, *kernel = use.target.shape
    slots, groups = use.slots, use.groups
    seen = _patches(_last(use.inputs).to(kind), kernel, use.stride, use.padding, use.dilation)
    left = _last(use.outputs).to(kind).reshape(slots, -1, groups, p // groups)
    right = seen.reshape(slots, left.shape[1], -1, groups, d).permute(0, 3, 1, 2, 4)
    found = left.permute(0, 2, 3, 1) @ right.reshape(slots, groups, left.shape[1], -1)
    whole = found.reshape(slots, p, *kernel, d)
    return whole.permute(0, 1, whole.dim() - 1, *range(2, whole.dim() - 1)).contiguous()


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


def worth_keeping(uses: Sequence[Use], kind: torch.dtype) -> set[int]:
    """Parameters whose products are kept, by identity: all that takes no more memory than what all are made of.

    Keeping is faster than making products twice. Products that are small beside what they are made of come first.
    """
    sizes = []
    for use in uses:
        if isinstance(use, MatrixUse):
            made_of = use.inputs.nbytes + use.outputs.nbytes
            product = use.count * math.prod(use.target.shape) * kind.itemsize
            sizes.append((product / made_of, product, made_of, id(use.target.parameter)))
    room, kept = sum(made_of for _, _, made_of, _ in sizes), set()
    for _, product, _, parameter in sorted(sizes):
        room -= product
        if room >= 0:
            kept.add(parameter)
    return kept


def reduction_of(uses: Sequence[Use], grid: float, kind: torch.dtype, kept: set[int]) -> Reduction | DirectUse:
    """The reduction of all uses of one part of a parameter; gradients themselves stay what they are.

    Args:
        uses: uses of the same part.
        grid: whole steps to the clipping bound.
        kind: the type to which factors of products are rounded.
        kept: parameters whose products are kept.

    Raises:
        NotCompiled: no reduction of a fixed shape is known.
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
            raise NotCompiled("rows of codes are too long")
        return _Rows(use)
    if isinstance(use, MatrixUse):
        if id(use.target.parameter) in kept:
            left, right = (use.inputs, use.outputs) if use.transposed else (use.outputs, use.inputs)
            return _Kept(use.target, left.to(kind).transpose(1, 2) @ right.to(kind))
        return _Segmented(use, kind)
    if isinstance(use, ConvolutionUse):
        return _convolution(use, grid, kind)
    raise NotCompiled(f"no fixed shape is known for {type(use).__name__}")


def _convolution(use: ConvolutionUse, grid: float, kind: torch.dtype) -> Reduction:
    if use.groups > 1:
        return _Kept(use.target, _convolved(use, torch.float32))
    several = len(use.inputs) // use.slots
    if several * math.prod(use.outputs.shape[2:]) > 1:
        kept = use.slots * math.prod(use.target.shape) <= use.inputs.numel() + use.outputs.numel()
        return (
            _Kept(use.target, _convolved(use, kind))
            if kept and _window(use) is None
            else _SegmentedConvolution(use, kind)
        )
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
    if isinstance(use, ConvolutionUse):
        return _convolved(use, torch.float32)
    if isinstance(use, MatrixUse):
        left, right = (use.inputs, use.outputs) if use.transposed else (use.outputs, use.inputs)
        return left.float().transpose(1, 2) @ right.float()
    if not isinstance(use, EmbeddingUse):
        return use.gradients(0, use.count)
    rows = _merged(use)
    table = rows.new_zeros(use.count, *use.target.shape)
    slot = torch.arange(use.count, device=rows.device)[:, None].expand_as(use.codes)
    return table.index_put((slot, use.codes), rows, accumulate=True)
