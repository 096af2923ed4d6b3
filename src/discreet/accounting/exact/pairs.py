"""Pairs of output distributions that dominate what one unit can change, one small class a family.

A pair (P, Q) is known by its privacy loss L = log dP/dQ. `masses` gives P and Q of the bins between loss values, all
that a lattice needs (`discreet.accounting.exact.lattice`); `profile` gives δ(ε) = E_P(1 − e^{ε−L})₊ at every real ε;
pairs that know E e^{sL} also give it along a contour (`discreet.accounting.exact.contour`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr, ndtr

from discreet.accounting.exact.normal import bin_error, normal_bins
from discreet.accounting.exact.transform import OnContour, on_contour
from discreet.floats import UNIT_ROUNDOFF

__all__ = [
    "DiscretePair",
    "GaussianPair",
    "LaplacePair",
    "Pair",
    "ProfilePair",
    "attained",
    "is_dear",
    "roughly",
    "symmetric",
]

Array = NDArray[Any]
_MU_ERROR = 32 * UNIT_ROUNDOFF  # relative, of μ²: √(Σ nμ²) is off by 8 units, its square and products by as many
_LARGEST_EXPONENT = 700.0


class Pair(Protocol):
    """What every dominating pair can say."""

    @property
    def infinite(self) -> float:
        """P(L = ∞), exactly or the next double above."""

    @property
    def top(self) -> float:
        """The greatest loss there can be."""

    def profile(self, epsilon: Array) -> Array:
        """δ(ε) in plain floating point."""

    @property
    def anchor(self) -> float:
        """A loss that a lattice should meet: an atom, or where mass crowds."""

    @property
    def lattice(self) -> float | None:
        """The spacing of the atoms, counted from the anchor, when there are some."""

    def span(self, log_tail: float) -> tuple[float, float]:
        """Losses (low, high) with P(high < L < ∞) ≤ e^log_tail, and P(L < low) equally negligible."""

    def masses(self, edges: Array) -> tuple[Array, Array]:
        """P and Q of the bins (−∞, e₀], (e₀, e₁], …, (e_n, ∞), each to a relative ``bin_error``, where the true ends of
        the bins may lie ``slip`` away from the edges.
        """

    def bin_error(self, log_tail: float) -> float:
        """A bound on the relative errors of `masses` on the span for ``log_tail``."""

    def slip(self, edges: Array) -> float:
        """A bound on how far rounding moves the ends of bins."""


@dataclass(frozen=True)
class GaussianPair:
    """N(μ, 1) against N(0, 1): L is N(±μ²/2, μ²)."""

    mu: float
    infinite: float = 0.0
    top: float = math.inf
    anchor: float = 0.0
    lattice: float | None = None

    def span(self, log_tail: float) -> tuple[float, float]:
        """μ²/2 ± μ√(−2 log tail)."""
        reach = self.mu * math.sqrt(-2 * log_tail)
        return self.mu**2 / 2 - reach, self.mu**2 / 2 + reach

    def masses(self, edges: Array) -> tuple[Array, Array]:
        """Normal bins."""
        z = edges / self.mu
        return normal_bins(z - self.mu / 2), normal_bins(z + self.mu / 2)

    def bin_error(self, log_tail: float) -> float:
        """A bound on the relative errors of `masses`: those of normal bins up to √(−2 log tail) + 2μ."""
        return bin_error(math.sqrt(-2 * log_tail) + 2 * self.mu + 1)

    def slip(self, edges: Array) -> float:
        """μ is off by 8 units, the quotient and the difference by one each."""
        return 24 * UNIT_ROUNDOFF * (float(np.abs(edges).max()) + self.mu**2)

    def profile(self, epsilon: Array) -> Array:
        """δ(ε), to a relative 1e-12 or so (`discreet.accounting.exact.gaussian` says exactly)."""
        e = np.abs(epsilon)
        t = e / self.mu - self.mu / 2
        with np.errstate(over="ignore", invalid="ignore"):
            root = math.sqrt(0.5)
            tail = np.exp(-t * t / 2) * 0.5 * (erfcx(t * root) - erfcx((t + self.mu) * root))
        wide = t < -5
        if np.any(wide):
            # e^ε alone exceeds a double from ε = 710 on, its product with the other tail never does
            near = wide & (e < _LARGEST_EXPONENT)
            product = np.exp(np.where(near, e, 0.0)) * ndtr(-t - self.mu)
            product = np.where(near, product, np.exp(np.where(wide, e + log_ndtr(-t - self.mu), 0.0)))
            tail = np.where(wide, ndtr(-t) - product, tail)
        tail = np.clip(np.nan_to_num(tail, nan=1.0 if self.mu else 0.0), 0.0, 1.0)
        return np.where(epsilon >= 0, tail, -np.expm1(-e) + np.exp(-e) * tail)

    def log_moments(self, cs: Array) -> Array:
        """log E e^{cL} = μ²c(c + 1)/2."""
        return self.mu**2 * cs * (cs + 1) / 2

    def log_moment_upper(self, c: float) -> float:
        """log E e^{cL} at one c, rounded up."""
        return self.mu**2 * c * (c + 1) / 2 * (1 + _MU_ERROR)

    def on_contour(self, c: float, spacing: float, count: int) -> OnContour:
        """log M(c + iω)/M(c) = −μ²ω²/2 + iμ²ω(c + ½), exact but for the rounding of μ² and of products."""
        omega = spacing * np.arange(count)
        logs = np.empty(count, dtype=np.complex128)
        logs.real = -(self.mu**2) * omega**2 / 2
        logs.imag = self.mu**2 * omega * (c + 0.5)
        log_moment = self.mu**2 * c * (c + 1) / 2
        slips = _MU_ERROR * (logs.imag - logs.real)
        return OnContour(log_moment, _MU_ERROR * log_moment, logs, slips, np.zeros(count))

    def log_tails(self, c: float, omegas: Array) -> Array:
        """−μ²Ω²/2."""
        return -(self.mu**2) * omegas**2 / 2 * (1 - _MU_ERROR)


@dataclass(frozen=True)
class LaplacePair:
    """Laplace noise of scale 1/ε₀ moved by 1: L = ε₀ with probability ½, −ε₀ with ½e^{−ε₀}, a density between."""

    epsilon: float
    infinite: float = 0.0

    @property
    def top(self) -> float:
        """ε₀."""
        return self.epsilon

    @property
    def anchor(self) -> float:
        """One of the two atoms."""
        return self.epsilon

    @property
    def lattice(self) -> float | None:
        """The atoms lie at ±ε₀; what lies between is continuous."""
        return 2 * self.epsilon

    def span(self, log_tail: float) -> tuple[float, float]:
        """[−ε₀, ε₀]."""
        return -self.epsilon, self.epsilon

    def masses(self, edges: Array) -> tuple[Array, Array]:
        """P(L ≤ l) = ½e^{(l−ε₀)/2} for |l| < ε₀, and Q(L ≤ l) = 1 − ½e^{−(l+ε₀)/2}; an edge on an atom takes it in
        below.
        """
        inner = np.clip(edges, -self.epsilon, self.epsilon)
        steps = np.diff(inner, prepend=-self.epsilon, append=self.epsilon) / 2
        start = np.concatenate([[-self.epsilon], inner])
        p = 0.5 * np.exp((start - self.epsilon) / 2) * np.expm1(steps)
        q = -0.5 * np.exp(-(start + self.epsilon) / 2) * np.expm1(-steps)
        low, high = np.searchsorted(edges, [-self.epsilon, self.epsilon], side="left")
        p[low] += 0.5 * math.exp(-self.epsilon)
        q[low] += 0.5
        p[high] += 0.5
        q[high] += 0.5 * math.exp(-self.epsilon)
        return p, q

    def bin_error(self, log_tail: float) -> float:
        """Exponents of up to ε₀."""
        return 8 * UNIT_ROUNDOFF * (8 + self.epsilon)

    def slip(self, edges: Array) -> float:
        """ε₀ is itself rounded."""
        return 16 * UNIT_ROUNDOFF * (float(np.abs(edges).max()) + self.epsilon)

    def profile(self, epsilon: Array) -> Array:
        """δ(ε) = 1 − e^{(ε−ε₀)/2} on [−ε₀, ε₀]."""
        inside = -np.expm1((np.minimum(epsilon, self.epsilon) - self.epsilon) / 2)
        return np.where(epsilon < -self.epsilon, -np.expm1(np.minimum(epsilon, 0.0)), inside)

    def log_moments(self, cs: Array) -> Array:
        """E e^{cL} = ((c + 1)e^{cε₀} + c·e^{−(c+1)ε₀})/(2c + 1) (Mironov 2017, Table II)."""
        rest = np.log1p(cs / (cs + 1) * np.exp(-(2 * cs + 1) * self.epsilon))
        return cs * self.epsilon + np.log((cs + 1) / (2 * cs + 1)) + rest

    def log_moment_upper(self, c: float) -> float:
        """log E e^{cL} at one c, rounded up."""
        value = float(self.log_moments(np.array([c]))[0])
        return value + 16 * UNIT_ROUNDOFF * (1 + c * self.epsilon)

    def on_contour(self, c: float, spacing: float, count: int) -> OnContour:
        """The closed form at complex s."""
        s = c + 1j * spacing * np.arange(count)
        e = self.epsilon
        # e^{cε₀} is taken out, so that nothing overflows
        moment = np.exp(1j * s.imag * e) * ((s + 1) + s * np.exp(-(2 * s + 1) * e)) / (2 * s + 1)
        base = float(moment[0].real)
        errors = 64 * UNIT_ROUNDOFF * (1 + (np.abs(s) + 1) * e) / base
        log_moment = c * e + math.log(base)
        return on_contour(log_moment, 64 * UNIT_ROUNDOFF * (1 + c * e), moment / base - 1, errors)

    def log_tails(self, c: float, omegas: Array) -> Array:
        """The atoms do not decay: |M(c + iω)| ≤ M(c) is all there is."""
        return np.zeros(len(omegas))


@dataclass(frozen=True, eq=False)
class DiscretePair:
    """Finitely many losses with their probabilities under P; the rest, if any, at +∞ (``infinite``)."""

    losses: Array
    probabilities: Array
    infinite: float = 0.0
    anchor: float = 0.0
    lattice: float | None = None
    error: float = 1e-15  # relative, of each probability

    @property
    def top(self) -> float:
        """The last atom, which may be at infinity."""
        return math.inf if self.infinite > 0 else float(self.losses.max())

    def span(self, log_tail: float) -> tuple[float, float]:
        """The least and the greatest loss."""
        return float(self.losses.min()), float(self.losses.max())

    def masses(self, edges: Array) -> tuple[Array, Array]:
        """Sums over each bin."""
        where = np.searchsorted(edges, self.losses, side="left")
        p = np.bincount(where, weights=self.probabilities, minlength=len(edges) + 1)
        q = np.bincount(where, weights=self.probabilities * np.exp(-self.losses), minlength=len(edges) + 1)
        return p, q

    def bin_error(self, log_tail: float) -> float:
        """A bound on the relative errors of `masses`: of the probabilities, of e^−l, and of sums of all of them."""
        reach = min(float(np.abs(self.losses).max()), 750.0)
        return self.error + UNIT_ROUNDOFF * (len(self.losses) + 8 * reach + 4 * 750 + 32)

    def slip(self, edges: Array) -> float:
        """Losses are rounded."""
        return 16 * UNIT_ROUNDOFF * (float(np.abs(edges).max()) + float(np.abs(self.losses).max()))

    def profile(self, epsilon: Array) -> Array:
        """The sum, with the atom at infinity."""
        gain = -np.expm1(np.minimum(np.subtract.outer(epsilon, self.losses), 0.0))
        return gain @ self.probabilities + self.infinite

    def log_moments(self, cs: Array) -> Array:
        """log Σ p e^{cl}, in chunks that stay small."""
        out = np.full(len(cs), np.inf)
        keep = self.probabilities > 0
        losses, log_p = self.losses[keep], np.log(self.probabilities[keep])
        top = float(np.max(losses))
        for i, c in enumerate(cs):
            terms = log_p + c * (losses - top)
            peak = terms.max()
            out[i] = c * top + peak + math.log(np.exp(terms - peak).sum())
        return out

    def log_moment_upper(self, c: float) -> float:
        """log E e^{cL} at one c, rounded up."""
        value = float(self.log_moments(np.array([c]))[0])
        size = 64 + 16 * (c * float(np.abs(self.losses).max()) + 750)
        return value + UNIT_ROUNDOFF * (len(self.losses) + size + 4 * abs(value)) + self.error

    def on_contour(self, c: float, spacing: float, count: int) -> OnContour:
        """Σ p e^{sl} term by term.

        A term is off by a relative 4u(|log p| + |cl| + |peak| + 4), by the error of its probability, and its phase by
        4uω|l|; sums of n terms by n units.
        """
        keep = self.probabilities > 0
        losses, log_p = self.losses[keep], np.log(self.probabilities[keep])
        log_terms = log_p + c * losses
        peak = float(log_terms.max())
        terms = np.exp(log_terms - peak)
        total = float(terms.sum())
        terms /= total
        changes = np.empty(count, dtype=np.complex128)
        omegas = spacing * np.arange(count)
        for start in range(0, count, 64):
            angle = np.multiply.outer(omegas[start : start + 64], losses)
            half = np.sin(angle / 2)
            changes[start : start + 64] = (-2 * half * half + 1j * np.sin(angle)) @ terms
        size = 4 * (np.abs(log_p) + np.abs(c * losses) + abs(peak) + 4)
        log_moment = peak + math.log(total)
        error = self.error + UNIT_ROUNDOFF * (len(terms) + 32 + float(terms @ size) + 4 * abs(log_moment))
        reach = np.abs(losses)
        far = omegas * (float((terms * size) @ reach) + 8 * float(terms @ reach))
        errors = 4 * error * np.minimum(2.0, omegas * float(terms @ reach)) + 2 * UNIT_ROUNDOFF * far
        return on_contour(log_moment, error, changes, errors)

    def log_tails(self, c: float, omegas: Array) -> Array:
        """DiscretePair do not decay."""
        return np.zeros(len(omegas))


class OneRelease(Protocol):
    """Bounds for one release, from above (side 1) or from below (−1)."""

    def delta(self, epsilon: float, side: int) -> float:
        """A bound of δ(ε)."""

    def epsilon(self, delta: float, side: int) -> float:
        """A bound of ε(δ)."""

    def estimate(self, delta: float) -> float:
        """ε(δ) to some per cent; it proves nothing."""


@dataclass(frozen=True, eq=False)
class ProfilePair:
    """Whatever has a privacy profile below ``bound``: δ(ε) ≤ bound(ε) for every real ε and every pair of neighbours.

    ``low`` and ``high`` enclose the losses that matter: bound(ε) = 1 − e^ε may be used below ``low``, and above
    ``high`` the bound's remaining value is charged as probability of failure. ``attained`` is a pair that neighbours
    do reach, and serves the lower bound; ``family``, where there is one, maps a number in (0, 1) to other such pairs,
    of which the best is sought for the lower bound of repetitions. ``bounded_range`` is the length of the window that
    holds all losses, where that is all there is to know of the release. ``inverse``, where it is known, is δ ↦ an ε
    with bound(ε) ≤ δ: one question to whoever made the bound in place of a search.

    Where values of the bound are dear, ``alone`` has tighter ones for a single release; ``rough`` makes a coarser pair,
    for searches; and ``reach`` says, for the tail that may be cut off, up to which ε the bound is known: ``low`` and
    ``high`` are then infinite.
    """

    bound: Callable[[Array], Array]
    low: float
    high: float
    attained: Pair | None = None
    top: float = math.inf
    infinite: float = 0.0
    anchor: float = 0.0
    lattice: float | None = None
    inverse: Callable[[float], float] | None = None
    family: Callable[[float], DiscretePair] | None = None
    bounded_range: float | None = None
    alone: OneRelease | None = None
    rough: Callable[[], ProfilePair] | None = None
    reach: Callable[[float], float] | None = None

    def span(self, log_tail: float) -> tuple[float, float]:
        """The losses (low, high) that were given with the bound, or those that the tail asks for."""
        if self.reach is None:
            return self.low, self.high
        end = self.reach(log_tail)
        return -end, end

    def profile(self, epsilon: Array) -> Array:
        """The bound itself, never above 1."""
        return np.minimum(self.bound(epsilon), 1.0)


def attained(pair: Pair | ProfilePair) -> Pair | None:
    """A pair that some neighbours do reach: the pair itself, unless it says otherwise."""
    reached: Pair | None = getattr(pair, "attained", pair)  # type: ignore[arg-type]
    return reached


def is_dear(pair: Pair | ProfilePair) -> bool:
    """Whether the bound is found by long sums on grids, which differ by some 1e-5 between similar events."""
    return isinstance(pair, ProfilePair) and pair.alone is not None


def roughly(pair: Pair | ProfilePair) -> Pair | ProfilePair:
    """A coarser pair for searches, where there is one; else the pair itself."""
    return pair.rough() if isinstance(pair, ProfilePair) and pair.rough is not None else pair


def symmetric(bound: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Extend a bound for ε ≥ 0 to all ε, for a relation in which neighbours may be swapped.

    E_α(P‖Q) = 1 − α + αE_{1/α}(Q‖P), so δ(−ε) ≤ 1 − e^{−ε} + e^{−ε}δ(ε).
    """

    def both(epsilon: Array) -> Array:
        magnitude = np.abs(epsilon)
        positive = np.minimum(bound(magnitude), 1.0)
        return np.where(epsilon >= 0, positive, -np.expm1(-magnitude) + np.exp(-magnitude) * positive)

    return both
