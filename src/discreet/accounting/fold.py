"""Composition, repetition and parallel parts are folded here, once, so that no accountant can forget a count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations_with_replacement, product
from math import comb

from discreet.errors import NotCertifiable
from discreet.events import Compose, Event, Parallel, Repeat

__all__ = ["World", "worlds"]

World = Mapping[Event, int]
"""How often each leaf happens to one unit's rows."""

_MOST_WORLDS = 4096


def worlds(event: Event) -> tuple[World, ...]:
    """Every history that one unit's rows can have under ``event``: leaves with their counts.

    Without `Parallel` there is one. A parallel composition happens to a unit in just one of its parts, and the
    guarantee must hold for whichever it is: δ(event) = max over worlds. Sampled events, private selections and the
    like are leaves here; what they contain is theirs to read. An event with a simpler `Event.equivalent` is read as
    that.

    Example:
        >>> from discreet.events import Gaussian, PureDP
        >>> worlds(Repeat(Compose([Gaussian(1.0), Repeat(PureDP(0.1), 2)]), 3))
        ({Gaussian(noise_multiplier=1.0): 3, PureDP(epsilon=0.1): 6},)
    """
    return tuple(dict(world) for world in _fold(event))


def _fold(event: Event) -> frozenset[tuple[tuple[Event, int], ...]]:
    match event:
        case Compose(events):
            folded: frozenset[tuple[tuple[Event, int], ...]] = frozenset({()})
            for part in events:
                folded = _limit(_merge(pair) for pair in product(folded, _fold(part)))
            return folded
        case Repeat(inner, times):
            once = sorted(_fold(inner), key=repr)
            if times == 0:
                return frozenset({()})
            if len(once) == 1:
                return frozenset({tuple((leaf, count * times) for leaf, count in once[0])})
            if comb(len(once) + times - 1, times) > _MOST_WORLDS:
                raise NotCertifiable(
                    f"{times} repetitions of a parallel composition with {len(once)} unequal parts have too many "
                    "histories to account one by one; repeat inside the parts instead."
                )
            return _limit(_merge(choice) for choice in combinations_with_replacement(once, times))
        case Parallel(events):
            return _limit(world for part in events for world in _fold(part)) or frozenset({()})
        case _:
            simpler = event.equivalent()
            return frozenset({((event, 1),)}) if simpler == event else _fold(simpler)


def _merge(parts: Iterable[tuple[tuple[Event, int], ...]]) -> tuple[tuple[Event, int], ...]:
    counts: dict[Event, int] = {}
    for part in parts:
        for leaf, count in part:
            counts[leaf] = counts.get(leaf, 0) + count
    return tuple(counts.items())


def _limit(
    found: Iterable[tuple[tuple[Event, int], ...]],
) -> frozenset[tuple[tuple[Event, int], ...]]:
    distinct: dict[frozenset[tuple[Event, int]], tuple[tuple[Event, int], ...]] = {}
    for world in found:
        distinct.setdefault(frozenset(world), world)
        if len(distinct) > _MOST_WORLDS:
            raise NotCertifiable(f"more than {_MOST_WORLDS} distinct histories; simplify the parallel parts.")
    return frozenset(distinct.values())
