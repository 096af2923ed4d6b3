"""Moments of refined features from histograms, and what is fitted with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from discreet.data.memory import in_memory
from discreet.events import ObjectivePerturbation
from discreet.losses import Squared
from discreet.measurements.perturbed_minimum import PerturbedMinimum
from discreet.noise.bits import Bits
from discreet.refinement import Cells, ColumnBlock, Groups, Knots, RefinedBlock, Refinement, Value
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.parts.column_histograms import ColumnHistogram, histogram_cells
from discreet.solvers.parts.cut_least_squares import CutLeastSquares
from discreet.solvers.parts.known_moments import as_encoded, known_moments
from discreet.solvers.parts.private_scales import Diagonal
from discreet.units import Unit

COLUMNS = (
    ColumnBlock("u", 0, 3, "number", 0.5),
    ColumnBlock("l", 3, 6, "levels", 0.5),
    ColumnBlock("v", 6, 7, "value", 0.5),
)
REFINED = Refinement(
    COLUMNS,
    (
        RefinedBlock((0,), (Knots((0.0, 0.2, 0.7, 1.0)),)),
        RefinedBlock((1,), (Groups((0, 1, 1)),)),
        RefinedBlock((2,), (Value(),)),
        RefinedBlock((0,), (Cells((0.125, 0.875)),), 0.7),
        RefinedBlock((0, 1), (Knots((0.0, 0.5, 1.0)), Groups((0, 1, 2))), 1.5),
    ),
)


def encoded_rows(n: int) -> tuple[Any, list[Any]]:
    """Independent columns, numbers evenly spread, and the place of each cell."""
    rng = np.random.default_rng(0)
    u, level, v = rng.random(n), rng.choice(3, n, p=[0.6, 0.3, 0.1]), rng.random(n)
    X = np.zeros((n, 7))
    left = np.minimum((2 * u).astype(int), 1)
    X[np.arange(n), left], X[np.arange(n), left + 1] = 0.5 * (1 - 2 * u + left), 0.5 * (2 * u - left)
    X[np.arange(n), 3 + level], X[:, 6] = 0.5, 0.5 * (2 * v - 1)
    return X, [u, level, v]


def histograms(places: list[Any]) -> dict[int, ColumnHistogram]:
    found = {}
    for j, (column, view) in enumerate(zip(COLUMNS, histogram_cells(COLUMNS).views, strict=True)):
        at, shares = np.zeros((len(places[j]), 1), np.int32), np.zeros((len(places[j]), 1))
        view.fill(places[j], at, shares)
        found[j] = ColumnHistogram(column, np.bincount(at[:, 0], minlength=view.width).astype(float))
    return found


def test_moments_from_histograms_are_those_of_the_rows() -> None:
    """Independent columns: sampling moves a product's moments by less than 0.01 with probability above 1 − 1e-6."""
    X, places = encoded_rows(40_000)
    made = REFINED.apply(X).toarray()
    mean, square = known_moments(REFINED, histograms(places))
    assert mean == pytest.approx(made.mean(axis=0), abs=0.01)
    assert square == pytest.approx((made**2).mean(axis=0), abs=0.01)
    encoded, scales = as_encoded(COLUMNS)
    mean, square = known_moments(encoded, histograms(places), scales)
    assert mean == pytest.approx(X.mean(axis=0), abs=1e-3)
    assert square == pytest.approx((X**2).mean(axis=0), abs=1e-3)


def test_known_columns_have_the_length_that_is_asked_for() -> None:
    X, _ = encoded_rows(5000)
    rows = RowSpec(7, 1.0, 0.5)
    for centred in (False, True):
        scales = Diagonal(0.0, 1e-3, 0.25, 25.0, centred=centred)
        mean, moments = X.mean(axis=0), (X**2).mean(axis=0)
        found = scales.known(Problem(rows, Squared(), 5000.0), mean, moments, 1.5)
        weighted = (X - (mean if centred else 0.0)) * found.weights
        assert np.sqrt((weighted**2).sum(axis=1).mean()) == pytest.approx(1.5)
        assert found.held().sum() == pytest.approx(1.0)


SCALES = Diagonal(0.0, 1e-3, 0.25, 25.0)
FIT = CutLeastSquares(SCALES, 3.0, 5.0, 12.0, 0.5, 1.5)
ROWS = RowSpec(2, 1.0, 0.5)


def asked(residual: float | None) -> PerturbedMinimum:
    problem = Problem(ROWS, Squared(), 100.0)
    measurement = next(FIT.in_known_scales(problem, np.zeros(2), np.full(2, 0.5), residual))
    assert isinstance(measurement, PerturbedMinimum)
    return measurement


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_what_a_fit_costs_does_not_depend_on_where_slopes_are_cut(relation: Any) -> None:
    """The residual was released; the tilt is in proportion to the cut, and curvature is not cut."""
    events = {residual: asked(residual).event(Unit(relation)) for residual in (None, 0.01, 0.25, 5.0)}
    assert all(isinstance(event, ObjectivePerturbation) for event in events.values())
    assert len(set(map(str, events.values()))) == 1
    for residual, bound in ((0.01, 0.015), (0.25, 0.375), (5.0, 1.0)):
        measurement = asked(residual)
        assert measurement.query.gradient_bound == pytest.approx(bound * ROWS.radius)
        assert measurement.question.noise == pytest.approx(3.0 * bound * ROWS.radius, rel=1e-9)


def test_a_row_moves_the_minimiser_by_at_most_its_cut_slope() -> None:
    """λ‖θ − θ'‖ ≤ L, with or without the row, however far its target is."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(50, 2)), rng.normal(size=50)
    for target in (1e9, -1e9, np.nan):
        measurement = asked(0.1)
        query, tilt = measurement.query, np.zeros(3)
        whole = query.minimise(in_memory(X, np.append(y[:-1], target), ROWS), tilt, 1e-6)
        less = query.minimise(in_memory(X[:-1], y[:-1], ROWS), tilt, 1e-6)
        assert np.linalg.norm(whole - less) <= (query.gradient_bound + 2e-6) / query.regularisation


def test_a_line_is_found_and_its_mean_too() -> None:
    """Skewed errors: the mean residual moves the intercept from their middle to their mean.

    The tilt moves a coefficient by a deviation of 0.001, and clipping the rows that are longest shortens slopes by 5 %.
    """
    rng = np.random.default_rng(2)
    n = 20_000
    X = rng.choice([-0.7, 0.7], size=(n, 2))
    y = 0.3 * X[:, 0] - 0.2 + 0.1 * rng.exponential(size=n)
    problem = Problem(ROWS, Squared(), float(n))
    steps, data = FIT.in_known_scales(problem, np.zeros(2), (X**2).mean(axis=0), 0.12), in_memory(X, y, ROWS)
    bits = Bits.seeded(3)
    try:
        measurement = next(steps)
        while True:
            measurement = steps.send(measurement.sample(data, Unit("add-remove"), bits))
    except StopIteration as stop:
        theta = stop.value
    assert theta[0] == pytest.approx(0.3, abs=0.03)
    assert theta[1] == pytest.approx(0.0, abs=0.03)
    assert theta[2] * ROWS.intercept == pytest.approx(-0.1, abs=0.01)
