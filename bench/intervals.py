"""Coverage and width of private intervals, on synthetic problems and on the bundled table.

    python bench/intervals.py             # some 25 minutes of two cores; writes bench/results/intervals.{json,md}
    python bench/intervals.py --missing   # cells that are not stored yet
    python bench/intervals.py --quick     # three cells with few runs, writes nothing, fails where coverage is wrong
    python bench/intervals.py --only linear

A *cell* is a model, a design, n, d and ε, with 500 runs: new rows, new targets, new noise. The truth is known. Releases
are those of a fit under add-remove with a private number of rows (2 % of ε) and δ = 1e-6. A run counts where q ≥ 1. The
*grid* is every n of 5 000, 20 000 and 100 000, every d of 5, 10 and 30 and every ε of 0.5, 1 and 4; its three designs
make a Latin square over n and d. Beside the grid are, at n = 20 000, d = 10, ε = 1, another design, a row norm three
times too large, correlations of 0.9, and both; and robust intervals where the variance is not the model's.

- *coverage*: the share of 95 % intervals that hold the truth, over all coefficients; and of the worst coefficient;
- *effects*: the same for average marginal effects, whose truth is that of the population;
- *width*: the median standard error of each coefficient over that of an *oracle*, which spends the whole budget on one
  gradient of whitened rows at the truth and knows the Hessian; the median coefficient and the largest. And over the
  standard error without privacy.

``--quick``: 60 runs a cell; were the indicators of one run all the same, coverage would err by 0.028, so that a bound
of 0.10 off 0.95 fails with probability below 4e-4 a cell, for coefficients and for effects.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, ndtri
from threadpoolctl import threadpool_limits

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
MOST_COUNT = 60.0
DESIGNS = ("normal", "correlated", "levels")
EPSILONS = (0.5, 1.0, 4.0)
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
    grid: bool = False


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
        more = rng.gamma(3.0, 1 / 3.0, len(X)) if cell.hetero else 1.0  # negative binomial counts
        return np.minimum(rng.poisson(np.exp(np.minimum(score, 6)) * more), MOST_COUNT).astype(float)
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


@cache
def effects(model: str, design: str, d: int) -> Any:
    """The average marginal effects of the population."""
    cell, theta = Cell(model, design, 400_000, d, 1.0), truth(model, design, d)
    score = rows(cell, np.random.default_rng(98)) @ theta[:-1] + theta[-1]
    slopes = {"logistic": expit(score) * expit(-score), "linear": np.ones(1), "poisson": np.exp(score)}[model]
    return float(slopes.mean()) * theta[:-1]


class Runs:
    """The runs of one cell: settings, and what each run found."""

    def __init__(self, cell: Cell) -> None:
        declared = norm(cell.design, cell.d) * cell.loose
        self.cell, self.spec = cell, RowSpec(cell.d - 1, declared, 0.5 * declared)
        self.share = COUNT_SHARE * cell.epsilon
        self.solver = recipe(self.problem(float(cell.n)), Guarantee(cell.epsilon - self.share, DELTA, UNIT))
        self.rng = np.random.default_rng([cell.n, cell.d, *map(ord, f"{cell.model}{cell.design}{cell.epsilon}")])
        scale = BOUND if cell.model == "linear" else 1.0
        self.unit = np.append(np.ones(cell.d - 1), self.spec.constant * self.spec.unit) * scale
        self.found: list[tuple[Any, Any, Any, float]] = []

    def problem(self, n: float) -> Problem:
        loss, error = LOSSES[self.cell.model], math.sqrt(2) / self.share
        return Problem(self.spec, loss, n, robust=self.cell.hetero, largest_count=MOST_COUNT, n_error=error)

    def run(self, data: Any) -> None:
        """One run: are coefficients and effects held, with which standard errors and which q."""
        cell, z, bits = self.cell, float(ndtri(0.975)), Bits.seeded(int(self.rng.integers(2**32)))
        problem = self.problem(max(2.0, cell.n + round(float(self.rng.laplace(scale=1 / self.share)))))
        found = drive(self.solver.estimated(problem), lambda m: m.sample(data, UNIT, bits))
        theta, error = found.theta * self.unit, np.sqrt(np.diag(found.covariance)) * self.unit
        held = np.abs(theta - truth(cell.model, cell.design, cell.d)) <= z * error
        average, moved = found.average_slope, found.average_slope.covariance * self.unit
        variance = (average.value * error) ** 2 + 2 * average.value * theta * moved + average.variance * theta**2
        distance = np.abs(average.value * theta[:-1] - effects(cell.model, cell.design, cell.d))
        self.found.append((held, distance <= z * np.sqrt(variance[:-1]), error, found.quality))


def measured(cell: Cell, epsilons: tuple[float, ...] = ()) -> list[dict[str, Any]]:
    """All runs of a cell, or of cells that differ in ε alone and have rows and targets in common."""
    each = [Runs(replace(cell, epsilon=epsilon)) for epsilon in epsilons or (cell.epsilon,)]
    models = ("logistic", "linear", "poisson")
    rng = np.random.default_rng([cell.n, cell.d, models.index(cell.model), DESIGNS.index(cell.design.split()[0])])
    for _ in range(cell.runs):
        X = rows(cell, rng)
        data = in_memory(X, targets(cell, X, rng), each[0].spec)
        for one in each:
            one.run(data)
    return [summary(one.cell, *map(np.array, zip(*one.found, strict=True))) for one in each]


def summary(cell: Cell, held: Any, effective: Any, errors: Any, quality: Any) -> dict[str, Any]:
    given = quality >= 1
    names = ("model", "design", "n", "d", "epsilon", "loose", "grid")
    line: dict[str, Any] = {name: getattr(cell, name) for name in names}
    line |= {"robust": cell.hetero, "runs": cell.runs, "given": float(given.mean()), "q": float(np.median(quality))}
    if given.any():
        plain, best = oracle(cell)
        width = np.median(errors[given], axis=0)
        each, effect = held[given].mean(axis=0), effective[given].mean(axis=0)
        line |= {"coverage": float(each.mean()), "least": float(each.min()), "most": float(each.max())}
        line |= {"effects": float(effect.mean()), "least_effect": float(effect.min())}
        line |= {"width": float(np.median(width / best)), "widest": float((width / best).max())}
        line |= {"over_plain": float(np.median(width / plain))}
    return line


def cells() -> Iterator[tuple[Cell, tuple[float, ...]]]:
    """Cells with the ε's that share their rows."""
    for i, n in enumerate((5000, 20_000, 100_000)):
        for model in LOSSES:
            for j, d in enumerate((5, 10, 30)):
                yield Cell(model, DESIGNS[(i + j) % 3], n, d, EPSILONS[0], grid=True), EPSILONS
    for model in LOSSES:
        middle = Cell(model, "normal", 20_000, 10, 1.0)
        yield from ((replace(middle, design=design), ()) for design in ("normal", "correlated 0.9"))
        yield from ((replace(middle, design=design, loose=3.0), ()) for design in ("normal", "correlated 0.9"))
    yield replace(middle, model="linear", hetero=True), ()
    yield Cell("linear", "normal", 5000, 5, 4.0, hetero=True), ()
    yield Cell("poisson", "normal", 20_000, 5, 4.0, hetero=True), ()


