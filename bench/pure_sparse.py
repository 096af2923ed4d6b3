"""Pure ε on rows of few entries: Laplace noise against noise of Gamma length, on synthetic bags of words.

Rows have ten entries out of d, drawn like words (frequencies ∝ 1/rank), and length 1; a tenth of the first 200 words
tell the class. Every solver runs at its defaults with δ = 0 and, where it takes one, the sparsity 10. Shown is the mean
log-loss of three runs on 5000 fresh rows (0.693 is that of θ = 0), and the bound that the plan prints.

Run: ``python bench/pure_sparse.py`` (about a minute); writes ``bench/results/pure_sparse.md``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from discreet.calibration import Guarantee
from discreet.data.memory import in_memory
from discreet.ledger import Ledger
from discreet.losses import Logistic
from discreet.noise.bits import Bits
from discreet.planning.plan import make_plan
from discreet.planning.predicted import predicted_risk
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit
from discreet.vault import Vault

ENTRIES, RUNS, UNIT = 10, 3, Unit("replace-one")
METHODS: list[tuple[str, str, dict[str, Any]]] = [
    ("auto (objective_perturbation)", "auto", {}),
    ("output_perturbation, Gamma", "output_perturbation", {}),
    ("output_perturbation, Laplace", "output_perturbation", {"sparsity": ENTRIES}),
    ("sparse_descent, Laplace", "sparse_descent", {"sparsity": ENTRIES}),
]


def words(n: int, d: int, rng: np.random.Generator) -> tuple[sp.csr_array, np.ndarray]:
    """Rows of ten entries and their labels."""
    ranks = np.floor(np.exp(rng.random((n, ENTRIES)) * np.log(d + 1))).astype(np.int64) - 1
    X = sp.csr_array((np.ones(n * ENTRIES), ranks.ravel(), ENTRIES * np.arange(n + 1)), shape=(n, d))
    X.sum_duplicates()
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X = sp.csr_array(sp.diags_array(1 / lengths) @ X)
    truth = np.where(np.arange(d) < 200, 4.0 * (np.arange(d) % 10 == 0) - 4.0 * (np.arange(d) % 10 == 5), 0.0)
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-(X @ truth))), 1.0, -1.0)


def main() -> None:
    """Print and store the table."""
    lines = ["| n | d | ε | " + " | ".join(f"{name}: loss (bound)" for name, *_ in METHODS) + " |"]
    lines.append("|" + "---|" * (3 + len(METHODS)))
    for n, d, epsilon in ((20_000, 20_000, 1.0), (20_000, 20_000, 4.0), (100_000, 200_000, 1.0)):
        rng = np.random.default_rng(0)
        X, y = words(n + 5000, d, rng)
        rows = RowSpec(d, 1.0)
        problem = Problem(rows, Logistic(), float(n), sparse=True)
        data, cells = in_memory(X[:n], y[:n], rows), []
        for _, name, options in METHODS:
            plan = make_plan(problem, Guarantee(epsilon, 0.0, UNIT), name, options)
            losses = []
            for seed in range(RUNS):
                theta = Vault(data, UNIT, Ledger(), Bits.seeded(seed)).run(plan.solver, problem)
                losses.append(float(np.mean(np.logaddexp(0, -y[n:] * (X[n:] @ theta)))))
            cells.append(f"{np.mean(losses):.3f} ({predicted_risk(plan.solver, problem, UNIT):.2g})")
        lines.append(f"| {n} | {d} | {epsilon:g} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    text = "# Pure ε on sparse rows\n\n" + __doc__.split("\n\n")[1] + "\n\n" + "\n".join(lines) + "\n"
    (Path(__file__).parent / "results" / "pure_sparse.md").write_text(text)


if __name__ == "__main__":
    main()
