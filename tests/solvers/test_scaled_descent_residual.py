"""Descent in the unit of the residuals: Huber and quantile regression, however wide the bounds of the targets are."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import HuberRegressor, QuantileRegressor

import discreet as dp
from discreet import events
from discreet.accounting import epsilon
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import rehearse
from discreet.errors import InvalidInput
from discreet.events import compose
from discreet.geometry import L2Ball
from discreet.losses import Huber, Quantile
from discreet.recipes import scaled_descent
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit

recipe = partial(scaled_descent.recipe, scales="residual")
N = 20_000
FACTS: dict[str, Any] = {"row_norm": 2.0, "adjacency": "add-remove", "n_public": N, "random_state": 0}


def table() -> tuple[np.ndarray, np.ndarray]:
    """Targets of scale 1 with heavy tails, which spread more where the first column is large."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(2 * N, 4)) * [1.0, 0.7, 0.5, 0.2]
    return X, X @ [1.0, -1.0, 0.5, 2.0] + (0.5 + 0.3 * X[:, 0]) * rng.standard_t(3, size=2 * N)


def problem(loss: Any, **facts: Any) -> Problem:
    usual = Huber(0.25) if isinstance(loss, Huber) else Quantile(loss.level, 0.05)
    return Problem(facts.pop("rows", RowSpec(4, 2.0, 1.0)), usual, float(N), residual_loss=loss, **facts)


@pytest.mark.parametrize("bounds", [(-5.0, 5.0), (-20.0, 300.0)], ids=str)
def test_without_noise_it_is_scikit_learns_huber_regression(bounds: tuple[float, float]) -> None:
    """Its threshold is 1.35 of a scale that is fitted with the rest, ours 1.345 of the quartiles' distance."""
    X, y = table()
    y = np.clip(y, *bounds)
    expected = HuberRegressor(alpha=0.0).fit(X[:N], y[:N])
    found = dp.HuberRegression(math.inf, row_norm=2.0, target_bounds=bounds).fit(X[:N], y[:N])
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=0.02)
    assert found.intercept_ == pytest.approx(expected.intercept_, abs=0.02)


def test_without_privacy_targets_far_from_the_middle_are_found() -> None:
    """Where no residual is inside a width in half-ranges, the exact minimiser may end where it began."""
    X, y = table()
    found = dp.HuberRegression(math.inf, row_norm=2.0, target_bounds=(-20, 3000)).fit(X[:N], np.maximum(y[:N], -20))
    assert np.median(y[:N] - found.predict(X[:N])) == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize("level", [0.2, 0.5, 0.9])
def test_without_noise_it_is_quantile_regression(level: float) -> None:
    X, y = table()
    few = 4000
    expected = QuantileRegressor(quantile=level, alpha=0.0).fit(X[:few], y[:few])
    model = dp.QuantileRegression(math.inf, quantile=level, row_norm=2.0, target_bounds=(-20, 300))
    found = model.fit(X[:few], np.clip(y[:few], -20, 300))
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=0.12)
    assert found.intercept_ == pytest.approx(expected.intercept_, abs=0.05)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_a_quantile_covers_what_it_says(level: float) -> None:
    """ε = 1, bounds forty times as wide as the targets: within 1.5 points on as many new rows, whose error is 0.2."""
    X, y = table()
    model = dp.QuantileRegression(1.0, quantile=level, target_bounds=(-20, 60), **FACTS)
    model.fit(X[:N], np.clip(y[:N], -20, 60))
    assert model.privacy_.solver == "scaled_descent"
    assert np.mean(y[N:] <= model.predict(X[N:])) == pytest.approx(level, abs=0.015)


@pytest.mark.parametrize("kind", [dp.HuberRegression, dp.QuantileRegression])
def test_what_is_learnt_does_not_depend_on_how_wide_the_bounds_are(kind: Any) -> None:
    X, y = table()
    near, far = (
        kind(1.0, target_bounds=bounds, **FACTS).fit(X[:N], np.clip(y[:N], *bounds)).predict(X[N:])
        for bounds in ((-8.0, 8.0), (-200.0, 300.0))
    )
    truth = X[N:] @ [1.0, -1.0, 0.5, 2.0]
    assert np.sqrt(np.mean((near - truth) ** 2)) < 0.1
    assert np.sqrt(np.mean((far - truth) ** 2)) < 0.1


