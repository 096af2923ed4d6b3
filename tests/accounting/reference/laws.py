"""The worst pairs of neighbours, written down anew from their definitions, in ball arithmetic.

Nothing here is imported from `discreet.accounting`: only events are read. Each leaf of an event becomes a *law* of its
privacy loss L = log dP/dQ under P, once per direction: ``remove`` (the unit's rows are in P's dataset), ``add`` (in
Q's) or ``replace``. Laws are exact: every parameter is the rational number that the float is.

- `Normal`: N(μ, 1) against N(0, 1), so that L is N(μ²/2, μ²).
- `Mixed`: a Gaussian sum of a Poisson sample: φ(x)A(x) against φ(x) (remove), φ(x) against φ(x)A(x) (add), φ(x)A(x)
  against φ(x)A(−x) (replace), with A(x) = Σ_j b_j exp(jνx − j²ν²/2) and binomial b_j.
- `Laplacian`: Laplace noise, and the same moved by ε₀ scales.
- `Amplified`: Laplace noise on a sample. With μ₀ the noise and μ₁ the noise moved, (1 − q)μ₀ + qμ₁ against μ₀ (remove),
  or the reverse (add).
- `Points`: finitely many losses, and +∞ with probability ``infinite``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from flint import arb, fmpq

from discreet import events as ev

__all__ = [
    "Amplified",
    "Laplacian",
    "Law",
    "Mixed",
    "Normal",
    "Points",
    "Unsupported",
    "clear",
    "directions",
    "is_attained_only",
    "leaves",
]


class Unsupported(Exception):
    """No law is written here for this event."""


@dataclass(frozen=True)
class Normal:
    """N(μ, 1) against N(0, 1), by μ²."""

    mu_squared: arb


@dataclass(frozen=True)
class Mixed:
    """A Poisson sample at ``rate`` of a Gaussian sum whose ``rows`` rows each move it by ν deviations."""

    nu: arb
    rate: arb
    rows: int
    kind: str


@dataclass(frozen=True)
class Laplacian:
    """Laplace noise of scale 1 against the same moved by ε₀."""

    shift: arb


@dataclass(frozen=True)
class Points:
    """Losses and their probabilities under P; ``missing`` bounds the probability that was left out."""

    losses: tuple[arb, ...]
    weights: tuple[arb, ...]
    infinite: arb
    missing: arb
    lattice: bool = False


@dataclass(frozen=True)
class Amplified:
    """Laplace noise moved by ``shift`` scales, or with probability 1 − ``rate`` not at all."""

    shift: arb
    rate: arb
    kind: str


Law = Normal | Mixed | Laplacian | Points | Amplified


def exact(value: float | int) -> arb:
    """The ball of radius 0 around a double or an integer."""
    if isinstance(value, int):
        return arb(value)
    top, bottom = value.as_integer_ratio()
    return arb(fmpq(top, bottom)) if bottom.bit_length() < 200 else arb(value)


def clear() -> None:
    """Forget the tables of the last precision."""
    for table in (point_law, _noise_table, _laplace_table):
        table.cache_clear()


def leaves(event: ev.Event) -> list[tuple[ev.Event, int]]:
    """The leaves of compositions and repetitions, with counts."""
    if isinstance(event, ev.Compose):
        return [pair for part in event.events for pair in leaves(part)]
    if isinstance(event, ev.Repeat):
        return [(leaf, count * event.times) for leaf, count in leaves(event.event) if event.times]
    return [(event, 1)]


def directions(event: ev.Event, relation: str, rows: int = 1) -> list[list[tuple[Law, int]]]:
    """The laws of an event, with counts: one list for each direction that must be protected.

    Under replace-one any two neighbours may be exchanged. The pairs below are their own mirror images, but those of
    samples of fixed size: these are taken in both orders.
    """
    kinds = [("replace", "remove")] if relation == "replace-one" else [("remove", "remove"), ("add", "add")]
    if relation == "replace-one" and any(
        isinstance(leaf, ev.FixedSize | ev.WithReplacement) for leaf, _ in leaves(event)
    ):
        kinds.append(("replace", "add"))
    return [[(_law(leaf, kind, order, rows), count) for leaf, count in leaves(event)] for kind, order in kinds]


def is_attained_only(event: ev.Event, relation: str) -> bool:
    """Whether some law is that of one pair of neighbours that need not be the worst: δ(ε) is then at least the ball."""
    return any(
        isinstance(
            leaf,
            ev.FixedSize
            | ev.WithReplacement
            | ev.Selection
            | ev.PrivateSelection
            | ev.ZCDP
            | ev.RenyiDP
            | ev.ObjectivePerturbation,
        )
        or (
            relation == "replace-one"
            and isinstance(leaf, ev.Poisson)
            and isinstance(leaf.event, ev.DiscreteGaussian | ev.DiscreteLaplace)
        )
        for leaf, _ in leaves(event)
    )


def _law(leaf: ev.Event, kind: str, order: str, rows: int) -> Law:
    exchanged = 2 if kind == "replace" else 1
    match leaf:
        case ev.Gaussian(sigma, factor):
            factor = exact(factor) if kind == "replace" else arb(1)
            return Normal((factor * rows / exact(sigma)) ** 2)
        case ev.Laplace(scale):
            return Laplacian(arb(exchanged * rows) / exact(scale))
        case ev.ZCDP(rho) if rho > 0:  # a Gaussian is one
            return Normal(2 * exact(rho) * rows**2)
        case ev.ObjectivePerturbation(sigma):  # rows with a linear loss move the tilt alone, and the minimiser with it
            return Normal((arb(exchanged * rows) / exact(sigma)) ** 2)
        case ev.RenyiDP(order, divergence, most) if divergence > 0 and rows <= most:  # so is one with D_α = αμ²/2
            return Normal(2 * exact(divergence) / exact(order))
        case ev.Poisson(rate, ev.Gaussian(sigma, 2.0)) if 0 < rate < 1:
            return Mixed(1 / exact(sigma), exact(rate), rows, kind)
        case ev.Poisson(rate, ev.Laplace(scale)) if 0 < rate < 1 and rows == 1 and kind != "replace":
            return Amplified(1 / exact(scale), exact(rate), kind)
        case ev.Poisson(rate, inner) if 0 < rate < 1 and rows == 1:
            return _sampled(inner, exact(rate), kind)
        case ev.FixedSize(batch, n, inner) if batch < n and rows == 1:
            return _drawn(inner, arb(batch) / n, order, kind)
        case ev.WithReplacement(batch, n, ev.Gaussian(sigma, factor)) if n > 1 and rows == 1:
            # all others at one end, the row at the other: drawn j times it moves the sum j times as far
            return Mixed(exact(factor) / exact(sigma), arb(1) / n, batch, order)
    return point_law(leaf, exchanged * rows, rows)


def _drawn(inner: ev.Event, rate: arb, order: str, kind: str) -> Law:
    """A sample of fixed size, all others at one end, the row at the other: once in it stands in another's place."""
    match inner:
        case ev.Gaussian(sigma, factor):
            return Mixed(exact(factor) / exact(sigma), rate, 1, order)
        case ev.Laplace(scale):
            return Amplified(2 / exact(scale), rate, order)
        case ev.DiscreteGaussian() | ev.DiscreteLaplace():
            return _sampled_response(inner, rate, order, 2)
        case ev.PureDP() if kind == "replace":
            return _sampled_response(inner, rate, order, 2)
    raise Unsupported(repr(inner))


