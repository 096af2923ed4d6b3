"""The contour accountant: δ(ε) by one short sum through the saddle point, proved from both sides.

With K(s) = Σ n_i log M_i(s), M_i(s) = E e^{sL_i}, the cumulant of the whole run's privacy loss,

    δ(ε) = E(1 − e^{ε−L})₊ = (1/2πi) ∫_{Re s = c} e^{K(s) − sε} / (s(s + 1)) ds,        c > 0,

because (1 − e^{−x})₊ has the Laplace transform 1/(s(s + 1)). Repetition multiplies K, so the cost does not grow with
the number of steps. The trapezoid sum with spacing 2π/P is, by Poisson's formula, exactly

    δ̃(ε) = Σ_m δ(ε + mP)·e^{cmP}:

every alias is non-negative, so δ ≤ δ̃; and those with m < 0 sum to at most e^{−cP}/(1 − e^{−cP}), those with m > 0 are
bounded by δ(x) ≤ κ(c')e^{K(c')−c'x} at any c' > c. What remains are the nodes left out (bounded by sup |M(c + iω)|
beyond the last one), the errors of the M_i, and rounding. All of them are in the interval returned;
docs/maths/accounting.md, *Rounding in the contour sum*, goes through them one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.bounds import Bounds, guarded, meet
from discreet.accounting.exact.transform import OnContour, short
from discreet.errors import NotCertifiable
from discreet.floats import UNIT_ROUNDOFF

__all__ = ["MOST_NODES", "Contour", "Placement", "Transform"]

Array = NDArray[Any]
_SMALLEST = 2.0**-1020  # what underflow may take from a term
MOST_NODES = 1 << 19
"""Multiples of a spacing of 33 bits are exact up to this."""
_ORDERS = np.exp(np.arange(-16.0, 30.0, 0.7))


class Transform(Protocol):
    """A privacy loss that knows its moment generating function."""

    def log_moments(self, cs: Array) -> Array:
        """log M(c), roughly; inf where unknown."""

    def on_contour(self, c: float, spacing: float, count: int) -> OnContour:
        """M(c + iω) on equally spaced nodes, with bounds."""

    def log_moment_upper(self, c: float) -> float:
        """A proved bound on log M(c)."""

    def log_tails(self, c: float, omegas: Array) -> Array:
        """Bounds on log sup_{ω ≥ Ω} |M(c + iω)|/M(c)."""


def log_kappa(c: float | Array) -> Array:
    """log max_x e^{−cx}(1 − e^{−x}) = c log c − (c + 1) log(c + 1), so that δ(ε) ≤ κ(c)e^{K(c) − cε}."""
    c = np.asarray(c)
    return -c * np.log1p(1 / c) - np.log1p(c)


@dataclass
class _Nodes:
    """One contour's nodes, ready to give δ at any ε near the one it was made for."""

    c: float
    period: float
    log_moment: float  # K(c)
    moment_error: float  # of K(c)
    omegas: Array
    weights: NDArray[np.complex128]  # the trapezoid's weight over s(s + 1)
    logs: NDArray[np.complex128]  # K(s) − K(c)
    slips: Array  # bounds of the errors of ``logs``
    fixed_error: float  # of the sum, from the absolute errors of the M_i and the nodes left out
    alias_at: float
    alias_moment: float  # a proved K(c') for the aliases above

    def log_bounds(self, epsilon: float) -> tuple[float, float]:
        """Proved bounds of log δ(ε)."""
        lead = self.log_moment - self.c * epsilon
        scale = abs(self.log_moment) + self.c * epsilon + 64
        phase = self.omegas * epsilon
        terms = self.weights * np.exp(self.logs - 1j * phase)
        value = float(terms.real.sum())
        relative = self.slips + 4 * UNIT_ROUNDOFF * (phase + np.abs(self.logs.imag) + len(terms) + 32)
        error = self.fixed_error + 1.01 * float(np.abs(terms) @ np.expm1(relative)) + len(terms) * _SMALLEST
        if not 0 < value + error < math.inf:
            raise NotCertifiable("the contour sum has no positive upper end")
        slack = 1.01 * self.moment_error + 16 * UNIT_ROUNDOFF * scale
        high = lead + math.log(value + error)
        high += slack + 16 * UNIT_ROUNDOFF * abs(high - lead)
        aliases = self._log_aliases(epsilon, lead, 16 * UNIT_ROUNDOFF * scale)
        low = value - error - (math.exp(aliases) if aliases < 700 else math.inf)
        if low <= 0:
            return -math.inf, high
        return lead + math.log(low) - slack - 16 * UNIT_ROUNDOFF * abs(math.log(low)), high

    def _log_aliases(self, epsilon: float, lead: float, slack: float) -> float:
        """log of a bound on all aliases, over e^lead."""
        period = self.period * (1 - 8 * UNIT_ROUNDOFF)
        below = -self.c * period - lead - math.log(-math.expm1(-self.c * period))
        ratio = (self.alias_at - self.c) * period
        above = self.alias_moment - self.alias_at * epsilon + float(log_kappa(self.alias_at)) - ratio - lead
        above -= math.log(-math.expm1(-ratio))
        rounding = slack + 16 * UNIT_ROUNDOFF * (abs(self.alias_moment) + self.alias_at * (epsilon + period))
        return float(np.logaddexp(below, above)) + rounding + 2 * self.moment_error + 1e-9

    def log_slope(self, epsilon: float) -> tuple[float, float]:
        """log δ̃(ε) and its derivative."""
        terms = self.weights * np.exp(self.logs - 1j * self.omegas * epsilon)
        value = float(terms.real.sum())
        if not 0 < value < math.inf:
            raise NotCertifiable("the contour sum lost its sign")
        slope = -float(((self.c + 1j * self.omegas) * terms).real.sum()) / value
        return self.log_moment - self.c * epsilon + math.log(value), slope


