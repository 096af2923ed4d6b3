"""How many means of the targets the clips of counts should reach: scaled descent (full), on synthetic counts.

    python bench/counts.py    # some minutes of one core, writes bench/results/counts.{json,md}

No real data are read. Three kinds of counts on three kinds of rows: Poisson; negative binomial of dispersion 1, as
visits, claims and rentals are known to be (variance μ + μ²); and the same with half of all counts 0. δ = 1/n², n is
public, add-remove. A fit's *loss* is the share of what could be learnt that it did not learn: 0 is the fit without
privacy, 1 the best constant, both by the mean Poisson loss of the test rows.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np

import discreet as dp
import peers
from discreet.losses import Poisson
from discreet.recipes import full_scales
from discreet.tuned import current, instead
from whitened_losses import KINDS, TEST, rows

VALUES = (2.0, 4.0, 8.0, 16.0)
EPSILONS = (0.5, 1.0, 8.0)
SIZES = ((2000, 10), (5000, 40), (20_000, 20))
BOUND = 100.0
SEEDS = 3
COUNTS = ("poisson", "overdispersed", "many zeros")


def drawn(kind: str, mean: Any, rng: np.random.Generator) -> Any:
    """Counts of the given means."""
    if kind == "many zeros":
        mean = 2 * mean * (rng.uniform(size=len(mean)) < 0.5)
    spread = 1.0 if kind == "poisson" else rng.exponential(size=len(mean))
    return np.minimum(rng.poisson(mean * spread), BOUND)


def cell(kind: str, shape: str, n: int, d: int) -> dict[str, Any]:
    rng = np.random.default_rng([n, d, KINDS.index(shape), COUNTS.index(kind)])
    X = rows(shape, n + TEST, d, rng)
    z = X @ rng.normal(size=X.shape[1])
    y = drawn(kind, np.exp(0.7 + 0.6 * (z - z.mean()) / z.std()), rng)

    def risk(model: Any) -> float:
        return float(np.mean(Poisson().value(np.log(np.maximum(model.predict(X[n:]), 1e-9)), y[n:])))

    facts = {"row_norm": 1.0, "target_bounds": (0.0, BOUND)}
    best = risk(dp.PoissonRegression(float("inf"), **facts).fit(X[:n], y[:n]))
    worst = float(np.mean(Poisson().value(np.log(y[:n].mean()), y[n:])))
    found: dict[str, Any] = {}
    for epsilon in EPSILONS:
        losses = []
        for value in VALUES:
            with instead(replace(current(full_scales.NUMBERS), count_reach=value)):
                private = {"delta": n**-2.0, "adjacency": "add-remove", "n_public": n}
                fits = [
                    dp.PoissonRegression(epsilon, **private, **facts, random_state=seed).fit(X[:n], y[:n])
                    for seed in range(SEEDS)
                ]
            losses.append(float(np.mean([(risk(model) - best) / (worst - best) for model in fits])))
        found[f"{kind}, {shape} n={n} d={X.shape[1]}, ε = {epsilon:g}"] = losses
        print(list(found.items())[-1], flush=True)
    return found


def main() -> None:
    cells: dict[str, Any] = {}
    for kind in COUNTS:
        for shape in KINDS:
            for n, d in SIZES:
                cells |= cell(kind, shape, n, d)
    lines = []
    for kind in (*COUNTS, ""):
        losses = np.array([line for name, line in cells.items() if name.startswith(kind)])
        regret = losses - losses.min(axis=1, keepdims=True)
        for k, value in enumerate(VALUES):
            lines.append([kind or "all", f"{value:g}", f"{losses[:, k].mean():.3f}", f"{regret[:, k].mean():.3f}"])
    (peers.RESULTS / "counts.json").write_text(json.dumps({"values": VALUES, "cells": cells}, indent=1) + "\n")
    table = peers.markdown(["counts", "means", "mean loss", "mean regret"], lines)
    (peers.RESULTS / "counts.md").write_text(f"# Clips of counts\n\n`python bench/counts.py`.\n\n{table}\n")
    print(table)


if __name__ == "__main__":
    main()
