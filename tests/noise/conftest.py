"""Helpers for tests of exact samplers: χ² against exact probabilities, and streams written by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from discreet.noise import Bits

#: Every statistical test here rejects a correct sampler with at most this probability (over the choice of its seed).
ERROR_PROBABILITY = 1e-6


@pytest.fixture
def surprise() -> Callable[[NDArray[np.int64], NDArray[np.float64]], float]:
    """p-value of counts against cell probabilities.

    χ² on the cells that expect at least 10; those that expect fewer are merged into one, or, if all of them together
    expect fewer than 10, tested by themselves for holding too many.
    """

    def p_value(counts: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float:
        expected = probabilities / probabilities.sum() * counts.sum()
        rare = expected < 10
        rare_count, rare_expected = int(counts[rare].sum()), float(expected[rare].sum())
        counts, expected, excess = counts[~rare], expected[~rare], 1.0
        if rare_expected >= 10:
            counts, expected = np.append(counts, rare_count), np.append(expected, rare_expected)
        elif rare_count:
            excess = float(stats.poisson.sf(rare_count - 1, rare_expected))
        statistic = float(((counts - expected) ** 2 / expected).sum())
        return 2 * min(float(stats.chi2.sf(statistic, max(1, counts.size - 1))), excess)

    return p_value


@pytest.fixture
def error_probability() -> float:
    return ERROR_PROBABILITY


@pytest.fixture
def scripted() -> Callable[[Sequence[int], int], Bits]:
    """A stream that begins with given words and then repeats one word for ever (for a whole block)."""

    def script(words: Sequence[int], then: int) -> Bits:
        bits = Bits.seeded(0)
        with bits.reader() as reader:
            reader.block.words[:] = np.uint64(then)
            reader.block.words[: len(words)] = np.array(words, dtype=np.uint64)
        return bits

    return script
