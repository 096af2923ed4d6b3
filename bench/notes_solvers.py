"""Rows of ``bench/notes.py``: losses, sets and solvers (N0, N1, N2, N3)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import discreet as dp
from discreet.estimators.planned import planned
from discreet.planning.predicted import predicted_bound
from discreet.updates import UPDATES
from notes_base import (
    DELTA,
    EPSILON,
    RUNS,
    Found,
    against_bound,
    below,
    classifier_excess,
    item,
    numbers,
    regression_error,
)


@item("N0", "robust losses, not convex", "LinearRegression(loss='welsch')")
def robust_losses() -> Found:
    X, y, theta = numbers()
    y = np.where(np.random.default_rng(2).random(len(y)) < 0.3, 1.0, y)
    common = {"row_norm": 1.0, "target_bounds": (-1.0, 1.0), "random_state": 0}
    errors = [
        float(np.mean((dp.LinearRegression(EPSILON, DELTA, loss=loss, **common).fit(X, y).predict(X) - X @ theta) ** 2))
        for loss in ("welsch", "huber")
    ]
    return below(errors[0], errors[1] / 2, "squared error, three of ten targets wrong; half of Huber's")


@item("N0", "stationary points", "plan of loss='tukey'")
def stationary_points() -> Found:
    plan = planned(dp.LinearRegression(1.0, DELTA, row_norm=1.0, target_bounds=(0, 1), loss="tukey"), 20_000, 8)
    bound = predicted_bound(plan.solver, plan.problem)
    return below(float(bound), plan.problem.loss.lipschitz(dp.losses.Domain()) ** 2, "trivial L²")


@item("N3", "last iterate, solver", "descent, iterate='last'")
def last_iterate() -> Found:
    return against_bound("descent", {"iterate": "last"}, alpha=0.02)


@item("N0 Alg 1, N2 Alg 2", "noisy gradient descent", "solver='descent'")
def descent() -> Found:
    return against_bound("descent", {"iterate": "average"})


@item("N2", "DP-SGD", "descent, rate=0.05")
def dp_sgd() -> Found:
    return against_bound("descent", {"rate": 0.05})


def _optimizer(rule: str) -> Callable[[], Found]:
    return lambda: against_bound("descent", {"update": rule})


for rule in ("momentum", "adam", "adamw", "adafactor", "svrg"):
    item("N2", f"optimizer: {rule}", f"descent, update='{rule}'")(_optimizer(rule))


@item("N2", "optimizers on real rows (bundled RAND)", "descent, update=…")
def optimizers_on_real_rows() -> Found:
    schema, train, test = dp.datasets.randhie_schema(), *map(dp.datasets.load_randhie, ("train", "test"))
    common = {"schema": schema.without("drugs"), "classes": [0, 1], "interactions": False, "solver": "descent"}

    def accuracy(rule: str) -> float:
        models = (
            dp.LogisticRegression(1.0, 1e-8, **common, solver_options={"update": rule}, random_state=seed)
            for seed in range(RUNS)
        )
        fits = [model.fit(train.drop("drugs"), train["drugs"].astype(int)) for model in models]
        return 100 * float(np.mean([fit.score(test.drop("drugs"), test["drugs"].astype(int)) for fit in fits]))

    scores = {rule: accuracy(rule) for rule in UPDATES}
    worst = min(scores, key=scores.__getitem__)
    figure = f"{max(scores.values()) - scores[worst]:.2f} points ({worst})"
    return Found(figure, "from best to worst rule, at most 1", max(scores.values()) - scores[worst] <= 1.0)


@item("N1 Alg 7", "where cut slopes would cost more than they save", "solver='auto'")
def uncut_slopes() -> Found:
    settings = {"epsilon": 0.12, "fit_intercept": False}
    usual, plan = classifier_excess("auto", None, **settings)
    cut, _ = classifier_excess("objective_perturbation", {"slope_bound": 0.5}, **settings)
    return below(usual, cut / 2, f"{plan.label}; half of the excess with cut slopes")


@item("N1 Alg 2", "private Frank–Wolfe", "solver='frank_wolfe'")
def frank_wolfe() -> Found:
    return against_bound("frank_wolfe", domain=dp.geometry.L1Ball(3.0))


@item("N1 Alg 4", "hard thresholding", "SparseLinearRegression")
def hard_thresholding() -> Found:
    return below(*regression_error("SparseLinearRegression", {"sparsity": 4}, n=50_000, d=40, sparsity=4), "zero model")


@item("N1 Alg 5", "peeling", "dp.largest_sums")
def peeling() -> Found:
    rng = np.random.default_rng(0)
    X = (rng.random((5000, 300)) < np.where(np.arange(300) < 3, 0.5, 0.1)).astype(float)
    found = dp.largest_sums(X, 3, epsilon=1.0, entry_bound=1.0, adjacency="add-remove", random_state=0)
    return Found(
        str(np.flatnonzero(found).tolist()), "largest are [0, 1, 2]", np.flatnonzero(found).tolist() == [0, 1, 2]
    )


@item("N1 Alg 7, N3", "objective perturbation", "solver='objective_perturbation'")
def objective_perturbation() -> Found:
    return against_bound("objective_perturbation", {"slope_bound": 1.2})


@item("N3", "output perturbation", "solver='output_perturbation'")
def output_perturbation() -> Found:
    return against_bound("output_perturbation")


@item("N0, N3", "exponential mechanism: median", "dp.quantile")
def median() -> Found:
    values = np.random.default_rng(3).normal(50, 10, 5000)
    found = dp.quantile(values, epsilon=1.0, bounds=(0, 100), adjacency="replace-one", random_state=0)
    rank = abs(float(np.mean(values < found)) - 0.5) * 5000
    return below(rank, 2 * 2 * math.log(2**20 / 0.01), "ranks but for 1 %:")


@item("beyond", "least squares from moments", "solver='sufficient_statistics'")
def sufficient_statistics() -> Found:
    return below(*regression_error("LinearRegression", {"solver": "sufficient_statistics"}), "zero model")
