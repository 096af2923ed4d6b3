"""Repeated exponential mechanisms against an adversary who chooses each after the answers before it.

A release of *bounded range* η has losses in a window of length η. For a convex payoff the worst such pair has two
losses, t and t − η, for some t in [0, η] (Dong–Durfee–Rogers 2020). Let V_k(r) be the greatest E_Q(rL − 1)₊ that k
releases, each chosen when the answers before it are known, can reach from the likelihood ratio r. Then δ(ε) =
e^ε·V_k(e^{−ε}), V_0(r) = (r − 1)₊, and V_k(r) is the highest chord of V_{k−1}, read at r, over all windows [a, a·e^η]
that hold r.

On a lattice of η/N, windows that begin on lattice points are choices that an adversary can make: their values are lower
bounds. For the upper bound V_{k−1} is replaced by the straight lines between its values on the lattice, which lie above
it; docs/maths/accounting.md, *Repeated exponential mechanisms*, says what windows between lattice points can add.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from discreet.accounting.bounds import Bounds
from discreet.accounting.exact.transform import short
from discreet.errors import NotCertifiable
from discreet.floats import UNIT_ROUNDOFF

__all__ = ["BoundedRange"]

Array = NDArray[Any]
_WINDOWS = ((8, 64), (40, 32), (256, 16), (4096, 8))  # up to so many repetitions, so many lattice points in a window
_LARGEST_RANGE = 5.0
_LEAST_DELTA = 1e-200
_REACH = 1e-4  # of δ: the lattice reaches as far as V matters beside it
_MOST_WORK = 2e8  # lattice points, times windows, times repetitions
_ROUNDING = 1024 * UNIT_ROUNDOFF  # relative, of a step; docs/maths/accounting.md says of what
_UNDERFLOW = 1e-300


@dataclass(frozen=True)
class BoundedRange:
    """Repetitions of releases whose losses lie in a window of length ``eta``, chosen one after the other."""

    eta: float

    def epsilon(self, times: int, delta: float, *, lower: bool = True) -> Bounds:
        """Certified bounds of ε(δ); without ``lower`` the lower one is 0.

        Raises:
            NotCertifiable: there are too many repetitions, η is too large or δ too small.
        """
        windows = _windows(times)
        spacing, rates = self._rates(times, windows, delta)
        enough = np.flatnonzero(rates <= delta)
        if len(enough) == 0:
            raise NotCertifiable("δ is too small for the lattice of repeated selections.")
        m = int(enough[0])
        high = spacing * m
        if m > 0:
            high = min(high, _crossing(float(rates[m - 1]), float(rates[m]), spacing, m, delta))
        high *= 1 + 16 * UNIT_ROUNDOFF
        return Bounds(min(self._below(times, delta, windows), high) if lower else 0.0, high)

    def delta(self, times: int, epsilon: float) -> Bounds:
        """Certified bounds of δ(ε).

        Raises:
            NotCertifiable: there are too many repetitions, η is too large or δ too small.
        """
        windows = _windows(times)
        rho = times * self.eta**2 / 8
        guess = max(
            math.exp(-(max(0.0, epsilon - rho) ** 2) / (4 * rho)), _LEAST_DELTA
        )  # by zCDP: where the lattice ends
        spacing, rates = self._rates(times, windows, guess)
        place = math.floor(epsilon / spacing)
        if place + 1 >= len(rates):
            raise NotCertifiable("ε is too large for the lattice of repeated selections.")
        share = math.expm1(max(epsilon - place * spacing, 0.0)) / math.expm1(spacing)
        share = min(share * (1 - 1e-12), 1.0)  # of the farther point, in α = e^ε
        high = ((1 - share) * float(rates[place]) + share * float(rates[place + 1])) * (1 + 1e-12)
        return Bounds(min(self._adversary(times, windows, guess).delta(epsilon), high), min(high, 1.0))

    def _below(self, times: int, delta: float, windows: int) -> float:
        """A lower bound of ε(δ): where what an adversary reaches is still δ."""
        adversary = self._adversary(times, windows, delta)
        least, most = 0.0, times * self.eta
        if adversary.delta(least) < delta:
            return 0.0
        while most - least > 1e-6 * most:
            middle = (least + most) / 2
            least, most = (middle, most) if adversary.delta(middle) >= delta else (least, middle)
        return least

    def _adversary(self, times: int, windows: int, delta: float) -> _Adversary:
        lattice = self._lattice(times, windows, delta, upper=False)
        return _Adversary(lattice.places, lattice.whole(lattice.values(times - 1)), windows)

    def _rates(self, times: int, windows: int, delta: float) -> tuple[float, Array]:
        """A spacing of about η/windows, and δ at its multiples, from above."""
        lattice = self._lattice(times, windows, delta, upper=True)
        values = lattice.values(times)
        epsilons = lattice.spacing * np.arange(len(values))
        return lattice.spacing, np.exp(epsilons) * values[::-1] * (1 + 8 * UNIT_ROUNDOFF * (2 + epsilons))

    def _lattice(self, times: int, windows: int, delta: float, *, upper: bool) -> _Lattice:
        """A lattice that reaches as far as V matters beside δ.

        The spacing has 33 bits, so that its multiples are exact; windows are longer than η by a relative 2^−30 at most,
        or shorter.
        """
        if not (self.eta <= _LARGEST_RANGE and delta >= _LEAST_DELTA):
            raise NotCertifiable("too large selections, or too small a δ, for their lattice.")
        rho = times * self.eta**2 / 8
        reach = min(times * self.eta, rho + 2 * math.sqrt(-rho * math.log(_REACH * delta)))
        spacing = short(self.eta / windows * (1 + 2.0**-31 if upper else 1 - 2.0**-50), 33)
        count = max(math.ceil(reach / spacing) + 2, windows + 2)
        if count * windows * times > _MOST_WORK:
            raise NotCertifiable("too many lattice points for repeated selections.")
        return _Lattice(spacing, windows, count, upper)


@dataclass(frozen=True)
class _Lattice:
    """Likelihood ratios e^{hj}: ``count`` of them up to 1, and a window more at each end."""

    spacing: float
    windows: int
    count: int
    upper: bool  # whether V is bounded from above, or reached by choices on the lattice

    @cached_property
    def _steps(self) -> Array:
        return self.spacing * np.arange(1 - self.count - self.windows, self.windows + 1)

    @cached_property
    def places(self) -> Array:
        """The ratios, rising."""
        return np.asarray(np.exp(self._steps))

    @cached_property
    def _gains(self) -> Array:
        return np.asarray(np.expm1(self._steps[-self.windows :]))

    def values(self, times: int) -> Array:
        """V_times at the ``count`` ratios up to 1."""
        t, eta = self.spacing * np.arange(self.windows + 1), self.spacing * self.windows
        ahead = -math.expm1(-eta) * np.exp(t)  # e^t − e^{t−η}
        low, high = np.expm1(t) / ahead, -np.expm1(t - eta) / ahead
        return _highest_chords(times, low, high, self.places, self._gains, self.upper)

    def whole(self, values: Array) -> Array:
        """V at all ratios: 0 below those of ``values``, r − 1 + rV(1/r) above 1."""
        n = self.windows
        beyond = self._gains + self.places[-n:] * values[-2 : -2 - n : -1]
        return np.concatenate([np.zeros(n), values, beyond])


@dataclass(frozen=True)
class _Adversary:
    """Chooses the first release at any ratio, over windows that begin on a lattice, and the others on the lattice."""

    places: Array
    values: Array  # V of the releases after the first, from below
    windows: int

    def delta(self, epsilon: float) -> float:
        """A δ(ε) that is reached.

        The chord over [a, b] is read at r = e^{−ε}. The three are off by a relative 2u(8 + ε), η ≤ 5, the weight of b
        by that times 2r/(b − a), and the chord, V(a) ≤ V(b), by a relative 2r/(r − a) times that. Windows of which r
        lies at least one lattice point inside have r/(r − a) ≤ 1/(1 − e^{−h}) ≤ n/(1 − e^{−η}).
        """
        n, ratio = self.windows, math.exp(-epsilon)
        after = int(np.searchsorted(self.places, ratio))
        starts = np.arange(max(after + 1 - n, 0), min(after - 1, len(self.places) - n))
        if len(starts) == 0:
            return 0.0
        a, b = self.places[starts], self.places[starts + n]
        chords = ((b - ratio) * self.values[starts] + (ratio - a) * self.values[starts + n]) / (b - a)
        rounding = _ROUNDING + 64 * n * UNIT_ROUNDOFF * (8 + epsilon) / float(1 - a[0] / b[0])
        return max(0.0, float(chords.max()) / ratio * (1 - rounding))


def _windows(times: int) -> int:
    """How many lattice points a window has."""
    for most, windows in _WINDOWS:
        if times <= most:
            return windows
    raise NotCertifiable("too many selections for their lattice.")


def _crossing(before: float, after: float, spacing: float, m: int, delta: float) -> float:
    """An ε between the lattice points m − 1 and m where the straight line of δ in α = e^ε is at most ``delta``."""
    share = (before - delta) / (before - after) if before > after else 1.0
    share = min(max(share * (1 + 1e-12), 0.0), 1.0)
    return spacing * (m - 1) + math.log1p(share * math.expm1(spacing)) * (1 + 1e-12)


@njit(cache=True, nogil=True, error_model="numpy")
def _highest_chords(
    times: int, low: Array, high: Array, places: Array, gains: Array, upper: bool
) -> Array:  # pragma: no cover - compiled
    """V_times at the ``places`` but for a window at each end, from above or from below; the last of them is 1.

    For r > 1 the gain is r − 1 (``gains``) + r·V(1/r), by exchanging P and Q, so that V is kept for r ≤ 1. Below the
    least place V lies under the straight line to the origin, and above 0. ``low`` and ``high`` are the weights of the
    ends of a window, from the one that ends at r to the one that begins there.

    From above, a window that begins between two places has a chord, as a function of where it begins, that is concave
    with a second derivative of at most 2s over the square of their distance: it exceeds the greater of its values at
    the two, D apart, by at most (s − D)₊²/4s.
    """
    n = len(low) - 1
    count = len(places) - 2 * n
    step, factor = places[1] / places[0], places[n] / places[0]
    blur = 64 * UNIT_ROUNDOFF * (factor + 1 / (factor - 1))
    rooms = places[n] / places[:n] / (factor - 1) * (step - 1) ** 2  # r over the left end does not depend on r
    whole, slopes, cuts = np.zeros(len(places)), np.zeros(len(places)), np.zeros(len(places))
    values, chords = np.zeros(count), np.zeros((n + 1, count))
    for _ in range(times):
        for i in range(n):
            whole[i] = values[0] * places[i] / places[n] if upper else 0.0
            whole[n + count + i] = gains[i] + places[n + count + i] * values[count - 2 - i]
        whole[n : n + count] = values
        values[:] = 0.0
        for j in range(n + 1):
            left, right, here = whole[j : j + count], whole[j + n : j + n + count], chords[j]
            for i in range(count):
                chord = low[j] * left[i] + high[j] * right[i]
                here[i] = chord
                values[i] = chord if chord > values[i] else values[i]
        if not upper:
            values *= 1 - _ROUNDING
            continue
        for i in range(len(places) - 1):
            slopes[i] = (whole[i + 1] - whole[i]) / (places[i + 1] - places[i])
            cuts[i] = whole[i] - slopes[i] * places[i]
        for j in range(n):
            here, after, falls, rises = chords[j], chords[j + 1], cuts[j : j + count], cuts[j + n : j + n + count]
            for i in range(count):
                spare = (falls[i] - rises[i]) * rooms[j]
                excess = spare - abs(here[i] - after[i])
                most = max(here[i], after[i]) + (0.25 * excess * (excess / spare) if excess > 0 else 0.0)
                values[i] = most if most > values[i] else values[i]
        for i in range(count):
            values[i] = (values[i] + blur * slopes[i + 2 * n - 1] * places[i + 2 * n]) * (1 + _ROUNDING) + _UNDERFLOW
    return values
