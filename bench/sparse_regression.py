"""Sparse least squares with and without a declared bound on entries, on synthetic rows.

n = 10 000 rows of d entries within ±1 (uniform; signs; or normal of deviation ⅓, ρ = ½ between neighbours), of
which 5 columns matter; targets have a signal of variance 0.1 and noise of deviation 0.1. Shown is the mean squared
error of the scores over that of the signal, one run, with the solver that ``auto`` takes.

Run: ``python bench/sparse_regression.py`` (about two minutes); writes ``bench/results/sparse_regression.md``.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import discreet as dp

N, ENTRIES = 10_000, 5
LENGTH = {"uniform": 0.7, "signs": 1.0, "correlated": 0.5}
"""Row norm over √d, declared: rows are hardly ever longer."""


def drawn(kind: str, d: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rows and the coefficients of a signal of variance 0.1."""
    if kind == "uniform":
        X, variance = rng.uniform(-1, 1, (N, d)), 1 / 3
    elif kind == "signs":
        X, variance = rng.choice([-1.0, 1.0], (N, d)), 1.0
    else:
        X, variance = rng.standard_normal((N, d)), 1 / 9
        for j in range(1, d):
            X[:, j] = 0.5 * X[:, j - 1] + math.sqrt(0.75) * X[:, j]
        X = np.clip(X / 3, -1, 1)
    theta = np.zeros(d)
    theta[rng.choice(d, ENTRIES, replace=False)] = rng.choice([-1, 1], ENTRIES) * math.sqrt(0.1 / variance / ENTRIES)
    return X, theta


def main() -> None:
    """Print and store the table."""
    lines = [
        "| rows | d | (row norm/F)² | ε | no bound on entries | `feature_bound=1` | solver with it |",
        "|" + "---|" * 7,
    ]
    for kind, length in LENGTH.items():
        for d in (50, 100, 200, 400):
            rng = np.random.default_rng(d)
            X, theta = drawn(kind, d, rng)
            y = X @ theta + 0.1 * rng.standard_normal(N)
            for epsilon in (1.0, 2.0, 8.0):
                cells = []
                for bound in (None, 1.0):
                    model = dp.SparseLinearRegression(
                        epsilon,
                        row_norm=length * math.sqrt(d),
                        target_bounds=(-1.0, 1.0),
                        sparsity=ENTRIES + 1,
                        feature_bound=bound,
                        random_state=0,
                    ).fit(X, y)
                    cells.append(np.mean((X[:2000] @ (model.coef_ - theta) + model.intercept_) ** 2) / 0.1)
                shown = " | ".join(f"{cell:.4f}" for cell in cells)
                lines.append(
                    f"| {kind} | {d} | {length**2 * d:.0f} | {epsilon:g} | {shown} | `{model.privacy_.solver}` |"
                )
                print(lines[-1], flush=True)
    text = "# Sparse least squares\n\n" + str(__doc__).split("\n\n")[1] + "\n\n" + "\n".join(lines) + "\n"
    (Path(__file__).parent / "results" / "sparse_regression.md").write_text(text)


if __name__ == "__main__":
    main()
