"""An event as the histories of one unit's rows: composition, repetition and parallel parts, flattened in one place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import combinations_with_replacement, product
from math import comb
from typing import NamedTuple

from discreet.accounting.reductions.equivalents import equivalent
from discreet.errors import NotCertifiable
from discreet.events import Allocation, Compose, Event, FixedSize, Parallel, Poisson, Repeat, WithReplacement
from discreet.units import Unit

__all__ = ["History", "Leaf", "histories", "in_parts", "inner_events"]


class Leaf(NamedTuple):
    """One release, and as much of the unit of privacy as takes part in it.

    ``chain``: the datasets are this many such neighbours in a row apart; 1 but for rows that are exchanged where only
    their addition and removal is accounted (`discreet.accounting.exchange`).
    """

    event: Event
    unit: Unit
    chain: int = 1


History = Mapping[Leaf, int]
"""How often each leaf happens to one unit's rows."""

_Counts = tuple[tuple[Leaf, int], ...]
_MOST_HISTORIES = 4096


def histories(event: Event, unit: Unit) -> tuple[History, ...]:
    """Every history that one unit's rows can have under ``event``: leaves with their counts.

    Without `Parallel` there is one. The k rows of a unit may lie in any parts of a parallel composition, j_i of them in
    part i with Σ j_i = k, and the guarantee must hold wherever they are: δ(event) = max over histories, part i being
    accounted for units of j_i rows. Sampled events, private selections and the like are leaves here; what they contain
    is theirs to read. An event with a
    simpler equivalent (`discreet.accounting.reductions.equivalents`) is read as that.

    Raises:
        NotCertifiable: there are too many histories, or an event is sampled in a way that no theorem covers.

    Example:
        >>> from discreet.events import Gaussian, PureDP
        >>> (history,) = histories(Repeat(Compose([Gaussian(1.0), Repeat(PureDP(0.1), 2)]), 3), Unit("add-remove"))
        >>> [(leaf.event, count) for leaf, count in history.items()]
        [(Gaussian(noise_multiplier=1.0), 3), (PureDP(epsilon=0.1), 6)]
        >>> split = histories(Parallel([PureDP(0.1), PureDP(0.2)]), Unit("add-remove", 2))
        >>> sorted(sorted((leaf.event.epsilon, leaf.unit.rows_per_unit) for leaf in history) for history in split)
        [[(0.1, 1), (0.2, 1)], [(0.1, 2)], [(0.2, 2)]]
    """
    return tuple(dict(history) for history in _flatten(event, unit))


def inner_events(event: Event) -> tuple[Event, ...]:
    """The events that an event is made of."""
    found: list[Event] = []
    for field in fields(event):
        value = getattr(event, field.name)
        found += [item for item in (value if isinstance(value, tuple) else (value,)) if isinstance(item, Event)]
    return tuple(found)


def in_parts(event: Allocation, unit: Unit) -> Parallel:
    """What bounds an allocation whatever is inside: given which batches the unit's rows drew, those batches are parts.

    The guarantee of all parts is the worst over where the k rows lie, of which at most k batches hold any; averaging
    over the draws keeps it, as hockey-stick and Rényi divergences are jointly quasi-convex.
    """
    return Parallel([event.event] * min(event.batches, unit.rows_per_unit))


def _flatten(event: Event, unit: Unit) -> frozenset[_Counts]:
    match event:
        case Compose(events):
            flat: frozenset[_Counts] = frozenset({()})
            for part in events:
                flat = _limit(_merge(pair) for pair in product(flat, _flatten(part, unit)))
            return flat
        case Repeat(inner, times):
            once = _sorted(_flatten(inner, unit))
            if times == 0:
                return frozenset({()})
            if len(once) == 1:
                return frozenset({tuple((leaf, count * times) for leaf, count in once[0])})
            if comb(len(once) + times - 1, times) > _MOST_HISTORIES:
                raise NotCertifiable(
                    f"{times} repetitions of a parallel composition with {len(once)} unequal histories of one unit's "
                    "rows have too many histories to account one by one; repeat inside the parts instead."
                )
            return _limit(_merge(choice) for choice in combinations_with_replacement(once, times))
        case Parallel(events):
            return _parallel(events, unit)
        case _:
            _require_known_sampling(event)
            simpler = equivalent(event)
            return frozenset({((Leaf(event, unit), 1),)}) if simpler == event else _flatten(simpler, unit)


