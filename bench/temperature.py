"""Probabilities of several classes: what does fitting their temperature gain, and what does its budget cost?

    python bench/temperature.py    # a few minutes of one core, writes bench/results/temperature.{json,md}

No real data are read. Problems are those of ``synthetic.py`` with several classes and up to 10 000 rows. δ = 1/n², n is
public, add-remove. All shares meet the same seeds; a share of 0 leaves scores as the descent ends, None is
the rule of the recipe.
"""

from __future__ import annotations

import argparse

import numpy as np

import discreet as dp
import peers
from synthetic import Synthetic, collection

EPSILONS = (0.1, 0.5, 2.0, 8.0)
SHARES = (0.0, None, 0.02, 0.05)
MOST_ROWS = 10_000


def scores(problem: Synthetic, epsilon: float, seed: int, share: float | None) -> tuple[float, float]:
    """(logarithmic loss, accuracy) on test rows of one fit."""
    n = len(problem.y)
    model = dp.LogisticRegression(
        epsilon, classes=list(range(problem.classes)), row_norm=problem.row_norm, adjacency="add-remove", n_public=n,
        delta=1 / n**2, random_state=seed, solver="scaled_descent",
        solver_options={"scales": "diagonal"} | ({} if share is None else {"recalibration_share": share}),
    )  # fmt: skip
    chances = model.fit(problem.X, problem.y).predict_proba(problem.X_test)
    own = chances[np.arange(len(chances)), problem.y_test.astype(int)]
    return float(-np.log(np.maximum(own, 1e-300)).mean()), float((chances.argmax(axis=1) == problem.y_test).mean())


def measured(seeds: int) -> dict[str, list[list[tuple[float, float]]]]:
    """For each problem and ε, (loss, accuracy) of the runs of each share."""
    found = {}
    for name, make in collection().items():
        if not name.startswith(("several", "images")):
            continue
        problem = make()
        if len(problem.y) > MOST_ROWS or problem.task != "multinomial":
            continue
        for epsilon in EPSILONS:
            runs = [[scores(problem, epsilon, seed, share) for seed in range(seeds)] for share in SHARES]
            found[f"{name}, ε = {epsilon:g}"] = runs
            print(name, epsilon, [f"{np.mean([r[0] for r in one]):.4f}" for one in runs], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="runs of each figure")
    found = measured(parser.parse_args().seeds)
    means = {name: np.mean(runs, axis=1) for name, runs in found.items()}
    rows = [[n, *(f"{loss:.4f}" for loss in m[:, 0]), *(f"{a:.3f}" for a in m[:, 1])] for n, m in means.items()]
    overall = np.mean(list(means.values()), axis=0)
    rows.append(["mean", *(f"{loss:.4f}" for loss in overall[:, 0]), *(f"{a:.3f}" for a in overall[:, 1])])
    heads = [
        f"{what}, share {'by the rule' if share is None else f'{share:g}'}"
        for what in ("log-loss", "accuracy")
        for share in SHARES
    ]
    stored = {"epsilons": list(EPSILONS), "shares": list(SHARES), "runs": found}
    peers.write("temperature", "The temperature of several classes", peers.markdown(["problem", *heads], rows), stored)


if __name__ == "__main__":
    main()
