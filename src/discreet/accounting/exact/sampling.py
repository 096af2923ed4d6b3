"""What subsampling does to a pair, and to a profile.

With probability q the unit takes part (output μ₁), else not (μ₀). Add-remove: (1 − q)μ₀ + qμ₁ against μ₀, so the loss
l becomes log(1 − q + qe^l) and δ'(α) = q·δ(1 + (α − 1)/q), in the other direction −log(1 − q + qe^{−l})
(Zhu–Dong–Wang 2022, Theorem 11). Replace-one: (1 − q)μ₀ + qμ₁ against (1 − q)μ₀ + qμ₁'; where all three are
neighbours, advanced joint convexity gives the same formula for α ≥ 1 (Balle–Barthe–Gaboardi 2018, Theorem 2), and
swapping neighbours the values for α < 1. A single one of the mixtures' directions would not be enough there
(Lebeda–Regehr–Kamath–Steinke 2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.bounds import product_up
from discreet.accounting.exact.normal import FAINT
from discreet.accounting.exact.pairs import DiscretePair, Pair, ProfilePair, symmetric
from discreet.errors import NotCertifiable
from discreet.floats import UNIT_ROUNDOFF

__all__ = ["Amplified", "Deferred", "Revealed", "Spliced", "UpperOnly", "amplified", "amplify_profile", "grouped"]

Array = NDArray[Any]
_UP = 1 + 16 * UNIT_ROUNDOFF  # what keeps a greatest loss above the truth, whatever its logarithms were rounded to


@dataclass(frozen=True, eq=False)
class Amplified:
    """``inner`` with participation probability ``rate``, in one direction of add-remove."""

    inner: Pair
    rate: float
    kind: Literal["remove", "add"]
    lattice: float | None = None

    @property
    def infinite(self) -> float:
        """Only a unit that takes part can be given away for certain; rounded up."""
        return product_up(self.inner.infinite, self.rate) if self.kind == "remove" else 0.0

    @property
    def anchor(self) -> float:
        """The greatest loss, where mass sits in atoms."""
        return float(self._forward(np.array([self.inner.anchor]))[0])

    @property
    def top(self) -> float:
        """The greatest loss."""
        top = self.inner.top
        if math.isinf(top):
            return top if self.kind == "remove" else -math.log1p(-self.rate) * _UP
        return float(self._forward(np.array([top]))[0]) * _UP

    def _forward(self, loss: Array) -> Array:
        sign = 1.0 if self.kind == "remove" else -1.0
        y, q = sign * loss, self.rate
        small = np.log1p(q * np.expm1(np.minimum(y, 1.0)))
        return sign * np.where(y < 1, small, np.logaddexp(math.log1p(-q), np.maximum(y, 1.0) + math.log(q)))

    def _inverse(self, loss: Array) -> Array:
        sign, q = (1.0 if self.kind == "remove" else -1.0), self.rate
        y, floor = sign * loss, math.log1p(-self.rate)
        with np.errstate(divide="ignore", invalid="ignore"):
            far = y + np.log(-np.expm1(np.minimum(floor - y, 0.0))) - math.log(q)
            near = np.log1p(np.maximum(np.expm1(np.minimum(y, 1.0)) / q, -1.0))
        return sign * np.where(y <= floor, -np.inf, np.where(np.abs(y) < 0.1, near, far))

    def span(self, log_tail: float) -> tuple[float, float]:
        """The inner span, carried over."""
        low, high = self.inner.span(log_tail)
        ends = self._forward(np.array([low, high]))
        return float(ends[0]), float(ends[1])

    def masses(self, edges: Array) -> tuple[Array, Array]:
        """(1 − q)Q + qP and Q, or P and (1 − q)P + qQ, between the inner losses that lead to the edges."""
        p, q = self.inner.masses(self._inverse(edges))
        if self.kind == "remove":
            return (1 - self.rate) * q + self.rate * p, q
        return p, (1 - self.rate) * p + self.rate * q

    def bin_error(self, log_tail: float) -> float:
        """Two products and a sum more."""
        return self.inner.bin_error(log_tail) + 8 * UNIT_ROUNDOFF

    def slip(self, edges: Array) -> float:
        """The inner one, and that of the inverse: some units of the losses, of q, and of log q times the share."""
        inner = self._inverse(edges)
        inner = inner[np.isfinite(inner)]
        reach = float(np.abs(edges).max())
        share = min(1.0, reach + self.rate)
        carried = self.inner.slip(inner) + 32 * UNIT_ROUNDOFF * float(np.abs(inner).max()) if len(inner) else 0.0
        return share * (carried + 32 * UNIT_ROUNDOFF * (4 - math.log(self.rate))) + 16 * UNIT_ROUNDOFF * (
            reach + self.rate
        )

    def profile(self, epsilon: Array) -> Array:
        """qδ(1 + (α − 1)/q), or (1 − α(1 − q))·δ(αq/(1 − α(1 − q)))."""
        inner = self._inverse(np.asarray(epsilon, dtype=float))
        profile = self.inner.profile
        if self.kind == "remove":
            inside = self.rate * profile(np.maximum(inner, -700.0))
            return np.where(inner == -np.inf, -np.expm1(np.minimum(epsilon, 0.0)), inside)
        weight = np.maximum(-np.expm1(np.minimum(epsilon + math.log1p(-self.rate), 0.0)), 0.0)
        return np.where(inner == np.inf, 0.0, weight * profile(np.minimum(inner, 700.0)))


def amplified(inner: Pair | ProfilePair, rate: float, kind: Literal["remove", "add"]) -> Pair | ProfilePair:
    """The pair after sampling at ``rate``: atoms stay atoms, bounds stay bounds."""
    if isinstance(inner, ProfilePair):
        carrier = Amplified(inner, rate, kind)  # type: ignore[arg-type]
        low, high = carrier.span(-745.0)
        attained = amplified(inner.attained, rate, kind) if inner.attained is not None else None
        return ProfilePair(carrier.profile, low, high, attained=attained, top=carrier.top)  # type: ignore[arg-type]
    if isinstance(inner, UpperOnly):
        return UpperOnly(Amplified(inner, rate, kind))
    if not isinstance(inner, DiscretePair):
        return Amplified(inner, rate, kind)
    if inner.losses.min() < -700.0:
        raise NotCertifiable(
            "an atom's likelihood ratio exceeds a double: a sampled release needs losses of at most 700."
        )
    losses = Amplified(inner, rate, kind)._forward(inner.losses)
    losses = np.where(losses > 0, losses * _UP, losses)
    p = inner.probabilities
    q = p * np.exp(-inner.losses)
    if kind == "remove":
        mass, anchor = (1 - rate) * q + rate * p, float(losses.max())
        if inner.infinite > 0:  # Q where P has nothing
            unseen = max(0.0, 1.0 - math.fsum(q.tolist()))
            losses, mass = np.append(losses, math.log1p(-rate)), np.append(mass, (1 - rate) * unseen)
        return DiscretePair(losses, mass, product_up(inner.infinite, rate), anchor, error=1e-14)
    if inner.infinite > 0:  # an atom that never occurs would be the greatest loss all the same
        losses, p = np.append(losses, -math.log1p(-rate) * _UP), np.append(p, inner.infinite)
    return DiscretePair(losses, p, 0.0, float(losses.max()), error=1e-14)


@dataclass(frozen=True, eq=False)
class Spliced:
    """The worse of two directions at each ε: losses above 0 as in ``remove``, below 0 as in ``add``, an atom at 0
    for the rest.

    Its profile is δ_remove(ε) for ε ≥ 0 and δ_add(ε) for ε < 0. They agree at 0, where both are the total variation
    distance of the same two mixtures; the slope of the convex curve jumps there by the atom.
    """

    remove: Pair
    add: Pair
    attained: Pair | None = None
    lattice: float | None = None
    anchor: float = 0.0

    @property
    def infinite(self) -> float:
        """P(L = ∞) of the removing direction, the one in which an output can be certain."""
        return self.remove.infinite

    @property
    def top(self) -> float:
        """The greater of both."""
        return self.remove.top

    def span(self, log_tail: float) -> tuple[float, float]:
        """Below 0 from one, above 0 from the other."""
        return min(self.add.span(log_tail)[0], 0.0), max(self.remove.span(log_tail)[1], 0.0)

    def masses(self, edges: Array) -> tuple[Array, Array]:
        """Bins above 0, bins below 0, and the atom in the bin that holds 0."""
        cut = int(np.searchsorted(edges, 0.0, side="left"))
        whole = np.insert(edges, cut, 0.0)
        over = [mass[1:] for mass in self.remove.masses(whole[cut:])]
        under = [mass[:-1] for mass in self.add.masses(whole[: cut + 1])]
        both = []
        unsure = 4 * self.bin_error(-745.0)  # of the sums that the atom is left over from
        atom = 1 - self.infinite - float(over[0].sum()) - float(under[0].sum())
        for above, below in zip(over, under, strict=True):
            joined = np.concatenate([below, above])
            joined[cut] += max(atom, 0.0) + unsure  # P and Q agree at loss 0
            joined[cut] += joined[cut + 1]  # undo the inserted edge: the bin (…, 0] and (0, …] belong together
            both.append(np.delete(joined, cut + 1))
        return both[0], both[1]

    def bin_error(self, log_tail: float) -> float:
        """The larger of both."""
        return max(self.remove.bin_error(log_tail), self.add.bin_error(log_tail))

    def slip(self, edges: Array) -> float:
        """The larger of both."""
        return max(self.remove.slip(edges), self.add.slip(edges))

    def profile(self, epsilon: Array) -> Array:
        """One direction on each side."""
        return np.where(epsilon >= 0, self.remove.profile(epsilon), self.add.profile(epsilon))


@dataclass(frozen=True, eq=False)
class Revealed:
    """A pair drawn by a public lottery: losses are those of pair i with probability ``weights[i]``, else given away."""

    weights: tuple[float, ...]
    pairs: tuple[Pair, ...]
    infinite: float = 0.0
    top: float = math.inf
    lattice: float | None = None
    anchor: float = 0.0

    def span(self, log_tail: float) -> tuple[float, float]:
        """The widest, where a ticket's own rarity already pays for part of the tail."""
        spans = [
            pair.span(min(log_tail - math.log(weight), -1.0))
            for weight, pair in zip(self.weights, self.pairs, strict=True)
            if math.log(weight) > log_tail
        ]
        return min(low for low, _ in spans), max(high for _, high in spans)

    def masses(self, edges: Array) -> tuple[Array, Array]:
        """Weighted sums."""
        p, q = np.zeros(len(edges) + 1), np.zeros(len(edges) + 1)
        for weight, pair in zip(self.weights, self.pairs, strict=True):
            a, b = pair.masses(edges)
            p += weight * a
            q += weight * b
        return p, q

    def bin_error(self, log_tail: float) -> float:
        """The largest, with the rounding of the weights and of their sum."""
        spans = [-math.log(weight) for weight in self.weights if math.log(weight) > log_tail]
        most = max(pair.bin_error(log_tail - max(spans)) for pair in self.pairs)
        return most + 4 * UNIT_ROUNDOFF * (len(self.pairs) + 750)

    def slip(self, edges: Array) -> float:
        """The largest."""
        return max(pair.slip(edges) for pair in self.pairs)

    def profile(self, epsilon: Array) -> Array:
        """Weighted sum."""
        total = np.full(np.shape(epsilon), self.infinite)
        for weight, pair in zip(self.weights, self.pairs, strict=True):
            total = total + weight * pair.profile(epsilon)
        return total


