"""A ledger keeps its δ when what a promise is used for depends on what was released with it.

The adversary charges a Gaussian release and a promise as one, with the whole of δ. Where the release happens to tell
little it lets the promise fail as often as it may; where it tells much it uses the promise for next to nothing, and
goes on under another rule, which has a δ of its own. Each way keeps the budget; together they would not.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import discreet as dp
from discreet import accounting
from discreet.accounting.exact.pairs import GaussianPair
from discreet.errors import BudgetExceeded, PlanViolation
from discreet.events import Compose, Event, Gaussian, Laplace, Promise, PureDP, Repeat
from discreet.ledger import Ledger
from discreet.recipes import descent

UNIT = "add-remove"
EPSILON, DELTA = 1.0, 1e-6
PROMISE = Promise(0.077, 9.9e-7)
MOST = 1 / accounting.calibrate(Gaussian, EPSILON, DELTA / 4, UNIT)
FIRST, REST = MOST * math.sqrt(0.7), MOST * math.sqrt(0.3) * (1 - 1e-4)


def budget() -> Ledger:
    return Ledger(epsilon=EPSILON, delta=DELTA, adjacency=UNIT)


def test_the_adversary_would_exceed_the_budget_by_a_fifth() -> None:
    """δ(ε) of the better of the two ways at every outcome of the first release, by quadrature over its loss."""
    losses = np.linspace(FIRST**2 / 2 - 9 * FIRST, FIRST**2 / 2 + 12 * FIRST, 100_001)
    likely = norm.pdf(losses, FIRST**2 / 2, FIRST)
    left = EPSILON - losses
    fails = PROMISE.delta + sum(
        (1 - PROMISE.delta) / (1 + math.exp(-loss)) * np.maximum(-np.expm1(np.minimum(left - loss, 0.0)), 0.0)
        for loss in (PROMISE.epsilon, -PROMISE.epsilon)
    )
    goes_on = GaussianPair(REST).profile(left)
    spent = [np.average(way, weights=likely) for way in (fails, goes_on, np.maximum(fails, goes_on))]
    assert spent[0] <= DELTA
    assert spent[1] <= DELTA / 4
    assert spent[2] > 1.2 * DELTA


def test_after_a_promise_that_took_the_whole_of_delta_no_rule_reads_what_it_was_used_for() -> None:
    ledger = budget()
    charge = ledger.charge(Compose([Gaussian(1 / FIRST), PROMISE]), UNIT)
    ledger.fulfil(charge, Gaussian(1e6))
    ledger.release(charge)
    for more in (Gaussian(1 / REST), Gaussian(1e5), PureDP(1e-4)):
        with pytest.raises(BudgetExceeded):
            ledger.charge(more, UNIT)
    assert len(ledger.history()) == 1


def test_a_promise_that_leaves_some_of_delta_can_be_followed() -> None:
    ledger = budget()
    charge = ledger.charge(Compose([Gaussian(1 / FIRST), Promise(1e-3, 1e-9)]), UNIT, stated=(0.999, 0.9e-6))
    ledger.fulfil(charge, Gaussian(1e6))
    ledger.charge(PureDP(1e-4), UNIT)


@pytest.mark.parametrize(
    ("before", "more"),
    [
        ([], True),
        ([Laplace(50.0)], True),
        ([PureDP(0.02)], True),
        ([Repeat(PureDP(2e-4), 1000)], False),  # 0.2-DP, but its Rényi divergence says far less
        ([Gaussian(1e3)], False),  # not pure
    ],
    ids=str,
)
def test_a_first_release_whose_loss_and_divergence_are_near_can_be_followed(before: list[Event], more: bool) -> None:
    """Factor before P(G) in the proof: e^{(α−1)(ε₁ − D_α)} is at most 2 for one Laplace release, e^5 for a thousand."""
    ledger = budget()
    charge = ledger.charge(Compose([*before, Promise(0.7, 9.9e-7)]), UNIT)
    ledger.fulfil(charge, Gaussian(100.0))
    if more:
        ledger.charge(Gaussian(100.0), UNIT)
    else:
        with pytest.raises(BudgetExceeded):
            ledger.charge(Gaussian(100.0), UNIT)


def test_a_crash_between_count_and_run_leaves_everything_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = np.repeat([[0.6, 0.8], [-0.6, -0.8]], 100, axis=0), np.repeat([1, 0], 100)
    path, recipe, planned = tmp_path / "ledger.db", descent.recipe, []

    def crashing(problem: Any, guarantee: Any) -> Any:
        planned.append(problem.n)
        if len(planned) == 2:  # the first is the rehearsal before anything is counted
            raise RuntimeError("the machine failed")
        return recipe(problem, guarantee)

    monkeypatch.setattr(descent, "recipe", crashing)
    model = dp.LogisticRegression(
        EPSILON, DELTA, row_norm=1.0, classes=[0, 1], solver="descent", adjacency=UNIT,
        ledger=Ledger(path, epsilon=EPSILON, delta=DELTA, adjacency=UNIT),
    )  # fmt: skip
    with pytest.raises(RuntimeError):
        model.fit(X, y)
    reopened = Ledger(path)
    (charge,) = reopened.history()
    assert (charge.status, charge.ran) == ("charged", None)
    assert reopened.spent().upper == pytest.approx(EPSILON)
    with pytest.raises(BudgetExceeded):
        model.set_params(ledger=reopened, epsilon=0.01, delta=1e-9).fit(X, y)


def test_of_many_that_race_for_a_promise_one_has_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    charge = Ledger(path, epsilon=EPSILON, delta=DELTA, adjacency=UNIT).charge(Promise(0.9, DELTA), UNIT)

    def take(i: int) -> bool:
        try:
            Ledger(path).fulfil(charge, Gaussian(100.0 + i))
        except PlanViolation:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(take, range(8))) == 1
