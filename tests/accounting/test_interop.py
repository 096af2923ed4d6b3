"""Events written for dp_accounting and read back, and numbers that agree where that library is right."""

from __future__ import annotations

import sys

import pytest

from discreet import events as ev
from discreet.accounting import BandedMatrix
from discreet.accounting.interop import from_dp_event, to_dp_event
from discreet.accounting.upper.renyi import divergence
from discreet.errors import InvalidInput

dp_accounting = pytest.importorskip("dp_accounting")

ROUND_TRIPS = [
    ev.Gaussian(1.5),
    ev.Laplace(3.0),
    ev.DiscreteLaplace(2.0, 4),
    ev.ZCDP(0.3),
    ev.NonPrivate(),
    ev.Compose(()),
    ev.Compose([ev.Gaussian(1.0), ev.Repeat(ev.Laplace(2.0), 7)]),
    ev.Repeat(ev.Poisson(0.01, ev.Gaussian(1.1)), 1000),
    ev.FixedSize(32, 1000, ev.Gaussian(2.0)),
    ev.WithReplacement(32, 1000, ev.Gaussian(2.0)),
    ev.PrivateSelection(ev.Gaussian(5.0), 20.0),
    ev.PrivateSelection(ev.Gaussian(5.0), 20.0, "poisson"),
    ev.PrivateSelection(ev.Gaussian(5.0), 20.0, "negative-binomial", 0.5),
    ev.PrivateSelection(ev.Gaussian(5.0), 20.0, "negative-binomial", 0.0),
]


@pytest.mark.parametrize("event", ROUND_TRIPS)
def test_round_trip(event):
    assert from_dp_event(to_dp_event(event)) == event


@pytest.mark.parametrize("categories", [2, 5])
def test_randomised_response_keeps_its_epsilon(categories):
    event = ev.RandomizedResponse(1.3, categories)
    back = from_dp_event(to_dp_event(event))
    assert isinstance(back, ev.RandomizedResponse)
    assert (back.epsilon, back.categories) == (pytest.approx(1.3), categories)
    pure = from_dp_event(to_dp_event(ev.PureDP(0.4)))
    assert divergence(pure, 3.0, "replace-one") == pytest.approx(divergence(ev.PureDP(0.4), 3.0, "replace-one"))


def test_events_with_a_simpler_equivalent_are_written_as_that():
    event = BandedMatrix(4.0, (1.0, 0.75), steps=10)
    assert to_dp_event(event).noise_multiplier == pytest.approx(4.0 / 1.25)


@pytest.mark.parametrize(
    "event",
    [
        ev.Selection(0.5),
        ev.ApproxDP(0.1, 1e-6),
        ev.Parallel([ev.Gaussian(1.0)]),
        ev.Allocation(4, ev.Gaussian(1.0)),
        ev.DiscreteGaussian(2.0),
    ],
)
def test_events_without_a_counterpart_are_refused(event):
    with pytest.raises(InvalidInput, match="no event"):
        to_dp_event(ev.Repeat(event, 2))


def test_foreign_events_without_a_counterpart_are_refused():
    there = dp_accounting.dp_event
    for event in (
        there.UnsupportedDpEvent(),
        there.ZCDpEvent(0.1, 0.2),
        there.SingleEpochTreeAggregationDpEvent(1.0, 4),
    ):
        with pytest.raises(InvalidInput, match="no event here"):
            from_dp_event(event)
    assert from_dp_event(there.GaussianDpEvent(0.0)) == ev.NonPrivate()


@pytest.mark.parametrize(
    "event",
    [
        ev.Repeat(ev.Poisson(0.02, ev.Gaussian(2.0)), 100),
        ev.Compose([ev.Repeat(ev.Gaussian(10.0), 20), ev.Repeat(ev.Laplace(20.0), 10)]),
        ev.PrivateSelection(ev.Gaussian(5.0), 20.0),
    ],
)
def test_renyi_curves_agree(event):
    accountant = dp_accounting.rdp.RdpAccountant(
        orders=[2, 3, 8, 20], neighboring_relation=dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    )
    accountant.compose(to_dp_event(event))
    for order, theirs in zip([2, 3, 8, 20], accountant._rdp, strict=True):
        ours = divergence(event, order, "add-remove")
        if isinstance(event, ev.PrivateSelection):
            assert ours <= theirs * (1 + 1e-9)  # they search the second order among those four only
        else:
            assert ours == pytest.approx(theirs, rel=1e-6)


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(InvalidInput, match="pip install dp-accounting"):
        to_dp_event(ev.Gaussian(1.0))
