"""The log likelihood ratios of sampled Gaussian releases, on the real line and above it, with their rounding errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import NotCertifiable

__all__ = ["LikelihoodRatio"]

Array = NDArray[Any]
Kind = Literal["remove", "add", "replace"]
_SMALLEST = math.exp(-700.0)
_STEEP = 500.0  # exponents from here on are handled in logarithms


@dataclass(frozen=True)
class LikelihoodRatio:
    """w(t) = log Σ_j b_j exp(jνt − j²ν²/2) and what `discreet.accounting.exact.mixture` makes of it.

    ``weights[j−1]`` is the probability b_j of taking part j ≥ 1 times, ``shift`` is ν.
    """

    shift: float
    weights: tuple[float, ...]
    kind: Kind

    def __post_init__(self) -> None:
        if not 1e-150 < self.shift < 1e150:
            raise NotCertifiable(f"a sampled Gaussian whose mean moves by {self.shift:g} deviations is beyond range.")

    @cached_property
    def _many(self) -> int:
        return len(self.weights)

    @cached_property
    def _rest(self) -> float:
        """The probability of not taking part."""
        return max(0.0, 1 - math.fsum(self.weights))

    def _exponents(self, t: Array) -> list[Array]:
        """jνt − j²ν²/2 for each j, as jν(t − jν/2): a product keeps its digits where the difference would not."""
        return [j * self.shift * (t - j * self.shift / 2) for j in range(1, self._many + 1)]

    def _log_ratio(self, t: Array) -> Array:
        """w(t), with the error that `_blur` bounds."""
        if self._many == 1:
            q, y = self.weights[0], self.shift * (t - self.shift / 2)
            if y.size == 0 or y.max() < _STEEP:
                near = np.log1p(q * np.expm1(y))
                if q <= 0.5:
                    return near
                # 1 + q(e^y − 1) cancels where it is below ½; 1 − q is exact there
                return np.where(near < -0.6, np.log((1 - q) + q * np.exp(y)), near)
            steep = np.logaddexp(math.log1p(-q) if q < 1 else -math.inf, np.maximum(y, 1.0) + math.log(q))
            below = np.minimum(y, 1.0)
            small = q * np.expm1(below)
            near = np.where(small < -0.5, np.log(max(1 - q, _SMALLEST) + q * np.exp(below)), np.log1p(small))
            return np.where(y < 1, near, steep)
        exponents = self._exponents(t)
        top = np.max(exponents, axis=0)
        small = np.zeros_like(top)
        for b, e in zip(self.weights, exponents, strict=True):
            small = small + b * np.expm1(np.minimum(e, 1.0))
        lift = np.maximum(top, 0.0)
        large = self._rest * np.exp(-lift)
        for b, e in zip(self.weights, exponents, strict=True):
            large = large + b * np.exp(e - lift)
        summed = (top < 1) & (small > -0.5)
        return np.where(summed, np.log1p(np.where(summed, small, 0.0)), lift + np.log(np.maximum(large, _SMALLEST)))

    def _blur(self, t: Array, w: Array, y: float | Array = 0.0) -> Array:
        """A bound, in units of u, on the error of a computed w(t + iy), apart from that of complex arithmetic.

        With z = Σ b_j(e^{y_j} − 1), so that w = log(1 + z): a change of y_j by at most 8u·jν(|t| + jν + |y|), its own
        rounding and that of ν, changes w by b_j e^{y_j}/(1 + z) times as much; rounding of the summands, and of
        weights that were themselves computed, by (k + 8 + 4|log b_j|)u of b_j|e^{y_j} − 1|/(1 + z). Where 1 + z is
        summed from the probability of not taking part, that is off by 2u for k > 1.
        """
        nu, many = self.shift, self._many
        total = 8 * np.abs(w)
        reach = np.abs(t) + y
        for j, (b, e) in enumerate(zip(self.weights, self._exponents(t), strict=True), start=1):
            if b == 0:
                continue
            share = np.exp(np.minimum(math.log(b) + e - w, 0.0))
            total = total + share * (8 * j * nu * (reach + j * nu))
            if many > 1:
                change = np.where(e > 0, share * -np.expm1(-np.maximum(e, 0.0)), b * -np.expm1(np.minimum(e, 0.0)))
                total = total + (many + 8 - 4 * math.log(b)) * change * np.exp(np.maximum(-w, 0.0))
            elif e.size and e.max() >= _STEEP:
                total = total + share * 4 * abs(math.log(b))
        if many > 1:
            total = total + np.where(np.abs(w) > 0.1, 4 * np.exp(np.maximum(-w, 0.0)), 0.0)
        return total

    def _at(self, t: Array, c: float) -> tuple[Array, Array, Array, Array]:
        """w₀ + cL and L on the real line, and bounds in units of u on the errors of both."""
        if self.kind == "remove":
            w = self._log_ratio(t)
            blur = self._blur(t, w)
            return (c + 1) * w, w, (c + 1) * blur, blur
        other = self._log_ratio(-t)
        fade = self._blur(-t, other)
        if self.kind == "add":
            return -c * other, -other, c * fade, fade
        w = self._log_ratio(t)
        blur = self._blur(t, w)
        return (c + 1) * w - c * other, w - other, (c + 1) * blur + c * fade, blur + fade

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

    def _complex(
        self, t: Array, y: Array, c: float
    ) -> tuple[NDArray[np.complex128], NDArray[np.complex128], Array, Array]:
        """L and w₀ at t + iy, and bounds in units of u on the errors of w₀ + cL and of L. One row for each y."""
        if self.kind == "add":
            ratio, blur = self._complex_ratio(-t, -y)
            return -ratio, np.zeros_like(ratio), c * blur, blur
        ratio, blur = self._complex_ratio(t, y)
        if self.kind == "remove":
            return ratio, ratio, (c + 1) * blur, blur
        other, fade = self._complex_ratio(-t, -y)
        return ratio - other, ratio, (c + 1) * blur + c * fade, blur + fade

    def _complex_ratio(self, t: Array, y: Array) -> tuple[NDArray[np.complex128], Array]:
        """w(t + iy) and a bound on its error in units of u, for kν|y| ≤ π/2.

        1 + z is summed from parts with non-negative real parts, and |1 + z| ≥ cos(kνy/2)·(1 + z(t)) ≥ 0.7·(1 + z(t)):
        rounding costs at most twice what it does on the real line, and a few units of |w|.
        """
        nu = self.shift
        change, imag, one = (np.zeros((len(y), len(t))) for _ in range(3))
        exponents = self._exponents(t)
        top = np.max(exponents, axis=0) if self._many > 1 else exponents[0]
        lift = np.where(top > 30, top, 0.0)
        for j, (b, e) in enumerate(zip(self.weights, exponents, strict=True), start=1):
            cosine, sine = np.cos(j * nu * y), np.sin(j * nu * y)
            scaled = b * np.exp(e - lift)
            one += scaled * np.maximum(cosine, 0.0)
            imag += scaled * sine
            change += b * np.expm1(np.minimum(e, 31.0)) * cosine - 2 * b * np.sin(j * nu * y / 2) ** 2
        one += self._rest * np.exp(-lift)
        near = (np.abs(change) + np.abs(imag) < 0.5) & (top <= 30)
        out = np.empty(one.shape, dtype=np.complex128)
        close = np.where(near, change * (2 + change) + imag * imag, 0.0)
        out.real = np.where(near, 0.5 * np.log1p(close), lift + np.log(np.maximum(np.hypot(one, imag), _SMALLEST)))
        out.imag = np.arctan2(imag, np.where(near, 1 + change, one))
        blur = 2 * self._blur(t, self._log_ratio(t), np.abs(y)) + 48 * np.abs(out) + np.where(near, 0.0, 16.0)
        return out, blur
