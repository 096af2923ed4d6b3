"""Probabilities of two classes, one of them rare: how much of what could be learnt does ``solver="auto"`` miss?

    python bench/probabilities.py    # a few minutes of one core, writes bench/results/probabilities.{json,md}

No real data are read. Problems are those of the family "rare" in ``synthetic.py``: tables, dense rows and indicators
with 0.5 to 50 % of the second class, whose true probabilities are known. A figure is the expected logarithmic loss
above that of the truth, over that of the class's share in the training rows: 0 is the truth, 1 the best constant,
which no private model knows exactly. δ = 1/n², n is public, add-remove.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np

import discreet as dp
import peers
from synthetic import Synthetic, collection

EPSILONS = (0.1, 0.5, 1.0, 2.0, 8.0)


def loss(problem: Synthetic, epsilon: float, seed: int, solver: str, options: dict[str, Any] | None) -> float:
    """The share of the logarithmic loss that one fit misses."""
    n = len(problem.y)
    model = dp.LogisticRegression(
        epsilon, classes=[0, 1], row_norm=problem.row_norm, adjacency="add-remove", n_public=n, delta=1 / n**2,
        random_state=seed, solver=solver, solver_options=options,
    )  # fmt: skip
    model.fit(problem.X, problem.y)
    return problem.lost_logarithmic(model.predict_proba(problem.X_test)[:, 1])


def measured(seeds: int) -> dict[str, list[list[float]]]:
    """For each problem, the runs of each ε."""
    found = {}
    for name, make in collection().items():
        if name.startswith("rare"):
            problem = make()
            found[name] = [[loss(problem, e, seed, "auto", None) for seed in range(seeds)] for e in EPSILONS]
            print(name, [f"{np.mean(runs):.3f}" for runs in found[name]], flush=True)
    return found


def verdicts(found: dict[str, list[list[float]]]) -> tuple[int, int, int]:
    """(cells, cells above the constant by over one standard error, steps in ε that lose over two standard errors)."""
    above = falls = 0
    for runs in found.values():
        means, errors = zip(
            *((float(np.mean(r)), float(np.std(r, ddof=1)) / math.sqrt(len(r))) for r in runs), strict=True
        )
        above += sum(mean > 1 + error for mean, error in zip(means, errors, strict=True))
        pairs = zip(means, means[1:], errors, errors[1:], strict=False)
        falls += sum(after > before + 2 * math.hypot(a, b) for before, after, a, b in pairs)
    return len(found) * len(EPSILONS), above, falls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="runs of each figure")
    found = measured(parser.parse_args().seeds)
    rows = [[name.removeprefix("rare "), *(f"{np.mean(r):.3f}" for r in runs)] for name, runs in found.items()]
    cells, above, falls = verdicts(found)
    text = (
        f"{peers.markdown(['problem', *(f'ε = {e:g}' for e in EPSILONS)], rows)}\n\nOf {cells} cells {above} are above "
        f"the best constant by over one standard error; {falls} of {len(found) * (len(EPSILONS) - 1)} steps to a "
        "larger ε lose over two standard errors."
    )
    peers.write("probabilities", "Probabilities of a rare class", text, {"epsilons": list(EPSILONS), "runs": found})


if __name__ == "__main__":
    main()