@cache
def point_law(leaf: ev.Event, moved: int, rows: int) -> Points:
    """The pair of a discrete leaf without sampling; both directions are alike."""
    match leaf:
        case ev.DiscreteGaussian(multiplier, bound):
            return _loss(*_noise_table(leaf, exact(multiplier) * bound), moved * bound)
        case ev.DiscreteLaplace(multiplier, bound):
            return _discrete_laplace(exact(multiplier) * bound, moved * bound)
        case ev.PureDP(epsilon) if epsilon > 0:
            return _failing(rows * exact(epsilon), arb(0))
        case ev.ApproxDP(epsilon, delta) if epsilon > 0 and delta < 1 and rows == 1:
            return _failing(exact(epsilon), exact(delta))
        case ev.Selection(epsilon, "exponential") if epsilon > 0:
            return _window(rows * exact(epsilon))
        case ev.Selection(epsilon, "permute-and-flip") if epsilon > 0:
            return _two_candidates((-rows * exact(epsilon)).exp() / 2)
        case ev.Selection(epsilon, "noisy-max") if epsilon > 0:
            return _two_candidates((-rows * exact(epsilon)).exp() * (2 + rows * exact(epsilon)) / 4)
        case ev.PrivateSelection(ev.PureDP(epsilon), mean, distribution) if epsilon > 0 and rows == 1:
            return _best_of(exact(epsilon), exact(mean), distribution)
        case ev.RandomizedResponse(epsilon, k) if epsilon > 0 and rows == 1:
            e = exact(epsilon)
            total = e.exp() + (k - 1)
            if k == 2:
                return _failing(e, arb(0))
            masses = (1 / total, (k - 2) / total, e.exp() / total)
            return Points((-e, arb(0), e), masses, arb(0), arb(0), lattice=True)
    raise Unsupported(repr(leaf))


