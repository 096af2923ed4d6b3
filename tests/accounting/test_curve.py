"""The public questions: input that must be refused, extremes that must be answered, methods that must be honest."""

from __future__ import annotations

import math
import time
import tracemalloc

import numpy as np
import pytest

from discreet.accounting import Mu, curve, delta, epsilon, from_profile, rule, tradeoff
from discreet.accounting.exact.lattice import lower_law, upper_law
from discreet.accounting.exact.mixture import Mixture
from discreet.accounting.exact.pairs import GaussianPair, LaplacePair
from discreet.errors import InvalidInput, NotCertifiable
from discreet.events import (
    ApproxDP,
    Compose,
    Event,
    Gaussian,
    Laplace,
    NonPrivate,
    Poisson,
    PureDP,
    Repeat,
    WithReplacement,
)


@pytest.mark.parametrize("bad", [-1e-9, 1.1, math.nan, math.inf, "small", "1e-6", None, True, np.True_])
def test_bad_delta(bad) -> None:
    with pytest.raises(InvalidInput):
        epsilon(Gaussian(1.0), bad, "add-remove")


@pytest.mark.parametrize("bad", [-0.1, math.nan, "large", "1", b"1", None, False, np.False_])
def test_bad_epsilon(bad) -> None:
    with pytest.raises(InvalidInput):
        delta(Gaussian(1.0), bad, "add-remove")


def test_bad_event_relation_and_method() -> None:
    with pytest.raises(InvalidInput):
        epsilon("Gaussian", 1e-6, "add-remove")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        epsilon(Gaussian(1.0), 1e-6, "neighbours")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        epsilon(Gaussian(1.0), 1e-6, "add-remove", method="guess")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        epsilon(Gaussian(1.0), 1e-6)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "event",
    [
        Repeat(Poisson(0.01, Gaussian(1e-3)), 10),
        Repeat(Poisson(0.01, Gaussian(1e6)), 10**9),
        Repeat(Poisson(1e-9, Gaussian(1.0)), 10**9),
        Repeat(Poisson(1.0, Gaussian(1.0)), 10**9),
        Repeat(Poisson(0.5, Gaussian(0.01)), 1000),
        Repeat(Poisson(0.3, Gaussian(0.05)), 10**6),
        Repeat(Poisson(1e-9, Gaussian(1e6)), 1),
        Repeat(Gaussian(1e6), 10**9),
        Repeat(Laplace(1e6), 10**6),
        Repeat(Poisson(0.5, Laplace(10.0)), 30),
    ],
    ids=str,
)
@pytest.mark.parametrize("at", [1e-300, 1e-15, 1e-5, 0.9])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_extremes_are_answered(event, at, adjacency) -> None:
    tracemalloc.start()
    begin = time.process_time()
    bounds = epsilon(event, at, adjacency)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0 <= bounds.lower <= bounds.upper
    assert not math.isnan(bounds.upper)
    assert peak < 300e6
    assert time.process_time() - begin < 60


def test_nothing_released_costs_nothing() -> None:
    for event in (Compose([]), Repeat(Gaussian(1.0), 0), Poisson(0.0, Gaussian(1.0)), PureDP(0.0), ApproxDP(0.0, 0.0)):
        assert epsilon(event, 0.0, "add-remove") == (0.0, 0.0)
        assert delta(event, 0.0, "add-remove") == (0.0, 0.0)


def test_delta_zero_needs_a_pure_bound() -> None:
    assert epsilon(Gaussian(1.0), 0.0, "add-remove").upper == math.inf
    assert epsilon(Repeat(Laplace(10.0), 3), 0.0, "replace-one").upper == pytest.approx(0.6)
    assert epsilon(NonPrivate(), 1.0, "add-remove").upper == 0.0


def test_gdp_is_exact_or_refuses() -> None:
    run = Compose([Repeat(Gaussian(3.0), 7), Gaussian(2.0)])
    assert epsilon(run, 1e-6, "add-remove", method="gdp") == epsilon(run, 1e-6, "add-remove")
    with pytest.raises(NotCertifiable):
        epsilon(Poisson(0.1, Gaussian(1.0)), 1e-6, "add-remove", method="gdp")


def test_contour_refuses_atoms() -> None:
    with pytest.raises(NotCertifiable):
        epsilon(Repeat(PureDP(0.1), 10), 1e-6, "add-remove", method="contour")


def test_composites_under_sampling_are_refused_clearly() -> None:
    both = Poisson(0.1, Compose([Gaussian(1.0), Laplace(1.0)]))
    with pytest.raises(NotCertifiable, match="sample each part"):
        epsilon(both, 1e-6, "add-remove", method="fourier")
    assert epsilon(both, 1e-6, "add-remove") == epsilon(both, 1e-6, "add-remove", method="renyi")
    with pytest.raises(NotCertifiable, match="Gaussian noise only"):
        epsilon(WithReplacement(5, 100, Laplace(1.0)), 1e-6, "add-remove", method="fourier")
    several = epsilon(Poisson(0.1, Repeat(Gaussian(2.0), 4)), 1e-6, "add-remove")
    assert several == epsilon(Poisson(0.1, Gaussian(1.0)), 1e-6, "add-remove")


