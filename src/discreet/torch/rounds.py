"""The measurement of private training: clipped gradient sums of a round's batches, each released with noise.

Claim: at a step the integers of one present row have ℓ2 norm at most C = ``query.bound`` (the engine's proof), and one
row more, less or exchanged leaves the integers of all others as they are (`discreet.torch.batches`; that a slot's
integers depend on that slot alone is checked by the engine). The sum over all physical batches of a step gets one draw
of rounded Gaussian noise of standard deviation noise_multiplier·C, also where the batch is empty. Event of a round: the
sampler's, of ``Gaussian(noise_multiplier)``.

A round is a conversation, because the user's loop computes the losses: it gives physical batches, takes their losses,
and gives `NoisySum`s. Nothing else of what it computes from rows leaves it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import torch

from discreet.errors import InvalidInput
from discreet.events import ApproxDP, Event
from discreet.measurements.questions import Question
from discreet.mechanisms import Gaussian
from discreet.mechanisms.base import scale_in_steps
from discreet.noise.bits import Bits
from discreet.queries.base import Norm, Query
from discreet.torch.banded import BandedNoise
from discreet.torch.batches import Batches, Places
from discreet.torch.distributed import ALONE, Alone, Physical, Ranks
from discreet.torch.noisy import perturbed
from discreet.torch.rows import Batch, TorchRows
from discreet.units import Unit

__all__ = ["ClippedGradientSum", "GradientRound", "NoisySum", "Overflow", "RoundInProgress"]


@dataclass(frozen=True)
class NoisySum:
    """A released step: the noisy clipped gradient sum, one float64 tensor a parameter, and the noisy count within it.

    ``within`` is the noisy number of rows whose gradient was not longer than the bound, less half of all rows of the
    batch, where an adaptive bound asks for it.
    """

    gradients: list[torch.Tensor]
    within: float | None = None


RoundInProgress: TypeAlias = Generator[Batch | NoisySum, "torch.Tensor | None", None]


@dataclass(eq=False)
class ClippedGradientSum:
    """The sum over a batch of clipped per-example gradients, in whole steps.

    With ``share_within`` = s > 0 a row also contributes ±½·w to one more coordinate, + where its gradient is not longer
    than the bound, with w such that this coordinate has the share s of the squared bound: (w/2)² = s·(G² + (w/2)²) for
    the engine's bound G (Andrew et al. 2021, whose two releases are one here).

    Args:
        engine: computes clipped sums, in integers of bound/grid.
        value: the clipping bound, in the units of the gradient.
        share_within: s.
    """

    engine: Any
    value: float
    share_within: float = 0.0

    @property
    def norm(self) -> Norm:
        """ℓ2, over all parameters together."""
        return "l2"

    @property
    def half_weight(self) -> int:
        """w/2 in grid steps, rounded up."""
        share = self.share_within
        return int(np.ceil(float(self.engine.integer_bound) * (share / (1 - share)) ** 0.5)) if share else 0

    @property
    def bound(self) -> int:
        """The largest ℓ2 norm of a row's integers, rounded up to a whole number."""
        if not self.share_within:
            return int(np.ceil(self.engine.integer_bound))
        return int(np.ceil(np.nextafter(np.hypot(float(self.engine.integer_bound), self.half_weight), np.inf)))

    @property
    def grid(self) -> float:
        """The value of one step."""
        return self.value / float(self.engine.grid)

    def zero(self) -> list[torch.Tensor]:
        """The sum over no rows, where the parameters are."""
        shapes = [tuple(p.shape) for p in self.engine.parameters] + ([()] if self.share_within else [])
        device = self.engine.parameters[0].device
        return [torch.zeros(shape, dtype=torch.int64, device=device) for shape in shapes]

    def integers(self, loss: torch.Tensor, present: torch.Tensor) -> list[torch.Tensor]:
        """The sum over a physical batch whose losses are given, where the parameters are."""
        found = self.engine.clipped_sum(loss, present, self.value)
        if not self.engine.exact:  # floats in the same unit, of which nothing is claimed
            found = [t.double().round().to(torch.int64) for t in found]
        total = list(found)
        if self.share_within:
            norms = self.engine.norms.to(present.device)
            short = ((norms <= self.value) & present).sum()
            total.append((self.half_weight * (2 * short - present.sum())).to(total[0].device))
        return total


