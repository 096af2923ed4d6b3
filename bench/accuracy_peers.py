"""The peers of `accuracy.py`. Each function runs inside its peer's own environment and returns what JSON can hold.

Peers see the encoded features that discreet sees, and are told the same public bounds.
"""

from __future__ import annotations

import time
import warnings
from importlib import metadata
from typing import Any

import numpy as np

STRENGTHS = [0.001, 0.01, 0.1, 1.0, 10.0, 100.0]
"""Values of diffprivlib's C, the best of which is taken *by the test set*, for free."""


def _load(file: str) -> dict[str, Any]:
    with np.load(file) as stored:
        parts = dict(stored)
    if "indptr" in parts:
        import scipy.sparse as sp

        for part in ("", "_test"):
            triple = tuple(parts[key + part] for key in ("data", "indices", "indptr"))
            parts["X" + part] = sp.csr_array(triple, shape=parts["shape" + part])
    return parts


def _dense(X: Any) -> Any:
    return (X.toarray() if hasattr(X, "toarray") else X).astype(np.float64)


def diffprivlib_fits(
    file: str,
    task: str,
    epsilons: list[float],
    seeds: int,
    strengths: list[float] | None = None,
    choosing: int = 3,
) -> dict[str, Any]:
    """Scores of LogisticRegression or LinearRegression, for each ε and seed; pure ε, replace-one.

    Args:
        file: a set as ``sets.Encoded.save`` writes it; all its rows become dense.
        task: "binary", "multinomial" or "regression".
        epsilons: budgets.
        seeds: runs of each figure.
        strengths: values of C to choose from; regression has none.
        choosing: runs that the best C is chosen by; 0 chooses none.

    Returns:
        "fits" holds the runs at the default C, "tuned" those at the C that is best *on the test set* at that ε, each a
        dictionary of "epsilon", "seed", "score" and "setting"; "seconds" and "tuned_seconds" are of the median fit.
    """
    import diffprivlib.models as models  # type: ignore[import-not-found]

    warnings.simplefilter("ignore")
    parts = _load(file)
    y, y_test = parts["y"].astype(np.float64), parts["y_test"].astype(np.float64)
    X, X_test = (_dense(parts.pop(key)) for key in ("X", "X_test"))
    norm, low, high = float(parts["row_norm"]), float(parts["low"]), float(parts["high"])
    known: dict[tuple[float, float, int], tuple[float, float]] = {}

    def fit(epsilon: float, strength: float, seed: int) -> tuple[float, float]:
        start = time.process_time()
        if task == "regression":
            bounds_X = (np.full(X.shape[1], -norm if X.min() < 0 else 0.0), np.full(X.shape[1], norm))
            model = models.LinearRegression(epsilon=epsilon, bounds_X=bounds_X, bounds_y=(low, high), random_state=seed)
        else:
            model = models.LogisticRegression(
                epsilon=epsilon, data_norm=norm, C=strength, max_iter=200, random_state=seed
            )
        model.fit(X, y)
        return float(model.score(X_test, y_test)), time.process_time() - start

    def runs(epsilon: float, strength: float, asked: int) -> list[dict[str, Any]]:
        for seed in range(asked):
            if (epsilon, strength, seed) not in known:
                known[epsilon, strength, seed] = fit(epsilon, strength, seed)
        return [
            {
                "epsilon": epsilon,
                "seed": seed,
                "score": known[epsilon, strength, seed][0],
                "setting": f"C = {strength:g}",
            }
            for seed in range(asked)
        ]

    default, tuned = [], []
    for epsilon in epsilons:
        default += runs(epsilon, 1.0, seeds)
        if task != "regression" and choosing:
            few = min(choosing, seeds)
            best = max(
                strengths or STRENGTHS,
                key=lambda strength: float(np.mean([run["score"] for run in runs(epsilon, strength, few)])),
            )
            tuned += runs(epsilon, best, seeds)
    seconds = float(np.median([spent for _, spent in known.values()]))
    return {
        "fits": default,
        "tuned": tuned,
        "seconds": seconds,
        "tuned_seconds": seconds,
        "version": metadata.version("diffprivlib"),
    }


def opacus_fits(
    file: str,
    task: str,
    epsilons: list[float],
    seeds: int,
    settings: list[dict[str, Any]] | None = None,
    choosing: int = 3,
) -> dict[str, Any]:
    """Scores of one linear layer trained by Opacus, for each ε and seed.

    Args:
        file: a set as ``sets.Encoded.save`` writes it; sparse rows become dense a batch at a time.
        task: "binary", "multinomial" or "regression".
        epsilons: budgets, add-remove, at δ = 1/n².
        seeds: runs of each figure.
        settings: what to choose from, as keywords of ``opacus_descent.Setting``; by default its grid for the task.
        choosing: runs that the best setting is chosen by; 0 chooses none.

    Returns:
        "fits" holds the runs of one sensible setting, "tuned" those of the setting that is best *on the test set* at
        that ε: dictionaries of "epsilon", "seed", "score" and "setting". "seconds" and "tuned_seconds" are CPU seconds
        of the median training.
    """
    from opacus_descent import Setting, fits, grid

    offered = grid(task) if settings is None else [Setting(**setting) for setting in settings]
    return fits(_load(file), task, epsilons, seeds, offered if choosing else [], choosing)
