"""What every sampler asks of its arguments, and the array that it fills."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.noise.bits import Bits, Reader, process_bits

__all__ = ["Size", "fill", "positive", "rational", "shape", "whole"]

Size = int | tuple[int, ...] | None
_LARGEST = 1 << 62  # the limit of every noise stays below this


def rational(value: float | Fraction) -> Fraction | None:
    """The exact value of a finite number, or None if it is not one."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, int | np.integer):
        return Fraction(int(value))
    if isinstance(value, float | np.floating) and math.isfinite(value):
        return Fraction(float(value))
    return None


def positive(name: str, value: float | Fraction, limit: int) -> Fraction:
    """The exact value of a scale, refused unless 0 < scale ≤ 2^62 / limit."""
    largest = _LARGEST // limit
    exact = rational(value)
    if exact is None or not 0 < exact <= largest:
        raise InvalidInput(
            f"{name} must be a positive number of at most {largest} grid steps, so that no sample can overflow "
            f"64 bits; got {value!r}. Choose a coarser grid"
        )
    return exact


def whole(name: str, value: int, least: int, most: int) -> int:
    """An integer argument, refused unless least ≤ value ≤ most."""
    integral = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not integral or not least <= value <= most:
        raise InvalidInput(f"{name} must be an integer between {least} and {most}; got {value!r}")
    return int(value)


def shape(size: Size) -> tuple[int, ...]:
    """The shape that a size means: numpy's rule, with None for a 0-dimensional array."""
    if size is None:
        return ()
    return tuple(whole("size", n, 0, 1 << 62) for n in (size if isinstance(size, tuple) else (size,)))


def fill(size: Size, bits: Bits | None, step: Callable[[Reader, NDArray[np.int64], int], int]) -> NDArray[np.int64]:
    """An array of the given size, completed by calling ``step(reader, flat, done) -> done`` until it is full."""
    result = np.empty(shape(size), dtype=np.int64)
    flat, done = result.reshape(-1), 0
    with (bits or process_bits()).reader() as reader:
        while done < flat.size:
            done = step(reader, flat, done)
    return result