def _failing(epsilon: arb, delta: arb) -> Points:
    """The worst (ε, δ) pair: it fails with probability δ, else it is randomised response (Kairouz et al. 2015)."""
    yes = (1 - delta) / (1 + (-epsilon).exp())
    return Points((-epsilon, epsilon), ((1 - delta) - yes, yes), delta, arb(0), lattice=True)


def _window(width: arb) -> Points:
    """An exponential mechanism between two outcomes whose losses are the width factor: ¾ and −¼ of it.

    Where one outcome's score rises and the other's falls, losses are t and t − η, and any t in [0, η] occurs.
    """
    high, low = 3 * width / 4, -width / 4
    yes = ((-low).exp() - 1) / ((-low).exp() - (-high).exp())
    return Points((low, high), (1 - yes, yes), arb(0), arb(0), lattice=True)


def _two_candidates(lower: arb) -> Points:
    """Equal scores, so that either is chosen with ½, against the widest gap, where the lower one is with ``lower``.

    Each of two scores may move by Δ, the gap x by 2Δ. Permute-and-flip takes the lower one if it comes first and is
    accepted, ½e^{−εx/2Δ}; with Laplace noise of scale b = 2Δ/ε it wins with ½e^{−x/b}(1 + x/2b).
    """
    half = arb(1) / 2
    return Points((-(2 - 2 * lower).log(), -(2 * lower).log()), (half, half), arb(0), arb(0), lattice=True)


def _best_of(epsilon: arb, mean: arb, distribution: str) -> Points:
    """The best of K runs that say "good" with probability e^ε·t against t, t = 1/8(1 + e^ε): "good", "bad" or none.

    No run of K says "good" with probability E(1 − p)^K: γx/(1 − (1 − γ)x) at x = 1 − p for geometric K with mean 1/γ,
    e^{−mp} for Poisson K, of which e^{−m} is no run at all.
    """
    least = 1 / (8 * (1 + epsilon.exp()))
    bad, none = [], arb(0)
    for p in (epsilon.exp() * least, least):
        if distribution == "geometric":
            bad.append((1 - p) / mean / (1 - (1 - 1 / mean) * (1 - p)))
        elif distribution == "poisson":
            none = (-mean).exp()
            bad.append((-mean * p).exp() - none)
        else:
            raise Unsupported(distribution)
    good = [1 - b - none for b in bad]
    losses = ((bad[0] / bad[1]).log(), arb(0), (good[0] / good[1]).log())
    return Points(losses, (bad[0], none, good[0]), arb(0), arb(0))


@cache
def _noise_table(leaf: ev.Event, sigma: arb) -> tuple[arb, tuple[arb, ...], arb]:
    """σ², P(0), P(1), … and a bound of all that lies beyond either end of the table."""
    reach = math.ceil(float(sigma) * 17) + 2
    rate = 1 / (2 * sigma**2)
    weights = [(-rate * x * x).exp() for x in range(reach + 1)]
    # e^{−(x+1)²r} / e^{−x²r} = e^{−(2x+1)r}, which falls with x: a geometric series bounds the rest
    ratio = (-rate * (2 * reach + 1)).exp()
    rest = weights[-1] * ratio / (1 - ratio)
    total = weights[0] + 2 * sum(weights[1:], arb(0)) + 2 * arb(0).union(rest)
    return sigma**2, tuple(w / total for w in weights), rest


def _loss(variance: arb, table: tuple[arb, ...], rest: arb, moved: int) -> Points:
    """P(x) ∝ e^{−x²/2σ²} against the same moved by Δ: L(x) = (Δ² − 2xΔ)/2σ²."""
    reach = len(table) - 1
    places = range(reach, -reach - 1, -1)
    losses = tuple((moved * moved - 2 * x * moved) / (2 * variance) for x in places)
    return Points(losses, tuple(table[abs(x)] for x in places), arb(0), 2 * rest, lattice=True)


