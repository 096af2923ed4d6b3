"""What the rows of ``bench/notes.py`` share: how a row is made, and the problems they are run on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

import discreet as dp
from discreet.estimators.planned import planned
from discreet.planning.predicted import predicted_bound

EPSILON, DELTA, RUNS = 1.0, 1e-6, 3


@dataclass(frozen=True)
class Found:
    """A figure, what it is compared with in words, and whether it holds."""

    figure: str
    reference: str
    holds: bool


@dataclass(frozen=True)
class Item:
    """One row of the table."""

    place: str
    what: str
    way: str
    run: Callable[[], Found]


ITEMS: list[Item] = []


def item(place: str, what: str, way: str) -> Callable[[Callable[[], Found]], Callable[[], Found]]:
    """Register a function as the row of an item."""

    def register(run: Callable[[], Found]) -> Callable[[], Found]:
        ITEMS.append(Item(place, what, way, run))
        return run

    return register


def below(figure: float, bound: float, name: str) -> Found:
    """A figure that must not exceed a bound."""
    return Found(f"{figure:.4g}", f"{name} {bound:.4g}", bool(figure <= bound * (1 + 1e-9)))


@lru_cache
def labelled(n: int = 20_000, d: int = 8, seed: int = 0) -> tuple[Any, Any]:
    """Rows in the unit ball and labels of a logistic model."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    theta = 4 * rng.normal(size=d) / math.sqrt(d)
    return X, (X @ theta + rng.logistic(size=n) > 0).astype(int)


@lru_cache
def numbers(n: int = 20_000, d: int = 8, sparsity: int = 0, seed: int = 1) -> tuple[Any, Any, Any]:
    """Rows in the unit ball, targets in ±1 of a linear model, and the model."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / math.sqrt(d)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    theta = np.zeros(d)
    theta[: sparsity or d] = rng.choice([-1, 1], sparsity or d) / math.sqrt(sparsity or d)
    return X, np.clip(X @ theta + 0.05 * rng.normal(size=n), -1, 1), theta


def risk(model: Any, X: Any, y: Any) -> float:
    """The mean logistic loss of a classifier's scores."""
    margins = np.where(y == model.classes_[1], 1, -1) * model.decision_function(X)
    return float(np.logaddexp(0, -margins).mean())


def classifier_excess(solver: str, options: dict[str, Any] | None = None, **settings: Any) -> tuple[float, Any]:
    """Mean excess risk of a solver over the minimiser without privacy, and its plan."""
    X, y = labelled()
    epsilon = settings.pop("epsilon", EPSILON)
    common = {"row_norm": 1.0, "classes": [0, 1]} | settings
    model = dp.LogisticRegression(epsilon, **({"delta": DELTA} | common), solver=solver, solver_options=options)
    best = dp.LogisticRegression(math.inf, **{k: v for k, v in common.items() if k != "delta"}).fit(X, y)
    plan = planned(model, len(X), X.shape[1])
    fits = [model.set_params(random_state=seed).fit(X, y) for seed in range(RUNS)]

    def objective(fit: Any) -> float:
        offset = float(fit.intercept_[0]) / plan.problem.rows.intercept if plan.problem.rows.intercept else 0.0
        return risk(fit, X, y) + plan.problem.ridge / 2 * float((fit.coef_**2).sum() + offset**2)

    return float(np.mean([objective(fit) - objective(best) for fit in fits])), plan


def against_bound(solver: str, options: dict[str, Any] | None = None, **settings: Any) -> Found:
    """The excess risk of a solver below the bound of its plan, or else of the trivial model."""
    excess, plan = classifier_excess(solver, options, **settings)
    try:
        return below(excess, float(predicted_bound(plan.solver, plan.problem, plan.guarantee.unit)), "bound")
    except dp.errors.DiscreetError:
        X, y = labelled()
        best = dp.LogisticRegression(math.inf, row_norm=1.0, classes=[0, 1]).fit(X, y)
        return below(excess, (math.log(2) - risk(best, X, y)) / 2, "half the excess of the zero model")


def regression_error(estimator: str, settings: dict[str, Any], **problem: Any) -> tuple[float, float]:
    """Mean squared distance from the true model, and that of the zero model."""
    X, y, theta = numbers(**problem)
    common = {"row_norm": 1.0, "target_bounds": (-1.0, 1.0), "fit_intercept": False} | settings
    fits = [getattr(dp, estimator)(EPSILON, DELTA, **common, random_state=seed).fit(X, y) for seed in range(RUNS)]
    return float(np.mean([np.sum((fit.coef_ - theta) ** 2) for fit in fits])), float(theta @ theta)
