"""The loop shared by all additive noises: compiled trials, and exact ones where those cannot decide."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.noise import kernels
from discreet.noise.arguments import Size, fill
from discreet.noise.bits import Bits, Reader
from discreet.noise.strips import Strips, scaled_floor, try_exactly

__all__ = ["draw_discrete", "draw_rounded"]


def draw_rounded(strips: Strips, unit: Fraction, limit: int, size: Size, bits: Bits | None) -> NDArray[np.int64]:
    """±round(unit·u) for u of density exp(−c·u^p); ``unit`` must be a dyadic rational with at most 53 bits."""
    mantissa, exponent = _binary(unit)
    # unit·u = mantissa·(2^64·u)·2^−shift. From 128 on, the table's u < 2^10 all round to 0, as they do at 127.
    shift = min(64 - exponent, 127)
    if 64 - exponent >= 128:
        mantissa = 1
    stuck = np.zeros(3, dtype=np.uint64)

    def exactly(reader: Reader) -> int | None:
        kept = try_exactly(strips, int(stuck[1]), int(stuck[2]), reader, None)
        if kept is None:
            return None
        negative, strip, x = kept
        magnitude = scaled_floor(x, unit, unit * strip + Fraction(1, 2))
        return -magnitude if negative else magnitude

    def step(reader: Reader, flat: NDArray[np.int64], done: int) -> int:
        block = reader.ensure(2)
        done = kernels.rounded(
            block.words, block.cursor, stuck, flat, done, strips.guide, strips.cells, strips.certain,
            strips.power, strips.slope, np.uint64(mantissa), shift,
        )  # fmt: skip
        return _decide(stuck, flat, done, lambda: exactly(reader), limit)

    return fill(size, bits, step)


def draw_discrete(strips: Strips, places: int, limit: int, size: Size, bits: Bits | None) -> NDArray[np.int64]:
    """Integers k with probability ∝ exp(−c·|k/places|^p)."""
    stuck = np.zeros(3, dtype=np.uint64)

    def exactly(reader: Reader) -> int | None:
        kept = try_exactly(strips, int(stuck[1]), int(stuck[2]), reader, places)
        if kept is None:
            return None
        negative, strip, x = kept
        magnitude = places * strip + scaled_floor(x, places)
        if negative and magnitude == 0:
            return None
        return -magnitude if negative else magnitude

    def step(reader: Reader, flat: NDArray[np.int64], done: int) -> int:
        block = reader.ensure(2)
        done = kernels.discrete(
            block.words, block.cursor, stuck, flat, done, strips.guide, strips.cells, strips.certain,
            strips.power, strips.slope, np.uint64(places),
        )  # fmt: skip
        return _decide(stuck, flat, done, lambda: exactly(reader), limit)

    return fill(size, bits, step)


def _decide(
    stuck: NDArray[np.uint64], flat: NDArray[np.int64], done: int, exactly: Callable[[], int | None], limit: int
) -> int:
    """Decides the trial that stopped the kernel, if one did."""
    if not stuck[0]:
        return done
    value = exactly()
    stuck[:] = 0
    if value is None:
        return done
    if abs(value) > limit:  # needs thousands of leading one bits: probability below 2^−2900
        raise OverflowError(f"a noise sample exceeds its limit of {limit}")
    flat[done] = value
    return done + 1


def _binary(unit: Fraction) -> tuple[int, int]:
    """unit = mantissa·2^exponent with 2^52 ≤ mantissa < 2^53."""
    length, exponent = unit.numerator.bit_length(), unit.denominator.bit_length() - 1
    if length > 53 or unit.denominator != 1 << exponent:
        raise InvalidInput("rounded noise needs a scale that is a double; convert it first")
    return unit.numerator << (53 - length), length - 53 - exponent
