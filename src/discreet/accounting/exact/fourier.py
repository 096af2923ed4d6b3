"""The Fourier accountant: any losses on a lattice, tilted, convolved by FFT, and read off with every error inside
the bounds.

Each loss is moved to a lattice, pessimistically and optimistically (`discreet.accounting.exact.lattice`). Its
probabilities are tilted, p_l e^{cl}/M(c), with c the saddle point of the question asked, so that the answer sits in
the bulk of what the transform sees: δ = 1e-300 costs no more digits than δ = 0.1. What wraps around the window is
bounded by P_c(L > x) ≤ e^{K(c+a) − K(c) − ax}, and the rounding of the transform by its ℓ2 norm.
docs/maths/accounting.md, *Rounding in the Fourier accountant*, goes through all of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.bounds import Bounds, meet
from discreet.accounting.exact.cumulants import Cumulants, log_kappa
from discreet.accounting.exact.lattice import Law, lower_law, rough_law, upper_law
from discreet.accounting.exact.pairs import DiscretePair, Pair, ProfilePair, attained
from discreet.accounting.exact.window import Window, lattice_norm, window_for
from discreet.errors import NotCertifiable
from discreet.floats import UNIT_ROUNDOFF

__all__ = ["SIZES_DISAGREE", "Fourier", "invert"]

Array = NDArray[Any]
_HALFWAY = 1 << 16
_SIZES = (1 << 12, 1 << 15, _HALFWAY, 1 << 17)
_FFT = 8.0  # ‖error‖ ≤ 8u·log₂N·‖·‖: Higham 2002, Theorem 24.2, with twiddle factors to 2u
SIZES_DISAGREE = "two lattices of the Fourier accountant"
_ROOM = 0.05  # of the window, which `_spacing` leaves a tenth of its points


@dataclass
class _Composed:
    """A tilted law of the sum of all losses on a window."""

    c: float
    log_moment: float
    losses: Array
    tilted: Array
    rounding: float  # ℓ2 error of ``tilted``
    outside: float  # tilted mass that lies beyond the window and wraps into it
    above: float  # the part of it that lies above
    infinite: float
    stray: float  # tilted mass that rounding may have moved anywhere
    slack: float  # error of log M(c), and relative of every tilted probability
    shift: float  # how far rounding may have moved the sum of losses

    def delta(self, epsilon: float, *, upper: bool) -> float:
        """A bound of δ(ε) on the wanted side."""
        c, side = self.c, (1 if upper else -1)
        epsilon -= side * (self.shift + 4 * UNIT_ROUNDOFF * abs(epsilon))
        slack = self.slack + 16 * UNIT_ROUNDOFF * (abs(self.log_moment) + c * abs(epsilon) + 800)
        lead = self.log_moment - c * epsilon + side * slack
        start = int(np.searchsorted(self.losses, epsilon))
        ahead = self.losses[start:] - epsilon
        value = _dot(np.exp(-c * ahead) * -np.expm1(-ahead), self.tilted[start:])
        spacing = float(self.losses[1] - self.losses[0]) * (1 - 1e-6)
        error = 1.01 * lattice_norm(c, spacing) * self.rounding + self.stray * math.exp(float(log_kappa(c)))
        error += 4 * UNIT_ROUNDOFF * value * (c * float(ahead[-1] if len(ahead) else 0) + 64)
        if upper:
            missing = self.above * math.exp(min(0.0, -c * (float(self.losses[-1]) - epsilon)))
            if epsilon < float(self.losses[0]):  # losses between ε and the window count, and are not in their place
                missing += (self.outside - self.above) * math.exp(float(log_kappa(c))) * (1 + 1e-9)
            total = math.exp(min(max(_log_product(lead, value + error + missing), -700.0), 1.0))
            return min(1.0, total + self.infinite * (1 + 1e-14) + 5e-324)
        wrapped = 1.01 * self.outside * math.exp(float(log_kappa(c)))
        log_total = _log_product(lead, value - error - wrapped)
        finite = math.exp(min(log_total, 1.0)) if log_total > -700 else 0.0
        return min(1.0, finite + self.infinite * (1 - 1e-13))


def _dot(a: Array, b: Array) -> float:
    """Σ ab by pairwise summation, to (log₂n + 32) ulp; BLAS would be n ulp off, and wake threads for it."""
    return float((a * b).sum())


def _log_product(log_factor: float, value: float) -> float:
    return log_factor + math.log(value) if value > 0 else -math.inf


@dataclass
class _Tilted:
    """p·e^{cl}/M(c) on a lattice."""

    terms: Array
    log_moment: float
    relative: float  # a bound on the relative errors of the terms that matter, and of M(c)
    stray: float  # what the errors of the others sum up to


def _tilted(law: Law, c: float) -> _Tilted:
    """The tilted law, each term off by a relative u(16 + 4|log p| + 8c(|offset| + |l|) + |peak|)."""
    keep = law.probabilities > 0
    if not keep.any():
        raise NotCertifiable("nothing is left of a loss on so coarse a lattice")
    log_p, losses = np.log(law.probabilities[keep]), law.losses[keep]
    log_terms = log_p + c * losses
    peak = float(log_terms.max())
    near = np.exp(log_terms - peak)
    moment = float(near.sum())
    near /= moment
    blur = UNIT_ROUNDOFF * (16 + abs(peak) + 4 * np.abs(log_p) + 8 * c * (abs(law.offset) + np.abs(losses)))
    matters = log_terms > peak - 60
    relative = float(blur[matters].max()) + UNIT_ROUNDOFF * (64 + 2 * abs(peak + math.log(moment)))
    terms = np.zeros(len(keep))
    terms[keep] = near
    rest = ~matters
    stray = float(near[rest] @ np.minimum(blur[rest], 1e6)) + len(keep) * 1e-300
    return _Tilted(terms, peak + math.log(moment), 2 * relative, 2 * stray)


class Fourier:
    """A run of independent privacy losses, one direction of the neighbouring relation.

    Lattices are refined until the interval is relatively as narrow as ``tolerance``; or, where the two bounds cannot
    meet, until the upper one has moved by less than ``settled``. Its error falls with the square of the spacing, so
    what is left of it is a fifteenth of that, or a sixtieth after the first.
    """

    def __init__(
        self, parts: Sequence[tuple[Pair | ProfilePair, int]], tolerance: float = 1e-6, settled: float = 1e-5
    ) -> None:
        self.parts = list(parts)
        self.tolerance = tolerance
        self.settled = settled
        self.log_tail = max(-25.0, 1.5 * math.log(tolerance) - 3)  # what is cut off a step, in δ over their number
        self.steps = sum(times for _, times in parts)

    def _guide(self, log_tail: float) -> tuple[float, Cumulants]:
        """The probability of failure, and moments, of rough laws: they say where to look, and prove nothing."""
        laws = [rough_law(pair, log_tail) for pair, _ in self.parts]
        finite = sum(t * math.log1p(-min(law.infinite, 0.5)) for law, (_, t) in zip(laws, self.parts, strict=True))
        return -math.expm1(finite), Cumulants([(law, times) for law, (_, times) in zip(laws, self.parts, strict=True)])

    def _spacing(self, width: float, size: int, log_tail: float) -> float:
        """A lattice that fits the window, and meets the atoms of a part where there are some."""
        spacing = max(width / (size * 0.9), 1e-290)
        for pair, _ in self.parts:
            low, high = pair.span(log_tail)
            spacing = max(spacing, (high - low) / (1 << 19), 1e-13 * abs(high))
        lattices = [pair.lattice for pair, _ in self.parts if pair.lattice is not None]
        if not lattices:
            return spacing
        base = min(lattices)
        exact = all(
            isinstance(pair, DiscretePair)
            and pair.lattice is not None
            and abs(pair.lattice / base - round(pair.lattice / base)) < 1e-12
            for pair, _ in self.parts
        )
        if exact and base >= spacing:
            return base
        return base / max(1, math.floor(base / spacing))

    def _compose(self, laws: list[Law], window: Window) -> _Composed:
        spacing, c, bottom, top = laws[0].spacing, window.c, window.bottom, window.top
        count = 1 << max(4, math.ceil(math.log2(max(2.0, (top - bottom) / spacing + 2))))
        if count > 4 * _SIZES[-1]:
            raise NotCertifiable(f"{count} lattice points would be needed")
        transform, phase = np.zeros(count // 2 + 1), np.zeros(count // 2 + 1)
        log_moment = slack = rounding = shift = log_finite = offset = offsets = stray = growth = 0.0
        depth, parts = math.log2(count), len(laws)
        for law, (_, times) in zip(laws, self.parts, strict=True):
            tilt = _tilted(law, c)
            log_moment += times * tilt.log_moment
            slack += times * (
                tilt.relative + UNIT_ROUNDOFF * (len(law.probabilities) // count + 4 * parts * abs(tilt.log_moment))
            )
            stray += 1.01 * times * tilt.stray
            folded = np.bincount((law.first + np.arange(len(tilt.terms))) % count, weights=tilt.terms, minlength=count)
            spectrum = np.fft.rfft(folded)
            transform += times * np.log(np.maximum(np.abs(spectrum), 1e-300))
            phase += np.mod(times * np.angle(spectrum), 2 * math.pi)
            # A power multiplies the transform's error by at most n(1 + |error|)^{n−1}.
            norm = math.sqrt(_dot(folded, folded))
            rounding += times * UNIT_ROUNDOFF * _FFT * (depth + 1) * norm
            growth += times * UNIT_ROUNDOFF * _FFT * (depth + 1) * norm * math.sqrt(count)
            shift += times * law.shift
            offset += times * law.offset
            offsets += abs(times * law.offset)
            log_finite += times * math.log1p(-min(law.infinite, 1 - 1e-16)) if law.infinite < 1 else -math.inf
        if growth > 0.1:
            raise NotCertifiable(f"the rounding of {self.steps} steps leaves nothing of the transform")
        tilted = np.fft.irfft(np.exp(transform + 1j * phase), count)
        evaluated = 16 * self.steps + _FFT * depth + 16 * parts + 32
        rounding = 1.12 * (rounding + UNIT_ROUNDOFF * evaluated * math.sqrt(_dot(tilted, tilted))) + 1e-290
        start = math.floor((bottom - offset) / spacing)
        tilted = np.maximum(np.roll(tilted, -(start % count)), 0.0)
        losses = offset + spacing * (start + np.arange(count))
        misplaced = 8 * UNIT_ROUNDOFF * (float(np.abs(losses).max()) + offsets) * (1 + parts)
        slack = 1.01 * slack + c * misplaced
        above, below = self._outside(laws, window, log_moment, slack, start, losses)
        infinite = 0.0 - math.expm1(log_finite)
        shift += misplaced
        return _Composed(c, log_moment, losses, tilted, rounding, above + below, above, infinite, stray, slack, shift)

    def _outside(
        self, laws: list[Law], window: Window, here: float, slack: float, first: int, losses: Array
    ) -> tuple[float, float]:
        """Bounds of the tilted mass above and below the window, whose lattice points begin at the ``first``."""
        bottom, top, last, c = float(losses[0]), float(losses[-1]), first + len(losses) - 1, window.c
        ends = [(*law.support, n) for law, (_, n) in zip(laws, self.parts, strict=True)]
        reach, floor = sum(n * end for _, end, n in ends), sum(n * start for start, _, n in ends)
        scale = max(self._spread(laws, c), 1e-300)
        steps = [8 / scale, 4 / scale, 16 / scale, 2 / scale, c, c / 2, 1 / scale]
        known = [
            (np.log(law.probabilities[keep]), law.losses[keep]) for law in laws for keep in [law.probabilities > 0]
        ]

        def moment(at: float) -> float:
            total = 0.0
            for (log_p, losses), (_, times) in zip(known, self.parts, strict=True):
                terms = log_p + at * losses
                peak = float(terms.max())
                total += times * (peak + math.log(float(np.exp(terms - peak).sum())))
            return total

        def least(sign: float, end: float) -> float:
            best = 0.0
            for a in [window.above if sign > 0 else window.below, *steps]:
                at = c + sign * a
                rounding = (
                    slack
                    + a * slack
                    + sum(
                        16 * UNIT_ROUNDOFF * n * (800 + abs(at) * float(np.abs(law.losses[[0, -1]]).max()) + abs(here))
                        for law, (_, n) in zip(laws, self.parts, strict=True)
                    )
                )
                rounding += 16 * UNIT_ROUNDOFF * a * abs(end)
                best = min(best, moment(at) - here - sign * a * end + rounding)
                if best < 2 - window.margin:
                    break
            return math.exp(best)

        above = least(1.0, top) if reach > last else 0.0
        below = least(-1.0, bottom) if floor < first else 0.0
        return above, below

    def _spread(self, laws: list[Law], c: float) -> float:
        total = 0.0
        for law, (_, times) in zip(laws, self.parts, strict=True):
            terms = np.exp(c * (law.losses - law.losses[-1])) * law.probabilities
            terms /= max(float(terms.sum()), 1e-300)
            mean = _dot(terms, law.losses)
            total += times * _dot(terms, (law.losses - mean) ** 2)
        return math.sqrt(total)

    def _both(
        self, window: Window, log_tail: float, size: int, *, lower: bool = True
    ) -> tuple[_Composed, _Composed | None]:
        spacing = self._spacing(window.top - window.bottom, size, log_tail)
        laws = [upper_law(pair, spacing, log_tail) for pair, _ in self.parts]
        upper = self._compose(laws, window)
        if not lower:
            return upper, None
        return upper, self._below(spacing, log_tail, window)

    def _below(self, spacing: float, log_tail: float, window: Window) -> _Composed | None:
        """The sum of laws that are never worse; None where some pair has none, or nothing is left of it."""
        bottom, top = window.bottom, window.top
        reached = [attained(pair) for pair, _ in self.parts]
        known = [pair for pair in reached if pair is not None]
        if len(known) < len(reached):
            return None
        try:
            laws = [lower_law(pair, spacing, log_tail) for pair in known]
            least = sum(n * (w.offset + spacing * w.support[0]) for w, (_, n) in zip(laws, self.parts, strict=True))
            if least < bottom:  # moved lattices may begin below the window, and mass there should not wrap around
                bottom = max(least - spacing / 2, bottom - _ROOM * (top - bottom))
            return self._compose(laws, replace(window, bottom=bottom))
        except NotCertifiable:
            return None

    def delta(self, epsilon: float) -> Bounds:
        """Certified bounds of δ(ε)."""
        _, guide = self._guide(-700.0)
        guide.refine_near_saddle(epsilon)
        log_delta = min(0.0, guide.saddle(epsilon)[1])
        log_tail = max(-745.0, log_delta - math.log(self.steps) + self.log_tail)
        best = Bounds(0.0, 1.0)
        for size in _SIZES:
            if size == _HALFWAY and best.upper - best.lower > 4 * self.tolerance * best.upper:
                continue
            window = window_for(guide, self.steps, epsilon, log_delta, size, self.tolerance)
            upper, lower = self._both(window, log_tail, size)
            low = lower.delta(epsilon, upper=False) if lower is not None else 0.0
            best = meet(best, Bounds(low, upper.delta(epsilon, upper=True)), SIZES_DISAGREE)
            if best.upper - best.lower <= self.tolerance * best.upper or self._exact():
                break
            if self._one_sided() and size > _SIZES[0]:
                break
        return best

    def _exact(self) -> bool:
        return (
            len(self.parts) == 1 and isinstance(self.parts[0][0], DiscretePair) and self.parts[0][0].lattice is not None
        )

    def _one_sided(self) -> bool:
        """Whether the bounds cannot meet however fine the lattice."""
        return any(attained(pair) is not pair for pair, _ in self.parts)

    def _start(self, delta: float) -> tuple[float, Cumulants, float]:
        """The tail that may be cut off each loss, the moments of rough laws, and a first ε."""
        log_tail = max(-745.0, math.log(delta) - math.log(self.steps) + self.log_tail)
        infinite, guide = self._guide(log_tail)
        return log_tail, guide, guide.guess(max(delta - infinite, delta * 1e-9))

    def estimate(self, delta: float) -> float:
        """ε(δ) to a per cent or so, from the coarsest lattice."""
        return self._epsilon(delta, _SIZES[:1], lower=False).upper

    def epsilon(self, delta: float, *, lower: bool = True) -> Bounds:
        """Certified bounds of ε(δ); without ``lower`` the lower one is 0, and costs nothing."""
        return self._epsilon(delta, _SIZES, lower=lower)

    def _epsilon(self, delta: float, sizes: Sequence[int], *, lower: bool) -> Bounds:
        log_tail, guide, guess = self._start(delta)
        best, before = Bounds(0.0, math.inf), math.inf
        for size in sizes:
            if size == _HALFWAY and best.upper - best.lower > 4 * self.tolerance * best.upper:
                continue  # errors fall with the square of the spacing: it would not be enough
            window = window_for(guide, self.steps, guess, math.log(delta), size, self.tolerance)
            # the coarsest lattice says where to look, unless it is exact
            above, below = self._both(window, log_tail, size, lower=lower and (size > sizes[0] or self._exact()))
            high = invert(partial(above.delta, upper=True), delta, guess, -above.c, up=True)
            low = 0.0
            if below is not None:
                low = invert(partial(below.delta, upper=False), delta, guess, -below.c, up=False)
            best = meet(best, Bounds(low, high), SIZES_DISAGREE)
            if best.upper - best.lower <= self.tolerance * best.upper:
                break
            if self._exact() and abs(high - guess) <= 0.1 * high:  # no finer lattice, and the tilt suits the answer
                break
            if (not lower or self._one_sided()) and abs(high - before) <= self.settled * high:
                break
            before = high
            if math.isfinite(high):
                guess = high
        return best


def invert(bound: Callable[[float], float], delta: float, guess: float, slope: float, *, up: bool) -> float:
    """Where a bound of δ(ε) crosses δ near ``guess``: an ε with bound ≤ δ (``up``), or else one with bound ≥ δ.

    A few secant steps in log δ (whose slope starts at −c) find the crossing; from there the search steps outwards
    until the inequality was itself checked. Far from the guess a tilted sum knows little, and nothing is claimed
    there.
    """
    if up and bound(0.0) <= delta:
        return 0.0
    target, point, last = math.log(delta), max(guess, 1e-300), (math.nan, math.nan)
    for _ in range(8):
        value = bound(point)
        if not 0 < value < math.inf:
            break
        miss = math.log(value) - target
        if point != last[0] and (found := (miss - last[1]) / (point - last[0])) < 0:
            slope = found
        last = point, miss
        if abs(miss) < 1e-11:
            break
        point = max(point - miss / slope, 0.25 * point)
    sign = 1.0 if up else -1.0
    step = 1e-12 * point
    for _ in range(80):
        here = point + sign * step
        if here <= 0:
            return 0.0
        value = bound(here)
        if value <= delta if up else value >= delta:
            return here
        step *= 4
        if step > 1e9 * max(point, 1.0):
            break
    return math.inf if up else 0.0
