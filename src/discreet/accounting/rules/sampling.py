"""Rules of events on random batches of the rows: Poisson, of fixed size, with replacement, allocated."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.bounds import sum_up
from discreet.accounting.exact.allocation import LARGEST_SHIFT, LEAST_SHIFT, MOST_BATCHES, allocation_pairs
from discreet.accounting.exact.allocation_replaced import LARGEST_REPLACED, replaced_pair
from discreet.accounting.exact.gaussian import root_of_squares
from discreet.accounting.exact.mixture import Mixture
from discreet.accounting.exact.pairs import GaussianPair, Pair, ProfilePair
from discreet.accounting.exact.sampling import Revealed, Spliced, UpperOnly, amplified, grouped
from discreet.accounting.exchange import exchanged
from discreet.accounting.histories import Leaf, histories
from discreet.accounting.rules.base import (
    NOTHING,
    Mu,
    Pairs,
    Rho,
    Rule,
    Side,
    Unbounded,
    both,
    from_profile,
    is_pure,
    profile_of,
    rule,
    zcdp_pair,
)
from discreet.errors import NotCertifiable
from discreet.events import (
    Allocation,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    Poisson,
    WithReplacement,
)
from discreet.units import Unit

__all__: list[str] = []

Array = NDArray[Any]
_MOST_ROWS = 64  # of a unit, in sampled Gaussians


@dataclass(frozen=True)
class _Gaussians:
    """What is inside a sampled event, when all of it is Gaussian: μ of one row more or less, and of one replaced."""

    row: float
    swap: float


def _gaussian_inside(event: Event, unit: Unit) -> _Gaussians | None:
    """μ of single rows, for a batch that may hold any of the unit's rows.

    An event that measures lengths by how far neighbours are apart is written in terms of the whole unit under its own
    relation. One row is k times closer, and a row that is missing is closer than one that is replaced by half.
    """
    k = unit.rows_per_unit
    closer = 2 * k if unit.relation == "replace-one" else k
    row = _gaussian_mu(event.restated(closer), Unit("add-remove"))
    swap = _gaussian_mu(event.restated(k), Unit("replace-one"))
    return None if row is None or swap is None else _Gaussians(row, swap)


def _gaussian_mu(event: Event, unit: Unit) -> float | None:
    """μ of an event whose leaves are all Gaussian, None for any other."""
    found = histories(event, unit)
    if len(found) != 1:
        return None
    mus = [(leaf.event.mu(leaf.unit), n) for leaf, n in found[0].items() if isinstance(leaf.event, Gaussian)]
    return root_of_squares(mus) if len(mus) == len(found[0]) else None


def _only_leaf(event: Event, unit: Unit, outer: str) -> Leaf:
    found = histories(event, unit)
    if len(found) == 1 and len(found[0]) == 1:
        (leaf, times), *_ = found[0].items()
        if times == 1:
            return leaf
    raise NotCertifiable(
        f"{outer} of a composition that is not all Gaussian: sample each part on its own, or state the inside's "
        "guarantee as ApproxDP or PureDP."
    )


def _whole(event: Event, unit: Unit, outer: str) -> Rule:
    """The rule of what is inside a sample that always holds all rows."""
    mu = _gaussian_mu(event, unit)
    return Mu(mu) if mu is not None else _rule_of(_only_leaf(event, unit, outer))


def _rule_of(leaf: Leaf) -> Rule:
    """The rule of a leaf, along its chain of neighbours."""
    known = rule(leaf.event, leaf.unit)
    if leaf.chain == 1:
        return known
    return Unbounded() if isinstance(known, Unbounded) else _group(known, leaf.chain)


def _binomial(k: int, q: float) -> tuple[float, ...]:
    from scipy.special import xlog1py, xlogy

    return tuple(math.comb(k, j) * math.exp(float(xlogy(j, q)) + float(xlog1py(k - j, -q))) for j in range(1, k + 1))


@rule.register
def _(event: Poisson, unit: Unit) -> Rule:
    q, k = event.rate, unit.rows_per_unit
    if q == 1:
        return _whole(event.event, unit, "Poisson sampling")
    inside = _gaussian_inside(event.event, unit)
    if q == 0 or (inside is not None and inside.row == 0):
        return NOTHING
    if inside is not None:
        if k > _MOST_ROWS:
            raise NotCertifiable(f"sampled Gaussians are accounted for up to {_MOST_ROWS} rows a unit, got {k}.")
        weights, nu = (q,) if k == 1 else _binomial(k, q), inside.row
        if unit.relation == "replace-one":
            # the worst two rows are opposite, which bounds those that are nearer but is not reached by them
            opposite = Mixture(nu, weights, "replace")
            return both(opposite if inside.swap >= 2 * nu else UpperOnly(opposite))
        return Pairs(Mixture(nu, weights, "remove"), Mixture(nu, weights, "add"))
    leaf = _only_leaf(event.event.restated(k), Unit(unit.relation), "Poisson sampling")
    known = _rule_of(leaf)
    if isinstance(known, Unbounded):
        return Unbounded()  # the row may not be in the batch
    if unit.relation == "add-remove":
        once = Pairs(amplified(_side(known, "remove"), q, "remove"), amplified(_side(known, "add"), q, "add"))
    elif isinstance(leaf.event, Laplace | DiscreteGaussian | DiscreteLaplace):  # noise protects a missing row too
        once = _exchanged_in_batch(known, q, replaced=True)
    else:
        # The guarantee was stated for exchanged rows only, and says nothing of a batch without the row: joint convexity
        # alone gives δ'(ε) = qδ(ε).
        profile, top = profile_of(known)
        once = from_profile(lambda e: q * profile(e), top, pure=is_pure(known))
    return once if k == 1 else _group(once, k)


def _side(known: Rule, kind: str) -> Side:
    """The pair of a rule in one direction."""
    match known:
        case Pairs(remove, add, 1):
            return remove if kind == "remove" else add
        case Mu(mu):
            return GaussianPair(max(mu, 1e-300))
        case Rho(rho):
            return zcdp_pair(max(rho, 1e-300))
        case _:
            raise NotCertifiable("the event inside has no single pair to sample.")


def _spliced(known: Rule, rate: float, reached: Pair | None = None) -> Spliced:
    remove, add = amplified(_side(known, "remove"), rate, "remove"), amplified(_side(known, "add"), rate, "add")
    if isinstance(remove, ProfilePair) or isinstance(add, ProfilePair):
        raise TypeError("bounds are spliced as profiles")
    return Spliced(remove, add, reached)


def _group(known: Rule, k: int) -> Pairs:
    """k neighbours in a row."""
    profile, top = profile_of(known)
    pure = is_pure(known)
    return from_profile(grouped(profile, k, pure=pure), sum_up([(top, k)]), pure=pure)


def _drawn(n: int, k: int, batch: int) -> tuple[float, ...]:
    """The probabilities that a batch of n rows holds 1, 2, … of the k rows of a unit, each rounded once."""
    whole = math.prod(range(n, n - k, -1))
    missed = [math.prod(range(n - batch, n - batch - k + j, -1)) for j in range(1, k + 1)]
    met = [math.prod(range(batch, batch - j, -1)) for j in range(1, k + 1)]
    return tuple(
        float(Fraction(math.comb(k, j) * m * other, whole))
        for j, (m, other) in enumerate(zip(met, missed, strict=True), start=1)
    )


def _several_of_fixed_size(event: FixedSize, unit: Unit, swap: float, once: Pairs) -> Pairs:
    """J of the unit's k rows are in a batch, J hypergeometric, and each takes the place of a row of others.

    Add-remove: given the others' batch and who gives way, the sums are N(s + d_J) and N(s) with |d_j| at most j
    exchanges; exactly that many are the worst, and reached. Replace-one: as for `WithReplacement`, or k rows exchanged
    one after the other, whichever is less; reached if the others lie where the unit's rows come from.
    """
    found = _drawn(event.n, unit.rows_per_unit, event.batch)
    weights = found[: max(j for j, p in enumerate(found, start=1) if p > 0)]
    remove = Mixture(swap, weights, "remove")
    if unit.relation == "add-remove":
        return Pairs(remove, Mixture(swap, weights, "add"))
    by_lot = _exchanged_by_lot(swap, np.array(weights), math.fsum(weights), 0.0, remove)
    profile, top = profile_of(once)
    in_turn = grouped(profile, unit.rows_per_unit)

    def bound(epsilon: Array) -> Array:
        return np.minimum(in_turn(epsilon), by_lot.profile(epsilon)) * (1 + 1e-12)

    return from_profile(bound, min(sum_up([(top, unit.rows_per_unit)]), by_lot.span(-745.0)[1]), attained=remove)


def _exchanged_by_lot(swap: float, p: Array, drawn: float, failure: float, reached: Pair | None) -> Spliced:
    """j rows are exchanged with the probability p_j, j ≥ 1; ``drawn`` is that of any."""
    lottery = _lottery(swap, p, drawn, failure)
    remove, add = amplified(lottery, drawn, "remove"), amplified(lottery, drawn, "add")
    return Spliced(remove, add, reached)  # type: ignore[arg-type]


def _lottery(swap: float, p: Array, drawn: float, failure: float) -> Revealed:
    """How many rows are exchanged, given that some are."""
    pairs = tuple(GaussianPair(j * swap) for j in range(1, len(p) + 1))
    return Revealed(tuple((p / drawn * (1 + 1e-13)).tolist()), pairs, min(1.0, failure / drawn))


@rule.register
def _(event: FixedSize, unit: Unit) -> Rule:
    """Replace-one: whether or not the changed row is drawn, batches of equal size differ in one exchanged row, so all
    three outputs are neighbours. Add-remove (n the larger size): the smaller dataset's batch is the larger one's given
    that the row was not drawn, and given that it was, it stands in another's place: μ₁ and μ₀ differ by an exchange.
    Several rows: `_several_of_fixed_size` for Gaussian noise; else the rows of a unit come or go one after the other,
    the last when only n − k + 1 are left. Where the smallest dataset does not fill the batch, all k may be drawn.
    """
    k, replaced = unit.rows_per_unit, unit.relation == "replace-one"
    if replaced and event.batch == event.n:
        return _whole(event.event, unit, "FixedSize")
    if not replaced and event.n - k < event.batch:
        return _all_exchanged(event.event, unit)
    rate = event.batch / (event.n if replaced else event.n - k + 1)
    inside = _gaussian_inside(event.event, unit)
    if inside is not None:
        if inside.swap == 0:
            return NOTHING
        remove, add = Mixture(inside.swap, (rate,), "remove"), Mixture(inside.swap, (rate,), "add")
        # If all others sit at u and the row moves from as far away as can be to u, each mixture is reached, but not
        # both at once.
        once = both(Spliced(remove, add, remove)) if replaced else Pairs(remove, add)
        if 1 < k <= _MOST_ROWS:
            return _several_of_fixed_size(event, unit, inside.swap, once)
        return once if k == 1 else _group(once, k)
    known = _rule_of(exchanged(_only_leaf(event.event.restated(k), Unit(unit.relation), "FixedSize")))
    if isinstance(known, Unbounded):
        return Unbounded()  # the row may not be in the batch
    once = _exchanged_in_batch(known, rate, replaced)
    return once if k == 1 else _group(once, k)


def _exchanged_in_batch(known: Rule, rate: float, replaced: bool) -> Pairs:
    """One row, drawn with probability ``rate``, where ``known`` is the rule of its exchange in the batch."""
    remove, add = (
        amplified(_side(known, "remove"), rate, "remove"),
        amplified(_side(known, "add"), rate, "add"),
    )
    if not replaced:
        return Pairs(_upper(remove), _upper(add))
    if isinstance(remove, ProfilePair):
        return from_profile(remove.profile, remove.high, pure=math.isfinite(remove.top))
    return both(_spliced(known, rate))


def _all_exchanged(event: Event, unit: Unit) -> Rule:
    """All of the unit's rows are exchanged; from above only, for one of the batches may have fewer rows instead."""
    mu = _gaussian_mu(event, Unit("replace-one", unit.rows_per_unit))
    known = Mu(mu) if mu is not None else _rule_of(exchanged(_only_leaf(event, unit, "FixedSize"), resized=True))
    match known:
        case Unbounded():
            return Unbounded()
        case Mu(0.0) | Rho(0.0):
            return known
        case Pairs(remove, add, times):
            return both(_upper(remove), times) if remove is add else Pairs(_upper(remove), _upper(add), times)
        case _:
            return both(_upper(_side(known, "remove")))


