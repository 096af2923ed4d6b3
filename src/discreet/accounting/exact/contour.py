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
from discreet.accounting.exact.cumulants import Cumulants, Moments, log_kappa
from discreet.accounting.exact.guess import rough_epsilon
from discreet.accounting.exact.placement import Aim, Placement, placed
from discreet.accounting.exact.transform import OnContour
from discreet.errors import NotCertifiable
from discreet.floats import UNIT_ROUNDOFF

__all__ = ["MOST_NODES", "Contour", "Failing", "Transform"]

Array = NDArray[Any]
_SMALLEST = 2.0**-1020  # what underflow may take from a term
MOST_NODES = 1 << 19
"""Multiples of a spacing of 33 bits are exact up to this."""
_SHORT = 1 << 10  # nodes that are cheaper than asking whether they are needed
_LOOSE, _ROUGH = 1e-5, 1e-2  # tolerances of δ where fewer nodes are wanted: for a bound, and for a guess of ε
_HOPELESS = 0.03  # of log δ: rounding in a long sum that makes others worth asking
_SETTLED = 0.25  # nodes serve an ε as far from theirs as changes log δ by so much


class Transform(Moments, Protocol):
    """A privacy loss that knows its moment generating function."""

    def on_contour(self, c: float, spacing: float, count: int) -> OnContour:
        """M(c + iω) on equally spaced nodes, with bounds."""

    def log_moment_upper(self, c: float) -> float:
        """A proved bound on log M(c)."""

    def log_tails(self, c: float, omegas: Array) -> Array:
        """Bounds on log sup_{ω ≥ Ω} |M(c + iω)|/M(c)."""


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
        value = float(np.ascontiguousarray(terms.real).sum())  # pairwise
        relative = self.slips + 4 * UNIT_ROUNDOFF * (phase + np.abs(self.logs.imag) + 96)
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
        """log δ̃(ε) and its derivative; −∞ where rounding has left nothing of it."""
        terms = self.weights * np.exp(self.logs - 1j * self.omegas * epsilon)
        value = float(terms.real.sum())
        if not 0 < value < math.inf:
            return -math.inf, math.nan
        slope = -float(((self.c + 1j * self.omegas) * terms).real.sum()) / value
        return self.log_moment - self.c * epsilon + math.log(value), slope


class _Hopeless(NotCertifiable):
    """Rounding leaves too little of a long sum, and would of others."""


