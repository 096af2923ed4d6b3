"""A mean loss as a sum over slots, so that what a slot adds is the gradient of its own loss.

A mean over slots is multiplied by their number. A mean that divides by anything else would let one example scale the
gradients of all others. The mean cross entropy of PyTorch does: it divides by the weights of the labels that are not
``ignore_index``, −100 by default, whatever labels a row has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor
from torch.nn import functional

from discreet.errors import HypothesisViolated

__all__ = ["sum_over_slots"]

NEAR = 8
"""How many operations before the end a divisor is looked for: sums of means, and numbers that scale them."""
MEAN = 1
"""How PyTorch names the reduction of a loss inside its graph."""


def sum_over_slots(loss: Tensor, slots: int) -> Tensor:
    """N times a mean over N slots.

    A cross entropy is computed again from what PyTorch has kept of it, as the sum over labels by the public number of
    labels a slot: an ignored label counts as a loss of 0, and one of weight w as w times its loss.

    Args:
        loss: a mean, a scalar.
        slots: N.

    Raises:
        HypothesisViolated: it divides by a number that depends on the examples.
    """
    node = loss.grad_fn
    if _is_mean_entropy(node) and node._saved_target.numel() % slots == 0:
        ignored = node._saved_ignore_index
        ignored = ignored - 2**64 if ignored >= 2**63 else ignored
        total = functional.nll_loss(
            node._saved_self, node._saved_target, node._saved_weight, ignore_index=ignored, reduction="sum"
        )
        return total / (node._saved_target.numel() // slots)
    for one in _nearest(node):
        if _is_mean_entropy(one):
            _refuse("its cross entropy divides by the number, or the weights, of all labels that are not ignored")
        if one.name() == "MeanBackward0" and one._saved_self_sym_numel % slots:
            _refuse(f"it is a mean of {one._saved_self_sym_numel} entries, which is no multiple of {slots} slots")
    return slots * loss


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
