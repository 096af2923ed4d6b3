"""Almost no noise: ε so large that e^ε exceeds a double. Bounds stay bounds."""

from __future__ import annotations

import numpy as np
import pytest

from discreet import accounting, events
from discreet.accounting.pairs import GaussianPair

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
