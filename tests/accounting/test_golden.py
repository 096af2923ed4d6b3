"""Certified intervals against references that were computed some other way (see make_golden.py)."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from discreet.accounting import calibrate, curve, epsilon
from discreet.events import (
    Compose,
    FixedSize,
    Gaussian,
    Laplace,
    Poisson,
    RandomizedResponse,
    Repeat,
    from_dict,
)

GOLDEN = json.loads((Path(__file__).with_name("golden.json")).read_text(encoding="utf-8"))


def name(case) -> str:
    return f"{case['source']}-{json.dumps(case['event'], sort_keys=True)}-{case['adjacency']}-{case['epsilon']:.4g}"


def test_there_are_enough_references() -> None:
    assert len(GOLDEN) >= 150
    assert {case["source"] for case in GOLDEN} == {"closed form", "direct integration", "enumeration", "inversion"}


@pytest.mark.parametrize("case", GOLDEN, ids=name)
def test_reference_lies_inside(case) -> None:
    privacy = curve(from_dict(case["event"]), case["adjacency"])
    delta = float(case["delta"])
    there = privacy.delta(case["epsilon"])
    assert there.lower <= delta * (1 + 1e-15)
    assert there.upper >= delta * (1 - 1e-15)
    if delta > 1e-300:
        back = privacy.epsilon(delta)
        # δ was rounded to a double: where the curve is flat that moves ε
        assert privacy.epsilon(delta * (1 + 1e-15)).lower <= case["epsilon"] * (1 + 1e-14)
        assert privacy.epsilon(delta * (1 - 1e-15)).upper >= case["epsilon"] * (1 - 1e-14)
        if privacy.delta(1.01 * case["epsilon"]).upper < delta * (1 - 1e-6):  # else δ says little about ε
            assert back.upper - back.lower <= 2e-4 * back.upper


# Poisson-sampled Gaussians: noise, rate, steps, δ, ε under add-remove and under replace-one, to the digits known.
SAMPLED = {
    "C1": (4, 0.01, 10**4, 1e-5, 0.9468668, 1.993120),
    "C2": (1.1, 256 / 60000, 14062, 1e-5, 2.3815969, 4.221297),
    "C3": (0.8, 0.001, 10**5, 1e-6, 2.9144783, 4.620874),
    "C4": (0.6, 1e-4, 10**6, 1e-8, 2.8683198, 3.337865),
    "C5": (2, 0.05, 500, 1e-6, 2.8726257, 5.551004),
    "C6": (10, 1, 1000, 1e-6, 19.4236565, 49.3192767),
    "C7": (0.5, 0.02, 100, 1e-5, 9.6937035, 10.285221),
    "C8": (20, 0.1, 10**6, 1e-9, 41.868362, 109.17767),
}


@pytest.mark.parametrize("row", SAMPLED)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_benchmark_rows(row: str, adjacency) -> None:
    sigma, rate, steps, delta, added, replaced = SAMPLED[row]
    bounds = epsilon(Repeat(Poisson(rate, Gaussian(sigma)), steps), delta, adjacency)
    known = added if adjacency == "add-remove" else replaced
    digits = 7 if adjacency == "add-remove" and row != "C8" else 6 if row != "C8" else 5
    assert math.isclose((bounds.lower + bounds.upper) / 2, known, abs_tol=0.51 * 10**-digits + 1e-7 * known)
    assert bounds.upper - bounds.lower <= 1e-6 * bounds.upper


def test_heterogeneous_run() -> None:
    run = Compose([Repeat(Gaussian(20), 200), Repeat(Laplace(30), 100), Repeat(Poisson(0.01, Gaussian(2)), 1000)])
    bounds = epsilon(run, 1e-6, "add-remove")
    assert abs(bounds.upper - 3.790809) < 5e-7
    assert bounds.upper - bounds.lower <= 1e-6 * bounds.upper


@pytest.mark.parametrize(("steps", "noise"), [(10**3, 1.414619), (10**4, 3.812817), (10**5, 11.82365)])
def test_calibrated_noise(steps: int, noise: float) -> None:
    found = calibrate(lambda s: Repeat(Poisson(0.01, Gaussian(s)), steps), 1.0, 1e-5, "add-remove")
    assert abs(found - noise) < 1e-6 * max(1, noise)
    assert epsilon(Repeat(Poisson(0.01, Gaussian(found)), steps), 1e-5, "add-remove").upper <= 1.0


# Where other accountants were seen to fail: a count ignored, the wrong side, infinities, memory, exceptions.
@pytest.mark.parametrize(
    ("event", "delta", "adjacency", "truth", "tolerance"),
    [
        (Repeat(Poisson(1e-3, Gaussian(1)), 10**5), 1e-12, "add-remove", 2.8941, 5e-5),
        (Repeat(Poisson(1e-3, Gaussian(50)), 10**6), 1e-6, "add-remove", 0.0710, 5e-5),
        (Repeat(Poisson(1e-3, Gaussian(100)), 10**7), 1e-6, "add-remove", 0.116, 5e-4),
        (Gaussian(1e4), 1e-6, "add-remove", 1.94e-4, 5e-7),
        (Repeat(Poisson(1e-3, Gaussian(1)), 10**5), 1e-15, "add-remove", None, None),
        (Repeat(Poisson(0.5, Gaussian(0.1)), 1000), 1e-5, "add-remove", None, None),
        (Repeat(Poisson(0.2, Gaussian(1)), 500), 1e-5, "add-remove", None, None),
        (Repeat(Poisson(0.001, Gaussian(1.5)), 100), 1e-5, "add-remove", None, None),
        (Repeat(Poisson(0.01, Gaussian(4)), 10**4), 1e-300, "add-remove", None, None),
        (Repeat(Poisson(1e-4, Gaussian(1000)), 10**9), 1e-9, "replace-one", None, None),
    ],
)
def test_where_others_failed(event, delta, adjacency, truth, tolerance) -> None:
    bounds = epsilon(event, delta, adjacency)
    assert 0 < bounds.lower <= bounds.upper < math.inf
    assert bounds.upper - bounds.lower <= 1e-6 * bounds.upper
    if truth is not None:
        assert abs(bounds.upper - truth) < tolerance


def test_a_repeat_count_is_never_ignored() -> None:
    once = epsilon(RandomizedResponse(1.0987), 1e-6, "replace-one").upper
    often = epsilon(Repeat(RandomizedResponse(1.0987), 100), 1e-6, "replace-one")
    assert once < 1.0987
    assert abs(often.upper - 94.3) < 0.05
    assert often.upper - often.lower < 1e-8


def test_replace_one_counts_twice_the_bound() -> None:
    assert epsilon(Gaussian(2.0), 1e-6, "replace-one") == epsilon(Gaussian(1.0), 1e-6, "add-remove")
    sampled = Repeat(Poisson(0.01, Gaussian(4)), 1000)
    assert epsilon(sampled, 1e-6, "replace-one").lower > 1.8 * epsilon(sampled, 1e-6, "add-remove").upper


def test_one_direction_is_not_enough_without_replacement() -> None:
    """Replace-one without replacement must cover both mixtures at once, so it costs more than either alone."""
    event = Repeat(FixedSize(100, 1000, Gaussian(2)), 100)
    assert epsilon(event, 1e-5, "replace-one").upper > epsilon(event, 1e-5, "add-remove").upper
