"""Gaussian releases whose rows differ by less than 2C: closed forms, and every batch of tiny datasets."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest

from discreet.accounting import delta, epsilon
from discreet.accounting.adaptive.filters import GDPFilter
from discreet.accounting.interop import to_dp_event
from discreet.accounting.upper.classical import zcdp_rho
from discreet.accounting.upper.renyi import divergence
from discreet.errors import InvalidInput
from discreet.events import (
    Compose,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    ObjectivePerturbation,
    Poisson,
    Repeat,
    WithReplacement,
    from_json,
)
from discreet.units import Unit

ACUTE = math.sqrt(2.0)


@pytest.mark.parametrize("rows", [1, 3])
def test_replaced_rows_move_a_sum_by_their_distance_and_added_ones_by_their_length(rows: int) -> None:
    replace, add = Unit("replace-one", rows), Unit("add-remove", rows)
    near, far = Gaussian(4.0, ACUTE), Gaussian(4.0)
    assert near.mu(replace) == pytest.approx(rows * ACUTE / 4, rel=1e-15)
    assert near.mu(add) == far.mu(add) == rows / 4
    assert far.mu(replace) == rows / 2
    assert epsilon(near, 1e-5, replace) == epsilon(Gaussian(2 * 4.0 / ACUTE), 1e-5, replace)
    assert epsilon(near, 1e-5, add) == epsilon(far, 1e-5, add)


def test_all_accountants_know() -> None:
    unit, run = Unit("replace-one"), Repeat(Gaussian(4.0, ACUTE), 8)
    assert zcdp_rho(run, unit) == pytest.approx(8 * (ACUTE / 4) ** 2 / 2)
    assert divergence(run, 3.0, unit) == pytest.approx(3 * 8 * (ACUTE / 4) ** 2 / 2)
    assert GDPFilter(1.0, unit).cost(run) == pytest.approx(8 * (ACUTE / 4) ** 2)
    exact = epsilon(run, 1e-5, unit)
    for method in ("contour", "fourier", "renyi"):
        assert epsilon(run, 1e-5, unit, method=method).upper >= exact.lower
    assert epsilon(run, 1e-5, unit, method="fourier").upper == pytest.approx(exact.upper, rel=1e-3)


def test_beside_an_objective_perturbation_and_beside_other_noise() -> None:
    """Composition in closed form, and by convolution: what counts is μ alone."""
    unit, perturbed = Unit("replace-one"), ObjectivePerturbation(9.0, 0.02)
    for other in (perturbed, Laplace(20.0)):
        near = Compose([Gaussian(12.0, ACUTE), other, Gaussian(30.0)])
        same = Compose([Gaussian(12.0 * 2 / ACUTE), other, Gaussian(30.0)])
        far = Compose([Gaussian(12.0), other, Gaussian(30.0)])
        assert epsilon(near, 1e-6, unit).upper == pytest.approx(epsilon(same, 1e-6, unit).upper, rel=1e-9)
        assert epsilon(near, 1e-6, unit).upper < 0.95 * epsilon(far, 1e-6, unit).upper


def test_it_is_written_and_read_and_older_events_mean_what_they_meant() -> None:
    near = Repeat(Gaussian(2.0, ACUTE), 3)
    assert from_json(near.to_json()) == near != Repeat(Gaussian(2.0), 3)
    assert from_json('{"kind": "Gaussian", "noise_multiplier": 2.0}') == Gaussian(2.0) == Gaussian(2.0, 2.0)
    assert repr(Gaussian(2.0)) == "Gaussian(noise_multiplier=2.0)"
    assert eval(repr(near)) == near


@pytest.mark.parametrize("factor", [0.99, 2.01, -1.0, math.nan, "2"])
def test_what_no_sum_can_have_is_refused(factor: float) -> None:
    with pytest.raises(InvalidInput, match="replace_one_factor"):
        Gaussian(1.0, factor)


def test_another_library_is_told_no_less_than_is_charged() -> None:
    pytest.importorskip("dp_accounting")
    assert to_dp_event(Gaussian(2.0, ACUTE)) == to_dp_event(Gaussian(2.0))


# --- every batch of tiny datasets -------------------------------------------------------------------------------------

NU = 1.0
AXIS = np.linspace(-7, 9, 321)
STEP = AXIS[1] - AXIS[0]
ROWS = [(0, 0), (1, 0), (0, 1)]  # counted nowhere, or in one of two bins


def poisson(rows, rate):
    for inside in product([0, 1], repeat=len(rows)):
        yield math.prod(rate if i else 1 - rate for i in inside), [r for r, i in zip(rows, inside, strict=True) if i]


def fixed_size(rows, batch):
    chosen = list(combinations(rows, batch))
    return ((1 / len(chosen), part) for part in chosen)


def with_replacement(rows, batch):
    return ((len(rows) ** -batch, part) for part in product(rows, repeat=batch))


def law(batches):
    total = np.zeros((len(AXIS), len(AXIS)))
    for weight, part in batches:
        x, y = np.sum([(0, 0), *part], axis=0)
        bell = [np.exp(-((AXIS - c) ** 2) / (2 * NU**2)) / math.sqrt(2 * math.pi * NU**2) for c in (x, y)]
        total += weight * np.outer(*bell) * STEP**2
    return total


def worst(make, size, eps):
    """The largest δ(ε) of two datasets that differ in their last row."""
    laws = {rows: law(make(rows)) for rows in product(ROWS, repeat=size)}
    return max(
        float(np.maximum(laws[rows] - math.exp(eps) * laws[(*rows[:-1], other)], 0).sum())
        for rows in laws
        for other in ROWS
    )


@pytest.mark.parametrize(
    ("event", "make", "size", "reached"),
    [
        (Gaussian(NU, ACUTE), lambda rows: [(1.0, rows)], 2, True),
        (Poisson(0.4, Gaussian(NU, ACUTE)), lambda rows: poisson(rows, 0.4), 2, False),
        (FixedSize(1, 3, Gaussian(NU, ACUTE)), lambda rows: fixed_size(rows, 1), 3, True),
        (WithReplacement(2, 2, Gaussian(NU, ACUTE)), lambda rows: with_replacement(rows, 2), 2, False),
    ],
    ids=["all", "poisson", "fixed-size", "with-replacement"],
)
@pytest.mark.parametrize("eps", [0.1, 0.7, 1.5])
def test_no_two_histograms_are_told_apart_better_than_is_charged(event: Event, make, size, reached, eps) -> None:
    bounds, found = delta(event, eps, "replace-one"), worst(make, size, eps)
    assert bounds.lower * (1 - 1e-3) <= found <= bounds.upper * (1 + 1e-3)
    if reached:
        assert found > 0.98 * bounds.upper
