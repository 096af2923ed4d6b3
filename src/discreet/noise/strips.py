"""Exact sampling of a density exp(−c·u^p) by rejection from unit strips (Ahrens 1993), for every additive noise here.

Cut u ≥ 0 into strips [j, j+1). Draw three independent uniform reals U, V, X and

1. take the strip J with C_J ≤ U < C_{J+1}, where C is the distribution function of P(J = j) ∝ exp(−c·j^p);
2. take the place u = J + T in it, where T = X (a real), or T = ⌊w·X⌋/w (one of w places);
3. keep u if V < exp(−c·(u^p − J^p)), and otherwise start again.

The pair (J, T) is proposed with probability ∝ exp(−c·J^p), and kept with a probability that turns this into
exp(−c·u^p): so kept values have exactly the density exp(−c·u^p) (real T), or the probabilities ∝ exp(−c·(k/w)^p) on
k = 0, 1, 2, … (w places a strip). With p = 2 these are Gaussians, with p = 1 Laplace distributions.

Two words carry the first bits of one trial: the first holds 32 bits of U, the sign, and 31 bits of V; the second 64
bits of X. `Strips` holds the tables with which the compiled kernels decide all trials but about one in ten million;
`try_exactly` decides any trial, drawing further bits of the same U, V and X. Both evaluate the same function
of the same bits, so it never matters to the distribution which of them was used.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discreet.noise.reals import Uniform, below, exp_minus

if TYPE_CHECKING:
    from discreet.noise.bits import Reader

__all__ = ["GUIDE_BITS", "U_BITS", "V_BITS", "Strips", "try_exactly"]

U_BITS = 32
V_BITS = 31
GUIDE_BITS = 12
STRIP_BITS = 10  # kernels multiply a strip's number by 53 bits, and must stay within 63
_STEEPEST = Fraction(1, 2)  # kernels evaluate exp(−y) for y ≤ 1/2 only


class Strips:
    """The strips of exp(−c·u^p): exact enclosures of C_j, and the tables made from them.

    Attributes:
        power: p, 1 or 2.
        c: the coefficient, an exact rational; ``slope`` is the nearest double.
        cells: ⌊2^32·C_{j+1}⌋. A trial whose first 32 bits of U are below cell j and above cell j − 1 is in strip j; one
            that hits a cell is undecided. The last cell is 2^32 − 1, so the whole tail is decided by `try_exactly`.
        guide: for the leading bits of U, the first strip that they allow.
        certain: 31 bits of V below ``certain[j]`` keep any place of strip j.
    """

    def __init__(self, power: int, c: Fraction, *, one_place: bool = False) -> None:
        """Builds the tables; ``one_place`` means w = 1, where T = 0 and step 3 keeps everything."""
        self.power = power
        self.c = c
        self._tables: dict[int, list[tuple[int, int]]] = {}
        cells = self._cells()
        if len(cells) >= 1 << STRIP_BITS:
            raise AssertionError(f"exp(−{c}·u^{power}) has too many strips for the kernels")
        self.cells: NDArray[np.uint64] = np.array(cells, dtype=np.uint64)
        starts = np.arange(1 << GUIDE_BITS, dtype=np.uint64) << np.uint64(U_BITS - GUIDE_BITS)
        self.guide: NDArray[np.int32] = np.searchsorted(self.cells, starts).astype(np.int32)
        # With one place a strip, nothing falls between its ends and the kernels have no use for c.
        self.slope = 0.0 if one_place else float(c)
        if one_place:
            certain = [1 << V_BITS] * len(cells)
        else:
            drops = [c * (k**power - j**power) for j, k in pairwise(range(len(cells) + 1))]
            if max(drops) > _STEEPEST:
                raise AssertionError(f"strips of exp(−{c}·u^{power}) are too wide for the kernels")
            certain = [exp_minus(drop, V_BITS)[0] for drop in drops]
        self.certain: NDArray[np.uint64] = np.array(certain, dtype=np.uint64)

    def _cells(self) -> list[int]:
        last, bits = (1 << U_BITS) - 1, 2 * U_BITS
        while True:
            cells: list[int] = []
            for lower, upper in self.distribution(bits):
                cells.append(lower >> (bits - U_BITS))
                if cells[-1] >= last:
                    return cells
                if upper >> (bits - U_BITS) != cells[-1]:
                    break
            bits += 64

    def distribution(self, bits: int) -> list[tuple[int, int]]:
        """Encloses 2^bits · C_{j+1} for j = 0, 1, … until what is left is below 2^−bits."""
        if bits not in self._tables:
            self._tables[bits] = self._enclose(bits)
        return self._tables[bits]

    def _enclose(self, bits: int) -> list[tuple[int, int]]:
        # w_{j+1} = w_j·r_j with r_j = exp(−c·((j+1)^p − j^p)); r_{j+1} = r_j·exp(−2c) if p = 2, and r_j if p = 1.
        point = bits + 64
        one = 1 << point
        ratio = exp_minus(self.c, point)
        bend = exp_minus(2 * self.c, point) if self.power == 2 else (one, one)
        weight, total = (one, one), (0, 0)
        sums: list[tuple[int, int]] = []
        while True:
            total = (total[0] + weight[0], total[1] + weight[1])
            sums.append(total)
            weight = (weight[0] * ratio[0] >> point, (weight[1] * ratio[1] >> point) + 1)
            ratio = (ratio[0] * bend[0] >> point, (ratio[1] * bend[1] >> point) + 1)
            # Ratios never grow, so all later weights together are at most weight / (1 − ratio).
            rest = (weight[1] << point) // (one - ratio[1]) + 1
            if rest < one >> (bits + 8):
                break
        high = total[1] + rest
        return [((low << bits) // high, min(-(-(up << bits) // total[0]), 1 << bits)) for low, up in sums]

    def find(self, uniform: Uniform) -> int:
        """The strip J with C_J ≤ U < C_{J+1}."""
        while True:
            bits = max(uniform.known, 64)
            spare = bits - uniform.known
            start, end = uniform.prefix << spare, (uniform.prefix + 1) << spare
            floor = 0
            for j, (lower, upper) in enumerate(self.distribution(bits)):
                if floor <= start and end <= lower:
                    return j
                floor = upper
            uniform.extend()


def try_exactly(
    strips: Strips, first: int, second: int, reader: Reader, places: int | None
) -> tuple[bool, int, Uniform] | None:
    """Decides one trial from its two words and as many further bits as it takes.

    Args:
        strips: the strips.
        first: 32 bits of U, the sign, 31 bits of V.
        second: 64 bits of X.
        reader: where further bits come from.
        places: w, or None for a real T.

    Returns:
        None if the trial is rejected; otherwise whether the sign is negative, the strip J, and X.
    """
    u = Uniform(reader.word, first >> U_BITS, U_BITS)
    v = Uniform(reader.word, first & ((1 << V_BITS) - 1), V_BITS)
    x = Uniform(reader.word, second, 64)
    negative = bool((first >> V_BITS) & 1)
    strip = strips.find(u)
    c, p = strips.c, strips.power
    if places is not None:
        drop = c * ((strip + Fraction(scaled_floor(x, places), places)) ** p - strip**p)
        return (negative, strip, x) if below(v, lambda bits: exp_minus(drop, bits)) else None

    def keep(bits: int) -> tuple[int, int]:
        # exp(−c·((J+X)^p − J^p)) falls in X: its enclosure comes from the two ends of what is known of X.
        while x.known < bits:
            x.extend()
        ends = (Fraction(x.prefix + side, 1 << x.known) for side in (1, 0))
        low, high = (exp_minus(c * ((strip + end) ** p - strip**p), bits) for end in ends)
        return low[0], high[1]

    return (negative, strip, x) if below(v, keep) else None


def scaled_floor(x: Uniform, factor: int | Fraction, shift: Fraction = Fraction(0)) -> int:
    """⌊factor·X + shift⌋, drawing as many bits of X as it takes."""
    while True:
        low = (factor * Fraction(x.prefix, 1 << x.known) + shift) // 1
        # X stays below the end of its interval, so a floor reached only there does not count.
        end = factor * Fraction(x.prefix + 1, 1 << x.known) + shift
        if end <= low + 1:
            return int(low)
        x.extend()


@lru_cache(maxsize=64)
def strips_for(power: int, c: Fraction, one_place: bool = False) -> Strips:
    """`Strips`, built once for each density in use."""
    return Strips(power, c, one_place=one_place)