# --- the bundled table --------------------------------------------------------------------------------------------


def randhie(runs: int = 200) -> dict[str, Any]:
    """How often the intervals of the bundled table's columns, at ε = 1, hold the estimates without privacy.

    - *drawn*: each run draws as many rows from the table, with replacement: the table is the population, and intervals
      must hold its estimates at their level.
    - *fixed*: all runs are about the table itself. Intervals are for rows and noise, and only noise differs, so that
      they hold the estimates more often than at their level.
    """
    import discreet as dp
    from discreet.datasets import load_randhie, randhie_schema

    table = load_randhie()
    names = [name for name in table if name not in ("drugs", "visits", "person")]
    schema = randhie_schema()
    schema = type(schema)({name: schema[name] for name in names})
    X, y = {name: table[name] for name in names}, table["drugs"]
    settings = {"schema": schema, "classes": sorted(set(y.tolist())), "inference": True}
    plain = dp.LogisticRegression(math.inf, **settings).fit(X, y)
    model = dp.LogisticRegression(1.0, DELTA, adjacency="add-remove", n_public=len(y), random_state=0, **settings)
    model.fit(X, y)
    data = model._prepare(X, y, True)[1]
    exact = {line.name: line.estimate for line in plain.summary().lines}
    return {"runs": runs} | {how: held_by(model, data, exact, runs, how == "drawn") for how in ("drawn", "fixed")}


