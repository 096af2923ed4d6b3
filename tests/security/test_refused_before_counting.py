"""Under add-remove the rows are counted first: a run that the budget cannot pay must not spend on the count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import discreet as dp
from discreet.errors import BudgetExceeded
from discreet.events import Compose, Gaussian, Laplace, Promise, PureDP

X, Y = np.repeat([[0.6, 0.8], [-0.6, -0.8]], 200, axis=0), np.repeat([1, 0], 200)
COMMON: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "row_norm": 1.0, "adjacency": "add-remove"}
MODELS: list[Any] = [
    dp.LogisticRegression(**COMMON, classes=[0, 1]),
    dp.LinearRegression(**COMMON, target_bounds=(0, 1), solver="bias_reduced", solver_options={"iterations": 3}),
    dp.MeanEstimator(**COMMON),
    dp.MeanEstimator(**{**COMMON, "delta": 0.0}),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("budget", [0.5, 0.99])
def test_nothing_is_charged_for_a_run_that_cannot_be_paid(model: Any, budget: float) -> None:
    ledger = dp.Ledger(epsilon=budget, delta=1e-6, adjacency="add-remove")
    with pytest.raises(BudgetExceeded, match="nothing was released"):
        model.set_params(ledger=ledger).fit(X, Y)
    assert ledger.history() == ()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_count_and_run_are_one_charge_that_says_what_was_promised_and_what_was_run(model: Any) -> None:
    ledger = dp.Ledger(epsilon=2.0, delta=1e-5, adjacency="add-remove")
    model.set_params(ledger=ledger).fit(X, Y)
    (charge,) = ledger.history()
    count, promise = charge.event.events  # type: ignore[attr-defined]
    assert isinstance(promise, Promise)
    assert isinstance(count, Laplace)
    assert promise.epsilon + 1 / count.noise_multiplier <= 1.0
    assert charge.stated == (pytest.approx(1.0), promise.delta)
    assert (charge.ran, charge.status) == (model.privacy_.event, "completed")
    run = Compose(model.privacy_.event.events[1:])
    assert dp.accounting.epsilon(run, promise.delta, "add-remove").upper <= promise.epsilon


def test_require_charges_nothing_and_refuses_what_charges_would(tmp_path: Any) -> None:
    for url in ("memory:", f"sqlite:///{tmp_path / 'budget.db'}"):
        ledger = dp.Ledger(url, epsilon=1.0, delta=1e-6, adjacency="add-remove")
        ledger.require([PureDP(0.5), PureDP(0.5)], "add-remove")
        assert ledger.history() == ()
        ledger.charge(PureDP(0.5), "add-remove")
        for events in ([PureDP(0.3), PureDP(0.3)], [Gaussian(0.1)]):
            with pytest.raises(BudgetExceeded):
                ledger.require(events, "add-remove")
        with pytest.raises(dp.errors.InvalidInput, match="add-remove"):
            ledger.require([PureDP(0.1)], "replace-one")
        assert len(ledger.history()) == 1
    dp.Ledger().require([Gaussian(0.1)], "replace-one")  # without a budget nothing is refused