def _upper(side: Side) -> Side:
    """The side as an upper bound only."""
    return replace(side, attained=None) if isinstance(side, ProfilePair) else UpperOnly(side)


@rule.register
def _(event: WithReplacement, unit: Unit) -> Rule:
    """The row is drawn J ~ Binomial(batch, 1/n) times, which exchanges J rows of any of the others' batches:
    δ(α) ≤ Σ_{j≥1} P(J = j)·δ_{jμ}(1 + (α − 1)/η), η = P(J ≥ 1) (Balle–Barthe–Gaboardi 2018, Theorem 10). Under
    add-remove the rows of a unit come or go one after the other, the last when only n − k + 1 are left.
    """
    inside = _gaussian_inside(event.event, unit)
    if inside is None:
        raise NotCertifiable("sampling with replacement is accounted for Gaussian noise only.")
    from scipy.special import gammaln

    m, n = event.batch, event.n - (unit.rows_per_unit - 1 if unit.relation == "add-remove" else 0)
    if inside.swap == 0:
        return NOTHING
    if n <= 1:
        return both(UpperOnly(GaussianPair(m * inside.swap)))  # every draw may be the unit's
    q = 1 / n
    j = np.arange(1, min(m, 400) + 1)
    log_p = gammaln(m + 1) - gammaln(j + 1) - gammaln(m - j + 1) + j * math.log(q) + (m - j) * math.log1p(-q)
    mean = m * q
    most = int(np.flatnonzero((log_p > -740) | (j <= mean))[-1]) + 1
    # P(J > most) ≤ P(J = most)·r/(1 − r), r the ratio of neighbouring terms, which only falls; it counts as failure.
    ratio = (m - most) / (most + 1) * q / (1 - q)
    rest = 0.0 if most == m else math.exp(log_p[most - 1]) * ratio / (1 - ratio) if ratio < 0.9 else 1.0
    if rest > 1e-3:
        raise NotCertifiable(f"a row is drawn too often ({mean:g} times on average) to account with replacement.")
    p = np.exp(log_p[:most])
    drawn = -math.expm1(m * math.log1p(-q))
    if unit.relation == "add-remove":
        lottery = _lottery(inside.swap, p, drawn, rest)
        once = Pairs(_upper(amplified(lottery, drawn, "remove")), _upper(amplified(lottery, drawn, "add")))
    else:
        whole = most <= 32 and rest < 1e-300
        reached = Mixture(inside.swap, tuple(p.tolist()), "remove") if whole else None
        once = both(_exchanged_by_lot(inside.swap, p, drawn, rest, reached))
    return once if unit.rows_per_unit == 1 else _group(once, unit.rows_per_unit)


