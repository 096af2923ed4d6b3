"""One-sided and two-sided accountants speak of the same releases: no upper bound may fall below a proved lower one."""

from __future__ import annotations

import math

import pytest

from discreet import accounting
from discreet.accounting import BandedMatrix, LastIterate
from discreet.accounting.upper.classical import advanced_epsilon_upper, basic_epsilon_upper
from discreet.accounting.upper.renyi import delta_upper, epsilon_upper
from discreet.events import (
    ZCDP,
    ApproxDP,
    Compose,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    Parallel,
    Poisson,
    PrivateSelection,
    PureDP,
    RandomizedResponse,
    Repeat,
    Selection,
)
from discreet.units import Unit

UNITS = [Unit("add-remove"), Unit("replace-one"), Unit("add-remove", 2), Unit("replace-one", 3)]
LEAVES: list[Event] = [
    Gaussian(3.0),
    Laplace(5.0),
    DiscreteGaussian(3.0, 2),
    DiscreteLaplace(5.0, 2),
    Selection(0.3),
    Selection(0.3, "permute-and-flip"),
    PureDP(0.3),
    ApproxDP(0.3, 1e-7),
    ZCDP(0.05),
]
ANSWERS: list[Event] = [RandomizedResponse(0.3, 2), RandomizedResponse(0.3, 5)]
EVENTS: list[Event] = [
    *LEAVES,
    *(Poisson(0.1, leaf) for leaf in LEAVES),
    *(FixedSize(10, 100, leaf) for leaf in [*LEAVES, *ANSWERS]),
    Repeat(Poisson(0.01, Gaussian(1.0)), 500),
    Poisson(0.1, Repeat(Gaussian(6.0), 4)),
    Poisson(0.2, Poisson(0.5, Gaussian(3.0))),
    Parallel([Gaussian(3.0), PureDP(2.0)]),
    BandedMatrix(4.0, (1.0, 0.5), 10, 2, 5),
    LastIterate(4.0, 10, 0.9),
]


#: an absent row sends no answer, so these have no guarantee under add-remove
EXCHANGED: list[Event] = [*ANSWERS, *(Poisson(0.1, leaf) for leaf in ANSWERS)]
CASES = [(event, unit) for event in EVENTS for unit in UNITS] + [
    (event, unit) for event in EXCHANGED for unit in UNITS if unit.relation == "replace-one"
]


@pytest.mark.parametrize(("event", "unit"), CASES, ids=str)
def test_upper_bounds_never_fall_below_proved_lower_ones(event, unit):
    certified = accounting.epsilon(event, 1e-5, unit)
    slack = 1 - 1e-9
    assert epsilon_upper(event, 1e-5, unit) >= certified.lower * slack
    assert basic_epsilon_upper(event, 1e-5, unit) >= certified.lower * slack
    assert advanced_epsilon_upper(event, 1e-5, unit) >= certified.lower * slack
    if math.isfinite(certified.lower):
        level = certified.lower / 2
        assert delta_upper(event, level, unit) >= accounting.delta(event, level, unit).lower * slack


@pytest.mark.parametrize("method", ["renyi", "zcdp", "basic", "advanced", "gdp", "auto"])
def test_every_method_answers_for_gaussians_and_none_undercuts_the_exact_one(method):
    run = Repeat(Gaussian(30.0), 50)
    exact = accounting.epsilon(run, 1e-6, "replace-one", method="gdp")
    found = accounting.epsilon(run, 1e-6, "replace-one", method=method)
    assert found.lower <= exact.upper
    assert exact.lower <= found.upper


def test_private_selection_is_accounted_below_its_renyi_bound():
    event = Compose([PrivateSelection(Gaussian(8.0), 20.0), Gaussian(10.0)])
    found = accounting.epsilon(event, 1e-6, "replace-one")
    assert 0.0 == found.lower < found.upper < 0.8 * epsilon_upper(event, 1e-6, "replace-one")
    assert accounting.delta(event, found.upper, "replace-one").upper == pytest.approx(1e-6, rel=1e-2)
    noise = accounting.calibrate(lambda s: PrivateSelection(Gaussian(s), 20.0), 1.0, 1e-6, "add-remove")
    best = PrivateSelection(Gaussian(noise), 20.0)
    assert accounting.epsilon(best, 1e-6, "add-remove").upper == pytest.approx(1.0, rel=1e-6)
    assert epsilon_upper(best, 1e-6, "add-remove") > 1.25  # so much does the profile save


def test_the_room_s_modules_are_reachable_and_others_are_not():
    assert accounting.textbook.classic_gaussian(1.0, 1e-5).noise > 0
    assert accounting.filters.ZCDPFilter(1.0, "add-remove").remaining == 1.0
    with pytest.raises(AttributeError, match="astrology"):
        accounting.astrology  # noqa: B018


def test_a_peer_s_large_noise_failure():
    """A peer's Rényi accountant said 0.140 where 1.94e-4 is exact."""
    certified = accounting.epsilon(Gaussian(1e4), 1e-6, "add-remove")
    assert certified.upper == pytest.approx(1.94e-4, rel=5e-3)
    assert certified.upper <= epsilon_upper(Gaussian(1e4), 1e-6, "add-remove") < 1.3 * certified.upper
