"""The step size of `TorchClassifier` varied on synthetic tables, beside private logistic regression.

    python bench/torch_tables.py            # prints the table, and writes bench/results/torch_tables.json

Two tables of numbers and categories: one whose log-odds are additive, one with a curve and a product of columns. The
default step, which has no tuned number in it, is multiplied by ¼ … 4.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

import discreet as dp

STORED = Path(__file__).parent / "results" / "torch_tables.json"
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
CATEGORIES = {"a": 3, "b": 8, "c": 15, "d": 40}
SCHEMA = dp.Schema(
    {f"v{j}": dp.Numeric(0, 1) for j in range(5)}
    | {name: dp.Categorical([f"{name}{k}" for k in range(count)]) for name, count in CATEGORIES.items()}
)


def table(kind: str, n: int, rng: np.random.Generator) -> tuple[dict[str, Any], np.ndarray]:
    """Rows and labels of 0 and 1."""
    numbers = rng.uniform(0, 1, (n, 5))
    columns: dict[str, Any] = {f"v{j}": numbers[:, j] for j in range(5)}
    odds = 3 * numbers[:, 0] - 2 * numbers[:, 3] - 1
    if kind == "curved":
        odds += 3 * np.sin(4 * numbers[:, 4]) + 6 * (numbers[:, 1] - 0.5) * (numbers[:, 2] - 0.5)
    effects = np.random.default_rng(7)
    for name, count in CATEGORIES.items():
        effect, weights = effects.normal(size=count), 1 / np.arange(1, count + 1)
        codes = rng.choice(count, n, p=weights / weights.sum())
        columns[name] = np.array([f"{name}{k}" for k in range(count)])[codes]
        odds += 0.7 * effect[codes]
    return columns, (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(int)


def main() -> None:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    results: dict[str, dict[str, float]] = {}
    for kind in ("additive", "curved"):
        (x, y), (test_x, test_y) = table(kind, 10_000, rng), table(kind, 20_000, rng)
        for epsilon in (1.0, 8.0):
            given: dict[str, Any] = {"schema": SCHEMA, "classes": [0, 1]}
            found = {"logistic": dp.LogisticRegression(epsilon, **given).fit(x, y).score(test_x, test_y)}
            step = dp.TorchClassifier(epsilon, **given).fit(x, y).learning_rate_
            for factor in FACTORS:
                model = dp.TorchClassifier(epsilon, learning_rate=factor * step, **given).fit(x, y)
                found[f"{factor:g}"] = float((model.predict(test_x) == test_y).mean())
            results[f"{kind}, ε = {epsilon:g}"] = {name: round(value, 4) for name, value in found.items()}
            print(kind, epsilon, results[f"{kind}, ε = {epsilon:g}"], flush=True)
    STORED.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
