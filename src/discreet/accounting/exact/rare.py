"""The accountant of runs in which a unit rarely takes part: laws of gains, composed by doubling.

The bulk of the losses of such a run may be a million times narrower than its tail, so that no lattice holds both, and
one rare loss may outweigh all others, so that no tilt does. A law on some hundred points that lie where they matter
(`discreet.accounting.exact.gains`) holds them, and n steps need about log₂n products of two of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.bounds import Bounds, guarded, meet
from discreet.accounting.exact.contour import Contour
from discreet.accounting.exact.fourier import invert
from discreet.accounting.exact.gains import (
    GainLaw,
    even_grid,
    fine_grid,
    first_above,
    first_below,
    product_above,
    product_below,
)
from discreet.accounting.exact.mixture import Mixture
from discreet.accounting.exact.pairs import GaussianPair, Pair, ProfilePair, attained
from discreet.errors import NotCertifiable

__all__ = ["RareLosses", "reached_epsilon"]

Array = NDArray[Any]
_FIRST = 120  # bins of a step where nothing is known
_EVEN = 0.14, 0.13  # widths of other bins, in spreads and distances, where nothing is known
_FEWEST, _MOST, _PASSES = 240, 1536, 5
_ALONE = 240  # of one pass, after which there is no other
_NEARER = 0.3  # the lower bound is nearer to ε, which lies so far on the way to the upper one
_OFF = 0.05  # wider intervals come from grids that were made for an ε that is far off
_LEAST_DELTA = 1e-100
_TAIL = 12.0  # e^−12 of a step's share of δ lies beyond its last bin
_LOST = 3e-6  # of δ: what each product may lose, times the number of steps
_UNSURE = 1e-3  # rounding that leaves nothing worth having
_REFINED = "two grids of the accountant of rare losses"


class RareLosses:
    """A run of independent sampled or unsampled Gaussian releases, one direction of the neighbouring relation.

    Grids are refined until the interval is relatively as narrow as ``tolerance``. The first ones are made for any ε,
    the others for the ε that was found.
    """

    def __init__(self, parts: Sequence[tuple[Pair | ProfilePair, int]], tolerance: float = 8e-3) -> None:
        self.tolerance = tolerance
        self.pairs = [_mixture(pair) for pair, _ in parts]
        self.products, self.last = _plan([times for _, times in parts])
        self.steps = sum(times for _, times in parts)

    def _places(self, delta: float) -> list[Array]:
        """The first bins of each step's outcomes."""
        if delta < _LEAST_DELTA:
            raise NotCertifiable(f"δ = {delta:g} is beyond the range of products of masses")
        reach = math.sqrt(2 * (math.log(self.steps) - math.log(delta) + _TAIL))
        found = []
        for pair in self.pairs:
            low = -9.0 if pair.kind == "remove" else -reach
            high = reach if pair.kind == "add" else reach + len(pair.weights) * pair.shift
            found.append(np.linspace(low, high, _FIRST))
        return found

    def _composed(self, places: list[Array], grids: list[Array], delta: float, *, above: bool) -> list[GainLaw]:
        """The laws of single steps, then those of all products but the last; grids are added where there are none."""
        first, product = (first_above, product_above) if above else (first_below, product_below)
        laws = [first(pair, t) for pair, t in zip(self.pairs, places, strict=True)]
        for k, (i, j) in enumerate(self.products):
            if k == len(grids):
                grids.append(even_grid(laws[i], laws[j], *_EVEN))
            laws.append(product(laws[i], laws[j], grids[k], _LOST * delta / (self.steps * len(grids[k]))))
        if laws[self.last[0]].error + laws[self.last[1]].error > _UNSURE:
            raise NotCertifiable(f"rounding in {self.steps} steps leaves nothing of the laws of gains")
        return laws

    def _refined(
        self, places: list[Array], laws: list[GainLaw], epsilon: float, size: int
    ) -> tuple[list[Array], list[Array]]:
        """Bins of the steps, and grids, for an ε, by what is roughly known of all laws."""
        i, j = self.last
        whole = product_above(laws[i], laws[j], even_grid(laws[i], laws[j], *_EVEN))
        rests = [laws[j] if k == i else laws[i] if k == j else whole for k in range(len(laws))]
        grids = [fine_grid(law, rest, epsilon, size) for law, rest in zip(laws, rests, strict=True)]
        steps = []
        for t, grid, law in zip(places, grids, laws, strict=False):
            points, kept = np.unique(law.points[:-1], return_index=True)
            inner = np.interp(grid[(grid >= points[0]) & (grid <= points[-1])], points, t[kept])
            steps.append(np.unique(np.concatenate([t[:1], inner, t[-1:]])))
        return steps, grids[len(self.pairs) :]

    def _bounds(self, above: list[GainLaw], below: list[GainLaw], delta: float, guess: float | None) -> Bounds:
        """Certified bounds of ε(δ)."""
        i, j = self.last
        upper = partial(above[i].delta, above[j], upper=True)
        lower = partial(below[i].delta, below[j], upper=False)
        if upper(0.0) <= delta:
            return Bounds(0.0, 0.0)
        if guess is None:
            least, most = math.log(1e-20), math.log(300.0)
            while most - least > 0.1:
                middle = (least + most) / 2
                least, most = (middle, most) if upper(math.exp(middle)) > delta else (least, middle)
            guess = math.exp(most)
        high = invert(upper, delta, guess, -10 / guess, up=True)
        low = invert(lower, delta, guess, -10 / guess, up=False)
        return Bounds(low, high)

    def epsilon(self, delta: float, *, lower: bool = True) -> Bounds:
        """Certified bounds of ε(δ); the lower one is always found, as it says when to stop.

        Raises:
            NotCertifiable: the losses are not of this kind, or no grid proves anything.
        """
        places, grids = self._places(delta), list[Array]()
        rough = self._composed(places, grids, delta, above=True)
        best, size = self._bounds(rough, self._composed(places, grids, delta, above=False), delta, None), _FEWEST
        for _ in range(_PASSES):
            if best.upper - best.lower <= self.tolerance * best.upper:
                break
            if math.isinf(best.upper) and best.lower == 0:
                raise NotCertifiable("the laws of gains prove nothing")
            guess = best.lower + _NEARER * (best.upper - best.lower)
            guess = guess if math.isfinite(guess) else 1.2 * best.lower
            steps, grids = self._refined(places, rough, guess, size)
            above, below = (self._composed(steps, grids, delta, above=side) for side in (True, False))
            found = self._bounds(above, below, delta, guess)
            best = meet(best, found, _REFINED)
            width = (found.upper - found.lower) / found.upper
            if width < _OFF:
                size = min(_MOST, int(size * 1.1 * max(1.0, math.sqrt(width / self.tolerance))))
        if math.isinf(best.upper):
            raise NotCertifiable("the laws of gains prove nothing")
        return best

    def within(self, epsilon: float, delta: float) -> bool:
        """Whether the first two grids prove δ(ε) ≤ δ."""
        places, grids = self._places(delta), list[Array]()
        rough = self._composed(places, grids, delta, above=True)
        i, j = self.last
        if rough[i].delta(rough[j], epsilon, upper=True) <= delta:
            return True
        steps, grids = self._refined(places, rough, epsilon, _ALONE)
        above = self._composed(steps, grids, delta, above=True)
        return above[i].delta(above[j], epsilon, upper=True) <= delta

    def delta(self, epsilon: float) -> Bounds:
        """Not offered: the bins are made for an ε(δ)."""
        raise NotCertifiable("the bins of gains are made for a given δ")


