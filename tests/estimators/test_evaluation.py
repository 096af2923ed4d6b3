"""Evaluations: exact on public rows; on private ones charged, bounded, and covered by their intervals."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as reference
from tests.solvers.attacks import proved_epsilon

import discreet as dp
from discreet.accounting import epsilon as accounted
from discreet.data.memory import in_memory
from discreet.errors import BudgetExceeded, InvalidInput
from discreet.estimators.evaluation import _private_rows, _question
from discreet.measurements import Joint
from discreet.noise.bits import Bits
from discreet.units import Unit

RNG = np.random.default_rng(1)
N = 4000
X = RNG.normal(size=(N, 3)) / 3
SCORES = 3 * X @ [1.0, -2.0, 0.5] - 0.5
LABELS = (RNG.random(N) < 1 / (1 + np.exp(-SCORES))).astype(int)
NUMBERS = np.clip(SCORES + RNG.normal(size=N), -5, 5)
COUNTS = RNG.poisson(np.exp(SCORES / 3)).clip(0, 20)
THREE = np.digitize(SCORES + RNG.logistic(size=N), [-1.0, 1.0])


def without_privacy(kind: Any, y: Any, **options: Any) -> Any:
    """A model that is fitted without noise, as a public one."""
    return kind(math.inf, row_norm=2.0, **options).fit(X, y)


LOGISTIC = without_privacy(dp.LogisticRegression, LABELS, classes=[0, 1])
SOFTMAX = without_privacy(dp.LogisticRegression, THREE, classes=[0, 1, 2])
LINEAR = without_privacy(dp.LinearRegression, NUMBERS, target_bounds=(-5, 5))
POISSON = without_privacy(dp.PoissonRegression, COUNTS, target_bounds=(0, 20))
QUANTILE = without_privacy(dp.QuantileRegression, NUMBERS, target_bounds=(-5, 5), quantile=0.8)
SVC = without_privacy(dp.LinearSVC, LABELS, classes=[0, 1])
MODELS = {
    "logistic": (LOGISTIC, LABELS), "softmax": (SOFTMAX, THREE), "linear": (LINEAR, NUMBERS),
    "poisson": (POISSON, COUNTS), "quantile": (QUANTILE, NUMBERS), "svc": (SVC, LABELS),
}  # fmt: skip


def values(found: Any) -> dict[str, float]:
    return {metric.name: metric.value for metric in found.metrics}


# --- what is computed -------------------------------------------------------------------------------------------------


def test_public_rows_have_the_figures_of_scikit_learn() -> None:
    found = values(dp.evaluate(LOGISTIC, X, LABELS, public=True))
    chances = LOGISTIC.predict_proba(X)[:, 1]
    assert found["accuracy"] == pytest.approx(reference.accuracy_score(LABELS, LOGISTIC.predict(X)))
    assert found["auc"] == pytest.approx(reference.roc_auc_score(LABELS, chances))
    assert found["log_loss"] == pytest.approx(reference.log_loss(LABELS, chances))
    found = values(dp.evaluate(SOFTMAX, X, THREE, public=True))
    assert found["accuracy"] == pytest.approx(SOFTMAX.score(X, THREE))
    assert found["log_loss"] == pytest.approx(reference.log_loss(THREE, SOFTMAX.predict_proba(X)))
    found = values(dp.evaluate(LINEAR, X, NUMBERS, public=True))
    assert found["r2"] == pytest.approx(LINEAR.score(X, NUMBERS))
    assert found["rmse"] == pytest.approx(reference.root_mean_squared_error(NUMBERS, LINEAR.predict(X)))
    found = values(dp.evaluate(POISSON, X, COUNTS, public=True))
    assert found["deviance"] == pytest.approx(reference.mean_poisson_deviance(COUNTS, POISSON.predict(X)))
    assert found["d2"] == pytest.approx(reference.d2_tweedie_score(COUNTS, POISSON.predict(X), power=1))
    found = values(dp.evaluate(QUANTILE, X, NUMBERS, public=True))
    assert found["pinball_loss"] == pytest.approx(reference.mean_pinball_loss(NUMBERS, QUANTILE.predict(X), alpha=0.8))


@pytest.mark.parametrize("name", MODELS)
def test_without_noise_the_release_says_what_public_rows_say(name: str) -> None:
    """Up to the width of the bins, and to the clip of one row's deviance."""
    model, y = MODELS[name]
    exact, released = dp.evaluate(model, X, y, public=True), dp.evaluate(model, X, y, epsilon=math.inf)
    assert not released.private
    assert released.rows == exact.rows == N
    for metric in exact.metrics:
        found = released[metric.name]
        assert found.value == pytest.approx(metric.value, abs=0.012)
        if metric.guess is not None:
            assert found.guess == pytest.approx(metric.guess, abs=1e-6) or name == "quantile"


