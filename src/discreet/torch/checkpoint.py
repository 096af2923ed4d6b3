"""Checkpoints of a private training, and how it is resumed without releasing more than was charged.

A checkpoint holds the model, the optimizer, the moving average, the clipping bound, the plan with its charge, and the
name of the training's journal (`discreet.torch.journal`). It holds no random key and says nothing about batches. From
the first checkpoint on, every round is noted in the journal before it begins. A training that was killed and resumed
begins after the last round that was noted, with the model of the checkpoint: rounds in between are lost to the model
and stay paid. An epoch by allocation that was broken off is not continued, since each row may be in one of its batches
only and who was in which is not stored.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch

from discreet.errors import InvalidInput
from discreet.events import compose
from discreet.measurements.sampling import FixedSizeSampling
from discreet.noise.bits import process_bits
from discreet.text import checked_path
from discreet.torch.banded import Cyclic
from discreet.torch.batches import Allocated, EachDrawn
from discreet.torch.journal import Journal, require_new
from discreet.torch.plan import TrainingPlan
from discreet.torch.svrg import GradientDifferenceSum

if TYPE_CHECKING:
    from discreet.torch.trainer import Trainer

__all__ = ["FORMAT", "save"]

FORMAT = 2
"""The format of checkpoints that this release writes. It reads 1 too, in which no number of rows was counted."""


def save(trainer: Trainer, path: Any) -> None:
    """Write a checkpoint, all or nothing: a process that is killed while it writes leaves the one before.

    The first checkpoint makes the journal, at the same path with ``.journal`` after it. All checkpoints of a training
    share it, whatever their paths.

    Raises:
        InvalidInput: the training has ended, or the path holds something else than a checkpoint of this training.
        LedgerUnavailable: the journal cannot be written.
    """
    path = checked_path(path).absolute()
    if trainer.closed:
        raise InvalidInput("the training has ended, and cannot be resumed; save the model's state_dict instead.")
    if trainer.journal is None:
        require_new(path)
        name = process_bits().words(2).tobytes().hex()
        trainer.journal = Journal.create(path.with_name(path.name + ".journal"), name, trainer.rounds_begun)
        trainer.name = name
    parts, vault = trainer.parts, trainer.parts.vault
    assert vault is not None, "rank 0 writes"
    query = parts.round.query
    state = {
        "format": FORMAT,
        "training": trainer.name,
        "journal": str(trainer.journal.path),
        "plan": _written_plan(trainer.plan),
        "options": asdict(parts.options),
        "event": compose(vault.charged).to_json(),
        "charge": vault.charge_ids[-1],
        "ledger": vault.ledger.url,
        "dataset": vault.ledger.dataset,
        "clip_bound": trainer.clip_bound,
        "steps_done": trainer.steps_done,
        "model": parts.module.state_dict(),
        "optimizer": trainer.optimizer.state_dict(),
        "anchor": asdict(query.anchor) if isinstance(query, GradientDifferenceSum) else None,
        "average": None if parts.average is None else parts.average.state_dict(),
    }
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    with open(beside, "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def _written_plan(plan: TrainingPlan) -> dict[str, Any]:
    guarantee, batches = plan.guarantee, plan.batches
    sampler: dict[str, Any]
    if isinstance(batches, Allocated):
        sampler = {"kind": "allocation", "batches": batches.batches}
    elif isinstance(batches, Cyclic):
        sampler = {"kind": "cyclic", "groups": batches.groups, "rate_in_group": batches.rate_in_group}
    else:
        assert isinstance(batches, EachDrawn)
        fixed = isinstance(batches.sampling, FixedSizeSampling)
        sampler = {"kind": "fixed-size" if fixed else "poisson", **asdict(batches.sampling)}
    return {
        "epsilon": guarantee.epsilon, "delta": guarantee.delta, "relation": guarantee.unit.relation,
        "rows_per_unit": guarantee.unit.rows_per_unit, "enforced": guarantee.unit.enforced,
        "n": plan.n, "rounds": plan.rounds,
        "places": asdict(plan.places), "noise_multiplier": plan.noise_multiplier,
        "expected_batch": plan.expected_batch, "sampler": sampler, "period": plan.period,
        "full_noise_ratio": plan.full_noise_ratio, "count": None if plan.count is None else asdict(plan.count),
    }  # fmt: skip
