"""A certificate never states less than a run cost: a run that costs more than it states is not charged and not run."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import discreet as dp
from discreet import accounting, events
from discreet.errors import DiscreetError, PlanViolation
from discreet.geometry import L1Ball
from discreet.ledger import Ledger
from discreet.recipes import RECIPES, descent
from discreet.units import Unit
from discreet.updates import Sgd

X = np.repeat([[0.6, 0.8], [-0.6, -0.8]], 100, axis=0)
Y = np.repeat([1, 0], 100)
OPTIONS: dict[str, dict[str, Any]] = {
    "descent": {"iterations": 8},
    "hard_threshold": {"sparsity": 2},
    "heavy_tailed": {"sparsity": 2},
}


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_a_plan_that_costs_more_than_it_states_is_refused_before_it_is_charged(
    monkeypatch: pytest.MonkeyPatch, adjacency: Any
) -> None:
    monkeypatch.setattr(descent, "recipe", lambda problem, guarantee: descent.Descent(0.5, 4, 1.0, Sgd(0.1)))
    assert accounting.epsilon(events.Repeat(events.Gaussian(0.5), 4), 1e-6, adjacency).lower > 10
    ledger = Ledger()
    model = dp.LogisticRegression(
        1.0, 1e-6, row_norm=1.0, classes=[0, 1], solver="descent", adjacency=adjacency, n_public=200, ledger=ledger
    )
    with pytest.raises(PlanViolation, match="nothing of it was released"):
        model.fit(X, Y)
    assert ledger.history() == ()
    assert not hasattr(model, "privacy_")
    assert not hasattr(model, "coef_")


SCALED = tuple(f"scaled_descent-{scales}" for scales in ("full", "diagonal", "single"))
OPTIONS |= {solver: {"scales": solver.split("-")[1]} for solver in SCALED}
SOLVERS = (*RECIPES, *SCALED)
CASES = list(itertools.product(SOLVERS, ["replace-one", "add-remove"], [1, 3], [(0.3, 1e-6), (4.0, 1e-5), (1.0, 0.0)]))


@pytest.mark.parametrize(("solver", "adjacency", "rows", "target"), CASES)
def test_no_solver_spends_more_than_it_certifies_or_certifies_more_than_it_was_given(
    solver: str, adjacency: Any, rows: int, target: tuple[float, float]
) -> None:
    epsilon, delta = target
    unit, ledger = Unit(adjacency, rows), Ledger()
    model = dp.LinearRegression(
        epsilon, delta, row_norm=1.0, target_bounds=(0, 1), adjacency=adjacency, rows_per_unit=rows, n_public=200,
        solver=solver.split("-")[0], solver_options=OPTIONS.get(solver), ledger=ledger, fit_intercept=solver in SCALED,
        domain=L1Ball(2.0) if solver == "frank_wolfe" else None,
    )  # fmt: skip
    try:
        model.fit(X, Y)
    except DiscreetError:
        assert ledger.history() == ()  # refused as a whole: nothing was charged
        return
    (charge,) = ledger.history()
    assert (charge.event, charge.unit) == (model.privacy_.event, unit)
    cost = accounting.epsilon(charge.event, delta, unit)
    assert cost.upper <= epsilon * (1 + 1e-9)
    assert cost.upper <= model.privacy_.epsilon * (1 + 1e-3)
    assert model.privacy_.epsilon <= epsilon


def test_a_run_that_is_charged_after_its_count_is_refused_where_it_costs_more_than_it_states(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The budget has no room for a promise, only for what two charges add up to; the count stays charged."""
    monkeypatch.setattr(descent, "recipe", lambda problem, guarantee: descent.Descent(7.0, 4, 1.0, Sgd(0.1)))
    ledger = Ledger(epsilon=3.0, delta=1e-5, adjacency="add-remove")
    ledger.charge(events.Repeat(events.Gaussian(8.0), 16), "add-remove")
    model = dp.LogisticRegression(
        1.0, 1e-6, row_norm=1.0, classes=[0, 1], solver="descent", adjacency="add-remove", ledger=ledger
    )
    assert accounting.epsilon(events.Repeat(events.Gaussian(7.0), 4), 1e-6, "add-remove").lower > 1.2
    with pytest.raises(PlanViolation, match="nothing of it was released"):
        model.fit(X, Y)
    _, count = (charge.event for charge in ledger.history())
    assert isinstance(count, events.Laplace)
    assert not hasattr(model, "privacy_")
    assert not hasattr(model, "coef_")


def test_a_run_that_is_charged_after_its_count_is_certified_at_its_guarantee_where_it_keeps_it() -> None:
    ledger = Ledger(epsilon=3.0, delta=1e-5, adjacency="add-remove")
    ledger.charge(events.Repeat(events.Gaussian(8.0), 16), "add-remove")
    model = dp.LinearRegression(
        1.0, 1e-6, row_norm=1.0, target_bounds=(0, 1), solver="descent", adjacency="add-remove", ledger=ledger
    ).fit(X, Y)
    assert len(ledger.history()) == 3
    assert model.privacy_.epsilon == 1.0


def test_a_search_that_costs_more_than_was_asked_for_is_certified_at_what_it_costs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planned = dp.PrivateSearchCV._plan

    def broken(*arguments: Any) -> Any:
        return replace(planned(*arguments), event=events.PureDP(5.0))

    monkeypatch.setattr(dp.PrivateSearchCV, "_plan", broken)
    model = dp.LogisticRegression(row_norm=1.0, classes=[0, 1], solver="descent", solver_options={"iterations": 2})
    search = dp.PrivateSearchCV(model, {"alpha": [0.0]}, epsilon=2.0, delta=1e-6, trials=1).fit(X, Y)
    assert search.privacy_.epsilon == pytest.approx(5.0, rel=1e-5)
