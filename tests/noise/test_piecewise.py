"""The exponential mechanism on runs: every single position has the listed mechanism's probability."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from discreet.errors import InvalidInput
from discreet.noise import MOST_POSITIONS, Bits, exponential_position


@pytest.mark.parametrize("scale", [0.7, 5.0, 1e6])
def test_positions_have_the_law_of_the_listed_line(scale: float) -> None:
    """χ² over every position at p = 1e-6: the test fails by chance with that probability."""
    scores, lengths = np.array([-3, 0, -1, -8, -2]), np.array([7, 1, 0, 40, 4])
    listed = np.repeat(scores, lengths).astype(float)
    expected = np.exp(listed / scale)
    expected /= expected.sum()
    starts = np.cumsum(lengths) - lengths
    bits, counts = Bits.seeded(5), np.zeros(len(listed))
    for _ in range(20_000):
        run, offset = exponential_position(scores, lengths, scale, bits=bits)
        assert 0 <= offset < lengths[run]
        counts[starts[run] + offset] += 1
    likely = 20_000 * expected > 5
    observed = np.append(counts[likely], counts[~likely].sum())
    wanted = 20_000 * np.append(expected[likely], expected[~likely].sum())
    keep = wanted > 0
    assert counts[expected * 20_000 < 1e-12].sum() == 0
    assert chisquare(observed[keep], wanted[keep] * observed[keep].sum() / wanted[keep].sum()).pvalue > 1e-6


def test_one_good_position_on_the_longest_line_is_found() -> None:
    scores = np.array([-(10**12), 0, -(10**12)])
    assert exponential_position(scores, [MOST_POSITIONS - 2, 1, 1], 1.0, bits=Bits.seeded(0)) == (1, 0)


def test_the_best_score_counts_among_runs_that_have_positions() -> None:
    assert exponential_position([10**15, 0], [0, 1], 1.0, bits=Bits.seeded(0)) == (1, 0)


@pytest.mark.parametrize(
    ("scores", "lengths"),
    [([0], [0]), ([0, 1], [1]), ([0], [-1]), ([0, 0], [MOST_POSITIONS, 1]), ([0.5], [1]), ([], []), ([0], [2**62])],
)
def test_lines_that_are_refused(scores: list[float], lengths: list[int]) -> None:
    with pytest.raises(InvalidInput):
        exponential_position(scores, lengths, 1.0)
