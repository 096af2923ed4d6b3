"""Last-iterate bounds against chains whose law is known or can be computed on a grid."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from discreet.accounting.reductions.last_iterate import contraction_of, last_iterate_mu
from discreet.accounting.upper.renyi import divergence
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.events import Gaussian, LastIterate, Repeat, from_json


@pytest.mark.parametrize("contraction", [0.0, 0.3, 0.9, 0.999, 1.0])
@pytest.mark.parametrize("steps", [1, 2, 50, 10_000])
def test_exact_for_the_linear_chain(contraction, steps):
    """θ ← cθ ± s/2 + N(0, ν²): two Gaussians whose distance is known, so the bound is tight."""
    shift, noise = 0.3, 2.0
    mean = shift * sum(contraction**t for t in range(steps))
    spread = noise * math.sqrt(sum(contraction ** (2 * t) for t in range(steps)))
    assert last_iterate_mu(steps, shift, noise, contraction) == pytest.approx(mean / spread, rel=1e-9)


def test_matches_the_paper_s_closed_form_and_stops_growing():
    c, steps = 0.95, 200
    power = c**steps
    closed = math.sqrt((1 - power) / (1 + power) * (1 + c) / (1 - c))
    assert last_iterate_mu(steps, 1.0, 1.0, c) == pytest.approx(closed, rel=1e-11)
    assert last_iterate_mu(10**9, 1.0, 1.0, c) == pytest.approx(math.sqrt(39), rel=1e-9)
    assert last_iterate_mu(10**9, 1.0, 1.0, 1.0, diameter=100.0) == pytest.approx(math.sqrt(4 * 100), rel=1e-4)


def delta_of(mu, epsilon):
    return ndtr(-epsilon / mu + mu / 2) - math.exp(epsilon) * ndtr(-epsilon / mu - mu / 2)


@pytest.mark.parametrize("steps", [3, 40, 400])
@pytest.mark.parametrize("rounding", [0.0, 0.05])
def test_bounded_domain_bounds_the_projected_chain(steps, rounding):
    """Projected random walks on [0, D] that drift s apart, laws by a transition matrix on a fine grid."""
    diameter, shift, noise = 2.0, 0.1, 0.5
    cells = 200
    centres = (np.arange(cells) + 0.5) * diameter / cells
    edges = np.linspace(0, diameter, cells + 1)
    edges[0], edges[-1] = -np.inf, np.inf  # projection gathers what falls outside

    def law(drift):
        seen = np.round(centres / (2 * rounding)) * 2 * rounding if rounding else centres
        move = np.diff(ndtr((edges[None, :] - seen[:, None] - drift) / noise), axis=1)
        state = np.zeros(cells)
        state[cells // 2] = 1.0
        for _ in range(steps):
            state = state @ move
        return state

    p, q = law(shift / 2), law(-shift / 2)
    # The grid itself rounds by half a cell, which the bound is told about.
    mu = last_iterate_mu(steps, shift, noise, 1.0, diameter=diameter, rounding=rounding + diameter / cells / 2)
    for epsilon in (0.0, 0.05, 0.3, 1.0):
        found = np.maximum(0, p - math.exp(epsilon) * q).sum()
        assert (0.01 if epsilon == 0 else 0) <= found <= delta_of(mu, epsilon)


@given(
    steps=st.integers(1, 500),
    contraction=st.floats(0, 1),
    diameter=st.floats(0.01, 100),
    rounding=st.floats(0, 0.1),
)
def test_monotone_and_never_above_composition(steps, contraction, diameter, rounding):
    mu = last_iterate_mu(steps, 0.2, 1.0, contraction, diameter=diameter, rounding=rounding)
    assert mu <= (0.2 + 2 * rounding) * math.sqrt(steps) * (1 + 1e-9)
    assert last_iterate_mu(steps, 0.2, 1.0, contraction, rounding=rounding) >= mu
    assert last_iterate_mu(steps, 0.2, 1.0, contraction * 0.9, rounding=rounding) <= (
        last_iterate_mu(steps, 0.2, 1.0, contraction, rounding=rounding) * (1 + 1e-9)
    )


def test_contraction_checks_its_hypotheses():
    assert contraction_of(1.0, 1.0) == 1.0
    assert contraction_of(2 / 3, 2.0, 1.0) == pytest.approx(1 / 3)
    with pytest.raises(HypothesisViolated, match=r"2/β = 0\.5"):
        contraction_of(0.6, 4.0)
    with pytest.raises(HypothesisViolated, match="λ"):
        contraction_of(0.1, 1.0, 2.0)
    with pytest.raises(HypothesisViolated, match="contraction"):
        last_iterate_mu(10, 1.0, 1.0, 1.01)
    with pytest.raises(HypothesisViolated, match="noise"):
        last_iterate_mu(10, 1.0, 0.0, 0.9)


def test_the_event_is_a_gaussian_that_survives_json_and_composition():
    event = LastIterate(10.0, 1000, 0.9, diameter=3.0, rounding=1e-9)
    assert from_json(event.to_json()) == event
    mu = last_iterate_mu(1000, 2.0, 10.0, 0.9, diameter=6.0, rounding=2e-9)
    assert divergence(event, 2.0, "replace-one") == pytest.approx(mu**2, rel=1e-9)
    twice = divergence(Repeat(event, 2), 2.0, "replace-one")
    assert twice == pytest.approx(2 * mu**2, rel=1e-9)
    assert divergence(LastIterate(10.0, 50, 1.0), 3.0, "add-remove") == pytest.approx(
        divergence(Repeat(Gaussian(10.0), 50), 3.0, "add-remove")
    )
    with pytest.raises(InvalidInput, match="contraction"):
        LastIterate(1.0, 10, 1.5)
