"""Almost no noise: ε so large that e^ε exceeds a double. Bounds stay bounds."""

from __future__ import annotations

import numpy as np
import pytest

from discreet import accounting, events
from discreet.accounting.exact.pairs import GaussianPair

TINY = events.Gaussian(0.0045)
EVENTS = [
    events.ObjectivePerturbation(0.0045, 0.1, 1, 0.1, 0.01),
    events.Poisson(0.1, TINY),
    events.FixedSize(10, 100, TINY),
]


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_no_epsilon_beyond_the_range_of_doubles_is_proved_by_an_overflow(event, adjacency):
    # an attacker who tests the release as if it were the unsampled Gaussian loses at most a factor of the rate
    truth = accounting.epsilon(TINY, 1e-5, adjacency).lower
    assert truth > 20_000
    assert accounting.epsilon(event, 1e-6, adjacency).upper >= truth
    for epsilon in (600.0, 709.0, 711.0, 5000.0):
        assert accounting.delta(event, epsilon, adjacency).upper >= 0.09


@pytest.mark.parametrize("mu", [30.0, 40.0, 444.0])
def test_a_gaussian_profile_falls_from_one_to_zero_without_a_gap(mu):
    epsilon = np.linspace(0.0, mu**2, 4001)
    with np.errstate(all="raise", under="ignore"):
        profile = GaussianPair(mu).profile(epsilon)
    assert profile[0] == 1.0
    assert np.all(np.diff(profile) <= 1e-12)
    np.testing.assert_allclose(np.interp(mu**2 / 2, epsilon, profile), 0.5, atol=0.05)


RAW = [
    events.ApproxDP(800.0, 1e-6),
    events.PureDP(1e300),
    events.Laplace(1e-300),
    events.Gaussian(1e-200),
    events.Poisson(0.1, events.PureDP(800.0)),
]
ANSWERS = [
    events.RandomizedResponse(800.0),
    events.RandomizedResponse(800.0, 3),
    events.Repeat(events.RandomizedResponse(800.0, 3), 10),
    events.Poisson(0.1, events.RandomizedResponse(800.0, 3)),
]
CASES = [(event, adjacency) for event in RAW for adjacency in ("add-remove", "replace-one")] + [
    (event, "replace-one") for event in ANSWERS
]


@pytest.mark.parametrize(("event", "adjacency"), CASES, ids=str)
def test_what_exceeds_a_double_is_accounted_without_a_warning(event, adjacency):
    epsilon = accounting.epsilon(event, 1e-6, adjacency)
    assert epsilon.upper > 600  # all of them, sampled or not, are next to no protection
    assert accounting.delta(event, 1.0, adjacency).upper > 0.09
    assert accounting.renyi.epsilon_upper(event, 1e-6, adjacency) > 600


def test_randomised_response_keeps_its_law_for_every_epsilon():
    for epsilon, categories in ((0.5, 3), (3.0, 7), (30.0, 2)):
        top = accounting.epsilon(events.RandomizedResponse(epsilon, categories), 0.0, "replace-one")
        assert top.upper == pytest.approx(epsilon, rel=1e-12)
    truth = 1 / (1 + 2 * np.exp(-1.0))
    found = accounting.delta(events.RandomizedResponse(1.0, 3), 0.0, "replace-one")
    assert found.upper == pytest.approx(truth - truth * np.exp(-1.0), rel=1e-9)
