"""Events made of others: repeated, composed, on disjoint parts of the rows, the best of several runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from discreet.errors import InvalidInput
from discreet.events.base import Event, count, inner, inner_tuple, number, positive

__all__ = [
    "Compose",
    "Parallel",
    "PrivateSelection",
    "Repeat",
    "compose",
]


@dataclass(frozen=True)
class Repeat(Event):
    """``event`` done ``times`` times, each possibly chosen after seeing the earlier answers."""

    event: Event
    times: int

    def __post_init__(self) -> None:
        inner(self)
        count(self, "times", 0)


@dataclass(frozen=True)
class Compose(Event):
    """All of ``events`` on the same rows. The empty composition releases nothing."""

    events: Sequence[Event] = ()

    def __post_init__(self) -> None:
        inner_tuple(self, self.events)


@dataclass(frozen=True)
class Parallel(Event):
    """Each of ``events`` on its own part of the rows.

    A row's part is fixed without looking at any row: under replace-one by its *place* in the dataset, which whoever
    replaces the row keeps; under add-remove by the row's own coin, so that a row more or less moves no other. A part
    that depended on a row's content would lose a row and another part gain one when the row is replaced: that is a
    composition (`Compose`), not a parallel one. The k rows of one unit may lie in any parts, and the guarantee is the
    worst over all ways to place them: one row meets one part, two rows one part twice or two parts once each.
    """

    events: Sequence[Event] = ()

    def __post_init__(self) -> None:
        inner_tuple(self, self.events)


@dataclass(frozen=True)
class PrivateSelection(Event):
    """The best of K private runs of ``event``, K drawn from ``distribution`` (Papernot–Steinke 2022; Liu–Talwar 2019).

    ``geometric`` and ``negative-binomial`` (shape η = ``eta``, truncated at K ≥ 1) and ``poisson``; ``mean`` is E[K].
    Geometric is the negative binomial with η = 1; η = 0 is the logarithmic distribution.
    """

    event: Event
    mean: float
    distribution: Literal["geometric", "poisson", "negative-binomial"] = "geometric"
    eta: float = 1.0

    def __post_init__(self) -> None:
        inner(self)
        if self.distribution not in ("geometric", "poisson", "negative-binomial"):
            raise InvalidInput(
                "PrivateSelection.distribution must be 'geometric', 'poisson' or 'negative-binomial', "
                f"got {self.distribution!r}."
            )
        least = 0.0 if self.distribution == "poisson" else 1.0
        number(self, "mean", lambda m: positive(m) and m >= least, f"finite, at least {least:g} and positive")
        number(self, "eta", lambda e: -1 < e < math.inf, "greater than −1 and finite")
        if self.distribution == "geometric" and self.eta != 1.0:
            raise InvalidInput("PrivateSelection: a geometric K has eta=1; use 'negative-binomial' for another eta.")


def compose(events: Iterable[Event]) -> Event:
    """The composition of a run of events, equal neighbours counted once with their number.

    Example:
        >>> from discreet.events import Gaussian, PureDP
        >>> compose([Gaussian(1.0), Gaussian(1.0), PureDP(0.5)])
        Compose(events=(Repeat(event=Gaussian(noise_multiplier=1.0), times=2), PureDP(epsilon=0.5)))
    """
    runs: list[tuple[Event, int]] = []
    for event in events:
        inner, times = (event.event, event.times) if isinstance(event, Repeat) else (event, 1)
        if runs and runs[-1][0] == inner:
            runs[-1] = (inner, runs[-1][1] + times)
        else:
            runs.append((inner, times))
    folded = tuple(inner if times == 1 else Repeat(inner, times) for inner, times in runs)
    return folded[0] if len(folded) == 1 else Compose(folded)
