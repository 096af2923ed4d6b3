"""Hypothesis (H): what a slot adds depends on the example in this slot, and on no other one. Tested on the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from discreet.errors import HypothesisViolated

if TYPE_CHECKING:
    from discreet.torch.engine import ExampleGradients

__all__ = ["check_slots"]

SHARED = 1e-3
"""Dropout is taken for shared if slots with the same example differ by less than this part of what a seed changes."""


def _at(slot: int, kept: Tensor, other: Tensor) -> Tensor:
    """``other`` with the row of ``kept`` at one slot."""
    mixed = other.clone()
    mixed[slot] = kept[slot]
    return mixed


def _not_finite(x: Tensor) -> Tensor:
    return torch.full_like(x, torch.nan) if x.is_floating_point() else x


class _Runs:
    """Sums of the engine on changed examples, with the same seed of dropout unless told otherwise."""

    def __init__(self, engine: ExampleGradients, forward: Callable[[Any], Tensor]) -> None:
        self.engine, self.forward = engine, forward
        self.device = engine.parameters[0].device

    def __call__(self, examples: Any, present: Tensor, seed: int = 0) -> Tensor:
        cuda = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=cuda):
            torch.manual_seed(seed)
            sums = self.engine.sums_of(self.forward, examples, present)
        return torch.cat([total.reshape(-1) for total in sums])

    def only(self, slot: int) -> Tensor:
        return torch.arange(self.engine.slots, device=self.device) == slot


def check_slots(engine: ExampleGradients, forward: Callable[[Any], Tensor], examples: Any) -> None:
    """Test hypothesis (H) on a model: repeated, with other examples changed, and with one slot blanked.

    In each case what a slot adds must be the same integers, bit for bit. The test cannot prove (H), but it finds
    statistics of the batch, attention across examples, operations that are not deterministic and losses that divide by
    a number that depends on all examples. Dropout that is the same for all slots is refused as well.

    Args:
        engine: The engine of the model.
        forward: The loss as a function of ``examples``; it runs the model.
        examples: Tensors, or a nest of them, with the slots as first axis. What is found leads to an error, so use
            examples that are generated or public.

    Raises:
        HypothesisViolated: If what a slot adds changes.
    """
    run, slots = _Runs(engine, forward), engine.slots
    everyone = torch.ones(slots, dtype=torch.bool, device=run.device)
    run(examples, everyone)  # the first pass finds out how modules without a rule are differentiated
    full = run(examples, everyone)
    if not torch.equal(full, run(examples, everyone)):
        _refuse("the same batch gave different sums", "use deterministic algorithms")
    if slots == 1:
        return
    for slot in sorted({0, slots // 2, slots - 1}):
        alone = run(examples, run.only(slot))
        if not torch.equal(full, run(examples, ~run.only(slot)) + alone):
            _refuse("the sum of all slots is not the sum of their parts", "make the loss a sum over examples")
        blank = tree_map_only(Tensor, lambda x, s=slot: _at(s, torch.zeros_like(x), x), examples)
        if not torch.equal(full - alone, run(blank, ~run.only(slot))):
            _refuse("blanking one slot changed what others add", "remove what mixes examples")
        for change in (lambda x: x.roll(1, 0), torch.zeros_like, _not_finite):
            changed = tree_map_only(Tensor, lambda x, s=slot, c=change: _at(s, x, c(x)), examples)
            if not torch.equal(alone, run(changed, run.only(slot))):
                _refuse("changing other examples changed what one slot adds", "remove what mixes examples")
    _check_dropout(run, examples)


def _check_dropout(run: _Runs, examples: Any) -> None:
    """Refuse randomness that is common to all slots: with one example in all of them only the seed has an effect."""
    same = tree_map_only(Tensor, lambda x: x[:1].expand_as(x).clone(), examples)
    first = run(same, run.only(0)).double()
    by_seed = (run(same, run.only(0), seed=1).double() - first).norm()
    by_slot = (run(same, run.only(run.engine.slots - 1)).double() - first).norm()
    if by_slot < SHARED * by_seed:
        _refuse("the same random numbers are used for all slots", "draw dropout for each example")


def _refuse(found: str, remedy: str) -> None:
    raise HypothesisViolated(f"{found}, so the bound on one example cannot be certified; {remedy}")
