"""Repeated exponential mechanisms: bounds against values of chosen adversaries, in high precision."""

from __future__ import annotations

import math
from functools import cache

import mpmath
import numpy as np
import pytest

from discreet.accounting import curve, delta, epsilon
from discreet.accounting.exact.bounded_range import BoundedRange
from discreet.events import Compose, Gaussian, Repeat, Selection
from discreet.units import Unit


def played(eta: float, times: int, at: float, start: float, slope: float) -> mpmath.mpf:
    """δ(at) of an adversary who takes the window [t − η, t], t = η·start + slope·(at − loss so far), cut to [0, η]."""
    alpha = mpmath.exp(mpmath.mpf(at))

    @cache
    def value(ratio: mpmath.mpf, left: int) -> mpmath.mpf:
        if left == 0:
            return max(ratio - alpha, mpmath.mpf(0))
        share = start + slope * (at - float(mpmath.log(ratio))) / eta
        t = mpmath.mpf(eta) * min(max(share, 0.0), 1.0)
        high, low = mpmath.exp(t), mpmath.exp(t - mpmath.mpf(eta))
        share = (1 - low) / (high - low)
        return share * value(ratio * high, left - 1) + (1 - share) * value(ratio * low, left - 1)

    return value(mpmath.mpf(1), times)


@pytest.mark.parametrize(("eta", "times"), [(0.3, 6), (1.5, 4), (0.02, 7), (4.0, 3)])
def test_no_adversary_beats_the_upper_bound(eta, times) -> None:
    generator = np.random.default_rng(int(1000 * eta))
    for _ in range(5):
        target, a, b = generator.uniform(0.02, 0.9) * eta * times, generator.uniform(), generator.uniform(-1, 1)
        found = BoundedRange(eta).delta(times, target)
        with mpmath.workdps(40):
            attack = played(eta, times, target, a, b)
            assert attack <= found.upper
            there = BoundedRange(eta).epsilon(times, float(attack)) if attack > 1e-12 else None
        assert there is None or there.upper >= target * (1 - 1e-12)


@pytest.mark.parametrize(("eta", "times"), [(0.3, 5), (1.5, 4), (4.0, 3)])
def test_the_lower_bound_is_reached_by_an_adversary_on_the_lattice(eta, times) -> None:
    """The best of all windows that begin on a lattice of η/4, all of them tried, is within the bounds."""
    windows, spacing = 4, eta / 4

    @cache
    def value(place: int, left: int, start: int) -> mpmath.mpf:
        if left == 0:
            return max(mpmath.exp(spacing * mpmath.mpf(place - start)) - 1, mpmath.mpf(0))
        best = mpmath.mpf(0)
        for j in range(windows + 1):
            high, low = mpmath.exp(spacing * mpmath.mpf(j)), mpmath.exp(spacing * mpmath.mpf(j - windows))
            share = (1 - low) / (high - low)
            there = value(place + j, left - 1, start), value(place + j - windows, left - 1, start)
            best = max(best, share * there[0] + (1 - share) * there[1])
        return best

    for start in range(0, windows * times, 3):
        with mpmath.workdps(40):
            reached = mpmath.exp(spacing * mpmath.mpf(start)) * value(0, times, start)
        found = delta(Repeat(Selection(eta), times), spacing * start, "add-remove")
        assert found.lower <= found.upper
        assert reached <= found.upper
        assert found.lower >= float(reached) * (1 - 1e-9) or found.lower >= 0.97 * found.upper


@pytest.mark.parametrize("eta", [0.1, 0.7, 3.0])
def test_two_releases_against_the_best_of_all_windows(eta) -> None:
    """δ of two releases by trying 4000 windows for each, wherever they begin: within the bounds, which are close."""

    def highest(before, ratio):
        """The highest chord over windows [a, a·e^η] that hold each ratio."""
        left = ratio[:, None] * np.exp(-eta * np.linspace(0.0, 1.0, 4001))
        right = left * np.exp(eta)
        chords = (right - ratio[:, None]) * before(left) + (ratio[:, None] - left) * before(right)
        return (chords / (right - left)).max(axis=1)

    grid = np.exp(np.linspace(-3 * eta, 3 * eta, 6001))
    once = highest(lambda r: np.maximum(r - 1, 0.0), grid)
    for share in (0.03, 0.211, 0.487, 0.733):
        target = 2 * eta * share
        twice = math.exp(target) * highest(lambda r: np.interp(r, grid, once), np.array([math.exp(-target)]))[0]
        found = BoundedRange(eta).delta(2, target)
        assert found.lower <= twice * (1 + 1e-5)
        assert found.upper >= twice * (1 - 1e-5)
        assert found.upper - found.lower <= 0.01 * found.upper


@pytest.mark.parametrize(("eta", "times"), [(0.1, 100), (0.5, 10), (1.0, 30), (0.2, 2), (0.05, 400)])
@pytest.mark.parametrize("target", [1e-3, 1e-6, 1e-10])
def test_intervals_are_a_hundredth_wide_and_agree_with_the_fourier_accountant(eta, times, target) -> None:
    run = Repeat(Selection(eta), times)
    found, other = epsilon(run, target, "replace-one"), epsilon(run, target, "replace-one", method="fourier")
    assert 0 < found.lower <= found.upper <= found.lower / 0.99
    assert other.lower <= found.upper <= other.upper * (1 + 1e-9)
    assert curve(run, "replace-one").upper(target) == pytest.approx(found.upper, rel=2e-3)
    there = delta(run, found.upper, "replace-one")
    assert there.lower <= target <= delta(run, found.lower, "replace-one").upper


def test_a_unit_of_two_rows_has_windows_of_twice_the_length() -> None:
    assert epsilon(Repeat(Selection(0.2), 9), 1e-6, Unit("add-remove", 2)) == epsilon(
        Repeat(Selection(0.4), 9), 1e-6, "add-remove"
    )


def test_beside_other_releases_the_bound_is_that_of_each_release() -> None:
    """An adversary may choose a window after an answer of another kind: repetitions are not taken out."""
    alone = epsilon(Repeat(Selection(0.3), 10), 1e-6, "add-remove")
    beside = epsilon(Compose([Repeat(Selection(0.3), 10), Gaussian(1e6)]), 1e-6, "add-remove")
    assert beside.upper > alone.upper
    assert math.isfinite(beside.upper)
