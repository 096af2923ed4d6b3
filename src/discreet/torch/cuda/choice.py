"""Which reduction a parameter's uses get, and which products are kept."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from discreet.torch.cuda.convolutions import convolved, reduction_of_convolution
from discreet.torch.cuda.outer import Outer
from discreet.torch.cuda.reductions import Kept, NotCompiled, Reduction, Rows, Segmented, merged
from discreet.torch.uses import ConvolutionUse, DirectUse, EmbeddingUse, MatrixUse, OuterUse, Use

__all__ = ["reduction_of", "worth_keeping"]

LONGEST = 4096
"""The longest row of codes that is merged by comparing all pairs of them."""


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
        return use if use.target.last is None else Kept(use.target, use.values.float())
    if isinstance(use, OuterUse):
        return Outer(use, grid)
    if isinstance(use, EmbeddingUse):
        if use.codes.shape[1] > LONGEST:
            raise NotCompiled("rows of codes are too long")
        return Rows(use)
    if isinstance(use, MatrixUse):
        if id(use.target.parameter) in kept:
            left, right = (use.inputs, use.outputs) if use.transposed else (use.outputs, use.inputs)
            return Kept(use.target, left.to(kind).transpose(1, 2) @ right.to(kind))
        return Segmented(use, kind)
    if isinstance(use, ConvolutionUse):
        return reduction_of_convolution(use, grid, kind)
    raise NotCompiled(f"no fixed shape is known for {type(use).__name__}")


def _several(uses: Sequence[Use], kind: torch.dtype) -> Reduction | DirectUse:
    """The sum of several uses' gradients, slot by slot."""
    total = _dense(uses[0])
    for use in uses[1:]:
        total = total + _dense(use)
    if all(isinstance(use, DirectUse) for use in uses):
        return DirectUse(uses[0].target, total)
    return Kept(uses[0].target, total.to(kind))


def _dense(use: Use) -> Tensor:
    if isinstance(use, ConvolutionUse):
        return convolved(use, torch.float32)
    if isinstance(use, MatrixUse):
        left, right = (use.inputs, use.outputs) if use.transposed else (use.outputs, use.inputs)
        return left.float().transpose(1, 2) @ right.float()
    if not isinstance(use, EmbeddingUse):
        return use.gradients(0, use.count)
    rows = merged(use)
    table = rows.new_zeros(use.count, *use.target.shape)
    slot = torch.arange(use.count, device=rows.device)[:, None].expand_as(use.codes)
    return table.index_put((slot, use.codes), rows, accumulate=True)
