"""The sampler of `discreet.torch.cuda.kernels` in NumPy, and the exact routine that decides what it leaves open.

Sample i of a key is a function of ChaCha20's keystream under that key (docs/maths/gpu_noise.md). Trial 0 has the word
pair (i >> 7) & 7 of block 128·(i >> 10) + (i & 127) with nonce (0, 0), so that neighbouring samples come from
neighbouring blocks. Trial t ≥ 1 has the first pair of block i with nonce (1, t), whose next words are 64 more bits of
V, 64 more bits of X, and the word that chooses a strip of the tail; trial 0 takes these from block i with nonce (1, 0).
Bits beyond these come from block i with nonces (2, t), (3, t), ….

A sample is decided in three steps, each of which evaluates the same function with more bits: `first_look` from the 64
bits of trial 0, `second_look` from 74 bits of V and 95 bits of X, `exactly` from as many as it takes.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from discreet.noise.reals import Uniform, below, floor_log2
from discreet.noise.strips import scaled_floor
from discreet.torch.cuda.keystream import Words, chacha20, pair
from discreet.torch.cuda.tables import (
    FIRST_OF_TAIL,
    LAST_STRIP,
    STRIPS,
    THRESHOLD_BITS,
    V_BITS,
    Tables,
    gaussian_tables,
)

__all__ = ["SLACK", "Scale", "exactly", "first_look", "sample", "second_look"]

U64 = NDArray[np.uint64]
Places = NDArray[np.int64]

X_BITS: Final = 31
SLACK: Final = 256
"""Units of 2^−64 by which the computed probability of keeping may be wrong; the proof leaves a factor of 7."""
TERMS: Final = 12
"""Terms of the series of exp(−y), y ≤ 0.08."""
MOST_BITS: Final = 21
SHIFT: Final = STRIPS.bit_length() - 1 + X_BITS


@dataclass(frozen=True)
class Scale:
    """A standard deviation σ = multiplier·2^38/2^shift: a sample is ⌊½ ± multiplier·(j + X)·2^31/2^shift⌋.

    The multiplier has 21 bits, so that the kernels' products stay within 63 bits.
    """

    multiplier: int
    shift: int

    @property
    def sigma(self) -> Fraction:
        """σ."""
        return Fraction(self.multiplier) * Fraction(2) ** (SHIFT - self.shift)

    @staticmethod
    def at_least(sigma: float) -> Scale | None:
        """The least scale that is not smaller than ``sigma``, at most 2^−20 of it larger; None beyond [2^−3, 2^42].

        Example:
            >>> Scale.at_least(2.0**20), Scale.at_least(2.0**50)
            (Scale(multiplier=1048576, shift=38), None)
        """
        exact = Fraction(sigma)
        if not Fraction(1, 8) <= exact <= 2**42:
            return None
        shift = SHIFT + MOST_BITS - 1 - floor_log2(exact)
        multiplier = -int(-exact * Fraction(2) ** (shift - SHIFT) // 1)
        return Scale(multiplier, shift) if multiplier < 1 << MOST_BITS else Scale(multiplier // 2, shift - 1)


def sample(key: Words, count: int, scale: Scale, slack: int = SLACK) -> NDArray[np.int64]:
    """Samples 0 to ``count`` − 1 of a key, distributed exactly as round(σZ).

    Args:
        key: eight words, used for nothing else.
        count: number of samples.
        scale: σ.
        slack: units of 2^−64, at least `SLACK`, by which a probability is taken to be uncertain. It changes which
            samples are left to `exactly`, never a sample.
    """
    tables = gaussian_tables()
    values, settled = first_look(key, np.arange(count), scale, tables)
    unsettled = np.flatnonzero(~settled)
    values[unsettled], left = second_look(key, unsettled, scale, tables, slack)
    for i in unsettled[left]:
        values[i] = exactly(key, int(i), scale, tables)
    return values


def first_words(key: Words, places: Places) -> tuple[Words, Words]:
    """The two words of trial 0."""
    which = (places >> 7) & 7
    blocks, back = np.unique((places >> 10) * 128 + (places & 127), return_inverse=True)
    stream = chacha20(key, blocks, 0, 0)
    return stream[2 * which, back], stream[2 * which + 1, back]


def _strip(word: Words, tables: Tables) -> tuple[Places, U64, U64]:
    """The strip that a trial's first word chooses, what makes V certain there, and the first bits of V."""
    slot = (word >> np.uint32(32 - 10)).astype(np.int64)
    below_threshold = (word >> np.uint32(V_BITS)) & np.uint32((1 << THRESHOLD_BITS) - 1)
    entry = tables.packed[slot]
    own = below_threshold < (entry & np.uint64(0xFFFF))
    strip = np.where(own, slot, ((entry >> np.uint64(32)) & np.uint64(0xFFFF)).astype(np.int64))
    certain = np.where(own, entry >> np.uint64(16), entry >> np.uint64(48)) & np.uint64(0xFFFF)
    return strip, certain, (word & np.uint32((1 << V_BITS) - 1)).astype(np.uint64)


