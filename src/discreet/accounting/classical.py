"""Closed-form composition: basic, advanced, optimal homogeneous, zCDP; group privacy and generic amplification.

Looser than the numerical accountants, but each fits on one line and can be checked by hand. Where a theorem does not
speak of an event, `NotCertifiable` says why instead of guessing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from discreet.accounting.bounds import product_up, quotient_up, sum_up
from discreet.accounting.exchange import SUMS, exchanged_world, require_presence
from discreet.accounting.fold import Leaf, World, worlds
from discreet.accounting.gaussian import UNIT
from discreet.errors import HypothesisViolated, InvalidInput, NotCertifiable
from discreet.events import (
    ZCDP,
    ApproxDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    Poisson,
    PrivateSelection,
    Promise,
    PureDP,
    RandomizedResponse,
    Selection,
    WithReplacement,
)
from discreet.units import Adjacency, Unit

__all__ = [
    "Guarantee",
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


class Guarantee(NamedTuple):
    """(ε, δ)-differential privacy."""

    epsilon: float
    delta: float


def group(epsilon: float, delta: float, rows: int) -> Guarantee:
    """(ε, δ) for one row is (kε, δ·(e^{kε} − 1)/(e^ε − 1)) for k rows (Vadhan 2017, lemma 2.2).

    Example:
        >>> group(0.5, 0.0, 3)
        Guarantee(epsilon=1.5, delta=0.0)
    """
    _check(epsilon, delta)
    if rows < 1:
        raise InvalidInput(f"group privacy needs at least one row, got {rows}.")
    if rows == 1:
        return Guarantee(epsilon, delta)
    if delta == 0:
        return Guarantee(sum_up([(epsilon, rows)]), 0.0)
    if epsilon == 0:
        return Guarantee(0.0, min(1.0, sum_up([(delta, rows)])))
    total = sum_up([(epsilon, rows)])
    if total < 700:
        growth = math.expm1(total) / math.expm1(epsilon) * (1 + 4 * UNIT * (total + 8))
        return Guarantee(total, min(1.0, product_up(delta, growth)))
    logs = math.log(delta), _log_expm1(total), _log_expm1(epsilon)
    log_delta = logs[0] + logs[1] - logs[2] + 4 * UNIT * (sum(map(abs, logs)) + total + 8)
    return Guarantee(total, min(1.0, _grown(math.exp(min(0.0, log_delta)))))


def amplify(epsilon: float, delta: float, rate: float) -> Guarantee:
    """(ε, δ) on a random part of the rows is (ln(1 + q(e^ε − 1)), qδ) (Balle–Barthe–Gaboardi 2018, theorem 8).

    Example:
        >>> round(amplify(1.0, 0.0, 0.01).epsilon, 6)
        0.017037
    """
    _check(epsilon, delta)
    if not 0 <= rate <= 1:
        raise InvalidInput(f"a sampling rate must be in [0, 1], got {rate!r}.")
    if rate == 0:
        return Guarantee(0.0, 0.0)
    small = math.log1p(rate * math.expm1(epsilon)) if epsilon < 30 else math.inf
    large = epsilon + math.log(rate + (1 - rate) * math.exp(-epsilon)) + 8 * UNIT * (1 + epsilon)
    return Guarantee(min(epsilon, _grown(small), large), product_up(rate, delta))


def _grown(value: float) -> float:
    """A few roundings more than ``value``: at least what it stands for."""
    return value * (1 + 16 * UNIT)


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
        case PrivateSelection(event, _, distribution, eta) if distribution != "poisson":
            # Papernot–Steinke 2022, corollary 3; geometric stopping is Liu–Talwar's factor 3.
            return _grown((2 + eta) * max(_all_pure(world).epsilon for world in worlds(event, unit)))
    return math.inf


def approximate(leaf: Event, adjacency: Adjacency) -> Guarantee | None:
    """The (ε, δ) of a leaf that states one with δ > 0, possibly on a sample; None for every other leaf."""
    unit = Unit.of(adjacency)
    match leaf:
        case ApproxDP(epsilon, delta) if delta > 0:
            return group(epsilon, delta, unit.rows_per_unit)
        case Promise(epsilon, delta, most_rows) if delta > 0 and unit.rows_per_unit <= most_rows:
            return Guarantee(epsilon, delta)
        case Poisson() | FixedSize() | WithReplacement():
            inner = worlds(leaf.event, unit)
            if any(approximate(part.event, part.unit) is not None for world in inner for part in world):
                found = _sampled(leaf, unit, _basic_stated)
                return found if math.isfinite(found.epsilon) else None
    return None


def _pure_of(leaf: Leaf) -> float:
    """The pure ε of a leaf, along its chain of neighbours."""
    return sum_up([(pure_epsilon(leaf.event, leaf.unit), leaf.chain)])


def _stated_of(leaf: Leaf) -> Guarantee | None:
    """The (ε, δ) that a leaf states, along its chain of neighbours."""
    found = approximate(leaf.event, leaf.unit)
    return found if found is None or leaf.chain == 1 else group(*found, leaf.chain)


def _all_pure(world: World) -> Guarantee:
    return Guarantee(sum_up((_pure_of(leaf), count) for leaf, count in world.items()), 0.0)


def _basic_stated(world: World) -> Guarantee:
    stated = [(_stated_of(leaf) or Guarantee(_pure_of(leaf), 0.0), count) for leaf, count in world.items()]
    epsilon = sum_up((one.epsilon, count) for one, count in stated)
    return Guarantee(epsilon, min(1.0, sum_up((one.delta, count) for one, count in stated)))


def _sampled(leaf: Poisson | FixedSize | WithReplacement, unit: Unit, read: Callable[[World], Guarantee]) -> Guarantee:
    """Generic amplification by the probability that the batch meets the unit's rows."""
    k = unit.rows_per_unit
    found = worlds(leaf.event, unit)
    replaced = unit.relation == "replace-one"
    if isinstance(leaf, Poisson):
        hit = 1.0 if leaf.rate == 1 else -math.expm1(k * math.log1p(-leaf.rate))
        guarantees = [read(world) for world in found]
        if replaced and not all(isinstance(part.event, SUMS) for world in found for part in world):
            # A stated replace-one guarantee says nothing about a batch that lacks the row: only δ is amplified.
            parts = [Guarantee(epsilon, hit * delta) for epsilon, delta in guarantees]
        else:
            parts = [amplify(epsilon, delta, hit) for epsilon, delta in guarantees]
    elif isinstance(leaf, FixedSize):
        enough = leaf.n - k >= leaf.batch
        hit = -math.expm1(sum(math.log1p(-leaf.batch / (leaf.n - i)) for i in range(k))) if enough else 1.0
        resized = not enough and not replaced
        parts = [amplify(*read(exchanged_world(world, resized)), hit) for world in found]
    else:
        # each draw may be one of the unit's rows, so that as many as there are draws are exchanged
        hit = -math.expm1(leaf.batch * math.log1p(-k / leaf.n)) if k < leaf.n else 1.0
        drawn = worlds(leaf.event, Unit(unit.relation, leaf.batch))
        parts = [amplify(*read(exchanged_world(world, k >= leaf.n)), hit) for world in drawn]
    return Guarantee(max(p.epsilon for p in parts), max(p.delta for p in parts))


