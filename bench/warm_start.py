"""Descent from a public model: what a start and a private choice of the best iterate bring.

Logistic regression, d = 20, unit rows, a public model of 500 rows (scikit-learn) and n private rows, of the same
population or of one whose coefficients are turned by half. Shown is the log-loss on 20 000 fresh rows, mean of 5 runs.

Run: ``python bench/warm_start.py`` (about half a minute); writes ``bench/results/warm_start.md``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression as Public

import discreet as dp

D, RUNS = 20, 5
WAYS: dict[str, dict[str, Any]] = {
    "descent": {},
    "`iterate='best'`": {"iterate": "best"},
    "`start=`": {"start": True},
    "`start=`, `iterate='best'`": {"start": True, "iterate": "best"},
}


def drawn(n: int, theta: NDArray[np.float64], rng: np.random.Generator) -> tuple[Any, Any]:
    """Unit rows and labels."""
    X = rng.standard_normal((n, D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, (rng.random(n) < 1 / (1 + np.exp(-(X @ theta)))).astype(int)


def main() -> None:
    """Print and store the table."""
    lines = ["| n | ε | public rows | public model | " + " | ".join(WAYS) + " |", "|" + "---|" * (4 + len(WAYS))]
    for n, epsilon in ((1000, 0.1), (1000, 1.0), (20_000, 1.0)):
        for kind in ("same", "other"):
            rng = np.random.default_rng(0)
            theta = 6 * rng.standard_normal(D) / np.sqrt(D) * 2
            other = theta * np.where(np.arange(D) < D // 2, 1.0, -1.0)
            X, y = drawn(n, theta, rng)
            public = Public(C=100.0).fit(*drawn(500, theta if kind == "same" else other, rng))
            fresh = drawn(20_000, theta, rng)

            def loss(model: Any, fresh: tuple[Any, Any] = fresh) -> float:
                z = fresh[0] @ model.coef_.ravel() + model.intercept_
                return float(np.mean(np.logaddexp(0, -(2 * fresh[1] - 1) * z)))

            cells = [f"{loss(public):.3f}"]
            for options in WAYS.values():
                given = options | ({"start": public} if "start" in options else {})
                fits = [
                    dp.LogisticRegression(
                        epsilon,
                        1e-6,
                        row_norm=1.0,
                        classes=[0, 1],
                        solver="descent",
                        solver_options=given,
                        random_state=k,
                    ).fit(X, y)
                    for k in range(RUNS)
                ]
                cells.append(f"{np.mean([loss(model) for model in fits]):.3f}")
            lines.append(f"| {n} | {epsilon:g} | {kind} | " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    text = "# Starts from public models\n\n" + str(__doc__).split("\n\n")[1] + "\n\n" + "\n".join(lines) + "\n"
    (Path(__file__).parent / "results" / "warm_start.md").write_text(text)


if __name__ == "__main__":
    main()