@dataclass(frozen=True)
class Placement:
    """Where a contour's nodes are, and the ε they were made for."""

    c: float
    spacing: float
    count: int
    alias_at: float
    epsilon: float


class Contour:
    """A run of independent privacy losses, one direction of the neighbouring relation.

    ``near`` says where the nodes of a similar run are: they are tried first, and others are sought where those prove
    too little. ``placement`` says where the last ones are. A sum that needs more than ``most_nodes`` is refused.
    """

    def __init__(
        self,
        parts: Sequence[tuple[Transform, int]],
        tolerance: float = 3e-8,
        near: Placement | None = None,
        most_nodes: int = MOST_NODES,
    ) -> None:
        self.parts = list(parts)
        self.most_nodes = most_nodes
        self.tolerance = tolerance
        self.near = near
        self.placement: Placement | None = None
        self._map: tuple[Array, Array] | None = None

    def _cumulants(self) -> tuple[Array, Array]:
        """The c and K(c) seen so far: first on a grid wide enough for every ε and δ, then finer where asked."""
        if self._map is None:
            cs = _ORDERS
            moments = self._log_moments(cs)
            usable = np.isfinite(moments) & (moments < 1e8)
            if not usable.any():
                raise NotCertifiable("no moment of the privacy loss could be computed")
            cs, moments = cs[usable], moments[usable]
            keep = max(int(np.searchsorted(moments, 1e-3)) - 2, 0)
            keep = min(keep, len(cs) - 2) if len(cs) > 2 else 0
            self._map = cs[keep:], moments[keep:]
            if len(self._map[0]) < 3:
                self._refine(0)
        return self._map

    def _refine(self, j: int) -> None:
        """Add orders around the j-th."""
        assert self._map is not None
        cs, moments = self._map
        last = math.log(cs[j + 2]) if j + 2 < len(cs) else math.log(cs[-1]) + 0.6
        extra = np.exp(np.linspace(math.log(cs[max(j - 2, 0)]), last, 37)[1:-1])
        found = self._log_moments(extra)
        usable = np.isfinite(found) & (found < 1e8)
        cs, moments = np.concatenate([cs, extra[usable]]), np.concatenate([moments, found[usable]])
        order = cs.argsort(kind="stable")
        order = order[np.diff(cs[order], prepend=0.0) > 0]
        cs = cs[order]
        self._map = cs, moments[order]
        if len(cs) < 3:
            raise NotCertifiable("too few moments of the privacy loss could be computed")

    def _log_moments(self, cs: Array) -> Array:
        total = np.zeros(len(cs))
        for part, count in self.parts:
            total += count * part.log_moments(cs)
        return total

    def _saddle(self, epsilon: float) -> tuple[float, float, float]:
        """c near the least of K(c) − cε − log c(c + 1); the approximate log δ there; the second derivative."""
        cs, moments = self._cumulants()
        height = moments - cs * epsilon - np.log(cs) - np.log1p(cs)
        j = int(np.clip(np.argmin(height), 1, len(cs) - 2))
        left, right = cs[j] - cs[j - 1], cs[j + 1] - cs[j]
        rise, fall = (height[j + 1] - height[j]) / right, (height[j] - height[j - 1]) / left
        curvature = max(2 * (rise - fall) / (left + right), 1e-300)
        return float(cs[j]), float(height[j] - 0.5 * math.log(2 * math.pi * curvature)), float(curvature)

    def _refine_near_saddle(self, epsilon: float) -> None:
        """Make the map fine around the saddle point for ε."""
        cs, moments = self._cumulants()
        j = int(np.argmin(moments - cs * epsilon - np.log(cs) - np.log1p(cs)))
        if cs[min(j + 1, len(cs) - 1)] > cs[max(j - 1, 0)] * 1.5 or j >= len(cs) - 2:
            self._refine(j)

    def _guess(self, delta: float) -> float:
        cs, moments = self._cumulants()
        target = math.log(delta)
        epsilon = max(0.0, float(np.min((moments - target + log_kappa(cs)) / cs)))
        self._refine_near_saddle(epsilon)
        cs, moments = self._cumulants()
        epsilon = max(0.0, float(np.min((moments - target + log_kappa(cs)) / cs)))
        for _ in range(8):
            c, value, _ = self._saddle(epsilon)
            step = (value - target) / c
            epsilon = max(0.0, epsilon + step)
            if abs(step) < 1e-3 * epsilon:
                break
        return epsilon

    def _nodes(self, epsilon: float, *, at_saddle: bool = False) -> _Nodes:
        self._refine_near_saddle(epsilon)
        saddle, log_delta, curvature = self._saddle(epsilon)
        log_delta = min(log_delta, 0.0)
        cs, moments = self._cumulants()
        height = moments - cs * epsilon - np.log(cs) - np.log1p(cs)
        need = math.log(2 / self.tolerance)

        # The longer the period the more nodes. A contour left of the saddle may allow a shorter one, at the price of
        # cancellation e^{height}/δ, which must not raise the rounding of n steps above the tolerance.
        steps = sum(times for _, times in self.parts)
        bearable = math.log(self.tolerance / (3e-14 * steps))
        least = float(height.min()) - log_delta
        bearable = least + 0.1 if at_saddle else max(min(bearable, 9.2), least + 0.7)
        chernoff = moments - cs * epsilon + log_kappa(cs) - log_delta + need
        places = ((cs <= saddle * 1.0001) & (height - log_delta < bearable) & (cs * 1.02 < cs[-1])).nonzero()[0]
        if len(places) == 0:
            raise NotCertifiable("the saddle point lies outside the moments that exist")
        ahead = cs - cs[places, None]
        ahead[ahead <= 0.02 * cs[places, None]] = np.nan
        aliases = np.where(ahead > 0, chernoff / ahead, np.inf)
        further = aliases.argmin(axis=1)
        periods = np.maximum((need - log_delta) / cs[places], aliases[np.arange(len(places)), further])
        best = int(periods.argmin())
        period, c = float(periods[best]), float(cs[places[best]])
        beyond, level = float(cs[further[best]]), float(height[places[best]])
        spacing = short(2 * math.pi / period, 33)  # its multiples up to 2^19 are exact
        # The tail after Ω is at most (1/π)(1/Ω + spacing/Ω²)·exp(log tail), against c(c + 1)-scaled terms.
        allowed = math.log(self.tolerance) + log_delta - level - math.log(c) - math.log1p(c)
        natural = max(spacing, math.sqrt(max(1.0, -2 * allowed) / curvature))
        for start in (-2.0, 8.0, 18.0, 28.0, 38.0, 48.0):
            omegas = natural * 1.25 ** np.arange(start, start + 10)
            log_tails = self._log_tails(c, omegas)
            needed = log_tails + np.log((1 / omegas + spacing / omegas**2) / math.pi)
            enough = np.flatnonzero(needed < allowed)
            if len(enough) or omegas[-1] > self.most_nodes * spacing:
                break
        if len(enough) == 0:
            raise NotCertifiable("the privacy loss is too rough (nearly atomic) for the contour sum")
        i = int(enough[0])
        count = int(omegas[i] / spacing) + 2
        if count > self.most_nodes:
            raise NotCertifiable(f"{count} nodes would be needed on the contour")
        self.placement = Placement(c, spacing, count, beyond, epsilon)
        return self._sum(c, spacing, count, beyond, math.exp(float(log_tails[i])))

    def _nodes_near(self, near: Placement) -> _Nodes:
        """Nodes at the places of another run's, with the errors that they have for this one."""
        self.placement = near
        log_tail = float(self._log_tails(near.c, np.array([near.spacing * near.count]))[0])
        return self._sum(near.c, near.spacing, near.count, near.alias_at, math.exp(log_tail))

    def _log_tails(self, c: float, omegas: Array) -> Array:
        total = np.zeros(len(omegas))
        for part, count in self.parts:
            total += count * part.log_tails(c, omegas)
        return total

    def _sum(self, c: float, spacing: float, count: int, beyond: float, tail: float) -> _Nodes:
        """The nodes, the terms' logarithms and what they may be off by.

        Each factor is e^{ℓ+η} + ξ with |η| ≤ slip and |ξ| ≤ e. Slips add up in the exponent. For the rest,
        |Π(x + ξ)ⁿ − Πxⁿ| ≤ Π(|x| + e)ⁿ · Σ n·e/(|x| + e).
        """
        omegas = spacing * np.arange(count)
        points = c + 1j * omegas
        weights: NDArray[Any] = (spacing / math.pi) / (points * (points + 1))
        weights[0] /= 2
        logs, slips = np.zeros(count, dtype=np.complex128), np.zeros(count)
        log_moment, moment_error, relative, log_reach = 0.0, 0.0, np.zeros(count), np.zeros(count)
        for part, times in self.parts:
            there = part.on_contour(c, spacing, count)
            log_moment += times * there.log_moment
            moment_error += times * (there.error + 4 * UNIT_ROUNDOFF * len(self.parts) * abs(there.log_moment))
            logs += times * there.logs
            size = np.abs(there.logs.real) + np.abs(there.logs.imag)
            slips += times * (there.slips + 2 * UNIT_ROUNDOFF * (len(self.parts) + 1) * size)
            if there.errors.any():
                magnitude = np.exp(there.logs.real + there.slips) + there.errors
                relative += times * there.errors / magnitude
                log_reach += times * (np.log(magnitude) + 8 * UNIT_ROUNDOFF)
            else:
                log_reach += times * (there.logs.real + there.slips)
        if not (np.isfinite(logs).all() and np.isfinite(slips).all() and math.isfinite(log_moment)):
            raise NotCertifiable("a moment generating function left the range of doubles on the contour")
        with np.errstate(over="ignore"):  # an infinite error proves nothing, and is refused below
            error = float(np.abs(weights) @ (np.exp(np.minimum(log_reach, 710.0)) * relative))
        last = spacing * count
        error += tail * (1 / last + spacing / last**2) / math.pi
        alias = sum(times * part.log_moment_upper(beyond) for part, times in self.parts)
        if not error < math.inf:
            raise NotCertifiable("the errors of the moment generating functions leave nothing of the contour sum")
        period = 2 * math.pi / spacing
        return _Nodes(c, period, log_moment, moment_error, omegas, weights, logs, slips, 1.01 * error, beyond, alias)

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Certified bounds of log δ(ε)."""
        return self._nodes(epsilon).log_bounds(epsilon)

    def delta(self, epsilon: float) -> Bounds:
        """Certified bounds of δ(ε)."""
        low, high = self.log_delta(epsilon)
        lower = math.exp(low) * (1 - 8 * UNIT_ROUNDOFF) if low > -700 else 0.0
        upper = math.exp(min(max(high, -700.0), 0.0)) * (1 + 8 * UNIT_ROUNDOFF)
        return Bounds(min(lower, 1.0), min(upper, 1.0))

    def quickly_within(self, epsilon: float, target: float) -> bool:
        """Whether log δ(ε) ≤ target is proved on the nodes of a similar run, by the moment at c or by the sum."""
        near = self.near
        try:
            return near is not None and guarded(lambda: self._within(near, epsilon, target))
        except NotCertifiable:
            return False

    def _within(self, near: Placement, epsilon: float, target: float) -> bool:
        moment = sum(times * part.log_moment_upper(near.c) for part, times in self.parts)
        size = abs(moment) + near.c * epsilon + abs(target)
        if moment - near.c * epsilon + float(log_kappa(near.c)) < target - 1e-9 - 32 * UNIT_ROUNDOFF * size:
            return True
        return self._nodes_near(near).log_bounds(epsilon)[1] <= target - 4 * UNIT_ROUNDOFF * (1 + abs(target))

    def _epsilon_near(self, near: Placement, target: float) -> Bounds | None:
        """ε(δ) on the nodes of a similar run, if they prove enough."""
        try:
            guess, found = guarded(lambda: self._close(self._nodes_near(near), near.epsilon, target))
        except NotCertifiable:
            return None
        if not found.upper - found.lower <= 3 * self.tolerance * found.upper < math.inf:
            return None
        self.placement = replace(near, epsilon=guess)
        return found

    def epsilon(self, delta: float) -> Bounds:
        """Certified bounds of ε(δ), the least ε ≥ 0 with δ(ε) ≤ δ."""
        target = math.log(delta)
        if self.near is not None and (known := self._epsilon_near(self.near, target)) is not None:
            return known
        guess = self._guess(delta)
        best = Bounds(0.0, math.inf)
        for _ in range(3):  # the nodes are made for a guess; a poor one is replaced by what they found
            try:
                guess, found = self._close(self._nodes(guess), guess, target)
            except NotCertifiable:  # too much cancellation so far left, or too few moments there
                guess, found = self._close(self._nodes(guess, at_saddle=True), guess, target)
            best = meet(best, found, "two contours")
            if best.upper - best.lower <= 3 * self.tolerance * best.upper:
                break
        if math.isinf(best.upper):
            raise NotCertifiable("the contour's upper bound did not close")
        return best

    def _close(self, nodes: _Nodes, guess: float, target: float) -> tuple[float, Bounds]:
        """Solve log δ(ε) = target on these nodes, then step outwards until both sides are proved."""
        slope = -1.0
        for _ in range(40):
            value, slope = nodes.log_slope(guess)
            step = (target - value) / slope
            guess = max(0.0, guess + min(max(step, -0.5 * guess), 4 * guess + 1 / nodes.c))
            if abs(step * slope) <= 1e-6 or guess == 0:  # what is left of log δ is of the order of its square
                break

        unsure = 4 * UNIT_ROUNDOFF * (1 + abs(target))  # of the logarithm that was taken of δ
        low, high = nodes.log_bounds(guess)
        upper, lower = guess, guess
        for _ in range(40):
            if high <= target - unsure:
                break
            upper += 1.1 * (high - target + unsure) / -slope + 4 * UNIT_ROUNDOFF * upper
            high = nodes.log_bounds(upper)[1]
        else:
            upper = math.inf
        for _ in range(8):
            if low >= target + unsure or lower == 0:
                break
            lower = max(0.0, lower - 1.1 * min(target + unsure - low, 5.0) / -slope - 4 * UNIT_ROUNDOFF * lower)
            low = nodes.log_bounds(lower)[0] if lower > 0 else math.inf
        else:
            lower = 0.0
        return guess, Bounds(lower, upper)