def reached_epsilon(parts: Sequence[tuple[Pair | ProfilePair, int]], delta: float, most_nodes: int) -> float:
    """A lower bound of ε(δ) by the pairs that some neighbours reach: along a contour, else by laws of gains; or 0."""
    reached = [(attained(pair), n) for pair, n in parts]
    if not all(pair and hasattr(pair, "on_contour") and pair.lattice is None for pair, _ in reached):
        return 0.0
    asked: list[Callable[[], Bounds]] = [
        lambda: Contour(reached, most_nodes=most_nodes).epsilon(delta),  # type: ignore[arg-type]
        lambda: RareLosses(reached).epsilon(delta),  # type: ignore[arg-type]
    ]
    for bounds in asked:
        try:
            return guarded(bounds).lower
        except NotCertifiable:
            continue
    return 0.0


def _mixture(pair: Pair | ProfilePair) -> Mixture:
    if isinstance(pair, GaussianPair):
        return Mixture(pair.mu, (1.0,), "remove")
    if isinstance(pair, Mixture):
        return pair
    raise NotCertifiable(f"the gains of a {type(pair).__name__} are not known")


def _plan(counts: Sequence[int]) -> tuple[list[tuple[int, int]], tuple[int, int]]:
    """Which laws are multiplied, numbered from the single steps' on, and which two are asked together at the end."""
    products: list[tuple[int, int]] = []

    def add(i: int, j: int) -> int:
        products.append((i, j))
        return len(counts) + len(products) - 1

    powers = []
    for base, times in enumerate(counts):
        power, bits = base, bin(times)[3:]
        for k, bit in enumerate(bits):
            if k == len(bits) - 1 and bit == "1":  # what is asked together should be about equally wide
                power = add(power, add(power, base))
                continue
            power = add(power, power)
            power = add(power, base) if bit == "1" else power
        powers.append(power)
    whole = powers[0]
    for power in powers[1:]:
        whole = add(whole, power)
    if not products:
        raise NotCertifiable("a single release has a closed form")
    return products[:-1], products[-1]