def test_a_new_event_can_be_registered() -> None:
    class Told(Event):
        pass

    rule.register(Told)(lambda event, unit: from_profile(GaussianPair(0.5).profile, 30.0, attained=GaussianPair(0.5)))

    class Exact(Event):
        pass

    rule.register(Exact)(lambda event, unit: Mu(0.5))

    with pytest.raises(NotCertifiable, match="no accounting rule"):
        epsilon(type("Unknown", (Event,), {})(), 1e-6, "add-remove")
    for made in (Told(), Exact()):
        found = epsilon(Compose([made, Gaussian(2.0)]), 1e-6, "add-remove")
        exact = epsilon(Repeat(Gaussian(2.0), 2), 1e-6, "add-remove")
        assert found.lower <= exact.upper
        assert exact.lower <= found.upper
        assert found.upper < exact.upper * 1.001


@pytest.mark.parametrize(
    "pair",
    [
        GaussianPair(1.0),
        LaplacePair(0.7),
        Mixture(2.0, (0.02,), "remove"),
        Mixture(0.7, (0.002,), "remove"),
        Mixture(1.0, (0.1,), "add"),
        Mixture(1.0, (0.3,), "replace"),
        Mixture(0.5, (0.2, 0.1), "replace"),
    ],
)
@pytest.mark.parametrize("spacing", [0.2, 0.01, 0.001])
def test_lattice_laws_enclose_the_profile(pair, spacing) -> None:
    """A law above must dominate at every ε, a law below must be dominated: also between lattice points, also on
    coarse lattices.
    """
    upper, lower = upper_law(pair, spacing, -60.0), lower_law(pair, spacing, -60.0)
    at = np.linspace(upper.losses[0] - 0.1, upper.losses[-1], 301) + 0.37 * spacing
    truth = pair.profile(at)
    assert (upper.transform().profile(at) >= truth * (1 - 1e-12) - 1e-16).all()
    assert (lower.transform().profile(at) <= truth * (1 + 1e-12) + 1e-15).all()
    assert lower.probabilities.sum() <= 1 <= upper.probabilities.sum() + upper.infinite


def test_tradeoff_of_a_gaussian() -> None:
    from scipy.special import ndtr, ndtri

    attack = tradeoff(Gaussian(1.0), "add-remove")
    for rate in (0.001, 0.01, 0.1, 0.5):
        truth = float(ndtr(ndtri(1 - rate) - 1.0))
        found = attack(rate)
        assert found.lower <= truth <= found.upper
        assert found.upper - found.lower < 0.01
        assert attack.true_positive_rate(rate).upper == 1 - found.lower
    assert attack(1.0).upper == 0.0
    with pytest.raises(InvalidInput):
        attack(1.5)


def test_tradeoff_of_randomised_response_is_two_lines() -> None:
    attack = tradeoff(PureDP(1.0), "add-remove")
    for rate in (0.05, 0.2, 0.5):
        truth = max(0.0, 1 - math.e * rate, (1 - rate) / math.e)
        found = attack(rate)
        assert found.lower <= truth + 1e-12
        assert truth <= found.upper + 1e-12


def test_curve_keeps_its_work_and_its_answers() -> None:
    event = Repeat(Poisson(0.05, Gaussian(1.5)), 500)
    privacy = curve(event, "add-remove")
    first = privacy.epsilon(1e-6)
    for at in (1e-3, 1e-9, 1e-12):
        assert privacy.epsilon(at).lower <= epsilon(event, at, "add-remove").upper
        assert epsilon(event, at, "add-remove").lower <= privacy.epsilon(at).upper
    again = privacy.epsilon(1e-6)
    assert first.lower <= again.upper
    assert again.lower <= first.upper
    assert privacy.delta(math.inf) == (0.0, 0.0)


def test_dp_accounting_agrees() -> None:
    dp_accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    cases = [
        (Repeat(Poisson(0.02, Gaussian(1.3)), 200), dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, "add-remove"),
        (Repeat(Poisson(0.02, Gaussian(1.3)), 200), dp_accounting.NeighboringRelation.REPLACE_ONE, "replace-one"),
    ]
    for event, relation, adjacency in cases:
        peer = PLDAccountant(relation)
        peer.compose(dp_accounting.PoissonSampledDpEvent(0.02, dp_accounting.GaussianDpEvent(1.3)), 200)
        ours = epsilon(event, 1e-6, adjacency)
        assert ours.lower <= peer.get_epsilon(1e-6) <= ours.upper * 1.001
    peer = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    peer.compose(dp_accounting.LaplaceDpEvent(5.0), 40)
    ours = epsilon(Repeat(Laplace(5.0), 40), 1e-6, "add-remove")
    assert ours.lower <= peer.get_epsilon(1e-6) <= ours.upper * 1.001


@pytest.mark.parametrize("rate", [0.01, 0.5, 0.99])
@pytest.mark.parametrize("pure", [0.1, 1 / 3, 2.0])
def test_pure_epsilon_of_a_sample_is_that_of_losses_that_occur(rate: float, pure: float) -> None:
    """Add-remove: ln(1 + q(e^ε − 1)), and not −ln(1 − q), which only a release that may tell all would lose."""
    found = epsilon(Poisson(rate, PureDP(pure)), 0.0, "add-remove")
    truth = math.log1p(rate * math.expm1(pure))
    assert found.lower <= truth * (1 + 1e-14)
    assert truth * (1 - 1e-14) <= found.upper <= truth * (1 + 1e-12)
