"""Gaussian noise on the integers: the rounded Gaussian, which protects data, and the discrete Gaussian."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.noise.additive import draw_discrete, draw_rounded
from discreet.noise.arguments import Size, positive
from discreet.noise.bits import Bits
from discreet.noise.strips import strips_for

__all__ = ["GAUSSIAN_LIMIT", "MAX_SIGMA", "discrete_gaussian", "rounded_gaussian"]

#: No sample exceeds this many standard deviations: the probability is below exp(−64²/2) < 2^−2900, and is refused.
GAUSSIAN_LIMIT = 64
#: Largest σ, in grid steps: samples stay within ±2^62.
MAX_SIGMA = 2.0**56
#: Strips to one standard deviation.
GAUSSIAN_LAYERS = 64


def rounded_gaussian(sigma: float, size: Size = None, *, bits: Bits | None = None) -> NDArray[np.int64]:
    """Samples distributed exactly as round(σ·Z), Z standard normal.

    P(k) = Φ((k + ½)/σ) − Φ((k − ½)/σ), without any error. Adding such a sample to an integer q gives round(q + σZ),
    a function of the continuous Gaussian mechanism's output: its privacy is exactly that of the continuous Gaussian,
    in any dimension, under any composition and subsampling.

    |Z| = u/64 where u has density exp(−u²/8192), drawn by `discreet.noise.strips`.

    Args:
        sigma: standard deviation in grid steps, 0 < σ ≤ 2^56; a double is taken at its exact value.
        size: shape of the result; None for a 0-dimensional array.
        bits: source of randomness; by default the process's secure one.

    Raises:
        InvalidInput: if σ is not positive, or so large that samples could overflow.

    Example:
        >>> from discreet.noise import Bits
        >>> rounded_gaussian(2.0**40, 2, bits=Bits.seeded(1)).shape
        (2,)
    """
    exact = positive("sigma", sigma, GAUSSIAN_LIMIT)
    strips = strips_for(2, Fraction(1, 2 * GAUSSIAN_LAYERS**2))
    return draw_rounded(strips, exact / GAUSSIAN_LAYERS, int(exact * GAUSSIAN_LIMIT) + 1, size, bits)


def discrete_gaussian(sigma: float | Fraction, size: Size = None, *, bits: Bits | None = None) -> NDArray[np.int64]:
    """Samples of the discrete Gaussian, P(k) ∝ exp(−k²/2σ²) over all integers k, without any error.

    Canonne, Kamath and Steinke (2020) show that it satisfies the same zCDP as the continuous Gaussian; its privacy
    curve is its own. Sampled by `discreet.noise.strips` with ⌈σ/64⌉ integers to a strip.

    Args:
        sigma: the parameter σ (close to the standard deviation from σ ≈ 1 on), 0 < σ ≤ 2^56; taken at its exact value.
        size: shape of the result; None for a 0-dimensional array.
        bits: source of randomness; by default the process's secure one.

    Raises:
        InvalidInput: if σ is not positive, or so large that samples could overflow.

    Example:
        >>> from discreet.noise import Bits
        >>> int(discrete_gaussian(0.1, bits=Bits.seeded(1)))
        0
    """
    exact = positive("sigma", sigma, GAUSSIAN_LIMIT)
    places = -(-exact // GAUSSIAN_LAYERS)
    strips = strips_for(2, Fraction(places) ** 2 / (2 * exact**2), places == 1)
    return draw_discrete(strips, places, int(exact * GAUSSIAN_LIMIT) + 1, size, bits)
