"""Events on a random batch of the rows: Poisson, of fixed size, with replacement."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.errors import InvalidInput
from discreet.events.base import Event, count, fraction, inner, number

__all__ = [
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
