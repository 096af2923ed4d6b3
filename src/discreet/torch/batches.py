"""Which rows are in which batch, and where in a physical batch: samplers together with their events.

**Rounds.** A *round* is one event of the plan. With Poisson and fixed-size sampling it is one batch; with allocation it
is an epoch of several batches, each row being in exactly one (`discreet.events.Allocation`). Shuffling is not offered:
no event says what it costs (see `discreet.measurements.random_allocation`).

**Places.** The integers that a row contributes may depend on the slot of the physical batch that it is computed in,
because kernels round differently at different places. So a row more or less must not move the others:

* Under replace-one the rows of a batch take their places in order. Neighbours draw the same row numbers, so that every
  other row has the same place in both.
* Under add-remove the rows of a batch take uniformly random distinct places among a fixed number N. Where the others
  number at most N − k (k rows a unit), the unit takes places that they leave free, and the law of their places is the
  same with and without it. The event that they are more has the same probability τ in both datasets, since it is a
  matter of the others' coins alone; by joint convexity of the hockey-stick divergence a step is the sampled Gaussian
  composed with (0, τ)-DP. All N places are computed, with a row or without, so that a row more or less does not move
  the random numbers that a model draws (dropout), whose seed others may know. N is such that the sum of all τ is a
  small part of δ, and the plan charges it. τ is bounded for datasets of at most `MOST_ROWS_FACTOR` times the declared
  number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet import events
from discreet.errors import InvalidInput
from discreet.measurements.sampling import FixedSizeSampling, PoissonSampling, independent_parts
from discreet.noise.bits import Bits
from discreet.torch.rows import TorchRows
from discreet.units import Unit

__all__ = ["MOST_ROWS_FACTOR", "Allocated", "Batches", "EachDrawn", "Places", "log_tail", "places_for"]

MOST_ROWS_FACTOR: Final = 1.05
"""Under add-remove a guarantee holds for datasets of up to so many times the declared number of rows."""


class Batches(Protocol):
    """The batches of one round, and what they do to an event."""

    @property
    def steps(self) -> int:
        """Batches in a round."""
        ...

    def event(self, inner: events.Event, unit: Unit) -> events.Event:
        """The event of doing ``inner`` on every batch of a round."""
        ...

    def draw(self, rows: TorchRows, bits: Bits) -> Iterator[TorchRows]:
        """The batches of a round, drawn afresh."""
        ...

    def rate(self, n: float) -> float:
        """The probability that a row is in a given batch."""
        ...


@dataclass(frozen=True)
class EachDrawn:
    """One batch a round, drawn by Poisson or fixed-size sampling."""

    sampling: PoissonSampling | FixedSizeSampling

    @property
    def steps(self) -> int:
        """One."""
        return 1

    def event(self, inner: events.Event, unit: Unit) -> events.Event:
        """The sampler's own event."""
        return self.sampling.event(inner, unit)

    def draw(self, rows: TorchRows, bits: Bits) -> Iterator[TorchRows]:
        """One batch."""
        yield self.sampling.draw(rows, bits)  # type: ignore[arg-type, misc]  # asks for its length and rows alone

    def rate(self, n: float) -> float:
        """The Poisson rate, or batch/n."""
        return self.sampling.expected_rows(n) / n


@dataclass(frozen=True)
class Allocated:
    """``batches`` batches a round, to one of which each row allocates itself, uniformly and independently."""

    batches: int

    def __post_init__(self) -> None:
        if self.batches < 1:
            raise InvalidInput(f"rows can be allocated to one batch or more, got {self.batches}.")

    @property
    def steps(self) -> int:
        """All batches of the epoch."""
        return self.batches

    def event(self, inner: events.Event, unit: Unit) -> events.Event:
        """``Allocation(batches, inner)``."""
        return inner if isinstance(inner, events.NonPrivate) else events.Allocation(self.batches, inner)

    def draw(self, rows: TorchRows, bits: Bits) -> Iterator[TorchRows]:
        """All rows draw their batch before the first is given."""
        drawn = independent_parts(len(rows), self.batches, bits)
        for batch in range(self.batches):
            yield rows.take(np.flatnonzero(drawn == batch))

    def rate(self, n: float) -> float:
        """1/batches."""
        return 1.0 / self.batches


