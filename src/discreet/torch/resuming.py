"""Resuming a private training from a checkpoint (`discreet.torch.checkpoint`), within what was charged for it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from discreet.calibration import Guarantee
from discreet.errors import InvalidInput
from discreet.estimators.privacy import bits_for
from discreet.events import Event, compose
from discreet.measurements import Measurement
from discreet.measurements.sampling import FixedSizeSampling, PoissonSampling
from discreet.noise.bits import Bits
from discreet.text import checked_path
from discreet.torch.banded import Cyclic
from discreet.torch.batches import Allocated, Batches, EachDrawn, Places
from discreet.torch.checkpoint import FORMAT
from discreet.torch.clipping import QuantileBound
from discreet.torch.distributed import Alone, FollowingRun, ranks_of
from discreet.torch.engine import Clip
from discreet.torch.engines import Forward
from discreet.torch.journal import Journal
from discreet.torch.persons import PersonExamples
from discreet.torch.plan import Count, TrainingPlan
from discreet.torch.privatizing import Options, assembled, examples_of, make_round, rehearsed, vault_of
from discreet.torch.rows import TorchRows
from discreet.torch.svrg import Anchor, GradientDifferenceSum, Svrg
from discreet.torch.trainer import Trainer
from discreet.units import Unit
from discreet.vault import Payment, Run, Vault

__all__ = ["resume"]


def resume(
    path: Any,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    data: Any,
    *,
    ledger: Any = None,
    groups: Any = None,
    forward: Forward | None = None,
    verbose: bool = False,
) -> Trainer:
    """Go on with a training from a checkpoint, within what was charged for it when it began.

    Nothing is charged again where the ledger is durable: its open charge is found. A ledger in memory has forgotten, so
    that the whole training is charged to the one that is given. The certificate is the first one's either way.

    Args:
        path: of the checkpoint.
        model: a model of the same architecture; its state is replaced.
        optimizer: over its parameters; its state is replaced.
        data: the same rows.
        ledger: the ledger that was charged.
        groups: the same ids, where persons are protected.
        forward: losses of a batch, as for `privatize`.
        verbose: shows steps and the ε spent, never a loss.

    Raises:
        InvalidInput: it is no checkpoint, or the ledger has no open charge for it. Nothing was released.
        LedgerUnavailable: the journal is gone, or another process is still training. Nothing was released.
    """
    ranks = ranks_of(model)
    state = ranks.agreed(lambda: _read(checked_path(path).absolute()))
    plan, options = _read_plan(state["plan"]), _read_options(state["options"], verbose and ranks.first)
    rows, persons = _same_examples(data, groups, plan, options, ranks)
    shapes = rows if persons is None else persons.shapes(rows)
    journal = ranks.at_first(lambda: Journal.opened(Path(state["journal"]), state["training"]))
    try:
        begun = ranks.from_first(lambda: 0 if journal is None else journal.begun)
        ranks.model(model).load_state_dict(state["model"])
        gradient_round = ranks.agreed(lambda: make_round(model, optimizer, shapes, plan, options, forward, ranks))
        events, done = rehearsed(plan, gradient_round), begun + (1 if plan.overflow else 0)
        vault = ranks.at_first(
            lambda: vault_of(rows, plan.guarantee.unit, ledger, _fresh_bits(options, begun), persons)
        )
        counted = [] if plan.count is None else [plan.count.measurement]
        charged = ranks.at_first(lambda: _reopened(vault, counted, events, state, done))
        optimizer.load_state_dict(state["optimizer"])
        gradient_round.query.value = state["clip_bound"]
        if isinstance(gradient_round.query, GradientDifferenceSum):
            gradient_round.query.anchor = Anchor(**state["anchor"])
        run = charged or FollowingRun(rows, len(events), done)
        trainer = assembled(model, optimizer, vault, run, gradient_round, plan, options)
        if trainer.parts.average is not None:
            trainer.parts.average.load_state_dict(state["average"])
    except BaseException:
        if journal is not None:
            journal.close()
        raise
    trainer.journal, trainer.name, trainer.steps_done = journal, state["training"], state["steps_done"]
    return trainer


def _same_examples(
    data: Any, groups: Any, plan: TrainingPlan, options: Options, ranks: Alone
) -> tuple[TorchRows, PersonExamples | None]:
    """The rows, and whose they are; refused where they cannot be those that the training was planned for."""
    rows, unit = TorchRows(data), plan.guarantee.unit
    if unit.enforced != (groups is not None):
        raise InvalidInput("groups=… must be given exactly where the training protects persons. Nothing was released.")
    persons, _ = examples_of(groups, Unit(unit.relation, options.rows_each), len(rows), ranks)
    n, what = (len(rows), "rows") if persons is None else (persons.count, "persons")
    if unit.relation == "replace-one" and n != plan.n:
        raise InvalidInput(f"the training was planned for {plan.n} {what}, which is public; the data has {n}.")
    return rows, persons


def _reopened(
    vault: Vault | None, after: Sequence[Measurement], events: list[Event], state: dict[str, Any], done: int
) -> Run:  # fmt: skip
    """The charged run after ``done`` measurements; charged anew where the ledger was in memory and has forgotten."""
    assert vault is not None, "rank 0 charges"
    if compose([*(one.event(vault.unit) for one in after), *events]).to_json() != state["event"]:
        raise InvalidInput("the checkpoint's plan is not the one that was charged; nothing was released.")
    if state["ledger"] == "memory:":
        run = vault.open(events, Payment("a resumed training"), after)
        run.skip(done)
        return run
    if vault.ledger.url != state["ledger"] or vault.ledger.dataset != state["dataset"]:
        raise InvalidInput(f"the training was charged to {state['dataset']!r} in {state['ledger']}: give it.")
    return vault.reopen(events, state["charge"], done, after)


def _fresh_bits(options: Options, begun: int) -> Bits:
    """Randomness that no earlier process of the training has used: a seed, which protects nobody, is not repeated."""
    if options.random_state is None:
        return bits_for(None)
    label = f"resumed {options.random_state} after {begun}".encode()
    return bits_for(int.from_bytes(hashlib.sha256(label).digest()[:8], "big"))


def _read(path: Path) -> dict[str, Any]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # whatever a damaged file makes torch say
        raise InvalidInput(f"{path} is not a checkpoint of a private training. Nothing was released.") from None
    if not isinstance(state, dict) or state.get("format") not in (1, FORMAT):
        raise InvalidInput(f"{path} is not a checkpoint of a private training. Nothing was released.")
    return state


def _read_plan(tree: dict[str, Any]) -> TrainingPlan:
    unit = Unit(tree["relation"], tree["rows_per_unit"], tree["enforced"])
    sampler = dict(tree["sampler"])
    kind = sampler.pop("kind")
    rounds: dict[str, Any] = {"allocation": Allocated, "cyclic": Cyclic}
    kinds: dict[str, Any] = {"fixed-size": FixedSizeSampling, "poisson": PoissonSampling}
    batches: Batches = rounds[kind](**sampler) if kind in rounds else EachDrawn(kinds[kind](**sampler))
    return TrainingPlan(
        Guarantee(tree["epsilon"], tree["delta"], unit), tree["n"], batches, tree["rounds"], Places(**tree["places"]),
        tree["noise_multiplier"], tree["expected_batch"], tree["period"], tree["full_noise_ratio"],
        None if tree.get("count") is None else Count(**tree["count"]),
    )  # fmt: skip


def _read_options(tree: dict[str, Any], verbose: bool) -> Options:
    adaptive = None if tree["adaptive"] is None else QuantileBound(**tree["adaptive"])
    svrg = None if tree["svrg"] is None else Svrg(**tree["svrg"])
    rest = {name: value for name, value in tree.items() if name not in ("clip", "adaptive", "svrg", "verbose")}
    if not math.isfinite(rest["grid"]):
        raise InvalidInput("not a checkpoint of a private training.")
    return Options(clip=Clip(**tree["clip"]), adaptive=adaptive, svrg=svrg, verbose=verbose, **rest)