def test_the_guess_is_the_commonest_class_or_the_mean() -> None:
    found = dp.evaluate(LOGISTIC, X, LABELS, public=True)
    assert found["accuracy"].guess == pytest.approx(max(LABELS.mean(), 1 - LABELS.mean()))
    assert found["auc"].guess == 0.5
    assert dp.evaluate(LINEAR, X, NUMBERS, public=True)["rmse"].guess == pytest.approx(NUMBERS.std())


def test_rows_without_a_known_target_count_nowhere() -> None:
    some = LABELS.astype(object)
    some[:1000:2], some[1:1000:2] = None, "unheard of"
    rows, known = X.copy(), slice(1000, None)
    exact = dp.evaluate(LOGISTIC, rows[known], LABELS[known], public=True)
    assert values(dp.evaluate(LOGISTIC, rows, some, public=True)) == pytest.approx(values(exact))
    released = dp.evaluate(LOGISTIC, rows, some, epsilon=math.inf)
    assert released.rows == 3000
    assert released["accuracy"].value == exact["accuracy"].value
    numbers = NUMBERS.copy()
    numbers[:1000] = np.nan
    assert dp.evaluate(LINEAR, rows, numbers, epsilon=math.inf).rows == 3000


# --- what is protected ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("unit", [Unit("replace-one"), Unit("add-remove"), Unit("replace-one", 3)], ids=str)
def test_one_charge_of_exactly_epsilon(name: str, unit: Unit) -> None:
    model, y = MODELS[name]
    ledger = dp.Ledger(epsilon=0.7, delta=1e-9, adjacency=unit)
    found = dp.evaluate(model, X, y, epsilon=0.7, adjacency=unit, ledger=ledger)
    assert found.private
    (charge,) = ledger.history()
    assert charge.stated is not None
    assert charge.stated.epsilon == 0.7
    assert found.event is not None
    spent = accounted(found.event, 0.0, unit).upper
    assert 0.7 * (1 - 1e-6) <= spent <= 0.7
    with pytest.raises(BudgetExceeded):
        dp.evaluate(model, X, y, epsilon=0.1, adjacency=unit, ledger=ledger)
    assert len(ledger.history()) == 1


UP = 2 * LINEAR.coef_[None, :] / np.linalg.norm(LINEAR.coef_)  # the largest prediction that there is
ATTACKED = {  # a model, and a row with its coded target in either world, such that contributions differ most
    "logistic": (LOGISTIC, (UP, 1.0), (UP, -1.0)),
    "linear": (LINEAR, (UP, -1.0), (-0.5 * (LINEAR.intercept_ + 1) / (2 * np.linalg.norm(LINEAR.coef_)) * UP, 0.0)),
}


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("name", ATTACKED)
def test_an_attack_on_what_is_released(name: str, relation: str) -> None:
    """One row that is another one, or which is not there; the statistic is the exact likelihood ratio.

    Laplace noise on whole numbers, b in scale: log P(a)/Q(a) = Σ (|a − t'| − |a − t|)/b. At half the noise it exceeds
    the claim, which 2000 runs prove; a false alarm has probability 1e-3 at most.
    """
    unit = Unit(relation)  # type: ignore[arg-type]
    model, *rows = ATTACKED[name]
    spec = _private_rows(model, X[:1], [0]).rows
    question = _question(model, spec, 1.0, 100.0, unit)
    one, other = (in_memory(row, np.array([target]), spec) for row, target in rows)
    if relation == "add-remove":
        other = one.take(np.array([], int))
    claim = accounted(question.measurement(1.0, unit).event(unit), 0.0, unit).upper
    assert claim <= 1.0

    def proved(measurement: Joint) -> float:
        bits = Bits.seeded(3)
        (query,) = question.queries
        (noisy,) = measurement.measurements
        here, there = (query.grid * query.integers(world) for world in (one, other))
        scale = noisy.mechanism.noise_multiplier * query.bound * query.grid

        def ratio(world: Any) -> float:
            (answer,) = measurement.sample(world, unit, bits)
            return float((np.abs(answer - there) - np.abs(answer - here)).sum() / scale)

        return proved_epsilon(*([ratio(world) for _ in range(2000)] for world in (one, other)), 0.0, claim)

    (noisy,) = question.measurement(1.0, unit).measurements
    assert proved(Joint([noisy])) <= claim
    half = replace(noisy.mechanism, noise_multiplier=noisy.mechanism.noise_multiplier / 2)
    assert proved(Joint([replace(noisy, mechanism=half)])) > claim