def test_releases_are_signs_a_second_moment_gradients_a_histogram_and_coverage() -> None:
    unit = Unit("add-remove")
    solver = recipe(problem(Quantile(0.9, 0.25)), Guarantee(1.0, 1e-9, unit), iterations=6)
    plan = rehearse(solver, problem(Quantile(0.9, 0.25)), unit)
    scales = solver.scales
    gradient = events.Gaussian(solver.noise_multiplier)
    assert plan[:16] == [events.Gaussian(scales.scale_multiplier)] * 16
    assert plan[16].noise_multiplier == scales.moment_multiplier
    assert plan[17:19] == [gradient] * 2
    assert plan[19].noise_multiplier == scales.spread_multiplier
    assert plan[20:24] == [gradient] * 4
    assert plan[24:] == [events.Gaussian(scales.coverage_multiplier)] * 4
    assert len(rehearse(recipe(problem(Huber(1.345)), Guarantee(1.0, 1e-9, unit)), problem(Huber(1.345)), unit)) == 59


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("loss", [Huber(1.345), Quantile(0.9, 0.25)], ids=repr)
def test_the_plan_keeps_the_guarantee_and_wastes_little(loss: Any, relation: Any) -> None:
    unit = Unit(relation)
    plan = rehearse(recipe(problem(loss), Guarantee(1.0, 1e-6, unit)), problem(loss), unit)
    assert 0.999 < epsilon(compose(plan), 1e-6, unit).upper <= 1.0


def test_shares_are_those_of_the_options() -> None:
    asked = {"scale_share": 0.1, "moment_share": 0.2, "spread_share": 0.05}
    solver = recipe(problem(Quantile(0.9, 0.25)), Guarantee(1.0, 1e-9, Unit("add-remove")), iterations=9, **asked)
    scales = solver.scales
    spent = {
        "scale_share": 16 / scales.scale_multiplier**2,
        "moment_share": scales.moment_multiplier**-2,
        "spread_share": scales.spread_multiplier**-2,
        "coverage": 4 / scales.coverage_multiplier**2,
        "gradients": 9 / solver.noise_multiplier**2,
    }
    total = sum(spent.values())
    shares = {name: value / total for name, value in spent.items()}
    assert shares == pytest.approx(asked | {"coverage": 0.05, "gradients": 0.6})


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"domain": L2Ball(1.0)}, "constraint"),
        ({"ridge": 0.1}, "ridge"),
        ({"rows": RowSpec(4, 2.0)}, "intercept"),
        ({"rows": RowSpec(4, math.inf, 1.0)}, "row_norm"),
    ],
    ids=str,
)
def test_refusals(changed: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        recipe(problem(Huber(1.345), **changed), Guarantee(1.0, 1e-6, Unit("add-remove")))


def test_a_loss_without_a_width_in_residuals_is_refused() -> None:
    with pytest.raises(InvalidInput, match="target_bounds"):
        recipe(Problem(RowSpec(4, 2.0, 1.0), Huber(0.25), 9.0), Guarantee(1.0, 1e-6, Unit("add-remove")))


def test_shares_that_leave_nothing_are_refused() -> None:
    with pytest.raises(InvalidInput, match="leave some budget"):
        recipe(problem(Quantile(0.5, 0.25)), Guarantee(1.0, 1e-6, Unit("add-remove")), spread_share=0.5)
    with pytest.raises(InvalidInput, match="no option step"):
        recipe(problem(Huber(1.345)), Guarantee(1.0, 1e-6, Unit("add-remove")), step=1.0)


def test_a_declared_width_is_kept() -> None:
    """In half-ranges of the target, by a solver that needs no other."""
    X, y = table()
    for model in (dp.HuberRegression(1.0, width=0.1), dp.QuantileRegression(1.0, smoothing=0.1)):
        model.set_params(target_bounds=(-5, 5), **FACTS).fit(X[:N], np.clip(y[:N], -5, 5))
        assert model.privacy_.solver == "objective_perturbation"
