"""One batch, three sums: of the batch and of its two halves.

Claim: a row of the batch is in exactly one half, whatever the other rows are. Fixed-size batches are cut by a uniformly
random equal split of their *places*, so a replaced row keeps its half; in Poisson batches each row draws its half for
itself, so one row more or less leaves the others' halves as they were. The split may even be known: a row meets the sum
of the batch and that of one half, two releases, and never the third. Event: the sampling of ``mechanism`` twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.data.base import Dataset
from discreet.events import Event, NonPrivate, Repeat
from discreet.measurements.sampling import FixedSizeSampling, PoissonSampling
from discreet.mechanisms.base import Mechanism
from discreet.noise.bits import Bits
from discreet.queries.base import Query
from discreet.units import Unit

__all__ = ["Halves"]


@dataclass(frozen=True, eq=False)
class Halves:
    """Noisy sums (batch, first half, second half), each under fresh noise of the same mechanism."""

    query: Query
    mechanism: Mechanism
    sampling: FixedSizeSampling | PoissonSampling

    def event(self, unit: Unit) -> Event:
        """The mechanism twice, on a batch."""
        once = self.mechanism.event(self.query, unit)
        return once if isinstance(once, NonPrivate) else self.sampling.event(Repeat(once, 2), unit)

    def sample(self, data: Dataset, unit: Unit, bits: Bits) -> list[Any]:
        """Draw the batch, split it, sum each half in integers; the batch's sum is theirs, exactly."""
        batch = self.sampling.draw(data, bits)
        first = self._first_half(len(batch), bits)
        halves = [batch.take(np.flatnonzero(first)), batch.take(np.flatnonzero(~first))]
        if not self.mechanism.noise_multiplier:
            sums = [self.query.unrounded(half) for half in halves]
            return [self.mechanism.noiseless(value) for value in (sums[0] + sums[1], *sums)]
        steps = [self.query.integers(half) for half in halves]
        return [self.mechanism.perturb(value, self.query, bits) for value in (steps[0] + steps[1], *steps)]

    def blank(self) -> list[Any]:
        """Three sums of zero without noise."""
        return [self.mechanism.noiseless(np.zeros(self.query.shape)) for _ in range(3)]

    def _first_half(self, rows: int, bits: Bits) -> NDArray[np.bool_]:
        from discreet.noise import permutation, uniform_integers

        if isinstance(self.sampling, FixedSizeSampling):
            return np.asarray(permutation(rows, bits=bits) % 2 == 0)
        return np.asarray(uniform_integers(2, rows, bits=bits) == 0)
