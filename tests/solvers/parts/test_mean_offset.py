"""The mean residual moves the intercept, by as much as its noise leaves credible."""

import numpy as np
import pytest

from discreet.data.memory import in_memory
from discreet.losses import Squared
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.parts.mean_offset import NUMBERS, with_mean_offset

ROWS = RowSpec(2, 1.0, 0.5)
PROBLEM = Problem(ROWS, Squared(), 1000.0)


def moved(multiplier: float, y: np.ndarray) -> tuple[float, float]:
    """(by how much predictions move if the noise is 0, where residuals were cut)."""
    steps = with_mean_offset(PROBLEM, np.zeros(3), multiplier, 0.1)
    query = next(steps).query
    try:
        steps.send(query.grid * query.integers(in_memory(np.zeros((1000, 2)), y, ROWS))[()])
    except StopIteration as end:
        return float(end.value[-1]) * 0.5, query.clip
    raise AssertionError("one release")


def test_without_noise_it_is_the_mean_residual() -> None:
    y = np.random.default_rng(0).exponential(0.05, 1000)
    found, clip = moved(0.0, y)
    assert found == pytest.approx(np.minimum(y, clip).mean(), rel=1e-3)
    assert clip == pytest.approx(2 * NUMBERS.large * 0.1)


def test_noise_of_the_expected_size_halves_it() -> None:
    """Noise ν·clip/n equal to the prior deviation of 0.1 scales leaves one half (the posterior mean)."""
    y = np.full(1000, 0.01)
    multiplier = NUMBERS.small / NUMBERS.large * 1000
    found, clip = moved(multiplier, y)
    assert clip == pytest.approx(NUMBERS.large * 0.1)
    assert found == pytest.approx(0.005, rel=1e-3)
