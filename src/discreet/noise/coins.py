"""Coins and dice: exact Bernoulli trials and uniform integers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numba import njit
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.noise.arguments import Size, fill, rational, shape, whole
from discreet.noise.bits import BLOCK_WORDS, Bits, Reader, process_bits
from discreet.noise.kernels import _high_product
from discreet.noise.reals import Enclosure, Uniform, below, exp_minus

__all__ = ["bernoulli", "bernoulli_exp", "heads", "uniform_integers"]

_CHUNK = 32
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


@njit(nogil=True, cache=True)
def _toss(words, cursor, out, coin, coins, cell):  # type: ignore[no-untyped-def]
    """Tosses coins, two to a word, and lists those whose 32 bits of U are below the cell.

    Stops after a coin that hits the cell, which its bits do not decide. Returns (heads, coins tossed, that coin or −1).
    """
    at, count = cursor[0], 0
    while coin < coins and at < words.size:
        word = words[at]
        words[at] = 0
        at += 1
        for _ in range(min(2, coins - coin)):
            chunk = word >> _32
            word = (word & _LOW) << _32
            if chunk == cell:
                cursor[0] = at
                return count, coin + 1, coin
            out[count] = coin
            count += chunk < cell
            coin += 1
    cursor[0] = at
    return count, coin, -1


def heads(coins: int, probability: Enclosure, bits: Bits | None) -> NDArray[np.int64]:
    """Which of ``coins`` independent coins of exactly this probability show heads, in increasing order."""
    cell = _cell(probability)
    found: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
    room = np.empty(2 * BLOCK_WORDS + 1, dtype=np.int64)
    tossed = 0
    with (bits or process_bits()).reader() as reader:
        while tossed < coins:
            block = reader.ensure(1)
            count, tossed, undecided = _toss(block.words, block.cursor, room, tossed, coins, np.uint64(cell))
            found.append(room[:count].copy())
            if undecided >= 0 and below(Uniform(reader.word, cell, _CHUNK), probability):
                found.append(np.array([undecided], dtype=np.int64))
    return np.concatenate(found)


def _cell(probability: Enclosure) -> int:
    """The cell with cell ≤ 2^32·p ≤ cell + 1: chunks below it are heads, chunks above it are tails."""
    bits = 64
    while True:
        lower, upper = probability(bits)
        cell = lower >> (bits - _CHUNK)
        if upper <= (cell + 1) << (bits - _CHUNK):
            return cell
        bits += 64


def rational_probability(name: str, p: float | Fraction) -> Enclosure:
    """Enclosures of a rational probability, a double being taken at its exact value."""
    exact = rational(p)
    if exact is None or not 0 <= exact <= 1:
        raise InvalidInput(f"{name} must be a probability, a number in [0, 1]; got {p!r}")
    return lambda bits: (math.floor(exact * 2**bits), math.ceil(exact * 2**bits))


def bernoulli(p: float | Fraction, size: Size = None, *, bits: Bits | None = None) -> NDArray[np.bool_]:
    """Independent coins that are True with probability exactly p.

    Args:
        p: the probability; a double is taken at its exact value.
        size: shape of the result; None for a 0-dimensional array.
        bits: source of randomness; by default the process's secure one.

    Raises:
        InvalidInput: if p is not in [0, 1].

    Example:
        >>> bool(bernoulli(1.0)), bool(bernoulli(0.0))
        (True, False)
    """
    return _mask(rational_probability("p", p), size, bits)


def bernoulli_exp(
    numerator: float | Fraction,
    denominator: float | Fraction = 1,
    size: Size = None,
    *,
    bits: Bits | None = None,
) -> NDArray[np.bool_]:
    """Independent coins that are True with probability exactly exp(−numerator/denominator).

    Args:
        numerator: non-negative; a double is taken at its exact value.
        denominator: positive; likewise.
        size: shape of the result; None for a 0-dimensional array.
        bits: source of randomness; by default the process's secure one.

    Raises:
        InvalidInput: if the quotient is not a finite number ≥ 0.

    Example:
        >>> bool(bernoulli_exp(0, 3))
        True
    """
    above, beneath = rational(numerator), rational(denominator)
    if above is None or beneath is None or above < 0 or beneath <= 0:
        raise InvalidInput(f"exp(−x) is a probability for finite x ≥ 0 only; got x = {numerator!r} / {denominator!r}")
    x = above / beneath
    return _mask(lambda bits: exp_minus(x, bits), size, bits)


def _mask(probability: Enclosure, size: Size, bits: Bits | None) -> NDArray[np.bool_]:
    mask = np.zeros(shape(size), dtype=np.bool_)
    mask.reshape(-1)[heads(mask.size, probability, bits)] = True
    return mask


@njit(nogil=True, cache=True)
def _dice(words, cursor, out, done, bound, excess):  # type: ignore[no-untyped-def]
    """Lemire's (2019) multiplication: ⌊bound·word / 2^64⌋, redrawn in the 2^64 mod bound cases that are left over."""
    at = cursor[0]
    while done < out.size and at < words.size:
        word = words[at]
        words[at] = 0
        at += 1
        if bound * word >= excess:
            out[done] = np.int64(_high_product(bound, word))
            done += 1
    cursor[0] = at
    return done


def uniform_integers(bound: int, size: Size = None, *, bits: Bits | None = None) -> NDArray[np.int64]:
    """Independent integers, exactly uniform on 0, …, bound − 1.

    Args:
        bound: 1 ≤ bound ≤ 2^63.
        size: shape of the result; None for a 0-dimensional array.
        bits: source of randomness; by default the process's secure one.

    Raises:
        InvalidInput: if the bound is out of range.

    Example:
        >>> int(uniform_integers(1))
        0
    """
    count = whole("bound", bound, 1, 1 << 63)
    excess = (1 << 64) % count

    def step(reader: Reader, flat: NDArray[np.int64], done: int) -> int:
        block = reader.ensure(1)
        return int(_dice(block.words, block.cursor, flat, done, np.uint64(count), np.uint64(excess)))

    return fill(size, bits, step)
