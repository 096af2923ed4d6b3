"""The Rényi divergence of objective perturbation: never below what its profile implies, and hardly above."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import norm

from discreet.accounting import epsilon
from discreet.accounting.exact.objective_perturbation import objective_profile, vertices
from discreet.accounting.upper import renyi
from discreet.accounting.upper.objective_perturbation import _by_profile
from discreet.events import Gaussian, ObjectivePerturbation, Repeat
from discreet.units import Unit

EVENTS = [
    ObjectivePerturbation(10.0, 0.1),
    ObjectivePerturbation(48.0, 0.023, deviation=0.001),
    ObjectivePerturbation(5.0, 0.2, directions=2, deviation=0.1),
    ObjectivePerturbation(10.0, 0.2, link=0.8),
    ObjectivePerturbation(2.0, 0.5, directions=3, link=2.0),
]
UNITS = [Unit("add-remove"), Unit("replace-one"), Unit("replace-one", 2)]


@pytest.mark.parametrize("order", [1.001, 2.0, 17.5, 300.0])
def test_without_a_determinant_it_is_a_gaussian_release(order: float) -> None:
    found = renyi.divergence(ObjectivePerturbation(10.0, 0.0), order, "add-remove")
    exact = renyi.divergence(Gaussian(10.0), order, "add-remove")
    assert exact <= found <= exact * 1.0005


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("event", EVENTS, ids=str)
@pytest.mark.parametrize("order", [1.5, 4.0, 12.0])
def test_the_integral_of_the_profile_is_bounded_closely(event: ObjectivePerturbation, unit: Unit, order: float) -> None:
    """Lower rectangles under a bound that falls, 200 000 of them: not above the computed integral, and close to it."""
    profile = objective_profile(replace(event, deviation=0.0), unit)
    top = min(55.0, 40.0 * unit.sensitivity(1.0) / event.noise_multiplier + 2.0)
    nodes = np.linspace(0.0, top, 200_001)
    bounds = np.concatenate([np.minimum.accumulate(profile(part)) for part in np.array_split(nodes, 50)])
    weights = np.diff(np.exp((order - 1) * nodes)) / (order - 1) - np.diff(np.exp(-order * nodes)) / order
    least = math.log1p(order * (order - 1) * float(weights @ bounds[1:])) / (order - 1)
    found = _by_profile(event, order, unit, *vertices(event, unit))
    assert least * (1 - 1e-9) <= found <= least * 1.01


# --- the mechanism itself, in one dimension --------------------------------------------------------------------------


def minimiser_density(rows: list[tuple[float, float]], ridge: float, noise: float, theta: NDArray) -> NDArray:
    """The log density of the minimiser of Σ log(1 + e^{−yxθ}) + (ridge/2)θ² + bθ with b normal."""
    slope, curvature = ridge * theta, np.full_like(theta, ridge)
    for x, y in rows:
        chance = 1 / (1 + np.exp(np.clip(y * x * theta, -500, 500)))
        slope = slope - y * x * chance
        curvature = curvature + x * x * chance * (1 - chance)
    return norm.logpdf(slope, scale=noise) + np.log(curvature)


@pytest.mark.parametrize("order", [1.1, 2.0, 8.0, 30.0])
@pytest.mark.parametrize(("noise", "ridge"), [(1.0, 0.3), (2.0, 2.0), (8.0, 1.0), (20.0, 5.0), (40.0, 0.5)])
def test_no_neighbours_of_a_logistic_minimiser_diverge_by_more(noise: float, ridge: float, order: float) -> None:
    """Quadrature of the true divergence in both orders, rows of either sign, one or two rows a person."""
    event = ObjectivePerturbation(noise, math.log1p(0.25 / ridge))
    theta = np.linspace(-60 * noise / ridge, 60 * noise / ridge, 400_001)
    step = theta[1] - theta[0]
    common = [(0.5, 1.0), (0.7, -1.0)]
    cases: list[tuple[Unit, list[tuple[float, float]], list[tuple[float, float]]]] = [
        (Unit("add-remove"), [(1.0, 1.0)], []),
        (Unit("add-remove", 2), [(1.0, 1.0), (1.0, 1.0)], []),
        (Unit("add-remove", 2), [(1.0, 1.0), (1.0, -1.0)], []),
        (Unit("replace-one"), [(1.0, 1.0)], [(1.0, -1.0)]),
        (Unit("replace-one"), [(1.0, 1.0)], [(0.3, 1.0)]),
        (Unit("replace-one", 2), [(1.0, 1.0)] * 2, [(1.0, -1.0)] * 2),
    ]
    for unit, mine, other in cases:
        one, two = (minimiser_density([*common, *rows], ridge, noise, theta) for rows in (mine, other))
        for p, q in ((one, two), (two, one)):
            true = (float(logsumexp(order * p - (order - 1) * q)) + math.log(step)) / (order - 1)
            assert true <= renyi.divergence(event, order, unit) * (1 + 1e-6), (unit, mine, other)


@pytest.mark.parametrize("event", EVENTS, ids=str)
def test_it_is_never_below_the_divergence_of_the_noise_alone(event: ObjectivePerturbation) -> None:
    for unit in UNITS:
        for order in (1.01, 3.0, 50.0):
            bare = renyi.divergence(Gaussian(event.noise_multiplier), order, unit)
            assert renyi.divergence(event, order, unit) >= bare


def test_many_releases_cost_less_than_their_sum() -> None:
    event = EVENTS[1]
    alone = epsilon(event, 5e-8, "replace-one").upper
    assert epsilon(Repeat(event, 20), 1e-6, "replace-one").upper < 0.5 * 20 * alone


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_large_orders_and_determinants_stay_within_the_range_of_doubles(unit: Unit) -> None:
    """E_P φ(L) of the moments has terms of e^{(α−1)kc}; a ledger asks for orders of some thousand."""
    event = ObjectivePerturbation(1000.0, 0.5)
    found = renyi.divergence(event, 2000.0, unit)
    assert 0.5 <= found / unit.rows_per_unit <= 0.6  # kc, and a Gaussian's D of at most 2000·(4/1000)²/2