@pytest.mark.parametrize("name", ["logistic", "linear", "softmax", "poisson"])
def test_intervals_cover_what_is_true_of_the_rows(name: str) -> None:
    """The figures of 4000 rows themselves, which lie closer to the estimate than those of the population.

    An interval that covers with probability 0.95 misses 14 or more times out of 100 with probability 5e-4; the
    calibration error is covered by construction more often.
    """
    model, y = MODELS[name]
    exact = dp.evaluate(model, X, y, public=True)
    missed = dict.fromkeys(values(exact), 0)
    for seed in range(100):
        found = dp.evaluate(model, X, y, epsilon=0.2, random_state=seed)
        for metric in found.metrics:
            missed[metric.name] += not metric.low <= exact[metric.name].value <= metric.high
    assert max(missed.values()) < 14


@pytest.mark.parametrize("name", ["logistic", "linear", "softmax"])
def test_intervals_cover_what_is_true_of_the_population(name: str) -> None:
    """New rows and new noise each time; 100 000 rows stand for the population.

    An interval that covers with probability 0.95 misses 14 or more times out of 100 with probability 5e-4.
    """
    model, _ = MODELS[name]
    rng = np.random.default_rng(8)

    def drawn(n: int) -> tuple[Any, Any]:
        rows = rng.normal(size=(n, 3)) / 3
        scores = 3 * rows @ [1.0, -2.0, 0.5] - 0.5
        if name == "linear":
            return rows, np.clip(scores + rng.normal(size=n), -5, 5)
        if name == "softmax":
            return rows, np.digitize(scores + rng.logistic(size=n), [-1.0, 1.0])
        return rows, (rng.random(n) < 1 / (1 + np.exp(-scores))).astype(int)

    population = dp.evaluate(model, *drawn(100_000), public=True)
    missed = dict.fromkeys(values(population), 0)
    for seed in range(100):
        rows, y = drawn(600)
        for metric in dp.evaluate(model, rows, y, epsilon=1.0, random_state=seed).metrics:
            missed[metric.name] += not metric.low <= population[metric.name].value <= metric.high
    assert max(missed.values()) < 14


def test_intervals_of_noise_alone_are_not_wider_than_they_need() -> None:
    """At ε = 0.05 noise dominates: errors of 150 releases must spread at least half as far as intervals say."""
    exact = dp.evaluate(LOGISTIC, X, LABELS, public=True)
    found = [dp.evaluate(LOGISTIC, X, LABELS, epsilon=0.05, random_state=seed) for seed in range(150)]
    for name in ("accuracy", "auc", "log_loss"):
        spread = np.std([one[name].value - exact[name].value for one in found])
        widths = np.median([one[name].high - one[name].low for one in found]) / (2 * 1.96)
        assert 0.5 * widths < spread < 1.5 * widths


