"""Real numbers known to any precision asked for, and uniform ones whose digits are drawn when they are needed.

An exact sampler decides by comparing a uniform real U with a real p such as exp(−x). Neither has finitely many
digits, but almost surely a few decide the comparison: U is read 64 bits at a time, p is enclosed between two integers
at the same precision, and both are refined until the intervals part. Integers and fractions only: nothing is rounded
in an unknown direction, so the decision is the one that infinitely many digits would give.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

__all__ = ["Enclosure", "Uniform", "below", "exp_minus", "floor_log2"]

#: ``real(bits)`` gives integers (lo, hi) with lo ≤ 2^bits · value ≤ hi and hi − lo small.
Enclosure = Callable[[int], tuple[int, int]]


class Uniform:
    """A uniform real in [0, 1) of which ``known`` leading bits have been drawn: U ∈ [prefix, prefix + 1) / 2^known."""

    __slots__ = ("_word", "known", "prefix")

    def __init__(self, word: Callable[[], int], prefix: int = 0, known: int = 0) -> None:
        """Starts from bits already drawn; ``word`` supplies 64 more whenever they are needed."""
        self._word = word
        self.prefix = prefix
        self.known = known

    def extend(self) -> None:
        """Draws 64 more bits."""
        self.prefix = (self.prefix << 64) | self._word()
        self.known += 64


def below(uniform: Uniform, real: Enclosure) -> bool:
    """Whether U < p: an event of probability exactly p, for p in [0, 1] given by its enclosures."""
    while True:
        bits = max(uniform.known, 64)
        lower, upper = real(bits)
        start = uniform.prefix << (bits - uniform.known)
        if start + (1 << (bits - uniform.known)) <= lower:
            return True
        if start >= upper:
            return False
        uniform.extend()


def floor_log2(x: Fraction) -> int:
    """The integer k with 2^k ≤ x < 2^(k+1), for x > 0."""
    k = x.numerator.bit_length() - x.denominator.bit_length()
    return k if x >= Fraction(2) ** k else k - 1


def exp_minus(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers lo ≤ 2^bits · exp(−x) ≤ hi with hi − lo ≤ 2, for a rational x ≥ 0.

    The argument is halved until it is below 2^−8, the alternating Taylor series (whose partial sums enclose the limit)
    is summed in fixed point with outward rounding, and the enclosure is squared back.
    """
    if x == 0:
        return 1 << bits, 1 << bits
    if x > bits + 2:  # exp(−x) < 2^−bits
        return 0, 1
    halvings = max(0, floor_log2(x) + 9)
    point = bits + 2 * halvings + 24
    small_lo = (x.numerator << point) // (x.denominator << halvings)
    lower, upper = _taylor(small_lo + 1, point)[0], _taylor(small_lo, point)[1]
    for _ in range(halvings):
        lower, upper = (lower * lower) >> point, ((upper * upper) >> point) + 1
    guard = point - bits
    return lower >> guard, min((upper >> guard) + 1, 1 << bits)


def _taylor(x: int, point: int) -> tuple[int, int]:
    """Encloses 2^point · exp(−x / 2^point) for 0 ≤ x ≤ 2^(point−8) + 1."""
    # Each term is floored once more than the one before it, so the k-th is short by less than 2.
    term, total, terms = 1 << point, 0, 0
    while term:
        total += -term if terms & 1 else term
        terms += 1
        term = ((term * x) >> point) // terms
    slack = 2 * terms + 2  # rounding of the terms kept, plus the first one dropped
    return total - slack, total + slack