@dataclass(eq=False)
class GradientRound:
    """One round of a training: every batch of it, summed and released with noise.

    Args:
        query: clipped sums; its ``value`` may change between the steps of a training, since integers are bounded by
            ``query.bound`` whatever it is.
        mechanism: noise, with its event.
        batches: the sampler of the round, with its event.
        places: where in a physical batch a row is computed.
        device: where the model is.
        ranks: the processes that share the physical batches of a step.
        banded: correlates the noise of steps, together with a sampler that is `Cyclic`; None for independent noise.
        full: with SVRG, the round of all rows that stands at the beginning of each period (`discreet.torch.svrg`).
    """

    query: ClippedGradientSum
    mechanism: Gaussian
    batches: Batches
    places: Places
    device: Any
    ranks: Alone = ALONE
    banded: BandedNoise | None = None
    full: GradientRound | None = None

    def event(self, unit: Unit) -> Event:
        """The sampler's event of the mechanism's."""
        return self.batches.event(self.mechanism.event(cast("Query", self.query), unit), unit)

    @property
    def question(self) -> Question | None:
        """With correlated noise, what is asked of the rows: combinations of sums, in units of a gradient."""
        if self.banded is None:
            return None
        unit = self.query.grid / self.banded.coefficients[0]
        bound = self.banded.query(self.query.bound).bound * unit
        return Question("BandedGradientSum", "l2", bound, self.mechanism.noise_multiplier * bound, unit)

    def sample(self, data: Any, unit: Unit, bits: Bits) -> RoundInProgress:
        """The round's conversation; called by the vault, after the charge."""
        return self._conversation(data, bits)

    def blank(self) -> None:
        """A rehearsal sees no gradients: no event of a training depends on them."""

    def _conversation(self, rows: TorchRows, bits: Bits) -> RoundInProgress:
        if self.banded is not None:
            self.banded.begin_round()
        for batch in self.batches.draw(rows, bits):
            physical = self.ranks.shares(batch.numbers, self.places.physical_batches(len(batch), bits))
            total = yield from self._summed(batch, physical)
            self.ranks.added(total)
            released = self._noisy(total, bits)
            self.ranks.send(released)
            yield released

    def follow(self, rows: TorchRows) -> RoundInProgress:
        """The round's conversation at another rank than 0, which computes the physical batches that rank 0 names."""
        ranks = cast("Ranks", self.ranks)
        for _ in range(self.batches.steps):
            numbers, physical = ranks.heard()
            total = yield from self._summed(rows.take(numbers), physical)
            ranks.added(total)
            yield NoisySum(*ranks.received([p.shape for p in self.query.engine.parameters]))

    def _summed(
        self, batch: TorchRows, physical: Iterable[Physical]
    ) -> Generator[Batch, torch.Tensor | None, list[torch.Tensor]]:
        """The integers of some physical batches of a logical one, whose losses the user's loop computes."""
        total = self.query.zero()
        for which, slots_of in physical:
            given = batch.batch(which, slots_of, self.places.slots, self.device)
            present = given.present.clone()  # the loop has its own
            loss = yield given
            if loss is None:
                raise InvalidInput("a batch was left without a loss; nothing of this step was released.")
            for one, part in zip(total, self.query.integers(loss, present), strict=True):
                one += part
        return total

    def _noisy(self, total: list[torch.Tensor], bits: Bits) -> NoisySum:
        query = cast("Query", self.query)
        if not self.mechanism.noise_multiplier:
            found = [self.mechanism.noiseless(query.grid * one.double()) for one in total]
        elif self.banded is None:
            found = self._perturbed(total, query, bits)
        else:
            mixed = self.banded.query(query.bound)
            noisy = self._perturbed(self.banded.mixed(total), cast("Query", mixed), bits)
            found = [query.grid * one for one in self.banded.unmixed(noisy)]
        within = None
        if self.query.share_within:
            within = float(found.pop()) / query.grid / (2 * self.query.half_weight)
        return NoisySum(found, within)

    def _perturbed(self, total: list[torch.Tensor], query: Query, bits: Bits) -> list[torch.Tensor]:
        """Sums plus noise, as floats: made where the sums are if that is a GPU, and in host memory otherwise."""
        from discreet.torch.cuda import noise

        sigma = scale_in_steps(self.mechanism.noise_multiplier, query)
        if noise.available(total[0].device, sigma, sum(one.numel() for one in total)):
            return noise.released(bits, total, sigma, query.grid)
        return perturbed(total, self.mechanism, query, bits)


@dataclass(frozen=True)
class Overflow:
    """Stands in a plan for the probability that some batch has more rows than places; there is nothing to answer."""

    probability: float

    def event(self, unit: Unit) -> Event:
        """``ApproxDP(0, probability)``."""
        return ApproxDP(0.0, self.probability)

    def sample(self, data: Any, unit: Unit, bits: Bits) -> None:
        """Nothing is released."""

    def follow(self, data: Any) -> None:
        """Nothing is released."""

    def blank(self) -> None:
        """Nothing is released."""