def test_persons_are_protected_and_count_once_each() -> None:
    """Persons of one to nine rows: whoever has many rows, all of them right, counts no more than others."""
    rng = np.random.default_rng(5)
    who = np.concatenate([np.arange(300), rng.integers(0, 300, 900), np.full(3000, 300)])
    rows, labels = X[rng.integers(0, N, len(who))], rng.integers(0, 2, len(who))
    labels[who == 300] = LOGISTIC.predict(rows[who == 300])
    unit = Unit("replace-one", 3)
    found = dp.evaluate(LOGISTIC, rows, labels, epsilon=20.0, adjacency=unit, groups=who)
    assert found.unit is not None
    assert found.unit.enforced
    assert "3 rows a person, enforced" in found.privacy
    assert found.rows == pytest.approx(3 * 301, abs=60)
    assert abs(found["accuracy"].value - 0.5) < 0.15  # by rows it would be 0.86
    public = dp.evaluate(LOGISTIC, rows, labels, public=True)
    assert public["accuracy"].value > 0.8
    with pytest.raises(InvalidInput, match="one id a row"):
        dp.evaluate(LOGISTIC, rows, labels, epsilon=1.0, adjacency=unit, groups=who[:-1])


def test_intervals_of_people_with_several_rows_are_wider() -> None:
    one = dp.evaluate(LOGISTIC, X, LABELS, epsilon=1e4)["accuracy"]
    several = dp.evaluate(LOGISTIC, X, LABELS, epsilon=1e4, adjacency=Unit("replace-one", 4))["accuracy"]
    assert (several.high - several.low) / (one.high - one.low) == pytest.approx(2.0, rel=0.05)


# --- what is refused --------------------------------------------------------------------------------------------------


def test_rows_are_private_unless_they_are_said_to_be_public() -> None:
    with pytest.raises(InvalidInput, match="private unless"):
        dp.evaluate(LOGISTIC, X, LABELS)
    with pytest.raises(InvalidInput, match="public rows cost no"):
        dp.evaluate(LOGISTIC, X, LABELS, public=True, epsilon=1.0)
    with pytest.raises(InvalidInput, match="leave out ledger"):
        dp.evaluate(LOGISTIC, X, LABELS, public=True, ledger=dp.Ledger())
    assert not dp.evaluate(LOGISTIC, X, LABELS, public=True).private
    assert not dp.evaluate(LOGISTIC, X, LABELS, epsilon=1.0, random_state=0).private


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, True, "1", 1e9])
def test_a_wrong_epsilon_is_refused_before_a_charge(epsilon: Any) -> None:
    ledger = dp.Ledger()
    with pytest.raises(InvalidInput, match="epsilon"):
        dp.evaluate(LOGISTIC, X, LABELS, epsilon=epsilon, ledger=ledger)
    assert not ledger.history()


def test_models_without_bounds_are_for_public_rows() -> None:
    unbounded = dp.LogisticRegression(math.inf, classes=[0, 1]).fit(X, LABELS)
    with pytest.raises(InvalidInput, match="row_norm"):
        dp.evaluate(unbounded, X, LABELS, epsilon=1.0)
    assert dp.evaluate(unbounded, X, LABELS, public=True)["accuracy"].value > 0.6
    numbers = dp.LinearRegression(math.inf, row_norm=2.0).fit(X, NUMBERS)
    with pytest.raises(InvalidInput, match="target_bounds"):
        dp.evaluate(numbers, X, NUMBERS, epsilon=1.0)


def test_wild_rows_and_targets_change_no_shape_and_raise_nothing() -> None:
    wild = X[:8].copy()
    wild[0], wild[1], wild[2] = np.nan, np.inf, 1e300
    labels = np.array([None, "x", 10**400, [1], 1, 0, math.nan, True], dtype=object)
    for model, y in ((LOGISTIC, labels), (SOFTMAX, labels), (LINEAR, labels), (POISSON, labels), (QUANTILE, labels)):
        plain = dp.evaluate(model, X[:8], LABELS[:8], epsilon=1.0)
        found = dp.evaluate(model, wild, y, epsilon=1.0)
        assert [m.name for m in found.metrics] == [m.name for m in plain.metrics]
        assert all(m.low <= m.value <= m.high for m in found.metrics)
        assert found.to_json()


def test_other_things_are_no_models() -> None:
    with pytest.raises(InvalidInput, match="linear model"):
        dp.evaluate("model.npz", X, LABELS, public=True)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="as many rows"):
        dp.evaluate(LOGISTIC, X, LABELS[:-1], public=True)
    with pytest.raises(InvalidInput, match=r"no metric 'acuracy'.*Did you mean"):
        dp.evaluate(LOGISTIC, X, LABELS, public=True)["acuracy"]
