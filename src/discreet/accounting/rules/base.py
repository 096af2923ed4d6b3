"""What an accounting rule is: one leaf of an event in the terms that composition can use, and the registry of rules."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.exact.pairs import DiscretePair, GaussianPair, Pair, ProfilePair, symmetric
from discreet.errors import NotCertifiable
from discreet.events import Event
from discreet.units import Unit

__all__ = [
    "LEAST_BEYOND",
    "MOST_LOSS",
    "NOTHING",
    "Mu",
    "Pairs",
    "Rho",
    "Rule",
    "Side",
    "Unbounded",
    "both",
    "from_profile",
    "is_pure",
    "profile_of",
    "rule",
    "two_atoms",
    "zcdp_pair",
]

Array = NDArray[Any]
MOST_LOSS = 1e300
"""Sums and spacings of larger losses are beyond the range of doubles: they count as infinite, from above."""
LEAST_BEYOND = 1e299
"""ε(δ) is at least this at every double δ < 1 where some neighbours reach a loss above half of MOST_LOSS with
probability 1/(1 + e^−loss), or a Laplace or Gaussian pair does: it is at least MOST_LOSS/2 + 2·log(1 − δ)."""
Side = Pair | ProfilePair


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
    """No finite ε is proved at any δ < 1; ε is at least ``least``, infinite if the release tells all."""

    least: float = 0.0


Rule = Mu | Pairs | Rho | Unbounded
NOTHING = Mu(0.0)


def both(pair: Side, times: int = 1) -> Pairs:
    """The rule of an event that has one dominating pair for both directions, ``times`` times."""
    return Pairs(pair, pair, times)


def from_profile(
    bound: Callable[[Array], Array],
    top: float,
    attained: Pair | None = None,
    inverse: Callable[[float], float] | None = None,
    family: Callable[[float], DiscretePair] | None = None,
    *,
    pure: bool = False,
) -> Pairs:
    """The rule of an event known by a bound on its privacy profile.

    Args:
        bound: ε ↦ a bound of δ(ε), for arrays of ε ≥ 0, for both orders of every pair of neighbours.
        top: beyond this ε the bound is negligible (or 0): what is left of it there counts as failure.
        attained: a pair that some neighbours reach, for lower bounds.
        inverse: δ ↦ an ε with bound(ε) ≤ δ, where that costs less than a search.
        family: a number in (0, 1) ↦ another pair that some neighbours reach.
        pure: a bound of 0 at ``top`` means that no loss is greater. Otherwise it only means that δ is below all
            doubles, as that of Gaussian noise is somewhere, and no ε is stated at δ = 0.
    """
    most = top if pure and float(bound(np.array([top]))[0]) == 0.0 else math.inf
    return both(ProfilePair(symmetric(bound), -top, top, attained, most, inverse=inverse, family=family))


@functools.singledispatch
def rule(event: Event, unit: Unit) -> Rule:
    """The rule for one leaf under a unit of privacy.

    Raises:
        NotCertifiable: nothing is known about this event (under this unit).
    """
    raise NotCertifiable(f"no accounting rule for {type(event).__name__}; register one with accounting.rules.rule.")


def two_atoms(epsilon: float, failure: float = 0.0) -> DiscretePair:
    """The worst (ε, δ) pair: +∞ with probability δ, else ±ε (Kairouz–Oh–Viswanath 2015)."""
    yes = (1 - failure) / (1 + math.exp(-epsilon))
    no = (1 - failure) / (1 + math.exp(epsilon)) if epsilon < 700 else 0.0
    return DiscretePair(np.array([-epsilon, epsilon]), np.array([no, yes]), failure, epsilon, 2 * epsilon)


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


def is_pure(known: Rule) -> bool:
    """Whether there is a greatest loss, in both directions."""
    return isinstance(known, Pairs) and math.isfinite(known.remove.top) and math.isfinite(known.add.top)


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
