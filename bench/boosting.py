"""Boosting for `accuracy.py`: DP-EBM (``interpret``) as a peer, gradient boosting without privacy as a ceiling.

Both see the columns themselves, not discreet's encoded features: numbers on the scale that the schema declares, brought
to [0, 1], and codes of categories. DP-EBM is told these bounds and kinds, which are public, and gets the same ε, δ and
split; it protects a person's presence (add-remove). `dp_ebm_fits` runs in an environment of its own.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections import defaultdict
from importlib import metadata
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import measures
import peers

ENVIRONMENT = peers.Environment("accuracy-interpret", ["interpret-core==0.7.8", "scikit-learn", "scipy"])
MOST_COLUMNS = 300
"""DP-EBM grows one tree a round for each column; with thousands of them neither its noise nor its time is of use."""
MOST_ENTRIES = 2e7
"""Gradient boosting gets dense rows; larger sets are left out."""
RATES, ROUNDS = (0.01, 0.03, 0.1, 0.3), (30, 100, 300)
"""Learning rates and rounds, the best of which are taken *by the test set*, for each ε and measure, for free."""
FEW = ((0.01, 300), (0.1, 100), (0.3, 100))
"""What is chosen from on sets where a fit takes seconds."""

Array = NDArray[np.float64]
Method = dict[str, Any]


def columns(data: Any) -> tuple[Array, Array, list[str]] | None:
    """(training columns, test columns, kind of each) of a ``sets.Encoded``; None where they are too many to be dense.

    Features of a set without a table are indicators, or numbers within ± the row norm, which are brought to [0, 1].
    """
    if data.table is None:
        if np.prod(data.X.shape) > MOST_ENTRIES:
            return None
        dense = (np.asarray(X.todense() if hasattr(X, "todense") else X, float) for X in (data.X, data.X_test))
        train, test = (0.5 + 0.5 * X / data.row_norm for X in dense)
        two = [len(np.unique(column[:1000])) <= 2 for column in train.T]  # public for sets of indicators such as a9a
        return train, test, ["nominal" if all(two) else "continuous"] * train.shape[1]
    _, schema, target, *tables = data.table
    seen = [(name, column) for name, column in schema.items() if name != target and column.kind in _KINDS]
    parts = [np.column_stack([_numbers(column, table[name]) for name, column in seen]) for table in tables]
    return parts[0], parts[1], [_KINDS[column.kind] for _, column in seen]


_KINDS = {"numeric": "continuous", "categorical": "nominal", "boolean": "nominal"}


def _numbers(column: Any, cells: Any) -> Array:
    """A number on its declared scale, from 0 to 1, or the code of a category; what is missing as the schema says."""
    read = column.read(cells)
    return np.asarray(column.rescale(read) if column.kind == "numeric" else read, dtype=np.float64)


def width(data: Any) -> int:
    """How many columns boosting sees."""
    if data.table is None:
        return int(data.X.shape[1])
    return sum(name != data.table[2] and column.kind in _KINDS for name, column in data.table[1].items())


def ceiling(data: Any) -> Method | None:
    """Gradient boosting as scikit-learn sets it, without privacy; None where rows would not be dense in memory."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    seen = columns(data)
    if seen is None or data.task == "multinomial":  # a tree for each class and round: many minutes on 784 columns
        return None
    train, test, kinds = seen
    nominal = [kind == "nominal" and len(np.unique(train[:, j])) < 255 for j, kind in enumerate(kinds)]
    make = HistGradientBoostingRegressor if data.task == "regression" else HistGradientBoostingClassifier
    start = time.process_time()
    model = make(categorical_features=nominal, random_state=0).fit(train, data.y)
    seconds = time.process_time() - start
    if data.task == "regression":
        found = measures.of_numbers(data.y_test, model.predict(test))
    else:
        found = measures.of_classes(data.y_test, model.predict_proba(test))
    return _as_method({name: {"inf": [value]} for name, value in found.items()}, seconds)


def dp_ebm_methods(data: Any, epsilons: list[float], seeds: int, *, choosing: int, few: bool) -> list[Method]:
    """DP-EBM's default, and its best setting by the test set; none for several classes and for many columns."""
    seen = columns(data) if data.task != "multinomial" and width(data) <= MOST_COLUMNS else None
    if seen is None:
        return []
    train, test, kinds = seen
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "columns.npz"
        np.savez(file, X=train, X_test=test, y=data.y, y_test=data.y_test, kinds=np.array(kinds), bounds=data.bounds)
        answer = peers.in_environment(
            ENVIRONMENT, __file__, "dp_ebm_fits", file=str(file), task=data.task, epsilons=epsilons, seeds=seeds,
            choosing=choosing, few=few,
        )  # fmt: skip
    rows = []
    for key in ("default", "best"):
        if answer[key]["measures"]:
            method = _as_method(answer[key]["measures"], answer["seconds"])
            rows.append(method | {"version": answer["version"], "settings": answer[key]["settings"]})
    return rows


