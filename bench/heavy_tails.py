"""Least squares with heavy tails: ``heavy_tailed`` at its defaults against ``auto``.

n = 200 000 rows of d = 100 entries and noise drawn from Student's t, ε = 2, δ = 1/n², θ with two entries of ½
(‖θ‖² = 0.5), noise of half a unit, at most 5 coefficients. Rows are declared to be about as long as their median, 13,
and half as long again; targets to be within ±10 or ±50. Shown is ‖θ̂ − θ‖², one run.

Run: ``python bench/heavy_tails.py`` (about a minute); writes ``bench/results/heavy_tails.md``.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

import discreet as dp

N, D = 200_000, 100


def main() -> None:
    """Print and store the table."""
    lines = ["| degrees of freedom | row_norm | target_bounds | `auto` | `heavy_tailed` |", "|" + "---|" * 5]
    theta = np.where(np.arange(D) < 2, 0.5, 0.0)
    for freedom in (math.inf, 5.0, 3.0, 2.1):
        rng = np.random.default_rng(0)
        draw = (lambda *shape, rng=rng: rng.standard_normal(shape)) if math.isinf(freedom) else None
        draw = draw or (lambda *shape, rng=rng, freedom=freedom: rng.standard_t(freedom, shape))
        X = draw(N, D)
        y = X @ theta + 0.5 * draw(N)
        for norm, bound in ((13.0, 10.0), (20.0, 10.0), (20.0, 50.0)):
            cells = []
            for solver in ("auto", "heavy_tailed"):
                model = dp.SparseLinearRegression(
                    2.0, row_norm=norm, target_bounds=(-bound, bound), sparsity=5, solver=solver, random_state=0
                ).fit(X, y)
                cells.append(f"{np.sum((model.coef_ - theta) ** 2):.5f}")
            lines.append(f"| {freedom:g} | {norm:g} | ±{bound:g} | " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    text = "# Heavy tails\n\n" + str(__doc__).split("\n\n")[1] + "\n\n" + "\n".join(lines) + "\n"
    (Path(__file__).parent / "results" / "heavy_tails.md").write_text(text)


if __name__ == "__main__":
    main()
