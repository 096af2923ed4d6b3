"""The Rényi divergence of objective perturbation: never below what its profile implies, and hardly above."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from discreet.accounting import epsilon
from discreet.accounting.exact.objective_perturbation import objective_profile
from discreet.accounting.upper import renyi
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
def test_it_is_the_integral_of_the_profile(event: ObjectivePerturbation, unit: Unit, order: float) -> None:
    """Lower rectangles under a bound that falls, 200 000 of them: never above the divergence, and close to it."""
    profile = objective_profile(replace(event, deviation=0.0), unit)
    top = min(55.0, 40.0 * unit.sensitivity(1.0) / event.noise_multiplier + 2.0)
    nodes = np.linspace(0.0, top, 200_001)
    bounds = np.concatenate([np.minimum.accumulate(profile(part)) for part in np.array_split(nodes, 50)])
    right = bounds[1:]
    weights = np.diff(np.exp((order - 1) * nodes)) / (order - 1) - np.diff(np.exp(-order * nodes)) / order
    least = math.log1p(order * (order - 1) * float(weights @ right)) / (order - 1) + order * event.deviation**2 / 2
    found = renyi.divergence(event, order, unit)
    closed = order * (unit.sensitivity(1.0) / event.noise_multiplier) ** 2 / 2
    assert found >= min(least, closed + unit.rows_per_unit * event.log_det) * (1 - 1e-9)
    assert found <= least * 1.01


@pytest.mark.parametrize("event", EVENTS, ids=str)
def test_what_it_proves_of_one_release_is_not_below_the_profile(event: ObjectivePerturbation) -> None:
    for unit in UNITS[:2]:
        for delta in (1e-3, 1e-6, 1e-9):
            assert renyi.epsilon_upper(event, delta, unit) >= epsilon(event, delta, unit).upper * (1 - 1e-9)


def test_many_releases_cost_less_than_their_sum() -> None:
    event = EVENTS[1]
    alone = epsilon(event, 5e-8, "replace-one").upper
    assert epsilon(Repeat(event, 20), 1e-6, "replace-one").upper < 0.5 * 20 * alone
