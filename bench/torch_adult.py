"""Adult by the network for tables at its defaults, beside logistic regression at its defaults: test accuracy.

    python bench/torch_adult.py --data FOLDER --runs 3 --store          # FOLDER holds adult/ as its usual files

Replace-one, δ = 1/n². Runs alternate. Nothing is chosen here: defaults come from synthetic tables
(`bench/torch_tables.py`), and docs/benchmarks.md says which figures of Adult had been seen before.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

import discreet as dp
import sets

STORED = Path(__file__).parent / "results" / "torch_adult.json"
MODELS = {"TorchClassifier": dp.TorchClassifier, "LogisticRegression": dp.LogisticRegression}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--store", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    _, schema, target, *tables = next(sets.problems(options.data, {"adult"}))
    labels, wanted = (np.asarray(table[target]) for table in tables)
    train, test = ({name: table[name] for name in table if name != target} for table in tables)
    given: dict[str, Any] = {"schema": schema.without(target), "classes": ["<=50K", ">50K"]}
    results: dict[str, dict[str, list[float]]] = {}
    for _ in range(options.runs):
        for epsilon in (1.0, 8.0):
            for name, kind in MODELS.items():
                model = kind(epsilon, **given).fit(train, labels)
                found = round(float((model.predict(test) == wanted).mean()), 5)
                results.setdefault(f"ε = {epsilon:g}", {}).setdefault(name, []).append(found)
                print(f"ε = {epsilon:g}, {name}: {100 * found:.2f} %", flush=True)
                if options.store:
                    text = json.dumps(results, indent=1, ensure_ascii=False)
                    STORED.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