def held_by(model: Any, data: Any, exact: dict[str, float], runs: int, drawn: bool) -> dict[str, Any]:
    """How often intervals hold ``exact``, over runs of a fitted model's solver on new draws of rows, or on all rows."""
    from discreet.estimators.inference import Released, intervals

    solver, problem, rng = model.released_.solver, model.released_.problem, np.random.default_rng(3)
    hits: dict[str, list[bool]] = {}
    given = 0
    for run in range(runs):
        answers: list[Any] = []
        seen = data.take(rng.integers(len(data), size=len(data))) if drawn else data
        bits = Bits.seeded(run)

        def answer(measurement: Any, bits: Any = bits, answers: list[Any] = answers, seen: Any = seen) -> Any:
            answers.append(np.asarray(measurement.sample(seen, UNIT, bits), dtype=np.float64))
            return answers[-1]

        drive(solver.steps(problem), answer)
        found = intervals(Released(tuple(answers), solver, problem), model._features, model.privacy_, (1.0, 0.0))
        given += found.estimable
        for line in found.table() if found.estimable else ():
            if line.name in exact:
                hits.setdefault(line.name, []).append(line.low <= exact[line.name] <= line.high)
    each = {name: float(np.mean(held)) for name, held in hits.items()}
    pooled = float(np.mean([hit for held in hits.values() for hit in held]))
    return {"given": given / runs, "coverage": pooled, "columns": each}


# --- running and writing ------------------------------------------------------------------------------------------


HEAD = (
    "| model | design | n | d | ε | given | q | coverage | worst coefficients | effects | width/oracle | largest | "
    "width/no privacy |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|"
)
KEY = ("model", "design", "n", "d", "epsilon", "loose", "robust")


def row(line: dict[str, Any]) -> str:
    design = line["design"] + (f", R × {line['loose']:g}" if line["loose"] != 1 else "")
    design += ", variance not the model's, robust" if line["robust"] else ""
    cells = [line["model"], design, line["n"], line["d"], f"{line['epsilon']:g}"]
    cells += [f"{line['given']:.2f}", f"{line['q']:.1f}"]
    if "width" in line:
        cells += [f"{line['coverage']:.3f}", f"{line['least']:.3f} to {line['most']:.3f}", f"{line['effects']:.3f}"]
        cells += [f"{line[name]:.2f}" for name in ("width", "widest", "over_plain")]
    return "| " + " | ".join(map(str, [*cells, *[""] * (13 - len(cells))])) + " |"


