"""Whether whitened steps help losses other than squared: scaled descent beside others, on synthetic problems.

    python bench/whitened_losses.py    # a few minutes of one core, writes bench/results/whitened_losses.{json,md}

No real data are read. Poisson, Huber and quantile (0.5 and 0.8) regression on up to 100 columns; δ = 1/n², n is public,
add-remove. A fit's *loss* is the share of what could be learnt that it did not learn: 0 is the fit without privacy, 1
the best constant, both by the mean loss of the test rows. All solvers meet the same seeds. The *other* solver is what
is taken where no second moment is: descent for Poisson regression, objective perturbation for losses of bounded
curvature. *Chosen* is what "auto" takes: full scales for counts, and the scale of the residuals else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

import discreet as dp
import peers
from discreet.losses import Huber, Poisson, Quantile
from synthetic import binary_rows, factor_rows, gaussian_rows

EPSILONS = (0.5, 1.0, 8.0)
SEEDS = 4
TEST = 4000
SIZES = ((500, 5), (2000, 10), (2000, 40), (5000, 100), (20_000, 20))
KINDS = ("gaussian", "correlated", "indicators")


def rows(kind: str, n: int, d: int, rng: np.random.Generator) -> Any:
    """Rows of length at most 1: a decaying spectrum with a mean, few strong factors, or indicators."""
    if kind == "gaussian":
        return gaussian_rows(rng, n, d, 1.0, 0.5)
    if kind == "correlated":
        return factor_rows(rng, n, d, min(d, 5))
    return binary_rows(rng, n, max(1, d // 5), 5, False).toarray()


def problems() -> Iterator[tuple[str, str, Any, Any, Any]]:
    """(name, loss, rows, targets, declared bounds)."""
    for kind in KINDS:
        for n, d in SIZES:
            rng = np.random.default_rng([n, d, KINDS.index(kind)])
            X = rows(kind, n + TEST, d, rng)
            z = X @ rng.normal(size=X.shape[1])
            z = (z - z.mean()) / z.std()
            name = f"{kind} n={n} d={X.shape[1]}"
            yield name, "poisson", X, np.minimum(rng.poisson(np.exp(0.7 + 0.6 * z)), 20), (0.0, 20.0)
            y = np.clip(z + 0.5 * rng.standard_t(2.5, size=len(z)), -6, 10)
            for loss in ("huber", "quantile 0.5", "quantile 0.8"):
                yield name, loss, X, y, (-6.0, 10.0)


def estimator(loss: str, epsilon: float, **facts: Any) -> Any:
    if loss == "poisson":
        return dp.PoissonRegression(epsilon, **facts)
    if loss == "huber":
        return dp.HuberRegression(epsilon, **facts)
    return dp.QuantileRegression(epsilon, quantile=float(loss.split()[1]), **facts)


def mean_loss(loss: str, prediction: Any, y: Any) -> float:
    """Of the test targets, in the units of the loss itself."""
    if loss == "poisson":
        return float(np.mean(Poisson().value(np.log(np.maximum(prediction, 1e-9)), y)))
    pointwise = Huber(1.0) if loss == "huber" else Quantile(float(loss.split()[1]))
    return float(np.mean(pointwise.value(prediction, y)))


def constant(loss: str, y: Any) -> float:
    """The best constant for the loss."""
    if loss == "poisson":
        return float(np.mean(y))
    return float(np.quantile(y, 0.5 if loss == "huber" else float(loss.split()[1])))


def measured() -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for name, loss, X, y, bounds in problems():
        ways = {"descent": ("descent", None), "full": ("scaled_descent", {"scales": "full"})}
        if loss != "poisson":
            ways["other"] = ("objective_perturbation", None)
            ways["chosen"] = ("scaled_descent", {"scales": "residual"})
        n = len(y) - TEST
        facts = {"target_bounds": bounds, "row_norm": 1.0}
        exact = estimator(loss, math.inf, **facts).fit(X[:n], y[:n]).predict(X[n:])
        best, nothing = (mean_loss(loss, p, y[n:]) for p in (exact, np.full(TEST, constant(loss, y[:n]))))
        for epsilon in EPSILONS:
            found = {}
            for way, (solver, options) in ways.items():
                found[way] = [
                    (mean_loss(loss, _fit(loss, epsilon, X, y, n, facts, solver, options, seed), y[n:]) - best)
                    / (nothing - best)
                    for seed in range(SEEDS)
                ]
            found.setdefault("other", found["descent"])
            found.setdefault("chosen", found["full"])
            cells[f"{loss}, {name}, ε = {epsilon:g}"] = found
            print(loss, name, epsilon, {way: round(float(np.mean(v)), 3) for way, v in found.items()}, flush=True)
    return cells


def _fit(loss: str, epsilon: float, X: Any, y: Any, n: int, facts: Any, solver: str, options: Any, seed: int) -> Any:
    declared = {"adjacency": "add-remove", "n_public": n, "delta": 1 / n**2, "random_state": seed}
    model = estimator(loss, epsilon, solver=solver, solver_options=options, **facts, **declared)
    return model.fit(X[:n], y[:n]).predict(X[n:])


def table(cells: dict[str, Any]) -> str:
    """By loss and ε: mean losses, the mean paired difference, and in how many problems it is clear."""
    heads = (
        "loss | ε | descent | other | full | chosen | chosen − other | ahead by 2 s.e. | behind by 2 s.e. | problems"
    )
    lines = [f"| {heads} |"]
    lines.append("|---|---|---|---|---|---|---|---|---|---|")
    for loss in dict.fromkeys(key.split(",")[0] for key in cells):
        for epsilon in EPSILONS:
            own = [v for k, v in cells.items() if k.startswith(f"{loss},") and k.endswith(f"ε = {epsilon:g}")]
            differences = [np.array(v["chosen"]) - np.array(v["other"]) for v in own]
            errors = [d.std(ddof=1) / math.sqrt(len(d)) for d in differences]
            clear = [d.mean() / max(e, 1e-12) for d, e in zip(differences, errors, strict=True)]
            means = [np.mean([np.mean(v[way]) for v in own]) for way in ("descent", "other", "full", "chosen")]
            over = np.array([d.mean() for d in differences])
            change = f"{over.mean():+.3f} ± {over.std(ddof=1) / math.sqrt(len(over)):.3f}"
            ahead, behind = sum(c < -2 for c in clear), sum(c > 2 for c in clear)
            shown = [loss, f"{epsilon:g}", *(f"{m:.3f}" for m in means), change, str(ahead), str(behind), str(len(own))]
            lines.append(f"| {' | '.join(shown)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    found = measured()
    (peers.RESULTS / "whitened_losses.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    (peers.RESULTS / "whitened_losses.md").write_text(f"# Whitened steps for other losses\n\n{table(found)}\n")
    print(table(found))
