"""Layers that record, during the backward pass, what their parameters' gradients are made of.

Each layer becomes one differentiable function. Its backward pass gives the gradient of the input as usual; instead of
the gradient of the parameters, which would sum over examples, it records a use (`discreet.torch.uses`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional

from discreet.errors import InvalidInput
from discreet.torch.threads import as_batch
from discreet.torch.uses import ConvolutionUse, DirectUse, EmbeddingUse, MatrixUse, OuterUse, Target, Use

__all__ = ["Recorder", "affine", "convolution", "embedding", "linear", "recorded_sum", "with_slots"]

FEW = 3, 15
"""Numbers of outputs for which a product of matrices is faster with few rows than with few columns."""


@dataclass
class Recorder:
    """Uses of parameters in one forward and backward pass of a batch with a fixed number of slots.

    ``tap`` is a scalar that requires a gradient, so that every recorded layer is part of the backward pass even if its
    input needs none. While ``suspended`` layers run as usual and record nothing.
    """

    slots: int
    tap: Tensor = field(default_factory=lambda: torch.zeros((), requires_grad=True))
    uses: list[Use] = field(default_factory=list)
    suspended: bool = False

    def record(self, use: Use) -> None:
        """Keep a use; refused in a backward pass that is to be differentiated itself, where weights are constants."""
        if torch.is_grad_enabled():
            raise InvalidInput(
                "gradients of gradients (create_graph=True) are not supported for models that are trained privately: "
                "they would lack what the inner gradient owes to the weights. Nothing was released of this step"
            )
        self.uses.append(use)

    def vector(self, target: Target | None, values: Tensor) -> None:
        """Record the gradients of a small parameter, one a slot, already summed over time."""
        if target is not None:
            self.record(DirectUse(target, values.reshape(self.slots, *target.shape)))

    def matrix(self, target: Target | None, inputs: Tensor, outputs: Tensor, transposed: bool) -> None:
        """Record a matrix that met vectors of each slot."""
        if target is None:
            return
        inputs = inputs.reshape(self.slots, -1, inputs.shape[-1])
        outputs = outputs.reshape(self.slots, -1, outputs.shape[-1])
        if inputs.shape[1] == 1:
            self.record(OuterUse(target, inputs[:, 0], outputs[:, 0], transposed))
        else:
            self.record(MatrixUse(target, inputs, outputs, transposed))


def with_slots(x: Tensor, slots: int, layer: str) -> Tensor:
    """``x`` with the slot as its first axis: a first axis of 1 is repeated, a multiple of the slots is several each."""
    if x.dim() and x.shape[0] == 1 and slots > 1:
        return x.expand(slots, *x.shape[1:])
    if x.dim() and x.shape[0] % slots == 0:
        return x
    raise InvalidInput(
        f"{layer} received a tensor of shape {tuple(x.shape)}, but the first axis must be the batch of {slots} slots; "
        "layers need batch_first=True, and what is common to all examples needs a first axis of 1"
    )


def recorded_sum(g: Tensor, slots: int) -> Tensor:
    """Sum of a gradient [slots·k, …, p] over all but the slot and the last axis."""
    g = g.reshape(slots, -1, g.shape[-1])
    return g[:, 0] if g.shape[1] == 1 else g.sum(1)


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x Wᵀ + b, computed as (W xᵀ + b)ᵀ for few outputs in host memory, which takes about half the time there.

    Rows are in parts, because one product with so few rows gains little from a second thread.
    """
    outputs, inputs = weight.shape
    if x.is_cuda or not FEW[0] <= outputs <= FEW[1]:
        return functional.linear(x, weight, bias)
    parts = as_batch(x.reshape(-1, inputs)).transpose(1, 2)
    several = weight.expand(len(parts), -1, -1)
    turned = several @ parts if bias is None else torch.baddbmm(bias[:, None], several, parts)
    return turned.transpose(1, 2).reshape(*x.shape[:-1], outputs)


class _Linear(Function):  # type: ignore[misc]
    """y = x Wᵀ + b; records uses of the matrix and of the offset."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, tap: Tensor, weight: Tensor, bias: Tensor | None, note: Any) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.note = note
        found = _product(x, weight, bias)
        return torch.ops.aten._unsafe_view(found, found.shape)  # no view, so that what follows may change it in place

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        recorder, of_weight, of_bias, transposed = ctx.note
        recorder.matrix(of_weight, x.detach(), g.detach(), transposed)
        if of_bias is not None:
            recorder.vector(of_bias, recorded_sum(g.detach(), recorder.slots))
        return (g @ weight.to(g.dtype) if ctx.needs_input_grad[0] else None), None, None, None, None


def linear(
    recorder: Recorder,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    of_weight: Target | None,
    of_bias: Target | None,
    *,
    transposed: bool = False,
) -> Tensor:
    """x Wᵀ + b for W = ``weight`` [p, d]; ``transposed`` says that the parameter itself is [d, p]."""
    if torch.is_autocast_enabled(x.device.type):
        kind = torch.get_autocast_dtype(x.device.type)
        x, weight, bias = x.to(kind), weight.to(kind), None if bias is None else bias.to(kind)
    note = (recorder, of_weight, of_bias, transposed)
    return _Linear.apply(x, recorder.tap, weight.detach(), None if bias is None else bias.detach(), note)


class _Affine(Function):  # type: ignore[misc]
    """y = x·w + b along the last axis, or along the second one; records gradients of w and b."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, tap: Tensor, weight: Tensor, bias: Tensor | None, note: Any) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.note = note
        return x * weight if bias is None else torch.addcmul(bias, x, weight)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        recorder, of_weight, of_bias, axes = ctx.note

        def over_time(values: Tensor) -> Tensor:
            several = values.reshape(recorder.slots, -1, *values.shape[1:])
            return several.sum([1, *(axis + 1 for axis in axes)])

        if of_weight is not None:
            recorder.vector(of_weight, over_time(x.detach() * g.detach()))
        if of_bias is not None:
            recorder.vector(of_bias, over_time(g.detach()))
        return (g * weight if ctx.needs_input_grad[0] else None), None, None, None, None