def basic_epsilon_upper(event: Event, delta: float, adjacency: Adjacency) -> float:
    """Σ ε_i over all releases, each at an equal share of what δ is left after the stated Σ δ_i.

    Example:
        >>> from discreet.events import Repeat
        >>> basic_epsilon_upper(Repeat(PureDP(0.1), 30), 0.0, "add-remove")
        3.0
    """
    return _over_worlds(event, delta, adjacency, sum_up, 1.0)


def advanced_epsilon_upper(event: Event, delta: float, adjacency: Adjacency) -> float:
    """√(2 ln(1/δ')·Σ ε_i²) + Σ ε_i (e^{ε_i} − 1)/(e^{ε_i} + 1) at δ' + Σ δ_i, and never more than basic composition.

    Half of the free δ pays for δ', the rest for releases that have no pure guarantee, in equal shares
    (Dwork–Rothblum–Vadhan 2010, heterogeneous with the sharper mean of Kairouz–Oh–Viswanath 2015, theorem 3.5).

    Example:
        >>> from discreet.events import Repeat
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
    needs_share = any(_lacks_stated(leaf) for world in worlds(event, Unit.of(adjacency)) for leaf in world)
    split = 0.5 if needs_share else 0.0
    advanced = _over_worlds(event, delta, adjacency, total, split)
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
    squares = _grown(math.fsum(count * (epsilon * epsilon) for epsilon, count in terms))
    mean = _grown(math.fsum(count * epsilon * math.tanh(epsilon / 2) for epsilon, count in terms))
    plain = sum_up(terms)
    return min(plain, _grown(mean + math.sqrt(2 * _grown(-math.log(slack)) * squares)))


def _lacks_stated(leaf: Leaf) -> bool:
    return _stated_of(leaf) is None and math.isinf(_pure_of(leaf))


def _over_worlds(event: Event, delta: float, adjacency: Adjacency, total: Callable[..., float], share: float) -> float:
    """Give each leaf its ε and hand the list, and the δ left over, to a composition theorem."""
    if not 0 <= delta <= 1:
        raise InvalidInput(f"delta must be in [0, 1], got {delta!r}.")
    unit = Unit.of(adjacency)
    return max(_one_world(world, delta, total, share) for world in worlds(event, unit))


def _one_world(world: World, delta: float, total: Callable[..., float], share: float) -> float:
    from discreet.accounting.renyi import epsilon_upper

    stated = {leaf: _stated_of(leaf) for leaf in world}
    free = delta - sum_up((g.delta, count) for leaf, count in world.items() if (g := stated[leaf]))
    if free < 0:
        return math.inf
    free *= 1 - 16 * UNIT
    unstated = sum(count for leaf, count in world.items() if _lacks_stated(leaf))
    each = share * free / unstated if unstated else 0.0
    terms: list[tuple[float, int]] = []
    for leaf, count in world.items():
        guarantee = stated[leaf]
        if guarantee is not None:
            terms.append((guarantee.epsilon, count))
        elif _lacks_stated(leaf):
            terms.append((epsilon_upper(leaf.event, each, leaf.unit), count))
        else:
            terms.append((_pure_of(leaf), count))
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
    _check(epsilon, delta)
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


def zcdp_rho(event: Event, adjacency: Adjacency) -> float:
    """The ρ for which an event is ρ-zCDP: Gaussians μ²/2, pure ε ε²/2, bounded range ε²/8; they add (Bun–Steinke 2016).

    Raises:
        NotCertifiable: for leaves that are not zCDP, such as a sampled Gaussian, whose Rényi curve is not linear.

    Example:
        >>> from discreet.events import Repeat
        >>> zcdp_rho(Repeat(Gaussian(8.0), 64), "add-remove")
        0.5
    """
    unit = Unit.of(adjacency)
    return max(
        math.fsum(count * _leaf_rho(leaf.event, leaf.unit) for leaf, count in world.items())
        for world in worlds(event, unit)
    )  # fmt: skip


def _leaf_rho(leaf: Event, unit: Unit) -> float:
    k = unit.rows_per_unit
    if isinstance(leaf, RandomizedResponse):
        require_presence(unit)
    match leaf:
        case Gaussian() | DiscreteGaussian():
            mu = leaf.mu(unit) if isinstance(leaf, Gaussian) else unit.sensitivity(1.0) / leaf.noise_multiplier
            return mu * mu / 2  # a product overflows to infinity, a power raises
        case ZCDP(rho):
            return k**2 * rho
        case Selection(epsilon, "exponential"):
            return (k * epsilon) * (k * epsilon) / 8
        case RandomizedResponse(epsilon, _):
            return k * (epsilon * epsilon) / 2
        case Poisson(rate, event) if rate == 1:
            return zcdp_rho(event, unit)
    epsilon = pure_epsilon(leaf, unit)
    if math.isfinite(epsilon):
        return epsilon * epsilon / 2
    if isinstance(leaf, Poisson | FixedSize | WithReplacement):
        raise NotCertifiable(
            f"{type(leaf).__name__} sampling of {type(leaf.event).__name__} is not zCDP with a useful ρ: its Rényi "
            "divergence jumps at high orders. Use method='renyi', 'contour' or 'fourier'."
        )
    raise NotCertifiable(f"{type(leaf).__name__} has no zCDP bound. Use method='renyi' or 'fourier'.")


def zcdp_to_epsilon(rho: float, delta: float) -> float:
    """The least ε with ρ-zCDP ⇒ (ε, δ)-DP over all orders (Canonne–Kamath–Steinke 2020, corollary 13).

    Example:
        >>> round(zcdp_to_epsilon(0.5, 1e-5), 4)
        4.7284
    """
    from discreet.accounting.renyi import epsilon_upper

    return epsilon_upper(ZCDP(rho), delta, "add-remove") if math.isfinite(rho) else math.inf


def zcdp_epsilon_upper(event: Event, delta: float, adjacency: Adjacency) -> float:
    """ε of an event through its ρ alone.

    Example:
        >>> round(zcdp_epsilon_upper(Gaussian(1.0), 1e-5, "add-remove"), 4)
        4.7284
    """
    return zcdp_to_epsilon(zcdp_rho(event, adjacency), delta)


def _check(epsilon: float, delta: float) -> None:
    if not epsilon >= 0:
        raise InvalidInput(f"epsilon must be non-negative, got {epsilon!r}.")
    if not 0 <= delta <= 1:
        raise InvalidInput(f"delta must be in [0, 1], got {delta!r}.")


def _log_expm1(value: float) -> float:
    return math.log(math.expm1(value)) if value < 30 else value + math.log1p(-math.exp(-value))