def _discrete_laplace(scale: arb, moved: int) -> Points:
    """P(x) ∝ e^{−|x|/b} against the same moved by Δ: L(x) = (|x − Δ| − |x|)/b, constant on both half-lines."""
    fall = (-1 / scale).exp()
    middle = (1 - fall) / (1 + fall)
    outer = 1 / (1 + fall)
    losses = [arb(-moved) / scale, *((arb(moved - 2 * x)) / scale for x in range(moved - 1, 0, -1)), moved / scale]
    weights = [(-moved / scale).exp() * outer, *(middle * fall**x for x in range(moved - 1, 0, -1)), outer]
    return Points(tuple(losses), tuple(weights), arb(0), arb(0), lattice=True)


def _sampled(inner: ev.Event, rate: arb, kind: str) -> Points:
    """A discrete event on a Poisson sample."""
    if kind != "replace":
        return _sampled_response(inner, rate, kind, 1)
    if isinstance(inner, ev.DiscreteGaussian | ev.DiscreteLaplace):
        return _sampled_noise(inner, rate)
    # A stated guarantee says nothing of a batch without the row, which may be told from all others: P and Q are alike
    # there, and with probability q the worst pair of exchanged rows is seen. Joint convexity: it is never worse.
    law = point_law(inner, 2, 1)
    weights = (*(rate * w for w in law.weights), 1 - rate)
    return Points((*law.losses, arb(0)), weights, rate * law.infinite, arb(0))


def _sampled_response(inner: ev.Event, rate: arb, kind: str, moved: int) -> Points:
    """(1 − q)Q + qP against Q, or P against (1 − q)P + qQ, for finitely many outcomes P, Q of the event inside."""
    law = point_law(inner, moved, 1)
    losses, weights = [], []
    for loss, weight in zip(law.losses, law.weights, strict=True):
        if kind == "remove":
            losses.append((1 - rate + rate * loss.exp()).log())
            weights.append(weight * (-loss).exp() * (1 - rate) + rate * weight)
        else:
            losses.append(-(1 - rate + rate * (-loss).exp()).log())
            weights.append(weight)
    if bool(law.infinite > 0):  # outcomes that only Q has (as many as only P has, the pairs above being symmetric)
        losses.append((1 - rate).log() if kind == "remove" else -(1 - rate).log())
        weights.append(law.infinite * (1 - rate) if kind == "remove" else law.infinite)
    infinite = law.infinite * rate if kind == "remove" else arb(0)
    # what the table leaves out of P: under ``remove`` also out of Q, whose table ends Δ further to one side
    missing = law.missing if kind == "add" else _both_missing(law, rate)
    return Points(tuple(losses), tuple(weights), infinite, missing)


def _both_missing(law: Points, rate: arb) -> arb:
    if law.missing == 0:
        return arb(0)
    q_mass = sum((w * (-loss).exp() for loss, w in zip(law.losses, law.weights, strict=True)), law.infinite)
    return (rate * law.missing + (1 - q_mass).abs_upper()).upper()


def _sampled_noise(inner: ev.Event, rate: arb) -> Points:
    """(1 − q)N₀ + qN_Δ against (1 − q)N₀ + qN_{−Δ}, N_a the noise moved by a: with the row in the batch the sum moves.

    Rows at opposite ends are one pair of neighbours; what they reach bounds the truth from below only.
    """
    if isinstance(inner, ev.DiscreteGaussian):
        _, table, rest = _noise_table(inner, exact(inner.noise_multiplier) * inner.bound)
    elif isinstance(inner, ev.DiscreteLaplace):
        table, rest = _laplace_table(exact(inner.noise_multiplier) * inner.bound)
    else:
        raise Unsupported(repr(inner))
    reach, moved = len(table) - 1, inner.bound

    def noise(x: int) -> arb:
        return table[abs(x)]

    losses, weights = [], []
    for x in range(-reach + moved, reach - moved + 1):
        p = (1 - rate) * noise(x) + rate * noise(x - moved)
        q = (1 - rate) * noise(x) + rate * noise(x + moved)
        losses.append((p / q).log())
        weights.append(p)
    missing = (1 - sum(weights, arb(0))).abs_upper()
    return Points(tuple(losses), tuple(weights), arb(0), missing + rest)


@cache
def _laplace_table(scale: arb) -> tuple[tuple[arb, ...], arb]:
    fall = (-1 / scale).exp()
    reach = math.ceil(float(scale) * 110) + 2
    return tuple((1 - fall) / (1 + fall) * fall**x for x in range(reach + 1)), fall ** (reach + 1)
