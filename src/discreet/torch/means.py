"""What the backward pass of a mean loss starts from, so that a slot's gradient is that of its own loss.

A mean over slots is multiplied by their number. A mean that divides by anything else would let one example scale the
gradients of all others. The mean cross entropy of PyTorch does: it divides by the weights of the labels that are not
``ignore_index``, −100 by default, whatever labels a row has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from discreet.errors import HypothesisViolated

__all__ = ["start_of_mean"]

NEAR = 8
"""How many operations before the end a divisor is looked for: sums of means, and numbers that scale them."""
MEAN = 1
"""How PyTorch names the reduction of a loss inside its graph."""


def start_of_mean(loss: Tensor, slots: int) -> Tensor:
    """The gradient of N times the mean over N slots, with respect to the mean.

    For a cross entropy of one label a slot it is that of the sum, weights and ignored labels included: PyTorch divides
    the start of the pass by its divisor T, and T/T = 1 without rounding.

    Args:
        loss: a mean, a scalar.
        slots: N.

    Raises:
        HypothesisViolated: it divides by a number that depends on the examples.
    """
    node = loss.grad_fn
    if _is_mean_entropy(node) and node._saved_self.numel() == slots * node._saved_self.shape[1]:
        return node._saved_total_weight.to(loss.dtype).reshape(loss.shape)
    for one in _nearest(node):
        if _is_mean_entropy(one):
            _refuse("its cross entropy divides by the number, or the weights, of all labels that are not ignored")
        if one.name() == "MeanBackward0" and one._saved_self_sym_numel % slots:
            _refuse(f"it is a mean of {one._saved_self_sym_numel} entries, which is no multiple of {slots} slots")
    return torch.full_like(loss, float(slots))


def _is_mean_entropy(node: Any) -> bool:
    return (
        node is not None and node.name() in ("NllLossBackward0", "NllLoss2DBackward0") and node._saved_reduction == MEAN
    )


def _nearest(node: Any) -> Iterator[Any]:
    """Operations near the end of a graph, without what leads to a mean."""
    layer = [node] if node is not None else []
    for _ in range(NEAR):
        yield from layer
        open_ends = [one for one in layer if one.name() != "MeanBackward0" and not _is_mean_entropy(one)]
        layer = [before for one in open_ends for before, _ in one.next_functions if before is not None][:NEAR]


def _refuse(why: str) -> None:
    raise HypothesisViolated(
        f"the loss is no mean over slots: {why}, so that one example changes what others add. Give one loss a slot "
        '(reduction="none"). Nothing of this step was released.'
    )
