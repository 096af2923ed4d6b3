"""The contour accountant: δ(ε) by one short sum through the saddle point, proved from both sides.

With K(s) = Σ n_i log M_i(s), M_i(s) = E e^{sL_i}, the cumulant of the whole run's privacy loss,

    δ(ε) = E(1 − e^{ε−L})₊ = (1/2πi) ∫_{Re s = c} e^{K(s) − sε} / (s(s + 1)) ds,        c > 0,

because (1 − e^{−x})₊ has the Laplace transform 1/(s(s + 1)). Repetition multiplies K, so the cost does not grow with
the number of steps. The trapezoid sum with spacing 2π/P is, by Poisson's formula, exactly

    δ̃(ε) = Σ_m δ(ε + mP)·e^{cmP}:

every alias is non-negative, so δ ≤ δ̃; and those with m < 0 sum to at most e^{−cP}/(1 − e^{−cP}), those with m > 0 are
bounded by δ(x) ≤ κ(c')e^{K(c')−c'x} at any c' > c. What remains are the nodes left out (bounded by sup |M(c + iω)|
beyond the last one), the errors of the M_i, and rounding. All of them are in the interval returned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.bounds import Bounds
from discreet.accounting.mixture import OnContour
from discreet.errors import NotCertifiable

__all__ = ["Contour", "Transform"]

Array = NDArray[Any]
_UNIT = 2.0**-53
_MOST_NODES = 1 << 19
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
    log_terms: NDArray[np.complex128]  # log of e^{K(s) − K(c)} / (s(s + 1)), with the trapezoid's weight
    fixed_error: float  # of the sum, apart from the rounding of e^{iωε}
    alias_at: float
    alias_moment: float  # a proved K(c') for the aliases above

    def delta(self, epsilon: float) -> tuple[float, float, float, float]:
        """(log of the common factor e^{K(c)−cε}, lower, value, upper of the sum it multiplies)."""
        lead = self.log_moment - self.c * epsilon
        phase = self.omegas * epsilon
        terms = np.exp(self.log_terms - 1j * phase)
        value = float(terms.real.sum())
        rounding = 4 * _UNIT * float(np.abs(terms) @ (phase + np.abs(self.log_terms.imag) + len(terms) + 8))
        error = self.fixed_error + rounding
        slack = self.moment_error + 4 * _UNIT * (abs(self.log_moment) + self.c * epsilon + 4)
        below = math.exp(min(700.0, -self.c * self.period - lead)) / -math.expm1(-self.c * self.period)
        ratio = (self.alias_at - self.c) * self.period
        above = (
            self.alias_moment - self.alias_at * epsilon + float(log_kappa(self.alias_at)) - ratio - lead
        ) - math.log(-math.expm1(-ratio))
        lower = (value - error) * math.exp(-slack) - below - math.exp(min(above, 700.0))
        return lead, lower, value, (value + error) * math.exp(slack)

    def log_slope(self, epsilon: float) -> tuple[float, float]:
        """log δ̃(ε) and its derivative."""
        terms = np.exp(self.log_terms - 1j * self.omegas * epsilon)
        value = float(terms.real.sum())
        if not value > 0:
            raise NotCertifiable("the contour sum lost its sign")
        slope = -float(((self.c + 1j * self.omegas) * terms).real.sum()) / value
        return self.log_moment - self.c * epsilon + math.log(value), slope


class Contour:
    """A run of independent privacy losses, one direction of the neighbouring relation."""

    def __init__(self, parts: Sequence[tuple[Transform, int]], tolerance: float = 3e-8) -> None:
        self.parts = list(parts)
        self.tolerance = tolerance
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
        cs, order = np.unique(np.concatenate([cs, extra[usable]]), return_index=True)
        self._map = cs, np.concatenate([moments, found[usable]])[order]
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

    def _settle(self, epsilon: float) -> None:
        """Make the map fine around the saddle point for ε."""
        cs, moments = self._cumulants()
        j = int(np.argmin(moments - cs * epsilon - np.log(cs) - np.log1p(cs)))
        if cs[min(j + 1, len(cs) - 1)] > cs[max(j - 1, 0)] * 1.5 or j >= len(cs) - 2:
            self._refine(j)

    def _guess(self, delta: float) -> float:
        cs, moments = self._cumulants()
        target = math.log(delta)
        epsilon = max(0.0, float(np.min((moments - target + log_kappa(cs)) / cs)))
        self._settle(epsilon)
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
        self._settle(epsilon)
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
        spacing = 2 * math.pi / period
        # The tail after Ω is at most (1/π)(1/Ω + spacing/Ω²)·exp(log tail), against c(c + 1)-scaled terms.
        allowed = math.log(self.tolerance) + log_delta - level - math.log(c) - math.log1p(c)
        natural = max(spacing, math.sqrt(max(1.0, -2 * allowed) / curvature))
        for start in (-2.0, 8.0, 18.0, 28.0, 38.0, 48.0):
            omegas = natural * 1.25 ** np.arange(start, start + 10)
            log_tails = self._log_tails(c, omegas)
            needed = log_tails + np.log((1 / omegas + spacing / omegas**2) / math.pi)
            enough = np.flatnonzero(needed < allowed)
            if len(enough) or omegas[-1] > _MOST_NODES * spacing:
                break
        if len(enough) == 0:
            raise NotCertifiable("the privacy loss is too rough (nearly atomic) for the contour sum")
        i = int(enough[0])
        count = int(omegas[i] / spacing) + 2
        if count > _MOST_NODES:
            raise NotCertifiable(f"{count} nodes would be needed on the contour")
        return self._sum(c, period, count, beyond, math.exp(float(log_tails[i])))

    def _log_tails(self, c: float, omegas: Array) -> Array:
        total = np.zeros(len(omegas))
        for part, count in self.parts:
            total += count * part.log_tails(c, omegas)
        return total

    def _sum(self, c: float, period: float, count: int, beyond: float, tail: float) -> _Nodes:
        spacing = 2 * math.pi / period
        omegas = spacing * np.arange(count)
        points = c + 1j * omegas
        log_terms = -np.log(points) - np.log(points + 1) + math.log(spacing / math.pi)
        log_terms[0] -= math.log(2)
        reach = np.exp(log_terms.real)  # the node's weight, then times the bound of |M/M(c)|^n
        log_moment, moment_error, relative, log_reach = 0.0, 0.0, np.zeros(count), np.zeros(count)
        for part, times in self.parts:
            there = part.on_contour(c, spacing, count)
            log_moment += times * there.log_moment
            moment_error += times * there.error
            x, y = there.changes.real, there.changes.imag
            with np.errstate(divide="ignore"):
                logs = np.maximum(0.5 * np.log1p(np.maximum(x * (2 + x) + y * y, -1.0)), -600.0)
            phases = np.arctan2(y, 1 + x)
            # |Π(x + e)ⁿ − Πxⁿ| ≤ Π(|x| + e)ⁿ · Σ n·e/(|x| + e); taking logs adds a few ulp of what they are.
            magnitude = np.exp(logs) + there.errors
            slip = 4 * _UNIT * (np.abs(logs) + np.abs(phases))
            relative += times * (there.errors / magnitude + slip)
            share = there.errors * np.exp(-logs)
            log_reach += times * np.where(share < 1e-3, logs + share, np.log(magnitude))
            log_terms.real += times * logs
            log_terms.imag += times * phases
        error = float(reach @ (np.exp(np.minimum(log_reach, 0.1)) * np.minimum(relative, 3.0)))
        last = spacing * count
        error += tail * (1 / last + spacing / last**2) / math.pi
        log_terms.real = np.maximum(log_terms.real, -700.0)
        alias = sum(times * part.log_moment_upper(beyond) for part, times in self.parts)
        return _Nodes(c, period, log_moment, moment_error, omegas, log_terms, error, beyond, alias)

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Certified bounds of log δ(ε)."""
        lead, lower, _, upper = self._nodes(epsilon).delta(epsilon)
        return (lead + math.log(lower) if lower > 0 else -math.inf), lead + math.log(upper)

    def delta(self, epsilon: float) -> Bounds:
        """Certified bounds of δ(ε)."""
        low, high = self.log_delta(epsilon)
        return Bounds(math.exp(low) if low > -740 else 0.0, min(1.0, math.exp(max(high, -744.0))))

    def epsilon(self, delta: float) -> Bounds:
        """Certified bounds of ε(δ), the least ε ≥ 0 with δ(ε) ≤ δ."""
        target = math.log(delta)
        guess = self._guess(delta)
        best = Bounds(0.0, math.inf)
        for _ in range(3):  # the nodes are made for a guess; a poor one is replaced by what they found
            try:
                guess, found = self._close(self._nodes(guess), guess, target)
            except NotCertifiable:  # too much cancellation so far left, or too few moments there
                guess, found = self._close(self._nodes(guess, at_saddle=True), guess, target)
            best = Bounds(max(best.lower, found.lower), min(best.upper, found.upper))
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
            if abs(step) <= 1e-12 * guess or guess == 0:
                break

        def log_bounds(at: float) -> tuple[float, float]:
            lead, lower, _, upper = nodes.delta(at)
            return (lead + math.log(lower) if lower > 0 else -math.inf), lead + math.log(upper)

        low, high = log_bounds(guess)
        upper, lower = guess, guess
        for _ in range(40):
            if high <= target:
                break
            upper += 1.1 * (high - target) / -slope + 4 * _UNIT * upper
            high = log_bounds(upper)[1]
        else:
            upper = math.inf
        for _ in range(8):
            if low >= target or lower == 0:
                break
            lower = max(0.0, lower - 1.1 * min(target - low, 5.0) / -slope - 4 * _UNIT * lower)
            low = log_bounds(lower)[0] if lower > 0 else math.inf
        else:
            lower = 0.0
        return guess, Bounds(lower, upper)
