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
from scipy.special import log_ndtr

from discreet.errors import NotCertifiable

__all__ = ["Mixture", "OnContour"]

Array = NDArray[np.float64]
Kind = Literal["remove", "add", "replace"]

_UNIT = 2.0**-53
_NEGLIGIBLE = 44.0  # e^−44 ≈ 8e-20: parts of an integrand this far below its peak are bounded, not summed
_QUADRATURE = 40.0  # the inner trapezoid errs by less than e^−40 of M(c)
_CELL = 0.25
_MOST_WORK = 6_000_000


@dataclass
class OnContour:
    """M(c + iω) on the nodes of a contour, relative to M(c)."""

    log_moment: float  # log M(c)
    error: float  # relative error of M(c)
    ratios: NDArray[np.complex128]  # M(c + iω_k) / M(c)
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

        Rounding: each summand exp(a + iωL) is off by a relative 8u(1 + |a|) and 8u·ω|L|, and a dot product of n
        terms by (n + 2)u of the sum of their magnitudes, which is M(c).
        """
        t, step, outside = self._grid(c, spacing * count)
        if count * len(t) > _MOST_WORK:
            raise NotCertifiable(f"{count} × {len(t)} terms on the contour")
        exponent = self.exponent(t, c)
        log_terms = exponent - t * t / 2
        peak = float(log_terms.max())
        terms = np.exp(log_terms - peak)
        total = float(terms.sum())
        log_moment = peak + math.log(total * step / math.sqrt(2 * math.pi))
        argument = float(terms @ (np.abs(exponent) + t * t / 2)) / total
        truncated = math.exp(min(0.0, outside - log_moment))
        error = truncated + math.exp(-_QUADRATURE) + _UNIT * (len(t) + 16 + 8 * argument)

        loss = self.loss(t)
        rows = max(1, int(math.sqrt(count)))
        columns = -(-count // rows)
        fine = np.exp(1j * np.multiply.outer(spacing * np.arange(columns), loss))
        coarse = np.exp(1j * np.multiply.outer(spacing * columns * np.arange(rows), loss)) * (terms / total)
        ratios = (coarse @ fine.T).ravel()[:count]
        phase = float(terms @ np.abs(loss)) / total
        errors = 2 * error + 8 * _UNIT * phase * spacing * np.arange(count)
        return OnContour(log_moment, error, ratios, errors)

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
        for theta in (0.02, 0.06, 0.15, 0.3, 0.5, 0.8, 1.2, 1.57):
            y = theta / angle
            if y > 12:
                continue
            width = min(12.0, 2.9 / angle - y)
            allowed = max(
                2 * math.pi * a / (_QUADRATURE + a * a / 2 - negative * math.log(math.cos(angle * (y + a) / 2)))
                for a in (width * share for share in (0.1, 0.2, 0.35, 0.5, 0.7, 1.0))
            )
            nodes, gap = (t, step) if allowed >= step else _resample(t, allowed)
            if len(nodes) > 20000:
                continue
            modulus, phase = self._shifted(nodes, c, y)
            weight = modulus + (y * y - nodes * nodes) / 2 + math.log(gap / math.sqrt(2 * math.pi)) - log_moment
            sums = np.exp(np.minimum(weight - np.multiply.outer(omegas, phase), 700.0)).sum(axis=1)
            extra = math.exp(min(0.0, outside - log_moment)) + math.exp(-_QUADRATURE)
            spread = math.exp(y * y / 2) * math.cos(angle * y / 2) ** -negative if negative < 1e5 else math.inf
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


def _resample(t: Array, step: float) -> tuple[Array, float]:
    return np.arange(float(t[0]), float(t[-1]) + step, step), step