@rule.register
def _(event: Allocation, unit: Unit) -> Rule:
    """Gaussian releases have the pairs of `discreet.accounting.exact.allocation` and `allocation_replaced`, which are
    reached. The rows of a unit come, go or are replaced one after the other; from below, one of them does and the
    others contribute nothing. Whatever is inside, an allocation costs no more than the batch in which all rows of the
    unit are worst (`in_parts`).
    """
    k, t, added = unit.rows_per_unit, event.batches, unit.relation == "add-remove"
    if t == 1:
        return _whole(event.event, unit, "Allocation")
    inside = _gaussian_inside(event.event, unit)
    if inside is not None and inside.swap == 0:
        return NOTHING
    largest = LARGEST_SHIFT if added else LARGEST_REPLACED
    if inside is None or not LEAST_SHIFT <= inside.row <= largest or t > MOST_BATCHES:
        return _one_of_the_batches(event.event, unit)
    nu = inside.row
    reached: Pair | None
    if added:
        remove, add = allocation_pairs(nu, t)
        once = Pairs(remove, add)
        profile, reached = profile_of(once)[0], remove.attained
    else:
        # the worst two rows are opposite, which bounds those that are nearer but is not reached by them
        pair = replaced_pair(nu, t, is_reached=inside.swap >= 2 * nu)
        once, profile, reached = both(pair), pair.profile, pair.attained
        if k > 1:
            pair.span(-745.0)  # all of the profile is wanted
    if k == 1:
        return once
    several = grouped(profile, k)
    together = GaussianPair(unit.sensitivity(1.0) * nu)  # all rows of the unit in one batch

    def bound(epsilon: Array) -> Array:
        return np.minimum(several(epsilon), together.profile(epsilon)) * (1 + 1e-12)

    return from_profile(bound, together.span(-745.0)[1], attained=reached)


def _one_of_the_batches(event: Event, unit: Unit) -> Rule:
    """A row is in one batch, and there it is charged in full: from above only."""
    known = _whole(event.restated(unit.rows_per_unit), Unit(unit.relation), "Allocation")
    match known:
        case Unbounded():
            return known
        case _ if unit.rows_per_unit > 1:
            return _group(known, unit.rows_per_unit)
        case Pairs(remove, add, times):
            return both(_upper(remove), times) if remove is add else Pairs(_upper(remove), _upper(add), times)
        case Mu(0.0) | Rho(0.0):
            return known
        case _:
            return both(_upper(_side(known, "remove")))
