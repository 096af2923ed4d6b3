"""The spread of residuals from one histogram, and the coverage of a quantile from a few signs."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from discreet.data.memory import in_memory
from discreet.losses import Huber, Loss, Quantile
from discreet.measurements import Noisy
from discreet.measurements.program import drive
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.parts.residual_scale import Spread, released_spread, residual_quantile, with_coverage

ROWS, N = RowSpec(1, 1.0, 0.5), 20_000


def problem(loss: Loss) -> Problem:
    return Problem(ROWS, Huber(0.25), float(N), residual_loss=loss)


def answered(steps: Any, y: np.ndarray, *, noise: float = 0.0) -> Any:
    """What the generator returns, its questions answered about rows of zeros, with or without noise."""
    data, rng, found = in_memory(np.zeros((len(y), 1)), y, ROWS), np.random.default_rng(0), []

    def answer(measurement: Any) -> Any:
        assert isinstance(measurement, Noisy)
        query = measurement.query
        exact = query.grid * query.integers(data)
        return exact + noise * query.bound * query.grid * rng.normal(size=query.shape)

    def kept() -> Any:
        found.append((yield from steps))
        return np.zeros(1)

    drive(kept(), answer)
    return found[0]


@pytest.mark.parametrize("scale", [0.5, 0.05, 0.001])
def test_the_deviation_of_normal_residuals_is_found(scale: float) -> None:
    y = scale * np.random.default_rng(1).normal(size=N)
    found = answered(released_spread(problem(Huber(1.345)), np.zeros(2), 0.5, 0.0), y)
    assert found.unit == pytest.approx(scale, rel=0.1)
    assert found.offset == 0.0


@pytest.mark.parametrize("level", [0.1, 0.5, 0.8, 0.95])
def test_density_and_place_of_a_quantile_are_found(level: float) -> None:
    normal = NormalDist()
    place = normal.inv_cdf(level)
    y = 0.1 * np.random.default_rng(1).normal(size=N)
    found = answered(released_spread(problem(Quantile(level, 0.25)), np.zeros(2), 0.5, 0.0), y)
    assert found.offset == pytest.approx(0.1 * place, abs=0.01)
    assert 0.4 / found.unit == pytest.approx(normal.pdf(place) / 0.1, rel=0.25)


def test_what_noise_hides_is_not_believed() -> None:
    """Below three standard deviations of the noise the deviation before is kept, by public numbers alone."""
    y = 0.001 * np.random.default_rng(1).normal(size=N)
    kept = answered(released_spread(problem(Huber(1.345)), np.zeros(2), 0.5, 400.0), y, noise=400.0)
    assert kept == Spread(0.5)
    # 2 % of rows beyond a level of 0.98 are hidden by a noise that shows the quartiles: residuals are taken for normal
    rare = answered(released_spread(problem(Quantile(0.98, 0.25)), np.zeros(2), 0.5, 30.0), y, noise=30.0)
    assert rare.offset == pytest.approx(0.001 * NormalDist().inv_cdf(0.98), rel=0.2)


def test_the_spread_is_never_0() -> None:
    for loss in (Huber(1.345), Quantile(0.9, 0.25)):
        assert answered(released_spread(problem(loss), np.zeros(2), 0.5, 0.0), np.zeros(N)).unit > 0


def test_counts_below_0_are_passed_over() -> None:
    edges = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    assert residual_quantile(np.array([-5.0, 10.0, 10.0, -5.0]), edges, 0.25, 20.0) == pytest.approx(0.0)
    assert residual_quantile(np.zeros(4), edges, 0.25, 20.0) == 2.0


@pytest.mark.parametrize("expected", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_the_intercept_moves_to_its_level(level: float, expected: float) -> None:
    """By a density that is as expected, half of that or twice as large, from a coverage that is 5 % off."""
    normal = NormalDist()
    y = 0.1 * np.random.default_rng(1).normal(size=N)
    start = np.array([0.0, 0.1 * normal.inv_cdf(level - 0.05) / 0.5])
    unit = 0.4 * 0.1 / normal.pdf(normal.inv_cdf(level)) * expected
    found = answered(with_coverage(problem(Quantile(level, 0.25)), start, level, unit, 0.0), y)
    assert np.mean(y <= 0.5 * found[1]) == pytest.approx(level, abs=0.02)