def _parallel(events: Sequence[Event], unit: Unit) -> frozenset[_Counts]:
    """All ways to place the unit's rows in the parts; equal parts are told apart by nothing but their rows."""
    k, parts = unit.rows_per_unit, Counter(events)
    if not parts:
        return frozenset({()})
    placed: dict[int, frozenset[_Counts]] = {0: frozenset({()})}
    for i, (part, many) in enumerate(parts.items(), start=1):
        totals = range(k + 1) if i < len(parts) else [k]
        needed = range(k + 1) if i < len(parts) else {k - before for before in placed}
        here = {rows: _limit(_placed(part, many, rows, unit)) for rows in needed}
        placed = {
            total: _limit(
                _merge(pair)
                for before, found in placed.items()
                if total - before in here
                for pair in product(found, here[total - before])
            )
            for total in totals
        }
    return placed[k]


def _placed(part: Event, many: int, rows: int, unit: Unit) -> Iterator[_Counts]:
    """The histories of ``rows`` rows in ``many`` parts that are all equal to ``part``."""
    for sizes in _partitions(rows, many, rows):
        choices = []
        for size, times in Counter(sizes).items():
            inside = part.restated(unit.rows_per_unit / size)
            once = _sorted(_flatten(inside, Unit(unit.relation, size)))
            choices.append(combinations_with_replacement(once, times))
        for choice in product(*choices):
            yield _merge(history for same in choice for history in same)


def _partitions(total: int, parts: int, largest: int) -> Iterator[tuple[int, ...]]:
    """``total`` as a sum of at most ``parts`` positive numbers that do not increase."""
    if total == 0:
        yield ()
    elif parts > 0:
        for first in range(min(total, largest), 0, -1):
            for rest in _partitions(total - first, parts - 1, first):
                yield (first, *rest)


def _require_known_sampling(event: Event) -> None:
    """Refuse nested samples whose sizes contradict each other or vary, and parts of a batch of fixed size.

    A batch of fixed size exchanges a row for another of the dataset, which may belong to another part; and an inner
    ``n`` is a statement about the outer batch, true only if that batch always has ``n`` rows.
    """
    outer = None
    if isinstance(event, Poisson) and event.rate < 1:
        outer = "Poisson sampling: a Poisson batch"
    elif isinstance(event, Allocation) and event.batches > 1:
        outer = "Allocation: a batch that rows draw for themselves"
    if outer is not None and isinstance(event, Poisson | Allocation):
        for inside in _same_rows(event.event):
            if isinstance(inside, FixedSize | WithReplacement):
                raise NotCertifiable(
                    f"{type(inside).__name__} of {inside.n} rows inside {outer} has a random number of rows, so n is "
                    "not known. Sample once, by one of the two."
                )
    if isinstance(event, FixedSize | WithReplacement):
        for inside in _same_rows(event.event):
            if isinstance(inside, FixedSize | WithReplacement) and inside.n != event.batch:
                raise NotCertifiable(
                    f"{type(inside).__name__} says that it draws from n={inside.n} rows, but is given a batch of "
                    f"{event.batch}: state n={event.batch}."
                )
            if isinstance(inside, Parallel):
                raise NotCertifiable(
                    f"Parallel inside {type(event).__name__}: a row that takes another's place in the batch may belong "
                    "to another part. Sample inside each part instead."
                )


def _same_rows(event: Event) -> Iterator[Event]:
    """The event and those inside it, as far as the next sample of fixed size."""
    yield event
    if not isinstance(event, FixedSize | WithReplacement):
        for inside in inner_events(event):
            yield from _same_rows(inside)


def _sorted(found: frozenset[_Counts]) -> list[_Counts]:
    return sorted(found, key=repr) if len(found) > 1 else list(found)


def _merge(parts: Iterable[_Counts]) -> _Counts:
    counts: dict[Leaf, int] = {}
    for part in parts:
        for leaf, count in part:
            counts[leaf] = counts.get(leaf, 0) + count
    return tuple(counts.items())


def _limit(found: Iterable[_Counts]) -> frozenset[_Counts]:
    distinct: dict[frozenset[tuple[Leaf, int]], _Counts] = {}
    for history in found:
        distinct.setdefault(frozenset(history), history)
        if len(distinct) > _MOST_HISTORIES:
            raise NotCertifiable(
                f"one unit's rows can have more than {_MOST_HISTORIES} distinct histories in the parallel parts; use "
                "fewer different parts or fewer rows a unit, or state the parts as Compose."
            )
    return frozenset(distinct.values())
