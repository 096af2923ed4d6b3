"""Dominating pairs of sampled Gaussian releases: probabilities of bins of the privacy loss, and δ(ε) of one release.

The pairs, and the proof that they dominate, are in `discreet.accounting.exact.mixture_moments`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from discreet.accounting.exact.mixture_moments import MixtureMoments
from discreet.accounting.exact.normal import bin_error, normal_bins
from discreet.floats import UNIT_ROUNDOFF

__all__ = ["GainCells", "Mixture"]

Array = NDArray[Any]

_SMALLEST = math.exp(-700.0)


@dataclass(frozen=True, eq=False)
class GainCells:
    """Gains 1 − dQ/dP at the ends of bins, and what P and P − Q have in the bins, each beside a bound of its error.

    The first bin is all before the first end, the last one all beyond the last end.
    """

    gains: Array
    gains_error: Array
    masses: Array
    masses_error: Array
    differences: Array
    differences_error: Array


@dataclass(frozen=True)
class Mixture(MixtureMoments):
    """One of the three pairs of a sampled Gaussian release.

    ``weights[j−1]`` is the probability of taking part j ≥ 1 times.
    """

    @property
    def infinite(self) -> float:
        """P(L = ∞)."""
        return 0.0

    @property
    def top(self) -> float:
        """Adding a unit is seen at worst as its certain absence: loss −log P(not taking part)."""
        if self.kind != "add":
            return math.inf
        if self._many == 1:
            return -math.log1p(-self.weights[0]) * (1 + 1e-15) if self.weights[0] < 1 else math.inf
        rest = self._rest - 4 * (self._many + 64) * UNIT_ROUNDOFF  # weights of several rows are rounded themselves
        return -math.log(rest) * (1 + 1e-15) + 1e-15 if rest > 0 else math.inf

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
            mixed = rest * plain + sum(b * normal_bins(t + j * self.shift) for j, b in enumerate(self.weights, start=1))
            return plain, mixed
        mixed = rest * plain + sum(b * normal_bins(t - j * self.shift) for j, b in enumerate(self.weights, start=1))
        if self.kind == "remove":
            return mixed, plain
        other = rest * plain + sum(b * normal_bins(t + j * self.shift) for j, b in enumerate(self.weights, start=1))
        return mixed, other

    def gains(self, t: Array) -> GainCells:
        """Gains at the points t, and the masses of the bins between them.

        P − Q is a sum of differences of normal bins, weighted with the probabilities of taking part: its error is
        relative to those, however rare they are. A normal bin is off by `bin_error`, and where its ends t − jν are
        rounded by what lies between; ν itself is off by some units.
        """
        _, loss, _, blur = self._at(t, 0.0)
        gains = -np.expm1(-loss)
        gains_error = 1.01 * UNIT_ROUNDOFF * ((1 - gains) * blur + 8 * np.abs(gains))
        weights_error = UNIT_ROUNDOFF * (self._many + 64 - 4 * math.log(max(min(self.weights), _SMALLEST)))
        weights_error = 4 * UNIT_ROUNDOFF if self._many == 1 else weights_error
        plain, plain_error = self._bins(t, 0)
        masses, masses_error = plain, plain_error
        if self.kind != "add":
            rest_error = UNIT_ROUNDOFF * (4 if self._many == 1 else 4 * (self._many + 64))
            masses, masses_error = self._rest * plain, self._rest * plain_error + rest_error * plain
        differences, differences_error = np.zeros(len(t) + 1), np.zeros(len(t) + 1)
        for j, b in enumerate(self.weights, start=1):
            up = (plain, plain_error) if self.kind == "add" else self._bins(t, j)
            down = (plain, plain_error) if self.kind == "remove" else self._bins(t, -j)
            differences = differences + b * (up[0] - down[0])
            differences_error = differences_error + b * (up[1] + down[1] + weights_error * (up[0] + down[0]))
            if self.kind != "add":
                masses = masses + b * up[0]
                masses_error = masses_error + b * (up[1] + weights_error * up[0])
        rounding = 4 * (self._many + 2) * UNIT_ROUNDOFF
        return GainCells(
            gains,
            gains_error,
            masses,
            1.01 * masses_error + rounding * masses + 5e-324,
            differences,
            1.01 * differences_error * (1 + rounding) + rounding * np.abs(differences) + 5e-324,
        )

    def _bins(self, t: Array, j: int) -> tuple[Array, Array]:
        """The masses of the bins between the points t under N(jν, 1), and bounds of their errors."""
        ends = t - j * self.shift
        masses = normal_bins(ends)
        slips = np.zeros(len(t))
        if j != 0:
            slips = 0.41 * np.exp(-ends * ends / 2) * UNIT_ROUNDOFF * (2 * np.abs(t) + 16 * abs(j) * self.shift)
        error = bin_error(float(np.abs(ends).max()) + 1) * masses
        error[:-1] += slips
        error[1:] += slips
        return masses, error

    def bin_error(self, log_tail: float) -> float:
        """A bound on the relative errors of `masses`: of normal bins as far as the means go, and of the weights."""
        reach = math.sqrt(-2 * log_tail) + 2 * self._many * self.shift + 1
        weights = self._many + 64 - 4 * math.log(max(min(self.weights), _SMALLEST))
        return bin_error(reach) + (UNIT_ROUNDOFF * weights if self._many > 1 else 4 * UNIT_ROUNDOFF)

    def slip(self, edges: Array) -> float:
        """What `_inverse` errs by: as w itself does (`_blur`), and where log q is subtracted by some units of that."""
        t = self._inverse(edges)
        t = t[np.isfinite(t)]
        reach = float(np.abs(edges).max())
        if len(t) == 0:
            return 16 * UNIT_ROUNDOFF * (1 + reach)
        blur = 0.0
        if self.kind != "add":
            blur += float(self._blur(t, self._log_ratio(t)).max())
        if self.kind != "remove":
            blur += float(self._blur(-t, self._log_ratio(-t)).max())
        taking_part = min(1.0, math.fsum(self.weights))
        share = min(1.0, reach + taking_part)
        logs = abs(math.log(max(min(self.weights), _SMALLEST))) + 4
        return UNIT_ROUNDOFF * (4 * blur + 16 * (reach + taking_part) + 32 * share * logs)

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
        if self._many == 1 and q < 1:
            # With z = e^{νt} and a = qe^{−ν²/2}: az² + (1 − q)(1 − e^l)z − ae^l = 0, solved for l ≥ 0 and mirrored.
            size = np.abs(edges)
            log_2a = math.log(2 * q) - nu * nu / 2
            bend = (1 - q) * -np.expm1(-size)
            root = bend + np.hypot(bend, np.exp(np.maximum(log_2a - size / 2, -740.0)))
            return np.sign(edges) * np.maximum(size - log_2a + np.log(root), 0.0) / nu
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
            value = p - np.exp(epsilon) * q
        return np.clip(np.where(np.isnan(value), p, value), 0.0, 1.0)  # where e^ε overflows, P(L > ε) bounds it
