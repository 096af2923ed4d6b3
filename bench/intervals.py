"""Coverage and width of private intervals, on synthetic problems and on the bundled table.

    python bench/intervals.py             # some ten minutes of one core; writes bench/results/intervals.{json,md}
    python bench/intervals.py --quick     # three cells with few runs, writes nothing, fails where coverage is wrong
    python bench/intervals.py --only linear --jobs 2

Runs are short: ``OPENBLAS_NUM_THREADS=1 DISCREET_THREADS=1`` make them faster.

A *cell* is a model, a design, n, d and ε, with 500 runs: new rows, new targets, new noise. The truth is known. Releases
are those of a fit under add-remove with a private number of rows (2 % of ε) and δ = 1e-6. A run counts where q ≥ 1.

- *coverage*: the share of 95 % intervals that hold the truth, over all coefficients; and of the worst coefficient;
- *width*: the median standard error of each coefficient over that of an *oracle*, which spends the whole budget on one
  gradient of whitened rows at the truth and knows the Hessian; the median coefficient and the largest. And over the
  standard error without privacy.

``--quick``: 60 runs a cell; were the indicators of one run all the same, coverage would err by 0.028, so that a bound
of 0.10 off 0.95 fails with probability below 4e-4 a cell.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, ndtri

from discreet.calibration import Guarantee
from discreet.calibration.one_release import gaussian_multiplier
from discreet.data.memory import in_memory
from discreet.losses import Logistic, Poisson, Squared
from discreet.measurements.program import drive
from discreet.noise.bits import Bits
from discreet.recipes.intervals import recipe
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.units import Unit

RESULTS = Path(__file__).parent / "results"
UNIT, DELTA, COUNT_SHARE, RUNS = Unit("add-remove"), 1e-6, 0.02, 500
LOSSES = {"logistic": Logistic(), "linear": Squared(), "poisson": Poisson()}
BOUND = 6.0  # of the targets of least squares, whose errors have standard deviation 1
LEVELS = {5: (3,), 10: (5,), 30: (7, 8)}
SLOPE = {"logistic": 1.0, "linear": 2.5, "poisson": 4.0}  # the oracle's


@dataclass(frozen=True)
class Cell:
    """One line of the table."""

    model: str
    design: str
    n: int
    d: int
    epsilon: float
    loose: float = 1.0
    hetero: bool = False
    runs: int = RUNS
    label: str = field(default="", compare=False)


def features(design: str, n: int, d: int, rng: np.random.Generator) -> Any:
    """d − 1 columns: normal, correlated (0.5 or 0.9), or levels of categories of unequal size beside normal ones."""
    if design in ("correlated", "correlated 0.9"):
        rho = 0.9 if design.endswith("0.9") else 0.5
        return math.sqrt(1 - rho) * rng.standard_normal((n, d - 1)) + math.sqrt(rho) * rng.standard_normal((n, 1))
    X = rng.standard_normal((n, d - 1))
    first = 0
    for k in LEVELS[d] if design == "levels" else ():
        p = 1 / np.arange(1, k + 1)
        level = rng.choice(k, n, p=p / p.sum())
        X[:, first : first + k - 1] = level[:, None] == np.arange(1, k)
        first += k - 1
    return X


@cache
def norm(design: str, d: int) -> float:
    """The row norm that is declared: 99 % of rows are shorter."""
    return float(np.quantile(np.linalg.norm(features(design, 100_000, d, np.random.default_rng(1)), axis=1), 0.99))


def rows(cell: Cell, rng: np.random.Generator, n: int | None = None) -> Any:
    X = features(cell.design, n or cell.n, cell.d, rng)
    return X * np.minimum(1, norm(cell.design, cell.d) / np.linalg.norm(X, axis=1))[:, None]


@cache
def truth(model: str, design: str, d: int) -> Any:
    """Coefficients with scores of standard deviation 1.2 (counts: 1), the intercept last."""
    rng = np.random.default_rng(7 + d)
    X, theta = features(design, 50_000, d, rng), rng.standard_normal(d - 1)
    theta *= (1.0 if model == "poisson" else 1.2) / (X @ theta).std()
    return np.append(theta, {"logistic": -0.5, "linear": 0.5, "poisson": -0.3}[model])


def targets(cell: Cell, X: Any, rng: np.random.Generator) -> Any:
    theta = truth(cell.model, cell.design, cell.d)
    score = X @ theta[:-1] + theta[-1]
    if cell.model == "logistic":
        return np.where(rng.random(len(X)) < expit(score), 1.0, -1.0)
    if cell.model == "poisson":
        return rng.poisson(np.exp(np.minimum(score, 6))).astype(float)
    error = rng.standard_normal(len(X)) * ((0.3 + 0.7 * np.abs(X[:, 0])) if cell.hetero else 1.0)
    return np.clip((score + error) / BOUND, -1, 1)


def oracle(cell: Cell) -> tuple[Any, Any]:
    """Standard errors without privacy, and with the whole budget on one whitened gradient and the true Hessian."""
    X = np.column_stack([rows(cell, np.random.default_rng(99), 100_000), np.ones(100_000)])
    score = X @ truth(cell.model, cell.design, cell.d)
    k = {"logistic": expit(score) * expit(-score), "linear": np.ones(len(X)), "poisson": np.exp(score)}[cell.model]
    inverse, moment = np.linalg.inv((X * k[:, None]).T @ X / len(X)), X.T @ X / len(X)
    sampled = np.diag(inverse) / cell.n
    noise = gaussian_multiplier(Guarantee(cell.epsilon, DELTA, UNIT)) * SLOPE[cell.model] / cell.n
    whitened = np.diag(inverse @ moment @ inverse) * (cell.d + math.sqrt(2 * cell.d))
    plain = np.diag(inverse @ inverse) * (norm(cell.design, cell.d) ** 2 + 1)
    return np.sqrt(sampled), np.sqrt(sampled + np.minimum(whitened, plain) * noise**2)


def measured(cell: Cell) -> dict[str, Any]:
    """All runs of a cell."""
    declared = norm(cell.design, cell.d) * cell.loose
    spec = RowSpec(cell.d - 1, declared, 0.5 * declared)
    loss, share = LOSSES[cell.model], COUNT_SHARE * cell.epsilon
    solver = recipe(
        Problem(spec, loss, float(cell.n), robust=cell.hetero), Guarantee(cell.epsilon - share, DELTA, UNIT)
    )
    models = ("logistic", "linear", "poisson")
    rng = np.random.default_rng([cell.n, cell.d, models.index(cell.model), int(100 * cell.epsilon), len(cell.design)])
    unit = np.append(np.ones(cell.d - 1), spec.constant * spec.unit) * (BOUND if cell.model == "linear" else 1.0)
    true, z = truth(cell.model, cell.design, cell.d), float(ndtri(0.975))
    held, errors, quality = [], [], []
    for run in range(cell.runs):
        X = rows(cell, rng)
        y = targets(cell, X, rng)
        counted = max(2.0, cell.n + round(float(rng.laplace(scale=1 / share))))
        data, bits = in_memory(X, y, spec), Bits.seeded(run)
        problem = Problem(spec, loss, counted, robust=cell.hetero)
        found = drive(solver.estimated(problem), lambda m, data=data, bits=bits: m.sample(data, UNIT, bits))
        error = np.sqrt(np.diag(found.covariance)) * unit
        held.append(np.abs(found.theta * unit - true) <= z * error)
        errors.append(error)
        quality.append(found.quality)
    return summary(cell, np.array(held), np.array(errors), np.array(quality))


def summary(cell: Cell, held: Any, errors: Any, quality: Any) -> dict[str, Any]:
    given = quality >= 1
    line: dict[str, Any] = {name: getattr(cell, name) for name in ("model", "design", "n", "d", "epsilon", "loose")}
    line |= {"robust": cell.hetero, "runs": cell.runs, "given": float(given.mean()), "q": float(np.median(quality))}
    if given.any():
        plain, best = oracle(cell)
        width = np.median(errors[given], axis=0)
        each = held[given].mean(axis=0)
        line |= {"coverage": float(each.mean()), "least": float(each.min()), "most": float(each.max())}
        line |= {"width": float(np.median(width / best)), "widest": float((width / best).max())}
        line |= {"over_plain": float(np.median(width / plain))}
    return line


def cells() -> list[Cell]:
    found = []
    for model in LOSSES:
        found.append(Cell(model, "normal", 20_000, 10, 1.0))
        found += [Cell(model, "normal", 5000, 5, epsilon) for epsilon in (0.5, 1.0, 4.0)]
        found += [Cell(model, design, 5000, 5, 1.0) for design in ("correlated", "levels")]
        found.append(Cell(model, "normal", 5000, 30, 1.0, runs=100))
        found += [Cell(model, "normal", 20_000, 10, 1.0, loose=3.0), Cell(model, "correlated 0.9", 20_000, 10, 1.0)]
    found.append(Cell("linear", "normal", 20_000, 10, 1.0, hetero=True))
    found += [Cell(model, "levels", 20_000, 10, 4.0) for model in LOSSES]
    return found


# --- the bundled table --------------------------------------------------------------------------------------------


def randhie(runs: int = 200) -> dict[str, Any]:
    """How often the intervals of the bundled table's columns, at ε = 1, hold the estimates without privacy.

    Rows are fixed, so that intervals, which are for rows and noise, hold them more often than at their level.
    """
    import discreet as dp
    from discreet.datasets import load_randhie, randhie_schema
    from discreet.estimators.inference import Released, intervals

    table = load_randhie()
    names = [name for name in table if name not in ("drugs", "visits", "person")]
    schema = randhie_schema()
    schema = type(schema)({name: schema[name] for name in (*names, "drugs")})
    X, y = {name: table[name] for name in names}, table["drugs"]
    schema = schema.without("drugs")
    settings = {"schema": schema, "classes": sorted(set(y.tolist())), "inference": True}
    plain = dp.LogisticRegression(math.inf, **settings).fit(X, y)
    exact = {line.name: line.estimate for line in plain.summary().lines}
    model = dp.LogisticRegression(1.0, DELTA, adjacency="add-remove", n_public=len(y), random_state=0, **settings)
    model.fit(X, y)
    solver, problem = model.released_.solver, model.released_.problem
    features, data = model._prepare(X, y, True)
    hits: dict[str, list[bool]] = {}
    given = 0
    for run in range(runs):
        answers: list[Any] = []
        bits = Bits.seeded(run)

        def answer(measurement: Any, bits: Any = bits, answers: list[Any] = answers) -> Any:
            answers.append(np.asarray(measurement.sample(data, UNIT, bits), dtype=np.float64))
            return answers[-1]

        drive(solver.steps(problem), answer)
        found = intervals(Released(tuple(answers), solver, problem), features, model.privacy_, (1.0, 0.0))
        given += found.estimable
        for line in found.table() if found.estimable else ():
            if line.name in exact:
                hits.setdefault(line.name, []).append(line.low <= exact[line.name] <= line.high)
    each = {name: float(np.mean(held)) for name, held in hits.items()}
    pooled = float(np.mean([hit for held in hits.values() for hit in held]))
    return {"runs": runs, "given": given / runs, "coverage": pooled, "columns": each}


# --- running and writing ------------------------------------------------------------------------------------------


HEAD = (
    "| model | design | n | d | ε | given | q | coverage | worst coefficients | width/oracle | largest | "
    "width/no privacy |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def row(line: dict[str, Any]) -> str:
    design = line["design"] + (f", R × {line['loose']:g}" if line["loose"] != 1 else "")
    design += ", unequal variances, robust" if line["robust"] else ""
    cells = [line["model"], design, line["n"], line["d"], f"{line['epsilon']:g}"]
    cells += [f"{line['given']:.2f}", f"{line['q']:.1f}"]
    if "coverage" in line:
        cells += [f"{line['coverage']:.3f}", f"{line['least']:.3f} to {line['most']:.3f}"]
        cells += [f"{line[name]:.2f}" for name in ("width", "widest", "over_plain")]
    return "| " + " | ".join(map(str, [*cells, *[""] * (12 - len(cells))])) + " |"


def markdown(lines: list[dict[str, Any]], table: dict[str, Any] | None) -> str:
    out = ["# Private intervals: coverage and width", ""]
    out += ["Made by `python bench/intervals.py`, which says what the columns mean.", "", HEAD, *map(row, lines), ""]
    for model in LOSSES:
        mine = [line for line in lines if line["model"] == model and line["given"] > 0.5]
        mine = [line for line in mine if line["loose"] == 1 and not line["robust"]]
        if mine:
            middle, most = np.median([line["width"] for line in mine]), max(line["widest"] for line in mine)
            out += [f"{model}: width over the oracle's, median cell {middle:.2f}, largest coefficient {most:.2f}.", ""]
    if table:
        worst = min(table["columns"], key=table["columns"].get)
        out += [
            f"RAND table at ε = 1, {table['runs']} runs, given in {100 * table['given']:.0f} %: they hold the "
            f"estimates without privacy in {100 * table['coverage']:.1f} % of cases; least often for {worst}, "
            f"{100 * table['columns'][worst]:.1f} %.",
            "",
        ]
    return "\n".join(out)


def quick() -> None:
    for model in LOSSES:
        line = measured(Cell(model, "normal", 5000, 5, 4.0, runs=60))
        print(json.dumps(line))
        assert line["given"] == 1.0, "intervals are not given"
        assert abs(line["coverage"] - 0.95) < 0.10, "coverage is wrong"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="one model, or randhie")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    if given.quick:
        return quick()
    stored = RESULTS / "intervals.json"
    known = json.loads(stored.read_text()) if stored.exists() else {"cells": [], "randhie": None}
    work = [cell for cell in cells() if given.only in ("", cell.model)]
    run: Callable[..., Any] = map
    with ProcessPoolExecutor(given.jobs) as pool:
        run = pool.map if given.jobs > 1 else map
        for line in run(measured, work):
            print(json.dumps(line), flush=True)
            key = [line[k] for k in ("model", "design", "n", "d", "epsilon", "loose", "robust")]
            kept = [
                old
                for old in known["cells"]
                if [old[k] for k in ("model", "design", "n", "d", "epsilon", "loose", "robust")] != key
            ]
            known["cells"] = [*kept, line]
            write(stored, known)
    if given.only in ("", "randhie"):
        known["randhie"] = randhie()
        write(stored, known)
    return None


def write(stored: Path, known: dict[str, Any]) -> None:
    stored.write_text(json.dumps(known, indent=1) + "\n")
    (RESULTS / "intervals.md").write_text(markdown(known["cells"], known["randhie"]))


if __name__ == "__main__":
    main()
