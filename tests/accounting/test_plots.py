"""The attacker's curve against the exact trade-off function of the Gaussian, and the picture itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from discreet.accounting.plots import max_true_positive_rates, plot, sampled_curve
from discreet.errors import InvalidInput
from discreet.events import Gaussian, NonPrivate, Poisson, PureDP, Repeat
from discreet.units import Unit


def test_gaussian_trade_off():
    mu = 0.5  # replace-one: 2/4
    epsilons, deltas = sampled_curve(Gaussian(4.0), "replace-one", 400)
    for alpha, most in zip((0.001, 0.01, 0.1), max_true_positive_rates(epsilons, deltas), strict=True):
        exact = ndtr(ndtri(alpha) + mu)
        assert exact <= most <= exact * 1.01


def test_pure_dp_trade_off():
    epsilons, deltas = sampled_curve(PureDP(1.0), "add-remove", 50)
    (low, high) = max_true_positive_rates(epsilons, deltas, [0.01, 0.9])
    assert low == pytest.approx(0.01 * math.e, rel=1e-6)
    assert high == pytest.approx(1 - 0.1 / math.e, rel=1e-6)


def test_no_protection_lets_everything_through():
    assert max_true_positive_rates(*sampled_curve(NonPrivate(), "add-remove", 5)) == [1.0, 1.0, 1.0]


def test_curve_decreases():
    _, deltas = sampled_curve(Repeat(Poisson(0.01, Gaussian(1.0)), 100), Unit("add-remove"), 20)
    assert np.all(np.diff(deltas) <= 0)
    assert deltas[-1] <= 1.001e-10


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_picture_is_written(tmp_path, ending):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"curve.{ending}"
    plot(Repeat(Gaussian(20.0), 100), "replace-one", path, points=20)
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG") if ending == "png" else b"replace-one" in content or b"<svg" in content
    assert len(content) > 10_000


def test_bad_input():
    with pytest.raises(InvalidInput, match="points"):
        sampled_curve(Gaussian(1.0), "add-remove", 1)
    with pytest.raises(InvalidInput, match="false-positive"):
        max_true_positive_rates(np.array([0.0]), np.array([0.1]), [1.5])
