"""Huber and quantile regression at their defaults, where targets use a small part of their declared bounds.

    python bench/robust_losses.py    # a minute of one core, writes bench/results/robust_losses.{json,md}

No real data are read. Synthetic tables of 20 000 rows and 8 numeric columns, 10 000 rows for testing; δ = 1/n², n is
public, add-remove; everything else is the default. Beside ε = ∞ are scikit-learn's `HuberRegressor` and
`QuantileRegressor` on the same encoded features (the latter, a linear program, on a quarter of the rows), the best
constant, and objective perturbation, which knows the bounds of the targets alone. Huber's loss of the test rows is
measured at 1.35 standard deviations of scikit-learn's residuals, the pinball loss as it is; *below* is the share of
test targets below the prediction.
"""

from __future__ import annotations

import json
import math
import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import HuberRegressor, QuantileRegressor

import discreet as dp
import peers
from discreet.losses import Huber, Quantile

N, TEST, COLUMNS = 20_000, 10_000, 8
EPSILONS = (0.5, 1.0, 8.0)
SEEDS = 3
LEVELS = (0.5, 0.8, 0.9)
OTHER = "objective_perturbation"
TABLES = ("incomes", "heavy tails", "skewed", "narrow", "narrow, exact")


def table(kind: str, seed: int = 0) -> tuple[dict[str, Any], Any, tuple[float, float]]:
    """(columns, targets, declared bounds): 1 to 40 standard deviations of targets are within a tenth of the bounds."""
    n, rng = N + TEST, np.random.default_rng([seed, TABLES.index(kind)])
    laws = (
        lambda: rng.normal(50, 12, n),
        lambda: rng.gamma(2, 8, n),
        lambda: rng.uniform(0, 100, n),
        lambda: rng.integers(0, 5, n) * 20.0,
    )
    X = {f"x{j}": np.clip(laws[j % 4](), 0, 100) for j in range(COLUMNS)}
    X["x1"] = 0.6 * X["x0"] + 0.4 * X["x1"]
    terms = (np.sin(X[f"x{j}"] / 25) if j % 2 else X[f"x{j}"] / 40 for j in range(COLUMNS))
    z = sum(w * term for w, term in zip(rng.normal(size=COLUMNS), terms, strict=True))
    z = (z - z.mean()) / z.std()
    if kind == "incomes":  # spread more where they are high
        y, bounds = 30_000 + 14_000 * z + (6000 + 3000 * (z > 0)) * rng.standard_t(3, n), (0.0, 500_000.0)
    elif kind == "heavy tails":
        y, bounds = z + 0.5 * rng.standard_t(2, n), (-100.0, 100.0)
    elif kind == "skewed":
        y, bounds = np.exp(9 + 0.5 * z + 0.5 * rng.normal(size=n)), (0.0, 200_000.0)
    else:
        noise = 0.7 if kind == "narrow" else 0.1
        y, bounds = 20 + z + noise * rng.normal(size=n), (0.0, 100.0)
    return X, np.clip(y, *bounds), bounds


def estimator(loss: str, epsilon: float, **facts: Any) -> Any:
    if loss == "huber":
        return dp.HuberRegression(epsilon, **facts)
    return dp.QuantileRegression(epsilon, quantile=float(loss.split()[1]), **facts)


