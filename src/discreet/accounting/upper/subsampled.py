"""Rényi divergence of an event on a random batch, for every real order.

Notation: a batch misses the unit's rows with probability 1 − q, and then answers A; otherwise B (or B' for the
neighbour). So P = (1 − q)A + qB and Q is A (add-remove) or (1 − q)A + qB' (replace-one). Four bounds, best first:

1. *Gaussian under Poisson sampling*, the exact worst pair: mixtures of N(j, σ²), j ~ Bin(k, q) (comparison
   inequality for Gaussian processes; docs/maths/accounting.md, proposition 1).
2. *A leaf with a dominating pair* (r = dP/dQ of the inner event): w = q(r − 1) and the excesses of `moments`. Under
   add-remove the pairs ((1−q)Q + qP, Q) and its reverse (Zhu–Dong–Wang 2022, theorem 11); under replace-one, advanced
   joint convexity (Balle–Barthe–Gaboardi 2018, theorem 2) bounds the hockey-stick divergence of orders above 1 by
   that of ((1−q)Q + qP, Q), and symmetry those below 1: the excesses at α and 1 − α, over r ≥ 1 only.
3. *An inner event known by its Rényi curve alone*, integer orders: binomial expansion (add-remove), Wang–Balle–
   Kasiviswanathan 2019 theorem 9 (replace-one); chords between them, since (α − 1)D_α is convex in α.
4. The inner event's own divergence: sampling never harms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from discreet.accounting.exchange import SUMS, exchanged, exchanged_history, require_presence
from discreet.accounting.histories import History, Leaf, histories
from discreet.accounting.upper.moments import (
    FiniteLosses,
    discrete_laplace_losses,
    gaussian_half_excess,
    gaussian_norm_excess,
    laplace_losses,
    lattice_half_excess,
    mixture_excess,
)
from discreet.errors import NotCertifiable
from discreet.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    Poisson,
    PureDP,
    RandomizedResponse,
    Selection,
    WithReplacement,
)
from discreet.units import Unit

__all__ = ["finite_losses", "fixed_size", "poisson", "with_replacement"]

Inner = Callable[[Event, float, Unit], float]
"""The Rényi divergence of any event: (event, order, unit)."""

_LARGEST_EXPANSION = 256


def finite_losses(leaf: Event, unit: Unit) -> FiniteLosses | None:
    """A dominating pair with finitely many losses for a scalar pure-DP leaf, or None."""
    k = unit.rows_per_unit
    if isinstance(leaf, RandomizedResponse):
        require_presence(unit)
    match leaf:
        case Laplace(noise_multiplier):
            return laplace_losses(unit.sensitivity(1.0) / noise_multiplier)
        case DiscreteLaplace(noise_multiplier, bound):
            return discrete_laplace_losses(int(unit.sensitivity(bound)), noise_multiplier * bound)
        case Selection(epsilon, "permute-and-flip" | "noisy-max"):
            return laplace_losses(k * epsilon)
        case RandomizedResponse(epsilon, categories) if k == 1 and categories > 2:
            norm = float(np.logaddexp(epsilon, math.log(categories - 1)))
            return FiniteLosses((epsilon, -epsilon, 0.0), (-norm, epsilon - norm, math.log(categories - 2) - norm))
        case PureDP(epsilon) | RandomizedResponse(epsilon, _) | Selection(epsilon, _):
            norm = float(np.logaddexp(k * epsilon, 0.0))
            return FiniteLosses((k * epsilon, -k * epsilon), (-norm, k * epsilon - norm))
    return None


def poisson(event: Poisson, order: float, unit: Unit, inner: Inner) -> float:
    """D_order of a Poisson-sampled event."""
    rate, leaf = event.rate, event.event
    while isinstance(leaf, Poisson):
        rate, leaf = rate * leaf.rate, leaf.event
    if rate == 0:
        return 0.0
    plain = inner(leaf, order, unit)
    if rate == 1:
        return plain
    k = unit.rows_per_unit
    if isinstance(leaf, Gaussian):
        sharp = _gaussian_poisson(leaf.noise_multiplier, rate, order, unit)
        if math.isfinite(sharp):
            return min(plain, sharp)
    hit = -math.expm1(k * math.log1p(-rate))  # some row of the unit is in the batch
    replaced = unit.relation == "replace-one"
    return min(plain, max(_sampled(history, hit, order, replaced, inner, True) for history in histories(leaf, unit)))


def fixed_size(event: FixedSize, order: float, unit: Unit, inner: Inner) -> float:
    """D_order of an event on a batch of fixed size drawn without replacement."""
    k, m, n = unit.rows_per_unit, event.batch, event.n
    replaced = unit.relation == "replace-one"
    unfilled = n - k < m  # a neighbour may be too small to draw the batch without the unit's rows
    swapped = [exchanged_history(history, unfilled and not replaced) for history in histories(event.event, unit)]
    plain = max(_sampled(history, 1.0, order, replaced, inner) for history in swapped)
    if unfilled:
        return plain
    missed = sum(math.log1p(-m / (n - i)) for i in range(k))
    hit = -math.expm1(missed)
    return min(plain, max(_sampled(history, hit, order, replaced, inner) for history in swapped))


def with_replacement(event: WithReplacement, order: float, unit: Unit, inner: Inner) -> float:
    """D_order of an event on draws with replacement: j ~ Bin(batch, k/n) draws hit the unit (Balle et al. 2018)."""
    k, m, n = unit.rows_per_unit, event.batch, event.n
    if k >= n or m > 10_000:
        raise NotCertifiable(
            f"sampling with replacement: batch={m} or n={n} is out of reach; need batch ≤ 10000, n > {k}."
        )
    found = histories(event.event.restated(k), Unit(unit.relation))
    if len(found) != 1 or len(found[0]) != 1 or next(iter(found[0].values())) != 1:
        raise NotCertifiable("sampling with replacement is accounted for a single inner release only.")
    (drawn,) = found[0]
    share = k / n
    hit = -math.expm1(m * math.log1p(-share))
    total = -math.inf
    for j in range(1, m + 1):
        log_weight = (
            math.lgamma(m + 1) - math.lgamma(j + 1) - math.lgamma(m - j + 1)
            + j * math.log(share) + (m - j) * math.log1p(-share) - math.log(hit)
        )  # fmt: skip
        leaf = exchanged(Leaf(drawn.event, Unit(unit.relation, j)))
        if isinstance(leaf.event, Gaussian) and j > 4:
            one = gaussian_norm_excess(order, leaf.event.mu(leaf.unit), hit)
        else:
            one = _excess({leaf: 1}, hit, order, unit.relation == "replace-one", inner)
        total = float(np.logaddexp(total, log_weight + one))
    return _divergence(total, order)


def _of_leaf(leaf: Leaf, order: float, inner: Inner) -> float:
    """D_order of a leaf; of two neighbours in a row by the weak triangle inequality (Mironov 2017, corollary 4)."""
    if leaf.chain == 1:
        return inner(leaf.event, order, leaf.unit)
    if leaf.chain != 2:
        raise NotCertifiable(f"no Rényi bound is known for a chain of {leaf.chain} neighbours.")
    first, second = inner(leaf.event, 2 * order, leaf.unit), inner(leaf.event, 2 * order - 1, leaf.unit)
    return (order - 0.5) / (order - 1) * first + second


def _gaussian_poisson(noise_multiplier: float, rate: float, order: float, unit: Unit) -> float:
    k = unit.rows_per_unit
    weights = tuple(math.comb(k, j) * rate**j * (1 - rate) ** (k - j) for j in range(k + 1)) if k < 200 else ()
    if not weights:
        return math.inf
    if unit.relation == "replace-one":
        return _divergence(mixture_excess(order, noise_multiplier, weights, "replace"), order)
    remove = _divergence(mixture_excess(order, noise_multiplier, weights, "remove"), order)
    # Minkowski: the norm of order α of a sum of likelihood ratios is at most the sum of their norms.
    j = np.arange(k + 1)
    with np.errstate(divide="ignore"):
        logs = np.log(np.array(weights)) + (order - 1) * j**2 / (2 * noise_multiplier**2)
    remove = min(remove, order / (order - 1) * float(np.logaddexp.reduce(logs)))
    if k == 1:
        return remove  # never less than the other direction (Mironov–Talwar–Zhang 2019, theorem 5)
    return max(remove, _divergence(mixture_excess(order, noise_multiplier, weights, "add"), order))


def _divergence(log_excess: float | None, order: float) -> float:
    """log(1 + X)/(α − 1) from log X."""
    if log_excess is None:
        return math.inf
    log_moment = math.log1p(math.exp(log_excess)) if log_excess < 0 else float(np.logaddexp(0.0, log_excess))
    return log_moment / (order - 1)


def _sampled(
    history: History, rate: float, order: float, replaced: bool, inner: Inner, sizes_vary: bool = False
) -> float:
    """Bounds 2 and 3 for leaves that all happen on one batch, which the unit's rows enter with probability ``rate``.

    The leaves' units are those inside the batch, ``replaced`` tells the relation between the datasets. Where batch
    sizes vary and a leaf only *states* a replace-one guarantee, nothing relates A to B, and joint convexity is all
    there is: X(P, Q) ≤ q·X(B, B').
    """
    if not history:
        return 0.0
    if rate >= 1:
        return math.fsum(count * _of_leaf(leaf, order, inner) for leaf, count in history.items())
    if replaced and sizes_vary and not all(isinstance(leaf.event, SUMS) for leaf in history):
        log_moment = (order - 1) * sum(count * _of_leaf(leaf, order, inner) for leaf, count in history.items())
        return _divergence(math.log(rate) + _log_expm1(log_moment), order)
    return _divergence(_excess(history, rate, order, replaced, inner), order)


def _excess(history: History, rate: float, order: float, replaced: bool, inner: Inner) -> float:
    """log X of a sampled history by its dominating pair, else by its Rényi curve."""
    found: list[float | None] = []
    gaussians = [(leaf.event.mu(leaf.unit), n) for leaf, n in history.items() if isinstance(leaf.event, Gaussian)]
    if len(gaussians) == len(history):
        mu = math.sqrt(sum(count * mu * mu for mu, count in gaussians))
        if replaced:
            return gaussian_half_excess(order, mu, rate)
        found.append(mixture_excess(order, 1 / mu, (1 - rate, rate), "remove"))
    elif sum(history.values()) == 1 and all(leaf.chain == 1 for leaf in history):
        ((event, unit, _),) = history
        pair = finite_losses(event, unit)
        if pair is not None and replaced:
            up = pair.excess(order, rate, above=True), pair.excess(1 - order, rate, above=True)
            return float(np.logaddexp(*up))
        if pair is not None:
            return max(pair.excess(order, rate), pair.excess(1 - order, rate))
        if isinstance(event, DiscreteGaussian):
            shift = unit.sensitivity(1.0)
            scale, grid = event.noise_multiplier / shift, 1 / (event.bound * shift)
            if replaced:
                half = lattice_half_excess(order, scale, rate, grid)
                return _chord(history, rate, order, replaced, inner) if half is None else half
            remove = mixture_excess(order, scale, (1 - rate, rate), "remove", grid)
            add = mixture_excess(order, scale, (1 - rate, rate), "add", grid)
            found.append(None if remove is None or add is None else max(remove, add))
    known = [value for value in found if value is not None]
    return known[0] if known else _chord(history, rate, order, replaced, inner)


def _chord(history: History, rate: float, order: float, replaced: bool, inner: Inner) -> float:
    """log X at a real order: log(1 + X) is convex in the order, and 0 at order 1."""
    low = math.floor(order)
    if low >= _LARGEST_EXPANSION:
        return math.inf

    leaves, part = tuple(history.items()), order - low
    mixed = (1 - part) * _whole(leaves, rate, low, replaced, inner)
    return _log_expm1(mixed + (part * _whole(leaves, rate, low + 1, replaced, inner) if part else 0.0))


@lru_cache(maxsize=4096)
def _whole(leaves: tuple[tuple[Leaf, int], ...], rate: float, order: int, replaced: bool, inner: Inner) -> float:
    """log(1 + X) at an integer order, from the inner Rényi curve; remembered, for many real orders lie between two."""
    if order == 1:
        return 0.0
    return _divergence(_expansion(leaves, rate, order, replaced, inner), 2.0)


def _expansion(leaves: tuple[tuple[Leaf, int], ...], rate: float, order: int, replaced: bool, inner: Inner) -> float:
    """log X at an integer order."""

    def log_moment(j: int) -> float:
        return (j - 1) * sum(count * _of_leaf(leaf, float(j), inner) for leaf, count in leaves)

    def log_choose(j: int) -> float:
        return math.lgamma(order + 1) - math.lgamma(j + 1) - math.lgamma(order - j + 1)

    log_rate, log_rest = math.log(rate), (math.log1p(-rate) if rate < 1 else -math.inf)
    second = log_moment(2)
    if replaced:
        first = min(math.log(4) + _log_expm1(second), math.log(2) + second)
        terms = [2 * log_rate + log_choose(2) + first]
        terms += [j * log_rate + log_choose(j) + math.log(2) + log_moment(j) for j in range(3, order + 1)]
        return float(np.logaddexp.reduce(terms)) + 1e-10
    terms = [
        log_choose(j) + (order - j) * (log_rest if j < order else 0.0) + j * log_rate + _log_expm1(log_moment(j))
        for j in range(2, order + 1)
    ]
    remove = float(np.logaddexp.reduce(terms))
    # The other direction, E_A[(1 − q + q·r)^{1−α}]: Taylor's theorem with the second derivative at its largest, r = 0.
    add = math.log(order * (order - 1) / 2) + 2 * log_rate - (order + 1) * log_rest + _log_expm1(second)
    return max(remove, min(add, _log_expm1(log_moment(order)))) + 1e-10


def _log_expm1(value: float) -> float:
    if value <= 0:
        return -math.inf
    return math.log(math.expm1(value)) if value < 30 else value + math.log1p(-math.exp(-value))
