"""Private estimates of location and scale find them wherever they are; the location alone is a robust mean."""

import math

import numpy as np
import pytest

from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.losses import Squared
from discreet.measurements import Noisy
from discreet.measurements.program import drive
from discreet.queries.sums.sign_sums import SignSums
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.parts.location_scale import NUMBERS, far_steps, location_and_scale, target_location

COLUMNS = 1200
ROWS = RowSpec(COLUMNS, 1.0, 0.5)


def exactly(steps, X, y):
    """What steps return, and how many releases they asked for, when every sum is answered without noise."""
    data, asked, returned = in_memory(X, y, ROWS), [], []

    def answer(measurement):
        assert isinstance(measurement, Noisy)
        asked.append(measurement)
        return measurement.query.grid * measurement.query.integers(data)

    def kept():
        returned.append((yield from steps))
        return np.zeros(1)

    drive(kept(), answer)
    return returned[0], len(asked)


@pytest.mark.parametrize(("centre", "spread"), [(0.0, 0.3), (0.7, 0.1), (-0.9, 0.03), (0.4, 0.02)])
def test_location_and_scale_are_found_wherever_they_are(centre, spread):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, COLUMNS)) * spread / math.sqrt(COLUMNS) + 0.5 / math.sqrt(COLUMNS)
    y = centre + spread * rng.standard_normal(400)
    found, releases = exactly(location_and_scale(Problem(ROWS, Squared(), 400.0), 1e-6, 1.0), X, y)
    assert releases == NUMBERS.steps
    assert found.location == pytest.approx(centre, abs=0.5 * spread)
    assert found.scale == pytest.approx(spread, rel=0.35)
    assert found.row_scale == pytest.approx(spread, rel=0.35)


@pytest.mark.parametrize("spread", [0.3, 1e-3, 1e-4])
def test_scales_far_below_their_bounds_are_found_by_a_longer_search(spread):
    """Of heavy tails nobody knows better bounds. The search for 16 releases ends at a hundredth of the bound."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, COLUMNS)) * spread / math.sqrt(COLUMNS)
    y = 0.4 + spread * rng.standard_normal(400)
    found, releases = exactly(location_and_scale(Problem(ROWS, Squared(), 400.0), 1e-6, 1.0, far=True), X, y)
    assert releases == far_steps()
    assert found.location == pytest.approx(0.4, abs=0.5 * spread)
    assert found.scale == pytest.approx(spread, rel=0.35)
    assert found.row_scale == pytest.approx(spread, rel=0.35)


def test_the_location_alone_is_near_the_median_and_never_beyond_the_bound():
    """Residuals are cut at a twentieth of the bound, so one target in ten far away hardly counts."""
    X, y = np.zeros((100, COLUMNS)), np.repeat([0.3, 1.0], [90, 10])
    problem = Problem(ROWS, Squared(), 100.0)
    theta, releases = exactly(target_location(problem, 1e-6, 0.05, 1.5, 1.0), X, y)
    assert releases == NUMBERS.steps
    assert not theta[:-1].any()
    assert theta[-1] * 0.5 == pytest.approx(0.3, abs=0.05)
    far, _ = exactly(target_location(problem, 1e-6, 0.05, 10.0, 1.0), X, np.full(100, 50.0))
    assert far[-1] * 0.5 == pytest.approx(1.0, rel=1e-4)


def test_a_direction_of_other_numbers_is_refused():
    with pytest.raises(InvalidInput, match="exact"):
        SignSums(ROWS, np.full(COLUMNS, 0.5), (0.0, 0.0), (1.0, 1.0))
    with pytest.raises(InvalidInput, match="columns"):
        SignSums(ROWS, np.ones(3), (0.0, 0.0), (1.0, 1.0))
