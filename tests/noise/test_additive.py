"""Gaussian and Laplace noise against exact probabilities. Error probability 10⁻⁶ a test, seeds fixed."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from discreet.errors import InvalidInput
from discreet.noise import (
    GAUSSIAN_LIMIT,
    LAPLACE_LIMIT,
    MAX_SCALE,
    MAX_SIGMA,
    Bits,
    discrete_gaussian,
    discrete_laplace,
    rounded_gaussian,
    rounded_laplace,
)

Surprise = Callable[[NDArray[np.int64], NDArray[np.float64]], float]
N = 400_000


def _exact(sampler: Callable, scale: float, k: NDArray[np.int64]) -> NDArray[np.float64]:
    """P(k), by its formula; symmetric, so evaluated at −|k| where differences of Φ lose nothing."""
    low = -np.abs(k)
    if sampler is rounded_gaussian:
        return stats.norm.cdf((low + 0.5) / scale) - stats.norm.cdf((low - 0.5) / scale)
    if sampler is rounded_laplace:
        beyond = np.exp((low + 0.5) / scale) * -np.expm1(-1 / scale) / 2
        return np.where(k == 0, -np.expm1(-0.5 / scale), beyond)
    far = np.arange(-2000, 2001)
    power = 2 if sampler is discrete_gaussian else 1
    c = 1 / (2 * scale**2) if power == 2 else 1 / scale
    return np.exp(-c * np.abs(k) ** power) / np.exp(-c * np.abs(far) ** power).sum()


def _counts(sample: NDArray[np.int64], widest: int) -> NDArray[np.int64]:
    """Counts of −widest, …, widest, and of everything beyond."""
    inside = sample[np.abs(sample) <= widest]
    return np.append(np.bincount(inside + widest, minlength=2 * widest + 1), sample.size - inside.size)


def _p_value(sampler: Callable, scale: float, sample: NDArray[np.int64], surprise: Surprise) -> float:
    widest = int(8 * scale) + 2
    k = np.arange(-widest, widest + 1)
    probabilities = _exact(sampler, scale, k)
    return surprise(_counts(sample, widest), np.append(probabilities, max(0.0, 1 - probabilities.sum())))


SAMPLERS = [rounded_gaussian, rounded_laplace, discrete_gaussian, discrete_laplace]


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("scale", [0.125, 0.4, 1.0, 2.7, 10.0, 31.0, 64.5, 100.0])
def test_probabilities_are_exact(sampler: Callable, scale: float, surprise: Surprise, error_probability: float) -> None:
    sample = sampler(scale, N, bits=Bits.seeded(100))
    assert _p_value(sampler, scale, sample, surprise) > error_probability


def test_the_same_test_finds_samplers_that_are_slightly_wrong(surprise: Surprise, error_probability: float) -> None:
    bits = Bits.seeded(101)
    # A scale wrong by 1 %.
    for sampler in SAMPLERS:
        assert _p_value(sampler, 2.7, sampler(2.7 * 1.01, 4 * N, bits=bits), surprise) < error_probability
    # Rounding toward zero instead of to the nearest.
    fine = rounded_gaussian(2.7 * 2**20, N, bits=bits)
    assert _p_value(rounded_gaussian, 2.7, np.trunc(fine / 2**20).astype(np.int64), surprise) < error_probability
    # One sample in 40 replaced by zero: a fifth of what keeping both signs of zero would add.
    kept = discrete_gaussian(3.0, N, bits=bits)
    kept[: N // 40] = 0
    assert _p_value(discrete_gaussian, 3.0, kept, surprise) < error_probability
    # A rounded Gaussian in the place of a discrete one.
    assert _p_value(discrete_gaussian, 1.0, rounded_gaussian(1.0, N, bits=bits), surprise) < error_probability


@pytest.mark.parametrize("k", range(-3, 57, 3))
def test_the_rounded_gaussian_at_every_magnitude(k: int, surprise: Surprise, error_probability: float) -> None:
    sigma = 2.0**k
    sample = rounded_gaussian(sigma, 200_000, bits=Bits.seeded(200 + k))
    _shape_test(sample, sigma, stats.norm, 1.0, 2.0, surprise, error_probability)


@pytest.mark.parametrize("k", range(-3, 52, 4))
def test_the_rounded_laplace_at_every_magnitude(k: int, surprise: Surprise, error_probability: float) -> None:
    scale = 2.0**k
    sample = rounded_laplace(scale, 200_000, bits=Bits.seeded(300 + k))
    _shape_test(sample, scale, stats.laplace, 2.0, 20.0, surprise, error_probability)


@pytest.mark.parametrize("k", [1, 5, 6, 7, 20, 40, 56])
def test_the_discrete_gaussian_at_every_magnitude(k: int, surprise: Surprise, error_probability: float) -> None:
    # From σ = 2 on, its moments and tails are those of the rounded Gaussian within the resolution of this test,
    # except for the 1/12 that rounding adds to the variance.
    sample = discrete_gaussian(2.0**k, 200_000, bits=Bits.seeded(400 + k))
    if k >= 5:
        _shape_test(sample, 2.0**k, stats.norm, 1.0, 2.0, surprise, error_probability)
    variance = float(np.mean((sample / 2.0**k) ** 2))
    assert abs(variance - 1) < 4.9 * np.sqrt(2 / sample.size)


@pytest.mark.parametrize("k", [5, 6, 7, 20, 40, 51])
def test_the_discrete_laplace_at_every_magnitude(k: int, surprise: Surprise, error_probability: float) -> None:
    sample = discrete_laplace(2.0**k, 200_000, bits=Bits.seeded(500 + k))
    _shape_test(sample, 2.0**k, stats.laplace, 2.0, 20.0, surprise, error_probability)


def _shape_test(
    sample: NDArray[np.int64],
    scale: float,
    law: object,
    variance: float,
    spread: float,
    surprise: Surprise,
    error: float,
) -> None:
    """χ² on 64 cells of the continuous law, variance, tails beyond 3 and 4 scales, symmetry, and uniform low bits."""
    n = sample.size
    cuts = np.unique(np.floor(law.ppf(np.arange(1, 64) / 64) * scale))  # type: ignore[attr-defined]
    edges = np.concatenate([[0.0], law.cdf((cuts + 0.5) / scale), [1.0]])  # type: ignore[attr-defined]
    cells = np.bincount(np.searchsorted(cuts, sample, side="left"), minlength=cuts.size + 1)
    assert surprise(cells, np.diff(edges)) > error
    for reach in (3.0, 4.0, 7.0):
        beyond = np.floor(reach * scale)
        chance = 2 * float(law.sf((beyond + 0.5) / scale))  # type: ignore[attr-defined]
        count = int((np.abs(sample.astype(np.float64)) > beyond).sum())
        assert stats.binomtest(count, n, chance).pvalue > error
    assert stats.binomtest(int((sample > 0).sum()), int((sample != 0).sum())).pvalue > error
    if scale >= 64:
        z = sample / scale
        assert abs(float(np.mean(z**2)) - variance) < 4.9 * np.sqrt(spread / n)
        kurtosis, tolerance = (3.0, np.sqrt(24 / n)) if law is stats.norm else (6.0, np.sqrt(30_000 / n))
        assert abs(float(stats.kurtosis(z, fisher=False)) - kurtosis) < 4.9 * tolerance
        # The low bits, in which floating-point noise leaks, are uniform to within exp(−2π²·16).
        assert surprise(np.bincount(sample & 15, minlength=16), np.full(16, 1 / 16)) > error


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_shapes(sampler: Callable) -> None:
    for size, shape in ((None, ()), ((), ()), (0, (0,)), (3, (3,)), ((2, 0), (2, 0)), ((2, 3), (2, 3))):
        sample = sampler(5.0, size, bits=Bits.seeded(1))
        assert sample.shape == shape
        assert sample.dtype == np.int64
    assert isinstance(int(sampler(5.0)), int)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), 2.0**57, "3", None, 1j])
def test_impossible_scales_are_refused(sampler: Callable, scale: object) -> None:
    with pytest.raises(InvalidInput, match="positive number"):
        sampler(scale)


@pytest.mark.parametrize("size", [-1, 2.5, (2, -3), "x", [3]])
def test_impossible_sizes_are_refused(size: object) -> None:
    with pytest.raises(InvalidInput, match="size"):
        rounded_gaussian(1.0, size)  # type: ignore[arg-type]


def test_the_largest_scales_stay_far_inside_64_bits() -> None:
    assert MAX_SIGMA * GAUSSIAN_LIMIT == 2.0**62 == MAX_SCALE * LAPLACE_LIMIT
    for sampler, largest in ((rounded_gaussian, MAX_SIGMA), (discrete_gaussian, MAX_SIGMA)):
        assert np.abs(sampler(largest, 10**5, bits=Bits.seeded(3)) / largest).max() < 6
        with pytest.raises(InvalidInput):
            sampler(np.nextafter(largest, np.inf))
    for sampler, largest in ((rounded_laplace, MAX_SCALE), (discrete_laplace, MAX_SCALE)):
        assert np.abs(sampler(largest, 10**5, bits=Bits.seeded(3)) / largest).max() < 25
        with pytest.raises(InvalidInput):
            sampler(np.nextafter(largest, np.inf))


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("scale", [5e-324, 1e-200, 1e-3])
def test_tiny_scales_give_zero(sampler: Callable, scale: float) -> None:
    assert not sampler(scale, 1000, bits=Bits.seeded(4)).any()


def test_rational_scales_are_exact_where_they_can_be(surprise: Surprise, error_probability: float) -> None:
    sample = discrete_laplace(Fraction(10, 3), N, bits=Bits.seeded(5))
    assert _p_value(discrete_laplace, 10 / 3, sample, surprise) > error_probability
    assert np.array_equal(
        rounded_gaussian(Fraction(5, 2), 9, bits=Bits.seeded(6)), rounded_gaussian(2.5, 9, bits=Bits.seeded(6))
    )
    with pytest.raises(InvalidInput, match="double"):
        rounded_gaussian(Fraction(10, 3))