def first_look(key: Words, places: Places, scale: Scale, tables: Tables) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Samples, and which of them the 64 bits of their first trial settle."""
    first, second = first_words(key, places)
    strip, certain, v = _strip(first, tables)
    at = (strip << X_BITS) | (second & np.uint32(0x7FFFFFFF)).astype(np.int64)
    least, flip = at * scale.multiplier, -(second >> np.uint32(31)).astype(np.int64)
    half = 1 << (scale.shift - 1)
    low = (half + (least ^ flip)) >> scale.shift
    high = (half + ((least + scale.multiplier - 1) ^ flip)) >> scale.shift
    return low, (v < certain) & (low == high)


def second_look(
    key: Words, places: Places, scale: Scale, tables: Tables, slack: int = SLACK
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Samples, and which of them are left to `exactly`, because a trial was not decided by 74 bits of V and 95 of X."""
    values, left = np.zeros(places.size, dtype=np.int64), np.zeros(places.size, dtype=np.bool_)
    waiting, trial = np.arange(places.size), 0
    first, second = first_words(key, places)
    while waiting.size:
        stream = chacha20(key, places[waiting], 1, trial)
        if trial:
            first, second = stream[0], stream[1]
        verdict, found = _trial(first, second, stream, scale, tables, slack)
        values[waiting[verdict == 1]] = found[verdict == 1]
        left[waiting[verdict == -1]] = True
        again = verdict == 0
        waiting, first, second, trial = waiting[again], first[again], second[again], trial + 1
    return values, left


