"""Which rows each step of a hidden run takes (`discreet.measurements.LastIterate`), and what that does to its event.

Claims, for replace-one and a public number of rows n (``docs/maths/last_iterate.md``). Every scheme draws its batches
by the *places* of rows, without looking at them, so that a replaced row stays where it is.

- `CyclicBatches`: places are split once into batches that are taken in turn (Bok, Su and Altschuler 2024, §4.2).
- `SampledBatches`: every step draws a Poisson or fixed-size batch (§4.3). The last ``window`` steps are accounted for
  by composition with a ``share`` of the noise's variance; the rest hides how far apart the runs are before them.

A step divides by the public expected size of a batch. A batch may be larger, and a step is a contraction of the loss
of ``most``/``expected`` times the smoothness.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from discreet import events
from discreet.accounting.reductions.last_iterate import absorbed_distance
from discreet.data.base import Dataset
from discreet.errors import InvalidInput
from discreet.floats import ROUNDED_UP
from discreet.measurements.sampling import FixedSizeSampling, PoissonSampling, equal_parts
from discreet.noise.bits import Bits
from discreet.units import Unit

__all__ = ["AllRows", "Batches", "CyclicBatches", "SampledBatches"]


class Batches(Protocol):
    """How the steps of a hidden run take their rows."""

    def expected(self, n: float) -> float:
        """The batch size that sums are divided by."""
        ...

    def most(self, n: float) -> int:
        """No batch has more rows."""
        ...

    def event(self, run: events.LastIterate, unit: Unit) -> events.Event:
        """The event of a run whose lengths are in steps that see the row; ``run`` is that of all rows each step."""
        ...

    def draw(self, data: Dataset, bits: Bits) -> Iterator[Dataset]:
        """The batches, one a step, without end."""
        ...


@dataclass(frozen=True)
class AllRows:
    """Every step takes all rows."""

    def expected(self, n: float) -> float:
        """n."""
        return n

    def most(self, n: float) -> int:
        """n."""
        return round(n)

    def event(self, run: events.LastIterate, unit: Unit) -> events.Event:
        """``run`` itself."""
        return run

    def draw(self, data: Dataset, bits: Bits) -> Iterator[Dataset]:
        """All rows."""
        return itertools.repeat(data)


@dataclass(frozen=True)
class CyclicBatches:
    """``count`` batches of equal size, up to one row, drawn once and taken in turn."""

    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InvalidInput(f"a cycle has at least one batch, got {self.count}.")

    def expected(self, n: float) -> float:
        """n/count."""
        return n / self.count

    def most(self, n: float) -> int:
        """n/count, rounded up."""
        return math.ceil(round(n) / self.count)

    def event(self, run: events.LastIterate, unit: Unit) -> events.Event:
        """``run`` with so many batches."""
        return replace(run, batches=self.count)

    def draw(self, data: Dataset, bits: Bits) -> Iterator[Dataset]:
        """The batches in turn."""
        parts = equal_parts(len(data), self.count, bits)
        return itertools.cycle([data.take(np.flatnonzero(parts == j)) for j in range(self.count)])


@dataclass(frozen=True)
class SampledBatches:
    """A fresh batch each step.

    Args:
        sampling: Poisson or of fixed size.
        window: the number of last steps whose batches are accounted for.
        share: of the noise's variance in each of these steps, for the sampled gradient; the rest absorbs distance.
    """

    sampling: PoissonSampling | FixedSizeSampling
    window: int
    share: float

    def __post_init__(self) -> None:
        if self.window < 1 or not 0 < self.share < 1:
            raise InvalidInput("sampled batches need a window of at least one step and a share between 0 and 1.")

    def expected(self, n: float) -> float:
        """As of the sampling scheme."""
        return self.sampling.expected_rows(n)

    def most(self, n: float) -> int:
        """All rows of a Poisson batch, or its fixed size."""
        return self.sampling.batch if isinstance(self.sampling, FixedSizeSampling) else round(n)

    def event(self, run: events.LastIterate, unit: Unit) -> events.Event:
        """The sampled releases of the window, and one Gaussian release of how far apart the runs were before it."""
        width = math.inf if run.diameter is None else run.diameter
        distance = absorbed_distance(run.steps, self.window, run.contraction, diameter=width, rounding=run.rounding)
        sampled = events.Gaussian(run.noise_multiplier * math.sqrt(self.share) / ROUNDED_UP)
        steps = events.Repeat(self.sampling.event(sampled, unit), self.window)
        if distance == 0:
            return steps
        rest = run.noise_multiplier * math.sqrt(1 - self.share) / distance / ROUNDED_UP
        return events.compose([steps, events.Gaussian(rest)])

    def draw(self, data: Dataset, bits: Bits) -> Iterator[Dataset]:
        """A fresh batch each time."""
        while True:
            yield self.sampling.draw(data, bits)
