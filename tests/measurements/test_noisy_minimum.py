"""Output perturbation as one release: what it costs, how far a row moves it, and the noise that it adds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import events
from discreet.data.memory import in_memory
from discreet.errors import HypothesisViolated, InvalidInput
from discreet.losses import Logistic
from discreet.measurements.noisy_minimum import NoisyMinimum
from discreet.noise.bits import Bits
from discreet.queries.minimiser.ridge_minimiser import RidgeMinimiser
from discreet.rows import RowSpec
from discreet.units import Unit

ROWS = RowSpec(3, 1.0, intercept=0.0)
QUERY = RidgeMinimiser(ROWS, Logistic(), 5.0)
RNG = np.random.default_rng(2)
X = RNG.normal(size=(30, 3))
X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
Y = np.where(RNG.random(30) < 0.5, 1.0, -1.0)


def test_the_cost_is_that_of_the_noise_for_one_row():
    gaussian = NoisyMinimum(QUERY, 4.0, 1e-6)
    for relation in ("replace-one", "add-remove"):
        assert gaussian.event(Unit(relation)) == events.Gaussian(4.0)
    gamma = NoisyMinimum(QUERY, 4.0, 1e-6, "gamma")
    assert gamma.event(Unit("add-remove")) == events.PureDP(0.25)
    assert gamma.event(Unit("replace-one")) == events.PureDP(0.5)
    assert NoisyMinimum(QUERY, 0.0, 1e-6).event(Unit("add-remove")) == events.NonPrivate()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=3, max_size=3), st.sampled_from([-1.0, 1.0]), st.integers(0, 29))
def test_no_row_moves_the_minimiser_further_than_the_noise_is_for(row, label, place):
    """‖θ̂ − θ̂'‖ ≤ 2L/λ for a replaced row, L/λ for one left out, whatever the row."""
    length = max(1.0, float(np.linalg.norm(row)))
    other, labels = X.copy(), Y.copy()
    other[place], labels[place] = np.array(row) / length, label
    most, off = QUERY.gradient_bound / QUERY.regularisation, 2e-9 / QUERY.regularisation
    here, there, less = (
        QUERY.minimise(in_memory(rows, y, ROWS), np.zeros(3), 1e-9)
        for rows, y in ((X, Y), (other, labels), (np.delete(X, place, 0), np.delete(Y, place)))
    )
    assert np.linalg.norm(here - there) <= 2 * most + off
    assert np.linalg.norm(here - less) <= most + off


@pytest.mark.parametrize("noise", ["gaussian", "gamma"])
def test_the_noise_is_as_large_as_the_event_says(noise):
    """1000 releases of 3 coordinates: a standard deviation is within 10 % but with probability below 1e-8."""
    multiplier, bits = 2.0, Bits.seeded(3)
    measurement, data = NoisyMinimum(QUERY, multiplier, 1e-7, noise), in_memory(X, Y, ROWS)
    shown = np.array([measurement.sample(data, Unit("add-remove"), bits) for _ in range(1000)])
    scale = multiplier * QUERY.gradient_bound / QUERY.regularisation
    # of density ∝ exp(−‖b‖/scale) in three dimensions a coordinate has the variance E‖b‖²/3 = 3·4·scale²/3
    expected = scale if noise == "gaussian" else 2 * scale
    assert 0.9 < shown.std(axis=0).mean() / expected < 1.1


def test_bad_input():
    with pytest.raises(HypothesisViolated):
        NoisyMinimum(RidgeMinimiser(ROWS, Logistic(), 0.0), 1.0, 1e-6)
    with pytest.raises(InvalidInput):
        NoisyMinimum(QUERY, -1.0, 1e-6)
    with pytest.raises(InvalidInput):
        NoisyMinimum(QUERY, 1.0, 1e-6, "uniform")  # type: ignore[arg-type]
    assert NoisyMinimum(QUERY, 1.0, 1e-6).blank().tolist() == [0.0] * 3
