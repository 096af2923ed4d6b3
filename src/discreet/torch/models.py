"""Which models can be trained with a bound on each example: layers that mix examples are found, and replaced."""

from __future__ import annotations

import copy

import torch
from torch import nn

from discreet.errors import InvalidInput

__all__ = ["check_model", "fix"]

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
_RECURRENT = (nn.LSTM, nn.GRU, nn.RNN)
GROUPS = 32
"""Groups of a GroupNorm that replaces a BatchNorm: the number of Wu and He (2018)."""


def _trouble(module: nn.Module) -> str | None:
    """Why a module cannot be trained with a bound on each example, and what to do; None if it can."""
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        return "normalises with statistics of the whole batch; discreet.torch.fix(model) replaces it by GroupNorm"
    if isinstance(module, nn.modules.instancenorm._InstanceNorm) and module.track_running_stats:
        return "keeps statistics of all examples; discreet.torch.fix(model) turns track_running_stats off"
    if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.scale_grad_by_freq:
        return "scales gradients by how often a code occurs in the batch; use scale_grad_by_freq=False"
    if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.max_norm is not None:
        return "shortens the rows that a batch looks up, without noise; use max_norm=None"
    if isinstance(module, nn.MultiheadAttention | nn.LSTM | nn.GRU | nn.RNN) and not module.batch_first:
        return "has the batch as its second axis; use batch_first=True"
    if type(module).__name__ == "SpectralNorm" or type(module).__name__ == "_SpectralNorm":
        return "updates an estimate in every forward pass; remove the spectral norm"
    return None


def check_model(model: nn.Module) -> None:
    """Refuse a model with layers that mix examples, or whose batch is not the first axis.

    Raises:
        InvalidInput: Each such layer with its name, the reason and the fix. Depends on the model alone.

    Example:
        >>> check_model(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
        Traceback (most recent call last):
            ...
        discreet.errors.InvalidInput: 1 (BatchNorm1d) normalises with statistics of the whole batch; \
discreet.torch.fix(model) replaces it by GroupNorm
    """
    found = [
        f"{name or 'the model'} ({type(module).__name__}) {why}"
        for name, module in model.named_modules()
        if (why := _trouble(module)) is not None
    ]
    if found:
        raise InvalidInput("; ".join(found))


def _replacement(module: nn.Module) -> nn.Module | None:
    """What takes the place of a module, or None if it stays."""
    if isinstance(module, _BATCH_NORMS):
        groups = max(g for g in range(1, min(GROUPS, module.num_features) + 1) if module.num_features % g == 0)
        if isinstance(module, nn.BatchNorm1d):  # an example may have one value a channel, which is 0 in a group of one
            groups = 1
        new = nn.GroupNorm(groups, module.num_features, module.eps, affine=module.affine)
        if module.affine:
            with torch.no_grad():
                new.weight.copy_(module.weight)
                new.bias.copy_(module.bias)
            new.to(module.weight.device, module.weight.dtype)
        return new.train(module.training)
    if isinstance(module, nn.modules.instancenorm._InstanceNorm) and module.track_running_stats:
        new = type(module)(module.num_features, module.eps, affine=module.affine)
        if module.affine:
            new.weight, new.bias = module.weight, module.bias
        return new.train(module.training)
    return None


def fix(model: nn.Module) -> nn.Module:
    """A copy of a model without layers that mix examples: BatchNorm becomes GroupNorm with the same scale and offset.

    GroupNorm has up to 32 groups, and one in place of BatchNorm1d. InstanceNorm no longer keeps statistics. The given
    model is not changed. Layers that have no replacement stay, and `check_model` names them.

    Example:
        >>> type(fix(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)))[1]).__name__
        'GroupNorm'
    """
    model = copy.deepcopy(model)
    if (new := _replacement(model)) is not None:
        return new
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if (new := _replacement(child)) is not None:
                setattr(module, name, new)
    return model
