"""Calibration lands inside the target, and only just."""

from __future__ import annotations

import math

import pytest

from discreet.accounting import calibrate, calibrate_rate, calibrate_steps, curve, epsilon
from discreet.errors import InvalidInput, NotCertifiable
from discreet.events import Compose, FixedSize, Gaussian, Laplace, NonPrivate, Poisson, PureDP, Repeat
from discreet.units import Unit

MAKERS = {
    "gaussian": lambda s: Repeat(Gaussian(s), 1000),
    "sampled": lambda s: Repeat(Poisson(0.02, Gaussian(s)), 300),
    "laplace": lambda s: Laplace(s),
    "mixed": lambda s: Compose(
        [Repeat(Gaussian(s), 10), Repeat(Laplace(3 * s), 5), Repeat(Poisson(0.1, Gaussian(s)), 50)]
    ),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one", Unit("add-remove", 3)])
@pytest.mark.parametrize("target", [0.3, 2.0])
def test_never_overshoots_and_never_wastes(name, adjacency, target) -> None:
    make = MAKERS[name]
    noise = calibrate(make, target, 1e-6, adjacency)
    assert epsilon(make(noise), 1e-6, adjacency).upper <= target
    assert epsilon(make(noise * (1 - 1e-5)), 1e-6, adjacency).upper > target


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one", Unit("add-remove", 3)])
@pytest.mark.parametrize("name", MAKERS)
def test_a_search_may_stop_early_only_beyond_the_target(name, adjacency) -> None:
    """`Curve.upper(δ, enough)` is at most ``enough`` exactly where all histories are, and is then the bound of all."""
    for noise in (0.7, 5.0, 40.0):
        known = epsilon(MAKERS[name](noise), 1e-6, adjacency).upper
        for enough in (known * 0.5, known * (1 - 1e-4), known, known * 2):
            found = curve(MAKERS[name](noise), adjacency).upper(1e-6, enough)
            assert (found <= enough) == (known <= enough)
            assert found == known or found > enough


@pytest.mark.parametrize("target", [1e-3, 0.1, 8.0, 100.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-9, 1e-15])
def test_gaussian_targets_far_apart(target, delta) -> None:
    noise = calibrate(MAKERS["gaussian"], target, delta, "replace-one")
    assert epsilon(MAKERS["gaussian"](noise), delta, "replace-one").upper <= target
    assert epsilon(MAKERS["gaussian"](noise * (1 - 1e-6)), delta, "replace-one").upper > target


def test_more_privacy_takes_more_noise() -> None:
    noises = [calibrate(MAKERS["sampled"], target, 1e-6, "add-remove") for target in (4.0, 2.0, 1.0, 0.5)]
    assert noises == sorted(noises)


def test_pure_targets() -> None:
    assert calibrate(Laplace, 0.5, 0.0, "add-remove") == pytest.approx(2.0, rel=1e-6)


def test_steps() -> None:
    make = lambda t: Repeat(Poisson(0.01, Gaussian(4.0)), t)  # noqa: E731
    most = calibrate_steps(make, 1.0, 1e-5, "add-remove")
    assert epsilon(make(most), 1e-5, "add-remove").upper <= 1.0 < epsilon(make(most + 1), 1e-5, "add-remove").upper
    assert calibrate_steps(lambda t: Repeat(Gaussian(1.0), t), 0.01, 1e-5, "add-remove") == 0
    assert calibrate_steps(lambda t: Repeat(PureDP(0.0), t), 1.0, 1e-5, "add-remove", most=77) == 77


def test_rate() -> None:
    make = lambda q: Repeat(Poisson(q, Gaussian(4.0)), 1000)  # noqa: E731
    rate = calibrate_rate(make, 1.0, 1e-5, "replace-one")
    assert epsilon(make(rate), 1e-5, "replace-one").upper <= 1.0
    assert epsilon(make(rate * (1 + 1e-5)), 1e-5, "replace-one").upper > 1.0
    assert calibrate_rate(make, 1000.0, 1e-5, "replace-one") == 1.0


@pytest.mark.parametrize("target", [0.0, -1.0, math.nan, math.inf, "1"[:0], None])
def test_impossible_targets(target) -> None:
    with pytest.raises(InvalidInput):
        calibrate(Gaussian, target, 1e-6, "add-remove")


def test_hopeless_events() -> None:
    with pytest.raises(NotCertifiable):
        calibrate(lambda s: Compose([Gaussian(s), NonPrivate()]), 1.0, 1e-6, "add-remove")
    with pytest.raises(NotCertifiable):
        calibrate(lambda s: Compose([Gaussian(s), PureDP(2.0)]), 1.0, 1e-6, "add-remove")


def test_a_noise_is_within_the_target_only_if_the_stated_interval_is() -> None:
    """Here the upper bound alone is found on a finer grid than that of an interval, whose upper end is larger."""
    event = Repeat(FixedSize(3, 10**6, Gaussian(0.38050790965523257)), 1000)
    unit, delta = Unit("add-remove", rows_per_unit=2), 2.9066e-8
    alone, stated = curve(event, unit).upper(delta), curve(event, unit).epsilon(delta).upper
    assert alone < stated
    assert curve(event, unit).stated_upper(delta, (alone + stated) / 2) == stated
