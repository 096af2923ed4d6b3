"""What an exchange of rows costs, where a batch of fixed size turns rows that come or go into rows that are exchanged.

Under add-remove the larger dataset's batch, if it holds rows of the unit, has them in the place of other rows: inside
the batch k rows are *exchanged*, and the number of rows stays. An event accounted under add-remove states what k rows
more or less cost. Three things may follow for an exchange:

- sums of rows, minimisers and randomised answers know what an exchange costs, whatever relation they are accounted in;
- pure, approximate and concentrated DP and selections, stated for one row, follow for 2k rows by group privacy: the
  batch without the k rows lies between the two, k single steps from each;
- of any other event no more is known than that the two batches are two neighbours in a row apart: k rows are removed,
  then k are added (``Leaf.chain`` = 2). That an event is stated for units of 2k rows says nothing of it: such a unit is
  added or removed as a whole.

All this needs guarantees that hold for batches of every size, as those under add-remove do.
"""

from __future__ import annotations

from discreet.accounting.histories import History, Leaf, inner_events
from discreet.accounting.reductions.equivalents import equivalent
from discreet.errors import NotCertifiable
from discreet.events import (
    ZCDP,
    Allocation,
    ApproxDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    NonPrivate,
    ObjectivePerturbation,
    Poisson,
    PrivateSelection,
    Promise,
    PureDP,
    RandomizedResponse,
    Selection,
    WithReplacement,
)
from discreet.units import Unit

__all__ = ["SUMS", "exchanged", "exchanged_history", "require_presence"]

SUMS = (Gaussian, Laplace, DiscreteGaussian, DiscreteLaplace)
"""Noisy sums of rows: to them a missing row is a row of zeros."""


def require_presence(unit: Unit) -> None:
    """Refuse randomised response where a row may be absent: an absent row sends no answer, which everybody sees.

    Raises:
        NotCertifiable: the relation is add-remove.
    """
    if unit.relation == "add-remove":
        raise NotCertifiable(
            "RandomizedResponse under add-remove: an absent row sends no answer, so its absence is seen, whatever ε. "
            "Account for it under replace-one, or let absent rows answer at random and state the release as PureDP."
        )


def exchanged(leaf: Leaf, resized: bool = False) -> Leaf:
    """The leaf that covers an exchange of the unit's rows for others, whatever the relation outside the batch.

    Args:
        leaf: under the relation outside the batch.
        resized: whether one of the two batches may have fewer rows, because its dataset has too few; then up to k rows
            are removed and fewer are added.

    Raises:
        NotCertifiable: what is inside depends on how many rows there are, and that number may change.
    """
    event, unit, chain = leaf
    k = unit.rows_per_unit
    if unit.relation == "replace-one":
        return leaf
    if resized:
        _require_no_count(event)
    match event:
        case PureDP() | ApproxDP() | ZCDP() | Selection():
            return Leaf(event, Unit("add-remove", 2 * k), chain)
        case Promise(epsilon, delta, most_rows) if k <= most_rows:
            return Leaf(ApproxDP(epsilon, delta), Unit("add-remove", 2), chain)
    return Leaf(event, Unit("replace-one", k), chain) if _knows_exchanges(event) else Leaf(event, unit, 2 * chain)


def exchanged_history(history: History, resized: bool = False) -> History:
    """A history in which every leaf meets an exchange of its rows."""
    counts: dict[Leaf, int] = {}
    for leaf, count in history.items():
        swapped = exchanged(leaf, resized)
        counts[swapped] = counts.get(swapped, 0) + count
    return counts


def _knows_exchanges(event: Event) -> bool:
    """Whether the event means the same mechanism under both relations, so that it may be read under replace-one."""
    if isinstance(event, (*SUMS, ObjectivePerturbation, RandomizedResponse, NonPrivate)):
        return True
    if isinstance(event, Poisson | FixedSize | WithReplacement | Allocation | PrivateSelection):
        return _knows_all(event.event)
    return False


def _knows_all(event: Event) -> bool:
    parts = inner_events(event)
    simpler = equivalent(event)
    if simpler != event:
        return _knows_all(simpler)
    if isinstance(event, Poisson | FixedSize | WithReplacement | Allocation | PrivateSelection) or not parts:
        return _knows_exchanges(event)
    return all(_knows_all(part) for part in parts)


def _require_no_count(event: Event) -> None:
    if isinstance(event, RandomizedResponse):
        require_presence(Unit("add-remove"))
    if isinstance(event, FixedSize | WithReplacement):
        raise NotCertifiable(
            f"{type(event).__name__} inside a batch that a neighbour has too few rows to fill: draw fewer rows, or "
            "account under replace-one."
        )
    for inside in inner_events(event):
        _require_no_count(inside)
