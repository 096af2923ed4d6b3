"""Models with intervals: tables, contrasts, the gate, files, and that all of it follows from released values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import discreet as dp
from discreet.errors import InvalidInput, NotEstimable
from discreet.estimators.inference import Released, coefficient_table
from discreet.estimators.intervals import Intervals

N = 6000
RNG = np.random.default_rng(5)
AGE, JOB, SMOKES = RNG.uniform(20, 60, N), RNG.choice(["clerk", "nurse"], N, p=[0.7, 0.3]), RNG.random(N) < 0.4
TABLE = {"age": AGE, "job": JOB, "smokes": np.where(SMOKES, "yes", "no")}
SCHEMA = dp.Schema({"age": dp.Numeric(0, 100), "job": dp.Categorical(["clerk", "nurse"]), "smokes": dp.Boolean()})
WAGES = 10 + 0.2 * AGE + 3.0 * (JOB == "nurse") - 2.0 * SMOKES + RNG.normal(0, 2, N)
NURSE = "job=nurse + job=other"
TRUTH = {"intercept": 10.0, "age": 0.2, NURSE: 3.0, "smokes: yes": -2.0}
PUBLIC: dict[str, Any] = {"schema": SCHEMA, "target_bounds": (0.0, 40.0), "inference": True}


@pytest.fixture(scope="module")
def model() -> Any:
    return dp.LinearRegression(4.0, 1e-6, random_state=1, **PUBLIC).fit(TABLE, WAGES)


def test_coefficients_are_in_natural_units_against_reference_levels(model: Any) -> None:
    """Each of four estimates is within 4.5 standard errors of the truth: wrong with probability 3e-5."""
    lines = {line.name: line for line in coefficient_table(model)}
    assert list(lines) == list(TRUTH)
    for name, value in TRUTH.items():
        assert abs(lines[name].estimate - value) < 4.5 * lines[name].standard_error
        assert lines[name].standard_error < 0.5 * abs(value)
    assert [line.column for line in lines.values()] == ["intercept", "age", "job", "smokes"]
    notes = " ".join(model.summary().notes)
    assert "reference of job: job=clerk" in notes
    assert "too few rows" in notes  # nobody is of another job


def test_without_privacy_the_table_is_the_textbook_s() -> None:
    found = dp.LinearRegression(math.inf, **PUBLIC).fit(TABLE, WAGES)
    Z = np.column_stack([np.ones(N), AGE, JOB == "nurse", SMOKES]).astype(float)
    theta, (square,) = np.linalg.lstsq(Z, WAGES, rcond=None)[:2]
    error = np.sqrt(np.diag(np.linalg.inv(Z.T @ Z)) * square / (N - 4))
    np.testing.assert_allclose([line.estimate for line in found.summary().lines], theta, rtol=1e-6)
    np.testing.assert_allclose([line.standard_error for line in found.summary().lines], error, rtol=1e-5)
    assert found.predict(TABLE) == pytest.approx(Z @ theta, rel=1e-6)


def test_intervals_tests_and_contrasts_come_from_one_covariance(model: Any) -> None:
    lines, covariance = model.summary(0.9).lines, model.cov_params()
    np.testing.assert_allclose(model.conf_int(0.9), [[line.low, line.high] for line in lines])
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), [line.standard_error for line in lines])
    assert lines[1].high - lines[1].low == pytest.approx(2 * 1.6448536 * lines[1].standard_error)
    both = model.contrast({NURSE: 1, "smokes: yes": 1})
    assert both.estimate == pytest.approx(lines[2].estimate + lines[3].estimate)
    assert both.standard_error == pytest.approx(math.sqrt(covariance[2:, 2:].sum()))
    assert model.contrast([0, 0, 1, 1]) == both
    assert 0 <= both.p <= 1
    with pytest.raises(InvalidInput, match="Did you mean 'smokes: yes'"):
        model.contrast({"smokes: ye": 1})
    with pytest.raises(InvalidInput, match="4 weights"):
        model.contrast([1.0])
    with pytest.raises(InvalidInput, match="level"):
        model.conf_int(95)


def test_everything_follows_from_released_values_and_public_facts(model: Any, tmp_path: Any) -> None:
    released = model.released_
    again = Released(released.answers, released.solver, released.problem).estimate()
    coefficients = np.append(model.coef_, 0.0)
    np.testing.assert_allclose(again.theta[:-1] * 20.0, coefficients[:-1])  # targets are coded by half their range
    model.save(tmp_path / "wages.npz")
    loaded = dp.load(tmp_path / "wages.npz")
    np.testing.assert_array_equal(loaded.cov_params(), model.cov_params())
    assert str(loaded.summary()) == str(model.summary())
    assert loaded.predict(TABLE)[0] == model.predict(TABLE)[0]
    assert model.privacy_.solver == "intervals"
    assert len(released.answers) == 7
    with pytest.raises(InvalidInput, match="not the released values"):
        Released(released.answers[:-1], released.solver, released.problem).estimate()


def test_a_model_fitted_without_inference_says_so_and_offers_nothing() -> None:
    plain = dp.LinearRegression(4.0, random_state=0, schema=SCHEMA, target_bounds=(0.0, 40.0)).fit(TABLE, WAGES)
    words = str(plain.summary())
    assert "without inference=True" in words
    assert "std. error" not in words
    for ask in (plain.conf_int, plain.cov_params, lambda: plain.contrast({}), plain.marginal_effects):
        with pytest.raises(NotEstimable, match="inference=True"):
            ask()


def test_where_noise_hides_the_hessian_coefficients_stay_and_intervals_do_not() -> None:
    few = {name: column[:300] for name, column in TABLE.items()}
    found = dp.LinearRegression(0.2, random_state=0, **PUBLIC).fit(few, WAGES[:300])
    words = str(found.summary())
    assert "not estimable at this ε: needs about n ≥" in words
    assert "std. error" not in words
    assert np.isfinite(found.coef_).all()
    for ask in (found.conf_int, found.cov_params, lambda: found.contrast([1, 0, 0]), found.marginal_effects):
        with pytest.raises(NotEstimable, match="needs about n ≥"):
            ask()
    assert all(math.isnan(line.low) for line in coefficient_table(found))


def test_robust_intervals_are_one_release_more(model: Any) -> None:
    robust = dp.LinearRegression(4.0, 1e-6, random_state=1, robust=True, **PUBLIC).fit(TABLE, WAGES)
    assert len(robust.released_.answers) == len(model.released_.answers) + 1
    assert "robust" in str(robust.summary())
    ratio = np.sqrt(np.diag(robust.cov_params()) / np.diag(model.cov_params()))
    assert ((ratio > 0.7) & (ratio < 1.6)).all()


def test_counts_are_modelled_as_they_are() -> None:
    """Counts of mean e^z: each of two estimates is within 4.5 standard errors of the truth."""
    rng = np.random.default_rng(8)
    X = rng.uniform(-1, 1, (8000, 1))
    y = rng.poisson(np.exp(0.5 + 0.8 * X.ravel()))
    found = dp.PoissonRegression(4.0, 1e-6, row_norm=1.0, target_bounds=(0, 50), inference=True, random_state=2).fit(
        X, y
    )
    lines = found.summary().lines
    for line, truth in zip(lines, (0.5, 0.8), strict=True):
        assert abs(line.estimate - truth) < 4.5 * line.standard_error
    assert found.predict(np.zeros((1, 1)))[0] == pytest.approx(math.exp(lines[0].estimate))


def test_average_marginal_effects_of_a_line_are_its_coefficients(model: Any) -> None:
    found, lines = model.marginal_effects(0.9), model.summary(0.9).lines
    assert [line.name for line in found.lines] == ["age", NURSE, "smokes: yes"]
    for effect, line in zip(found.lines, lines[1:], strict=True):
        assert effect == pytest.approx(line)
    assert "average marginal effects" in str(found)
    assert "reference of job: job=clerk" in found.notes


def test_average_marginal_effects_of_classes_are_slopes_of_the_probability(tmp_path: Any) -> None:
    """Against the slopes of the true probability: each of three within 4.5 standard errors."""
    score = -2.0 + 0.05 * AGE + 0.8 * (JOB == "nurse") - 0.5 * SMOKES
    y = np.random.default_rng(3).random(N) < 1 / (1 + np.exp(-score))
    found = dp.LogisticRegression(8.0, 1e-6, schema=SCHEMA, classes=[0, 1], inference=True, random_state=4)
    found.fit(TABLE, y.astype(int))
    average = float(np.mean(np.exp(-score) / (1 + np.exp(-score)) ** 2))
    effects = found.marginal_effects()
    for line, truth in zip(effects.lines, (0.05, 0.8, -0.5), strict=True):
        assert abs(line.estimate - average * truth) < 4.5 * line.standard_error
        assert line.standard_error < 0.5 * abs(average * truth)
    found.save(tmp_path / "smokers.npz")
    assert str(dp.load(tmp_path / "smokers.npz").marginal_effects()) == str(effects)


def test_curves_have_no_average_marginal_effect() -> None:
    curved = dp.Schema({"age": dp.Numeric(0, 100, encoding="spline", bins=3), "smokes": dp.Boolean("no", "yes")})
    settings: dict[str, Any] = {"target_bounds": (0.0, 40.0), "inference": True}
    columns = {"age": AGE, "smokes": TABLE["smokes"]}
    found = dp.LinearRegression(math.inf, schema=curved, **settings).fit(columns, WAGES).marginal_effects()
    assert [line.name for line in found.lines] == ["smokes: yes"]
    assert any("left out" in note and "age" in note for note in found.notes)
    alone = dp.LinearRegression(math.inf, schema=curved.without("smokes"), **settings).fit({"age": AGE}, WAGES)
    with pytest.raises(NotEstimable, match="no column"):
        alone.marginal_effects()


def test_rows_of_one_person_are_no_more_than_one_observation() -> None:
    """Each person has one row, which takes part three times: standard errors are still those of one row a person.

    At ε = 300 noise is small, so that they are those of the table without privacy, a little more for it.
    """
    people = {"epsilon": 300.0, "delta": 1e-6, "adjacency": "add-remove", "n_public": N, "random_state": 0}
    repeated = dp.LinearRegression(rows_per_unit=3, **people, **PUBLIC).fit(TABLE, WAGES, groups=np.arange(N))
    plain = dp.LinearRegression(math.inf, **PUBLIC).fit(TABLE, WAGES)
    ratio = np.sqrt(np.diag(repeated.cov_params()) / np.diag(plain.cov_params()))
    assert ((ratio > 0.95) & (ratio < 1.2)).all()


def test_naming_the_solver_is_asking_for_intervals() -> None:
    """Counts are then not scaled by their bounds, and levels have references."""
    rng = np.random.default_rng(8)
    X = rng.uniform(-1, 1, (3000, 1))
    y = rng.poisson(np.exp(0.5 + 0.8 * X.ravel()))
    public: dict[str, Any] = {"row_norm": 1.0, "target_bounds": (0, 50), "random_state": 2}
    named = dp.PoissonRegression(4.0, 1e-6, solver="intervals", **public).fit(X, y)
    asked = dp.PoissonRegression(4.0, 1e-6, inference=True, **public).fit(X, y)
    assert str(named.summary()) == str(asked.summary())
    assert named.predict(X)[0] == asked.predict(X)[0]


CROSSED = dp.Schema(dict(SCHEMA), crosses=[("job", "smokes")])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"schema": CROSSED, "inference": True}, "without products of columns"),
        ({"solver": "descent", "inference": True}, "chooses the solver"),
        ({"robust": True}, "inference=True, too"),
        ({"inference": True, "alpha": 0.1}, "ridge"),
    ],
)
def test_contradictions_are_refused_before_anything_is_spent(settings: dict[str, Any], words: str) -> None:
    ledger = dp.Ledger(epsilon=1.0, delta=1e-3, adjacency="replace-one")
    public = {"schema": SCHEMA, "target_bounds": (0, 40), "ledger": ledger}
    with pytest.raises(InvalidInput, match=words):
        dp.LinearRegression(1.0, 1e-6, **public | settings).fit(TABLE, WAGES)
    assert not ledger.history()


def test_three_classes_have_no_intervals() -> None:
    with pytest.raises(InvalidInput, match="two classes"):
        dp.LogisticRegression(1.0, 1e-6, row_norm=1.0, classes=[0, 1, 2], inference=True).fit(
            np.zeros((9, 1)), [0, 1, 2] * 3
        )


def test_a_knot_s_curve_and_a_linear_column_are_both_estimated() -> None:
    curved = dp.Schema({"age": dp.Numeric(0, 100, encoding="spline", bins=3), "smokes": dp.Boolean("no", "yes")})
    found = dp.LinearRegression(math.inf, schema=curved, target_bounds=(0.0, 40.0), inference=True)
    found.fit({"age": AGE, "smokes": TABLE["smokes"]}, WAGES)
    assert [line.name for line in found.summary().lines] == ["intercept", "age ~ 50", "age ~ 100", "smokes: yes"]
    assert found.summary().lines[1].estimate == pytest.approx(0.2 * 50, abs=1.0)


def test_quality_below_one_is_no_interval() -> None:
    faint = Intervals(("a",), ("a",), np.ones(1), np.ones((1, 1)), 0.99, "needs more")
    assert not faint.estimable
    with pytest.raises(NotEstimable, match="needs more"):
        faint.interval()