def peer(loss: str, rows: Any, y: Any) -> Any:
    """scikit-learn's model on encoded rows."""
    if loss == "huber":
        return HuberRegressor(alpha=0.0, max_iter=500).fit(rows, y)
    return QuantileRegressor(quantile=float(loss.split()[1]), alpha=0.0).fit(rows[: N // 4], y[: N // 4])


def cell(kind: str, loss: str) -> dict[str, Any]:
    X, y, bounds = table(kind)
    train, test = ({name: column[part] for name, column in X.items()} for part in (slice(N), slice(N, None)))
    schema = dp.Schema({name: dp.Numeric(0, 100) for name in X})
    facts = {"schema": schema, "target_bounds": bounds, "n_public": N, "delta": N**-2.0, "adjacency": "add-remove"}
    scale = float(np.std(y[:N]))  # a constant: scikit-learn's solvers want targets of about 1
    exact = estimator(loss, math.inf, **facts).fit(train, y[:N])
    encoded = [np.asarray(exact._features.encoder.transform(part)) for part in (train, test)]
    other = peer(loss, encoded[0], y[:N] / scale)
    sizes = np.abs(scale * other.predict(encoded[0]) - y[:N])
    own = Huber(1.35 * 1.48 * float(np.median(sizes))) if loss == "huber" else Quantile(float(loss.split()[1]))

    def figures(prediction: Any) -> list[float]:
        return [float(np.mean(own.value(prediction, y[N:]))), float(np.mean(y[N:] <= prediction))]

    level = 0.5 if loss == "huber" else float(loss.split()[1])
    found: dict[str, Any] = {
        "constant": figures(np.full(TEST, np.quantile(y[:N], level))),
        "scikit-learn": figures(scale * other.predict(encoded[1])),
        "∞": figures(exact.predict(test)),
    }
    for epsilon in EPSILONS:
        started = time.process_time()
        runs = [estimator(loss, epsilon, random_state=seed, **facts).fit(train, y[:N]) for seed in range(SEEDS)]
        found[f"{epsilon:g} seconds"] = (time.process_time() - started) / SEEDS
        found[f"{epsilon:g}"] = np.mean([figures(model.predict(test)) for model in runs], axis=0).tolist()
        others = [
            estimator(loss, epsilon, solver=OTHER, random_state=seed, **facts).fit(train, y[:N])
            for seed in range(SEEDS)
        ]
        found[f"{OTHER} {epsilon:g}"] = np.mean([figures(model.predict(test)) for model in others], axis=0).tolist()
        found["solver"] = runs[0].privacy_.solver
    return found


def markdown(cells: dict[str, Any]) -> str:
    """Losses over that of ε = ∞, in per cent more, and coverage."""
    others, own = [f"{OTHER} {epsilon:g}" for epsilon in EPSILONS], [f"{epsilon:g}" for epsilon in EPSILONS]
    lines = []
    for name, found in cells.items():
        more = [
            f"{100 * (found[way][0] / found['∞'][0] - 1):+.1f}" for way in ("constant", "scikit-learn", *others, *own)
        ]
        covered = [f"{100 * found[way][1]:.1f}" for way in ("scikit-learn", "∞", others[1], *own)]
        lines.append([*name.split(", loss "), *more, *("" if "huber" in name else share for share in covered)])
    bounds, default = ([f"{way}, ε = {epsilon}" for epsilon in own] for way in ("bounds", "default"))
    heads = ["table", "loss", "constant", "scikit-learn", *bounds, *default]
    return peers.markdown([*heads, *(f"below: {w}" for w in ("scikit-learn", "∞", bounds[1], *default))], lines)


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    cells: dict[str, Any] = {}
    for kind in TABLES:
        for loss in ("huber", *(f"quantile {level:g}" for level in LEVELS)):
            cells[f"{kind}, loss {loss}"] = cell(kind, loss)
            print(f"{kind}, {loss}", cells[f"{kind}, loss {loss}"], f"{time.process_time():.0f} s", flush=True)
    (peers.RESULTS / "robust_losses.json").write_text(json.dumps(cells, indent=1, ensure_ascii=False) + "\n")
    (peers.RESULTS / "robust_losses.md").write_text(
        "# Huber and quantile regression\n\n`python bench/robust_losses.py`: test losses, in per cent above those of "
        "ε = ∞, and the share of test targets below the prediction, in %; means of three seeds. *Bounds*: objective "
        "perturbation in units of the targets' bounds.\n\n"
        f"{markdown(cells)}\n"
    )
    print(markdown(cells))


if __name__ == "__main__":
    main()
