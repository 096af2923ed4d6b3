"""Which rows take part in a release: the samplers behind privacy amplification.

Amplification is proved for one law of the sample and for no other, so each of these has exactly the law of its name:
`poisson_sample` that of ``events.Poisson``, `fixed_size_sample` that of ``events.FixedSize``, and
`with_replacement_sample` that of ``events.WithReplacement``.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numba import njit
from numpy.typing import NDArray

from discreet.noise.arguments import whole
from discreet.noise.bits import Bits, process_bits
from discreet.noise.coins import heads, rational_probability, uniform_integers
from discreet.noise.kernels import _high_product

__all__ = ["fixed_size_sample", "permutation", "poisson_sample", "with_replacement_sample"]

_MOST_ROWS = 1 << 48
_1 = np.uint64(1)


def poisson_sample(n: int, rate: float | Fraction, *, bits: Bits | None = None) -> NDArray[np.int64]:
    """Row numbers in increasing order, each of 0, …, n − 1 present independently with probability exactly ``rate``.

    Args:
        n: number of rows.
        rate: inclusion probability; a double is taken at its exact value.
        bits: source of randomness; by default the process's secure one.

    Raises:
        InvalidInput: if n is negative or the rate is not in [0, 1].

    Example:
        >>> poisson_sample(3, 1.0)
        array([0, 1, 2])
    """
    return heads(whole("n", n, 0, _MOST_ROWS), rational_probability("rate", rate), bits)


def fixed_size_sample(n: int, batch: int, *, bits: Bits | None = None) -> NDArray[np.int64]:
    """A subset of ``batch`` rows out of n in increasing order, all subsets of that size being equally likely.

    Floyd's algorithm (Bentley and Floyd 1987): for j = n − batch, …, n − 1 take a uniform row of 0, …, j, or j itself
    if that one is already taken.

    Args:
        n: number of rows.
        batch: 0 ≤ batch ≤ n.
        bits: source of randomness; by default the process's secure one.

    Raises:
        InvalidInput: if the sizes are out of range.

    Example:
        >>> fixed_size_sample(3, 3)
        array([0, 1, 2])
    """
    n = whole("n", n, 0, _MOST_ROWS)
    batch = whole("batch", batch, 0, n)
    left_out = 2 * batch > n  # then the complement is the smaller subset, and just as uniform
    taken = np.zeros(n, dtype=np.bool_)
    row = n - (n - batch if left_out else batch)
    with (bits or process_bits()).reader() as reader:
        while row < n:
            block = reader.ensure(1)
            row = _floyd(block.words, block.cursor, taken, row)
    return np.flatnonzero(~taken if left_out else taken).astype(np.int64, copy=False)


def with_replacement_sample(n: int, batch: int, *, bits: Bits | None = None) -> NDArray[np.int64]:
    """``batch`` independent uniform rows out of n, in increasing order, repetitions included.

    Args:
        n: number of rows, at least 1.
        batch: number of draws.
        bits: source of randomness; by default the process's secure one.

    Raises:
        InvalidInput: if the sizes are out of range.

    Example:
        >>> with_replacement_sample(1, 3)
        array([0, 0, 0])
    """
    return np.sort(uniform_integers(whole("n", n, 1, _MOST_ROWS), whole("batch", batch, 0, _MOST_ROWS), bits=bits))


def permutation(n: int, *, bits: Bits | None = None) -> NDArray[np.int64]:
    """0, …, n − 1 in a uniformly random order (Fisher and Yates 1938).

    Args:
        n: how many.
        bits: source of randomness; by default the process's secure one.

    Raises:
        InvalidInput: if n is negative.

    Example:
        >>> sorted(permutation(4).tolist())
        [0, 1, 2, 3]
    """
    order = np.arange(whole("n", n, 0, _MOST_ROWS), dtype=np.int64)
    last = order.size - 1
    with (bits or process_bits()).reader() as reader:
        while last > 0:
            block = reader.ensure(1)
            last = _shuffle(block.words, block.cursor, order, last)
    return order


@njit(nogil=True, cache=True, inline="always")
def _one_of(word, bound):  # type: ignore[no-untyped-def]
    """⌊bound·word / 2^64⌋, or −1 if this word must be redrawn to keep all values equally likely (Lemire 2019)."""
    lower = bound * word
    if lower < bound and lower < (~bound + _1) % bound:  # 2^64 mod bound
        return np.int64(-1)
    return np.int64(_high_product(bound, word))


@njit(nogil=True, cache=True)
def _floyd(words, cursor, taken, row):  # type: ignore[no-untyped-def]
    at = cursor[0]
    while row < taken.size and at < words.size:
        pick = _one_of(words[at], np.uint64(row + 1))
        words[at] = 0
        at += 1
        if pick >= 0:
            taken[row if taken[pick] else pick] = True
            row += 1
    cursor[0] = at
    return row


@njit(nogil=True, cache=True)
def _shuffle(words, cursor, order, last):  # type: ignore[no-untyped-def]
    at = cursor[0]
    while last > 0 and at < words.size:
        pick = _one_of(words[at], np.uint64(last + 1))
        words[at] = 0
        at += 1
        if pick >= 0:
            order[last], order[pick] = order[pick], order[last]
            last -= 1
    cursor[0] = at
    return last
