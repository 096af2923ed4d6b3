"""The exponential mechanism on a line of integers whose score is constant on runs, without any error.

A run of ``length`` positions that share a score has weight length·exp(score/scale). Positions are proposed from integer
weights W ≥ 2^F·exp(−gap/scale), one W for all positions of a run, and kept with probability 2^F·exp(−gap/scale)/W,
decided exactly: so every single position is kept with probability ∝ exp(score/scale), as if all had been listed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidInput
from discreet.noise.bits import Bits, process_bits
from discreet.noise.reals import Uniform
from discreet.noise.selection import _envelope, _integers, _keep, _positive
from discreet.noise.strips import scaled_floor

__all__ = ["MOST_POSITIONS", "exponential_position"]

#: Longest line. Weights then have at least 2^32 of resolution, so rounding them up costs less than 1/16 of the trials.
MOST_POSITIONS = 1 << 28


def exponential_position(
    scores: ArrayLike, lengths: ArrayLike, scale: float, *, bits: Bits | None = None
) -> tuple[int, int]:
    """A run i and an offset 0 ≤ j < lengths[i], drawn with probability exactly ∝ exp(scores[i]/scale).

    The same law as `exponential_select` on the line with every position listed, in time that grows with the runs only.

    Args:
        scores: 64-bit integers, one a run.
        lengths: how many positions each run has; runs of length 0 are never chosen.
        scale: positive, in units of the scores; a double is taken at its exact value.
        bits: source of randomness; by default the process's secure one.

    Raises:
        InvalidInput: if the runs are not integers, do not match, or have no position or more than 2^28 of them.

    Example:
        >>> exponential_position([0, 10**6, 3], [5, 1, 7], 1.0)
        (1, 0)
    """
    values, sizes, exact = _integers(scores), _sizes(lengths), _positive(scale)
    if values.shape != sizes.shape:
        raise InvalidInput(f"each score needs one length; got {values.size} scores and {sizes.size} lengths")
    fine = 61 - int(sizes.sum()).bit_length()  # Σ W·length < 1.07·2^F·Σ length + 2·Σ length < 2^63
    weights, _, best = _envelope(values, sizes > 0, float(exact), fine)
    edges = np.cumsum(weights * sizes)
    with (bits or process_bits()).reader() as reader:
        while True:
            ticket = scaled_floor(Uniform(reader.word), int(edges[-1]))
            i = int(np.searchsorted(edges, np.uint64(ticket), side="right"))
            if _keep(reader, (int(best) - int(values[i])) / exact, fine, int(weights[i])):
                within = ticket - (int(edges[i - 1]) if i else 0)
                return i, within // int(weights[i])


def _sizes(lengths: ArrayLike) -> NDArray[np.uint64]:
    sizes = _integers(lengths)
    if sizes.min() < 0 or not 1 <= int(sizes.astype(object).sum()) <= MOST_POSITIONS:
        raise InvalidInput(f"lengths must be non-negative and add up to between 1 and {MOST_POSITIONS} positions")
    return sizes.astype(np.uint64)
