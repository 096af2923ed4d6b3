"""The sampler draws exactly by the exponential mechanism, however stale its records are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from discreet.errors import InvalidInput
from discreet.noise.bits import Bits
from discreet.noise.weighted_rejection import WeightedRejection

DRAWS = 20_000
LEVEL = 1e-6  # chance that a χ² test of a correct sampler fails


def probabilities(scores: NDArray[np.int64], scale: float) -> NDArray[np.float64]:
    weights = np.exp((scores - scores.max()) / scale)
    return np.asarray(weights / weights.sum())


def p_value(draw: Callable[[], int], expected: NDArray[np.float64], draws: int = DRAWS) -> float:
    """χ² of so many draws; cells that expect fewer than 10 are pooled."""
    counts = np.bincount([draw() for _ in range(draws)], minlength=len(expected)).astype(float)
    mean = draws * expected
    rare = mean < 10
    if rare.any():
        counts = np.append(counts[~rare], counts[rare].sum())
        mean = np.append(mean[~rare], mean[rare].sum())
    statistic = float(np.sum((counts - mean) ** 2 / mean))
    return float(chi2.sf(statistic, len(mean) - 1))


def stale_case(seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64], float, int]:
    rng = np.random.default_rng(seed)
    true = rng.integers(-3000, 3000, 40)
    slack = 900
    recorded = true + rng.integers(-slack, slack + 1, 40)
    return true, recorded, 1000.0, slack


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_draws_follow_the_true_scores(seed: int) -> None:
    true, recorded, scale, slack = stale_case(seed)
    sampler, bits = WeightedRejection(recorded, scale), Bits.seeded(seed)
    assert p_value(lambda: sampler.draw(lambda i: int(true[i]), slack, bits=bits), probabilities(true, scale)) > LEVEL


def test_draws_follow_after_recording_one_at_a_time() -> None:
    """Records that rise, fall, and pass the reference."""
    rng = np.random.default_rng(5)
    scores = rng.integers(0, 100, 30)
    sampler, bits = WeightedRejection(scores, 50.0), Bits.seeded(5)
    for _ in range(500):
        i = int(rng.integers(30))
        scores[i] += int(rng.integers(-60, 90))
        if not sampler.record(i, int(scores[i])):
            assert scores[i] > sampler.reference
            sampler.fill(scores)
    assert p_value(lambda: sampler.draw(lambda i: int(scores[i]), 0, bits=bits), probabilities(scores, 50.0)) > LEVEL


def test_the_test_has_power() -> None:
    """Three plausible mistakes fail the very same test: stale scores, no room for the slack, a tenth less noise."""
    true, recorded, scale, _ = stale_case(0)
    expected = probabilities(true, scale)
    bits = Bits.seeded(9)
    stale = WeightedRejection(recorded, scale)
    assert p_value(lambda: stale.draw(lambda i: int(recorded[i]), 0, bits=bits), expected) < LEVEL
    capped = WeightedRejection(recorded, scale)
    assert p_value(lambda: capped.draw(lambda i: min(int(true[i]), int(recorded[i])), 0, bits=bits), expected) < LEVEL
    narrow = WeightedRejection(true, 0.9 * scale)
    assert p_value(lambda: narrow.draw(lambda i: int(true[i]), 0, bits=bits), expected) < LEVEL


def test_a_broken_promise_about_the_slack_is_caught() -> None:
    sampler = WeightedRejection(np.zeros(4, np.int64), 1.0)
    with pytest.raises(AssertionError, match="weight"):
        sampler.draw(lambda i: 50, 0, bits=Bits.seeded(0))


@pytest.mark.parametrize("size", [1, 2, 3, 1023, 1024, 1025, 5000])
def test_groups_add_up(size: int) -> None:
    scores = np.random.default_rng(size).integers(-(2**40), 2**40, size)
    sampler = WeightedRejection(scores, 2.0**38)
    rng = np.random.default_rng(1)
    for i in rng.integers(0, size, 50):
        sampler.record(int(i), int(rng.integers(-(2**40), 2**40)))
    groups = [
        int(sampler.weights[low : low + (1 << sampler.group_bits)].sum())
        for low in range(0, size, 1 << sampler.group_bits)
    ]
    assert [int(total) for total in sampler.sums[: len(groups)]] == groups
    assert int(sampler.sums.sum()) < 2**63


def test_worn_when_scores_sink() -> None:
    sampler = WeightedRejection(np.zeros(100, np.int64), 1.0)
    assert not sampler.worn
    for i in range(100):
        sampler.record(i, -200)
    assert sampler.worn
    sampler.fill(np.full(100, -200))
    assert not sampler.worn


def test_bad_input() -> None:
    with pytest.raises(InvalidInput, match="scores"):
        WeightedRejection(np.zeros(0, np.int64), 1.0)
    with pytest.raises(InvalidInput, match="scale"):
        WeightedRejection(np.zeros(3, np.int64), 0.0)
