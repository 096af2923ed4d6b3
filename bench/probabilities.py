"""Probabilities of two classes, one of them rare: how much of what could be learnt does ``solver="auto"`` miss?

    python bench/probabilities.py    # a few minutes of one core, writes bench/results/probabilities.{json,md}

No real data are read. Problems are those of the family "rare" in ``synthetic.py``: tables, dense rows and indicators
with 0.5 to 50 % of the second class, whose true probabilities are known. A figure is the expected logarithmic loss
above that of the truth, over that of the class's share in the training rows: 0 is the truth, 1 the best constant,
which no private model knows exactly. "Private constant" is the best that a model without columns can be: the share that
a count of labels with the whole budget tells. For each imbalance a verdict says where runs are above either constant by
over one standard error, and where a larger ε loses over two. δ = 1/n², n is public, add-remove.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np

import discreet as dp
import peers
from discreet.calibration.guarantee import Guarantee
from discreet.calibration.one_release import gaussian_multiplier
from discreet.solvers.parts.logistic_recalibration import posterior_share
from discreet.units import Unit
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


def private_constant(problem: Synthetic, epsilon: float) -> float:
    """The mean share of the logarithmic loss that the share of a noisy count of labels misses, over 2000 draws."""
    n = len(problem.y)
    deviation = gaussian_multiplier(Guarantee(epsilon, 1 / n**2, Unit("add-remove"))) / 2 / n
    noise = deviation * np.random.default_rng(0).standard_normal(2000)
    shares = [posterior_share(float(problem.y.mean()) + error, deviation) for error in noise]
    return float(np.mean([problem.lost_logarithmic(np.full(len(problem.y_test), share)) for share in shares]))


def measured(seeds: int) -> dict[str, dict[str, Any]]:
    """For each problem, the runs of each ε and the private constant's loss."""
    found: dict[str, dict[str, Any]] = {}
    for name, make in collection().items():
        if name.startswith("rare"):
            problem = make()
            runs = [[loss(problem, e, seed, "auto", None) for seed in range(seeds)] for e in EPSILONS]
            found[name] = {"runs": runs, "private constant": [private_constant(problem, e) for e in EPSILONS]}
            print(name, [f"{np.mean(run):.3f}" for run in runs], flush=True)
    return found


def verdict(found: list[dict[str, Any]]) -> tuple[int, int, int, int]:
    """(cells, above the constant by over one standard error, above the private one, steps in ε that lose over two)."""
    above = private = falls = 0
    for problem in found:
        means = [float(np.mean(run)) for run in problem["runs"]]
        errors = [float(np.std(run, ddof=1)) / math.sqrt(len(run)) for run in problem["runs"]]
        above += sum(mean > 1 + error for mean, error in zip(means, errors, strict=True))
        bounds = zip(means, problem["private constant"], errors, strict=True)
        private += sum(mean > bound + error for mean, bound, error in bounds)
        pairs = zip(means, means[1:], errors, errors[1:], strict=False)
        falls += sum(after > before + 2 * math.hypot(a, b) for before, after, a, b in pairs)
    return len(found) * len(EPSILONS), above, private, falls


def verdict_table(found: dict[str, dict[str, Any]]) -> str:
    """A verdict for each imbalance, and for all."""
    shares = sorted({name.rpartition("p=")[2] for name in found}, key=float)
    groups = {f"{100 * float(p):g} %": [v for name, v in found.items() if name.endswith(f"p={p}")] for p in shares}
    rows = [[name, *verdict(group)] for name, group in (groups | {"all": list(found.values())}).items()]
    head = ["second class", "cells", "above the constant", "above the private constant", "steps in ε that lose"]
    return peers.markdown(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="runs of each figure")
    found = measured(parser.parse_args().seeds)
    rows = []
    for name, problem in found.items():
        rows.append([name.removeprefix("rare "), *(f"{np.mean(run):.3f}" for run in problem["runs"])])
        rows.append(["… private constant", *(f"{constant:.3f}" for constant in problem["private constant"])])
    table = peers.markdown(["problem", *(f"ε = {e:g}" for e in EPSILONS)], rows)
    text = f"{table}\n\n{verdict_table(found)}"
    peers.write("probabilities", "Probabilities of a rare class", text, {"epsilons": list(EPSILONS), "runs": found})


if __name__ == "__main__":
    main()
