"""Explicit mechanisms for events, on datasets of a few rows, whose laws are enumerated exactly.

For every leaf there are mechanisms that keep what the leaf states and lose as much as they can; `laws` puts them
together as an event says: every batch, every draw, every part. A claim about an event must cover each of them.

A row is (value, part) with value −1, 0 or 1; its part is its own, and whoever replaces the row keeps it. A law is a
vector of probabilities over outputs that are the same for all datasets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from discreet.accounting.histories import inner_events
from discreet.events import (
    ZCDP,
    Allocation,
    ApproxDP,
    Compose,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    ObjectivePerturbation,
    Parallel,
    Poisson,
    PrivateSelection,
    Promise,
    PureDP,
    RandomizedResponse,
    RenyiDP,
    Repeat,
    Selection,
    WithReplacement,
)
from discreet.units import Unit

Array = NDArray[np.float64]
Row = tuple[int, int]
Rows = tuple[Row, ...]
MOST_ROWS = 4
REACH = 6
THETA = np.linspace(-3.0, 3.0, 13)
RIDGE = 1.0


# --- leaves -----------------------------------------------------------------------------------------------------------


def _geometric(centre: int, epsilon: float) -> Array:
    """Two-sided geometric noise of loss ε a step around ``centre``, clamped to [−REACH, REACH]."""
    x = np.arange(-REACH, REACH + 1)
    body = math.tanh(epsilon / 2) * np.exp(-epsilon * np.abs(x - centre))
    body[0] = math.exp(-epsilon * (centre + REACH)) / (1 + math.exp(-epsilon))
    body[-1] = math.exp(-epsilon * (REACH - centre)) / (1 + math.exp(-epsilon))
    return body


def _cells(cdf: Callable[[Array], Array]) -> Array:
    """The law of a number, told by its cell between half-integers."""
    edges = np.concatenate([[-np.inf], np.arange(-REACH, REACH + 1) / 2, [np.inf]])
    return np.diff(cdf(edges))


def _gaussian(centre: float, sigma: float) -> Array:
    return _cells(lambda x: ndtr((x - centre) / sigma))


def _laplace(centre: float, scale: float) -> Array:
    return _cells(
        lambda x: np.where(
            x < centre, 0.5 * np.exp(np.minimum(x - centre, 0) / scale), 1 - 0.5 * np.exp(-np.abs(x - centre) / scale)
        )
    )


def _discrete_gaussian(centre: int, sigma: float) -> Array:
    x = np.arange(-60, 61)
    weight = np.exp(-(x**2) / (2 * sigma**2))
    return np.asarray(np.bincount(np.clip(x + centre, -REACH, REACH) + REACH, weight / weight.sum(), 2 * REACH + 1))


def _tagged(law: Array, tag: int, tags: int) -> Array:
    """The law together with a public tag."""
    out = np.zeros((tags, len(law)))
    out[tag] = law
    return out.ravel()


def _sum(rows: Rows) -> int:
    return sum(value for value, _ in rows)


def _signs(rows: Rows) -> int:
    """Whether there is a 1 less whether there is a −1: moves by at most 1 when any number of rows comes or goes."""
    values = {value for value, _ in rows}
    return (1 in values) - (-1 in values)


def _statistic(relation: str, many: bool) -> Callable[[Rows], int]:
    """What moves by at most 1 between neighbours; with ``many``, however many rows a unit has."""
    if relation == "add-remove":
        return _signs if many else _sum
    return (lambda rows: int(any(value == 1 for value, _ in rows))) if many else (lambda rows: _count(rows, 1))


def _count(rows: Rows, value: int) -> int:
    return sum(one == value for one, _ in rows)


def _stated(relation: str, many: bool, noise: Callable[[int], Array]) -> Callable[[Rows], Array]:
    """Noise on the statistic; where the number of rows is public, whether it is odd is told as well."""
    statistic = _statistic(relation, many)
    if relation == "add-remove":
        return lambda rows: noise(statistic(rows))
    return lambda rows: _tagged(noise(statistic(rows)), len(rows) % 2, 2)


def _failing(noise: Callable[[int], Array], delta: float) -> Callable[[int], Array]:
    """With probability δ the statistic itself."""

    def law(centre: int) -> Array:
        told = np.zeros(2 * REACH + 1)
        told[centre + REACH] = 1.0
        return np.concatenate([(1 - delta) * noise(centre), delta * told])

    return law


def _answers(epsilon: float, categories: int) -> Callable[[Rows], Array]:
    """How many rows sent the category of a 1, and how many another."""
    truth = 1 / (1 + (categories - 1) * math.exp(-epsilon))
    lie = truth * math.exp(-epsilon)

    def law(rows: Rows) -> Array:
        out = np.zeros((MOST_ROWS + 1, MOST_ROWS + 1))
        out[0, 0] = 1.0
        for value, _ in rows:
            chance = truth if value == 1 else lie
            out = chance * np.roll(out, 1, 0) + (1 - chance) * np.roll(out, 1, 1)
        return out.ravel()

    return law


def _choice(relation: str, epsilon: float, mechanism: str) -> Callable[[Rows], Array]:
    """One of two candidates; either score moves by at most 1."""

    def scores(rows: Rows) -> tuple[int, int]:
        one, other = _count(rows, 1), _count(rows, -1)
        return (one - other, other - one) if relation == "add-remove" else (one, other)

    def law(rows: Rows) -> Array:
        first, second = scores(rows)
        if mechanism == "exponential":
            share = 1 / (1 + math.exp(epsilon * (second - first) / 2))
        else:
            worse = 0.5 * math.exp(-epsilon * abs(first - second) / 2)
            share = 1 - worse if first >= second else worse
        return np.array([share, 1 - share])

    return law


def _minimiser(event: ObjectivePerturbation) -> Callable[[Rows], Array]:
    """The cell of the minimiser of RIDGE·θ²/2 + Σ smoothed hinge(vθ) + bθ; log det must be log(1 + 2/RIDGE)."""

    def law(rows: Rows) -> Array:
        slope = RIDGE * THETA
        for value, _ in rows:
            slope = slope - value * np.clip((1 - value * THETA) / 0.5, 0.0, 1.0)
        return np.diff(np.concatenate([[0.0], ndtr(slope / event.noise_multiplier), [1.0]]))

    return law


def mechanisms(leaf: Event, relation: str) -> list[Callable[[Rows], Array]]:
    """Mechanisms that keep what the leaf states under the relation, for datasets of every size."""
    match leaf:
        case Gaussian(sigma, _):
            return [lambda rows: _gaussian(_sum(rows), sigma)]
        case Laplace(scale):
            return [lambda rows: _laplace(_sum(rows), scale)]
        case DiscreteGaussian(sigma, 1):
            return [lambda rows: _discrete_gaussian(_sum(rows), sigma)]
        case DiscreteLaplace(scale, 1):
            return [lambda rows: _geometric(_sum(rows), 1 / scale)]
        case ObjectivePerturbation():
            return [_minimiser(leaf)]
        case RandomizedResponse(epsilon, categories):
            return [_answers(epsilon, categories)]
        case Selection(epsilon, mechanism):
            return [_choice(relation, epsilon, mechanism)]
        case PureDP(epsilon):
            return [_stated(relation, many, lambda c: _geometric(c, epsilon)) for many in (False, True)]
        case ApproxDP(epsilon, delta):
            return [_stated(relation, False, _failing(lambda c: _geometric(c, epsilon), delta))]
        case Promise(epsilon, delta, _):
            return [_stated(relation, True, _failing(lambda c: _geometric(c, epsilon), delta))]
        case ZCDP(rho):
            return [_stated(relation, False, lambda c: _gaussian(c, 1 / math.sqrt(2 * rho)))]
        case RenyiDP(order, divergence, _):
            noises = (lambda c: _gaussian(c, math.sqrt(order / (2 * divergence))), lambda c: _geometric(c, divergence))
            return [_stated(relation, True, noise) for noise in noises]
    raise NotImplementedError(leaf)


# --- combinators ------------------------------------------------------------------------------------------------------


def _batches(event: Event, rows: Rows) -> Iterator[tuple[float, Rows]]:
    match event:
        case Poisson(rate, _):
            for taken in product([False, True], repeat=len(rows)):
                batch = tuple(row for row, inside in zip(rows, taken, strict=True) if inside)
                yield rate ** len(batch) * (1 - rate) ** (len(rows) - len(batch)), batch
        case FixedSize(size, _, _):
            found = list(combinations(rows, min(size, len(rows))))
            for batch in found:
                yield 1 / len(found), batch
        case WithReplacement(size, _, _) if rows:
            for batch in product(rows, repeat=size):
                yield len(rows) ** -float(size), batch
        case _:
            yield 1.0, ()


def _best(law: Array, mean: float) -> Array:
    """The best of K runs, K geometric: the lower half is ranked first, the high end next, the middle last."""
    n = len(law)
    worst_first = np.concatenate([np.arange(n // 2, n), np.arange(n // 2)])
    below = np.cumsum(law[worst_first])

    def generating(x: Array) -> Array:
        return x / mean / (1 - (1 - 1 / mean) * x)

    out = np.empty(n)
    out[worst_first] = np.diff(generating(np.concatenate([[0.0], below])))
    return out


class Laws:
    """The law of an event's output on any dataset, with mechanism ``variant`` for each leaf that has several."""

    def __init__(self, relation: str, variant: int = 0) -> None:
        self.relation, self.variant = relation, variant
        self.law = cache(self._law)

    def _law(self, event: Event, rows: Rows) -> Array:
        match event:
            case Compose(parts):
                return self._product([self.law(part, rows) for part in parts])
            case Repeat(inner, times):
                return self._product([self.law(inner, rows)] * times)
            case Parallel(parts):
                return self._product(
                    [self.law(part, tuple(row for row in rows if row[1] == i)) for i, part in enumerate(parts)]
                )
            case Poisson() | FixedSize() | WithReplacement():
                total: Any = 0.0
                for weight, batch in _batches(event, rows):
                    total = total + weight * self.law(event.event, tuple(sorted(batch)))
                return np.asarray(total)
            case Allocation(batches, inner):
                mean: Any = 0.0
                for drawn in product(range(batches), repeat=len(rows)):
                    parts = (tuple(row for row, b in zip(rows, drawn, strict=True) if b == i) for i in range(batches))
                    mean = mean + self._product([self.law(inner, tuple(sorted(part))) for part in parts])
                return np.asarray(mean / batches ** len(rows))
            case PrivateSelection(inner, mean, "geometric"):
                return _best(self.law(inner, rows), mean)
        known = mechanisms(event, self.relation)
        return known[min(self.variant, len(known) - 1)](rows)

    @staticmethod
    def _product(laws: list[Array]) -> Array:
        out = np.ones(1)
        for law in laws:
            out = np.multiply.outer(out, law).ravel()
        return out


