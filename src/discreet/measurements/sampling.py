"""Row sampling schemes. A sampler and its event are one object, so the two cannot disagree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from discreet import events
from discreet.data.base import Dataset
from discreet.errors import InvalidInput
from discreet.noise.bits import Bits
from discreet.units import Unit

__all__ = ["FixedSizeSampling", "PoissonSampling", "Sampling", "equal_parts", "independent_parts"]


class Sampling(Protocol):
    """A way of drawing a batch and what it does to an event."""

    def event(self, inner: events.Event, unit: Unit) -> events.Event:
        """The event of doing ``inner`` on a batch."""
        ...

    def draw(self, data: Dataset, bits: Bits) -> Dataset:
        """A fresh batch."""
        ...

    def expected_rows(self, n: float) -> float:
        """Batch size to divide by: public, never the size of the batch drawn."""
        ...


@dataclass(frozen=True)
class PoissonSampling:
    """Each row is taken independently with probability ``rate``. An empty batch still releases noise."""

    rate: float

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise InvalidInput(f"the sampling rate must be in (0, 1], got {self.rate!r}.")

    def event(self, inner: events.Event, unit: Unit) -> events.Event:
        """``Poisson(rate, inner)``."""
        return inner if isinstance(inner, events.NonPrivate) else events.Poisson(self.rate, inner)

    def draw(self, data: Dataset, bits: Bits) -> Dataset:
        """A batch of independent coin flips."""
        from discreet.noise import poisson_sample

        return data.take(poisson_sample(len(data), self.rate, bits=bits))

    def expected_rows(self, n: float) -> float:
        """n·rate."""
        return n * self.rate


@dataclass(frozen=True)
class FixedSizeSampling:
    """``batch`` of ``n`` rows, uniformly without replacement. n is public, so only under replace-one."""

    batch: int
    n: int

    def __post_init__(self) -> None:
        if not 1 <= self.batch <= self.n:
            raise InvalidInput(f"a batch needs 1 ≤ batch ≤ n, got batch={self.batch}, n={self.n}.")

    def event(self, inner: events.Event, unit: Unit) -> events.Event:
        """``FixedSize(batch, n, inner)``."""
        if isinstance(inner, events.NonPrivate):
            return inner
        if unit.relation != "replace-one":
            raise InvalidInput(
                "fixed-size batches reveal n, which add-remove keeps private; use Poisson sampling or replace-one."
            )
        return events.FixedSize(self.batch, self.n, inner)

    def draw(self, data: Dataset, bits: Bits) -> Dataset:
        """A uniform subset of ``batch`` rows."""
        from discreet.noise import fixed_size_sample

        if len(data) != self.n:
            raise InvalidInput(f"fixed-size sampling was planned for n={self.n} rows.")
        return data.take(fixed_size_sample(self.n, self.batch, bits=bits))

    def expected_rows(self, n: float) -> float:
        """The batch size."""
        return float(self.batch)


def equal_parts(n: int, parts: int, bits: Bits) -> NDArray[np.int64]:
    """The part of each of n rows: a uniformly random split of their *places* into parts of equal size, up to one row.

    A replaced row stays in its part, whatever it contains. A row more or less may move others, so n must be public.
    """
    from discreet.noise import permutation

    return np.asarray(permutation(n, bits=bits) % parts)


def independent_parts(n: int, parts: int, bits: Bits) -> NDArray[np.int64]:
    """The part of each of n rows, drawn by each for itself: a row more or less leaves the parts of all others."""
    from discreet.noise import uniform_integers

    return np.asarray(uniform_integers(parts, n, bits=bits))
