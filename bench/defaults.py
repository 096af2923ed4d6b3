"""Where default settings come from: synthetic problems with known truth, each constant swept around its value.

    python bench/defaults.py                    # every sweep (about an hour of one core), writes bench/results/
    python bench/defaults.py --only shrink,cut  # these sweeps; the figures of others stay as they are
    python bench/defaults.py --check            # no sweep: the present defaults on all problems and budgets
    python bench/defaults.py --jobs 8           # as many processes

No real data are read. A fit's *loss* is the share of what could be learnt that it did not learn: 0 is the truth's own
test score, 1 that of no information (`synthetic.Synthetic.lost`). A *cell* is a problem at a budget; δ = 1/n², n is
public, and cells take the two relations in turn. *Regret* is a value's mean loss in a cell above that of the cell's
best value. All values of a sweep meet the same seeds, so their differences are less noisy than they are.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from importlib import import_module
from typing import Any

import numpy as np

import discreet as dp
import peers
from discreet.geometry import L1Ball, L2Ball
from discreet.tuned import Tuned, instead
from synthetic import Synthetic, collection

EPSILONS = [0.1, 0.5, 1.0, 2.0, 8.0]
RELATIONS = ["add-remove", "replace-one"]
RESULTS = peers.RESULTS / "defaults.json"
MANY_ROWS = 15_000
"""Problems with more rows get one run: their spread is small and their fits are slow."""


@dataclass(frozen=True)
class Sweep:
    """One constant (or choice), its values, and the problems that it matters to.

    Args:
        key: short name.
        what: in words.
        where: ``module.field``, a field of that module's ``NUMBERS`` inside discreet (``"recipes.descent.decay"``);
            ``"solver"``; or ``"knots"``.
        values: to be compared; the present default is among them.
        tasks: kinds of problem.
        families: kinds of rows; empty means all but "few", which is the Lasso's, "rare", where accuracies are
            alike, and "crossed", which is that of interactions.
        solver: fit by this solver rather than "auto".
        most: problems with more columns or rows than these are left out.
        least: problems with fewer columns are left out.
        epsilons: budgets.
        model: instead of the task's own, ``"sparse"`` (at most 11 coefficients), ``"l1"`` or ``"l2"`` (a ball of radius
            5 or 2).
    """

    key: str
    what: str
    where: str
    values: Sequence[Any]
    tasks: tuple[str, ...]
    families: tuple[str, ...] = ()
    solver: str = "auto"
    most: tuple[int, int] = (100_000, 30_000)
    least: int = 0
    epsilons: tuple[float, ...] = (0.1, 0.5, 2.0, 8.0)
    model: str = ""

    @property
    def present(self) -> Any:
        """The value that is the default now."""
        if self.where == "solver":
            return "auto"
        if self.where == "knots":
            return import_module("discreet.data.encoding").DEFAULT_BINS
        numbers, field = self._numbers()
        return getattr(numbers, field)

    def put(self, value: Any) -> AbstractContextManager[None]:
        """Inside the ``with`` block it is the default, wherever it is read."""
        if "." not in self.where:
            return nullcontext()
        numbers, field = self._numbers()
        return instead(replace(numbers, **{field: value}))

    def _numbers(self) -> tuple[Tuned, str]:
        """The tuned numbers of the module, and the field that is swept."""
        module, field = self.where.rsplit(".", 1)
        numbers = import_module(f"discreet.{module}").NUMBERS
        assert field in {known.name for known in fields(numbers)}, f"{module} has no tuned number {field}"
        return numbers, field

    def concerns(self, problem: Synthetic) -> bool:
        n, d = problem.X.shape if problem.schema is None else (len(problem.y), 0)
        fits = problem.family in self.families if self.families else problem.family not in ("few", "rare", "crossed")
        return fits and problem.task in self.tasks and self.least <= d <= self.most[0] and n <= self.most[1]


_WEIGHTED = "recipes.weighted_perturbation"
_OBJECTIVE, _NEWTON = "recipes.objective_perturbation", "recipes.full_scales"
_WIDE, _MANY_COLUMNS = "recipes.single_scales", ("dense", "words", "tiny", "wide")
_SEVERAL = ("multinomial",)
_CLASSES, _NUMBERS, _BAGS = ("binary",), ("regression",), ("words", "texts")
_ROWS = ("table", "dense", "binary")


def _scaled(key: str, what: str, constant: str, values: Sequence[Any]) -> Sweep:
    return Sweep(
        f"scaled-{key}", f"scaled descent: {what}", f"recipes.{constant}", values, _SEVERAL,
        most=(5000, 10_000), epsilons=(0.1, 1.0, 8.0),
    )  # fmt: skip


def _crossed(key: str, what: str, field: str, values: Sequence[Any]) -> Sweep:
    return Sweep(
        key, f"interactions: {what}", f"recipes.interactions.{field}", values, _CLASSES + _NUMBERS, ("crossed",),
        solver="interactions", most=(100_000, 8000), epsilons=(8.0,),
    )  # fmt: skip


SWEEPS = [
    Sweep("shrink", "objective perturbation: λ/(ν·L·R) under little noise", f"{_OBJECTIVE}.shrink",
          (0.1, 0.3, 0.6), _CLASSES, solver="objective_perturbation", most=(6000, 5500)),
    Sweep("shrink-noisy", "objective perturbation: growth of λ with the noise share", f"{_OBJECTIVE}.shrink_noisy",
          (2.0, 4.0, 8.0, 16.0), _CLASSES, most=(6000, 5500)),
    Sweep("weighted-shrink", "weighted perturbation: λ/(ν·L·R) with few columns", f"{_WEIGHTED}.shrink",
          (0.4, 0.8, 1.6), _CLASSES, solver="weighted_perturbation", most=(1000, 5500),
          epsilons=(0.5, 1.0, 2.0, 8.0)),
    Sweep("word-cut", "weighted perturbation of bags of words: slope at which losses are cut", f"{_WEIGHTED}.word_cut",
          (0.15, 0.25, 0.35, 0.5), _CLASSES, _BAGS, epsilons=(0.1, 0.5, 2.0, 8.0), least=1000),
    Sweep("word-power", "weighted perturbation of bags of words: exponent of the weights",
          "solvers.parts.column_weights.power", (0.0, 0.25, 0.375, 0.5), _CLASSES, _BAGS,
          epsilons=(0.1, 0.5, 2.0, 8.0), least=1000),
    Sweep("weighted-power", "weighted perturbation: exponent of the weights", "solvers.parts.column_weights.power",
          (0.0, 0.25, 0.5), _CLASSES, solver="weighted_perturbation", most=(60_000, 9500),
          epsilons=(0.5, 1.0, 2.0, 8.0)),
    Sweep("loudest", "noise of a count over n, beyond which scale and offset get more of the budget",
          f"{_WEIGHTED}.count_noise", (3e-3, 1e-2, 3e-2), _CLASSES, _ROWS, most=(1000, 5500),
          epsilons=(0.1, 0.5, 1.0)),
    Sweep("shrink-regression", "objective perturbation, least squares: λ/(ν·L·R)", f"{_OBJECTIVE}.shrink_regression",
          (0.5, 1.0, 2.0, 4.0), _NUMBERS, solver="objective_perturbation", most=(900, 5500)),
    Sweep("quiet", "noise share from which columns are weighted, and 20 times that from which rows are centred",
          f"{_WEIGHTED}.little_noise", (1e-4, 5e-4, 2.5e-3), _CLASSES, _ROWS, most=(1000, 30_000),
          epsilons=(1.0, 2.0, 8.0)),
    Sweep("noisy", "objective perturbation: noise d·ν/n from which slopes are cut",
          f"{_OBJECTIVE}.cut_noise", (5e-3, 0.02, 0.08, math.inf), _CLASSES, _ROWS,
          solver="objective_perturbation", most=(1000, 5500)),
    Sweep("intercept", "the constant column over the row norm", "estimators.base.intercept",
          (0.25, 0.5, 1.0), _CLASSES + _NUMBERS, most=(1000, 4000), epsilons=(0.1, 2.0)),
    _crossed("choice-share", "share of the budget for the choice", "choice_share",
             (0.04, 0.08, 0.16)),
    _crossed("choice-doubt", "probability of a choice by chance", "doubt", (0.05, 0.2, 0.5)),
    _crossed("choices", "pairs and finer resolutions chosen at most", "most", (3, 6, 12)),
    Sweep("least-rows", "interactions: n/ν from which they are chosen", "recipes.interactions.least_rows",
          (500.0, 1500.0, 4500.0), _CLASSES + _NUMBERS, ("crossed",), most=(100_000, 8000),
          epsilons=(0.5, 2.0)),
    Sweep("knots", "knots of a numeric column's spline", "knots", (4, 6, 8, 12), _CLASSES + _NUMBERS, ("table",),
          most=(100_000, 5500), epsilons=(0.5, 2.0, 8.0)),
    Sweep("steps", "private Newton: steps over √d under little noise", f"{_NEWTON}.steps_per_root_dimension",
          (6, 12, 18, 36), _NUMBERS, most=(500, 5500)),
    Sweep("newton-faint", "private Newton: noise share at which the ridge has doubled", f"{_OBJECTIVE}.doubling_noise",
          (0.02, 0.05, 0.1, math.inf), _NUMBERS, most=(500, 5500)),
    Sweep("damping", "private Newton: damping over the norm of the noise", f"{_NEWTON}.damping",
          (0.75, 1.0, 1.5, 2.5), _NUMBERS, most=(500, 5500)),
    Sweep("share", "private Newton: share of the budget for the second moment", "recipes.shared.large_share",
          (0.05, 0.1, 0.2, 0.4), _NUMBERS, most=(500, 5500)),
    Sweep("least-clip", "private Newton: least clip over the largest gradient", "recipes.shared.least_clip",
          (0.12, 0.25, 0.5, 1.0), _NUMBERS, most=(500, 5500)),
    Sweep("clip-at-noise", "private Newton: clip times the root of the noise share", "recipes.shared.clip_at_noise",
          (0.01, 0.03, 0.1), _NUMBERS, most=(500, 5500)),
    Sweep("prior-rows", "private Newton: rows of prior", f"{_NEWTON}.prior_rows",
          (0.5, 1.0, 2.0, 4.0), _NUMBERS, most=(500, 5500)),
    Sweep("reach", "descent: largest attainable score, several classes", "recipes.shared.score_bound",
          (2.5, 5.0, 10.0), ("multinomial",), most=(100_000, 10_000), epsilons=(0.1, 1.0, 8.0),
          solver="descent"),
    Sweep("wide-reach", "descent: largest attainable score, least squares with many columns",
          "recipes.shared.score_bound", (1.0, 2.5, 5.0), _NUMBERS, ("dense", "words", "tiny"), solver="descent",
          most=(100_000, 5500), least=1000),
    Sweep("wide-noise", "wide descent: noise in scores over the scale of targets", f"{_WIDE}.noise_share",
          (0.15, 0.25, 0.4), _NUMBERS, _MANY_COLUMNS, most=(100_000, 2500), least=1000),
    Sweep("wide-gain", "wide descent: gain of the searches for location and scale", "solvers.parts.location_scale.gain",
          (0.25, 0.5, 1.0), _NUMBERS, _MANY_COLUMNS, most=(100_000, 1200), least=1000),
    Sweep("moment-noise", "least squares: noise share beyond which no second moment is released",
          "planning.auto.most_noise", (0.2, 0.35, 0.5, 0.7), _NUMBERS, ("table", "dense", "binary"),
          most=(900, 5500)),
    _scaled("noise", "noise in a score", "shared.score_noise", (0.8, 1.6, 3.2)),
    _scaled("decay", "momentum", "shared.decay", (0.7, 0.85, 0.95)),
    _scaled("fewest", "number of steps", "shared.fewest_iterations", (16, 32, 64)),
    _scaled("constant", "weight of the constant column", "diagonal_scales.constant_weight", (0.125, 0.25, 0.5, 1.0)),
    _scaled("longest", "longest step", "diagonal_scales.longest_step", (50.0, 100.0, 200.0)),
    _scaled("batch", "rows up to which a batch has all", "diagonal_scales.batch", (1000, 3000, 10_000, 10**9)),
    Sweep("curvature", "Frank–Wolfe: typical over worst curvature (Lasso)", "recipes.frank_wolfe.curvature_share",
          (1 / 128, 1 / 64, 1 / 32, 1 / 16, 1 / 4), _NUMBERS, ("few",), solver="frank_wolfe", most=(1000, 2500)),
    Sweep("curvature-logistic", "the same (logistic, ℓ1 ball of radius 10)", "recipes.frank_wolfe.curvature_share",
          (1 / 128, 1 / 64, 1 / 32, 1 / 16, 1 / 4), _CLASSES, ("binary",), solver="frank_wolfe", most=(1000, 5500)),
    Sweep("walk", "Frank–Wolfe: the most steps (Lasso, next to no noise)", "recipes.frank_wolfe.most_iterations",
          (256, 1024, 4096, 16384), _NUMBERS, ("few",), solver="frank_wolfe", most=(1000, 2500),
          epsilons=(1000.0, 10_000.0)),
    Sweep("walk-logistic", "the same (logistic, ℓ1 ball of radius 10)", "recipes.frank_wolfe.most_iterations",
          (256, 1024, 4096, 16384), _CLASSES, ("binary",), solver="frank_wolfe", most=(1000, 5500),
          epsilons=(1000.0, 10_000.0)),
    Sweep("lasso-clip", "Lasso by Frank–Wolfe: clip over the largest target", "recipes.frank_wolfe.entry_clip",
          (0.06, 0.125, 0.25, 0.5), _NUMBERS, ("few",), solver="frank_wolfe", most=(1000, 2500)),
    Sweep("lasso-small", "Lasso by Frank–Wolfe: radius times the root of the noise",
          "recipes.lasso.radius_times_root_noise",
          (0.05, 0.07, 0.1, 0.14, 0.2, math.inf), _NUMBERS, ("few",), solver="frank_wolfe", most=(1000, 2500)),
    Sweep("lasso-narrow", "Lasso: square of row norm over entry bound up to which Newton's method is taken",
          "planning.auto.most_entries_in_length", (0.0, 25.0, 50.0, 100.0, 1000.0), _NUMBERS, ("few",),
          most=(1000, 2500)),
    Sweep("solver-sparse", "least squares with at most 11 coefficients", "solver",
          ("auto", "hard_threshold", "descent"), _NUMBERS, ("few",), most=(300, 5500), model="sparse"),
    Sweep("solver-ball", "least squares over an ℓ2 ball", "solver",
          ("auto", "objective_perturbation", "descent"), _NUMBERS, ("table", "dense"), most=(300, 2500), model="l2"),
    Sweep("solver-l1", "least squares over an ℓ1 ball without a bound on entries", "solver",
          ("auto", "frank_wolfe", "objective_perturbation", "descent"), _NUMBERS, ("table", "dense"),
          most=(300, 2500), model="l1"),
    Sweep("solver-words", "logistic regression on sparse rows with many columns", "solver",
          ("auto", "objective_perturbation", "scaled_descent", "descent"), _CLASSES, _BAGS),
    Sweep("solver-classes", "several classes", "solver",
          ("auto", "descent", "objective_perturbation"), _SEVERAL, ("classes", "words"), most=(100_000, 10_000),
          epsilons=(0.1, 1.0, 8.0)),
]  # fmt: skip


# --- fits -------------------------------------------------------------------------------------------------------------


def loss(
    problem: Synthetic, epsilon: float, relation: str, seed: int, solver: str, knots: int | None = None, model: str = ""
) -> float:
    """The share not learnt by one fit."""
    n = len(problem.y)
    facts: dict[str, Any] = {"adjacency": relation, "n_public": n, "delta": 1 / n**2, "random_state": seed}
    if problem.family == "crossed":  # whose columns a fit must know
        X, X_test = problem.X, problem.X_test
        facts |= {"schema": problem.schema, "solver": solver}
    else:
        X, X_test = problem.rows(knots)
        facts |= {"row_norm": problem.row_norm, "solver": solver}
    domain = {"l1": L1Ball(5.0), "l2": L2Ball(2.0)}.get(model)
    estimator: Any
    if problem.task != "regression":
        domain = domain or (L1Ball(10.0) if solver == "frank_wolfe" else None)
        estimator = dp.LogisticRegression(epsilon, classes=list(range(problem.classes)), domain=domain, **facts)
    elif model == "sparse":
        estimator = dp.SparseLinearRegression(epsilon, target_bounds=problem.bounds, sparsity=11, **facts)
    elif problem.family == "few":
        estimator = dp.Lasso(epsilon, target_bounds=problem.bounds, feature_bound=1.0, **facts)
    else:
        estimator = dp.LinearRegression(epsilon, target_bounds=problem.bounds, domain=domain, **facts)
    estimator.fit(X, problem.y)
    return problem.lost(float(estimator.score(X_test, problem.y_test)))


def cell(
    problem: Synthetic,
    epsilon: float,
    relation: str,
    solver: str,
    runs: int,
    knots: int | None = None,
    model: str = "",
) -> float:
    seeds = 1 if len(problem.y) > MANY_ROWS else runs
    return float(np.mean([loss(problem, epsilon, relation, seed, solver, knots, model) for seed in range(seeds)]))


def swept_problem(sweep: Sweep, turn: int, problem: Synthetic, runs: int) -> dict[str, list[float]]:
    """Losses of every value in every cell of one problem."""
    found: dict[str, list[float]] = {}
    for k, epsilon in enumerate(sweep.epsilons):
        relation, losses = RELATIONS[(turn + k) % 2], []
        for value in sweep.values:
            solver = value if sweep.where == "solver" else sweep.solver
            knots = value if sweep.where == "knots" else None
            with sweep.put(value):
                losses.append(cell(problem, epsilon, relation, solver, runs, knots, sweep.model))
        found[f"{problem.name}, ε = {epsilon:g}, {relation}"] = losses
    return found


def checked_problem(problem: Synthetic, runs: int) -> dict[str, list[float]]:
    """The loss of the present defaults in every cell of a problem, and that of the trivial prediction."""
    return {
        f"{problem.name}, ε = {epsilon:g}, {relation}": [
            cell(problem, epsilon, relation, "auto", runs),
            problem.trivial,
        ]
        for epsilon in EPSILONS
        for relation in RELATIONS
    }


def _part(job: tuple[int, int, str, int]) -> dict[str, list[float]]:
    """One problem of one sweep, or of the check where the sweep's number is −1; problems are made where they run."""
    number, turn, name, runs = job
    problem = collection()[name]()
    return checked_problem(problem, runs) if number < 0 else swept_problem(SWEEPS[number], turn, problem, runs)