# --- neighbours -------------------------------------------------------------------------------------------------------

VALUES = {1: [(1,), (-1,), (0,)], 2: [(1, 1), (-1, -1), (1, -1)], 3: [(1, 1, 1), (-1, -1, -1), (1, -1, 1)]}
PLACES = [(0, 0, 1, 1), (0, 1, 0, 1), (1, 0, 0, 1)]


def neighbours(unit: Unit) -> Iterator[tuple[Rows, Rows]]:
    """Datasets of up to `MOST_ROWS` rows that differ in the first k, which lie in parts 0 and 1 in several ways."""
    k = unit.rows_per_unit
    rest = MOST_ROWS - k
    for parts in PLACES:
        for others in {(1,) * rest, (-1,) * rest, (0,) * rest, tuple([1, -1, 0][:rest])}:
            base = tuple(zip(others, parts[k:], strict=True))
            units = [tuple(zip(values, parts[:k], strict=True)) for values in VALUES[k]]
            for i, one in enumerate(units):
                if unit.relation == "add-remove":
                    yield one + base, base
                else:
                    yield from ((one + base, other + base) for other in units[:i])


def attained(event: Event, unit: Unit, *deltas: float) -> list[float]:
    """The largest ε at each δ over mechanisms and neighbours, in both orders."""
    worst = [0.0] * len(deltas)
    if not deltas:
        return worst
    for variant in range(variants(event, unit.relation)):
        laws = Laws(unit.relation, variant)
        for one, other in different_neighbours(unit, has_parts(event)):
            p, q = laws.law(event, one), laws.law(event, other)
            both = zip(epsilons(p, q, deltas), epsilons(q, p, deltas), strict=True)
            worst = [max(most, *found) for most, found in zip(worst, both, strict=True)]
    return worst


