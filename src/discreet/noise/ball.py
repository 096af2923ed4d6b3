"""Noise with density ∝ exp(−‖b‖₂/scale), for pure differential privacy under an ℓ2 sensitivity."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from discreet.noise import kernels
from discreet.noise.arguments import positive, whole
from discreet.noise.bits import Bits, Reader, process_bits
from discreet.noise.gaussian import GAUSSIAN_LAYERS
from discreet.noise.laplace import LAPLACE_LAYERS, LAPLACE_LIMIT
from discreet.noise.reals import Uniform
from discreet.noise.strips import Strips, strips_for, try_exactly

__all__ = ["ball_limit", "rounded_gamma_ball"]

_MOST_DIMENSIONS = 1 << 24


class _Reals:
    """Independent reals u of density exp(−c·u^p) with random signs: digits[i] ≤ 2^known·u_i < digits[i] + 1."""

    def __init__(self, strips: Strips, count: int, reader: Reader) -> None:
        self._reader = reader
        self._late: dict[int, Uniform] = {}
        signed = np.empty(count, dtype=np.int64)
        fractions = np.empty(count, dtype=np.uint64)
        stuck = np.zeros(3, dtype=np.uint64)
        done = 0
        while done < count:
            block = reader.ensure(2)
            done = kernels.real(
                block.words, block.cursor, stuck, signed, fractions, done, strips.guide, strips.cells, strips.certain,
                strips.power, strips.slope,
            )  # fmt: skip
            if stuck[0]:
                kept = try_exactly(strips, int(stuck[1]), int(stuck[2]), reader, None)
                stuck[:] = 0
                if kept is not None:
                    negative, strip, x = kept
                    # More bits of this X are drawn already than of the others: they are handed out by `refine`.
                    self._late[done] = x
                    signed[done] = ~strip if negative else strip
                    fractions[done] = x.prefix >> (x.known - 64)
                    done += 1
        self.negative = signed < 0
        layer_of = np.where(self.negative, ~signed, signed)
        self.known = 64
        self.digits = [(j << 64) | x for j, x in zip(layer_of.tolist(), fractions.tolist(), strict=True)]

    def refine(self) -> None:
        """Draws 64 more bits of each."""
        self.known += 64
        fresh = self._reader.words(len(self.digits)).tolist()
        for i, x in self._late.items():
            while x.known < self.known:
                x.extend()
            fresh[i] = (x.prefix >> (x.known - self.known)) & ((1 << 64) - 1)
        self.digits = [(old << 64) | new for old, new in zip(self.digits, fresh, strict=True)]


def ball_limit(d: int) -> int:
    """No coordinate exceeds this many scales in d dimensions: the probability is below 2^−1400, and is refused."""
    return LAPLACE_LIMIT + 64 * d


def rounded_gamma_ball(scale: float | Fraction, d: int, *, bits: Bits | None = None) -> NDArray[np.int64]:
    """A vector with density ∝ exp(−‖b‖₂/scale) on R^d, each coordinate rounded to an integer, without any error.

    b = scale·R·G/‖G‖₂ with R the sum of d standard exponentials, hence Gamma(d), and G standard normal in R^d. Added to
    an integer vector of ℓ2-sensitivity Δ it is the rounded output of a continuous mechanism that is
    Δ/scale-differentially private (Chaudhuri, Monteleoni and Sarwate 2011), so it is so too.

    R and G are known to 64 bits and 64 more at a time; the interval that this leaves to each b_i is computed in
    integers, and refined until every one of them rounds to a single integer.

    Args:
        scale: positive, in grid steps, at most 2^62 / `ball_limit` (d); taken at its exact value.
        d: number of dimensions.
        bits: source of randomness; by default the process's secure one.

    Raises:
        InvalidInput: if the scale is not positive or so large that samples could overflow, or d is not positive.

    Example:
        >>> rounded_gamma_ball(2.0**30, 3).shape
        (3,)
    """
    d = whole("d", d, 1, _MOST_DIMENSIONS)
    exact = positive("scale", scale, ball_limit(d))
    with (bits or process_bits()).reader() as reader:
        normals = _Reals(strips_for(2, Fraction(1, 2 * GAUSSIAN_LAYERS**2)), d, reader)
        exponentials = _Reals(strips_for(1, Fraction(1, LAPLACE_LAYERS)), d, reader)
        while True:
            normals.refine()
            exponentials.refine()
            rounded = _round(exact, normals, exponentials)
            if rounded is not None:
                break
    if max(rounded) > exact * ball_limit(d) + 1:
        raise OverflowError(f"a noise sample exceeds its limit of {ball_limit(d)} scales")
    return np.where(normals.negative, -1, 1) * np.array(rounded, dtype=np.int64)


def _round(scale: Fraction, normals: _Reals, exponentials: _Reals) -> list[int] | None:
    """⌊scale·R·|G_i|/‖G‖ + ½⌋ for each i, or None if the digits known do not decide all of them."""
    # With g, g + 1 around 2^k·64·|G_i| and r, r + d around 2^k·32·R, the factors 2^k·64 cancel in G_i/‖G‖.
    shortest = isqrt(sum(g * g for g in normals.digits))
    longest = isqrt(sum((g + 1) * (g + 1) for g in normals.digits)) + 1
    least = sum(exponentials.digits)
    most = least + len(exponentials.digits)
    unit = scale / (LAPLACE_LAYERS << exponentials.known)
    low_numerator, low_denominator = 2 * unit.numerator * least, unit.denominator * longest
    top_numerator, top_denominator = 2 * unit.numerator * most, unit.denominator * shortest
    result = []
    for g in normals.digits:
        low = (low_numerator * g + low_denominator) // (2 * low_denominator)
        if shortest == 0 or (top_numerator * (g + 1) + top_denominator) // (2 * top_denominator) != low:
            return None
        result.append(low)
    return result
