"""Compiled sums for ``trainer.fit``: made on made-up examples and checked there, before a row is used."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from discreet.errors import HypothesisViolated
from discreet.torch.cuda.compiled import CompiledGradients, NotCompiled
from discreet.torch.engine import check_slots
from discreet.torch.engines import TrainingGradients
from discreet.torch.rows import Batch
from discreet.torch.untrained import Buffers

__all__ = ["ReplayedGradients", "replayed_for"]

DEVICES: Final = ["cuda"]
"""Kinds of devices on which ``fit`` compiles."""
APART: Final = 0.25
"""Compiled and usual sums may differ by this part of their length, of which rounding to bfloat16 takes about 0.01."""


class ReplayedGradients:
    """The engine of a round whose losses need not be computed: it is given the fields of a batch in their place."""

    def __init__(self, engine: CompiledGradients) -> None:
        self.engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def watch(self) -> AbstractContextManager[None]:
        """Nothing is recorded: forward and backward pass are replayed."""
        return nullcontext()

    def clipped_sum(self, fields: Any, present: Tensor, bound: float | None = None) -> list[Tensor]:
        """The clipped sum of a batch; see `CompiledGradients.sums_of`."""
        return self.engine.sums_of(self.engine.forward, fields, present, bound)


def replayed_for(
    engine: TrainingGradients, loss_fn: Callable[[Any, Any], Tensor], plain: bool = True
) -> ReplayedGradients | None:
    """The compiled engine for ``loss_fn(model(batch.x), batch.y)``, or None where the usual one has to be used.

    It is tested on made-up examples: hypothesis (H) for the program that will be replayed, and that its sums are those
    of the usual engine. Where it does not exist or fails, a warning says why; the usual engine passed its own test.

    Args:
        engine: the usual engine, checked.
        loss_fn: the losses of the slots, or their mean.
        plain: whether the training is one of single rows, in one process, without variance reduction.
    """
    made = engine.made_up
    if engine.parameters[0].device.type not in DEVICES or not engine.exact or made is None or not plain:
        _warn("this is for exact sums of single rows in one process, on a GPU")
        return None

    def forward(fields: Any) -> Tensor:
        batch = Batch(fields, made.present)
        return loss_fn(engine.model(batch.x), batch.y)

    buffers = Buffers(engine.model)
    try:
        compiled = CompiledGradients(
            engine.model, engine.clip, forward, made.fields, slots=engine.slots, grid=engine.grid
        )
        check_slots(compiled, forward, made.fields)
        _require_same(compiled, engine, forward, made)
        return ReplayedGradients(compiled)
    except (NotCompiled, HypothesisViolated) as problem:
        _warn(str(problem))
        return None
    finally:
        buffers.restore()


def _warn(reason: str) -> None:
    warnings.warn(f"the training runs without compiling, which is slower: {reason}", stacklevel=5)


def _require_same(
    compiled: CompiledGradients, engine: TrainingGradients, forward: Callable[[Any], Tensor], made: Batch
) -> None:
    """Refuse a program that is no function of its batch, on examples other than those that it was traced on."""
    other = tree_map_only(Tensor, lambda x: x.roll(1, 0).clone(), made.fields)
    mine, usual = (
        torch.cat([total.reshape(-1) for total in one.sums_of(forward, other, made.present)]).double()
        for one in (compiled, engine)
    )
    if (mine - usual).norm() > APART * usual.norm() + engine.grid / 100:
        raise NotCompiled("the compiled sums are not those of the usual engine")
