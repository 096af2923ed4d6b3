"""Which layers are recorded by a rule of their own, and how each of them runs while it is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter, functional

from discreet.torch import taps
from discreet.torch.attention import attention, attention_is_covered
from discreet.torch.recurrent import recurrent, recurrent_is_covered
from discreet.torch.taps import Recorder, with_slots
from discreet.torch.uses import Target

__all__ = ["Rule", "rule_of"]

Rule = Callable[..., Any]
"""``rule(layer, recorder, …)`` is the layer's output, recorded; further arguments are those of its forward pass."""


def _targets(layer: nn.Module) -> tuple[Target | None, Target | None]:
    """Weight and offset of a layer, where they exist and are trained."""
    found = []
    for name in ("weight", "bias"):
        parameter = layer._parameters.get(name)
        found.append(Target(parameter) if parameter is not None and parameter.requires_grad else None)
    return found[0], found[1]


def _linear(layer: nn.Module, recorder: Recorder, input: Tensor) -> Tensor:
    x = with_slots(input, recorder.slots, "Linear")
    return taps.linear(recorder, x, layer.weight, layer.bias, *_targets(layer))


def _conv1d_of_transformers(layer: nn.Module, recorder: Recorder, x: Tensor) -> Tensor:
    x = with_slots(x, recorder.slots, "Conv1D")
    return taps.linear(recorder, x, layer.weight.T, layer.bias, *_targets(layer), transposed=True)


def _convolution(layer: nn.Module, recorder: Recorder, input: Tensor) -> Tensor:
    x = with_slots(input, recorder.slots, type(layer).__name__)
    dims, padding = len(layer.kernel_size), layer.padding
    if layer.padding_mode != "zeros" or isinstance(padding, str):
        sides = layer._reversed_padding_repeated_twice
        x = functional.pad(x, sides, mode="constant" if layer.padding_mode == "zeros" else layer.padding_mode)
        padding = (0,) * dims
    return taps.convolution(recorder, x, layer, tuple(padding), _targets(layer))


def _embedding(layer: nn.Module, recorder: Recorder, input: Tensor) -> Tensor:
    slots, codes = recorder.slots, input
    if codes.dim() == 0 or (codes.shape[0] % slots and codes.shape[0] != 1):
        codes = codes[None]
    codes = with_slots(codes, slots, "Embedding")
    return taps.embedding(recorder, codes, layer.weight, Target(layer.weight), layer.padding_idx)


def _layer_norm(layer: nn.Module, recorder: Recorder, input: Tensor) -> Tensor:
    x = functional.layer_norm(
        with_slots(input, recorder.slots, "LayerNorm"), layer.normalized_shape, None, None, layer.eps
    )
    return taps.affine(recorder, x, layer.weight, layer.bias, *_targets(layer), channel=False)


def _rms_norm(layer: nn.Module, recorder: Recorder, x: Tensor) -> Tensor:
    x = functional.rms_norm(with_slots(x, recorder.slots, "RMSNorm"), layer.normalized_shape, None, layer.eps)
    return taps.affine(recorder, x, layer.weight, None, *_targets(layer), channel=False)


def _group_norm(layer: nn.Module, recorder: Recorder, input: Tensor) -> Tensor:
    x = functional.group_norm(with_slots(input, recorder.slots, "GroupNorm"), layer.num_groups, None, None, layer.eps)
    if input.dim() == 4 and input.is_contiguous(memory_format=torch.channels_last):  # on GPUs the layout gets lost
        x = x.contiguous(memory_format=torch.channels_last)
    return taps.affine(recorder, x, layer.weight, layer.bias, *_targets(layer), channel=True)


def _instance_norm(layer: nn.Module, recorder: Recorder, input: Tensor) -> Tensor:
    x = functional.instance_norm(with_slots(input, recorder.slots, "InstanceNorm"), eps=layer.eps)
    return taps.affine(recorder, x, layer.weight, layer.bias, *_targets(layer), channel=True)


_RULES: dict[type[nn.Module], tuple[Rule, frozenset[str]]] = {
    nn.Linear: (_linear, frozenset({"weight", "bias"})),
    nn.Conv1d: (_convolution, frozenset({"weight", "bias"})),
    nn.Conv2d: (_convolution, frozenset({"weight", "bias"})),
    nn.Conv3d: (_convolution, frozenset({"weight", "bias"})),
    nn.Embedding: (_embedding, frozenset({"weight"})),
    nn.LayerNorm: (_layer_norm, frozenset({"weight", "bias"})),
    nn.RMSNorm: (_rms_norm, frozenset({"weight"})),
    nn.GroupNorm: (_group_norm, frozenset({"weight", "bias"})),
    nn.InstanceNorm1d: (_instance_norm, frozenset({"weight", "bias"})),
    nn.InstanceNorm2d: (_instance_norm, frozenset({"weight", "bias"})),
    nn.InstanceNorm3d: (_instance_norm, frozenset({"weight", "bias"})),
}


def _runs_as(layer: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a layer has the forward pass of a class of PyTorch."""
    return isinstance(layer, kind) and type(layer).forward is kind.forward


def rule_of(layer: nn.Module) -> Rule | None:
    """The rule of a layer, or None if it has none and must be recorded as a whole.

    A class that inherits its forward pass from a layer of PyTorch has the rule of that layer. Layers with other
    parameters than the usual ones, such as a parametrised weight, have none.
    """
    if _runs_as(layer, nn.MultiheadAttention):
        return attention if attention_is_covered(layer) else None
    if any(_runs_as(layer, kind) for kind in (nn.LSTM, nn.GRU, nn.RNN)):
        return recurrent if recurrent_is_covered(layer) else None
    names = frozenset(name for name, value in layer._parameters.items() if value is not None)
    if type(layer).__module__ == "transformers.pytorch_utils" and type(layer).__name__ == "Conv1D":
        return _conv1d_of_transformers if names == {"weight", "bias"} else None
    for kind, (rule, known) in _RULES.items():
        if not _runs_as(layer, kind):
            continue
        plain = isinstance(layer._parameters.get("weight"), Parameter) and names <= known
        return rule if plain else None
    return None