def _trial(
    first: Words, second: Words, stream: Words, scale: Scale, tables: Tables, slack: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of each trial 1 (kept), 0 (rejected) or −1 (open), and the value."""
    strip, _, v = _strip(first, tables)
    in_tail = strip == FIRST_OF_TAIL
    strip = np.where(in_tail, FIRST_OF_TAIL + np.searchsorted(tables.tail, pair(stream[6], stream[7]), "right"), strip)
    beyond = strip >= len(tables.heights)
    strip = np.where(beyond, 0, strip)
    more_v, more_x, x = pair(stream[2], stream[3]), pair(stream[4], stream[5]), (second & np.uint32(0x7FFFFFFF))
    v = (v << np.uint64(64 - V_BITS)) | (more_v >> np.uint64(V_BITS))
    x_start = x.astype(np.uint64)
    level = _kept(strip.astype(np.uint64), (x_start << np.uint64(33)) | (more_x >> np.uint64(31)), tables)
    up = np.where(level > np.uint64((1 << 64) - 1 - slack), np.uint64((1 << 64) - 1), level + np.uint64(slack))
    down = np.where(level > np.uint64(slack), level - np.uint64(slack), np.uint64(0))
    kept, rejected = v < down, v >= up
    m = np.uint64(scale.multiplier)
    product = more_x * m
    carry = (product + (m - np.uint64(1)) < product).astype(np.int64)
    whole = (((strip.astype(np.uint64) << np.uint64(X_BITS)) | x_start) * m + _high(more_x, m)).astype(np.int64)
    half, flip = 1 << (scale.shift - 1), -(second >> np.uint32(31)).astype(np.int64)
    low, high = (half + (whole ^ flip)) >> scale.shift, (half + ((whole + carry) ^ flip)) >> scale.shift
    verdict = np.where(kept & (low == high), 1, np.where(rejected, 0, -1))
    return np.where(beyond, -1, verdict), low


def _kept(strip: U64, x: U64, tables: Tables) -> U64:
    """A_j·exp(−y) in units of 2^−64, y = (2·j·X + X²)/2^15, with an error of less than 34 units."""
    by = 2 * (STRIPS.bit_length() - 1) + 1 + 2  # from units of 2^−64 for 2jX + X² to units of 2^−62 for y
    square, double = _high(x, x), strip + strip
    low, high = double * x, _high(double, x)
    low = low + square
    high = high + (low < square)
    y = (low >> np.uint64(by)) | (high << np.uint64(64 - by))
    one = np.uint64(1 << 62)
    t = np.full_like(y, one)
    for k in range(TERMS, 0, -1):
        t = one - (_high(t, y) << np.uint64(2)) // np.uint64(k)
    return _high(tables.heights[strip.astype(np.int64)], t << np.uint64(1)) << np.uint64(1)


def _high(a: U64, b: U64 | np.uint64) -> U64:
    """⌊a·b/2^64⌋."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    a0, a1, b0, b1 = a & mask, a >> half, b & mask, b >> half
    middle = a1 * b0 + ((a0 * b0) >> half)
    other = a0 * b1 + (middle & mask)
    result: U64 = a1 * b1 + (middle >> half) + (other >> half)
    return result


def exactly(key: Words, place: int, scale: Scale, tables: Tables) -> int:
    """The sample at ``place``, by rationals and enclosures alone.

    Raises:
        OverflowError: the sample is beyond 24 standard deviations, which has a probability below 2^−400.
    """
    trial = 0
    while True:
        found = _exact_trial(key, place, trial, scale, tables)
        if found is not None:
            return found
        trial += 1


def _exact_trial(key: Words, place: int, trial: int, scale: Scale, tables: Tables) -> int | None:
    at = np.array([place])
    stream = [int(word) for word in chacha20(key, at, 1, trial)[:, 0]]
    first, second = (stream[0], stream[1]) if trial else (int(word[0]) for word in first_words(key, at))
    words = _Words(key, place, trial)
    slot, threshold = first >> 22, (first >> V_BITS) & ((1 << THRESHOLD_BITS) - 1)
    strip = slot if threshold < tables.thresholds[slot] else tables.others[slot]
    if strip == FIRST_OF_TAIL:
        strip = _strip_of_tail(tables, stream[6] | stream[7] << 32, words)
    v = Uniform(words, (first & ((1 << V_BITS) - 1)) << 64 | stream[2] | stream[3] << 32, V_BITS + 64)
    x = Uniform(words, (second & 0x7FFFFFFF) << 64 | stream[4] | stream[5] << 32, X_BITS + 64)

    def keeps(bits: int) -> tuple[int, int]:
        # The probability falls in X: its enclosure comes from the two ends of what is known of X.
        while x.known < bits:
            x.extend()
        low, high = (tables.kept(strip, Fraction(x.prefix + side, 1 << x.known), bits) for side in (1, 0))
        return low[0], high[1]

    if not below(v, keeps):
        return None
    unit = scale.sigma / STRIPS
    magnitude = scaled_floor(x, unit, unit * strip + Fraction(1, 2))
    return -magnitude if second >> 31 else magnitude


def _strip_of_tail(tables: Tables, word: int, words: _Words) -> int:
    for level in tables.levels:
        if word < level.sums[-1]:
            return level.first + bisect_right(level.sums, word)
        word = words()
    raise OverflowError(f"a noise sample is beyond {LAST_STRIP // STRIPS} standard deviations")


class _Words:
    """Further words of 64 bits of a trial."""

    def __init__(self, key: Words, place: int, trial: int) -> None:
        self.key, self.place, self.trial, self.served = key, np.array([place]), trial, 0

    def __call__(self) -> int:
        block, which = divmod(self.served, 8)
        self.served += 1
        stream = chacha20(self.key, self.place, 2 + block, self.trial)[:, 0]
        return int(stream[2 * which]) | int(stream[2 * which + 1]) << 32
