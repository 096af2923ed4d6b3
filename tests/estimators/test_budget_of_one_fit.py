"""A budget of just one fit has room for just one, whoever fits it and whether or not the number of rows is known."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet as dp
from discreet.calibration import Guarantee
from discreet.errors import BudgetExceeded, InvalidInput
from discreet.geometry import L1Ball
from discreet.recipes import RECIPES
from discreet.solvers import Problem
from discreet.units import Unit

X = np.repeat([[0.6, 0.8], [-0.6, -0.8]], 60, axis=0)
Y = np.repeat([1, 0], 60)
TABLE = {"a": X[:, 0], "b": X[:, 1]}
SCHEMA = dp.Schema({"a": dp.Numeric(-1, 1), "b": dp.Numeric(-1, 1)})
OPTIONS: dict[str, dict[str, Any]] = {
    "descent": {"iterations": 8},
    "hard_threshold": {"sparsity": 2},
    "heavy_tailed": {"sparsity": 2},
    "bias_reduced": {"iterations": 3},
}
SCALED = tuple(f"scaled_descent-{scales}" for scales in ("full", "diagonal", "single"))
OPTIONS |= {solver: {"scales": solver.split("-")[1]} for solver in SCALED}
PURE = ("auto", "exponential_mechanism", "frank_wolfe", "objective_perturbation", "output_perturbation")
RELATIONS = [("replace-one", None), ("add-remove", 120), ("add-remove", None)]
CASES = [(solver, 1e-6, 1) for solver in ("auto", *RECIPES, *SCALED)] + [(solver, 0.0, 1) for solver in PURE]
CASES += [("auto", 1e-6, 3), ("bias_reduced", 1e-6, 2)]


def model(solver: str, delta: float | None, ledger: Any, adjacency: str, n: int | None, **settings: Any) -> Any:
    if solver == "weighted_perturbation":  # for two classes alone
        return dp.LogisticRegression(
            1.0, delta, adjacency=adjacency, n_public=n, row_norm=1.0, ledger=ledger, solver=solver, classes=[0, 1],
            **settings,
        )  # fmt: skip
    if solver == "interactions":  # of columns of a table
        settings = {"schema": SCHEMA, "row_norm": None, "fit_intercept": True} | settings
    common = {
        "adjacency": adjacency, "n_public": n, "row_norm": 1.0, "ledger": ledger, "target_bounds": (0, 1),
        "solver": solver.split("-")[0], "solver_options": OPTIONS.get(solver), "fit_intercept": solver in SCALED,
        "domain": L1Ball(2.0) if solver == "frank_wolfe" else None,
    }  # fmt: skip
    return dp.LinearRegression(**{"epsilon": 1.0, "delta": delta, **common, **settings})


@pytest.mark.parametrize(("adjacency", "n"), RELATIONS)
@pytest.mark.parametrize(("solver", "delta", "rows"), CASES)
def test_one_fit_fits_and_a_second_is_refused(solver: str, delta: float, rows: int, adjacency: Any, n: Any) -> None:
    ledger = dp.Ledger(epsilon=1.0, delta=delta, adjacency=Unit(adjacency, rows))
    table = TABLE if solver == "interactions" else X
    fitted = model(solver, delta, ledger, adjacency, n, rows_per_unit=rows).fit(table, Y)
    (charge,) = ledger.history()
    assert (charge.ran or charge.event) == fitted.privacy_.event
    assert (charge.ran is None) == (adjacency == "replace-one" or n is not None)
    assert 0.89 < ledger.spent().upper <= 1.0
    assert fitted.privacy_.epsilon <= 1.0
    with pytest.raises(BudgetExceeded, match=r"Spent: ε = .*; remaining: ε = "):
        model(solver, delta, ledger, adjacency, n, rows_per_unit=rows).fit(table, Y)
    assert len(ledger.history()) == 1


@pytest.mark.parametrize(("adjacency", "n"), RELATIONS)
def test_classifiers_means_and_searches_too(adjacency: str, n: int | None) -> None:
    common = {"epsilon": 1.0, "delta": 1e-6, "adjacency": adjacency, "n_public": n}
    classifier = dp.LogisticRegression(row_norm=1.0, classes=[0, 1], solver="descent", solver_options={"iterations": 5})
    models: list[Any] = [
        dp.LogisticRegression(**common, row_norm=1.0, classes=[0, 1]),
        dp.MeanEstimator(**common, row_norm=1.0),
        dp.MeanEstimator(**{**common, "delta": 0.0}, row_norm=1.0),
    ]
    if n is not None or adjacency == "replace-one":
        models.append(dp.PrivateSearchCV(classifier, {"alpha": [0.0, 0.1]}, **common, trials=2))
    for one in models:
        ledger = dp.Ledger(epsilon=1.0, delta=1e-6, adjacency=adjacency)
        one.set_params(ledger=ledger).fit(X, Y)
        with pytest.raises(BudgetExceeded):
            one.fit(X, Y)
        assert len(ledger.history()) == 1


PAIRS = [(0.5, 0.5), (0.1, 0.1), (0.9, 0.9), (0.3, 0.001)]
ONE_AFTER_ANOTHER = [
    *itertools.product(["scaled_descent", "objective_perturbation"], repeat=2)
]  # with and without Rényi


@pytest.mark.parametrize(("adjacency", "n"), RELATIONS)
@pytest.mark.parametrize(("first", "second"), ONE_AFTER_ANOTHER)
def test_what_basic_composition_leaves_is_left(first: str, second: str, adjacency: str, n: int | None) -> None:
    for of_epsilon, of_delta in PAIRS:
        ledger = dp.Ledger(epsilon=1.0, delta=1e-6, adjacency=adjacency)  # type: ignore[arg-type]
        model(first, 1e-6 * of_delta, ledger, adjacency, n, epsilon=of_epsilon).fit(X, Y)
        rest = {"epsilon": 1 - of_epsilon, "delta": 1e-6 * (1 - of_delta)}
        model(second, rest.pop("delta"), ledger, adjacency, n, **rest).fit(X, Y)
        assert ledger.spent().upper <= 1.0
        with pytest.raises(BudgetExceeded):
            model(second, 1e-6 * (1 - of_delta), ledger, adjacency, n, epsilon=0.5).fit(X, Y)


def test_ten_fits_of_a_tenth_and_some_more() -> None:
    ledger = dp.Ledger(epsilon=1.0, delta=1e-6, adjacency="add-remove")
    fits = 0
    with pytest.raises(BudgetExceeded):  # noqa: PT012 - how many are admitted is the question
        while fits < 200:
            model("objective_perturbation", 1e-7, ledger, "add-remove", None, epsilon=0.1).fit(X, Y)
            fits += 1
    assert fits >= 10
    assert ledger.spent().upper <= 1.0


@pytest.mark.parametrize(("n", "budget"), [(120, 2.0), (None, 2.3)])
def test_runs_of_known_events_still_add_up_to_less_than_the_sum(n: int | None, budget: float) -> None:
    for delta in (1e-6, 1e-7):
        ledger = dp.Ledger(epsilon=budget, delta=1e-6, adjacency="add-remove")
        for _ in range(3):
            model("scaled_descent", delta, ledger, "add-remove", n, epsilon=1.0).fit(X, Y)
        assert 1.0 < ledger.spent().upper <= budget


def test_a_plan_beyond_its_promise_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from discreet.errors import PlanViolation
    from discreet.queries.sums.gradient import GradientSum
    from discreet.recipes import descent
    from discreet.updates import Sgd

    def too_little_noise(problem: Problem, guarantee: Guarantee) -> Any:
        return descent.Descent(0.5, 4, 1.0, Sgd(0.1))

    monkeypatch.setattr(descent, "recipe", too_little_noise)
    monkeypatch.setattr(GradientSum, "integers", lambda *_: pytest.fail("rows were read"))
    for ledger in (dp.Ledger(), dp.Ledger(epsilon=1.0, delta=1e-6, adjacency="add-remove")):
        with pytest.raises(PlanViolation, match="promised"):
            model("descent", 1e-6, ledger, "add-remove", None, solver_options=None).fit(X, Y)
        (charge,) = ledger.history()
        assert (charge.ran, charge.status) == (None, "charged")


def test_options_that_do_not_fit_the_counted_rows_say_that_rows_were_counted() -> None:
    ledger = dp.Ledger()
    options = {"smallest": 64, "levels": 6, "iterations": 3}
    with pytest.raises(InvalidInput, match=r"must fit in n = .* charged, together with the promise"):
        model("bias_reduced", 1e-6, ledger, "add-remove", None, solver_options=options).fit(X, Y)
    (charge,) = ledger.history()
    assert (charge.ran, charge.status) == (None, "charged")


GUIDE = [
    ("3 of ε = 1, δ = 10⁻⁶; budget's δ = 10⁻⁵", 3, 1.0, 1e-6, 1e-5),
    ("20 of ε = 0.2, δ = 10⁻⁷; budget's δ = 10⁻⁶", 20, 0.2, 1e-7, 1e-6),
    ("every week of a year, ε = 0.2, δ = 10⁻⁸; budget's δ = 10⁻⁶", 52, 0.2, 1e-8, 1e-6),
    ("every week of a year, ε = 0.1, δ = 10⁻⁸; budget's δ = 10⁻⁶", 52, 0.1, 1e-8, 1e-6),
]


@pytest.mark.parametrize(("words", "count", "epsilon", "delta", "of"), GUIDE)
def test_the_guide_shows_what_many_fits_cost(words: str, count: int, epsilon: float, delta: float, of: float) -> None:
    """The table of docs/how-to/budget.md, measured."""
    rows = np.random.default_rng(0).normal(size=(5000, 5)) / 4
    common = {"epsilon": epsilon, "delta": delta, "row_norm": 1.0, "random_state": 0}
    models = (
        dp.LinearRegression(**common, target_bounds=(-1, 1)),
        dp.LogisticRegression(**common, classes=[0, 1], solver="objective_perturbation"),
    )
    figures = []
    for one in models:
        first = dp.Ledger(epsilon=count * epsilon, delta=of, adjacency="replace-one")
        one.set_params(ledger=first).fit(rows, (rows[:, 0] > 0).astype(int))
        (paid,) = first.history()
        for _ in range(count - 1):
            first.charge(paid.event, "replace-one", stated=paid.stated)
        figures.append(f"{first.spent().upper:.2f}")
    guide = (Path(__file__).parents[2] / "docs" / "how-to" / "budget.md").read_text(encoding="utf-8")
    assert f"| {words} | {count * epsilon:g} | {figures[0]} | {figures[1]} |" in guide, figures