@dataclass(frozen=True, eq=False)
class Deferred:
    """A pair with a density, or of many atoms, that is made when it is first asked: lower bounds are not always."""

    make: Callable[[], Pair]
    infinite: float = 0.0
    top: float = math.inf
    anchor: float = 0.0
    lattice: float | None = None

    @cached_property
    def pair(self) -> Pair:
        """The pair itself."""
        return self.make()

    def span(self, log_tail: float) -> tuple[float, float]:
        """Losses outside which the pair has negligible probability."""
        return self.pair.span(log_tail)

    def masses(self, edges: Array) -> tuple[Array, Array]:
        """P and Q of the bins between ``edges``."""
        return self.pair.masses(edges)

    def bin_error(self, log_tail: float) -> float:
        """A bound on the relative errors of `masses` on the span for ``log_tail``."""
        return self.pair.bin_error(log_tail)

    def slip(self, edges: Array) -> float:
        """A bound on how far rounding moves the ends of the bins of `masses`."""
        return self.pair.slip(edges)

    def profile(self, epsilon: Array) -> Array:
        """δ(ε) in plain floating point."""
        return self.pair.profile(epsilon)


@dataclass(frozen=True, eq=False)
class UpperOnly:
    """A pair that dominates but need not be reached: good for upper bounds, silent about lower ones."""

    pair: Pair
    attained: Pair | None = None

    @property
    def infinite(self) -> float:
        """P(L = ∞) of the dominating pair."""
        return self.pair.infinite

    @property
    def top(self) -> float:
        """The greatest loss of the dominating pair."""
        return self.pair.top

    @property
    def anchor(self) -> float:
        """A loss of the dominating pair that a lattice should meet."""
        return self.pair.anchor

    @property
    def lattice(self) -> float | None:
        """The spacing of the dominating pair's atoms, None where it has none."""
        return self.pair.lattice

    def span(self, log_tail: float) -> tuple[float, float]:
        """Losses outside which the dominating pair has negligible probability."""
        return self.pair.span(log_tail)

    def masses(self, edges: Array) -> tuple[Array, Array]:
        """P and Q of the bins between ``edges`` under the dominating pair."""
        return self.pair.masses(edges)

    def bin_error(self, log_tail: float) -> float:
        """A bound on the relative errors of `masses` on the span for ``log_tail``."""
        return self.pair.bin_error(log_tail)

    def slip(self, edges: Array) -> float:
        """A bound on how far rounding moves the ends of the bins of `masses`."""
        return self.pair.slip(edges)

    def profile(self, epsilon: Array) -> Array:
        """δ(ε) of the dominating pair, an upper bound of what it stands for."""
        return self.pair.profile(epsilon)


