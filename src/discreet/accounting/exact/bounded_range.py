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
_MOST_WORK = 6e7  # lattice points, times windows, times repetitions
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
        spacing, rates = self._rates(times, windows, delta, upper=True)
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
        spacing, rates = self._rates(times, windows, guess, upper=True)
        place = math.floor(epsilon / spacing)
        if place + 1 >= len(rates):
            raise NotCertifiable("ε is too large for the lattice of repeated selections.")
        share = math.expm1(max(epsilon - place * spacing, 0.0)) / math.expm1(spacing)
        share = min(share * (1 - 1e-12), 1.0)  # of the farther point, in α = e^ε
        high = ((1 - share) * float(rates[place]) + share * float(rates[place + 1])) * (1 + 1e-12)
        # δ falls: what an adversary reaches at the nearest lattice point above
        finer = min(range(windows, 2 * windows), key=lambda n: math.ceil(epsilon * n / self.eta * (1 + 1e-9)) / n)
        spacing, reached = self._rates(times, finer, guess, upper=False)
        above = math.ceil(epsilon / spacing * (1 + 1e-12))
        low = float(reached[above]) if above < len(reached) else 0.0
        return Bounds(min(low, high), min(high, 1.0))

    def _below(self, times: int, delta: float, windows: int) -> float:
        """A lower bound of ε(δ): what an adversary reaches at a lattice point; of several lattices one has a point near
        the ε at which the first has δ.
        """
        best = 0.0
        for attempt in range(2):
            try:
                spacing, reached = self._rates(times, windows, delta, upper=False)
            except NotCertifiable:  # a finer lattice may have too many points
                if attempt == 0:
                    raise
                return best
            enough = np.flatnonzero(reached >= delta)
            if len(enough) == 0:
                return best
            m = int(enough[-1])
            best = max(best, spacing * m)
            part = 0.9
            if m + 1 < len(reached) and reached[m + 1] > 0:
                part = math.log(reached[m] / delta) / math.log(reached[m] / reached[m + 1])
            near = spacing * (m + part) * (1 - 2e-4)
            windows = max(range(windows, 2 * windows), key=lambda n: math.floor(near * n / self.eta) / n)
        return best

    def _rates(self, times: int, windows: int, delta: float, *, upper: bool) -> tuple[float, Array]:
        """A spacing of about η/windows, and δ at its multiples: from above, or what choices on the lattice reach.

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
        steps = spacing * np.arange(1 - count - windows, windows + 1)
        t, eta = spacing * np.arange(windows + 1), spacing * windows
        ahead = -math.expm1(-eta) * np.exp(t)  # e^t − e^{t−η}
        low, high = np.expm1(t) / ahead, -np.expm1(t - eta) / ahead
        values = _highest_chords(times, low, high, np.exp(steps), np.expm1(steps[-windows:]), upper)
        epsilons = spacing * np.arange(count)
        rounding = 8 * UNIT_ROUNDOFF * (2 + epsilons)
        return spacing, np.asarray(np.exp(epsilons) * values[::-1] * (1 + rounding if upper else 1 - rounding))


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


@njit(cache=True, nogil=True)
def _highest_chords(
    times: int, low: Array, high: Array, places: Array, gains: Array, upper: bool
) -> Array:  # pragma: no cover - compiled
    """V_times at the ``places`` but for a window at each end, from above or from below; the last of them is 1.

    For r > 1 the gain is r − 1 (``gains``) + r·V(1/r), by exchanging P and Q, so that V is kept for r ≤ 1. Below the
    least place V lies under the straight line to the origin, and above 0. ``low`` and ``high`` are the weights of the
    ends of a window, from the one that ends at r to the one that begins there.
    """
    n = len(low) - 1
    count = len(places) - 2 * n
    step, factor = places[1] / places[0], places[n] / places[0]
    blur = 64 * UNIT_ROUNDOFF * (factor + 1 / (factor - 1))
    ratios = places[n] / places[:n] / (factor - 1)  # of r to the left end of a window, which does not depend on r
    whole, slopes, cuts = np.zeros(len(places)), np.zeros(len(places)), np.zeros(len(places))
    values, most, chords = np.zeros(count), np.zeros(count), np.zeros((n + 1, count))
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
        most[:] = values
        for j in range(n):
            here, after, room = chords[j], chords[j + 1], ratios[j] * (step - 1) ** 2
            for i in range(count):
                drop = cuts[i + j] - cuts[i + j + n]
                if max(here[i], after[i]) + drop * room > values[i]:
                    scale = max(drop * ratios[j], 0.0)
                    bend = factor * (slopes[i + j + n] - slopes[i + j]) * places[i + j] / (factor - 1)
                    x = math.sqrt(scale / bend) if bend > 0 and scale > 0 else step
                    most[i] = max(most[i], here[i] + scale * (1 - 1 / min(max(x, 1.0), step)) ** 2)
        for i in range(count):
            values[i] = (most[i] + blur * slopes[i + 2 * n - 1] * places[i + 2 * n]) * (1 + _ROUNDING) + _UNDERFLOW
    return values
