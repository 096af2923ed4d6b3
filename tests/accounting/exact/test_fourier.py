"""The Fourier accountant against exact enumeration, and the numbers at the edge of what was stated."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

import discreet.accounting
from discreet.accounting import curve, delta, epsilon
from discreet.accounting.exact.fourier import Fourier
from discreet.accounting.exact.lattice import lower_law, upper_law
from discreet.accounting.exact.mixture import Mixture
from discreet.accounting.exact.pairs import DiscretePair
from discreet.events import (
    ApproxDP,
    Compose,
    FixedSize,
    Gaussian,
    Laplace,
    Poisson,
    PureDP,
    RandomizedResponse,
    Repeat,
    Selection,
)
from discreet.units import Unit


def random_pair(generator: np.random.Generator) -> DiscretePair:
    """A few atoms anywhere, from equal to hopelessly unequal, that form a pair of probability laws."""
    count = int(generator.integers(2, 5))
    p = 10 ** -generator.uniform(0, generator.choice([0.5, 3.0, 12.0]), count)
    p /= p.sum()
    losses = generator.normal(size=count) * 10 ** generator.uniform(-6, 1.3)
    losses += math.log(float(p @ np.exp(-losses)))
    order = np.argsort(losses)
    return DiscretePair(losses[order], p[order], anchor=float(losses.max()))


def exact_delta(parts: list[tuple[DiscretePair, int]], at: float) -> mpmath.mpf:
    """δ(ε) by writing out every sum of losses, in 50 digits."""
    law = {mpmath.mpf(0): mpmath.mpf(1)}
    for pair, times in parts:
        for _ in range(times):
            grown: dict[mpmath.mpf, mpmath.mpf] = {}
            for have, mass in law.items():
                for loss, p in zip(pair.losses.tolist(), pair.probabilities.tolist(), strict=True):
                    grown[have + loss] = grown.get(have + loss, 0) + mass * p
            law = grown
    return mpmath.fsum(mass * -mpmath.expm1(at - loss) for loss, mass in law.items() if loss > at)


@pytest.mark.parametrize("seed", range(16))
def test_bounds_hold_for_random_discrete_pairs(seed) -> None:
    generator = np.random.default_rng(seed)
    parts = [(random_pair(generator), int(generator.integers(1, 4))) for _ in range(1 + seed % 2)]
    target = 10 ** -generator.uniform(0.3, generator.choice([4.0, 12.0, 30.0]))
    with mpmath.workdps(50):
        found = Fourier(parts).epsilon(target)
        assert exact_delta(parts, found.upper) <= target
        assert found.lower == 0 or exact_delta(parts, found.lower) >= target
        at = 0.7 * found.upper
        there = Fourier(parts).delta(at)
        assert there.lower <= exact_delta(parts, at) <= there.upper


@pytest.mark.parametrize("seed", range(12))
def test_each_law_is_on_its_side_of_the_pair(seed) -> None:
    generator = np.random.default_rng(100 + seed)
    pair = random_pair(generator)
    spacing = float(np.ptp(pair.losses)) * 10 ** generator.uniform(-4, 0)
    places = generator.uniform(pair.losses.min() - spacing, pair.losses.max() + spacing, 12)
    for make, side in ((upper_law, 1), (lower_law, -1)):
        law = make(pair, spacing, -100.0)
        with mpmath.workdps(50):
            for at in places.tolist():
                moved = mpmath.mpf(at) - side * mpmath.mpf(law.shift)
                points = [
                    mpmath.mpf(law.offset) + mpmath.mpf(law.spacing) * (law.first + i) for i in range(len(law.losses))
                ]
                gains = zip(law.probabilities.tolist(), points, strict=True)
                got = mpmath.fsum(p * -mpmath.expm1(moved - x) for p, x in gains if x > moved and p > 0) + law.infinite
                assert side * (got - exact_delta([(pair, 1)], at)) >= 0, make.__name__


@pytest.mark.parametrize(
    ("event", "at_most"),
    [
        (Repeat(Laplace(20.0), 300), 1e-6),
        (Compose([Repeat(Laplace(10.0), 5), Gaussian(3.0)]), 1e-6),
        (Compose([Repeat(Poisson(4e-4, Gaussian(1.1)), 3), Gaussian(10.9)]), 4e-6),
        (Repeat(Poisson(0.01, Gaussian(1.0)), 1000), 2e-4),
    ],
)
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_atoms_and_crowded_losses_leave_a_narrow_interval(event, at_most, adjacency) -> None:
    found = epsilon(event, 1e-6, adjacency, method="fourier")
    assert found.lower >= found.upper * (1 - at_most)


@pytest.mark.parametrize("spacing", [1e-3, 1e-4, 2e-5])
@pytest.mark.parametrize("kind", ["remove", "add", "replace"])
def test_the_law_below_meets_a_bulk_narrower_than_the_lattice(kind, spacing) -> None:
    rare = Mixture(2.0, (1e-4,), kind)
    law = lower_law(rare, spacing, -40.0)
    at = np.linspace(0.0, 0.9 * rare.span(-12.0)[1], 40)
    profile = np.maximum(-np.expm1(np.subtract.outer(at, law.losses)), 0.0) @ law.probabilities
    assert (profile <= rare.profile(at) * (1 + 1e-9)).all()
    assert (profile >= 0.5 * rare.profile(at + spacing)).all()
    # nothing of the bulk is lost: masses of P and Q are kept
    assert law.probabilities.sum() == pytest.approx(1.0, abs=1e-9)
    assert (law.probabilities * np.exp(-law.losses)).sum() == pytest.approx(1.0, abs=2e-2 * min(1e-4, spacing))


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize(("sigma", "rate", "steps"), [(0.5, 1e-4, 20), (0.5, 1e-6, 2000)])
def test_rare_participation_is_bounded_from_both_sides(sigma, rate, steps, adjacency) -> None:
    run = Repeat(Poisson(rate, Gaussian(sigma)), steps)
    along, other = (epsilon(run, 1e-5, adjacency, method=method) for method in ("contour", "fourier"))
    assert along.width <= 1e-5 * along.upper
    found = epsilon(run, 1e-5, adjacency)  # by whichever takes less time
    assert found.width <= 5e-3 * found.upper
    for one in (along, other):
        assert one.lower <= found.upper
        assert found.lower <= one.upper


def test_a_stated_delta_is_enough() -> None:
    assert epsilon(ApproxDP(0.5, 1e-6), 1e-6, "replace-one").upper == 0.5
    assert delta(ApproxDP(0.5, 1e-6), 0.5, "replace-one").upper == 1e-6
    assert math.isinf(epsilon(ApproxDP(0.5, 1e-6), math.nextafter(1e-6, 0.0), "replace-one").upper)


@pytest.mark.parametrize("size", [1e-3, 1e-6, 1e-12, 1e-17])
def test_the_sum_of_stated_deltas_is_enough(size) -> None:
    run = Compose([ApproxDP(0.5, size), ApproxDP(0.25, 3 * size), PureDP(0.125)])
    found = epsilon(run, size + 3 * size, "add-remove")
    assert found.upper <= 0.875 * (1 + 1e-14)
    assert math.isinf(epsilon(run, 3.9 * size, "add-remove").upper)
    assert delta(run, 1.0, "add-remove").upper <= 4 * size * (1 + 1e-12)


def test_delta_zero_asks_for_the_greatest_loss() -> None:
    assert epsilon(PureDP(0.3), 0.0, "add-remove") == epsilon(RandomizedResponse(0.3, 4), 0.0, "replace-one")
    assert epsilon(PureDP(0.3), 0.0, "add-remove").upper == 0.3
    assert epsilon(Selection(0.3), 0.0, "add-remove").upper == 0.3
    many = epsilon(RandomizedResponse(0.3, 4), 0.0, Unit("replace-one", 3))
    assert many.lower <= 0.9 <= many.upper <= 0.9 * (1 + 1e-15)
    assert math.isinf(epsilon(ApproxDP(0.3, 1e-9), 0.0, "add-remove").lower)


@pytest.mark.parametrize(
    "event",
    [
        Repeat(FixedSize(40, 800, Gaussian(2.0)), 30),
        Repeat(Selection(0.1), 100),
        Repeat(Laplace(10.0), 30),
        Compose([Repeat(Selection(0.1), 30), Repeat(Gaussian(5.0), 10)]),
    ],
)
def test_the_upper_bound_alone_is_the_same_to_a_hair(event) -> None:
    both = epsilon(event, 1e-5, "replace-one")
    alone = curve(event, "replace-one").upper(1e-5)
    assert both.lower <= alone
    assert alone == pytest.approx(both.upper, rel=2e-5)


def test_every_public_name_exists() -> None:
    assert [name for name in discreet.accounting.__all__ if not hasattr(discreet.accounting, name)] == []


@pytest.mark.parametrize("make", [upper_law, lower_law])
def test_losses_of_a_millionth_keep_their_digits(make) -> None:
    # All losses are near 1e-6, so a bin's mass and its likelihood ratio differ in the last digits only.
    shift, rate = 0.07731860484867648, 1.4485831346674567e-06
    law = make(Mixture(shift, (rate,), "add"), 2.6721222187381786e-09, -40.0)
    side = 1 if make is upper_law else -1
    with mpmath.workdps(40):
        for at in (-1.4292914457159995e-06, -8.7081790199972e-07, -8.01527928877732e-07, 1.0e-7, 3.0e-7):
            # P = N(0, 1), Q = (1 − q)N(0, 1) + qN(ν, 1): L > ε where t lies below the crossing.
            crossing = (
                mpmath.log((mpmath.exp(-mpmath.mpf(at)) - 1 + mpmath.mpf(rate)) / rate) / shift + mpmath.mpf(shift) / 2
            )
            below, moved_below = mpmath.ncdf(crossing), mpmath.ncdf(crossing - shift)
            exact = below - mpmath.exp(at) * ((1 - mpmath.mpf(rate)) * below + rate * moved_below)
            moved = mpmath.mpf(at) - side * mpmath.mpf(law.shift)
            points = [
                mpmath.mpf(law.offset) + mpmath.mpf(law.spacing) * (law.first + i) for i in range(len(law.losses))
            ]
            gains = zip(law.probabilities.tolist(), points, strict=True)
            got = mpmath.fsum(p * -mpmath.expm1(moved - x) for p, x in gains if x > moved and p > 0) + law.infinite
            assert side * (got - exact) >= 0