def _as_method(found: dict[str, dict[str, list[float]]], seconds: float) -> Method:
    return {"scores": found.get("accuracy", found.get("R²", {})), "measures": found, "seconds": seconds}


def dp_ebm_fits(
    file: str, task: str, epsilons: list[float], seeds: int, choosing: int = 1, few: bool = False
) -> dict[str, Any]:
    """Measures of DP-EBM for each ε and seed, at δ = 1/n².

    Args:
        file: columns as `dp_ebm_methods` writes them.
        task: "binary" or "regression".
        epsilons: budgets, add-remove.
        seeds: runs of each figure.
        choosing: runs by which the best setting is chosen; 0 chooses none.
        few: choose from `FEW` alone.

    Returns:
        "default" and "best", each {"measures": {measure: {ε: runs}}, "settings": {ε: in words}}. "best" has, for each
        measure and ε, the runs of the setting that is best *by that measure on the test set*; "settings" are those of
        the accuracy or R². "seconds" are CPU seconds of the median fit.
    """
    warnings.simplefilter("ignore")
    with np.load(file) as stored:
        parts = dict(stored)
    known: dict[tuple[float, float, int, int], dict[str, float]] = {}
    spent: list[float] = []

    def runs(epsilon: float, setting: tuple[float, int], asked: int) -> list[dict[str, float]]:
        for seed in range(asked):
            key = (epsilon, *setting, seed)
            if key not in known:
                start = time.process_time()
                known[key] = _dp_ebm(parts, task, *key)
                spent.append(time.process_time() - start)
        return [known[(epsilon, *setting, seed)] for seed in range(asked)]

    usual = (0.01, 300)
    offered = FEW if few else tuple(product(RATES, ROUNDS))
    default: dict[str, dict[str, list[float]]] = defaultdict(dict)
    best: dict[str, dict[str, list[float]]] = defaultdict(dict)
    settings: dict[str, str] = {}
    for epsilon in epsilons:
        for fit in runs(epsilon, usual, seeds):
            for measure, value in fit.items():
                default[measure].setdefault(str(epsilon), []).append(value)
        for measure in default if choosing else ():
            sign = 1 if measures.LARGER_IS_BETTER[measure] else -1

            def score(setting: tuple[float, int], measure: str = measure, sign: int = sign) -> float:
                return sign * float(np.mean([fit[measure] for fit in runs(epsilon, setting, min(choosing, seeds))]))  # noqa: B023

            chosen = max(offered, key=score)
            best[measure][str(epsilon)] = [fit[measure] for fit in runs(epsilon, chosen, seeds)]
            if measure in ("accuracy", "R²"):
                settings[str(epsilon)] = f"rate {chosen[0]:g}, {chosen[1]} rounds"
    return {
        "default": {"measures": default, "settings": {}},
        "best": {"measures": best, "settings": settings},
        "seconds": float(np.median(spent)),
        "version": metadata.version("interpret-core"),
    }


def _dp_ebm(parts: dict[str, Any], task: str, epsilon: float, rate: float, rounds: int, seed: int) -> dict[str, float]:
    """Measures of one fit."""
    from interpret.privacy import (  # type: ignore[import-not-found]
        DPExplainableBoostingClassifier,
        DPExplainableBoostingRegressor,
    )

    kinds = parts["kinds"].tolist()
    given: dict[str, Any] = {
        "feature_types": kinds,
        "privacy_bounds": {j: (0.0, 1.0) for j, kind in enumerate(kinds) if kind == "continuous"},
        "epsilon": epsilon,
        "delta": 1 / len(parts["y"]) ** 2,
        "learning_rate": rate,
        "max_rounds": rounds,
        "random_state": seed,
        "n_jobs": 1,
    }
    if task == "regression":
        low, high = parts["bounds"].tolist()
        model = DPExplainableBoostingRegressor(privacy_target_min=low, privacy_target_max=high, **given)
        return measures.of_numbers(parts["y_test"], model.fit(parts["X"], parts["y"]).predict(parts["X_test"]))
    model = DPExplainableBoostingClassifier(**given).fit(parts["X"], parts["y"])
    return measures.of_classes(parts["y_test"], model.predict_proba(parts["X_test"]))
