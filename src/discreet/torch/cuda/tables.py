"""Integer tables of the exact Gaussian sampler for GPUs, made from enclosures: no floating point.

|Z| = u/128, where u ≥ 0 has the density exp(−c·u²), c = 1/(2·128²), cut into strips [j, j+1). Write w_j = exp(−c·j²).
A trial proposes the strip j with probability W_j/2^22 for *integers* W_j ≥ κ·w_j, so that finitely many bits choose it,
then a uniform place X in the strip, and keeps u = j + X if V < A_j·exp(−c·(u² − j²)) for a uniform real V and
A_j = κ·w_j/W_j ≤ 1. Proposed and kept is then u with density κ·exp(−c·u²)/2^22: kept values have exactly the density
wanted, whatever the integers W_j are.

The outcome J0 of the first choice stands for all strips from J0 on. They are told apart by a second choice with integer
weights of 64 bits, whose last outcome stands again for all strips after its own, and so on.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from discreet.noise.reals import exp_minus

__all__ = ["Level", "Tables", "gaussian_tables"]

STRIPS: Final = 128
"""Strips to one standard deviation."""
SLOT_BITS: Final = 10
THRESHOLD_BITS: Final = 12
V_BITS: Final = 10
"""Bits of the first word of a trial: a slot of the alias table, its threshold, and the first bits of V."""
FIRST_OF_TAIL: Final = 557
"""J0: from here on a strip would have an integer weight of two units or less."""
LAST_STRIP: Final = 24 * STRIPS
"""A sample beyond 24 standard deviations is refused: its probability is below 2^−400."""
POINT: Final = 1024
"""Bits of the enclosures of w_j, of which the smallest is about 2^−416."""
LEFT_OVER: Final = 8
"""A level ends where all later strips together have at most so many units of 2^−64 of its mass."""

C: Final = Fraction(1, 2 * STRIPS**2)
TOTAL: Final = 1 << (SLOT_BITS + THRESHOLD_BITS)


@dataclass(frozen=True)
class Level:
    """A choice among the strips ``first``, ``first`` + 1, …: a word r below ``sums[k]`` and no earlier sum chooses k.

    A word that is not below the last sum leaves the choice to the next level. ``mass`` is the weight of all strips from
    ``first`` on, in units of 1/2^22.
    """

    first: int
    mass: Fraction
    sums: tuple[int, ...]

    def weight(self, strip: int) -> Fraction:
        """The weight with which a strip of this level is proposed, in units of 1/2^22."""
        k = strip - self.first
        return self.mass * Fraction(self.sums[k] - (self.sums[k - 1] if k else 0), 1 << 64)


class Tables:
    """Weights, alias table and tail of the sampler.

    Attributes:
        kappa: κ.
        weights: W_j for j < J0, and the weight of all later strips.
        levels: the levels of the tail.
        thresholds: a slot s whose 12 bits are below ``thresholds[s]`` chooses strip s, otherwise ``others[s]``.
        certain: 10 bits of V below ``certain[j]`` keep any place of the strip j.
        packed: for the kernels, threshold | certain[s] << 16 | other << 32 | certain[other] << 48.
        heights: ⌊2^64·A_j⌋, for the strips of the first choice and of the first level of the tail.
        tail: the sums of the first level.
    """

    def __init__(self) -> None:
        lower, upper, rest = _strip_weights()
        after = list(itertools.accumulate(reversed(upper), initial=rest))[::-1]  # all strips from j on
        self.kappa = self._largest_kappa(upper, after)
        self.weights = self._integer_weights(upper, after)
        self.levels = self._tail(upper, after)
        tops = [self.kappa * w for w in lower]
        count = self.levels[1].first
        heights = [_floor_ratio(tops[j] << 64, self.weight(j)) for j in range(count)]
        self.heights: NDArray[np.uint64] = np.array([min(h, (1 << 64) - 1) for h in heights], dtype=np.uint64)
        self.certain = [self._certain(j) for j in range(FIRST_OF_TAIL)] + [0]
        self.thresholds, self.others = _alias(self.weights)
        known = self.certain + [0] * ((1 << SLOT_BITS) - len(self.certain))
        self.packed: NDArray[np.uint64] = np.array(
            [
                threshold | known[slot] << 16 | other << 32 | known[other] << 48
                for slot, (threshold, other) in enumerate(zip(self.thresholds, self.others, strict=True))
            ],
            dtype=np.uint64,
        )
        self.tail: NDArray[np.uint64] = np.array(self.levels[0].sums, dtype=np.uint64)

    def weight(self, strip: int) -> Fraction:
        """The weight with which a strip is proposed, in units of 1/2^22."""
        if strip < FIRST_OF_TAIL:
            return Fraction(self.weights[strip])
        return next(level for level in reversed(self.levels) if level.first <= strip).weight(strip)

    def kept(self, strip: int, place: Fraction, bits: int) -> tuple[int, int]:
        """Integers lo ≤ 2^bits·A_j·exp(−c·((j+X)² − j²)) ≤ hi with hi − lo ≤ 3, for the place X in the strip j."""
        factor = self.kappa / self.weight(strip)
        spare = max(0, factor.numerator.bit_length() - factor.denominator.bit_length()) + 2
        low, high = exp_minus(C * (strip + place) ** 2, bits + spare)
        scaled = factor / (1 << spare)
        return int(low * scaled), min(-int(-(high * scaled) // 1), 1 << bits)

    def _largest_kappa(self, upper: list[int], after: list[int]) -> int:
        low, high = 1, TOTAL
        while low < high:
            self.kappa = (low + high + 1) // 2
            low, high = (self.kappa, high) if self._needed(upper, after) <= TOTAL else (low, self.kappa - 1)
        return low

    def _needed(self, upper: list[int], after: list[int]) -> int:
        own = sum(_ceil(self.kappa * w) for w in upper[:FIRST_OF_TAIL])
        return own + _ceil(self.kappa * after[FIRST_OF_TAIL]) + 1  # room for rounding up inside the tail

    def _integer_weights(self, upper: list[int], after: list[int]) -> list[int]:
        weights = [_ceil(self.kappa * w) for w in upper[:FIRST_OF_TAIL]]
        left = TOTAL - self._needed(upper, after)
        for j in range(FIRST_OF_TAIL):  # what is left over goes to the strips in turn; any integers above κ·w_j will do
            weights[j] += left // FIRST_OF_TAIL + (1 if j < left % FIRST_OF_TAIL else 0)
        return [*weights, _ceil(self.kappa * after[FIRST_OF_TAIL]) + 1]

    def _tail(self, upper: list[int], after: list[int]) -> list[Level]:
        levels: list[Level] = []
        first, mass = FIRST_OF_TAIL, Fraction(self.weights[-1])
        while first < LAST_STRIP:
            unit = self.kappa * (Fraction(1 << 64) / mass) / (1 << POINT)
            last = first + 1
            while last < LAST_STRIP and after[last] * unit > LEFT_OVER:
                last += 1
            shares = [-int(-(upper[j] * unit) // 1) for j in range(first, last)]
            remaining = -int(-(after[last] * unit) // 1) + 1
            shares[0] += (1 << 64) - remaining - sum(shares)
            if shares[0] < upper[first] * unit:
                raise AssertionError("the weights of the tail do not fit")
            levels.append(Level(first, mass, tuple(itertools.accumulate(shares))))
            first, mass = last, mass * Fraction(remaining, 1 << 64)
        return levels

    def _certain(self, strip: int) -> int:
        return self.kept(strip, Fraction(1), 256)[0] >> (256 - V_BITS)


def _strip_weights() -> tuple[list[int], list[int], int]:
    """Enclosures of 2^POINT·w_j for j < LAST_STRIP, and an upper end for the sum of all later ones."""
    one = 1 << POINT
    ratio, bend = exp_minus(C, POINT), exp_minus(2 * C, POINT)
    low, high = one, one
    lower, upper = [], []
    for _ in range(LAST_STRIP):
        lower.append(low)
        upper.append(high)
        low, high = low * ratio[0] >> POINT, (high * ratio[1] >> POINT) + 1
        ratio = ratio[0] * bend[0] >> POINT, (ratio[1] * bend[1] >> POINT) + 1
    return lower, upper, (high << POINT) // (one - ratio[1]) + 1  # ratios never grow


def _ceil(scaled: int) -> int:
    return -(-scaled >> POINT)


def _floor_ratio(scaled: int, weight: Fraction) -> int:
    return scaled * weight.denominator // (weight.numerator << POINT)


def _alias(weights: list[int]) -> tuple[list[int], list[int]]:
    """Thresholds and second outcomes of Walker's alias table, in which each outcome has exactly its weight."""
    slots, room = 1 << SLOT_BITS, 1 << THRESHOLD_BITS
    left = weights + [0] * (slots - len(weights))
    thresholds, others = [room] * slots, list(range(slots))
    small = [s for s in range(slots) if left[s] < room]
    large = [s for s in range(slots) if left[s] > room]
    while small:
        slot, giver = small.pop(), large[-1]
        thresholds[slot], others[slot] = left[slot], giver
        left[giver] -= room - left[slot]
        if left[giver] <= room:
            large.pop()
            if left[giver] < room:
                small.append(giver)
    return thresholds, others


@lru_cache(maxsize=1)
def gaussian_tables() -> Tables:
    """The tables, built once."""
    return Tables()
