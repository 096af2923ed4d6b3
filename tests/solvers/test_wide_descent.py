"""Wide descent: what it releases, what its survey finds, that it is no worse than a constant, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest

import discreet as dp
from discreet.accounting import epsilon
from discreet.calibration import Guarantee
from discreet.calibration.rehearse import drive, rehearse
from discreet.data.memory import in_memory
from discreet.errors import InvalidInput
from discreet.events import compose
from discreet.geometry import L2Ball
from discreet.losses import Huber, Squared
from discreet.measurements import Noisy
from discreet.recipes import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.wide_descent import Survey, WideDescent, default
from discreet.units import Unit

ADD, REPLACE = Unit("add-remove"), Unit("replace-one")
COLUMNS = 1200
WIDE = Problem(RowSpec(COLUMNS, 1.0, 0.5), Squared(), 300.0)


def wide_rows(n: int, seed: int, norm: float = 1.0):
    """Rows of two strong directions among many columns, and a target that they explain by nine tenths."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((n, 2))
    X = factors @ rng.standard_normal((2, COLUMNS)) + 0.3 * rng.standard_normal((n, COLUMNS))
    X *= norm / 3 / math.sqrt(COLUMNS)
    return X, 7.0 + factors @ [1.0, -1.0] / math.sqrt(2) + 0.3 * rng.standard_normal(n)


def model(eps: float, **changes):
    facts = {"target_bounds": (0.0, 10.0), "row_norm": 1.0, "adjacency": "add-remove", "random_state": 1}
    n = changes.pop("n", 300)
    return dp.LinearRegression(eps, **{**facts, "n_public": n, "delta": 1 / n**2, **changes})


@pytest.mark.parametrize("unit", [ADD, REPLACE], ids=lambda unit: unit.relation)
@pytest.mark.parametrize(("eps", "releases"), [(0.05, 16), (8.0, None)])
def test_the_plan_spends_what_was_asked_for(unit, eps, releases):
    guarantee = Guarantee(eps, 1e-6, unit)
    solver = default(WIDE, guarantee)
    plan = rehearse(solver, WIDE, unit)
    assert len(plan) == (releases or 16 + solver.iterations + 1)
    assert eps * 0.999 <= epsilon(compose(plan), 1e-6, unit).upper <= eps


def survey_of(X, y, noise=1e-6):
    """The survey of a run, driven by hand on the rows themselves."""
    rows = RowSpec(X.shape[1], 1.0, 0.5)
    problem = Problem(rows, Squared(), float(len(y)))
    data, found = in_memory(X, y, rows), []

    class Noting(WideDescent):
        def sizes(self, problem, survey: Survey):
            found.append(survey)
            return super().sizes(problem, survey)

    def answer(measurement):
        assert isinstance(measurement, Noisy)
        return measurement.query.grid * measurement.query.integers(data)

    drive(Noting(noise, noise, noise, 1, 1.0, 0.3).steps(problem), answer)
    return found[0]


@pytest.mark.parametrize(("centre", "spread"), [(0.0, 0.3), (0.7, 0.1), (-0.9, 0.03), (0.4, 0.02)])
def test_the_survey_finds_centre_and_spread_wherever_they_are(centre, spread):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, COLUMNS)) * spread / math.sqrt(COLUMNS) + 0.5 / math.sqrt(COLUMNS)
    survey = survey_of(X, centre + spread * rng.standard_normal(400))
    assert survey.centre == pytest.approx(centre, abs=0.5 * spread)
    assert survey.spread == pytest.approx(spread, rel=0.35)
    assert survey.reach == pytest.approx(spread, rel=0.35)


def test_weights_are_learnt_where_noise_allows():
    X, y = wide_rows(4300, 0)
    fitted = model(8.0).fit(X[:300], y[:300])
    assert fitted.privacy_.solver == "wide_descent"
    assert fitted.score(X[300:], y[300:]) > 0.6


def test_under_strong_noise_the_model_is_a_constant_near_the_centre():
    X, y = wide_rows(4300, 0)
    fits = [model(0.1, random_state=seed).fit(X[:300], y[:300]) for seed in range(5)]
    assert not any(fitted.coef_.any() for fitted in fits)
    assert len({fitted.n_iter_ for fitted in fits}) == 1
    scores = [fitted.score(X[300:], y[300:]) for fitted in fits]
    assert np.mean(scores) > -0.3  # the middle of the bounds is at −3.6
    assert 1 - ((y[300:] - 5.0) ** 2).mean() / y[300:].var() < -3


