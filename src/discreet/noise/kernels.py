"""Compiled loops over keystream words. Each stops where only exact arithmetic can decide, and says so.

Every kernel reads words from ``words[cursor[0]]`` on, wipes them, and advances the cursor itself, in one call that
nothing can interrupt. It returns how many outputs are complete; fewer than asked means that the words ran out, or that
one trial is undecided, which `stuck` then holds (flag, first word, second word). `rounded` and `real` repeat the four
lines that decide a trial: as a function of their own they cost a quarter of the time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from discreet.noise.strips import GUIDE_BITS, U_BITS, V_BITS

_U_SHIFT = np.uint64(64 - U_BITS)
_GUIDE_SHIFT = np.uint64(U_BITS - GUIDE_BITS)
_V_MASK = np.uint64((1 << V_BITS) - 1)
_V_BITS = np.uint64(V_BITS)
_V_UNIT = 2.0**-V_BITS
_HALF_MASK = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_11 = np.uint64(11)
_1 = np.uint64(1)
_0 = np.uint64(0)
_64 = np.uint64(64)
_X_UNIT = 2.0**-53

#: Bound on the error of `_exp_minus` and of its argument together, proved in `_keep`; the proof leaves a factor 16.
ERROR = 2.0**-40


@njit(nogil=True, cache=True, inline="always")
def _high_product(a, b):  # type: ignore[no-untyped-def]
    """⌊a·b / 2^64⌋ of two 64-bit words."""
    a1, a0, b1, b0 = a >> _32, a & _HALF_MASK, b >> _32, b & _HALF_MASK
    middle = a1 * b0 + ((a0 * b0) >> _32)
    other = a0 * b1 + (middle & _HALF_MASK)
    return a1 * b1 + (middle >> _32) + (other >> _32)


@njit(nogil=True, cache=True, inline="always")
def _exp_minus(y):  # type: ignore[no-untyped-def]
    """exp(−y) for 0 ≤ y ≤ 1/2: the Taylor terms left out are below 2^−13/13! < 2^−45, Horner's rounding below 2^−48."""
    total = 1.0
    for k in range(12, 0, -1):
        total = 1.0 - total * y / k
    return total


@njit(nogil=True, cache=True, inline="always")
def _strip(first, guide, cells):  # type: ignore[no-untyped-def]
    """The strip that 32 bits of U fall in, or −1 if they do not decide it."""
    u = first >> _U_SHIFT
    j = guide[u >> _GUIDE_SHIFT]
    while cells[j] < u:
        j += 1
    return -1 if cells[j] == u else j


@njit(nogil=True, cache=True, inline="always")
def _keep(first, j, t, certain, power, c):  # type: ignore[no-untyped-def]
    """1 to keep, 0 to reject, −1 if 31 bits of V do not decide it.

    With drop = c·((j+t)^p − j^p) ≤ 1/2: t is known within 2^−52, which moves the drop by at most 2^−51; five roundings
    move it by less than 2^−51 more; with the error of `_exp_minus`, all is below 2^−44.
    """
    v = first & _V_MASK
    if v < certain[j]:
        return 1
    drop = c * t * (2.0 * j + t) if power == 2 else c * t
    excess = np.float64(v) * _V_UNIT - _exp_minus(drop)
    if excess > ERROR:
        return 0
    return 1 if excess < -(_V_UNIT + ERROR) else -1


@njit(nogil=True, cache=True, inline="always")
def _take(words, at):  # type: ignore[no-untyped-def]
    """The two words of a trial, wiped where they were."""
    first, second = words[at], words[at + 1]
    words[at] = 0
    words[at + 1] = 0
    return first, second


@njit(nogil=True, cache=True)
def rounded(words, cursor, stuck, out, done, guide, cells, certain, power, c, mantissa, shift):  # type: ignore[no-untyped-def]
    """Fills out[done:] with ±⌊mantissa·(j + X)·2^−shift + 1/2⌋.

    mantissa < 2^53 and j < 2^10, so the product with (j·2^64 + 64 bits of X) stays below 2^127; 65 ≤ shift, so the half
    that rounds touches only its upper word. Unknown bits of X add less than mantissa to the lower word: only if that
    carries, and the carry changes the result, is the rounding undecided.
    """
    at = cursor[0]
    drop = np.uint64(shift) - _64
    half = _1 << (drop - _1)
    while done < out.size and at + 2 <= words.size:
        first, second = _take(words, at)
        at += 2
        j = _strip(first, guide, cells)
        verdict = -1
        if j >= 0:
            verdict = _keep(first, j, np.float64(second >> _11) * _X_UNIT, certain, power, c)
        if verdict == 1:
            upper = mantissa * np.uint64(j) + _high_product(mantissa, second) + half
            lower = mantissa * second
            value = upper >> drop
            if lower + (mantissa - _1) < lower and (upper + _1) >> drop != value:
                verdict = -1
            else:
                magnitude = np.int64(value)
                out[done] = -magnitude if (first >> _V_BITS) & _1 else magnitude
                done += 1
        if verdict == -1:
            stuck[0], stuck[1], stuck[2] = _1, first, second
            break
    cursor[0] = at
    return done


@njit(nogil=True, cache=True)
def discrete(words, cursor, stuck, out, done, guide, cells, certain, power, c, places):  # type: ignore[no-untyped-def]
    """Fills out[done:] with ±(places·j + ⌊places·X⌋), minus zero rejected; undecided if unknown bits of X may carry."""
    at = cursor[0]
    while done < out.size and at + 2 <= words.size:
        first, second = _take(words, at)
        at += 2
        j = _strip(first, guide, cells)
        verdict = -1
        if j >= 0:
            place = _high_product(places, second)
            lower = places * second
            if lower + (places - _1) >= lower:
                verdict = _keep(first, j, np.float64(place) / np.float64(places), certain, power, c)
        if verdict == 1:
            magnitude = np.int64(places * np.uint64(j) + place)
            negative = (first >> _V_BITS) & _1
            if magnitude != 0 or not negative:
                out[done] = -magnitude if negative else magnitude
                done += 1
        if verdict == -1:
            stuck[0], stuck[1], stuck[2] = _1, first, second
            break
    cursor[0] = at
    return done


@njit(nogil=True, cache=True)
def real(words, cursor, stuck, out, fractions, done, guide, cells, certain, power, c):  # type: ignore[no-untyped-def]
    """Fills out[done:] with the strips, complemented (~j) if negative, and fractions[done:] with 64 bits of X."""
    at = cursor[0]
    while done < out.size and at + 2 <= words.size:
        first, second = _take(words, at)
        at += 2
        j = _strip(first, guide, cells)
        verdict = -1
        if j >= 0:
            verdict = _keep(first, j, np.float64(second >> _11) * _X_UNIT, certain, power, c)
        if verdict == 1:
            out[done] = ~j if (first >> _V_BITS) & _1 else j
            fractions[done] = second
            done += 1
        if verdict == -1:
            stuck[0], stuck[1], stuck[2] = _1, first, second
            break
    cursor[0] = at
    return done
