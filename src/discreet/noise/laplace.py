"""Laplace noise on the integers: the rounded and the discrete Laplace distribution."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.noise.additive import draw_discrete, draw_rounded
from discreet.noise.arguments import Size, positive
from discreet.noise.bits import Bits
from discreet.noise.strips import strips_for

__all__ = ["LAPLACE_LIMIT", "MAX_SCALE", "discrete_laplace", "rounded_laplace"]

#: No sample exceeds this many scales: the probability is below exp(−2048) < 2^−2900, and is refused.
LAPLACE_LIMIT = 2048
#: Largest scale, in grid steps: samples stay within ±2^62.
MAX_SCALE = 2.0**51
#: Strips to one scale.
LAPLACE_LAYERS = 32


def rounded_laplace(scale: float, size: Size = None, *, bits: Bits | None = None) -> NDArray[np.int64]:
    """Samples distributed exactly as round(b·L), L standard Laplace.

    P(0) = 1 − exp(−1/2b) and P(k) = exp(−(|k| − ½)/b)·(1 − exp(−1/b))/2 otherwise. Added to an integer it is the
    rounded output of the continuous Laplace mechanism, so its privacy is exactly that mechanism's.

    |L| = u/32 where u has density exp(−u/32), drawn by `discreet.noise.strips`.

    Args:
        scale: b in grid steps, 0 < b ≤ 2^51; a double is taken at its exact value.
        size: shape of the result; None for a 0-dimensional array.
        bits: source of randomness; by default the process's secure one.

    Raises:
        InvalidInput: if the scale is not positive, or so large that samples could overflow.

    Example:
        >>> from discreet.noise import Bits
        >>> rounded_laplace(2.0**40, 2, bits=Bits.seeded(1)).shape
        (2,)
    """
    exact = positive("scale", scale, LAPLACE_LIMIT)
    strips = strips_for(1, Fraction(1, LAPLACE_LAYERS))
    return draw_rounded(strips, exact / LAPLACE_LAYERS, int(exact * LAPLACE_LIMIT) + 1, size, bits)


def discrete_laplace(scale: float | Fraction, size: Size = None, *, bits: Bits | None = None) -> NDArray[np.int64]:
    """Samples of the discrete Laplace (two-sided geometric) distribution, P(k) ∝ exp(−|k|/b), without any error.

    On an integer query of sensitivity Δ it is Δ/b-differentially private (Ghosh, Roughgarden and Sundararajan 2012).
    Sampled by `discreet.noise.strips` with ⌈b/32⌉ integers to a strip.

    Args:
        scale: b, 0 < b ≤ 2^51; taken at its exact value.
        size: shape of the result; None for a 0-dimensional array.
        bits: source of randomness; by default the process's secure one.

    Raises:
        InvalidInput: if the scale is not positive, or so large that samples could overflow.

    Example:
        >>> from discreet.noise import Bits
        >>> int(discrete_laplace(0.1, bits=Bits.seeded(1)))
        0
    """
    exact = positive("scale", scale, LAPLACE_LIMIT)
    places = -(-exact // LAPLACE_LAYERS)
    strips = strips_for(1, Fraction(places) / exact, places == 1)
    return draw_discrete(strips, places, int(exact * LAPLACE_LIMIT) + 1, size, bits)
