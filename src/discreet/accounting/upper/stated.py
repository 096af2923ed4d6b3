"""The pure ε, or the (ε, δ), that one leaf of an event has by itself: stated, for groups of rows, or on a sample."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from discreet.accounting.bounds import product_up, quotient_up, sum_up
from discreet.accounting.exchange import SUMS, exchanged_history, require_presence
from discreet.accounting.histories import History, Leaf, histories, in_parts
from discreet.errors import InvalidInput
from discreet.events import (
    ZCDP,
    Allocation,
    ApproxDP,
    DiscreteLaplace,
    Event,
    FixedSize,
    Laplace,
    Poisson,
    PrivateSelection,
    Promise,
    PureDP,
    RandomizedResponse,
    Selection,
    WithReplacement,
)
from discreet.floats import UNIT_ROUNDOFF
from discreet.units import Adjacency, Unit

__all__ = [
    "EpsilonDelta",
    "amplify",
    "approximate",
    "group",
    "grown",
    "pure_epsilon",
    "pure_of_leaf",
    "require_epsilon_delta",
    "stated_of_leaf",
]


class EpsilonDelta(NamedTuple):
    """(ε, δ)-differential privacy."""

    epsilon: float
    delta: float


def group(epsilon: float, delta: float, rows: int) -> EpsilonDelta:
    """(ε, δ) for one row is (kε, δ·(e^{kε} − 1)/(e^ε − 1)) for k rows (Vadhan 2017, lemma 2.2).

    Example:
        >>> group(0.5, 0.0, 3)
        EpsilonDelta(epsilon=1.5, delta=0.0)
    """
    require_epsilon_delta(epsilon, delta)
    if rows < 1:
        raise InvalidInput(f"group privacy needs at least one row, got {rows}.")
    if rows == 1:
        return EpsilonDelta(epsilon, delta)
    if delta == 0:
        return EpsilonDelta(sum_up([(epsilon, rows)]), 0.0)
    if epsilon == 0:
        return EpsilonDelta(0.0, min(1.0, sum_up([(delta, rows)])))
    total = sum_up([(epsilon, rows)])
    if total < 700:
        growth = math.expm1(total) / math.expm1(epsilon) * (1 + 4 * UNIT_ROUNDOFF * (total + 8))
        return EpsilonDelta(total, min(1.0, product_up(delta, growth)))
    logs = math.log(delta), _log_expm1(total), _log_expm1(epsilon)
    log_delta = logs[0] + logs[1] - logs[2] + 4 * UNIT_ROUNDOFF * (sum(map(abs, logs)) + total + 8)
    return EpsilonDelta(total, min(1.0, grown(math.exp(min(0.0, log_delta)))))


def amplify(epsilon: float, delta: float, rate: float) -> EpsilonDelta:
    """(ε, δ) on a random part of the rows is (ln(1 + q(e^ε − 1)), qδ) (Balle–Barthe–Gaboardi 2018, theorem 8).

    Example:
        >>> round(amplify(1.0, 0.0, 0.01).epsilon, 6)
        0.017037
    """
    require_epsilon_delta(epsilon, delta)
    if not 0 <= rate <= 1:
        raise InvalidInput(f"a sampling rate must be in [0, 1], got {rate!r}.")
    if rate == 0:
        return EpsilonDelta(0.0, 0.0)
    small = math.log1p(rate * math.expm1(epsilon)) if epsilon < 30 else math.inf
    large = epsilon + math.log(rate + (1 - rate) * math.exp(-epsilon)) + 8 * UNIT_ROUNDOFF * (1 + epsilon)
    return EpsilonDelta(min(epsilon, grown(small), large), product_up(rate, delta))


def grown(value: float) -> float:
    """A computed non-negative ``value`` plus 16 units of roundoff: at least the exact value it approximates."""
    return value * (1 + 16 * UNIT_ROUNDOFF)


def pure_epsilon(leaf: Event, adjacency: Adjacency) -> float:
    """The ε of pure DP that a leaf has, infinite if none is known.

    Example:
        >>> pure_epsilon(Laplace(4.0), "replace-one")
        0.5
    """
    unit = Unit.of(adjacency)
    k = unit.rows_per_unit
    if isinstance(leaf, RandomizedResponse):
        require_presence(unit)
    match leaf:
        case Laplace(noise_multiplier) | DiscreteLaplace(noise_multiplier, _):
            return quotient_up(unit.sensitivity(1.0), noise_multiplier)
        case PureDP(epsilon) | RandomizedResponse(epsilon, _) | Selection(epsilon, _):
            return sum_up([(epsilon, k)])
        case ApproxDP(epsilon, delta) if delta == 0:
            return sum_up([(epsilon, k)])
        case Promise(epsilon, delta, most_rows) if delta == 0 and k <= most_rows:
            return epsilon
        case ZCDP(rho) if rho == 0:
            return 0.0
        case Poisson() | FixedSize() | WithReplacement():
            return _sampled(leaf, unit, _all_pure)[0]
        case Allocation():
            return max(_all_pure(history).epsilon for history in histories(in_parts(leaf, unit), unit))
        case PrivateSelection(event, _, distribution, eta) if distribution != "poisson":
            # Papernot–Steinke 2022, corollary 3; geometric stopping is Liu–Talwar's factor 3.
            return grown((2 + eta) * max(_all_pure(history).epsilon for history in histories(event, unit)))
    return math.inf


def approximate(leaf: Event, adjacency: Adjacency) -> EpsilonDelta | None:
    """The (ε, δ) of a leaf that states one with δ > 0, possibly on a sample; None for every other leaf."""
    unit = Unit.of(adjacency)
    match leaf:
        case ApproxDP(epsilon, delta) if delta > 0:
            return group(epsilon, delta, unit.rows_per_unit)
        case Promise(epsilon, delta, most_rows) if delta > 0 and unit.rows_per_unit <= most_rows:
            return EpsilonDelta(epsilon, delta)
        case Poisson() | FixedSize() | WithReplacement():
            inner = histories(leaf.event, unit)
            if any(approximate(part.event, part.unit) is not None for history in inner for part in history):
                found = _sampled(leaf, unit, _basic_stated)
                return found if math.isfinite(found.epsilon) else None
        case Allocation():
            placed = histories(in_parts(leaf, unit), unit)
            if any(approximate(part.event, part.unit) is not None for history in placed for part in history):
                parts = [_basic_stated(history) for history in placed]
                worst = EpsilonDelta(max(p.epsilon for p in parts), max(p.delta for p in parts))
                return worst if math.isfinite(worst.epsilon) else None
    return None


def pure_of_leaf(leaf: Leaf) -> float:
    """The pure ε of a leaf, along its chain of neighbours."""
    return sum_up([(pure_epsilon(leaf.event, leaf.unit), leaf.chain)])


def stated_of_leaf(leaf: Leaf) -> EpsilonDelta | None:
    """The (ε, δ) that a leaf states, along its chain of neighbours."""
    found = approximate(leaf.event, leaf.unit)
    return found if found is None or leaf.chain == 1 else group(*found, leaf.chain)


def _all_pure(history: History) -> EpsilonDelta:
    return EpsilonDelta(sum_up((pure_of_leaf(leaf), count) for leaf, count in history.items()), 0.0)


def _basic_stated(history: History) -> EpsilonDelta:
    stated = [(stated_of_leaf(leaf) or EpsilonDelta(pure_of_leaf(leaf), 0.0), count) for leaf, count in history.items()]
    epsilon = sum_up((one.epsilon, count) for one, count in stated)
    return EpsilonDelta(epsilon, min(1.0, sum_up((one.delta, count) for one, count in stated)))


def _sampled(
    leaf: Poisson | FixedSize | WithReplacement, unit: Unit, read: Callable[[History], EpsilonDelta]
) -> EpsilonDelta:
    """Generic amplification by the probability that the batch meets the unit's rows."""
    k = unit.rows_per_unit
    found = histories(leaf.event, unit)
    replaced = unit.relation == "replace-one"
    if isinstance(leaf, Poisson):
        hit = leaf.rate if k == 1 or leaf.rate == 1 else _grown_chance(-math.expm1(k * math.log1p(-leaf.rate)), k)
        guarantees = [read(history) for history in found]
        if replaced and not all(isinstance(part.event, SUMS) for history in found for part in history):
            # A stated replace-one guarantee says nothing about a batch that lacks the row: only δ is amplified.
            parts = [EpsilonDelta(epsilon, product_up(hit, delta)) for epsilon, delta in guarantees]
        else:
            parts = [amplify(epsilon, delta, hit) for epsilon, delta in guarantees]
    elif isinstance(leaf, FixedSize):
        enough = leaf.n - k >= leaf.batch
        missed = sum(math.log1p(-leaf.batch / (leaf.n - i)) for i in range(k)) if enough else -math.inf
        hit = _grown_chance(-math.expm1(missed), k)
        resized = not enough and not replaced
        parts = [amplify(*read(exchanged_history(history, resized)), hit) for history in found]
    else:
        # each draw may be one of the unit's rows, so that as many as there are draws are exchanged
        hit = _grown_chance(-math.expm1(leaf.batch * math.log1p(-k / leaf.n)), 1) if k < leaf.n else 1.0
        drawn = histories(leaf.event, Unit(unit.relation, leaf.batch))
        parts = [amplify(*read(exchanged_history(history, k >= leaf.n)), hit) for history in drawn]
    return EpsilonDelta(max(p.epsilon for p in parts), max(p.delta for p in parts))


def _grown_chance(chance: float, terms: int) -> float:
    """A probability 1 − e^s above its rounding, s a sum of ``terms`` logarithms of one sign.

    Each is off by 4 units (a quotient, log1p), sums by one a term, and 1 − e^s by no more than s relative to itself.
    """
    return min(1.0, chance * (1 + (terms + 8) * UNIT_ROUNDOFF))


def require_epsilon_delta(epsilon: float, delta: float) -> None:
    """Refuse what is no (ε, δ) with ε ≥ 0 and δ in [0, 1].

    Raises:
        InvalidInput: one of the two is out of range.
    """
    if not epsilon >= 0:
        raise InvalidInput(f"epsilon must be non-negative, got {epsilon!r}.")
    if not 0 <= delta <= 1:
        raise InvalidInput(f"delta must be in [0, 1], got {delta!r}.")


def _log_expm1(value: float) -> float:
    return math.log(math.expm1(value)) if value < 30 else value + math.log1p(-math.exp(-value))
