"""Multi-head attention while it is recorded: projections by the rule of linear layers, the rest as PyTorch does it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from discreet.torch import taps
from discreet.torch.taps import Recorder, with_slots
from discreet.torch.uses import Target

__all__ = ["attention", "attention_is_covered"]


def attention_is_covered(layer: nn.MultiheadAttention) -> bool:
    """Whether a layer is recorded by its own rule: batch first, and no extra keys."""
    return bool(layer.batch_first and layer.bias_k is None and layer.bias_v is None and not layer.add_zero_attn)


def _target(parameter: Tensor | None, first: int = 0, last: int | None = None) -> Target | None:
    return Target(parameter, first, last) if parameter is not None and parameter.requires_grad else None


def _projections(
    layer: nn.MultiheadAttention, recorder: Recorder, query: Tensor, key: Tensor, value: Tensor
) -> tuple[Tensor, ...]:
    weight, bias, size = layer.in_proj_weight, layer.in_proj_bias, layer.embed_dim
    if query is key and key is value and weight is not None:
        joint = taps.linear(recorder, query, weight, bias, _target(weight), _target(bias))
        return joint.chunk(3, -1)
    separate = [layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight]
    outputs = []
    for place, x in enumerate((query, key, value)):
        rows = place * size, (place + 1) * size
        part = separate[place] if weight is None else weight[slice(*rows)]
        of_part = _target(separate[place]) if weight is None else _target(weight, *rows)
        shift = None if bias is None else bias[slice(*rows)]
        outputs.append(taps.linear(recorder, x, part, shift, of_part, _target(bias, *rows)))
    return tuple(outputs)


def _mask(attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor, heads: int) -> Tensor | None:
    """Both masks as one tensor to be added to the scores, [slots or 1, heads or 1, queries or 1, keys]."""

    def added(mask: Tensor) -> Tensor:
        if mask.dtype != torch.bool:
            return mask.to(query.dtype)
        return torch.zeros_like(mask, dtype=query.dtype).masked_fill(mask, -math.inf)

    total = None
    if attn_mask is not None:
        mask = added(attn_mask)
        total = mask[None, None] if mask.dim() == 2 else mask.reshape(-1, heads, *mask.shape[1:])
    if key_padding_mask is not None:
        padding = added(key_padding_mask)[:, None, None, :]
        total = padding if total is None else total + padding
    return total


def attention(
    layer: nn.MultiheadAttention,
    recorder: Recorder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Output and attention weights of ``nn.MultiheadAttention``, whose arguments these are."""
    same = query is key and key is value
    query = with_slots(query, recorder.slots, "MultiheadAttention")
    key = query if same else with_slots(key, recorder.slots, "MultiheadAttention")
    value = query if same else with_slots(value, recorder.slots, "MultiheadAttention")
    heads = layer.num_heads
    projected = _projections(layer, recorder, query, key, value)
    q, k, v = (t.reshape(*t.shape[:2], heads, -1).transpose(1, 2) for t in projected)
    mask, dropout = _mask(attn_mask, key_padding_mask, q, heads), layer.dropout if layer.training else 0.0
    weights = None
    if need_weights:
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
        weights = functional.dropout((scores if mask is None else scores + mask).softmax(-1), dropout)
        mixed = weights @ v
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        mixed = functional.scaled_dot_product_attention(q, k, v, mask, dropout)
    mixed = mixed.transpose(1, 2).reshape(*query.shape[:2], layer.embed_dim)
    last = layer.out_proj
    return taps.linear(recorder, mixed, last.weight, last.bias, _target(last.weight), _target(last.bias)), weights
