"""Moment generating functions of sampled Gaussian releases, with every error bounded.

A unit takes part j times with probability b_j, moving the mean by j·ν noise standard deviations (ν = C/σ). With
w(t) = log Σ_j b_j exp(jνt − j²ν²/2), the density ratio of the mixture Σ b_j N(jν, 1) to N(0, 1) at t, the three pairs are

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
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from discreet.accounting.normal import normal_bins
from discreet.errors import NotCertifiable

__all__ = ["Mixture", "OnContour"]

Array = NDArray[np.float64]
Kind = Literal["remove", "add", "replace"]

_UNIT = 2.0**-53
_NEGLIGIBLE = 44.0  # e^−44 ≈ 8e-20: parts of an integrand this far below its peak are bounded, not summed
_QUADRATURE = 40.0  # the inner trapezoid errs by less than e^−40 of M(c)
_CELL = 0.25
_MOST_WORK = 12_000_000


@dataclass
class OnContour:
    """M(c + iω) on the nodes of a contour, relative to M(c)."""

    log_moment: float  # log M(c)
    error: float  # relative error of M(c)
    changes: NDArray[np.complex128]  # M(c + iω_k)/M(c) − 1
    errors: Array  # bounds of their absolute errors


@dataclass(frozen=True)
class Mixture:
    """One of the three pairs of a sampled Gaussian release.

    ``weights[j−1]`` is the probability of taking part j ≥ 1 times.
    """

    shift: float
    weights: tuple[float, ...]
    kind: Kind
    _cache: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def infinite(self) -> float:
        """P(L = ∞)."""
        return 0.0

    @property
    def top(self) -> float:
        """Adding a unit is seen at worst as its certain absence: loss −log P(not taking part)."""
        rest = 1 - math.fsum(self.weights)
        return -math.log(rest) * (1 + 1e-15) if self.kind == "add" and rest > 0 else math.inf

    @property
    def lattice(self) -> float | None:
        """No lattice: the loss is continuous."""
        return None

    @property
    def anchor(self) -> float:
        """The loss of an output that shows the unit did not take part, ±log P(not taking part)."""
        rest = 1 - math.fsum(self.weights)
        if self.kind == "replace" or rest < 1e-3:
            return 0.0
        return math.log1p(-math.fsum(self.weights)) * (1 if self.kind == "remove" else -1)

    def span(self, log_tail: float) -> tuple[float, float]:
        """Losses outside which P has less than e^log_tail (times the number of shifts)."""
        reach = math.sqrt(-2 * log_tail)
        last = 0.0 if self.kind == "add" else self._many * self.shift
        ends = self.loss(np.array([-reach, last + reach]))
        return float(ends[0]), float(ends[1])

    def masses(self, edges: Array) -> tuple[Array, Array]:
        """Mixtures of normal bins between the t where L(t) meets the edges."""
        t = self._inverse(edges)
        rest = max(0.0, 1 - math.fsum(self.weights))
        plain = normal_bins(t)
        if self.kind == "add":
            mixed = rest * plain + sum(
                b * normal_bins(t + j * self.shift) for j, b in enumerate(self.weights, start=1)
            )
            return plain, mixed
        mixed = rest * plain + sum(b * normal_bins(t - j * self.shift) for j, b in enumerate(self.weights, start=1))
        if self.kind == "remove":
            return mixed, plain
        other = rest * plain + sum(b * normal_bins(t + j * self.shift) for j, b in enumerate(self.weights, start=1))
        return mixed, other

    def _inverse(self, edges: Array) -> Array:
        """t with L(t) = edge, ±∞ beyond the losses that occur."""
        nu, q = self.shift, self.weights[0]
        if self._many == 1 and self.kind != "replace":
            sign = 1.0 if self.kind == "remove" else -1.0
            floor = math.log1p(-q) if q < 1 else -math.inf
            y = sign * np.asarray(edges, dtype=float)
            # e^y = 1 − q + q·e^u, so u = log((e^y − e^floor)/q)
            with np.errstate(divide="ignore", invalid="ignore"):
                u = np.where(y > floor, y + np.log(-np.expm1(np.minimum(floor - y, 0.0))) - math.log(q), -np.inf)
                near = np.abs(y) < 0.1  # there expm1(y)/q keeps the digits of u that matter
                u = np.where(near & (y > floor), np.log1p(np.maximum(np.expm1(np.minimum(y, 1.0)) / q, -1.0)), u)
            return sign * (u / nu + nu / 2)
        low = np.full(len(edges), -60.0 - 2 * self._many * nu)
        high = -low
        ends = self.loss(np.array([low[0], high[0]])) if len(edges) else np.zeros(2)
        for _ in range(64):
            middle = (low + high) / 2
            above = self.loss(middle) > edges
            high = np.where(above, middle, high)
            low = np.where(above, low, middle)
        return np.where(edges < ends[0], -np.inf, np.where(edges > ends[1], np.inf, low))

    def profile(self, epsilon: Array) -> Array:
        """δ(ε) = P(L > ε) − e^ε Q(L > ε), in plain floating point."""
        t = self._inverse(np.asarray(epsilon, dtype=float))
        rest = max(0.0, 1 - math.fsum(self.weights))
        both = [rest * ndtr(-t) for _ in range(2)]
        for j, b in enumerate(self.weights, start=1):
            both[0] = both[0] + b * ndtr(j * self.shift - t)
            both[1] = both[1] + b * ndtr(-j * self.shift - t)
        p = ndtr(-t) if self.kind == "add" else both[0]
        q = {"remove": ndtr(-t), "add": both[1], "replace": both[1]}[self.kind]
        with np.errstate(invalid="ignore"):
            return np.clip(np.nan_to_num(p - np.exp(epsilon) * q), 0.0, 1.0)

    @cached_property
    def _many(self) -> int:
        return len(self.weights)

    def _log_ratio(self, t: Array) -> Array:
        """w(t), to a few ulp of itself."""
        nu = self.shift
        if self._many == 1:
            y = nu * t - nu * nu / 2
            q = self.weights[0]
            if y.size == 0 or y.max() < 500:
                return np.log1p(q * np.expm1(y))
            steep = np.logaddexp(math.log1p(-q) if q < 1 else -math.inf, np.maximum(y, 1.0) + math.log(q))
            return np.where(y < 1, np.log1p(q * np.expm1(np.minimum(y, 1.0))), steep)
        exponents = [j * nu * t - (j * nu) ** 2 / 2 for j in range(1, self._many + 1)]
        top = np.max(exponents, axis=0)
        small = sum(b * np.expm1(np.minimum(e, 1.0)) for b, e in zip(self.weights, exponents, strict=True))
        lift = np.maximum(top, 0.0)
        rest = max(0.0, 1 - math.fsum(self.weights))
        large = rest * np.exp(-lift) + sum(
            b * np.exp(e - lift) for b, e in zip(self.weights, exponents, strict=True)
        )
        return np.where(top < 1, np.log1p(np.maximum(small, -1 + 1e-300)), lift + np.log(np.maximum(large, 1e-300)))

    def start(self, t: Array) -> Array:
        """w₀(t) = log dP/dN(0, 1)."""
        return np.zeros_like(t) if self.kind == "add" else self._log_ratio(t)

    def loss(self, t: Array) -> Array:
        """L(t)."""
        if self.kind == "remove":
            return self._log_ratio(t)
        if self.kind == "add":
            return -self._log_ratio(-t)
        return self._log_ratio(t) - self._log_ratio(-t)

    def exponent(self, t: Array, c: float) -> Array:
        """w₀(t) + cL(t), increasing in t for c > 0."""
        if self.kind == "remove":
            return (c + 1) * self._log_ratio(t)
        if self.kind == "add":
            return -c * self._log_ratio(-t)
        return (c + 1) * self._log_ratio(t) - c * self._log_ratio(-t)

    def reach(self, c: float) -> float:
        """Beyond this t the integrand of M(c) falls at least as fast as e^{−9t}: L' ≤ kν (2kν for replace)."""
        slope = {"remove": c + 1, "add": c, "replace": 2 * c + 1}[self.kind]
        return slope * self._many * self.shift + 9.5

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
        for share in (0.03, 0.06, 0.1, 0.15, 0.22, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
            a = widest * share
            cost = _QUADRATURE + math.log(4) + a * a / 2 + ratios * omega * angle * a
            if negative:
                cost -= negative * math.log(math.cos(angle * a / 2))
            best = max(best, 2 * math.pi * a / cost)
        return best

    def log_moments(self, cs: Array) -> Array:
        """log M(c) for many real c at once, in plain floating point: a map to find the way, not a proof."""
        usable = cs[(cs + 1) * (2 if self.kind == "replace" else 1) * self._many * self.shift <= 190]
        out = np.full(len(cs), np.inf)
        if len(usable) == 0:
            return out
        top = float(usable[-1])
        step = self._step(top, 0.0)
        count = int((self.reach(top) + 9.5) / step) + 2
        if count * len(usable) > _MOST_WORK // 4:
            return out
        t = -9.5 + step * np.arange(count)
        weight = -t * t / 2 + math.log(step / math.sqrt(2 * math.pi)) + self.start(t)
        terms = np.multiply.outer(usable, self.loss(t))
        terms += weight
        peak = terms.max(axis=1)
        terms -= peak[:, None]
        np.exp(terms, out=terms)
        out[: len(usable)] = peak + np.log(terms.sum(axis=1))
        return out

    def _grid(self, c: float, omega: float) -> tuple[Array, float, float]:
        """Quadrature nodes for M(c + iω), ω ≤ ``omega``, their step, and log of a bound on what lies outside.

        Outside the nodes the integrand is bounded on cells of width 1/4: φ at the end nearer to 0, the increasing
        exponent at the right end; a cell of width 1/4 holds so few nodes that its sum is below 3 times that. Left of −9.5 it is at most φ·e^{exponent(−9.5)}, right of `reach` it falls as e^{−9t}.
        """
        end = self.reach(c)
        if end > 400:
            raise NotCertifiable(f"the contour's abscissa {c:g} is too far out for shift {self.shift:g}")
        edges = np.arange(-9.5, end + _CELL, _CELL)
        rise = self.exponent(edges, c)
        height = rise - edges * edges / 2
        peak = float(height.max())
        inside = np.flatnonzero(height > peak - _NEGLIGIBLE)
        first, last = max(int(inside[0]) - 1, 0), min(int(inside[-1]) + 1, len(edges) - 1)
        nearest = np.minimum(np.abs(edges[:-1]), np.abs(edges[1:])) - 1e-9
        nearest[(edges[:-1] <= 0) & (edges[1:] >= 0)] = 0.0
        cells = rise[1:] - nearest * nearest / 2 + math.log(_CELL)
        cells[first + 1 : last - 1] = -np.inf  # one cell of margin covers sums that overhang by a step
        outside = float(np.exp(cells - peak).sum() + math.exp(height[-1] - peak))
        outside += math.exp(min(0.0, float(log_ndtr(-9.5)) + 1 + float(rise[0]) - peak))
        step = min(self._step(c, omega), _CELL * 2)
        low, high = float(edges[first]), float(edges[last])
        count = int((high - low) / step) + 2
        if count > _MOST_WORK // 16:
            raise NotCertifiable(f"{count} quadrature nodes for shift {self.shift:g} and frequency {omega:g}")
        return low + step * np.arange(count), step, math.log(3 * outside) + peak

    def on_contour(self, c: float, spacing: float, count: int) -> OnContour:
        """M(c + iω) at ω = 0, spacing, …, with error bounds.

        What is summed is M(c) − 1 and M(c + iω)/M(c) − 1, so that tiny losses (a small rate, many steps) do not drown in
        the rounding of 1. Each summand f·(e^{iωL} − 1) is off by a relative 8u(2 + |log f|), and a dot product of n terms
        by (n + 2)u of the sum of their magnitudes.
        """
        t, step, outside = self._grid(c, spacing * count)
        if count * len(t) > _MOST_WORK:
            raise NotCertifiable(f"{count} × {len(t)} terms on the contour")
        n = len(t)
        exponent = self.exponent(t, c)
        log_terms = exponent - t * t / 2
        peak = float(log_terms.max())
        terms = np.exp(log_terms - peak)
        total = float(terms.sum())
        terms /= total
        log_moment = peak + math.log(total * step / math.sqrt(2 * math.pi))
        argument = 2 + np.abs(exponent) + t * t / 2
        rounding = _UNIT * (n + 16 + 8 * float(terms @ argument))
        if t[0] <= -9 and t[-1] >= 9 and exponent[-1] < 600:  # ∫φ = 1 is known: 2Φ(−9) < 3e-19 is left out of it
            growth = np.expm1(exponent) * np.exp(-t * t / 2) * (step / math.sqrt(2 * math.pi))
            excess = float(growth.sum())
            finer = _UNIT * float(np.abs(growth) @ (n + 16 + 8 * argument)) / (1 + excess) + 3e-19
            if finer < rounding:
                log_moment, rounding = math.log1p(excess), finer
        quadrature = math.exp(min(0.0, outside - log_moment)) + math.exp(-_QUADRATURE)

        loss = self.loss(t)
        columns = max(1, int(math.sqrt(count)))
        rows = -(-count // columns)
        fine = _turn(spacing * np.arange(columns), loss)
        coarse = _turn(spacing * columns * np.arange(rows), loss) * terms
        sums = coarse @ fine.T  # Σ f(X − 1)(Y − 1); then XY − 1 = (X − 1)(Y − 1) + (X − 1) + (Y − 1)
        sums += coarse.sum(axis=1)[:, None]
        sums += fine @ terms
        weight = terms * (n + 32 + 8 * argument)
        size = np.minimum(2 * float(weight.sum()), spacing * np.arange(1, count + 1) * float(weight @ np.abs(loss)))
        errors = 2 * quadrature + 4 * _UNIT * size
        return OnContour(log_moment, quadrature + rounding, sums.ravel()[:count], errors)

    def log_moment_upper(self, c: float) -> float:
        """A proved upper bound on log M(c)."""
        there = self.on_contour(c, 0.0, 1)
        return there.log_moment + 2 * there.error

    def log_tails(self, c: float, omegas: Array) -> Array:
        """Bounds, for each Ω, on log sup {|M(c + iω)| : ω ≥ Ω} − log M(c).

        Moving t to t + iθ/(kν) (the integrand is analytic there) turns e^{iωL} into e^{−ω·Im L}, where Im L(t + iy) is a
        sum of arguments of mixtures, all of one sign: the bound falls as ω grows, so its value at Ω holds beyond Ω.
        Any 0 < θ < π will do; the least of a few is returned. The integrand's modulus is itself analytic for
        |Im t|·kν < π − θ with the bounds of `_step`, so the same quadrature serves.
        """
        t, step, outside = self._grid(c, 0.0)
        angle = self._many * self.shift
        negative = 0.0 if self.kind == "remove" else c
        log_terms = self.exponent(t, c) - t * t / 2
        peak = float(log_terms.max())
        log_moment = peak + math.log(float(np.exp(log_terms - peak).sum()) * step / math.sqrt(2 * math.pi))
        best = np.zeros(len(omegas))
        # The best shift is y = ω·E L' for small phases and about θ = π/2 for large ones.
        pull = float(np.exp(log_terms - peak) @ np.gradient(self.loss(t), step)) / float(np.exp(log_terms - peak).sum())
        shifts = np.minimum(omegas[::3] * pull, 1.57 / angle)
        for y in sorted({*shifts.tolist(), *(theta / angle for theta in (0.3, 0.8, 1.57))}):
            if not 0 < y <= 12:
                continue
            width = min(12.0, 2.9 / angle - y)
            allowed = max(
                2 * math.pi * a / (_QUADRATURE + a * a / 2 - negative * math.log(math.cos(angle * (y + a) / 2)))
                for a in (width * share for share in (0.2, 0.5, 1.0))
            )
            nodes, gap = (t, step) if allowed >= step else _resample(t, allowed)
            if len(nodes) > 20000:
                continue
            modulus, phase = self._shifted(nodes, c, y)
            weight = modulus + (y * y - nodes * nodes) / 2 + math.log(gap / math.sqrt(2 * math.pi)) - log_moment
            sums = np.exp(np.minimum(weight - np.multiply.outer(omegas, phase), 700.0)).sum(axis=1)
            extra = math.exp(min(0.0, outside - log_moment)) + math.exp(-_QUADRATURE)
            spread = math.exp(y * y / 2 - negative * math.log(math.cos(angle * y / 2)))
            rounding = _UNIT * (len(nodes) + 64 + 32 * float(np.abs(weight).max()))
            best = np.minimum(best, np.log(sums * (1 + rounding) + extra * spread))
        return best

    def _shifted(self, t: Array, c: float, y: float) -> tuple[Array, Array]:
        """log-modulus of exp(w₀ + cL) at t + iy, and Im L there: both to a few ulp."""

        def polar(t: Array, y: float) -> tuple[Array, Array]:
            nu, real, imag = self.shift, np.zeros_like(t), np.zeros_like(t)
            lift = np.maximum(np.max([j * nu * t - (j * nu) ** 2 / 2 for j in range(1, self._many + 1)], axis=0), 0.0)
            far = lift > 30
            for j, b in enumerate(self.weights, start=1):
                e = j * nu * t - (j * nu) ** 2 / 2
                grow = np.expm1(np.where(far, 0.0, e))
                cosine, sine = math.cos(j * nu * y), math.sin(j * nu * y)
                turn = -2 * math.sin(j * nu * y / 2) ** 2
                real += np.where(far, b * np.exp(e - lift) * cosine, b * (grow * cosine + turn))
                imag += np.where(far, b * np.exp(e - lift) * sine, b * (grow + 1) * sine)
            rest = max(0.0, 1 - math.fsum(self.weights))
            real = np.where(far, real + rest * np.exp(-lift) - 1, real)
            modulus = np.where(far, lift, 0.0) + 0.5 * np.log1p(real * (2 + real) + imag * imag)
            return modulus, np.arctan2(imag, 1 + real)

        if self.kind == "add":  # L = −w(−t): w at −t − iy
            modulus, phase = polar(-t, -y)
            return -c * modulus, -phase
        modulus, phase = polar(t, y)
        if self.kind == "remove":
            return (c + 1) * modulus, phase
        mirrored, back = polar(-t, -y)
        return (c + 1) * modulus - c * mirrored, phase - back


def _turn(omegas: Array, loss: Array) -> NDArray[np.complex128]:
    """e^{iωL} − 1, without cancellation."""
    angle = np.multiply.outer(omegas, loss)
    half = np.sin(angle / 2)
    out = np.empty(angle.shape, dtype=np.complex128)
    out.real = -2 * half * half
    out.imag = np.sin(angle)
    return out


def _resample(t: Array, step: float) -> tuple[Array, float]:
    return np.arange(float(t[0]), float(t[-1]) + step, step), step
