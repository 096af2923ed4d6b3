"""Private selection on integer scores: the exponential mechanism and permute-and-flip, without any error.

With gap_i = max score − score_i and w_i = exp(−gap_i / scale), all of them prefer i in proportion to, or with coins
of probability, w_i. No w_i is ever summed or compared as a floating-point number:

* the exponential mechanism draws from integer weights W_i ≥ 2^F·w_i, then keeps i with probability 2^F·w_i / W_i,
  decided exactly: so i is kept with probability ∝ w_i, whatever the slack in W_i;
* permute-and-flip compares 64 bits of a uniform real with an interval around w_i, and decides the rest exactly.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidInput
from discreet.noise.arguments import rational, whole
from discreet.noise.bits import BLOCK_WORDS, Bits, Reader, process_bits
from discreet.noise.coins import uniform_integers
from discreet.noise.kernels import ERROR, _exp_minus
from discreet.noise.reals import Uniform, below, exp_minus
from discreet.noise.strips import scaled_floor

__all__ = ["exponential_select", "exponential_top", "permute_and_flip"]

_GROUP = 1024
_MOST_SCORES = 1 << 29
_LOG2_E = math.log2(math.e)
#: exp(−k/2) for k = 0, …, 90, each within 2^−52 relative.
_EXP_HALVES = np.array([float(Fraction(exp_minus(Fraction(k, 2), 192)[0], 1 << 192)) for k in range(91)])


def exponential_select(scores: ArrayLike, scale: float, *, bits: Bits | None = None) -> int:
    """An index drawn with probability exactly ∝ exp(scores[i] / scale).

    For scores of sensitivity Δ this is the exponential mechanism (McSherry and Talwar 2007), 2Δ/scale-differentially
    private; it is also 2Δ/scale-bounded-range (Dong, Durfee and Rogers 2020).

    Args:
        scores: 64-bit integers.
        scale: positive, in units of the scores; a double is taken at its exact value.
        bits: source of randomness; by default the process's secure one.

    Raises:
        InvalidInput: if there are no scores, they are not integers, or the scale is not positive.

    Example:
        >>> exponential_select([0, 10**6, 3], 1.0)
        1
    """
    return int(exponential_top(scores, 1, scale, bits=bits)[0])


def exponential_top(scores: ArrayLike, s: int, scale: float, *, bits: Bits | None = None) -> NDArray[np.int64]:
    """s different indices in the order drawn, each by the exponential mechanism among those not yet drawn.

    The same law as the s largest of scores[i]/scale + Gumbel noise, in decreasing order (Durfee and Rogers 2019).

    Args:
        scores: 64-bit integers.
        s: how many, 1 ≤ s ≤ number of scores.
        scale: positive, in units of the scores; a double is taken at its exact value.
        bits: source of randomness; by default the process's secure one.

    Raises:
        InvalidInput: if there are too few scores, they are not integers, or the scale is not positive.

    Example:
        >>> exponential_top([0, 10**6, 3, 10**5], 2, 1.0)
        array([1, 3])
    """
    values, exact = _integers(scores), _positive(scale)
    s = whole("s", s, 1, values.size)
    fine = 62 - values.size.bit_length()  # so that the sum of all weights stays below 2^63
    left = np.ones(values.size, dtype=np.bool_)
    picks: list[int] = []
    with (bits or process_bits()).reader() as reader:
        weights, sums, best = _envelope(values, left, float(exact), fine)
        total = int(sums.sum())
        while len(picks) < s:
            if total < 4 * (values.size - len(picks)):
                # Mostly the +1 of rounding up: measure the gaps from the best score that is left.
                weights, sums, best = _envelope(values, left, float(exact), fine)
                total = int(sums.sum())
            i = _locate(weights, sums, scaled_floor(Uniform(reader.word), total))
            if _keep(reader, (int(best) - int(values[i])) / exact, fine, int(weights[i])):
                picks.append(i)
                total -= int(weights[i])
                sums[i // _GROUP] -= weights[i]
                weights[i], left[i] = 0, False
    return np.array(picks, dtype=np.int64)


def permute_and_flip(scores: ArrayLike, scale: float, *, bits: Bits | None = None) -> int:
    """The index chosen by permute-and-flip (McKenna and Sheldon 2020).

    Indices are visited in random order, and the first whose coin of probability exp(−gap_i / scale) shows heads is
    chosen. Coins do not depend on the order, so this is a uniform choice among all heads, which is how it is drawn.
    For scores of sensitivity Δ it is 2Δ/scale-differentially private, and never worse than the exponential mechanism.

    Args:
        scores: 64-bit integers.
        scale: positive, in units of the scores; a double is taken at its exact value.
        bits: source of randomness; by default the process's secure one.

    Raises:
        InvalidInput: if there are no scores, they are not integers, or the scale is not positive.

    Example:
        >>> permute_and_flip([0, 10**6, 3], 1.0)
        1
    """
    values, exact = _integers(scores), _positive(scale)
    best = values.max()
    room = np.empty(BLOCK_WORDS + 1, dtype=np.int64)
    heads: list[NDArray[np.int64]] = []
    i = 0
    stuck = np.zeros(1, dtype=np.uint64)
    with (bits or process_bits()).reader() as reader:
        while i < values.size:
            block = reader.ensure(1)
            count, i, undecided = _flip(
                block.words, block.cursor, stuck, room, values, i, best, float(exact), _EXP_HALVES
            )
            heads.append(room[:count].copy())
            if undecided >= 0:
                gap = (int(best) - int(values[undecided])) / exact
                if below(Uniform(reader.word, int(stuck[0]), 64), lambda b, gap=gap: exp_minus(gap, b)):  # type: ignore[misc]
                    heads.append(np.array([undecided], dtype=np.int64))
                stuck[0] = 0
    shown = np.concatenate(heads)
    return int(shown[uniform_integers(shown.size, bits=bits)])


def _keep(reader: Reader, gap: Fraction, fine: int, weight: int) -> bool:
    """Whether to keep an index proposed with its weight W: probability 2^F·exp(−gap) / W exactly."""

    def probability(bits: int) -> tuple[int, int]:
        lower, upper = exp_minus(gap, bits + fine)
        if lower > weight << bits:
            raise AssertionError(f"weight {weight} is below 2^{fine}·exp(−{float(gap)})")
        return lower // weight, -(-upper // weight)

    return below(Uniform(reader.word), probability)


def _integers(scores: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(scores)
    if array.ndim != 1 or not 1 <= array.size <= _MOST_SCORES or array.dtype.kind not in "iu":
        raise InvalidInput(
            "scores must be a non-empty vector of integers: round them to a grid, so that their sensitivity is exact; "
            f"got shape {array.shape} and type {array.dtype}"
        )
    if array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max:
        raise InvalidInput("scores must fit in 64-bit signed integers; use a coarser grid")
    return np.ascontiguousarray(array, dtype=np.int64)


def _positive(scale: float) -> Fraction:
    # Both ends keep gap/scale zero or a normal double, which the error bounds below rely on.
    exact = rational(scale)
    if exact is None or not 2.0**-900 <= exact <= 2.0**900:
        raise InvalidInput(f"scale must be a positive number between 2^-900 and 2^900; got {scale!r}")
    return exact


@njit(nogil=True, cache=True, inline="always")
def _weight(gap, scale, fine):  # type: ignore[no-untyped-def]
    """An integer W with 2^F·w ≤ W < 1.07·2^F·w + 2, where w = exp(−gap/scale).

    t = gap·log2(e)/scale has six roundings, together below 2^−50 relative; shortened by 2^−48 it is at most the true t.
    2^−t is convex: for t = n + f it is at most 2^−n·(1 − f/2), the chord, which exceeds it by at most 6.2 %.
    """
    t = np.float64(gap) / scale * _LOG2_E * (1.0 - 2.0**-48)
    weight = np.uint64(1)
    if t < fine:
        n = int(t)
        chord = (1.0 - (t - n) * 0.5) * (1.0 + 2.0**-50)
        weight = np.uint64(chord * 2.0 ** (fine - n)) + np.uint64(1)
    return weight


@njit(nogil=True, cache=True)
def _envelope(scores, left, scale, fine):  # type: ignore[no-untyped-def]
    """The weights of the indices left, measured from the best score among them, and their sums over groups."""
    best = np.int64(-0x8000000000000000)
    for i in range(scores.size):
        if left[i] and scores[i] > best:
            best = scores[i]
    weights = np.zeros(scores.size, dtype=np.uint64)
    sums = np.zeros((scores.size + _GROUP - 1) // _GROUP, dtype=np.uint64)
    for i in range(scores.size):
        if left[i]:
            gap = np.uint64(best) - np.uint64(scores[i])  # exact: wraps to the true difference below 2^64
            weight = _weight(gap, scale, fine)
            weights[i] = weight
            sums[i // _GROUP] += weight
    return weights, sums, best


@njit(nogil=True, cache=True)
def _locate(weights, sums, ticket, group_size=_GROUP):  # type: ignore[no-untyped-def]
    """The index i with W_0 + … + W_{i−1} ≤ ticket < W_0 + … + W_i."""
    rest = np.uint64(ticket)
    group = 0
    while rest >= sums[group]:
        rest -= sums[group]
        group += 1
    i = group * group_size
    while rest >= weights[i]:
        rest -= weights[i]
        i += 1
    return i


@njit(nogil=True, cache=True)
def _flip(words, cursor, stuck, out, scores, i, best, scale, halves):  # type: ignore[no-untyped-def]
    """Lists the indices from i on whose coins show heads; stops after one whose 64 bits do not decide it.

    gap/scale < 45 has three roundings, which move its exponential by less than 2^−45 relative; the table is within
    2^−52, and `_exp_minus` within 2^−44 of a value above 1/2: together below ERROR = 2^−40.
    """
    at, count = cursor[0], 0
    while i < scores.size and at < words.size:
        word = words[at]
        words[at] = 0
        at += 1
        gap = np.uint64(best) - np.uint64(scores[i])
        y = np.float64(gap) / scale
        chance = 0.0
        if y < 45.0:
            k = int(2.0 * y)
            chance = halves[k] * _exp_minus(y - 0.5 * k) * 2.0**64
        u = np.float64(word)
        if gap == 0 or u < chance * (1.0 - ERROR) - 2.0:
            out[count] = i
            count += 1
        elif not u > chance * (1.0 + ERROR) + 2.0:
            stuck[0] = word
            cursor[0] = at
            return count, i + 1, i
        i += 1
    cursor[0] = at
    return count, i, -1
