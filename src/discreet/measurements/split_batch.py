"""Noisy sums of the disjoint parts of one batch.

Claim: a row of the batch is in exactly one part, whatever the other rows are. Fixed-size batches are cut by a uniformly
random split of their *places* into equal parts, so a replaced row keeps its part; in Poisson batches each row draws its
part for itself, so one row more or less leaves the others' parts as they were. The split may even be known: a row meets
the sum of one part, so that all sums together are one release of a longer vector. Event: the sampling of ``mechanism``
once, however many parts there are. Sums of parts, whose noise is that of their parts together, are post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.data.base import Dataset
from discreet.errors import InvalidInput
from discreet.events import Event, NonPrivate
from discreet.measurements.base import require_rows
from discreet.measurements.sampling import FixedSizeSampling, PoissonSampling, equal_parts, independent_parts
from discreet.mechanisms.base import Mechanism
from discreet.noise.bits import Bits
from discreet.queries.base import Query
from discreet.units import Unit

__all__ = ["SplitBatch"]


@dataclass(frozen=True, eq=False)
class SplitBatch:
    """Noisy sums of ``count`` disjoint random parts of a batch, each under fresh noise of the same mechanism."""

    query: Query
    mechanism: Mechanism
    sampling: FixedSizeSampling | PoissonSampling
    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InvalidInput(f"a batch is cut in at least 1 part, got {self.count}.")
        if isinstance(self.sampling, FixedSizeSampling) and self.sampling.batch % self.count:
            raise InvalidInput(f"{self.count} equal parts do not make a batch of {self.sampling.batch} rows.")

    def event(self, unit: Unit) -> Event:
        """The mechanism once, on a batch."""
        once = self.mechanism.event(self.query, unit)
        return once if isinstance(once, NonPrivate) else self.sampling.event(once, unit)

    def sample(self, data: Dataset, unit: Unit, bits: Bits) -> list[Any]:
        """Draw the batch, cut it, sum each part in integers."""
        require_rows(self.query, data)
        batch = self.sampling.draw(data, bits)
        split = equal_parts if isinstance(self.sampling, FixedSizeSampling) else independent_parts
        part_of = split(len(batch), self.count, bits)
        answers = []
        for k in range(self.count):
            rows = batch.take(np.flatnonzero(part_of == k))
            if self.mechanism.noise_multiplier:
                answers.append(self.mechanism.perturb(self.query.integers(rows), self.query, bits))
            else:
                answers.append(self.mechanism.noiseless(self.query.unrounded(rows)))
        return answers

    def blank(self) -> list[Any]:
        """Sums of zero without noise."""
        return [self.mechanism.noiseless(np.zeros(self.query.shape)) for _ in range(self.count)]
