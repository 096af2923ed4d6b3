"""Settings of `TorchClassifier` varied on synthetic tables, beside private logistic regression.

    python bench/torch_tables.py            # prints both tables, and writes bench/results/torch_tables.json
    python bench/torch_tables.py --only ends

``steps``: two tables of numbers and categories, one whose log-odds are additive, one with a curve and a product of
columns. The default step, which has no tuned number in it, is multiplied by ¼ … 4.

``ends``: tables of `synthetic_interactions`, whose numbers have several shapes; the expected accuracy with and without
the second view of numbers that is fine at both bounds (`discreet.torch.ends`).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import expit

import discreet as dp
import synthetic_interactions
from discreet.torch import tabular

STORED = Path(__file__).parent / "results" / "torch_tables.json"
EPSILONS = (1.0, 8.0)
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


def steps() -> dict[str, dict[str, float]]:
    """Test accuracy by the factor of the default step."""
    rng = np.random.default_rng(0)
    results: dict[str, dict[str, float]] = {}
    for kind in ("additive", "curved"):
        (x, y), (test_x, test_y) = table(kind, 10_000, rng), table(kind, 20_000, rng)
        for epsilon in EPSILONS:
            given: dict[str, Any] = {"schema": SCHEMA, "classes": [0, 1]}
            found = {"logistic": dp.LogisticRegression(epsilon, **given).fit(x, y).score(test_x, test_y)}
            step = dp.TorchClassifier(epsilon, **given).fit(x, y).learning_rate_
            for factor in FACTORS:
                model = dp.TorchClassifier(epsilon, learning_rate=factor * step, **given).fit(x, y)
                found[f"{factor:g}"] = float((model.predict(test_x) == test_y).mean())
            results[f"{kind}, ε = {epsilon:g}"] = {name: round(value, 4) for name, value in found.items()}
            print(kind, epsilon, results[f"{kind}, ε = {epsilon:g}"], flush=True)
    return results


def ends(rows: int = 20_000, test: int = 10_000) -> dict[str, dict[str, float]]:
    """Expected accuracy on new rows, with the second view of numbers and without it, and of the truth."""
    results: dict[str, dict[str, float]] = {}
    second = tabular.with_fine_ends
    for number, kind in enumerate(("additive", "spikes", "all")):
        rng = np.random.default_rng(number)
        declared, cells, truth = synthetic_interactions.table(rng, rows + test, kind)
        chances = expit(2 * truth - 0.5)
        y = (rng.random(rows) < chances[:rows]).astype(int)
        train, new = ({name: cell[part] for name, cell in cells.items()} for part in (slice(rows), slice(rows, None)))
        for epsilon in EPSILONS:
            found = {"truth": float(np.maximum(chances, 1 - chances)[rows:].mean())}
            for name, view in (("without", lambda features: features), ("with", second)):
                tabular.with_fine_ends = view
                model = dp.TorchClassifier(epsilon, schema=dp.Schema(declared), classes=[0, 1]).fit(train, y)
                found[name] = float(np.where(model.predict(new) == 1, chances[rows:], 1 - chances[rows:]).mean())
            results[f"{kind}, ε = {epsilon:g}"] = {name: round(value, 4) for name, value in found.items()}
            print(kind, epsilon, results[f"{kind}, ε = {epsilon:g}"], flush=True)
    tabular.with_fine_ends = second
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["steps", "ends"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    for name, part in (("steps", steps), ("ends", ends)):
        if options.only in (None, name):
            stored[name] = part()
    STORED.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
