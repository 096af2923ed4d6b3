"""How each event is accounted: the registry that turns one leaf into what composition can use.

A rule is one of

- `Mu`: exactly a Gaussian of that μ; all of them fold to √(Σ μ²);
- `Pairs`: a dominating pair for each direction, "remove" (the unit's rows are in P's dataset) and "add" (in Q's);
- `Rho`: any ρ-zCDP release; all of them fold to Σ ρ;
- `Unbounded`: no protection.

Another room adds its event with ``@rule.register`` and returns one of these; `from_profile` makes a rule of nothing
but a bound on δ(ε).

Example:
    >>> from discreet.events import Gaussian
    >>> from discreet.units import Unit
    >>> rule(Gaussian(4.0), Unit("replace-one"))
    Mu(mu=0.5)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.bounds import quotient_up, sum_up
from discreet.accounting.classical import group
from discreet.accounting.exchange import exchanged, require_presence
from discreet.accounting.fold import Leaf, worlds
from discreet.accounting.gaussian import root_of_squares
from discreet.accounting.mixture import Mixture
from discreet.accounting.pairs import Atoms, GaussianPair, LaplacePair, Pair, ProfilePair, symmetric
from discreet.accounting.sampling import Revealed, Spliced, UpperOnly, amplified, grouped
from discreet.errors import NotCertifiable
from discreet.events import (
    ZCDP,
    ApproxDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    NonPrivate,
    Poisson,
    Promise,
    PureDP,
    RandomizedResponse,
    RenyiDP,
    Selection,
    WithReplacement,
)
from discreet.units import Unit

__all__ = ["Mu", "Pairs", "Rho", "Rule", "Unbounded", "from_profile", "profile_of", "rule", "zcdp_pair"]

Array = NDArray[Any]
Side = Pair | ProfilePair
_MOST_ATOMS = 2_000_000
_MOST_LOSS = 1e300  # sums and spacings of larger losses are beyond the range of doubles: they count as infinite
_MOST_SQUARE = 2000.0  # of μ of discrete Gaussian noise: larger losses are rounded by more than a profile is granted


@dataclass(frozen=True)
class Mu:
    """A Gaussian pair N(0, 1), N(μ, 1)."""

    mu: float


@dataclass(frozen=True, eq=False)
class Pairs:
    """A dominating pair for each direction; the same object twice when they do not differ.

    ``beside``, where there is one, maps μ to the rule of this event together with Gaussian releases of μ in all, or to
    None where their numerical composition is tighter.
    """

    remove: Side
    add: Side
    times: int = 1
    beside: Callable[[float], Pairs | None] | None = None


@dataclass(frozen=True)
class Rho:
    """ρ-zCDP."""

    rho: float


@dataclass(frozen=True)
class Unbounded:
    """ε = ∞."""


Rule = Mu | Pairs | Rho | Unbounded
_NOTHING = Mu(0.0)


def _same(pair: Side, times: int = 1) -> Pairs:
    return Pairs(pair, pair, times)


def from_profile(
    bound: Callable[[Array], Array],
    top: float,
    attained: Pair | None = None,
    inverse: Callable[[float], float] | None = None,
) -> Pairs:
    """The rule of an event known by a bound on its privacy profile.

    Args:
        bound: ε ↦ a bound of δ(ε), for arrays of ε ≥ 0, for both orders of every pair of neighbours.
        top: beyond this ε the bound is negligible (or 0): what is left of it there counts as failure.
        attained: a pair that some neighbours reach, for lower bounds.
        inverse: δ ↦ an ε with bound(ε) ≤ δ, where that costs less than a search.
    """
    pure = float(bound(np.array([top]))[0]) == 0.0
    most = top if pure else math.inf
    return _same(ProfilePair(symmetric(bound), -top, top, attained, most, inverse=inverse))


@functools.singledispatch
def rule(event: Event, unit: Unit) -> Rule:
    """The rule for one leaf under a unit of privacy.

    Raises:
        NotCertifiable: nothing is known about this event (under this unit).
    """
    raise NotCertifiable(f"no accounting rule for {type(event).__name__}; register one with accounting.rules.rule.")


@rule.register
def _(event: NonPrivate, unit: Unit) -> Rule:
    return Unbounded()


@rule.register
def _(event: Gaussian, unit: Unit) -> Rule:
    return Mu(event.mu(unit))


@rule.register
def _(event: Laplace, unit: Unit) -> Rule:
    loss = quotient_up(unit.sensitivity(1.0), event.noise_multiplier)
    return Unbounded() if loss > _MOST_LOSS else _same(LaplacePair(loss))


@rule.register
def _(event: DiscreteGaussian, unit: Unit) -> Rule:
    """P(x) ∝ e^{−x²/2σ²} against the same moved by Δ: L(x) = (Δ² − 2xΔ)/2σ². The family is log-concave, so the largest
    move dominates. Beyond 40σ less than the smallest double is left; that much is charged as failure.
    """
    mu = unit.sensitivity(1.0) / event.noise_multiplier
    if mu * mu > _MOST_LOSS:
        return Unbounded()
    many = event.bound > _MOST_ATOMS or 80 * event.noise_multiplier * event.bound > _MOST_ATOMS
    if many or mu * mu > _MOST_SQUARE:
        return Rho(mu * mu / 2)  # Canonne–Kamath–Steinke 2020, Theorem 4
    sensitivity, sigma = unit.sensitivity(event.bound), event.noise_multiplier * event.bound
    reach = math.ceil(40 * sigma) + 1
    x = np.arange(-reach, reach + 1, dtype=float)
    weight = np.exp(-((x / sigma) ** 2) / 2)
    keep = weight > 0
    losses = (sensitivity**2 - 2 * x * sensitivity) / (2 * sigma**2)
    return _same(
        Atoms(
            losses[keep][::-1].copy(),
            (weight / weight.sum())[keep][::-1].copy(),
            infinite=5e-324,
            anchor=sensitivity**2 / (2 * sigma**2),
            lattice=sensitivity / sigma**2,
            error=1e-15 * (800 + math.log2(2 * reach)),
        )
    )


@rule.register
def _(event: DiscreteLaplace, unit: Unit) -> Rule:
    """P(x) ∝ e^{−|x|/b} against the same moved by Δ: L(x) = (|x − Δ| − |x|)/b, ±Δ/b on the two half-lines."""
    loss = quotient_up(unit.sensitivity(1.0), event.noise_multiplier)
    if loss > _MOST_LOSS:
        return Unbounded()
    if event.bound > _MOST_ATOMS or unit.sensitivity(event.bound) > _MOST_ATOMS:
        return _same(_two_atoms(loss))
    sensitivity, scale = int(unit.sensitivity(event.bound)), event.noise_multiplier * event.bound
    x = np.arange(1, sensitivity, dtype=float)
    outer = 1 / (1 + math.exp(-1 / scale))
    losses = np.concatenate([[-loss], (sensitivity - 2 * x[::-1]) / scale, [loss]])
    middle = math.tanh(0.5 / scale) * np.exp(-x[::-1] / scale)
    mass = np.concatenate([[math.exp(-sensitivity / scale) * outer], middle, [outer]])
    lattice = 2 * loss if sensitivity == 1 else 2 / scale
    # a probability is e to an exponent of at most 745, which scale and quotient round by 3 units of itself
    error = 2.0**-53 * (8 + 3 * min(sensitivity / scale, 745.0))
    return _same(Atoms(losses, mass, anchor=loss, lattice=lattice, error=error))


def _two_atoms(epsilon: float, failure: float = 0.0) -> Atoms:
    """The worst (ε, δ) pair: +∞ with probability δ, else ±ε (Kairouz–Oh–Viswanath 2015)."""
    yes = (1 - failure) / (1 + math.exp(-epsilon))
    no = (1 - failure) / (1 + math.exp(epsilon)) if epsilon < 700 else 0.0
    return Atoms(np.array([-epsilon, epsilon]), np.array([no, yes]), failure, epsilon, 2 * epsilon)


@rule.register
def _(event: PureDP, unit: Unit) -> Rule:
    loss = sum_up([(event.epsilon, unit.rows_per_unit)])
    if loss > _MOST_LOSS:
        return Unbounded()
    return _same(_two_atoms(loss)) if loss > 0 else _NOTHING


@rule.register
def _(event: ApproxDP, unit: Unit) -> Rule:
    k, epsilon = unit.rows_per_unit, event.epsilon
    if event.delta >= 1:
        return Unbounded()
    if epsilon == 0 and event.delta == 0:
        return _NOTHING
    loss, failure = group(epsilon, event.delta, k)
    if failure >= 1 or loss > _MOST_LOSS:
        return Unbounded()
    if epsilon == 0:
        return _same(Atoms(np.array([0.0]), np.array([1 - failure]), failure, 0.0, 1.0))
    return _same(_two_atoms(loss, failure))


@rule.register
def _(event: Promise, unit: Unit) -> Rule:
    if unit.rows_per_unit > event.rows_per_unit:
        raise NotCertifiable(f"this promise is made for units of up to {event.rows_per_unit} rows, not for {unit}.")
    return rule(ApproxDP(event.epsilon, event.delta), Unit(unit.relation))


@rule.register
def _(event: RandomizedResponse, unit: Unit) -> Rule:
    """Truth has loss ε, a given lie −ε, any other answer 0. A unit of k rows answers k times, an absent one never."""
    require_presence(unit)
    if event.epsilon == 0:
        return _NOTHING
    if event.epsilon > _MOST_LOSS:
        return Unbounded()
    if event.categories == 2:
        return _same(_two_atoms(event.epsilon), unit.rows_per_unit)
    others = event.categories - 1
    truth = 1 / (1 + others * math.exp(-event.epsilon))
    lie = truth * math.exp(-event.epsilon)
    mass = np.array([lie, (others - 1) * lie, truth])
    losses = np.array([-event.epsilon, 0.0, event.epsilon])
    return _same(Atoms(losses, mass, anchor=event.epsilon, lattice=event.epsilon), unit.rows_per_unit)


@rule.register
def _(event: Selection, unit: Unit) -> Rule:
    """Exponential: losses in a window of length η, wherever it lies (bounded range, Dong–Durfee–Rogers 2020). The
    worst pair with
    losses {t, t − η} at each ε has t = (η + ε)/2, hence δ(ε) ≤ (1 − e^{(ε−η)/2})²/(1 − e^{−η}); t = η/2 is one that
    occurs. Permute-and-flip: no worse than Laplace noise (McKenna–Sheldon 2020; Ding et al. 2021); nor is the noisy
    maximum.
    """
    eta = sum_up([(event.epsilon, unit.rows_per_unit)])
    if eta == 0:
        return _NOTHING
    if eta > _MOST_LOSS:
        return Unbounded()
    if event.mechanism != "exponential":
        return _same(UpperOnly(LaplacePair(eta)))

    def bound(epsilon: Array) -> Array:
        return np.expm1((np.minimum(epsilon, eta) - eta) / 2) ** 2 / -math.expm1(-eta)

    return from_profile(bound, eta, attained=_two_atoms(eta / 2))


@rule.register
def _(event: ZCDP, unit: Unit) -> Rule:
    rho = sum_up([(event.rho, unit.rows_per_unit**2)])
    return Unbounded() if rho > _MOST_LOSS else Rho(rho)


@rule.register
def _(event: RenyiDP, unit: Unit) -> Rule:
    """δ(ε) ≤ e^{(α−1)(τ−ε)}/(α − 1)·(1 − 1/α)^α (Canonne–Kamath–Steinke 2020, Proposition 12)."""
    if unit.rows_per_unit > event.rows_per_unit:
        raise NotCertifiable(f"this bound is stated for units of up to {event.rows_per_unit} rows, not for {unit}.")
    alpha, tau = event.order, event.divergence * (1 + 1e-12)
    if tau > _MOST_LOSS:
        return Unbounded()
    constant = alpha * math.log1p(-1 / alpha) - math.log(alpha - 1)

    def bound(epsilon: Array) -> Array:
        return np.exp(np.clip((alpha - 1) * (tau - np.asarray(epsilon, dtype=float)) + constant, -746.0, 0.0))

    return from_profile(bound, tau + (745.0 + max(constant, 0.0)) / (alpha - 1))


def zcdp_pair(rho: float) -> ProfilePair:
    """A pair no better than any ρ-zCDP release.

    δ(ε) ≤ min over a > 1 of e^{(a−1)(aρ−ε)}/(a − 1)·(1 − 1/a)^a (Canonne–Kamath–Steinke 2020, Corollary 13); every a
    is valid, so one near the best gives a bound. A Gaussian with μ²/2 = ρ is one such release.
    """

    def bound(epsilon: Array) -> Array:
        # With b = a − 1 the best b solves (1 + 2b)ρ + log(b/(1 + b)) = ε, whose left side increases: a few steps of
        # Newton in log b.
        e = np.asarray(epsilon, dtype=float)
        b = np.maximum((e - rho) / (2 * rho), 0.0) + 0.3 / math.sqrt(rho)
        for _ in range(7):
            slope = 2 * b * rho + 1 / (1 + b)
            b = b * np.exp(np.clip((e - (1 + 2 * b) * rho - np.log(b / (1 + b))) / slope, -2.0, 2.0))
        value = b * ((1 + b) * rho - e) - np.log(b) + (1 + b) * np.log(b / (1 + b))
        return np.exp(np.clip(value, -746.0, 0.0)) * (1 + 1e-12)  # exponents of up to some thousands are rounded

    top = rho + math.sqrt(4 * rho * 745.0)
    return ProfilePair(symmetric(bound), -top, top, GaussianPair(math.sqrt(2 * rho)))


def profile_of(known: Rule) -> tuple[Callable[[Array], Array], float]:
    """A bound of δ(ε) for ε ≥ 0 over both directions, and the ε where it ends."""
    match known:
        case Mu(mu):
            pair = GaussianPair(max(mu, 1e-300))
            return lambda e: pair.profile(e) * (1 + 1e-12), pair.span(-745.0)[1]
        case Rho(rho):
            wide = zcdp_pair(max(rho, 1e-300))
            return wide.profile, wide.high
        case Pairs(remove, add, 1):
            if remove is add:
                return remove.profile, remove.span(-745.0)[1]
            top = max(remove.span(-745.0)[1], add.span(-745.0)[1])
            return lambda e: np.maximum(remove.profile(e), add.profile(e)), top
        case _:
            raise NotCertifiable("the event inside has no profile of its own to amplify.")


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
    found = worlds(event, unit)
    if len(found) != 1:
        return None
    mus = [(leaf.event.mu(leaf.unit), n) for leaf, n in found[0].items() if isinstance(leaf.event, Gaussian)]
    return root_of_squares(mus) if len(mus) == len(found[0]) else None


def _only_leaf(event: Event, unit: Unit, outer: str) -> Leaf:
    found = worlds(event, unit)
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
    return known if leaf.chain == 1 or isinstance(known, Unbounded) else _group(known, leaf.chain)


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
        return _NOTHING
    if inside is not None:
        if k > 64:
            raise NotCertifiable(f"sampled Gaussians are accounted for up to 64 rows a unit, got {k}.")
        weights, nu = (q,) if k == 1 else _binomial(k, q), inside.row
        if unit.relation == "replace-one":
            # the worst two rows are opposite, which bounds those that are nearer but is not reached by them
            opposite = Mixture(nu, weights, "replace")
            return _same(opposite if inside.swap >= 2 * nu else UpperOnly(opposite))
        return Pairs(Mixture(nu, weights, "remove"), Mixture(nu, weights, "add"))
    leaf = _only_leaf(event.event.restated(k), Unit(unit.relation), "Poisson sampling")
    known = _rule_of(leaf)
    if isinstance(known, Unbounded):
        return known
    if unit.relation == "add-remove":
        once = Pairs(amplified(_side(known, "remove"), q, "remove"), amplified(_side(known, "add"), q, "add"))
    elif isinstance(leaf.event, Laplace | DiscreteGaussian | DiscreteLaplace):  # noise protects a missing row too
        once = _exchanged_in_batch(known, q, replaced=True)
    else:
        # The guarantee was stated for exchanged rows only, and says nothing of a batch without the row: joint convexity
        # alone gives δ'(ε) = qδ(ε).
        profile, top = profile_of(known)
        once = from_profile(lambda e: q * profile(e), top)
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
    return from_profile(grouped(profile, k), sum_up([(top, k)]))


@rule.register
def _(event: FixedSize, unit: Unit) -> Rule:
    """Replace-one: whether or not the changed row is drawn, batches of equal size differ in one exchanged row, so all
    three outputs are neighbours. Add-remove (n the larger size): the smaller dataset's batch is the larger one's given
    that the row was not drawn, and given that it was, it stands in another's place: μ₁ and μ₀ differ by an exchange.
    The rows of a unit come or go one after the other, the last when only n − k + 1 are left; where the smallest dataset
    does not fill the batch, all k may be drawn.
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
            return _NOTHING
        remove, add = Mixture(inside.swap, (rate,), "remove"), Mixture(inside.swap, (rate,), "add")
        # If all others sit at u and the row moves from as far away as can be to u, each mixture is reached, but not
        # both at once.
        once = _same(Spliced(remove, add, remove)) if replaced else Pairs(remove, add)
        return once if k == 1 else _group(once, k)
    known = _rule_of(exchanged(_only_leaf(event.event.restated(k), Unit(unit.relation), "FixedSize")))
    if isinstance(known, Unbounded):
        return known
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
        return from_profile(remove.profile, remove.high)
    return _same(_spliced(known, rate))


