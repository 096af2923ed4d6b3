"""Column weights bring columns to one scale, and the second moments behind them are thresholded."""

import math

import numpy as np
import pytest

from discreet.data.memory import in_memory
from discreet.losses import Logistic
from discreet.noise import Bits
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.parts.column_weights import (
    chance_damping,
    column_weights,
    lengthening,
    released_mean,
    released_moments,
    weighted_moments,
)
from discreet.units import Unit

ROWS = RowSpec(3, 2.0, 1.0)
MOMENTS = np.array([3.0, 0.9, 0.1])  # they add up to the squared norm


def answered(steps, X: np.ndarray, rows: RowSpec, seed: int = 0):
    data, bits = in_memory(X, np.ones(len(X)), rows), Bits.seeded(seed)
    measurement = next(steps)
    try:
        steps.send(measurement.sample(data, Unit("add-remove"), bits))
    except StopIteration as end:
        return end.value
    raise AssertionError("one release")


def test_the_exponent_a_half_brings_columns_to_one_scale() -> None:
    weights = column_weights(MOMENTS, ROWS, 1e-9, 0.5)
    np.testing.assert_allclose(weights**2 * MOMENTS, (lengthening() * ROWS.norm) ** 2 / 3, rtol=1e-6)
    np.testing.assert_allclose(weighted_moments(MOMENTS, ROWS, weights), ROWS.norm**2 / 3, rtol=1e-6)


@pytest.mark.parametrize("power", [0.0, 0.25, 0.5])
@pytest.mark.parametrize("explained", [0.0, np.array([2.9, 0.1, 0.0])])
def test_weighted_rows_are_as_long_as_asked_for(power: float, explained) -> None:
    weights = column_weights(MOMENTS, ROWS, 0.01, power, explained)
    left = np.maximum(MOMENTS - explained, 0.02 * MOMENTS)
    assert math.sqrt(float(left @ weights**2)) == pytest.approx(lengthening() * ROWS.norm)
    if power == 0:
        np.testing.assert_allclose(weights, weights[0])


def test_second_moments_that_are_noise_are_set_to_zero() -> None:
    """One column in 2000 holds half of the rows' length; noise alone leaves at most a few of the others."""
    rows = RowSpec(2000, 1.0, 0.5)
    X = np.zeros((500, 2000))
    X[:, 7] = math.sqrt(0.5) / 5  # a 25th of the squared length is what one entry may show
    problem = Problem(rows, Logistic(), 500.0)
    found = answered(released_moments(problem, 5.0, 25.0), X, rows)
    assert found[7] == pytest.approx(0.02, rel=0.3)
    assert np.count_nonzero(found) <= 20
    assert (found >= 0).all()


def test_a_mean_that_is_noise_is_not_subtracted() -> None:
    """James–Stein: rows of mean 0 under much noise have a centre far shorter than the noise."""
    rows = RowSpec(400, 1.0, 0.5)
    X = np.random.default_rng(0).standard_normal((200, 400)) / 20
    problem = Problem(rows, Logistic(), 200.0)
    centre, explained = answered(released_mean(problem, 20.0), X, rows)
    noise = 20.0 / 200 * math.sqrt(400)
    assert np.linalg.norm(centre) < 0.3 * noise
    assert (explained >= 0).all()


def test_damping_is_a_quarter_of_what_makes_chance_and_noise_equal() -> None:
    problem = Problem(RowSpec(3, 2.0, 1.0), Logistic(), 100.0)
    assert chance_damping(problem, 10.0) == pytest.approx(0.25 * 10.0**2 * (problem.rows.radius / 2.0) ** 2 / 100)
    assert chance_damping(problem, 0.1) == pytest.approx((problem.rows.radius / 2.0) ** 2 / 100)
