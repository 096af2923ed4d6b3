"""What subsampling does to a pair, and to a profile.

With probability q the unit takes part (output μ₁), else not (μ₀). Add-remove: (1 − q)μ₀ + qμ₁ against μ₀, so the loss l becomes
log(1 − q + qe^l) and δ'(α) = q·δ(1 + (α − 1)/q), in the other direction −log(1 − q + qe^{−l}) (Zhu–Dong–Wang 2022, Theorem 11).
Replace-one: (1 − q)μ₀ + qμ₁ against (1 − q)μ₀ + qμ₁'; where all three are neighbours, advanced joint convexity gives the
same formula for α ≥ 1 (Balle–Barthe–Gaboardi 2018, Theorem 2), and swapping neighbours the values for α < 1. A single one of
the mixtures' directions would not be enough there (Lebeda–Regehr–Kamath–Steinke 2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.pairs import Atoms, Pair, ProfilePair, symmetric

__all__ = ["Amplified", "amplified", "amplify_profile", "grouped"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Amplified:
    """``inner`` with participation probability ``rate``, in one direction of add-remove."""

    inner: Pair
    rate: float
    kind: Literal["remove", "add"]
    lattice: float | None = None

    @property
    def infinite(self) -> float:
        """Only a unit that takes part can be given away for certain."""
        return self.inner.infinite * self.rate if self.kind == "remove" else 0.0

    @property
    def anchor(self) -> float:
        """The greatest loss, where mass sits in atoms."""
        return float(self._forward(np.array([self.inner.anchor]))[0])

    @property
    def top(self) -> float:
        """The greatest loss."""
        top = float(getattr(self.inner, "top", math.inf))
        if self.kind == "add":
            return -math.log1p(-self.rate) if math.isinf(top) else float(self._forward(np.array([top]))[0])
        return top if math.isinf(top) else float(self._forward(np.array([top]))[0])

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

    def profile(self, epsilon: Array) -> Array:
        """qδ(1 + (α − 1)/q), or (1 − α(1 − q))·δ(αq/(1 − α(1 − q)))."""
        inner = self._inverse(np.asarray(epsilon, dtype=float))
        profile: Callable[[Array], Array] = getattr(self.inner, "profile")  # noqa: B009
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
    if not isinstance(inner, Atoms):
        return Amplified(inner, rate, kind)
    losses = Amplified(inner, rate, kind)._forward(inner.losses)
    p = inner.probabilities
    q = p * np.exp(-inner.losses)
    if kind == "remove":
        unseen = max(0.0, 1.0 - math.fsum(q.tolist())) if inner.infinite > 0 else 0.0  # Q where P has nothing
        losses = np.append(losses, math.log1p(-rate))
        mass = np.append((1 - rate) * q + rate * p, (1 - rate) * unseen)
        return Atoms(losses, mass, inner.infinite * rate, float(losses[:-1].max()), error=1e-14)
    losses = np.append(losses, -math.log1p(-rate))
    return Atoms(losses, np.append(p, inner.infinite), 0.0, float(losses.max()), error=1e-14)


def amplify_profile(profile: Callable[[Array], Array], rate: float) -> Callable[[Array], Array]:
    """ε ↦ q·δ(log(1 + (e^ε − 1)/q)) for ε ≥ 0, and by symmetry for ε < 0."""

    def positive(epsilon: Array) -> Array:
        near = np.log1p(np.expm1(np.minimum(epsilon, 1.0)) / rate)
        with np.errstate(divide="ignore"):
            large = epsilon + np.log(np.maximum(1 - (1 - rate) * np.exp(-epsilon), 1e-300)) - math.log(rate)
        return rate * profile(np.where(epsilon < 1, near, large))

    return symmetric(positive)


def grouped(profile: Callable[[Array], Array], k: int) -> Callable[[Array], Array]:
    """Group privacy: k neighbours in a row have δ_k(ε) ≤ Σ_{i<k} e^{iε/k}·δ(ε/k) (Vadhan 2017, Lemma 2.2)."""

    def positive(epsilon: Array) -> Array:
        share = epsilon / k
        with np.errstate(over="ignore"):
            factor = np.sum([np.exp(np.minimum(i * share, 700.0)) for i in range(k)], axis=0)
        return np.minimum(1.0, factor * profile(share))

    return symmetric(positive)
