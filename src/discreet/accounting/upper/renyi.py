"""Rényi accounting: curves of every event, and the best conversion to (ε, δ).

A release is (α, τ)-RDP when D_α(M(D)‖M(D')) ≤ τ for all neighbours. Divergences add under adaptive composition
(Mironov 2017), and every order gives a valid (ε, δ), so the search for the best order needs no proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache, singledispatch

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.bounds import sum_up
from discreet.accounting.exchange import require_presence
from discreet.accounting.histories import History, Leaf, histories, in_parts
from discreet.accounting.upper import subsampled
from discreet.accounting.upper.moments import log_one_plus
from discreet.accounting.upper.objective_perturbation import objective_divergence
from discreet.accounting.upper.stated import approximate, pure_epsilon
from discreet.errors import InvalidInput, NotCertifiable
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
    Promise,
    PureDP,
    RandomizedResponse,
    RenyiDP,
    Selection,
    WithReplacement,
)
from discreet.floats import UNIT_ROUNDOFF
from discreet.units import Adjacency, Unit

__all__ = ["delta_upper", "divergence", "epsilon_upper", "leaf_divergence", "rdp", "remembered"]


def divergence(event: Event, order: float, adjacency: Adjacency) -> float:
    """An upper bound on D_order between neighbours, for any event.

    Args:
        event: what was released.
        order: α > 1, not necessarily whole.
        adjacency: the relation, or a `Unit`.

    Raises:
        NotCertifiable: an (ε, δ) guarantee with δ > 0 has no Rényi divergence.

    Example:
        >>> from discreet.events import Gaussian, Repeat
        >>> divergence(Repeat(Gaussian(8.0), 32), 4.0, "add-remove")
        1.0
    """
    if not order > 1:
        raise InvalidInput(f"a Rényi order must exceed 1, got {order!r}.")
    unit = Unit.of(adjacency)
    # Divergences grow with the order, and cancellation below this one would cost digits.
    return max(_of_history(history, max(float(order), 1.001)) for history in histories(event, unit))


def rdp(event: Event, orders: Iterable[float], adjacency: Adjacency) -> NDArray[np.float64]:
    """The Rényi curve of an event at ``orders``: upper bounds on D_α, one for each.

    Example:
        >>> from discreet.events import PureDP
        >>> rdp(PureDP(0.1), [2, 1000], "replace-one").round(4)
        array([0.01  , 0.0994])
    """
    return np.array([divergence(event, order, adjacency) for order in orders])


def epsilon_upper(event: Event, delta: float, adjacency: Adjacency) -> float:
    """The least ε that some Rényi order proves at ``delta``.

    ε = τ + (log(1/δ) + (α − 1)·log(1 − 1/α) − log α)/(α − 1) (Canonne–Kamath–Steinke 2020, proposition 12). Releases
    that are only (ε_i, δ_i)-DP enter as ε_i-DP ones that fail with probability δ_i (Kairouz–Oh–Viswanath 2015).

    Args:
        event: what was released.
        delta: the target δ, in [0, 1].
        adjacency: the relation, or a `Unit`.

    Returns:
        ε ≥ 0, infinite where no order proves a finite one.

    Example:
        >>> from discreet.events import Gaussian
        >>> round(epsilon_upper(Gaussian(1e4), 1e-6, "add-remove"), 6)
        0.000232
    """
    if not 0 <= delta <= 1:
        raise InvalidInput(f"delta must be in [0, 1], got {delta!r}.")
    unit = Unit.of(adjacency)
    return max(_history_epsilon(history, delta) for history in histories(event, unit))


def delta_upper(event: Event, epsilon: float, adjacency: Adjacency) -> float:
    """The least δ that some Rényi order proves at ``epsilon``, the inverse of `epsilon_upper`.

    δ = exp((α − 1)(τ − ε))·(1 − 1/α)^α/(α − 1).

    Example:
        >>> from discreet.events import Gaussian
        >>> delta_upper(Gaussian(5.0), 1.0, "add-remove") < 1e-5
        True
    """
    if not epsilon >= 0:
        raise InvalidInput(f"epsilon must be non-negative, got {epsilon!r}.")
    unit = Unit.of(adjacency)
    return max(_history_delta(history, epsilon) for history in histories(event, unit))


def _history_epsilon(history: History, delta: float) -> float:
    failure, rest = _split(history)
    if delta >= 1:
        return 0.0
    if failure >= 1 or delta < failure:
        return math.inf
    allowed = (delta - failure) / (1 - failure) * (1 - _ROUNDING)
    pure = _pure(rest)
    if allowed == 0 or pure == 0:
        return pure

    def proved(order: float) -> float:
        tau = _of_history(rest, order)
        tau *= 1 + _ROUNDING
        value = tau + (-math.log(allowed) - math.log(order)) / (order - 1) + math.log1p(-1 / order)
        return max(
            0.0, value + 8 * UNIT_ROUNDOFF * (tau + (math.log(order) - math.log(allowed)) / (order - 1) + 1 / order)
        )

    return min(pure, _best(proved))


def _history_delta(history: History, epsilon: float) -> float:
    failure, rest = _split(history)
    if failure >= 1 or _pure(rest) <= epsilon:
        return min(failure, 1.0)

    def log_delta(order: float) -> float:
        tau = _of_history(rest, order)
        value = (order - 1) * (tau * (1 + _ROUNDING) - epsilon) + order * math.log1p(-1 / order) - math.log(order - 1)
        return value + 8 * UNIT_ROUNDOFF * (
            (order - 1) * (tau + epsilon) + math.log(order) + 2
        )  # exponents may be large

    rest_of_it = math.exp(min(0.0, _best(log_delta))) * (1 + _ROUNDING)
    return min(1.0, sum_up([(failure, 1), (rest_of_it, 1)]))


_ROUNDING = 1e-12  # of the sums and products below, relative
_ONE = Unit("add-remove")  # pure guarantees that already count all rows of the unit need no relation


def _pure(history: History) -> float:
    return sum_up((pure_epsilon(leaf.event, leaf.unit), count) for leaf, count in history.items())


def _split(history: History) -> tuple[float, History]:
    """The chance that some (ε, δ) release fails, and the leaves with the pure ones that those are otherwise."""
    survive, failures = 0.0, []
    rest: dict[Leaf, int] = {}
    for leaf, count in history.items():
        guarantee = approximate(leaf.event, leaf.unit)
        if guarantee is not None:
            survive += count * (math.log1p(-guarantee.delta) if guarantee.delta < 1 else -math.inf)
            failures.append((guarantee.delta, count))
        otherwise = leaf if guarantee is None else Leaf(_pure_event(guarantee.epsilon), _ONE)
        rest[otherwise] = rest.get(otherwise, 0) + count
    return min(1.0, sum_up(failures), -math.expm1(survive) * (1 + _ROUNDING)), rest


def _pure_event(epsilon: float) -> Event:
    return PureDP(epsilon) if math.isfinite(epsilon) else NonPrivate()


def _best(objective: Callable[[float], float]) -> float:
    """The least value found over orders 1 + e^t: a coarse grid, a finer one, then golden sections around its best."""
    grid = np.linspace(math.log(0.02), math.log(1e7), 46)
    values = {i: objective(1 + math.exp(grid[i])) for i in range(0, len(grid), 3)}
    near = min(values, key=lambda i: values[i])
    values |= {i: objective(1 + math.exp(grid[i])) for i in range(max(near - 2, 0), min(near + 3, len(grid)))}
    best = min(values, key=lambda i: values[i])
    if not math.isfinite(values[best]):
        return values[best]
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    golden = (math.sqrt(5) - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = objective(1 + math.exp(left)), objective(1 + math.exp(right))
    least = min(values[best], at_left, at_right)
    for _ in range(14):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = objective(1 + math.exp(left))
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = objective(1 + math.exp(right))
        least = min(least, at_left, at_right)
    return least


def _of_history(history: History, order: float) -> float:
    return math.fsum(count * leaf_divergence(leaf.event, order, leaf.unit) for leaf, count in history.items())


remembered = lru_cache(maxsize=1 << 14)  # nested events ask for the same orders again and again


@singledispatch
def leaf_divergence(event: Event, order: float, unit: Unit) -> float:
    """D_order of one leaf."""
    raise NotCertifiable(f"no Rényi bound is known for {type(event).__name__} events.")


@leaf_divergence.register
def _(event: NonPrivate, order: float, unit: Unit) -> float:
    return math.inf


@leaf_divergence.register
def _(event: Gaussian, order: float, unit: Unit) -> float:
    mu = event.mu(unit)
    return order * (mu * mu) / 2  # a product overflows to infinity, a power raises


@leaf_divergence.register
def _(event: DiscreteGaussian, order: float, unit: Unit) -> float:
    # Canonne–Kamath–Steinke 2020, theorem 4: never more than the continuous one, for whole shifts.
    mu = unit.sensitivity(1.0) / event.noise_multiplier
    return order * (mu * mu) / 2


@leaf_divergence.register
def _(event: Laplace, order: float, unit: Unit) -> float:
    return _laplace(unit.sensitivity(1.0) / event.noise_multiplier, order)


def _laplace(shift: float, order: float) -> float:
    """Mironov 2017, proposition 6, written so that small shifts keep their digits."""
    up, down = order / (2 * order - 1), (order - 1) / (2 * order - 1)
    if (order - 1) * shift < 1:
        excess = up * math.expm1((order - 1) * shift) + down * math.expm1(-order * shift)
        return min(math.log1p(excess) / (order - 1) + 1e-15 * shift, shift)
    rest = down * math.exp(-min(order * shift + (order - 1) * shift, 700.0))
    return min(shift + math.log(up + rest) / (order - 1), shift)


@leaf_divergence.register(DiscreteLaplace)
@leaf_divergence.register(PureDP)
@remembered
def _(event: Event, order: float, unit: Unit) -> float:
    pair = subsampled.finite_losses(event, unit)
    if pair is None:  # pragma: no cover - both kinds have atoms
        raise NotCertifiable(f"no dominating pair for {event}.")
    return _capped(pair.excess(order), order, max(pair.losses))


@leaf_divergence.register
def _(event: RandomizedResponse, order: float, unit: Unit) -> float:
    require_presence(unit)
    # A unit with k rows answers at most k times.
    pair = subsampled.finite_losses(event, Unit(unit.relation))
    return unit.rows_per_unit * _capped(pair.excess(order), order, event.epsilon) if pair else math.inf


@leaf_divergence.register
def _(event: Selection, order: float, unit: Unit) -> float:
    epsilon = unit.rows_per_unit * event.epsilon
    if math.isinf(epsilon):
        return math.inf
    if event.mechanism != "exponential":
        return _laplace(epsilon, order)
    # ε-bounded range: ε²/8-zCDP (Cesar–Rogers 2021, lemma 3.4), and never above what pure ε-DP gives.
    return min(order * (epsilon * epsilon) / 8, leaf_divergence(PureDP(epsilon), order, Unit(unit.relation)))


@leaf_divergence.register
def _(event: ZCDP, order: float, unit: Unit) -> float:
    return order * event.rho * unit.rows_per_unit**2


@leaf_divergence.register
def _(event: RenyiDP, order: float, unit: Unit) -> float:
    # D_α grows with α: the bound serves every lower order, and says nothing of higher ones
    stated = order <= event.order and unit.rows_per_unit <= event.rows_per_unit
    return event.divergence if stated else math.inf


@leaf_divergence.register
def _(event: ApproxDP, order: float, unit: Unit) -> float:
    if event.delta > 0:
        raise NotCertifiable(
            f"an (ε, δ) guarantee with δ = {event.delta:g} > 0 has no finite Rényi divergence; ask for ε at a δ."
        )
    return leaf_divergence(PureDP(event.epsilon), order, unit)


@leaf_divergence.register
def _(event: Promise, order: float, unit: Unit) -> float:
    if unit.rows_per_unit > event.rows_per_unit:
        return math.inf
    return leaf_divergence(ApproxDP(event.epsilon, event.delta), order, Unit(unit.relation))


@leaf_divergence.register(ObjectivePerturbation)
@remembered
def _(event: ObjectivePerturbation, order: float, unit: Unit) -> float:
    return objective_divergence(event, order, unit)


@leaf_divergence.register(Poisson)
@remembered
def _(event: Poisson, order: float, unit: Unit) -> float:
    return subsampled.poisson(event, order, unit, divergence)


@leaf_divergence.register(FixedSize)
@remembered
def _(event: FixedSize, order: float, unit: Unit) -> float:
    return subsampled.fixed_size(event, order, unit, divergence)


@leaf_divergence.register(WithReplacement)
@remembered
def _(event: WithReplacement, order: float, unit: Unit) -> float:
    return subsampled.with_replacement(event, order, unit, divergence)


@leaf_divergence.register
def _(event: Allocation, order: float, unit: Unit) -> float:
    return divergence(in_parts(event, unit), order, unit)


def _capped(log_excess: float, order: float, most: float) -> float:
    """log(1 + X)/(α − 1), which never exceeds the largest loss; where X leaves the range of doubles, that loss."""
    if log_excess == -math.inf:
        return 0.0
    if not log_excess < math.inf:
        return most
    return min(log_one_plus(log_excess) / (order - 1), most)
