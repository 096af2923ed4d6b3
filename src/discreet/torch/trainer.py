"""A private training: the user's loop computes losses, the trainer releases noisy gradients and moves the model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch

from discreet.errors import DiscreetError, HypothesisViolated, InvalidInput
from discreet.report.certificate import Certificate
from discreet.torch.adam import PrivateOptimizer
from discreet.torch.checkpoint import save
from discreet.torch.clipping import QuantileBound
from discreet.torch.distributed import FollowingRun
from discreet.torch.engines import in_words
from discreet.torch.journal import Journal
from discreet.torch.plan import TrainingPlan
from discreet.torch.progress import ProgressLine
from discreet.torch.rounds import GradientRound, NoisySum, RoundInProgress
from discreet.torch.rows import Batch
from discreet.torch.svrg import GradientDifferenceSum
from discreet.torch.untrained import Buffers
from discreet.vault import Run, Vault

__all__ = ["Parts", "Trainer"]


@dataclass(eq=False)
class Parts:
    """What a trainer is made of; `discreet.torch.privatize` puts it together."""

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    vault: Vault | None
    run: Run | FollowingRun
    round: GradientRound
    plan: TrainingPlan
    certificate: Certificate
    options: Any
    adaptive: QuantileBound | None = None
    average: torch.optim.swa_utils.AveragedModel | None = None
    verbose: bool = False

    @property
    def module(self) -> torch.nn.Module:
        """The model without the wrapper of a training in several processes."""
        return self.round.ranks.model(self.model)


class Trainer:
    """A training whose whole privacy cost has been charged; made by `discreet.torch.privatize`.

    Iterate over it for physical batches and give each batch's loss to `step`, or call `fit`. The model moves once a
    logical batch, by ``optimizer.step()`` on ``.grad`` = (clipped sum + noise)/expected batch. After all charged steps
    the iteration ends; a training may stop before, and nothing is refunded.

    The certificate covers the parameters, their ``.grad``, the optimizer's state and everything computed from them. It
    does not cover what the user's own loop computes from a batch, such as a printed loss.
    """

    def __init__(self, parts: Parts) -> None:
        """Use `discreet.torch.privatize` or `discreet.torch.resume`."""
        self.parts = parts
        self.model, self.optimizer, self.plan = parts.model, parts.optimizer, parts.plan
        self._talk: RoundInProgress | None = None
        self._ahead: Batch | None = None
        self._given: Batch | None = None
        self._waiting = False
        self._full = False
        self._watching = ExitStack()
        self._buffers = Buffers(parts.model)
        self.journal: Journal | None = None
        self.name = ""
        self.closed = False
        self.steps_done = 0
        """Steps that this process has released."""
        self._line = ProgressLine(parts.plan, parts.verbose)

    # --- what it says -------------------------------------------------------------------------------------------------

    @property
    def privacy_(self) -> Certificate:
        """The certificate of everything that was charged: of the whole plan, whether or not all of it has run."""
        return self.parts.certificate

    @property
    def rounds_begun(self) -> int:
        """Rounds of the plan that were begun, here or in earlier processes of a resumed training, or given up."""
        return self.parts.run.done - (1 if self.plan.overflow else 0)

    def spent(self) -> float:
        """The certified ε of the rounds begun so far, at the certificate's δ; at most the certificate's ε.

        It is that of a training of which it was fixed beforehand how many rounds it would run. A training that is ended
        because of what it released has spent what the certificate says.
        """
        counted = 0.0 if self.plan.count is None else self.plan.count.epsilon
        return min(counted + self.plan.spent(self.rounds_begun), self.privacy_.epsilon)

    @property
    def clip_bound(self) -> float:
        """The clipping bound of the next step, which an adaptive rule may have moved."""
        return self.parts.round.query.value

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise in each entry of the next mean gradient; with bands, that of the last."""
        query, banded = self.parts.round.query, self.parts.round.banded
        spread = 1.0 if banded is None else banded.spread(self.plan.steps)
        usual = spread * self.plan.noise_multiplier * query.bound * query.grid / self.plan.expected_batch
        full = self.parts.round.full
        if full is None:
            return usual
        anchor = full.mechanism.noise_multiplier * full.query.bound * full.query.grid / self.plan.n
        return anchor if self.plan.is_full(self.rounds_begun) else math.hypot(anchor, usual)

    @property
    def averaged(self) -> torch.nn.Module:
        """The exponential moving average of the weights, where ``average=`` asked for one; else the model."""
        return self.parts.module if self.parts.average is None else self.parts.average.module

    # --- training -----------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Batch]:
        """Physical batches, until all that was charged has run; a loop that broke off begins with its last batch."""
        try:
            if self._waiting and self._given is not None:
                self._watching.enter_context(self.parts.round.query.engine.watch())
                yield self._given
            while (batch := self._next_batch()) is not None:
                yield batch
        finally:
            self._watching.close()
            self._line.close()
            if self._waiting:  # the loop broke off with a batch
                self._buffers.restore()

    def step(self, loss: torch.Tensor | Callable[[], torch.Tensor]) -> None:
        """Take the loss of the physical batch that was given last; moves the model where a logical batch is complete.

        Args:
            loss: one entry a slot, or their mean; with ``svrg=`` a function without arguments that computes it.

        Raises:
            InvalidInput: no batch is waiting for its loss.
        """
        if not self._waiting or self._talk is None:
            raise InvalidInput("step(loss) takes the loss of a batch that the trainer has given; none is waiting.")
        self._given, self._waiting = None, False
        self._watching.close()
        talk, self._talk = self._talk, None  # a step that fails ends its round
        try:
            self.parts.round.query.engine.require_tested_mode()
            found = talk.send(loss)
        finally:
            self._buffers.restore()
        self._talk = talk
        if isinstance(found, NoisySum):
            self._apply(found)
        else:
            self._ahead = found

    def fit(self, loss_fn: Callable[[Any, Any], torch.Tensor], *, compiled: bool = False) -> Trainer:
        """Run all charged steps with ``loss_fn(model(batch.x), batch.y)``.

        With exact sums the loss is tested like the model was: on made-up examples, before a row is used.

        Args:
            loss_fn: the losses of the slots, or their mean.
            compiled: on a GPU forward pass, backward pass and sums are compiled and replayed as one CUDA graph
                (`discreet.torch.cuda.compiled`), where that is possible; otherwise a warning says why not. Then Python
                code of ``loss_fn`` and of the model runs once, before the first step.

        Raises:
            HypothesisViolated: what one example adds depends on others. Nothing was released.
        """
        if compiled and self._replays(loss_fn):
            return self
        self._check(loss_fn)
        for batch in self:
            if self.parts.round.full is None:
                self.step(loss_fn(self.model(batch.x), batch.y))
            else:
                self.step(lambda given=batch: loss_fn(self.model(given.x), given.y))  # type: ignore[misc]
        return self

    def _check(self, loss_fn: Callable[[Any, Any], torch.Tensor]) -> None:
        """Test that the losses keep slots apart, which no test of the model alone can tell."""
        engine, ranks = self.parts.round.query.engine, self.parts.round.ranks
        if engine.check is None:
            return
        self._watching.close()
        try:
            with ranks.quiet():
                ranks.agreed(lambda: engine.check(lambda batch: loss_fn(self.parts.module(batch.x), batch.y)))
        except HypothesisViolated as problem:
            raise HypothesisViolated(
                f"{problem}. No further step was released; what was charged is there for another loss."
            ) from None
        except (RuntimeError, ValueError, IndexError, AssertionError) as problem:
            if isinstance(problem, DiscreetError):
                raise
            raise InvalidInput(
                f"the loss ends with an error on made-up examples, of which some are not finite ({in_words(problem)}): "
                "in a training it would tell that somebody has such a row. Take a loss that is defined everywhere, "
                "such as BCEWithLogitsLoss. No further step was released; what was charged is there for it."
            ) from problem
        ranks.open()

    def _replays(self, loss_fn: Callable[[Any, Any], torch.Tensor]) -> bool:
        """Run all charged steps by a compiled engine; False where there is none."""
        from discreet.torch.cuda.fitting import replayed_for

        parts = self.parts.round
        query, usual = parts.query, parts.query.engine
        plain = parts.full is None and parts.ranks.size == 1 and usual.rows_each == 1 and not self._waiting
        compiled = replayed_for(usual, loss_fn, plain)
        if compiled is None:
            return False
        query.engine = compiled
        try:
            for batch in self:
                self.step(batch.fields)
        finally:
            query.engine = usual
        return True

    def close(self) -> None:
        """End the training, and note it in the ledger. A training whose plan is complete has ended by itself."""
        if self.closed:
            return
        self.closed = True
        self._talk = None
        self._watching.close()
        self._line.close()
        self._buffers.restore()
        self.parts.run.close()
        self.parts.round.ranks.close()
        if self.journal is not None:
            self.journal.close()

    def _next_batch(self) -> Batch | None:
        if self._waiting:
            raise InvalidInput("step(loss) was not called for the last batch; a batch cannot be left out.")
        found: Batch | NoisySum | None = self._ahead
        self._ahead = None
        while not isinstance(found, Batch):
            if isinstance(found, NoisySum):  # an empty batch moves the model by noise
                self._apply(found)
            found = next(self._talk, None) if self._talk is not None else None
            if found is None and not self._begin_round():
                return None
        self._given, self._waiting = found, True
        self._watching.enter_context(self.parts.round.query.engine.watch())
        return found

    def _begin_round(self) -> bool:
        """Begin the next round of the plan; False where all have been run. The journal knows first."""
        self._talk = None
        run = self.parts.run
        if self.closed or run.done >= run.planned:
            self.close()
            return False
        if self.journal is not None:
            self.journal.claim()
        full = self.parts.round.full if self.plan.is_full(self.rounds_begun) else None
        self._talk, self._full = run.answer(full or self.parts.round), full is not None
        return True

    def _apply(self, released: NoisySum) -> None:
        """Move the model by a released step; everything here is post-processing."""
        query = self.parts.round.query
        divisor = self.plan.n if self._full else self.plan.expected_batch
        means = [total / divisor for total in released.gradients]
        if isinstance(query, GradientDifferenceSum):
            if self._full:
                query.anchor.put(query.engine.parameters, means)
            else:
                means = query.anchor.added(means)
        self.parts.round.ranks.set_gradients(query.engine.parameters, means)
        if isinstance(self.optimizer, PrivateOptimizer):
            self.optimizer.noise_std = self.noise_std
        self.optimizer.step()
        if self.parts.adaptive is not None and released.within is not None:
            query.value = self.parts.adaptive.next(query.value, released.within / self.plan.expected_batch + 0.5)
        if self.parts.average is not None:
            self.parts.average.update_parameters(self.parts.module)
        self.steps_done += 1
        self._line.show(self.steps_done, self.rounds_begun)

    def __repr__(self) -> str:
        spent = "no privacy" if math.isinf(self.privacy_.epsilon) else str(self.privacy_)
        return f"Trainer({self.rounds_begun} of {self.plan.rounds} rounds, {spent})"

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write a checkpoint, from which `discreet.torch.resume` goes on; see `discreet.torch.checkpoint`.

        In a training in several processes all ranks call it, and rank 0 writes.
        """
        self.parts.round.ranks.require_whole("a checkpoint")
        self._buffers.restore()
        self.parts.round.ranks.at_first(lambda: save(self, path))