def measured(jobs: list[tuple[int, int, str, int]], processes: int) -> dict[int, dict[str, list[float]]]:
    """All cells of all jobs, by the number of their sweep."""
    found: dict[int, dict[str, list[float]]] = {job[0]: {} for job in jobs}
    with ProcessPoolExecutor(processes) as pool:
        for job, cells in zip(jobs, pool.map(_part, jobs), strict=True):
            found[job[0]] |= cells
    return found


# --- tables -----------------------------------------------------------------------------------------------------------


def _named(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.3g}"


def table(found: dict[str, Any]) -> str:
    """Mean and worst regret of every value; the default is bold."""
    rows: list[list[object]] = []
    defaults = {sweep.key: _named(sweep.present) for sweep in SWEEPS}
    for key, sweep in found.items():
        losses = np.array(list(sweep["cells"].values()))
        regret = losses - losses.min(axis=1, keepdims=True)
        for k, value in enumerate(sweep["values"]):
            label = f"**{value}**" if value == defaults[key] else value
            first = f"{sweep['what']} ({key}, {len(losses)} cells)" if k == 0 else ""
            rows.append([first, label, *(f"{number:.3f}" for number in (losses[:, k].mean(), regret[:, k].mean())),
                         f"{np.quantile(regret[:, k], 0.9):.2f}", f"{regret[:, k].max():.2f}"])  # fmt: skip
    return peers.markdown(["constant", "value", "mean loss", "mean regret", "90 %", "worst"], rows)