def affine(
    recorder: Recorder,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    of_weight: Target | None,
    of_bias: Target | None,
    *,
    channel: bool,
) -> Tensor:
    """x·w + b: entry by entry of the last axes, or of the second axis if ``channel``."""
    if channel:
        axes = tuple(range(2, x.dim()))
        shape = (-1, *[1] * len(axes))
    else:
        axes, shape = tuple(range(1, x.dim() - weight.dim())), tuple(weight.shape)
    scale, shift = weight.detach().reshape(shape), None if bias is None else bias.detach().reshape(shape)
    return _Affine.apply(x, recorder.tap, scale, shift, (recorder, of_weight, of_bias, axes))


def _laid_out_for(weight: Tensor, x: Tensor) -> Tensor:
    """``x`` with channels last in memory if the weight has them so: other layouts are converted inside each kernel."""
    last = x.dim() == 4 and weight.stride(1) == 1 and weight[0, 0].numel() > 1
    return x.contiguous(memory_format=torch.channels_last) if last else x


class _Convolution(Function):  # type: ignore[misc]
    """A convolution with zero padding; records uses of the kernel and of the offset."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, tap: Tensor, weight: Tensor, bias: Tensor | None, note: Any) -> Tensor:
        x = _laid_out_for(weight, x)
        ctx.save_for_backward(x, weight)
        ctx.note = note
        layer, padding = note[3:]
        zeros = [0] * len(padding)
        return torch.ops.aten.convolution(
            x, weight, bias, layer.stride, padding, layer.dilation, False, zeros, layer.groups
        )

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        g = _laid_out_for(weight, g)
        recorder, of_weight, of_bias, layer, padding = ctx.note
        if of_weight is not None:
            recorder.record(
                ConvolutionUse(
                    of_weight,
                    x.detach(),
                    g.detach(),
                    layer.stride,
                    padding,
                    layer.dilation,
                    layer.groups,
                    recorder.slots,
                )
            )
        if of_bias is not None:
            recorder.vector(of_bias, g.detach().reshape(recorder.slots, -1, g.shape[1], g[0, 0].numel()).sum((1, 3)))
        if not ctx.needs_input_grad[0]:
            return None, None, None, None, None
        return _gradient_of_input(g, x, weight.to(g.dtype), layer, padding), None, None, None, None


def _gradient_of_input(g: Tensor, x: Tensor, weight: Tensor, layer: nn.Module, padding: tuple[int, ...]) -> Tensor:
    """The input's gradient; on a GPU by a transposed convolution, for which the input need not be kept."""
    dims, zeros = len(padding), [0] * len(padding)
    if not g.is_cuda:
        backward = torch.ops.aten.convolution_backward(
            g, x, weight, None, layer.stride, padding, layer.dilation, False, zeros, layer.groups, [True, False, False]
        )
        return backward[0]
    return transposed(g, weight, tuple(x.shape[-dims:]), layer, padding)


def transposed(
    g: Tensor, weight: Tensor, places: tuple[int, ...], layer: nn.Module, padding: tuple[int, ...]
) -> Tensor:
    """The gradient of a convolution's input, whose positions are ``places``, from that of its output."""
    reached = [
        (n - 1) * stride - 2 * pad + hole * (kernel - 1) + 1
        for n, stride, pad, hole, kernel in zip(
            g.shape[-len(places) :], layer.stride, padding, layer.dilation, weight.shape[2:], strict=True
        )
    ]
    beyond = [n - m for n, m in zip(places, reached, strict=True)]  # the last positions, which no patch may reach
    return torch.ops.aten.convolution(
        g, weight, None, layer.stride, padding, layer.dilation, True, beyond, layer.groups
    )


def convolution(
    recorder: Recorder,
    x: Tensor,
    layer: nn.Module,
    padding: tuple[int, ...],
    targets: tuple[Target | None, Target | None],
) -> Tensor:
    """The convolution of a layer, of an input to which padding other than zeros has been applied."""
    weight, bias = layer.weight.detach(), None if layer.bias is None else layer.bias.detach()
    if torch.is_autocast_enabled(x.device.type):
        kind = torch.get_autocast_dtype(x.device.type)
        x, weight, bias = x.to(kind), weight.to(kind), None if bias is None else bias.to(kind)
    return _Convolution.apply(x, recorder.tap, weight, bias, (recorder, *targets, layer, padding))


class _Embedding(Function):  # type: ignore[misc]
    """Rows of a table; records which rows met which output gradients."""

    @staticmethod
    def forward(ctx: Any, codes: Tensor, tap: Tensor, weight: Tensor, note: Any) -> Tensor:
        ctx.save_for_backward(codes)
        ctx.note = note
        return functional.embedding(codes, weight)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (codes,) = ctx.saved_tensors
        recorder, of_weight, ignored = ctx.note
        slots = recorder.slots
        recorder.record(
            EmbeddingUse(of_weight, codes.reshape(slots, -1), g.detach().reshape(slots, -1, g.shape[-1]), ignored)
        )
        return None, None, None, None


def embedding(recorder: Recorder, codes: Tensor, weight: Tensor, of_weight: Target, ignored: int | None) -> Tensor:
    """The rows of a table that have the given codes."""
    return _Embedding.apply(codes, recorder.tap, weight.detach(), (recorder, of_weight, ignored))