def amplify_profile(profile: Callable[[Array], Array], rate: float) -> Callable[[Array], Array]:
    """ε ↦ q·δ(log(1 + (e^ε − 1)/q)) for ε ≥ 0, and by symmetry for ε < 0."""

    def positive(epsilon: Array) -> Array:
        near = np.log1p(np.expm1(np.minimum(epsilon, 1.0)) / rate)
        with np.errstate(divide="ignore"):
            large = epsilon + np.log(np.maximum(1 - (1 - rate) * np.exp(-epsilon), 1e-300)) - math.log(rate)
        return rate * profile(np.where(epsilon < 1, near, large))

    return symmetric(positive)


def grouped(profile: Callable[[Array], Array], k: int, *, pure: bool = False) -> Callable[[Array], Array]:
    """Group privacy: k neighbours in a row have δ_k(ε) ≤ Σ_{i<k} e^{iε/k}·δ(ε/k) (Vadhan 2017, Lemma 2.2).

    The sum may be e^ε, so that what δ(ε/k) lost to underflow counts, unless the losses of one neighbour are bounded
    (``pure``) and it is 0 in truth.
    """
    missing = 0.0 if pure else FAINT

    def positive(epsilon: Array) -> Array:
        share = epsilon / k
        with np.errstate(over="ignore"):
            factor = np.sum([np.exp(np.minimum(i * share, 700.0)) for i in range(k)], axis=0)
        return np.minimum(1.0, factor * (profile(share) + missing))

    return symmetric(positive)
