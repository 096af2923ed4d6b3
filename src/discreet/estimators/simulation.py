"""What a fit may be expected to reach, before any data is touched: private fits to synthetic rows of a declared shape.

Every column is drawn evenly between its public bounds, on its own scale, or among its categories, independently of the
others. The target follows a linear model of the encoded columns with random coefficients. Real columns are uneven and
depend on each other, so the figures say how noise, rows and features weigh against each other, and not what a real
table will give.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier

from discreet.data.columns import Boolean, Categorical, Column, Numeric
from discreet.data.encoding import Encoder
from discreet.data.profiles import used_columns
from discreet.errors import InvalidInput
from discreet.estimators.base import PrivateLinearModel
from discreet.estimators.checks import EPSILONS
from discreet.estimators.regressors import PoissonRegression
from discreet.report.sweep import Sweep
from discreet.rows import MOST_ROWS

__all__ = ["SWEPT", "simulate"]

SWEPT = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
"""The ε that are simulated."""

_SIGNAL = 2.0
"""Standard deviation of the log-odds: the best model is right in some 77 % of rows. For numbers its R² is 1/2."""
_MOST_ENTRIES, _MOST_SIMULATED, _TEST, _REPEATS = 400_000, 20_000, 5_000, 5
"""Sizes that keep a sweep within seconds."""


def simulate(
    model: PrivateLinearModel, encoder: Encoder, n: int, *, epsilons: Sequence[float] = SWEPT, seed: int = 0
) -> Sweep:
    """Mean scores of ``model`` at several ε, fitted to n synthetic rows of the encoder's shape.

    Args:
        model: an estimator for the encoded rows: ``row_norm`` and not a schema; classes or target bounds declared.
        encoder: of the declared columns.
        n: number of rows.
        epsilons: which ε.
        seed: of the synthetic rows and of the noise, which protects nobody here.

    Raises:
        InvalidInput: what `fit` would refuse of these declarations.
    """
    if not 2 <= n <= MOST_ROWS:
        raise InvalidInput(f"n must be between 2 and {MOST_ROWS} for a simulation, got {n}.")
    stored = len(used_columns(encoder)) * 2
    simulated = int(min(n, _MOST_SIMULATED, max(1_000, _MOST_ENTRIES // stored)))
    delta = 1.0 / n**2 if model.delta is None else model.delta
    wanted = tuple(sorted(set(epsilons)))
    scores = np.zeros((_REPEATS, len(wanted) + 1))
    guesses = np.zeros(_REPEATS)
    for repeat in range(_REPEATS):
        rng = np.random.default_rng([seed, repeat])
        X = encoder.transform(_table(encoder, simulated + _TEST, rng))
        y = _targets(model, X, rng)
        train, test = slice(0, simulated), slice(simulated, None)
        for place, epsilon in enumerate((*wanted, math.inf)):
            fitted = clone(model).set_params(random_state=repeat, ledger=None, verbose=False)
            if math.isfinite(epsilon):
                scaled = min(max(epsilon * n / simulated, EPSILONS[0]), EPSILONS[1])
                public = simulated if model.adjacency == "add-remove" else None
                fitted.set_params(epsilon=scaled, delta=delta, n_public=public)
            else:
                fitted.set_params(epsilon=math.inf, delta=None, n_public=None)
            scores[repeat, place] = fitted.fit(X[train], y[train]).score(X[test], y[test])
        guesses[repeat] = _guess(model, y[train], y[test])
    means = scores.mean(axis=0)
    return Sweep(
        "accuracy" if is_classifier(model) else "R²", n, encoder.n_features, simulated, _REPEATS, wanted,
        tuple(means[:-1].tolist()), float(means[-1]), float(guesses.mean()),
    )  # fmt: skip


def _table(encoder: Encoder, n: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    return {name: _cells(column, n, rng) for name, column in used_columns(encoder).items()}


def _cells(column: Column, n: int, rng: np.random.Generator) -> NDArray[Any]:
    match column:
        case Numeric():
            numbers = column.unscale(rng.random(n))
            return np.clip(np.rint(numbers), column.low, column.high) if column.integer else numbers
        case Categorical() | Boolean():
            values: list[Any] = list(column.categories)
            drawn = rng.integers(len(values), size=n)
            return np.fromiter((values[code] for code in drawn), dtype=object, count=n)
        case _:
            raise InvalidInput(f"a column of kind {column.kind} has no synthetic values.")


def _targets(model: PrivateLinearModel, X: Any, rng: np.random.Generator) -> NDArray[Any]:
    """Targets of a linear model with random coefficients, of the kind that the estimator takes."""
    if is_classifier(model):
        classes = np.asarray(model.classes)
        if len(classes) == 2:
            return classes[(rng.random(X.shape[0]) < 1 / (1 + np.exp(-_scores(X, rng)))).astype(int)]
        scores = np.column_stack([_scores(X, rng) for _ in classes])
        return classes[(scores + rng.gumbel(size=scores.shape)).argmax(axis=1)]
    low, high = (float(bound) for bound in getattr(model, "target_bounds", (0.0, 1.0)))
    score = _scores(X, rng) / _SIGNAL
    if isinstance(model, PoissonRegression):
        return np.clip(rng.poisson(high / 8 * np.exp(score / 2)), low, high)
    spread = (high - low) / 8
    return np.clip((low + high) / 2 + spread * (score + rng.normal(size=len(score))), low, high)


def _scores(X: Any, rng: np.random.Generator) -> NDArray[np.float64]:
    score = np.asarray(X @ rng.normal(size=X.shape[1]), dtype=np.float64).ravel()
    return (score - score.mean()) * (_SIGNAL / max(float(score.std()), 1e-300))


def _guess(model: PrivateLinearModel, train: NDArray[Any], test: NDArray[Any]) -> float:
    if not is_classifier(model):
        return 0.0
    labels, counts = np.unique(train, return_counts=True)
    return float((test == labels[counts.argmax()]).mean())
