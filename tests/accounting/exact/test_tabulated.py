"""Profiles by their values on a grid: still bounds, hardly larger, and only where values are dear."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.accounting import curve
from discreet.accounting.exact import tabulated as module
from discreet.accounting.exact.pairs import GaussianPair, ProfilePair, symmetric
from discreet.accounting.exact.tabulated import tabulated
from discreet.events import Compose, Gaussian, Laplace, ObjectivePerturbation

FIT = ObjectivePerturbation(4.308, 0.1613, link=0.7003, deviation=0.0032667)
COUNTED = Compose([Laplace(50.0), FIT])


def gaussian_profile(mu: float) -> ProfilePair:
    """A profile that is exact, so that whatever is below it is no bound."""
    return ProfilePair(symmetric(GaussianPair(mu).profile), -10.0, 10.0)


@pytest.mark.parametrize("points", [16, 257, 1 << 13])
@pytest.mark.parametrize("mu", [0.1, 1.0, 2.5])
def test_chords_are_above_a_profile_at_every_epsilon(monkeypatch: pytest.MonkeyPatch, points: int, mu: float) -> None:
    monkeypatch.setattr(module, "_POINTS", points)
    exact, table = gaussian_profile(mu), tabulated(gaussian_profile(mu))
    at = np.concatenate([np.linspace(-30, 30, 20_011), np.linspace(-10, 10, points), [-10.0, 10.0, 0.0]])
    true, bound = exact.profile(at), table.profile(at)  # type: ignore[union-attr]
    assert (bound >= true).all()
    fine = (at > -9) & (at < 3 * mu)
    if points == 1 << 13:
        assert (bound[fine] <= true[fine] * 1.001).all()
        # chords in ε instead of e^ε would not be bounds where δ bends the other way: this test can fail
        grid = np.linspace(-10, 10, 64)
        assert (np.interp(at, grid, exact.profile(grid)) < true * (1 - 1e-9)).any()


def test_a_curve_of_dear_profiles_stays_a_bound_that_is_hardly_larger() -> None:
    dear = curve(COUNTED, "add-remove")
    quick = dear.tabulated()
    assert quick is not dear
    truth = curve(COUNTED, "add-remove", method="fourier")
    for delta in (1e-3, 1e-6, 1e-9):
        low = truth.epsilon(delta).lower
        assert low <= quick.upper(delta) == pytest.approx(dear.upper(delta), rel=1e-3)
    alone = curve(FIT, "add-remove")
    for epsilon in (0.0, 0.3, 1.0):  # one release can only get worse by another one
        assert quick.delta(epsilon).upper >= alone.delta(epsilon).lower
    one_more = curve(Compose([Laplace(50.0), Gaussian(4.308)]), "add-remove")  # a pair that the fit's neighbours reach
    for epsilon in (0.1, 0.5, 1.0):
        assert quick.delta(epsilon).upper >= one_more.delta(epsilon).lower


def test_other_curves_are_left_as_they_are() -> None:
    for event in (Gaussian(3.0), FIT, Compose([Laplace(50.0), Gaussian(3.0)])):
        one = curve(event, "replace-one")
        assert one.tabulated() is one
