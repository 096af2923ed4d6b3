"""Simulated sweeps over ε: synthetic rows of the declared shape, and what is concluded from them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import discreet as dp
from discreet.data.encoding import Encoder
from discreet.errors import InvalidInput
from discreet.estimators import simulation
from discreet.estimators.simulation import simulate
from discreet.report.sweep import Sweep

SCHEMA = dp.Schema({
    "age": dp.Numeric(17, 90), "visits": dp.Numeric(0, 5000, integer=True), "smoker": dp.Boolean("no", "yes"),
    "job": dp.Categorical(["clerk", "nurse"]), "id": dp.Ignore(), "sick": dp.Boolean(),
})  # fmt: skip
ENCODER = Encoder(SCHEMA, target="sick")
LOGISTIC = dp.LogisticRegression(row_norm=1.0, classes=[0, 1])


@pytest.fixture(autouse=True)
def two_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "_REPEATS", 2)


def test_synthetic_cells_are_as_declared() -> None:
    table = simulation._table(ENCODER, 2000, np.random.default_rng(0))
    assert set(table) == {"age", "visits", "smoker", "job"}
    assert dp.check(table, SCHEMA.without("sick"), epsilon=math.inf).suspects == {}
    assert set(table["job"]) == {"clerk", "nurse"}
    assert (table["visits"] == np.rint(table["visits"])).all()
    assert np.median(table["visits"]) < 500  # even on its own scale, which is logarithmic


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_more_privacy_is_less_accuracy(adjacency: str) -> None:
    model = dp.LogisticRegression(row_norm=1.0, classes=[0, 1], adjacency=adjacency)
    found = simulate(model, ENCODER, 2000, epsilons=(0.01, 8.0))
    assert found.metric == "accuracy"
    assert found.d == ENCODER.n_features
    assert found.scores[0] < found.scores[1] <= found.baseline + 0.02
    assert found.guess < found.baseline - 0.1
    assert found == simulate(model, ENCODER, 2000, epsilons=(8.0, 0.01))  # reproducible: nobody is protected here


@pytest.mark.parametrize(
    "model",
    [
        dp.LogisticRegression(row_norm=1.0, classes=[0, 1, 2]),
        dp.LinearRegression(row_norm=1.0, target_bounds=(10, 30)),
        dp.PoissonRegression(row_norm=1.0, target_bounds=(0, 40)),
        dp.LinearSVC(row_norm=1.0, classes=[0, 1]),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_kind_of_target_can_be_learnt(model: Any) -> None:
    found = simulate(model, ENCODER, 3000, epsilons=(8.0,))
    assert found.baseline > found.guess + 0.1
    assert found.scores[0] > found.guess


def test_many_rows_are_simulated_by_fewer_at_a_larger_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "_MOST_SIMULATED", 1000)
    asked: list[float] = []
    fit = dp.LogisticRegression.fit

    def watched(self: Any, X: Any, y: Any) -> Any:
        asked.append(self.epsilon)
        return fit(self, X, y)

    monkeypatch.setattr(dp.LogisticRegression, "fit", watched)
    found = simulate(LOGISTIC, ENCODER, 10_000, epsilons=(0.1,))
    assert (found.n, found.simulated) == (10_000, 1000)
    assert set(asked) == {1.0, math.inf}


SWEEP = Sweep("accuracy", 1000, 10, 1000, 5, (0.1, 1.0, 10.0), (0.6, 0.76, 0.8), 0.8, 0.5)


def test_what_is_concluded_from_a_sweep() -> None:
    # 4 points lost at 1 and none at 10: one point three quarters of the way, in log ε
    assert SWEEP.enough == pytest.approx(10**0.75)
    assert "within 1 point of accuracy of no privacy from ε ≈ 5.6" in SWEEP.verdict
    assert SWEEP.rows_for(10.0) == 1000
    assert SWEEP.rows_for(0.1) == 57_000
    never = replace(SWEEP, scores=(0.6, 0.7, 0.75))
    assert (never.enough, never.rows_for(1.0)) == (None, None)
    assert "not within 1 point" in never.verdict
    always = replace(SWEEP, scores=(0.795, 0.8, 0.8), metric="R²")
    assert always.enough == 0.1
    assert "within 0.01 of R² of no privacy from ε ≈ 0.1 or less" in always.verdict
    luck = replace(SWEEP, scores=(0.795, 0.7, 0.8))  # a lucky score at a smaller ε counts for nothing
    assert luck.enough is not None
    assert luck.enough > 1


def test_a_number_of_rows_that_cannot_be_is_refused() -> None:
    for n in (1, 10**12):
        with pytest.raises(InvalidInput, match="n must be between"):
            simulate(LOGISTIC, ENCODER, n)