class Contour:
    """A run of independent privacy losses, one direction of the neighbouring relation.

    ``near`` says where the nodes of a similar run are: they are tried first, and others are sought where those prove
    too little. ``placement`` says where the last ones are. A sum that needs more than ``most_nodes`` is refused; with
    fewer than `MOST_NODES` also one of many of which rounding leaves too little, as somebody else will be asked.
    """

    def __init__(
        self,
        parts: Sequence[tuple[Transform, int]],
        tolerance: float = 3e-8,
        near: Placement | None = None,
        most_nodes: int = MOST_NODES,
    ) -> None:
        self.parts = list(parts)
        self.cumulants = Cumulants(self.parts)
        self.most_nodes = most_nodes
        self.tolerance = tolerance
        self.near = near
        self.placement: Placement | None = None

    def _nodes(self, aim: Aim) -> _Nodes:
        place, log_tail = placed(self.cumulants, self._log_tails, aim)
        self.placement = place
        return self._sum(place.c, place.spacing, place.count, place.alias_at, math.exp(log_tail))

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

    def log_delta(self, epsilon: float, about: float | None = None) -> tuple[float, float]:
        """Certified bounds of log δ(ε), which may be known to be ``about`` so much.

        The nodes are made for the δ of the saddle point approximation; a poor one is replaced by what they found.
        """
        self.cumulants.refine_near_saddle(epsilon)
        low, high = -math.inf, math.inf
        expected = self.cumulants.saddle(epsilon)[1] if about is None else about
        for _ in range(1 if about is not None else 3):
            nodes = self._nodes(Aim(epsilon, expected, self.tolerance, self.most_nodes))
            below, above = nodes.log_bounds(epsilon)
            low, high = max(low, below), min(high, above)
            if high - low <= 3 * self.tolerance or abs(high - expected) < 1:
                break
            expected = min(high, 0.0)
        return low, high

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
        if near.count > _SHORT:  # nodes of its own may be fewer
            return False
        return self._nodes_near(near).log_bounds(epsilon)[1] <= target - 4 * UNIT_ROUNDOFF * (1 + abs(target))

    def _epsilon_near(self, near: Placement, target: float) -> Bounds | None:
        """ε(δ) on the nodes of a similar run, if they prove enough."""
        try:
            guess, found = guarded(lambda: self._close(self._nodes_near(near), near.epsilon, target))
        except NotCertifiable:
            return None
        enough = 3 * self.tolerance if near.count <= _SHORT else _LOOSE  # of many nodes rounding leaves less
        if not found.upper - found.lower <= enough * found.upper < math.inf:
            return None
        self.placement = replace(near, epsilon=guess)
        return found

    def epsilon(self, delta: float) -> Bounds:
        """Certified bounds of ε(δ), the least ε ≥ 0 with δ(ε) ≤ δ."""
        target = math.log(delta)
        if self.near is not None and (known := self._epsilon_near(self.near, target)) is not None:
            return known
        guess, best, settled, tolerance = self.cumulants.guess(delta), Bounds(0.0, math.inf), False, self.tolerance
        refusal = NotCertifiable("the contour's upper bound did not close")
        for attempt in range(4):
            narrow = best.upper - best.lower <= 3 * self.tolerance * best.upper
            if math.isfinite(best.upper) and (settled or narrow):  # no other nodes would prove more
                break
            try:
                most_nodes = self.most_nodes if attempt > 0 else min(_SHORT, self.most_nodes)
                found_at, found = self._about(Aim(guess, target, tolerance, most_nodes))
            except _Hopeless:
                raise
            except NotCertifiable as reason:
                refusal = reason
                if attempt == 0:  # before many nodes are made for a guess
                    guess, many = self._scouted(guess, target)
                    tolerance = _LOOSE if many else tolerance
                elif tolerance == _LOOSE:
                    break
                else:
                    tolerance = _LOOSE
                continue
            best = meet(best, found, "two contours")
            assert self.placement is not None
            near = _SETTLED if self.placement.count > _SHORT else _SETTLED / 1000
            settled = abs(found_at - guess) * self.placement.c < near
            guess = found_at  # the nodes are made for a guess; a poor one is replaced by what they found
        if math.isinf(best.upper):
            raise refusal
        return best

    def _scouted(self, guess: float, target: float) -> tuple[float, bool]:
        """A better guess of ε(δ), and whether many nodes will be needed there.

        Losses with heavy tails are guessed without any; else by the fewest nodes, if they are not too many.
        """
        try:
            return guarded(lambda: rough_epsilon(self.parts, math.exp(target))), True  # type: ignore[arg-type]
        except NotCertifiable:
            pass
        try:
            nodes = self._nodes(Aim(guess, target, _ROUGH, self.most_nodes // 4))
            return self._root(nodes, guess, target)[0], len(nodes.omegas) > _SHORT // 2
        except NotCertifiable:
            return guess, False

    def _about(self, aim: Aim) -> tuple[float, Bounds]:
        """ε(δ) and its bounds by nodes made for an aim, else at the saddle point, where terms cancel less."""
        nodes = self._nodes(aim)
        try:
            return self._close(nodes, aim.epsilon, aim.log_delta)
        except _Hopeless:
            raise
        except NotCertifiable:
            return self._close(self._nodes(replace(aim, at_saddle=True)), aim.epsilon, aim.log_delta)

    def _root(self, nodes: _Nodes, guess: float, target: float) -> tuple[float, float]:
        """Where the sum itself has log δ(ε) = target, and its slope there.

        Newton's method within what is known to lie above and below. Far to the right δ drowns in the sum's errors.
        """
        least, most = 0.0, math.inf
        for _ in range(60):
            value, slope = nodes.log_slope(guess)
            least, most = (guess, most) if value > target else (least, min(most, guess))
            step = (target - value) / slope if math.isfinite(value) and slope < 0 else -guess
            next_guess = guess + min(max(step, -0.75 * guess), 4 * guess + 1 / nodes.c)
            if not least <= next_guess <= most:
                next_guess = (least + most) / 2
            if abs(value - target) <= 1e-6 or guess == 0 or most - least <= 1e-13 * most < math.inf:
                return next_guess, slope  # what is left of log δ is of the order of its square
            guess = next_guess
        raise NotCertifiable("no ε of the contour sum has this δ")

    def _close(self, nodes: _Nodes, guess: float, target: float) -> tuple[float, Bounds]:
        """Solve log δ(ε) = target on these nodes, then step outwards until both sides are proved."""
        guess, slope = self._root(nodes, guess, target)
        unsure = 4 * UNIT_ROUNDOFF * (1 + abs(target))  # of the logarithm that was taken of δ
        low, high = nodes.log_bounds(guess)
        if high - low > _HOPELESS and len(nodes.omegas) > _SHORT and self.most_nodes < MOST_NODES:
            raise _Hopeless("rounding leaves too little of a long contour sum")
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


class Failing:
    """The contour accountant of finite losses, beside a probability of failure that is added to δ."""

    def __init__(self, contour: Contour, failure: float) -> None:
        self.contour = contour
        self.most, self.least = failure * (1 + 1e-13), failure * (1 - 1e-13)

    def delta(self, epsilon: float) -> Bounds:
        """δ of the finite losses, plus the failure."""
        finite = self.contour.delta(epsilon)
        return Bounds(finite.lower + self.least, min(1.0, finite.upper + self.most))

    def epsilon(self, delta: float, *, lower: bool = True) -> Bounds:
        """ε at what failure leaves of δ."""
        if delta <= self.most:
            return Bounds(0.0, math.inf)
        low, high = delta - self.most, delta - self.least
        bounds = self.contour.epsilon(low)
        return bounds if low == high or not lower else Bounds(self.contour.epsilon(high).lower, bounds.upper)
