"""The exponential mechanism on scores that drift: exact draws in O(√m), from weights that may be out of date.

A `WeightedRejection` holds an integer weight W_i ≥ 2^F·exp((s_i − reference)/scale) for a *recorded* score s_i of each
of m indices. Suppose no true score exceeds its recorded one by more than ``slack``. A draw proposes i with probability
∝ W_i, looks up the true score t_i of that index alone, and keeps i with probability

    2^F·exp((t_i − slack − reference)/scale) / W_i  ≤  1,

decided exactly; otherwise it proposes again. What is kept has probability exactly ∝ exp(t_i/scale), whatever was
recorded: recorded scores decide how often a proposal is kept — at least exp(−2·slack/scale)/1.07 of the time while
weights are large — and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numba import njit
from numpy.typing import NDArray

from discreet.noise.bits import Bits, process_bits
from discreet.noise.reals import Uniform
from discreet.noise.selection import _integers, _keep, _locate, _positive, _weight
from discreet.noise.strips import scaled_floor

__all__ = ["WeightedRejection", "record_in"]

_HEADROOM = 4  # recorded scores may rise by 4·ln 2·scale above the best before the sampler must be filled again


class WeightedRejection:
    """Weights of m indices in groups of about √m.

    Args:
        scores: the scores to record, 64-bit integers of magnitude below 2^61.
        scale: positive, in units of the scores; a double is taken at its exact value.

    Example:
        >>> scores = np.array([0, 10**6, 3])
        >>> WeightedRejection(scores, 1.0).draw(lambda i: int(scores[i]), slack=0)
        1
    """

    def __init__(self, scores: NDArray[np.int64], scale: float) -> None:
        values = _integers(scores)
        self.scale: Fraction = _positive(scale)
        self.float_scale = float(self.scale)
        self.fine = 62 - values.size.bit_length()  # so that the sum of all weights stays below 2^63
        self.group_bits = (values.size.bit_length() + 1) // 2
        self.weights = np.zeros(values.size, np.uint64)
        self.sums = np.zeros((values.size >> self.group_bits) + 1, np.uint64)
        self.fill(values)

    def fill(self, scores: NDArray[np.int64]) -> None:
        """Record every score anew. O(m)."""
        room = int(min(_HEADROOM * 0.6931 * self.float_scale, 2.0**61))
        self.reference = int(scores.max()) + room
        _fill(self.weights, self.sums, scores, self.reference, self.float_scale, self.fine, self.group_bits)

    @property
    def table(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64], int, float, int, int]:
        """What compiled loops need in order to call `record_in`."""
        return self.weights, self.sums, self.reference, self.float_scale, self.fine, self.group_bits

    def record(self, i: int, score: int) -> bool:
        """Record one score in O(1); false, and nothing done, if it is above the reference: fill the sampler again."""
        return bool(record_in(self.table, i, score))

    @property
    def worn(self) -> bool:
        """Whether recorded scores have fallen so low that rounding outweighs them: time to fill again."""
        return int(self.sums.sum()) < 4 * self.weights.size

    def draw(self, true_score: Callable[[int], int], slack: int, *, bits: Bits | None = None) -> int:
        """An index with probability exactly ∝ exp(true_score(i) / scale).

        Args:
            true_score: the score of one index.
            slack: no true score may exceed the recorded one by more than this.
            bits: source of randomness; by default the process's secure one.

        Raises:
            AssertionError: a proposed index breaks the promise about the slack.
        """
        total = int(self.sums.sum())
        with (bits or process_bits()).reader() as reader:
            while True:
                ticket = scaled_floor(Uniform(reader.word), total)
                i = int(_locate(self.weights, self.sums, np.uint64(ticket), 1 << self.group_bits))
                gap = self.reference + slack - true_score(i)
                if _keep(reader, gap / self.scale, self.fine, int(self.weights[i])):
                    return i


@njit(nogil=True, cache=True)
def _fill(weights, sums, scores, reference, scale, fine, group_bits):  # type: ignore[no-untyped-def]
    sums[:] = np.uint64(0)
    for i in range(scores.size):
        weight = _weight(np.uint64(reference) - np.uint64(scores[i]), scale, fine)
        weights[i] = weight
        sums[i >> group_bits] += weight


@njit(nogil=True, cache=True)
def record_in(table, i, score):  # type: ignore[no-untyped-def]
    """`WeightedRejection.record` for compiled loops."""
    weights, sums, reference, scale, fine, group_bits = table
    if score > reference:
        return False
    weight = _weight(np.uint64(reference) - np.uint64(score), scale, fine)
    sums[i >> group_bits] += weight - weights[i]  # wraps to the true difference
    weights[i] = weight
    return True
