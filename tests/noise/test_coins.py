from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from discreet.errors import InvalidInput
from discreet.noise import Bits, bernoulli, bernoulli_exp, poisson_sample, uniform_integers

Surprise = Callable[[NDArray[np.int64], NDArray[np.float64]], float]
Script = Callable[[Sequence[int], int], Bits]


@pytest.mark.parametrize("p", [0.0, 1.0, 0.5, 0.1, 1e-5, 1 - 1e-5, Fraction(1, 3), 2.0**-70])
def test_bernoulli_has_its_probability(p: float, error_probability: float) -> None:
    tosses = bernoulli(p, 200_000, bits=Bits.seeded(1))
    assert tosses.dtype == np.bool_
    assert stats.binomtest(int(tosses.sum()), tosses.size, float(p)).pvalue > error_probability


@pytest.mark.parametrize("x", [(0, 1), (1, 1), (0.1, 1), (7, 3), (1, 2**40), (Fraction(1, 7), 2), (10**6, 1)])
def test_bernoulli_exp_has_its_probability(x: tuple, error_probability: float) -> None:
    tosses = bernoulli_exp(*x, 200_000, bits=Bits.seeded(2))
    assert stats.binomtest(int(tosses.sum()), tosses.size, math.exp(-x[0] / x[1])).pvalue > error_probability


@pytest.mark.parametrize("p", [0.3, Fraction(1, 3), 2.0**-80, 1 - 2.0**-53, 0.75])
@pytest.mark.parametrize("near", [-1, 0, 1])
def test_a_coin_on_the_edge_is_decided_by_its_later_bits(p: float, near: int, scripted: Script) -> None:
    # The first 32 bits of U are those of p; the next word decides against the rest of p's digits.
    exact = Fraction(p)
    cell = math.floor(exact * 2**32)
    rest = math.floor((exact * 2**32 - cell) * 2**64)
    word = min(max(rest + near, 0), 2**64 - 1)
    u = (Fraction(cell) + (Fraction(word) + Fraction(7, 2**64)) / 2**64) / 2**32
    assert bool(bernoulli(p, bits=scripted([cell << 32, word, 7], 0))) == (u < exact)


def test_every_second_coin_uses_the_lower_half_of_a_word(scripted: Script) -> None:
    low, high = 0x10000000, 0xF0000000
    words = [low << 32 | high, high << 32 | low, low << 32 | low]
    assert bernoulli(0.5, 6, bits=scripted(words, 0)).tolist() == [True, False, False, True, True, True]
    assert poisson_sample(5, 0.5, bits=scripted(words, 0)).tolist() == [0, 3, 4]


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 1000, 2**32 + 1])
def test_uniform_integers_are_uniform(bound: int, surprise: Surprise, error_probability: float) -> None:
    sample = uniform_integers(bound, 200_000, bits=Bits.seeded(3))
    assert sample.min() >= 0
    assert sample.max() < bound
    cells = min(bound, 1000)
    if bound > 1:
        counts = np.bincount(sample * cells // bound if bound > cells else sample, minlength=cells)
        assert surprise(counts, np.full(cells, 1 / cells)) > error_probability


def test_there_is_no_bias_where_it_would_be_largest(surprise: Surprise, error_probability: float) -> None:
    # 2^64 is 8/3 of this bound: a plain remainder favours the lower two thirds by 3 : 2, and a plain multiplication
    # favours values 0 and 1 over 2 (mod 3) likewise.
    bound = 3 * 2**61
    even = np.full(3, 1 / 3)
    sample = uniform_integers(bound, 100_000, bits=Bits.seeded(4))
    assert surprise(np.bincount(sample // 2**61, minlength=3), even) > error_probability
    assert surprise(np.bincount(sample % 3, minlength=3), even) > error_probability
    words = [int(w) for w in Bits.seeded(4).words(20_000)]
    assert surprise(np.bincount([w % bound // 2**61 for w in words]), even) < error_probability
    assert surprise(np.bincount([(w * bound >> 64) % 3 for w in words]), even) < error_probability


def test_the_largest_bound() -> None:
    assert uniform_integers(2**63, 1000, bits=Bits.seeded(5)).min() >= 0


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan"), "0.5", None])
def test_impossible_probabilities_are_refused(p: object) -> None:
    with pytest.raises(InvalidInput, match="probability"):
        bernoulli(p)  # type: ignore[arg-type]


@pytest.mark.parametrize("x", [(-1, 1), (1, 0), (1, -1), (math.inf, 1), (math.nan, 1), (1, math.inf)])
def test_impossible_exponents_are_refused(x: tuple) -> None:
    with pytest.raises(InvalidInput, match="finite x"):
        bernoulli_exp(*x)


@pytest.mark.parametrize("bound", [0, -1, 2**63 + 1, 2.0, True])
def test_impossible_bounds_are_refused(bound: object) -> None:
    with pytest.raises(InvalidInput, match="bound"):
        uniform_integers(bound)  # type: ignore[arg-type]
