from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, permutations, product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from discreet.errors import InvalidInput
from discreet.noise import Bits, fixed_size_sample, permutation, poisson_sample, with_replacement_sample

Surprise = Callable[[NDArray[np.int64], NDArray[np.float64]], float]


def _frequencies(
    outcomes: list[tuple[int, ...]], draw: Callable[[], NDArray[np.int64]], times: int
) -> NDArray[np.int64]:
    seen = Counter(tuple(draw().tolist()) for _ in range(times))
    assert set(seen) <= set(outcomes)
    return np.array([seen[outcome] for outcome in outcomes])


@pytest.mark.parametrize("rate", [0.3, Fraction(2, 3)])
def test_poisson_samples_have_the_product_law(rate: float, surprise: Surprise, error_probability: float) -> None:
    bits = Bits.seeded(1)
    subsets = [tuple(c) for k in range(5) for c in combinations(range(4), k)]
    counts = _frequencies(subsets, lambda: poisson_sample(4, rate, bits=bits), 20_000)
    law = np.array([float(rate) ** len(c) * (1 - float(rate)) ** (4 - len(c)) for c in subsets])
    assert surprise(counts, law) > error_probability


@pytest.mark.parametrize(("n", "rate"), [(1_000_001, 0.01), (300_000, 0.5), (1_000_000, 1e-7), (10, 0.0), (10, 1.0)])
def test_poisson_samples_of_many_rows(n: int, rate: float, error_probability: float) -> None:
    rows = poisson_sample(n, rate, bits=Bits.seeded(2))
    assert rows.dtype == np.int64
    assert (np.diff(rows) > 0).all()
    assert rows.size == 0 or 0 <= rows[0] <= rows[-1] < n
    assert stats.binomtest(rows.size, n, rate).pvalue > error_probability
    if rows.size > 1000:
        halves = int((rows < n // 2).sum())
        assert stats.binomtest(halves, rows.size, (n // 2) / n).pvalue > error_probability


@pytest.mark.parametrize("batch", [0, 1, 2, 3, 4, 6])
def test_fixed_size_samples_are_uniform_subsets(batch: int, surprise: Surprise, error_probability: float) -> None:
    bits = Bits.seeded(3)
    subsets = [tuple(c) for c in combinations(range(6), batch)]
    counts = _frequencies(subsets, lambda: fixed_size_sample(6, batch, bits=bits), 10_000)
    if len(subsets) > 1:
        assert surprise(counts, np.full(len(subsets), 1 / len(subsets))) > error_probability


@pytest.mark.parametrize("batch", [1, 1000, 60_000, 100_000])
def test_fixed_size_samples_of_many_rows(batch: int) -> None:
    rows = fixed_size_sample(100_000, batch, bits=Bits.seeded(4))
    assert rows.size == batch
    assert rows.dtype == np.int64
    assert (np.diff(rows) > 0).all()
    assert 0 <= rows[0] <= rows[-1] < 100_000


def test_with_replacement_samples_are_independent(surprise: Surprise, error_probability: float) -> None:
    bits = Bits.seeded(5)
    multisets = [tuple(c) for c in product(range(4), repeat=3) if list(c) == sorted(c)]
    law = np.array([len(set(permutations(c))) / 4**3 for c in multisets])
    counts = _frequencies(multisets, lambda: with_replacement_sample(4, 3, bits=bits), 10_000)
    assert surprise(counts, law) > error_probability


def test_permutations_are_uniform(surprise: Surprise, error_probability: float) -> None:
    bits = Bits.seeded(6)
    orders = list(permutations(range(4)))
    counts = _frequencies(orders, lambda: permutation(4, bits=bits), 10_000)
    assert surprise(counts, np.full(24, 1 / 24)) > error_probability
    assert np.array_equal(np.sort(permutation(100_000, bits=bits)), np.arange(100_000))
    assert permutation(0).size == 0
    assert permutation(1).tolist() == [0]


@pytest.mark.parametrize(
    ("draw", "arguments"),
    [
        (poisson_sample, (-1, 0.5)),
        (poisson_sample, (2.0, 0.5)),
        (poisson_sample, (5, 1.5)),
        (poisson_sample, (5, float("nan"))),
        (fixed_size_sample, (5, 6)),
        (fixed_size_sample, (5, -1)),
        (with_replacement_sample, (0, 3)),
        (with_replacement_sample, (3, -1)),
        (permutation, (-1,)),
    ],
)
def test_impossible_sizes_are_refused(draw: Callable, arguments: tuple) -> None:
    with pytest.raises(InvalidInput):
        draw(*arguments)
