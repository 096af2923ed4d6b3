"""Scale models: what they refuse, the coordinates that they return, and the way back to the user's columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.geometry import L2Ball
from discreet.losses import Huber, Logistic, Softmax, Squared
from discreet.measurements import Noisy
from discreet.measurements.program import drive
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.parts.private_scales import Diagonal, Full, Location, Scales, Single
from discreet.solvers.parts.private_scales.diagonal import on_grid

ROWS = RowSpec(3, 2.0, 1.0)
N = 400


def rows_and_targets() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3)) * [0.4, 0.2, 0.05] + [0.3, -0.1, 0.0]  # none longer than the norm
    return X, np.clip(X @ [0.5, -0.5, 1.0] + 0.4 + 0.05 * rng.normal(size=N), -1, 1)


def released(model: Scales, problem: Problem, iterations: int = 10) -> Any:
    """The coordinates of a scale model whose releases are answered without noise."""
    X, y = rows_and_targets()
    data, found = in_memory(X, y, problem.rows), []

    def answer(measurement: Any) -> Any:
        assert isinstance(measurement, Noisy)
        return measurement.query.grid * measurement.query.integers(data)

    def kept() -> Any:
        found.append((yield from model.released(problem, iterations)))
        return np.zeros(1)

    drive(kept(), answer)
    return found[0]


MODELS: list[Scales] = [
    Full(1e-9, 1.0),
    Diagonal(1e-9, 1e-3, 0.5, 1.0, centred=True, centre_multiplier=1e-9, constant_weight=0.5),
    Diagonal(1e-9, 1e-3, 0.5, 1.0),
    Single(1e-9, 1.0, 2.0, 1.0),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.kind)
def test_gradients_in_the_coordinates_are_those_of_the_mean_loss(model: Scales) -> None:
    """∇ of θ ↦ loss(coefficients(θ)), by central differences: query and coefficients are of one model."""
    problem = Problem(ROWS, Squared(), float(N))
    X, y = rows_and_targets()
    scales, rows = released(model, problem), np.hstack([X, np.ones((N, 1))])
    data, theta = in_memory(X, y, ROWS), scales.start + 0.01 * np.random.default_rng(1).normal(size=4)
    query = scales.query(theta, 1e3)
    gradient = query.grid * query.integers(data) / N

    def loss(at: np.ndarray) -> float:
        return float(np.mean((rows @ scales.coefficients(at) - y) ** 2) / 2)

    differences = [(loss(theta + 1e-4 * e) - loss(theta - 1e-4 * e)) / 2e-4 for e in np.eye(4)]
    np.testing.assert_allclose(gradient, differences, rtol=2e-2, atol=2e-2 * np.abs(differences).max())


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.kind)
def test_a_direction_leads_down(model: Scales) -> None:
    problem = Problem(ROWS, Squared(), float(N))
    scales, rng = released(model, problem), np.random.default_rng(2)
    for gradient in rng.normal(size=(20, 4)):
        assert gradient @ scales.direction(gradient, scales.start) > 0


def test_the_full_model_is_newtons_method() -> None:
    """One whole step of squared loss comes to the minimiser, whatever the columns' scales."""
    problem = Problem(ROWS, Squared(), float(N))
    X, y = rows_and_targets()
    rows = np.hstack([X, np.ones((N, 1))])
    scales = released(Full(0.0, 1.0), problem)
    found = -scales.direction(-rows.T @ y / N, scales.start)
    np.testing.assert_allclose(found, np.linalg.lstsq(rows, y, rcond=None)[0], atol=2e-3)
    assert scales.leverage == pytest.approx(4.0, rel=1e-3)  # d for β = 1


def test_several_outputs_have_one_preconditioner() -> None:
    problem = Problem(RowSpec(3, 2.0, 1.0, outputs=2), Softmax(2), float(N))
    scales, one = released(Full(0.0, 0.5), problem), released(Full(0.0, 0.5), Problem(ROWS, Squared(), float(N)))
    gradient = np.random.default_rng(3).normal(size=(2, 4))
    expected = [one.direction(row, one.start) for row in gradient]
    np.testing.assert_allclose(scales.direction(gradient, scales.start), expected)


