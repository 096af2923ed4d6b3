from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import permutations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.noise import Bits, exponential_select, exponential_top, permute_and_flip
from discreet.noise import selection as selection_module

Surprise = Callable[[NDArray[np.int64], NDArray[np.float64]], float]
Script = Callable[[Sequence[int], int], Bits]
TIMES = 8_000

SCORES = [
    ([0, 1, 2, 5], 1.7),
    ([3, 3, 3], 0.1),
    ([-(2**63), 2**63 - 1, 2**63 - 3], 2.0),
    ([0], 1.0),
    ([10, 0, 9, 4, 4, 10], 5.5),
    ([0, 1], 1e9),
]


def _weights(scores: list[int], scale: float) -> NDArray[np.float64]:
    return np.exp([-(max(scores) - s) / scale for s in scores])


@pytest.mark.parametrize(("scores", "scale"), SCORES)
def test_exponential_select_has_its_law(
    scores: list[int], scale: float, surprise: Surprise, error_probability: float
) -> None:
    bits = Bits.seeded(1)
    counts = np.bincount([exponential_select(scores, scale, bits=bits) for _ in range(TIMES)], minlength=len(scores))
    weights = _weights(scores, scale)
    if len(scores) > 1:
        assert surprise(counts, weights / weights.sum()) > error_probability


def _flip_law(scores: list[int], scale: float) -> NDArray[np.float64]:
    """Permute-and-flip as it is defined: over all orders, the first heads."""
    chances = _weights(scores, scale)
    law = np.zeros(len(scores))
    orders = list(permutations(range(len(scores))))
    for order in orders:
        reached = 1.0
        for i in order:
            law[i] += reached * chances[i] / len(orders)
            reached *= 1 - chances[i]
    return law


@pytest.mark.parametrize(("scores", "scale"), SCORES)
def test_permute_and_flip_has_its_law(
    scores: list[int], scale: float, surprise: Surprise, error_probability: float
) -> None:
    bits = Bits.seeded(2)
    counts = np.bincount([permute_and_flip(scores, scale, bits=bits) for _ in range(TIMES)], minlength=len(scores))
    law = _flip_law(scores, scale)
    assert law.sum() == pytest.approx(1)
    if len(scores) > 1:
        assert surprise(counts, law) > error_probability


def test_the_two_laws_are_told_apart(surprise: Surprise, error_probability: float) -> None:
    scores, scale = [0, 1, 2, 5], 1.7
    bits = Bits.seeded(3)
    counts = np.bincount([permute_and_flip(scores, scale, bits=bits) for _ in range(TIMES)], minlength=4)
    assert surprise(counts, _weights(scores, scale)) < error_probability
    counts = np.bincount([exponential_select(scores, scale, bits=bits) for _ in range(TIMES)], minlength=4)
    assert surprise(counts, _weights(scores, scale * 1.15)) < error_probability


@pytest.mark.parametrize(
    ("scores", "scale", "s"),
    [
        ([0, 1, 2, 5], 1.7, 2),
        ([0, 1, 2, 5], 1.7, 4),
        ([10**6, 3, 0, 2], 2.0, 2),  # the first pick is certain, and far ahead: gaps must be measured anew
        ([10**15, 10**9, 2, 0, 1], 1.5, 4),
    ],
)
def test_exponential_top_draws_one_after_another(
    scores: list[int], scale: float, s: int, surprise: Surprise, error_probability: float
) -> None:
    bits = Bits.seeded(4)
    orders = list(permutations(range(len(scores)), s))
    law = []
    for order in orders:
        left, chance = list(range(len(scores))), 1.0
        for i in order:
            best = max(scores[k] for k in left)
            chance *= np.exp(-(best - scores[i]) / scale) / sum(np.exp(-(best - scores[k]) / scale) for k in left)
            left.remove(i)
        law.append(chance)
    seen = dict.fromkeys(orders, 0)
    for _ in range(TIMES // 2):
        seen[tuple(exponential_top(scores, s, scale, bits=bits).tolist())] += 1
    assert surprise(np.array(list(seen.values())), np.array(law)) > error_probability


def test_many_scores(surprise: Surprise, error_probability: float) -> None:
    # 3000 equal scores and one that is worth as much as all of them.
    scores = np.zeros(3001, dtype=np.int64)
    scores[1234] = 8006  # exp(8.006) ≈ 3000
    bits = Bits.seeded(5)
    picks = np.array([exponential_select(scores, 1000.0, bits=bits) for _ in range(2000)])
    share = np.exp(8.006) / (np.exp(8.006) + 3000)
    hits = int((picks == 1234).sum())
    thirds = np.bincount(picks[picks != 1234] // 1001, minlength=3)
    counts = np.append(hits, thirds)
    law = np.append(share, (1 - share) * np.array([1001, 1000, 999]) / 3000)
    assert surprise(counts, law) > error_probability
    top = exponential_top(scores, 3001, 1000.0, bits=bits)
    assert sorted(top.tolist()) == list(range(3001))


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40),
    st.floats(2.0**-40, 2.0**70),
    st.data(),
)
@settings(max_examples=150, deadline=None)
def test_the_envelope_covers_every_weight_closely(scores: list[int], scale: float, data: st.DataObject) -> None:
    values = np.array(scores, dtype=np.int64)
    left = np.array(data.draw(st.lists(st.booleans(), min_size=values.size, max_size=values.size)))
    left[data.draw(st.integers(0, values.size - 1))] = True
    fine = 62 - values.size.bit_length()
    weights, sums, best = selection_module._envelope(values, left, scale, fine)
    assert int(sums.sum()) == sum(int(w) for w in weights) < 2**63
    assert best == max(s for s, there in zip(scores, left, strict=True) if there)
    with mpmath.workdps(60):
        for score, there, weight in zip(scores, left, weights, strict=True):
            if not there:
                assert weight == 0
                continue
            exact = mpmath.mpf(2) ** fine * mpmath.exp(-mpmath.mpf(int(best) - score) / mpmath.mpf(scale))
            assert exact <= int(weight) <= exact * 1.07 + 2


