"""Moment generating functions of sampled Gaussian releases, with every error bounded.

A unit takes part j times with probability b_j, moving the mean by j·ν noise standard deviations (ν = C/σ). With w(t)
= log Σ_j b_j exp(jνt − j²ν²/2), the density ratio of the mixture Σ b_j N(jν, 1) to N(0, 1) at t, the three pairs are

    remove    P = Σ b_j N(jν, 1)   Q = N(0, 1)             L(t) = w(t)
    add       P = N(0, 1)          Q = Σ b_j N(jν, 1)      L(t) = −w(−t)          (t reflected)
    replace   P = Σ b_j N(jν, 1)   Q = Σ b_j N(−jν, 1)     L(t) = w(t) − w(−t)

and each dominates every pair of neighbouring outputs. Proof: let A be any event in any dimension, N(0)(A) = Φ(−τ) with
the mean moved to the contribution of the other rows. By the Gaussian isoperimetric inequality N(a)(A) ≤ Φ(‖a‖ − τ) and
N(b)(A) ≥ Φ(−‖b‖ − τ), so P(A) − αQ(A) is at most its value on the half-line {t > τ} of the pair above. (For one row:
Zhu–Dong–Wang 2022; for k rows and add-remove: Ganesh 2024.)

In all three L increases, and M(s) = E_P e^{sL} = ∫ φ(t) exp(w₀(t) + sL(t)) dt with w₀ = w, 0, w.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from discreet.accounting.exact.likelihood_ratio import LikelihoodRatio
from discreet.accounting.exact.transform import OnContour, on_contour, short
from discreet.errors import NotCertifiable
from discreet.floats import UNIT_ROUNDOFF

__all__ = ["MixtureMoments"]

Array = NDArray[Any]

_NEGLIGIBLE = 44.0  # e^−44 ≈ 8e-20: parts of an integrand this far below its peak are bounded, not summed
_QUADRATURE = 40.0  # the inner trapezoid errs by less than e^−40 of M(c)
_CELL = 0.25
_ROOT_2PI = math.sqrt(2 * math.pi)
_FAR_LEFT = float(log_ndtr(-9.5))
_MOST_WORK = 12_000_000
_MOST_TERMS = 240_000_000


@dataclass(frozen=True)
class MixtureMoments(LikelihoodRatio):
    """M(s) of one of the three pairs of a sampled Gaussian release, on the real line and along a contour."""

    _cache: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def reach(self, c: float) -> float:
        """Beyond this t the integrand of M(c) falls at least as fast as e^{−9t}: L' ≤ kν (2kν for replace).

        For add and t ≥ 0, L'(t) = Σ jν b_j e^{y_j}/Σ b_j e^{y_j} at −t, where all e^{y_j} ≤ 1 and the denominator is at
        least P(not taking part): much less where a unit rarely takes part.
        """
        steepest = self._many * self.shift
        if self.kind == "add":
            mean = self.shift * math.fsum(j * b for j, b in enumerate(self.weights, start=1))
            return c * (min(steepest, 1.01 * mean / self._rest) if self._rest > 0.5 else steepest) + 9.5
        return (c + 1 if self.kind == "remove" else 2 * c + 1) * steepest + 9.5

    def _step(self, c: float, omega: float) -> float:
        """A step for which the trapezoid over t errs by at most e^−40·M(c), at every frequency up to ``omega``.

        For f analytic in |Im t| ≤ a the error is at most 2 sup_y ∫|f(t + iy)|dt / (e^{2πa/h} − 1). Here, with
        θ = kνa < π the largest phase: |φ(t + ia)| = φ(t)e^{a²/2}; |Σ| ≤ Σ|·| for positive powers and
        |Σ| ≥ cos(θ/2)·Σ|·| for negative ones; and the phase of each Σ stays below θ, which costs e^{ωθ} a ratio.
        """
        angle = self._many * self.shift
        ratios = 2 if self.kind == "replace" else 1
        negative = 0.0 if self.kind == "remove" else c
        widest = min(12.0, (3.1 if negative == 0 else 2.9) / angle)
        best = 0.0
        for share in (0.003, 0.01, 0.03, 0.06, 0.1, 0.15, 0.22, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
            a = widest * share
            cost = _QUADRATURE + math.log(4) + a * a / 2 + ratios * omega * angle * a
            if negative:
                cost -= negative * math.log(math.cos(angle * a / 2))
            best = max(best, 2 * math.pi * a / cost)
        return best

    def log_moments(self, cs: Array) -> Array:
        """log M(c) for many real c at once, in plain floating point: a map to find the way, not a proof."""
        usable = cs[self.reach(0.0) + cs * (self.reach(1.0) - self.reach(0.0)) <= 199.5]  # it is linear in c
        if self.kind == "add":  # the greater c the finer the nodes
            usable = usable[usable * (self._many * self.shift) ** 2 <= 1e5]
        else:  # beyond log M(c) = 3000 for one step nothing is ever asked
            usable = usable[
                (usable + 1) * (usable * (self._many * self.shift) ** 2 / 2 + math.log(self.weights[-1])) < 3000
            ]
        out = np.full(len(cs), np.inf)
        if len(usable) == 0:
            return out
        top = float(usable[-1])
        step = self._step(top, 0.0)
        count = int((self.reach(top) + 9.5) / step) + 2
        if count * len(usable) > _MOST_WORK // 4:
            return out
        t = -9.5 + step * np.arange(count)
        weight = -t * t / 2 + math.log(step / _ROOT_2PI) + self.start(t)
        terms = np.multiply.outer(usable, self.loss(t))
        terms += weight
        peak = terms.max(axis=1)
        terms -= peak[:, None]
        np.exp(terms, out=terms)
        out[: len(usable)] = peak + np.log(terms.sum(axis=1))
        return out

    def _range(self, c: float) -> tuple[float, float, float]:
        """Where the integrand of M(c) matters, and log of a bound on its trapezoid sum outside.

        Outside, the integrand is bounded on cells of width 1/4: φ at the end nearer to 0, the increasing exponent at
        the right end; a cell holds so few nodes that its sum is below 3 times that. Left of −9.5 it is at most
        φ·e^{exponent(−9.5)}, right of `reach` it falls as e^{−9t}.
        """
        known, found = self._cache.get("range", (None, None))
        if known == c:
            return found
        end = self.reach(c)
        if end > 400:
            raise NotCertifiable(f"the contour's abscissa {c:g} is too far out for shift {self.shift:g}")
        edges = np.arange(-9.5, end + _CELL, _CELL)
        rise = self.exponent(edges, c)
        height = rise - edges * edges / 2
        peak = float(height.max())
        inside = (height > peak - _NEGLIGIBLE).nonzero()[0]
        first, last = max(int(inside[0]) - 1, 0), min(int(inside[-1]) + 1, len(edges) - 1)
        nearest = np.minimum(np.abs(edges[:-1]), np.abs(edges[1:])) - 1e-9  # −9.5 + 38·¼ = 0: no cell straddles it
        cells = np.exp(rise[1:] - nearest * nearest / 2 - peak)
        cells[first + 1 : last - 1] = 0.0  # one cell of margin covers sums that overhang by a step
        outside = _CELL * float(cells.sum()) + math.exp(height[-1] - peak)
        outside += math.exp(min(0.0, _FAR_LEFT + 4 + float(rise[0]) - peak))
        found = float(edges[first]), float(edges[last]), math.log(3 * outside) + peak
        self._cache["range"] = c, found
        return found

    def _grid(self, c: float, omega: float) -> tuple[Array, float, float]:
        """Quadrature nodes for M(c + iω), ω ≤ ``omega``, their step, and log of a bound on what lies outside."""
        low, high, outside = self._range(c)
        step = short(min(self._step(c, omega), _CELL * 2), 24)
        count = int((high - low) / step) + 2
        if count > _MOST_WORK // 16:
            raise NotCertifiable(f"{count} quadrature nodes for shift {self.shift:g} and frequency {omega:g}")
        return low + step * np.arange(count), step, outside

    def _moment_at(self, c: float) -> _Moment:
        """M(c) on nodes fine enough for real orders; the last one is kept, for three questions are asked at each c."""
        known, found = self._cache.get("moment", (None, None))
        if known != c:
            found = self._moment(c, 0.0)
            self._cache["moment"] = c, found
        return found

    def _moment(self, c: float, omega: float) -> _Moment:
        """M(c) on nodes fine enough for frequencies up to ``omega``.

        What is summed is M(c) − 1 where possible, so that tiny losses (a small rate, many steps) do not drown in the
        rounding of 1.
        """
        t, step, outside = self._grid(c, omega)
        n, half = len(t), t * t / 2
        exponent, loss, blur, loss_blur = self._at(t, c)
        log_terms = exponent - half
        peak = float(log_terms.max())
        terms = np.exp(log_terms - peak)
        total = float(terms.sum())
        terms /= total
        log_moment = peak + math.log(total * step / _ROOT_2PI)
        moved = blur + 3 * np.abs(exponent)
        size = moved + 3 * half + (abs(peak) + 8)
        rounding = UNIT_ROUNDOFF * (n + 16 + 2 * abs(peak) + 2 * abs(log_moment) + float(terms @ size))
        if t[0] <= -9 and t[-1] >= 9 and exponent[-1] < 600:  # ∫φ = 1 is known: 2Φ(−9) < 3e-19 is left out of it
            base = np.exp(-half)
            base *= step / _ROOT_2PI
            growth = np.expm1(exponent) * base
            excess = float(growth.sum())
            # e^x − 1 moves by e^x times what x does
            finer = float(np.abs(growth) @ (n + 16 + 3 * half)) + float((growth + base) @ moved)
            finer = UNIT_ROUNDOFF * (1.01 * finer / (1 + excess) + 2 * abs(math.log1p(excess))) + 3e-19
            if finer < rounding:
                log_moment, rounding = math.log1p(excess), finer
        quadrature = math.exp(min(0.0, outside - log_moment)) + 2 * math.exp(-_QUADRATURE)
        if not quadrature + rounding < 1e-3:
            raise NotCertifiable(f"the moment of order {c:g} of shift {self.shift:g} drowns in rounding")
        return _Moment(t, step, outside, terms, loss, size, loss_blur, log_moment, 1.01 * rounding, 1.01 * quadrature)

    def on_contour(self, c: float, spacing: float, count: int) -> OnContour:
        """M(c + iω) at ω = 0, spacing, …, with error bounds.

        Summed as Σ f·(e^{iωL} − 1); at high frequencies on a line above the axis, where the integrand no longer swings
        (`_lifted`). ``spacing`` times an integer below ``count`` must be exact. A relative error ρ of a term costs
        ρ|f|·min(2, ω|L|), as do the 3 sums, with 4n + 64 units each; an error of L costs ω|f| times itself. The sum
        that the terms are divided by errs by Σρ|f| relatively, which costs that of the computed sum.
        """
        lift, wide = self._lift(c)
        real = self._step(c, spacing * count)
        moment = self._moment_at(c) if wide > 1.5 * real else self._moment(c, spacing * count)
        terms, loss, size, loss_blur, missing = moment.terms, moment.loss, moment.size, moment.loss_blur, 0.0
        if wide > 1.5 * real:
            terms, loss, size, loss_blur, missing = self._lifted(c, lift, wide)
        if count * len(loss) > _MOST_TERMS:
            raise NotCertifiable(f"{count} × {len(loss)} terms on the contour")
        columns = max(1, int(math.sqrt(count)))
        rows = -(-count // columns)
        fine = _turn(spacing * np.arange(columns), loss)
        coarse = _turn(spacing * columns * np.arange(rows), loss) * terms
        sums = coarse @ fine.T  # Σ f(X − 1)(Y − 1); then XY − 1 = (X − 1)(Y − 1) + (X − 1) + (Y − 1)
        sums += coarse.sum(axis=1)[:, None]
        sums += fine @ terms
        weight, reach = np.abs(terms), np.abs(loss)
        unsure = weight * (size + 4 * len(loss) + 64)
        total, far = float(unsure.sum()), float(unsure @ reach)
        omegas, changes = spacing * np.arange(count), sums.ravel()[:count]
        phase = omegas * float(weight @ (loss_blur + 8 * reach))
        quadrature = moment.quadrature + missing
        if not total * UNIT_ROUNDOFF < 1e-3:
            raise NotCertifiable("the sum that the terms on the contour are divided by drowns in rounding")
        errors = 2 * quadrature + 1.01 * UNIT_ROUNDOFF * (
            4 * np.minimum(total, omegas * far) + phase + total * np.abs(changes)
        )
        return on_contour(moment.log_moment, moment.quadrature + moment.rounding, changes, errors)

    def _lift(self, c: float) -> tuple[float, float]:
        """The height y of a line Im t = y, and the step of a trapezoid on it that errs by e^−40·M(c) at every ω ≥ 0.

        Between Im t = 0 and Im t = 2y, with 2y·kν < π, the argument of each mixture has one sign, so |e^{iωL}| ≤ 1:
        the integrand is below that of M(c) on the lower edge and below e^{2y²}·cos(kνy)^{−c} times it on the upper.
        """
        angle = self._many * self.shift
        negative = 0.0 if self.kind == "remove" else c
        y = min(1.6, 1.4 / angle, 1.5 / (angle * math.sqrt(negative + 1e-9)))  # the terms' moduli sum up to e^{y²/2}
        cost = _QUADRATURE + math.log(4) + 2 * y * y - negative * math.log(math.cos(angle * y))
        return y, 2 * math.pi * y / cost

    def _lifted(
        self, c: float, y: float, step: float
    ) -> tuple[NDArray[np.complex128], NDArray[np.complex128], Array, Array, float]:
        """The normalised terms and L on the line Im t = y, the errors of both in units of u, and what lies outside."""
        low, high, outside = self._range(c)
        step = short(step, 24)
        t = low + step * np.arange(int((high - low) / step) + 2)
        loss, start, blur, loss_blur = self._complex(t, np.array([[y]]), c)
        log_terms = (start + c * loss)[0] + (y * y - t * t) / 2 - 1j * y * t
        peak = float(log_terms.real.max())
        terms = np.exp(log_terms - peak)
        total = float(terms.real.sum())
        if total <= 0:
            raise NotCertifiable("the integral on the lifted line lost its sign")
        terms /= total
        size = blur[0] + 4 * np.abs(log_terms) + 4 * (y * y + t * t + y * np.abs(t)) + (abs(peak) + 16)
        negative = 0.0 if self.kind == "remove" else c
        spread = y * y / 2 - negative * math.log(math.cos(self._many * self.shift * y / 2))
        log_total = peak + math.log(total * step / _ROOT_2PI)
        missing = 2 * math.exp(min(0.0, outside + spread - log_total)) + 2 * math.exp(-_QUADRATURE)
        return terms, loss[0], size, loss_blur[0], missing

    def log_moment_upper(self, c: float) -> float:
        """A proved upper bound on log M(c)."""
        moment = self._moment_at(c)
        return moment.log_moment + 1.01 * (moment.rounding + moment.quadrature)

    def log_tails(self, c: float, omegas: Array) -> Array:
        """Bounds, for each Ω, on log sup {|M(c + iω)| : ω ≥ Ω} − log M(c).

        Moving t to t + iθ/(kν) (the integrand is analytic there) turns e^{iωL} into e^{−ω·Im L}, where Im L(t + iy)
        is a sum of arguments of mixtures, all of one sign: the bound falls as ω grows, so its value at Ω holds beyond
        Ω. Any 0 < θ < π will do; the least of a few is returned. The integrand's modulus is itself analytic for |Im
        t|·kν < π − θ with the bounds of `_step`, so the same quadrature serves.
        """
        moment = self._moment_at(c)
        t, step, outside = moment.nodes, moment.step, moment.outside
        angle = self._many * self.shift
        negative = 0.0 if self.kind == "remove" else c
        terms, loss, log_moment = moment.terms, moment.loss, moment.log_moment
        # The best shift is y = ω·E L' for small phases and about θ = π/2 for large ones.
        pull = float(terms[1:] @ (loss[1:] - loss[:-1])) / step
        widest = 1.57 / angle * min(1.0, 6 / math.sqrt(negative + 1e-9))  # higher up negative powers grow too much
        wanted = np.minimum(omegas[:: max(1, len(omegas) // 4)] * pull, widest)
        y = np.sort(np.concatenate([wanted, [widest / 3, widest]]))
        y = y[(y > 0) & (y <= 12) & (np.diff(y, prepend=0.0) > 0)]
        if len(y) == 0:
            return np.zeros(len(omegas))
        far = float(y[-1])
        width = min(12.0, 2.9 / angle - far, 1.57 / angle)
        allowed = max(
            2 * math.pi * a / (_QUADRATURE + a * a / 2 - negative * math.log(math.cos(angle * (far + a) / 2)))
            for a in (width * share for share in (0.2, 0.5, 1.0))
        )
        nodes, gap = (t, step) if allowed >= step else _resample(t, allowed)
        if len(nodes) > 20000:
            return np.zeros(len(omegas))
        complex_loss, start, blur, loss_blur = self._complex(nodes, y[:, None], c)
        phase = complex_loss.imag
        weight = start.real + c * complex_loss.real + (y[:, None] ** 2 - nodes * nodes) / 2
        weight += math.log(gap / _ROOT_2PI) - log_moment
        sums = np.exp(np.minimum(weight[:, None, :] - omegas[:, None] * phase[:, None, :], 700.0)).sum(axis=2)
        extra = math.exp(min(0.0, outside - log_moment)) + 2 * math.exp(-_QUADRATURE)
        spread = np.exp(np.minimum(y * y / 2 - negative * np.log(np.cos(angle * y / 2)), 700.0))
        fixed = len(nodes) + 64 + 8 * float(np.abs(weight).max()) + float(blur.max()) + 4 * abs(log_moment)
        rounding = UNIT_ROUNDOFF * (fixed + omegas * (float(loss_blur.max()) + 4 * float(phase.max())))
        bounds = np.log(sums + extra * spread[:, None]).min(axis=0)
        bounds += 1.01 * (rounding + moment.rounding + moment.quadrature)
        return np.minimum(bounds, 0.0)


@dataclass
class _Moment:
    """M(c) on a grid: normalised terms, their losses, and the errors of all."""

    nodes: Array
    step: float  # between nodes
    outside: float  # log of a bound on what lies beyond them
    terms: NDArray[Any]
    loss: NDArray[Any]
    size: Array  # relative errors of the terms, in units of u
    loss_blur: Array  # errors of the losses, in units of u
    log_moment: float
    rounding: float  # of log M(c)
    quadrature: float  # relative, of M(c)


def _turn(omegas: Array, loss: NDArray[Any]) -> NDArray[np.complex128]:
    """e^{iωL} − 1, without cancellation; Im L ≥ 0."""
    angle = np.multiply.outer(omegas, loss.real)
    half = np.sin(angle / 2)
    out = np.empty(angle.shape, dtype=np.complex128)
    out.real = -2 * half * half
    out.imag = np.sin(angle)
    if np.iscomplexobj(loss):
        decay = np.expm1(np.multiply.outer(-omegas, loss.imag))
        out += decay * (1 + out)
    return out


def _resample(t: Array, step: float) -> tuple[Array, float]:
    step = short(step, 24)
    return float(t[0]) + step * np.arange(int(float(t[-1] - t[0]) / step) + 2), step
