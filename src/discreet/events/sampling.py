"""Events on random batches of the rows: Poisson, of fixed size, with replacement, each row in one of several."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.errors import InvalidInput
from discreet.events.base import Event, count, fraction, inner, number

__all__ = [
    "Allocation",
    "FixedSize",
    "Poisson",
    "WithReplacement",
]


@dataclass(frozen=True)
class Poisson(Event):
    """``event`` on a batch that takes each row independently with probability ``rate``.

    The batch has a random number of rows: an ``event`` that draws from a stated number of rows is refused.
    """

    rate: float
    event: Event

    def __post_init__(self) -> None:
        number(self, "rate", fraction, "in [0, 1]")
        inner(self)


@dataclass(frozen=True)
class FixedSize(Event):
    """``event`` on ``batch`` of ``n`` rows drawn uniformly without replacement.

    Under add-remove ``n`` is the number of rows of the larger dataset; one that has fewer than ``batch`` rows takes all
    of them. A batch of fixed size gains a row only in another's place, so that inside it rows are exchanged.
    """

    batch: int
    n: int
    event: Event

    def __post_init__(self) -> None:
        count(self, "batch", 1)
        count(self, "n", 1)
        inner(self)
        if self.batch > self.n:
            raise InvalidInput(f"FixedSize.batch must not exceed n, got batch={self.batch}, n={self.n}.")


@dataclass(frozen=True)
class WithReplacement(Event):
    """``event`` on ``batch`` draws from ``n`` rows, uniformly with replacement."""

    batch: int
    n: int
    event: Event

    def __post_init__(self) -> None:
        count(self, "batch", 1)
        count(self, "n", 1)
        inner(self)


@dataclass(frozen=True)
class Allocation(Event):
    """``event`` once on each of ``batches`` batches, every row being in exactly one of them: an epoch of training.

    Each row draws its batch independently and uniformly ("balls and bins", Chua et al. 2024), so that batches have a
    random number of rows and a row more or less leaves the batches of all others as they are. What is released from a
    batch may be chosen after seeing the answers of earlier ones. Several epochs, each with its own draws, are
    ``Repeat(Allocation(batches, event), epochs)``.

    It is *not* the event of shuffling the rows and cutting them into batches of equal size: there a row more or less
    moves others, and what the rows in other batches are tells where a row is. No event says that.
    """

    batches: int
    event: Event

    def __post_init__(self) -> None:
        count(self, "batches", 1)
        inner(self)