@pytest.mark.parametrize("scale", [1.0, 0.7, 3.3])
@pytest.mark.parametrize("gap", [1, 5, 30])
def test_a_proposal_is_kept_with_exactly_the_missing_probability(gap: int, scale: float, scripted: Script) -> None:
    # Scores −gap and 0. A first word of zeros proposes −gap; the second is V, beside 2^F·exp(−gap/scale) / W.
    scores = np.array([-gap, 0])
    weights, _, _ = selection_module._envelope(scores, np.ones(2, dtype=np.bool_), scale, 60)
    with mpmath.workdps(60):
        kept = mpmath.mpf(2) ** 60 * mpmath.exp(-mpmath.mpf(gap) / mpmath.mpf(scale)) / int(weights[0])
        nearest = int(kept * 2**64)
    most = 2**64 - 1
    for word, following, keep in (
        (nearest - 1, most, True),
        (nearest, 0, True),
        (nearest, most, False),
        (nearest + 1, most, False),
    ):
        # If it is not kept, the words that follow propose score 0, and keep it.
        bits = scripted([0, word, following], 0xF000000000000000)
        assert exponential_select(scores, scale, bits=bits) == (0 if keep else 1)


@pytest.mark.parametrize("scale", [1.0, 0.7, 3.3])
@pytest.mark.parametrize("gap", [1, 5, 30])
def test_coins_near_their_probability_are_decided_exactly(gap: int, scale: float, scripted: Script) -> None:
    # Words within 1 of 2^64·exp(−gap/scale), which doubles cannot tell apart, and the words that follow.
    with mpmath.workdps(60):
        nearest = int(mpmath.exp(-mpmath.mpf(gap) / mpmath.mpf(scale)) * mpmath.mpf(2) ** 64)
    most = 2**64 - 1
    for word, following, heads in (
        (nearest - 1, most, True),
        (nearest, 0, True),
        (nearest, most, False),
        (nearest + 1, 0, False),
    ):
        # Scores −gap and 0: the second coin always shows heads. If the first does too, a word of zeros picks it.
        assert permute_and_flip([-gap, 0], scale, bits=scripted([word, following], 0)) == (0 if heads else 1)


@pytest.mark.parametrize("select", [exponential_select, permute_and_flip])
@pytest.mark.parametrize("scores", [[], [[1, 2]], [1.5, 2.0], ["a"], np.array([2**63], dtype=np.uint64), [True, False]])
def test_impossible_scores_are_refused(select: Callable, scores: object) -> None:
    with pytest.raises(InvalidInput, match="scores"):
        select(scores, 1.0)


@pytest.mark.parametrize("select", [exponential_select, permute_and_flip])
@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), None])
def test_impossible_scales_are_refused(select: Callable, scale: object) -> None:
    with pytest.raises(InvalidInput, match="scale"):
        select([1, 2], scale)


@pytest.mark.parametrize("s", [0, 4, 1.0])
def test_impossible_counts_are_refused(s: object) -> None:
    with pytest.raises(InvalidInput, match="s must be"):
        exponential_top([1, 2, 3], s, 1.0)  # type: ignore[arg-type]


def test_rational_scales_and_narrow_integers() -> None:
    assert exponential_select(np.array([0, 100], dtype=np.int8), Fraction(1, 3)) == 1
    assert permute_and_flip(np.array([0, 100], dtype=np.uint8), Fraction(1, 3)) == 1