@dataclass(frozen=True)
class Places:
    """Where the rows of a batch are computed.

    Args:
        slots: the size of a physical batch.
        total: the number of places among which rows are placed at random, a multiple of ``slots``; None for places in
            the order of the rows.
        overflow: τ, the probability of the step at which places do not suffice.
    """

    slots: int
    total: int | None = None
    overflow: float = 0.0

    def __post_init__(self) -> None:
        if self.slots < 1 or (self.total is not None and (self.total < 1 or self.total % self.slots)):
            raise InvalidInput(f"places are a positive multiple of the slots, got {self.total} and {self.slots}.")

    def physical_batches(
        self, count: int, bits: Bits
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:  # fmt: skip
        """(which of ``count`` rows, their slots) for every physical batch.

        Where places are random, physical batches without a row are among them.
        """
        places = self._places(count, bits)
        order = np.argsort(places, kind="stable")
        for number in range(-(-max(count, self.total or 0) // self.slots)):
            which = order[places[order] // self.slots == number]
            yield which, places[which] % self.slots

    def _places(self, count: int, bits: Bits) -> NDArray[np.int64]:
        if self.total is None:
            return np.arange(count, dtype=np.int64)
        from discreet.noise import fixed_size_sample, permutation

        total = max(self.total, -(-count // self.slots) * self.slots)
        return fixed_size_sample(total, count, bits=bits)[permutation(count, bits=bits)]


def log_tail(n: int, rate: float, least: int) -> float:
    """An upper bound on ln P(Bin(n, rate) ≥ least): Chernoff's −n·KL(least/n ‖ rate), 0 where that says nothing.

    Example:
        >>> log_tail(1000, 0.1, 100)
        0.0
        >>> round(log_tail(1000, 0.1, 200), 1)
        -44.4
    """
    share = least / n
    if share <= rate:
        return 0.0
    if share > 1:
        return -math.inf
    rest = (1 - share) * math.log((1 - share) / (1 - rate)) if share < 1 else 0.0
    return -n * (share * math.log(share / rate) + rest)


def places_for(
    unit: Unit, n: float, rate: float, slots: int | None, steps: int, allowed: float, spread: float = 3.0,
    most: int | None = None,
) -> Places:  # fmt: skip
    """The places of a training: in order under replace-one, else at random among enough of them.

    Args:
        unit: whose privacy is protected.
        n: the declared number of rows.
        rate: the probability that a row is in a batch.
        slots: the size of a physical batch; None for one that a batch seldom exceeds.
        steps: number of batches.
        allowed: the part of δ that all steps together may use.
        spread: under replace-one, how many standard deviations above its mean a batch still fits in one physical batch;
            0 for batches of a fixed size. It is a matter of speed alone.
        most: an upper bound on the number of rows; by default `MOST_ROWS_FACTOR` times the declared number.
    """
    expected = n * rate
    if unit.relation == "replace-one":
        usual = math.ceil(expected + spread * math.sqrt(expected * (1 - rate)))
        return Places(int(min(n, usual)) if slots is None else slots)
    most, each = math.ceil(MOST_ROWS_FACTOR * n) if most is None else most, math.log(allowed / steps)
    enough = math.ceil(most * rate) + unit.rows_per_unit
    while enough < most + unit.rows_per_unit and log_tail(most, rate, enough - unit.rows_per_unit + 1) > each:
        enough += 1
    slots = enough if slots is None else slots
    total = -(-enough // slots) * slots
    return Places(slots, total, math.exp(log_tail(most, rate, total - unit.rows_per_unit + 1)))
