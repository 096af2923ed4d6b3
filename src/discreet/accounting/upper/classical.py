"""Closed-form composition: basic, advanced and optimal homogeneous; with group privacy, amplification and zCDP.

Looser than the numerical accountants, but each fits on one line and can be checked by hand. Where a theorem does not
speak of an event, `NotCertifiable` says why instead of guessing.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from discreet.accounting.bounds import sum_up
from discreet.accounting.histories import History, Leaf, histories
from discreet.accounting.upper.renyi import epsilon_upper
from discreet.accounting.upper.stated import (
    EpsilonDelta,
    amplify,
    approximate,
    group,
    grown,
    pure_epsilon,
    pure_of_leaf,
    require_epsilon_delta,
    stated_of_leaf,
)
from discreet.accounting.upper.zcdp import zcdp_epsilon_upper, zcdp_rho, zcdp_to_epsilon
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.events import Event
from discreet.floats import UNIT_ROUNDOFF
from discreet.units import Adjacency, Unit

__all__ = [
    "EpsilonDelta",
    "advanced_composition",
    "advanced_epsilon_upper",
    "amplify",
    "approximate",
    "basic_epsilon_upper",
    "group",
    "optimal_composition",
    "pure_epsilon",
    "zcdp_epsilon_upper",
    "zcdp_rho",
    "zcdp_to_epsilon",
]


def basic_epsilon_upper(event: Event, delta: float, adjacency: Adjacency) -> float:
    """Σ ε_i over all releases, each at an equal share of what δ is left after the stated Σ δ_i.

    Example:
        >>> from discreet.events import PureDP, Repeat
        >>> basic_epsilon_upper(Repeat(PureDP(0.125), 24), 0.0, "add-remove")
        3.0
    """
    return _over_histories(event, delta, adjacency, sum_up, 1.0)


def advanced_epsilon_upper(event: Event, delta: float, adjacency: Adjacency) -> float:
    """√(2 ln(1/δ')·Σ ε_i²) + Σ ε_i (e^{ε_i} − 1)/(e^{ε_i} + 1) at δ' + Σ δ_i, and never more than basic composition.

    Half of the free δ pays for δ', the rest for releases that have no pure guarantee, in equal shares
    (Dwork–Rothblum–Vadhan 2010, heterogeneous with the sharper mean of Kairouz–Oh–Viswanath 2015, theorem 3.5).

    Example:
        >>> from discreet.events import PureDP, Repeat
        >>> round(advanced_epsilon_upper(Repeat(PureDP(0.1), 100), 1e-5, "add-remove"), 3)
        5.298
    """

    def total(terms: list[tuple[float, int]], slack: float) -> float:
        if slack >= 1:
            return 0.0
        if slack <= 0:
            return sum_up(terms)
        return advanced_composition(terms, slack)

    basic = basic_epsilon_upper(event, delta, adjacency)
    needs_share = any(_lacks_stated(leaf) for history in histories(event, Unit.of(adjacency)) for leaf in history)
    split = 0.5 if needs_share else 0.0
    advanced = _over_histories(event, delta, adjacency, total, split)
    return min(basic, advanced)


def advanced_composition(terms: list[tuple[float, int]], slack: float) -> float:
    """ε of heterogeneous advanced composition at extra δ ``slack``: terms are (ε_i, how often).

    Raises:
        HypothesisViolated: ``slack`` is not in (0, 1).

    Example:
        >>> round(advanced_composition([(0.1, 100)], 1e-5), 3)
        5.298
    """
    if not 0 < slack < 1:
        raise HypothesisViolated(f"advanced composition needs a slack δ' in (0, 1), got {slack!r}.")
    squares = grown(math.fsum(count * (epsilon * epsilon) for epsilon, count in terms))
    mean = grown(math.fsum(count * epsilon * math.tanh(epsilon / 2) for epsilon, count in terms))
    plain = sum_up(terms)
    return min(plain, grown(mean + math.sqrt(2 * grown(-math.log(slack)) * squares)))


def _lacks_stated(leaf: Leaf) -> bool:
    return stated_of_leaf(leaf) is None and math.isinf(pure_of_leaf(leaf))


def _over_histories(
    event: Event, delta: float, adjacency: Adjacency, total: Callable[..., float], share: float
) -> float:
    """Give each leaf its ε and hand the list, and the δ left over, to a composition theorem."""
    if not 0 <= delta <= 1:
        raise InvalidInput(f"delta must be in [0, 1], got {delta!r}.")
    unit = Unit.of(adjacency)
    return max(_one_history(history, delta, total, share) for history in histories(event, unit))


def _one_history(history: History, delta: float, total: Callable[..., float], share: float) -> float:
    stated = {leaf: stated_of_leaf(leaf) for leaf in history}
    free = delta - sum_up((g.delta, count) for leaf, count in history.items() if (g := stated[leaf]))
    if free < 0:
        return math.inf
    free *= 1 - 16 * UNIT_ROUNDOFF
    unstated = sum(count for leaf, count in history.items() if _lacks_stated(leaf))
    each = share * free / unstated if unstated else 0.0
    terms: list[tuple[float, int]] = []
    for leaf, count in history.items():
        guarantee = stated[leaf]
        if guarantee is not None:
            terms.append((guarantee.epsilon, count))
        elif _lacks_stated(leaf):
            terms.append((epsilon_upper(leaf.event, each, leaf.unit), count))
        else:
            terms.append((pure_of_leaf(leaf), count))
    return total(terms) if share == 1.0 else total(terms, free - each * unstated)


def optimal_composition(epsilon: float, delta: float, times: int, target_delta: float) -> float:
    """The least ε of ``times`` adaptive (ε, δ)-DP releases at ``target_delta`` (Kairouz–Oh–Viswanath 2015, thm 3.3).

    All of them are post-processings of an ε-randomised response that fails with probability δ, so this is exact:
    1 − (1 − δ)^T·(1 − H(ε_g)) ≤ target with H(ε_g) = Σ_l C(T, l)·(e^{lε} − e^{ε_g + (T−l)ε})₊/(1 + e^ε)^T.

    Example:
        >>> optimal_composition(1.0, 0.0, 1, 0.0)
        1.0
        >>> round(optimal_composition(0.1, 0.0, 100, 1e-5), 4)
        4.3068
    """
    require_epsilon_delta(epsilon, delta)
    if times < 0 or times > 10_000_000:
        raise InvalidInput(f"times must be between 0 and 10⁷, got {times}.")
    failed = -math.expm1(times * math.log1p(-delta)) if delta < 1 else float(times > 0)
    if failed > target_delta or failed >= 1:
        return math.inf
    free = (target_delta - failed) / (1 - failed)
    if times == 0 or epsilon == 0 or free >= 1:
        return 0.0

    import numpy as np
    from scipy.special import gammaln

    wins = np.arange(times + 1)
    log_q = (
        gammaln(times + 1) - gammaln(wins + 1) - gammaln(times - wins + 1)
        + (times - wins) * epsilon - times * float(np.logaddexp(epsilon, 0.0))
    )  # fmt: skip
    loss = (2 * wins - times) * epsilon
    rounding = 1 + 1e-14 * (10 + times * (math.log(times + 1) + epsilon))  # of sums of log-factorials

    def excess(total: float) -> float:
        above = loss > total
        if not above.any():
            return 0.0
        return float(np.sum(np.exp(log_q[above] + loss[above]) * -np.expm1(total - loss[above]))) * rounding

    low, high = 0.0, times * epsilon
    if excess(0.0) <= free:
        return 0.0
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if excess(middle) > free else (low, middle)
    return high