def _all_exchanged(event: Event, unit: Unit) -> Rule:
    """All of the unit's rows are exchanged; from above only, for one of the batches may have fewer rows instead."""
    mu = _gaussian_mu(event, Unit("replace-one", unit.rows_per_unit))
    known = Mu(mu) if mu is not None else _rule_of(exchanged(_only_leaf(event, unit, "FixedSize"), resized=True))
    match known:
        case Mu(0.0) | Rho(0.0) | Unbounded():
            return known
        case Pairs(remove, add, times):
            return _same(_upper(remove), times) if remove is add else Pairs(_upper(remove), _upper(add), times)
        case _:
            return _same(_upper(_side(known, "remove")))


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
        return _NOTHING
    if n <= 1:
        return _same(UpperOnly(GaussianPair(m * inside.swap)))  # every draw may be the unit's
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
    lottery = Revealed(
        tuple((p / drawn * (1 + 1e-13)).tolist()),
        tuple(GaussianPair(int(i) * inside.swap) for i in j[:most]),
        min(1.0, rest / drawn),
    )
    remove, add = amplified(lottery, drawn, "remove"), amplified(lottery, drawn, "add")
    if unit.relation == "add-remove":
        once = Pairs(_upper(remove), _upper(add))
    else:
        whole = most <= 32 and rest < 1e-300
        reached = Mixture(inside.swap, tuple(p.tolist()), "remove") if whole else None
        once = _same(Spliced(remove, add, reached))  # type: ignore[arg-type]
    return once if unit.rows_per_unit == 1 else _group(once, unit.rows_per_unit)
