"""The Fourier accountant of runs in which a unit rarely takes part: large losses are counted apart.

The bulk of such losses is narrower than ε, and the tail may be thousands of times as long. A lattice for both needs a
point for each width of the bulk; one that ends at some multiple of ε needs some thousand points (`large_losses`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from discreet.accounting.bounds import Bounds, meet
from discreet.accounting.exact.fourier import SIZES_DISAGREE, Fourier, invert
from discreet.accounting.exact.guess import rough_epsilon, rough_tail
from discreet.accounting.exact.lattice import span
from discreet.accounting.exact.pairs import Pair, ProfilePair
from discreet.accounting.exact.window import Window, window_for
from discreet.errors import NotCertifiable

__all__ = ["RareLosses"]

_REACH = 4.5  # of ε: how far the lattice reaches
_WORTHWHILE = 1.5  # a tail that is as many times longer than the reach is cut off
_FEWEST, _CHEAP, _MOST = 1 << 12, 1 << 14, 1 << 16  # lattice points of the window
_FINE = 2e-4  # relative width for which cheap lattices are not refined


class RareLosses(Fourier):
    """A run of independent privacy losses whose tails may be much longer than ε, one direction of the relation."""

    def __init__(self, parts: Sequence[tuple[Pair | ProfilePair, int]], tolerance: float = 5e-3) -> None:
        super().__init__(parts, tolerance)

    def _cut_off(self, epsilon: float, log_tail: float) -> None:
        """Let the lattice end at a multiple of ε, if some tail is much longer than that."""
        ends = [(pair.span(log_tail), pair.anchor) for pair, _ in self.parts]
        longest = max(max(high - anchor, anchor - low) for (low, high), anchor in ends)
        self.reach = _REACH * epsilon if longest > _WORTHWHILE * _REACH * epsilon else math.inf

    def _spacing(self, width: float, size: int, log_tail: float) -> float:
        """A lattice that fits the window, and on which no single loss needs many times as many points."""
        ends = [span(pair, log_tail, self.reach) for pair, _ in self.parts]
        return max(super()._spacing(width, size, log_tail), max(high - low for low, high in ends) / (2 * size))

    def delta(self, epsilon: float) -> Bounds:
        """Not offered: the reach is made for an ε(δ)."""
        raise NotCertifiable("losses are cut off for a given δ only")

    def _window(self, epsilon: float, delta: float, size: int) -> tuple[Window, float]:
        """Where the sum of the losses that are not cut off lies, and what is cut off their own tails."""
        log_tail = rough_tail(delta, self.steps, -self.log_tail)
        self._cut_off(epsilon, log_tail)
        _, guide = self._guide(log_tail)
        return window_for(guide, self.steps, epsilon, math.log(delta), size, self.tolerance), log_tail

    def within(self, epsilon: float, delta: float) -> bool:
        """Whether the coarsest lattice proves δ(ε) ≤ δ."""
        window, log_tail = self._window(epsilon, delta, _FEWEST)
        above, _ = self._both(window, log_tail, _FEWEST, lower=False)
        return above.delta(epsilon, upper=True) <= delta

    def epsilon(self, delta: float, *, lower: bool = True) -> Bounds:
        """Certified bounds of ε(δ); without ``lower`` the lower one is 0, and costs nothing.

        Raises:
            NotCertifiable: the losses are not of this kind, or no lattice proves anything.
        """
        guess, best, size = rough_epsilon(self.parts, delta), Bounds(0.0, math.inf), _FEWEST
        while size <= _MOST:
            window, log_tail = self._window(guess, delta, size)
            above, below = self._both(window, log_tail, size, lower=lower)
            high, before = invert(partial(above.delta, upper=True), delta, guess, -above.c, up=True), best.upper
            low = 0.0
            if below is not None:
                low = invert(partial(below.delta, upper=False), delta, guess, -below.c, up=False)
            best = meet(best, Bounds(low, high), SIZES_DISAGREE)
            width = 1.0
            if 0 < best.upper < math.inf and (lower or math.isfinite(before)):
                width = (best.upper - best.lower if lower else abs(before - high) / 4) / best.upper
            if width <= (self.tolerance if size >= _CHEAP else _FINE):
                break
            guess = high if math.isfinite(high) else 4 * guess
            short = math.log2(max(width / self.tolerance, 4.0)) / 2  # errors fall with the square of the size
            size <<= min(3, max(2 if size < _CHEAP else 1, math.ceil(short)))
        if math.isinf(best.upper):
            raise NotCertifiable("the lattice that was cut off proves nothing")
        return best