def test_rows_of_prior_add_their_curvature_to_the_ridge() -> None:
    """λ/T grows by β·k·r²/n with k rows of prior: as if each direction had k rows more."""
    problem = Problem(RowSpec(5, 2.0), Squared(), 100.0)
    without, with_prior = (Full(7.0, 1.0, prior_rows=k).added_curvature(problem, 4) for k in (0.0, 3.0))
    assert (with_prior - without) / 4 == pytest.approx(3 * 2.0**2 / 100)


def test_the_anchor_is_the_score_of_the_mean_row() -> None:
    problem, coefficients = Problem(ROWS, Logistic(), float(N)), np.array([1.0, -2.0, 0.5, 0.3])
    X, _ = rows_and_targets()
    centred, uncentred = (released(model, problem) for model in MODELS[1:3])
    assert centred.anchor(coefficients) == pytest.approx(X.mean(axis=0) @ coefficients[:3] + 0.3, abs=1e-3)
    assert uncentred.anchor(coefficients) == pytest.approx(0.3)


def test_one_scale_has_the_steps_of_its_settings() -> None:
    """Weights: step·norm/R over norm², at most the longest; the offset: its step over the squared constant."""
    problem = Problem(ROWS, Squared(), float(N))
    scales = released(Single(1e-9, 0.01, 1e9, 3.0), problem)
    short = released(Single(1e-9, 1e9, 2.0, 3.0), problem)
    ones = scales.direction(np.ones(4), scales.start)
    assert ones[3] == 3.0
    assert 0.01 / 2.0**2 < ones[0] < 0.2 / 2.0**2  # R is between a twentieth of the norm and all of it
    assert short.direction(np.ones(4), short.start)[0] == pytest.approx(2.0 / 2.0**2)
    assert scales.start[3] == pytest.approx(np.median(rows_and_targets()[1]), abs=0.15)
    assert not scales.start[:3].any()
    assert 0 < scales.target_scale < 1


def test_weights_and_centres_of_all_sizes_come_onto_the_grid() -> None:
    for centre in ([0.0, 0.0, 0.0], [5.0, 0.0, 0.0], [1e30, 1e30, -1e30], [1e-12, 1.0, -1.0]):
        scaling, unit = on_grid(ROWS, np.array([1e-6, 1.0, 3.0]), np.array(centre), 0.5)
        assert scaling.weights.tolist() == [1, 21, 64, 11]
        assert unit == 3 / 64
        assert np.linalg.norm(scaling.centre * ROWS.unit) <= 2.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Full(1.0, 1.0, damping=0.0), "damping"),
        (lambda: Full(1.0, math.inf), "curvature"),
        (lambda: Diagonal(1.0, math.inf, 0.5, 25.0), "damping"),
        (lambda: Diagonal(1.0, 0.1, 2.0, 25.0), "power"),
        (lambda: Single(1.0, step=0.0), "step"),
        (lambda: Location(1.0, 0.0, 1.0), "clip"),
    ],
)
def test_settings_without_meaning_are_refused(make: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        make()


@pytest.mark.parametrize(
    ("model", "changes", "words"),
    [
        (MODELS[1], {"domain": L2Ball(1.0)}, "L2Ball"),
        (MODELS[1], {"rows": RowSpec(3, math.inf, 1.0)}, "row_norm"),
        (MODELS[1], {"rows": RowSpec(3, 2.0)}, "centre_share=0"),
        (MODELS[3], {"loss": Huber(1.0)}, "squared loss"),
        (MODELS[3], {"rows": RowSpec(3, 2.0)}, "intercept"),
        (MODELS[3], {"ridge": 0.1}, "ridge"),
        (Location(1.0, 0.1, 1.0), {"loss": Logistic()}, "squared loss"),
    ],
)
def test_problems_that_a_model_is_not_for_are_refused(model: Scales, changes: dict[str, Any], words: str) -> None:
    facts = {"rows": ROWS, "loss": Squared(), "n": float(N)} | changes
    with pytest.raises(InvalidInput, match=words):
        next(model.released(Problem(**facts), 3))
