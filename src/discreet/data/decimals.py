"""Compiled reading of plain decimal numbers, to the same float64 as Python's ``float``.

Up to 19 digits w and a power of ten q make w·10^q, which is rounded once by the algorithm of Eisel and Lemire (D.
Lemire, *Number parsing at a gigabyte per second*, Software: Practice and Experience 51, 2021): the leading 128 bits of
w·5^q decide the nearest float64, ties to even, in all cases but some that the algorithm recognises. Those, and all that
is not plain, are left to ``float`` itself. So which way a cell takes changes nothing but the time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = ["read_decimals"]

_LARGEST_POWER = 64
"""Powers of ten beyond 10^±64 are rare in tables; ``float`` reads them."""
_MOST_DIGITS = 19
"""Any 19 digits fit into 64 bits."""


def _leading_bits(q: int) -> int:
    """The 128 leading bits of 5^q: cut off for q ≥ 0, the next larger for q < 0, as the proof of the algorithm asks."""
    if q >= 0:
        power = 5**q
        return power << (128 - power.bit_length()) if power.bit_length() <= 128 else power >> (power.bit_length() - 128)
    power = 5**-q
    bits = (power - 1).bit_length()
    inverse = (1 << (bits + 127 if q >= -27 else 2 * bits + 128)) // power + 1
    return inverse >> max(0, inverse.bit_length() - 128)


_POWERS = np.array(
    [
        [bits >> 64, bits & (2**64 - 1)]
        for bits in (_leading_bits(q) for q in range(-_LARGEST_POWER, _LARGEST_POWER + 1))
    ],
    dtype=np.uint64,
)
_EXACT_POWER = 22
"""10^22 = 5^22·2^22 is a float64: 5^22 < 2^53."""
_TENS = np.array([float(10**q) for q in range(_EXACT_POWER + 1)])
_HALF, _LOW_HALF = np.uint64(32), np.uint64(0xFFFFFFFF)
_ONE, _ALL = np.uint64(1), np.uint64(2**64 - 1)
_HIDDEN_BIT, _SIGN_BIT = np.uint64(1 << 52), np.uint64(1 << 63)
_TOP_BIT, _TEN, _MOST_EXACT = np.uint64(63), np.uint64(10), np.uint64(1 << 53)
_BELOW_55 = np.uint64((1 << 9) - 1)


@njit(cache=True, nogil=True, inline="always")
def _product(a, b):  # type: ignore[no-untyped-def]
    """The 128 bits of a·b, as two halves."""
    a_high, a_low, b_high, b_low = a >> _HALF, a & _LOW_HALF, b >> _HALF, b & _LOW_HALF
    low = a_low * b_low
    middle = a_high * b_low + (low >> _HALF)
    other = a_low * b_high + (middle & _LOW_HALF)
    return a_high * b_high + (middle >> _HALF) + (other >> _HALF), (other << _HALF) | (low & _LOW_HALF)


@njit(cache=True, nogil=True)
def _nearest(w, q):  # type: ignore[no-untyped-def]
    """The bits of the float64 nearest to w·10^q for w > 0 and |q| ≤ 64; 0 where they are not certain."""
    zeros = 0
    for step in (32, 16, 8, 4, 2, 1):
        if w >> np.uint64(64 - step) == np.uint64(0):
            w = w << np.uint64(step)
            zeros += step
    high, low = _product(w, _POWERS[q + _LARGEST_POWER, 0])
    if high & _BELOW_55 == _BELOW_55:
        second, _ = _product(w, _POWERS[q + _LARGEST_POWER, 1])
        low = low + second
        if second > low:
            high = high + _ONE
    if low == _ALL and not -27 <= q <= 55:
        return np.uint64(0)
    upper = np.int64(high >> _TOP_BIT)
    shift = np.uint64(upper + 9)
    mantissa = high >> shift
    exponent = ((217706 * q) >> 16) + 63 + upper - zeros + 1023
    if low <= _ONE and -4 <= q <= 23 and mantissa & np.uint64(3) == _ONE and mantissa << shift == high:
        mantissa = mantissa & ~_ONE  # exactly half-way: to the even neighbour
    mantissa = (mantissa + (mantissa & _ONE)) >> _ONE
    if mantissa >= _HIDDEN_BIT << _ONE:
        mantissa = _HIDDEN_BIT
        exponent += 1
    return (mantissa & ~_HIDDEN_BIT) | (np.uint64(exponent) << np.uint64(52))


@njit(cache=True, nogil=True)
def _fill(text, starts, ends, quoted, point, numbers, bits, doubtful):  # type: ignore[no-untyped-def]
    count = 0
    for row in range(starts.shape[0]):
        i, end = starts[row], ends[row]
        while end > i and text[end - 1] == 32:
            end -= 1
        if quoted[row] or i == end:
            doubtful[count] = row
            count += 1
            continue
        negative = text[i] == 45
        if negative or text[i] == 43:
            i += 1
        w, digits, q, seen, plain = np.uint64(0), 0, 0, 0, True
        fraction = False
        while i < end:
            c = text[i]
            if 48 <= c <= 57:
                w = w * _TEN + np.uint64(c - 48)
                if digits > 0 or c != 48:  # zeros in front are no digits of w
                    digits += 1
                seen += 1
                q -= 1 if fraction else 0
            elif c == point and not fraction:
                fraction = True
            else:
                break
            i += 1
        if i < end and seen > 0 and (text[i] == 101 or text[i] == 69):
            i += 1
            down = i < end and text[i] == 45
            if i < end and (text[i] == 45 or text[i] == 43):
                i += 1
            plain = 0 < end - i <= 4
            power = 0
            while i < end and plain:
                plain = 48 <= text[i] <= 57
                power = 10 * power + (text[i] - 48)
                i += 1
            q += -power if down else power
        value = np.uint64(0)
        if i < end or seen == 0 or digits > _MOST_DIGITS or not plain:
            plain = False
        elif w == np.uint64(0):
            pass
        elif -_EXACT_POWER <= q <= 0 and w <= _MOST_EXACT:  # both are floats, and a division rounds once
            numbers[row] = np.float64(w) / _TENS[-q]
            value = bits[row]
        elif -_LARGEST_POWER <= q <= _LARGEST_POWER:
            value = _nearest(w, q)
            plain = value != np.uint64(0)
        else:
            plain = False
        if plain:
            bits[row] = value | _SIGN_BIT if negative else value
        else:
            doubtful[count] = row
            count += 1
    return count


def read_decimals(
    text: npt.NDArray[np.uint8],
    starts: npt.NDArray[Any],
    ends: npt.NDArray[Any],
    quoted: npt.NDArray[np.bool_],
    point: str,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[Any]]:
    """Each cell as a float64, and the rows whose cell is not plain, for which the number is NaN.

    A plain cell is a sign, digits with at most one decimal point, and an exponent of at most four digits, all optional
    but one digit, with blanks after it.

    Args:
        text: the bytes that hold the cells.
        starts: where each cell begins.
        ends: where each cell ends; cells are ``text[start:end]``.
        quoted: which cells are not to be read as they stand.
        point: the decimal point, one ASCII character.
    """
    numbers = np.full(len(starts), np.nan)
    doubtful = np.empty(len(starts), dtype=np.int64)
    count = _fill(text, starts, ends, quoted, np.uint8(ord(point)), numbers, numbers.view(np.uint64), doubtful)
    return numbers, doubtful[:count]
