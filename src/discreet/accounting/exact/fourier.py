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
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.bounds import Bounds, meet
from discreet.accounting.exact.contour import Contour, log_kappa
from discreet.accounting.exact.lattice import Law, lower_law, merged_law, upper_law
from discreet.accounting.exact.pairs import DiscretePair, Pair, ProfilePair, attained
from discreet.errors import NotCertifiable
from discreet.floats import UNIT_ROUNDOFF

__all__ = ["Fourier"]

Array = NDArray[Any]
_SIZES = (1 << 13, 1 << 15, 1 << 17)
_SETTLED = 1e-5  # the error falls with the square of the spacing: what is left is a fifteenth of the last change
_FFT = 8.0  # ‖error‖ ≤ 8u·log₂N·‖·‖: Higham 2002, Theorem 24.2, with twiddle factors to 2u
_SIZES_DISAGREE = "two lattices of the Fourier accountant"
_ROOM = 0.05  # of the window, which `_spacing` leaves a tenth of its points
_MARGIN = 32.0  # e^−32 of the tilted mass may fall outside the window


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
        norm = math.sqrt(1 / (2 * c * (2 * c + 1) * (c + 1)) / spacing + math.exp(2 * float(log_kappa(c))))
        error = 1.01 * norm * self.rounding + self.stray * math.exp(float(log_kappa(c)))
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
    """A run of independent privacy losses, one direction of the neighbouring relation."""

    def __init__(self, parts: Sequence[tuple[Pair | ProfilePair, int]], tolerance: float = 1e-6) -> None:
        self.parts = list(parts)
        self.tolerance = tolerance
        self.steps = sum(times for _, times in parts)

    def _coarse(self, log_tail: float) -> tuple[list[Law], Contour]:
        laws = []
        for pair, _ in self.parts:
            low, high = pair.span(log_tail)
            spacing = max((high - low) / 1024, 1e-9 * abs(high), 1e-290)
            if pair.lattice is not None:
                spacing = pair.lattice / max(1, math.floor(pair.lattice / spacing))
            laws.append(upper_law(pair, spacing, log_tail))
        return laws, Contour([(law.transform(), times) for law, (_, times) in zip(laws, self.parts, strict=True)])

    def _plan(self, guide: Contour, epsilon: float) -> tuple[float, float, float]:
        """The tilt c, and a window (bottom, top) that holds the tilted sum."""
        guide._refine_near_saddle(epsilon)
        c, _, _ = guide._saddle(epsilon)
        cs, moments = guide._cumulants()
        here = float(guide._log_moments(np.array([c]))[0])
        up, down = cs > c * 1.001, np.concatenate([cs[cs < c * 0.999], -cs[::-1][cs[::-1] < 5]])
        top = float(np.min((moments[up] - here + _MARGIN) / (cs[up] - c))) if up.any() else math.inf
        bottom = float(np.max((here - _MARGIN - guide._log_moments(down)) / (c - down))) if len(down) else -math.inf
        reach = sum(t * float(part.losses.max()) for part, t in guide.parts if isinstance(part, DiscretePair))
        floor = sum(t * float(part.losses.min()) for part, t in guide.parts if isinstance(part, DiscretePair))
        top = max(min(top, reach), epsilon)
        bottom = min(max(bottom, floor), epsilon)
        return c, bottom, top + 1e-9 * abs(top)

    def _spacing(self, width: float, size: int) -> float:
        """A lattice that fits the window, and meets the atoms of a part where there are some."""
        spacing = max(width / (size * 0.9), 1e-290)
        for pair, _ in self.parts:
            low, high = pair.span(-800.0)
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

    def _compose(self, laws: list[Law], c: float, bottom: float, top: float) -> _Composed:
        spacing = laws[0].spacing
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
        above, below = self._outside(laws, c, log_moment, slack, start, start + count - 1, losses)
        infinite = 0.0 - math.expm1(log_finite)
        return _Composed(
            c, log_moment, losses, tilted, rounding, above + below, above, infinite, stray, slack, shift + misplaced
        )

    def _outside(
        self, laws: list[Law], c: float, here: float, slack: float, first: int, last: int, losses: Array
    ) -> tuple[float, float]:
        """Bounds of the tilted mass above and below the window, whose lattice points are ``first`` to ``last``."""
        bottom, top = float(losses[0]), float(losses[-1])
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
            for a in steps:
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
                if best < -_MARGIN + 4:
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
        self, epsilon: float, log_tail: float, guide: Contour, size: int, *, lower: bool = True
    ) -> tuple[_Composed, _Composed | None]:
        c, bottom, top = self._plan(guide, epsilon)
        spacing = self._spacing(top - bottom, size)
        upper = self._compose([upper_law(p, spacing, log_tail) for p, _ in self.parts], c, bottom, top)
        if not lower:
            return upper, None
        return upper, self._below(lower_law, spacing, log_tail, c, bottom, top)

    def _below(self, law: Callable[[Pair, float, float], Law], spacing: float, *plan: float) -> _Composed | None:
        """The sum of laws that are never worse; None where some pair has none, or nothing is left of it."""
        log_tail, c, bottom, top = plan
        reached = [attained(pair) for pair, _ in self.parts]
        known = [pair for pair in reached if pair is not None]
        if len(known) < len(reached):
            return None
        try:
            laws = [law(pair, spacing, log_tail) for pair in known]
            least = sum(n * (w.offset + spacing * w.support[0]) for w, (_, n) in zip(laws, self.parts, strict=True))
            if least < bottom:  # moved lattices may begin below the window, and mass there should not wrap around
                bottom = max(least - spacing / 2, bottom - _ROOM * (top - bottom))
            return self._compose(laws, c, bottom, top)
        except NotCertifiable:
            return None

    def delta(self, epsilon: float) -> Bounds:
        """Certified bounds of δ(ε)."""
        _, guide = self._coarse(-700.0)
        guide._refine_near_saddle(epsilon)
        log_tail = max(-745.0, min(0.0, guide._saddle(epsilon)[1]) - math.log(self.steps) - 25)
        best = Bounds(0.0, 1.0)
        for size in _SIZES:
            upper, lower = self._both(epsilon, log_tail, guide, size)
            low = lower.delta(epsilon, upper=False) if lower is not None else 0.0
            best = meet(best, Bounds(low, upper.delta(epsilon, upper=True)), _SIZES_DISAGREE)
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

    def _start(self, delta: float) -> tuple[float, Contour, float]:
        """The tail that may be cut off each loss, the moments of rough laws, and a first ε."""
        log_tail = max(-745.0, math.log(delta) - math.log(self.steps) - 25)
        laws, guide = self._coarse(log_tail)
        infinite = -math.expm1(
            sum(t * math.log1p(-min(w.infinite, 0.5)) for w, (_, t) in zip(laws, self.parts, strict=True))
        )
        return log_tail, guide, guide._guess(max(delta - infinite, delta * 1e-9))

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
            above, below = self._both(guess, log_tail, guide, size, lower=lower)
            high = _invert(partial(above.delta, upper=True), delta, guess, -above.c, up=True)
            low = 0.0
            if below is not None:
                low = _invert(partial(below.delta, upper=False), delta, guess, -below.c, up=False)
            best = meet(best, Bounds(low, high), _SIZES_DISAGREE)
            if best.upper - best.lower <= self.tolerance * best.upper:
                break
            if self._exact() and abs(high - guess) <= 0.1 * high:  # no finer lattice, and the tilt suits the answer
                break
            if (below is None or self._one_sided()) and abs(high - before) <= _SETTLED * high:
                break
            before = high
            if math.isfinite(high):
                guess = high
        if lower and best.lower < 0.9 * best.upper < math.inf:
            c, bottom, top = self._plan(guide, guess)
            merged = self._below(merged_law, self._spacing(top - bottom, sizes[-1]), log_tail, c, bottom, top)
            if merged is not None:
                low = _invert(partial(merged.delta, upper=False), delta, guess, -merged.c, up=False)
                best = meet(best, Bounds(low, math.inf), _SIZES_DISAGREE)
        return best


def _invert(bound: Callable[[float], float], delta: float, guess: float, slope: float, *, up: bool) -> float:
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
