"""Is any model worse than a constant? Two classes, few rows for their noise, all measures against ε.

    python bench/constant.py    # some minutes of one core, writes bench/results/constant.{json,md}

No real data are read. Problems are those of the family "small" in ``synthetic.py``: 60 to 2000 rows with 3 to 50 % of
the second class, of which nothing, a little or much can be told. Accuracy and logarithmic loss are expected ones, by
the true chances of the test rows, less those of the *true* constant (their mean chance), which no private model knows;
beside it stands the *private* constant: the posterior mean of the share by the whole budget, without a model. δ = 1/n²,
n is public, replace-one.
"""

from __future__ import annotations

import argparse
import math
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

import discreet as dp
import peers
from discreet.calibration.guarantee import Guarantee
from discreet.calibration.one_release import gaussian_multiplier
from discreet.solvers.parts.logistic_recalibration import posterior_share
from discreet.units import Unit
from synthetic import Synthetic, collection

EPSILONS = (0.1, 0.5, 2.0)
MEASURES = ("accuracy", "AUC", "log-loss")
Runs = dict[str, list[float]]


def gained(problem: Synthetic, found: Any) -> tuple[float, float, float]:
    """Accuracy (%), AUC and logarithmic loss of these chances, the constant's taken off."""
    truth, base = problem.chances, float(problem.chances.mean()) if problem.chances is not None else 0.5
    assert truth is not None
    right = 100 * (float(np.where(found > 0.5, truth, 1 - truth).mean()) - max(base, 1 - base))
    found = np.clip(found, 1e-9, 1 - 1e-9)
    loss = -float(np.mean(truth * np.log(found) + (1 - truth) * np.log(1 - found)))
    entropy = -(base * math.log(base) + (1 - base) * math.log(1 - base))
    return right, float(roc_auc_score(problem.y_test, found)), loss - entropy


def model(problem: Synthetic, epsilon: float, seed: int) -> Any:
    """The chances of the test rows by ``solver="auto"``."""
    n = len(problem.y)
    made = dp.LogisticRegression(
        epsilon, classes=[0, 1], row_norm=problem.row_norm, adjacency="replace-one", delta=1 / n**2, random_state=seed
    )
    return made.fit(problem.X, problem.y).predict_proba(problem.X_test)[:, 1]


def private_constant(problem: Synthetic, epsilon: float, seed: int) -> Any:
    """The posterior mean of the share for every row."""
    n = len(problem.y)
    error = gaussian_multiplier(Guarantee(epsilon, 1 / n**2, Unit("replace-one"))) / 2 / n
    noisy = float(problem.y.mean()) + error * np.random.default_rng(seed).standard_normal()
    return np.full(len(problem.y_test), posterior_share(noisy, error))


def measured(seeds: int) -> dict[str, list[dict[str, Runs]]]:
    """For each problem and ε, the runs of either row in each measure."""
    found = {}
    for name, make in collection().items():
        if not name.startswith("small"):
            continue
        problem, cells = make(), []
        for epsilon in EPSILONS:
            cell = {}
            for row, chances in (("model", model), ("private constant", private_constant)):
                runs = [gained(problem, chances(problem, epsilon, seed)) for seed in range(seeds)]
                cell[row] = dict(zip(MEASURES, map(list, zip(*runs, strict=True)), strict=True))
            cells.append(cell)
        found[name.removeprefix("small ")] = cells
        print(name, [f"{np.mean(cell['model']['log-loss']):+.4f}" for cell in cells], flush=True)
    return found


def mean_and_error(runs: list[float]) -> tuple[float, float]:
    return float(np.mean(runs)), float(np.std(runs, ddof=1)) / math.sqrt(len(runs))


def verdicts(found: dict[str, list[dict[str, Runs]]]) -> str:
    """How many cells are worse than either constant, and how many steps in ε lose."""
    lines = []
    cells = [cell for row in found.values() for cell in row]
    for measure, sign in (("accuracy", 1), ("log-loss", -1)):
        true = below = 0
        for cell in cells:
            mean, error = mean_and_error(cell["model"][measure])
            private, other = mean_and_error(cell["private constant"][measure])
            true += sign * mean < -error - 1e-9
            below += sign * (mean - private) < -math.hypot(error, other) - 1e-9
        lines.append(
            f"{measure}: of {len(cells)} cells {true} are worse than the true constant, and {below} than the private "
            "one, by over one standard error."
        )
    for measure, sign in (("accuracy", 1), ("AUC", 1), ("log-loss", -1)):
        steps = [pair for row in found.values() for pair in pairwise(row)]
        lost = 0
        for before, after in steps:
            (low, e), (high, f) = (mean_and_error(cell["model"][measure]) for cell in (before, after))
            lost += sign * (high - low) < -2 * math.hypot(e, f) - 1e-9
        lines.append(f"{measure}: {lost} of {len(steps)} steps to a larger ε lose over two standard errors.")
    return "\n".join(f"- {line}" for line in lines)


def table(found: dict[str, list[dict[str, Runs]]]) -> str:
    rows = []
    for name, cells in found.items():
        shown = [
            f"{np.mean(cell[row]['accuracy']):+.1f}, {np.mean(cell[row]['log-loss']):+.4f}"
            for cell in cells
            for row in ("model", "private constant")
        ]
        rows.append([name, *shown])
    head = [f"ε = {e:g}{row}" for e in EPSILONS for row in ("", ", private constant")]
    return peers.markdown(["problem", *head], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6, help="runs of each figure")
    found = measured(parser.parse_args().seeds)
    text = f"Accuracy (points) and log-loss less those of the true constant.\n\n{table(found)}\n\n{verdicts(found)}"
    peers.write("constant", "Models and constants", text, {"epsilons": list(EPSILONS), "runs": found})


if __name__ == "__main__":
    main()