def worse_than_nothing(cells: dict[str, list[float]]) -> str:
    """Cells where the present defaults do worse than the middle of the bounds or the larger class."""
    bad = [[name, f"{got:.2f}", f"{trivial:.2f}"] for name, (got, trivial) in cells.items() if got > trivial + 0.1]
    mean = np.mean([got for got, _ in cells.values()])
    head = f"{len(cells)} cells, mean loss {mean:.3f}; {len(bad)} are worse than the trivial prediction by over 0.1."
    return head + ("\n\n" + peers.markdown(["cell", "loss", "trivial"], bad) if bad else "")


def keep(part: str, found: dict[str, Any]) -> None:
    """Write new figures beside those of earlier runs, which stay where they are not measured anew."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"sweeps": {}, "check": {}}
    results["machine"] = peers.machine()
    results[part] |= found
    order = [sweep.key for sweep in SWEEPS if sweep.key in results["sweeps"]]
    results["sweeps"] = {key: results["sweeps"][key] for key in order}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    text = (
        "`python bench/defaults.py`: synthetic problems only, no real data. Loss is the share of what could be learnt "
        "that was not (0: the truth, 1: no information); regret is loss above the best value of the same cell (problem "
        "× ε × relation). Defaults are bold; a default is kept where others gain less than what runs differ by.\n\n"
        + table(results["sweeps"])
    )
    if results["check"]:
        text += "\n\n## The defaults on every problem and budget\n\n" + worse_than_nothing(results["check"])
    RESULTS.with_suffix(".md").write_text(f"# Defaults\n\n{text}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="keys of sweeps, with commas")
    parser.add_argument("--check", action="store_true", help="no sweep: the present defaults in all cells")
    parser.add_argument("--runs", type=int, default=3, help="runs of each value in each cell")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--most-rows", type=int, default=100_000, help="the check leaves out problems with more rows")
    options = parser.parse_args()
    wanted = set(options.only.split(",")) if options.only else {sweep.key for sweep in SWEEPS}
    crossed = options.check or any("crossed" in sweep.families for sweep in SWEEPS if sweep.key in wanted)
    others = options.check or any("crossed" not in sweep.families for sweep in SWEEPS if sweep.key in wanted)
    made: list[Synthetic] = [
        make()
        for name, make in collection().items()
        if not name.startswith("rare") and (crossed if name.startswith("crossed") else others)
    ]
    if options.check:
        jobs = [(-1, 0, problem.name, options.runs) for problem in made if len(problem.y) <= options.most_rows]
        found = measured(jobs, options.jobs)[-1]
        keep("check", found)
        print(worse_than_nothing(found))
        return
    jobs = []
    for number, sweep in enumerate(SWEEPS):
        names = [problem.name for problem in made if sweep.key in wanted and sweep.concerns(problem)]
        jobs += [(number, turn, name, options.runs) for turn, name in enumerate(names)]
    for number, cells in measured(jobs, options.jobs).items():
        sweep = SWEEPS[number]
        summary = {"what": sweep.what, "values": [_named(value) for value in sweep.values], "cells": cells}
        keep("sweeps", {sweep.key: summary})
        print(table({sweep.key: summary}), flush=True)


if __name__ == "__main__":
    main()