def variants(event: Event, relation: str) -> int:
    """The most mechanisms that any leaf of an event has."""
    parts = inner_events(event)
    return max(variants(part, relation) for part in parts) if parts else len(mechanisms(event, relation))


def has_parts(event: Event) -> bool:
    """Whether it matters in which part a row is."""
    return isinstance(event, Parallel) or any(has_parts(part) for part in inner_events(event))


@cache
def different_neighbours(unit: Unit, in_parts: bool) -> list[tuple[Rows, Rows]]:
    """`neighbours` in order, without those that differ from an earlier pair by nothing that a law depends on.

    No law depends on the order of rows, and without `Parallel` none depends on the parts that they are in.
    """

    def relevant(rows: Rows) -> Rows:
        return tuple(sorted(rows if in_parts else [(value, 0) for value, _ in rows]))

    return list(dict.fromkeys((relevant(one), relevant(other)) for one, other in neighbours(unit)))


def epsilons(p: Array, q: Array, deltas: Sequence[float]) -> list[float]:
    """For each δ the least ε with Σ (p − e^ε q)₊ ≤ δ, rounded down; tails that floats cannot hold are left out."""
    keep = p > 1e-13
    p, q = p[keep], q[keep]
    held = q >= 1e-300
    lost, p, q = float(p[~held].sum()), p[held], q[held]
    order = np.argsort(-np.log(p / q))
    # between two losses δ(ε) = P(L ≥ l) − e^ε Q(L ≥ l) + lost
    above_p, above_q = np.cumsum(p[order]) + lost, np.cumsum(q[order])
    return [math.inf if lost > delta + 1e-12 else _least(above_p - delta, above_q) for delta in deltas]


def _least(above_p: Array, above_q: Array) -> float:
    with np.errstate(divide="ignore"):
        found = np.log(np.maximum(above_p, 0.0) / above_q)
    return max(0.0, float(found.max()) * (1 - 1e-9) - 1e-9)