def test_targets_that_rows_say_nothing_of_cost_little_more_than_a_constant():
    X, y = wide_rows(4300, 0)
    y = np.random.default_rng(5).permutation(y)
    scores = [model(4.0, random_state=seed).fit(X[:300], y[:300]).score(X[300:], y[300:]) for seed in range(5)]
    assert np.mean(scores) > -0.15
    assert model(4.0).fit(X[:300], y[:300]).coef_.any()


def test_the_offset_is_of_the_mean_though_gradients_are_of_the_median():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((2000, COLUMNS)) / math.sqrt(COLUMNS) / 2
    y = rng.exponential(size=2000)  # mean 1, median 0.69
    fitted = model(8.0, n=2000).fit(X, y)
    assert float(np.mean(fitted.predict(X))) == pytest.approx(1.0, abs=0.1)


def test_units_of_rows_and_targets_do_not_matter():
    """Rows in other units and a target in other units, with bounds to match: the same noise, the same predictions."""
    X, y = wide_rows(320, 2)
    plain = model(2.0).fit(X[:300], y[:300]).predict(X[300:])
    longer = model(2.0, row_norm=256.0).fit(256 * X[:300], y[:300]).predict(256 * X[300:])
    shifted = model(2.0, target_bounds=(100.0, 140.0)).fit(X[:300], 100 + 4 * y[:300]).predict(X[300:])
    np.testing.assert_allclose(longer, plain, rtol=1e-9)
    np.testing.assert_allclose(shifted, 100 + 4 * plain, rtol=1e-4)  # rounding of coded targets
    bounded = default(WIDE, Guarantee(8.0, 1e-6, ADD), target_bound=3.0)
    assert bounded.target_bound == 3.0


def test_without_privacy_it_is_plain_descent():
    X, y = wide_rows(120, 4)
    free = model(math.inf, solver="wide_descent", solver_options={"iterations": 3000}, n=120).fit(X, y)
    assert free.score(X, y) > 0.9
    assert free.n_iter_ == 3000


def test_more_noise_goes_less_far():
    quiet, loud = (default(WIDE, Guarantee(eps, 1e-6, ADD)) for eps in (8.0, 3.0))
    assert quiet.travel > loud.travel
    assert quiet.iterations >= loud.iterations
    survey = Survey(0.0, 0.2, 0.5)
    assert quiet.sizes(WIDE, survey)[0] == pytest.approx(0.08 * 0.2 * WIDE.rows.radius)


@pytest.mark.parametrize(
    ("changes", "options", "words"),
    [
        ({"loss": Huber(1.0)}, {}, "squared loss"),
        ({"ridge": 0.1}, {}, "ridge 0.1"),
        ({"domain": L2Ball(1.0)}, {}, "L2Ball"),
        ({"rows": RowSpec(COLUMNS, 1.0)}, {}, "intercept"),
        ({"rows": RowSpec(COLUMNS, math.inf, 1.0)}, {}, "row_norm"),
        ({}, {"survey_share": 0.97}, "shares"),
        ({}, {"survey_share": 0.5, "offset_share": 0.5}, "shares"),
        ({"n": 20.0}, {"clip": 0.1}, "no effect"),
    ],
)
def test_what_it_cannot_do_is_refused(changes, options, words):
    facts = {"rows": WIDE.rows, "loss": Squared(), "n": 300.0} | changes
    with pytest.raises(InvalidInput, match=words):
        recipe("wide_descent")(Problem(**facts), Guarantee(1.0, 1e-6, ADD), **options)


def test_pure_privacy_is_refused():
    with pytest.raises(InvalidInput, match="pure DP"):
        default(WIDE, Guarantee(1.0, 0.0, ADD))


def test_weights_can_be_asked_for_under_strong_noise():
    guarantee = Guarantee(0.05, 1e-6, ADD)
    assert default(WIDE, guarantee).iterations == 0
    assert default(WIDE, guarantee, iterations=7).iterations == 7
    assert default(WIDE, guarantee, survey_share=0.5).iterations >= 32