def markdown(lines: list[dict[str, Any]], table: dict[str, Any] | None) -> str:
    out = ["# Private intervals: coverage and width", ""]
    out += [
        f"Made by `python bench/intervals.py`, which says what the columns mean, with {RUNS} runs a cell. Cells",
        "without coverage give an interval in no run.",
        "",
        HEAD,
        *map(row, lines),
        "",
    ]
    counted = [line for line in lines if line["q"] >= 1]
    if counted:
        least, most = (pick(counted, key=lambda line: line["coverage"])["coverage"] for pick in (min, max))
        worst, best = min(line["least"] for line in counted), max(line["most"] for line in counted)
        effects = [line["effects"] for line in counted]
        out += [
            f"{len(counted)} cells with a median q of at least 1: coverage {least:.3f} to {most:.3f}, single "
            f"coefficients {worst:.3f} to {best:.3f}, average marginal effects {min(effects):.3f} to "
            f"{max(effects):.3f}.",
            "",
        ]
    for model in LOSSES:
        mine = [line for line in lines if line["q"] >= 1 and line["model"] == model and line["grid"]]
        if mine:
            middle, most = np.median([line["width"] for line in mine]), max(line["widest"] for line in mine)
            out += [
                f"{model}: width over the oracle's in the {len(mine)} cells of the grid with a median q of at least 1, "
                f"median cell {middle:.2f}, largest coefficient {most:.2f}.",
                "",
            ]
    for how, words in (("drawn", "rows drawn from it"), ("fixed", "all of its rows")) if table else ():
        found = table[how]
        worst = min(found["columns"], key=found["columns"].get)
        out += [
            f"RAND table at ε = 1, {words}, {table['runs']} runs, given in {100 * found['given']:.0f} %: intervals "
            f"hold the table's estimates without privacy in {100 * found['coverage']:.1f} % of cases; least often for "
            f"{worst}, {100 * found['columns'][worst]:.1f} %.",
            "",
        ]
    return "\n".join(out)


def quick() -> None:
    for model in LOSSES:
        (line,) = measured(Cell(model, "normal", 5000, 5, 4.0, runs=60))
        print(json.dumps(line))
        assert line["given"] == 1.0, "intervals are not given"
        for what in ("coverage", "effects"):
            assert abs(line[what] - 0.95) < 0.10, f"{what}: not held as often as stated"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--missing", action="store_true", help="only cells that are not stored yet")
    parser.add_argument("--only", default="", help="one model, or randhie")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    given = parser.parse_args()
    if given.quick:
        return quick()
    stored, kept = RESULTS / "intervals.json", given.only or given.missing
    known = json.loads(stored.read_text()) if kept and stored.exists() else {"cells": [], "randhie": None}
    if given.only in ("", "randhie") and not (given.missing and known["randhie"]):
        known["randhie"] = randhie()
        write(stored, known)
    runs = {_key(line): line["runs"] for line in known["cells"]}
    work = [one for one in cells() if given.only in ("", one[0].model)]
    order = list(dict.fromkeys(key for one in cells() for key in _keys(*one)))
    if given.missing:
        work = [one for one in work if any(runs.get(key, 0) < one[0].runs for key in _keys(*one))]
    with ProcessPoolExecutor(given.jobs, initializer=_one_thread) as pool:
        for lines in pool.map(measured, *zip(*work, strict=True)) if work else ():
            new = {_key(line): line for line in lines}
            old = [line for line in known["cells"] if _key(line) not in new]
            known["cells"] = sorted([*old, *lines], key=lambda line: order.index(_key(line)))
            print(*map(json.dumps, lines), sep="\n", flush=True)
            write(stored, known)
    return None


def _one_thread() -> None:
    """Runs are short, so that one process a core is faster than many threads."""
    os.environ["DISCREET_THREADS"] = "1"
    threadpool_limits(1)


def _key(line: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(line[name]) for name in KEY)


def _keys(cell: Cell, epsilons: tuple[float, ...]) -> list[tuple[str, ...]]:
    facts = asdict(cell) | {"robust": cell.hetero}
    return [_key(facts | {"epsilon": epsilon}) for epsilon in epsilons or (cell.epsilon,)]


def write(stored: Path, known: dict[str, Any]) -> None:
    stored.write_text(json.dumps(known, indent=1) + "\n")
    (RESULTS / "intervals.md").write_text(markdown(known["cells"], known["randhie"]))


if __name__ == "__main__":
    main()
