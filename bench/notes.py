"""Every algorithm, theorem and example of the source notes at its defaults: one row an item.

    python bench/notes.py [--only WORD] [--out bench/results]

An item is a function under ``@item(place in the notes, what it is, public way to it)`` that returns a figure, what it
is compared with, and whether it holds. Problems are synthetic with fixed seeds; settings are ε = 1, δ = 1e-6 and the
defaults, unless the item is about others. Bounds are proved ones; references are the same problem without privacy, or a
trivial answer that a useful one must beat. Exit status 1 if a verdict does not hold. About two minutes.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import numpy as np  # noqa: E402 - after the threads were set
import scipy.sparse as sp  # noqa: E402

import discreet as dp  # noqa: E402
from discreet.accounting import adaptive, textbook  # noqa: E402
from discreet.accounting.upper.classical import advanced_composition as advanced  # noqa: E402
from discreet.estimators.planned import planned  # noqa: E402
from discreet.events import (  # noqa: E402
    Event,
    FixedSize,
    Gaussian,
    LastIterate,
    Poisson,
    PrivateSelection,
    PureDP,
    Repeat,
    Selection,
)
from discreet.planning.predicted import predicted_bound  # noqa: E402
from discreet.units import Adjacency  # noqa: E402

EPSILON, DELTA, RUNS = 1.0, 1e-6, 3


@dataclass(frozen=True)
class Found:
    """A figure, what it is compared with in words, and whether it holds."""

    figure: str
    reference: str
    holds: bool


@dataclass(frozen=True)
class Item:
    """One row of the table."""

    place: str
    what: str
    way: str
    run: Callable[[], Found]


ITEMS: list[Item] = []


def item(place: str, what: str, way: str) -> Callable[[Callable[[], Found]], Callable[[], Found]]:
    """Register a function as the row of an item."""

    def register(run: Callable[[], Found]) -> Callable[[], Found]:
        ITEMS.append(Item(place, what, way, run))
        return run

    return register


def below(figure: float, bound: float, name: str) -> Found:
    """A figure that must not exceed a bound."""
    return Found(f"{figure:.4g}", f"{name} {bound:.4g}", bool(figure <= bound * (1 + 1e-9)))


# --- problems ---------------------------------------------------------------------------------------------------


@lru_cache
def labelled(n: int = 20_000, d: int = 8, seed: int = 0) -> tuple[Any, Any]:
    """Rows in the unit ball and labels of a logistic model."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    theta = 4 * rng.normal(size=d) / math.sqrt(d)
    return X, (X @ theta + rng.logistic(size=n) > 0).astype(int)


@lru_cache
def numbers(n: int = 20_000, d: int = 8, sparsity: int = 0, seed: int = 1) -> tuple[Any, Any, Any]:
    """Rows in the unit ball, targets in ±1 of a linear model, and the model."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) / math.sqrt(d)
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    theta = np.zeros(d)
    theta[: sparsity or d] = rng.choice([-1, 1], sparsity or d) / math.sqrt(sparsity or d)
    return X, np.clip(X @ theta + 0.05 * rng.normal(size=n), -1, 1), theta


def risk(model: Any, X: Any, y: Any) -> float:
    """The mean logistic loss of a classifier's scores."""
    margins = np.where(y == model.classes_[1], 1, -1) * model.decision_function(X)
    return float(np.logaddexp(0, -margins).mean())


def classifier_excess(solver: str, options: dict[str, Any] | None = None, **settings: Any) -> tuple[float, Any]:
    """Mean excess risk of a solver over the minimiser without privacy, and its plan."""
    X, y = labelled()
    common = {"row_norm": 1.0, "classes": [0, 1]} | settings
    model = dp.LogisticRegression(EPSILON, DELTA, **common, solver=solver, solver_options=options)
    best = dp.LogisticRegression(math.inf, **{k: v for k, v in common.items() if k != "delta"}).fit(X, y)
    plan = planned(model, len(X), X.shape[1])
    fits = [model.set_params(random_state=seed).fit(X, y) for seed in range(RUNS)]
    return float(np.mean([risk(fit, X, y) - risk(best, X, y) for fit in fits])), plan


def against_bound(solver: str, options: dict[str, Any] | None = None, **settings: Any) -> Found:
    """The excess risk of a solver below the bound of its plan, or else of the trivial model."""
    excess, plan = classifier_excess(solver, options, **settings)
    try:
        return below(excess, float(predicted_bound(plan.solver, plan.problem, plan.guarantee.unit)), "bound")
    except dp.errors.DiscreetError:
        X, y = labelled()
        best = dp.LogisticRegression(math.inf, row_norm=1.0, classes=[0, 1]).fit(X, y)
        return below(excess, (math.log(2) - risk(best, X, y)) / 2, "half the excess of the zero model")


def regression_error(estimator: str, settings: dict[str, Any], **problem: Any) -> tuple[float, float]:
    """Mean squared distance from the true model, and that of the zero model."""
    X, y, theta = numbers(**problem)
    common = {"row_norm": 1.0, "target_bounds": (-1.0, 1.0), "fit_intercept": False} | settings
    fits = [getattr(dp, estimator)(EPSILON, DELTA, **common, random_state=seed).fit(X, y) for seed in range(RUNS)]
    return float(np.mean([np.sum((fit.coef_ - theta) ** 2) for fit in fits])), float(theta @ theta)


# --- N3: accounting ---------------------------------------------------------------------------------------------


def narrow(event: Event, delta: float, relation: Adjacency) -> Found:
    """The interval of ε, and whether it is at most 1 % wide."""
    found = dp.accounting.epsilon(event, delta, relation)
    width = (found.upper - found.lower) / found.upper
    return Found(f"[{found.lower:.5g}, {found.upper:.5g}], {100 * width:.2g} % wide", "at most 1 % wide", width <= 0.01)


@item("N3", "Gaussian mechanism, composition", "accounting.epsilon(Repeat(Gaussian(σ), T))")
def gaussian_composition() -> Found:
    found = dp.accounting.epsilon(Repeat(Gaussian(40.0), 100), 1e-6, "replace-one")
    once = dp.accounting.epsilon(Gaussian(4.0), 1e-6, "replace-one")
    return Found(f"{found.upper:.6g}", f"one release of σ/√T {once.upper:.6g}", abs(found.upper - once.upper) < 1e-6)


@item("N3", "advanced and optimal composition", "accounting.upper")
def advanced_composition() -> Found:
    event = Repeat(PureDP(0.1), 100)
    exact = dp.accounting.epsilon(event, 1e-6, "add-remove").upper
    return below(exact, advanced([(0.1, 100)], 1e-6), "advanced composition")


@item("N3", "amplification, Poisson", "accounting.epsilon(Poisson(q, …))")
def amplification() -> Found:
    sampled = dp.accounting.epsilon(Repeat(Poisson(0.01, Gaussian(1.0)), 100), 1e-6, "add-remove").upper
    return below(sampled, dp.accounting.epsilon(Repeat(Gaussian(1.0), 100), 1e-6, "add-remove").upper, "all rows")


@item("N3", "amplification, fixed size", "accounting.epsilon(FixedSize(m, n, …))")
def fixed_size() -> Found:
    sampled = dp.accounting.epsilon(FixedSize(100, 10_000, PureDP(1.0)), 0.0, "replace-one").upper
    return below(sampled, math.log1p(0.01 * math.expm1(1.0)) + 1e-12, "ln(1 + q(e^ε − 1))")


@item("N3", "exponential mechanism, bounded range", "accounting.epsilon(Selection(ε))")
def bounded_range() -> Found:
    event = Repeat(Selection(0.1), 100)
    exact = dp.accounting.epsilon(event, 1e-6, "add-remove").upper
    return below(exact, dp.accounting.epsilon(Repeat(PureDP(0.1), 100), 1e-6, "add-remove").upper, "as pure ε")


@item("N3", "exponential mechanism, repeated", "accounting.epsilon(Repeat(Selection(ε), k))")
def repeated_selection() -> Found:
    return narrow(Repeat(Selection(0.1), 100), 1e-6, "add-remove")


@item("N3", "rare participation, Poisson", "accounting.epsilon(Repeat(Poisson(1e-5, …), k))")
def rare_participation() -> Found:
    return narrow(Repeat(Poisson(1e-5, Gaussian(1.0)), 1000), 1e-7, "replace-one")


@item("N3", "fixed size, repeated, add-remove", "accounting.epsilon(Repeat(FixedSize(m, n, …), k))")
def repeated_fixed_size() -> Found:
    return narrow(Repeat(FixedSize(256, 60_000, Gaussian(2.0)), 2000), 1e-6, "add-remove")


@item("N3", "fixed size, repeated, replace-one", "accounting.epsilon(Repeat(FixedSize(m, n, …), k))")
def replaced_fixed_size() -> Found:
    event = Repeat(FixedSize(256, 60_000, Gaussian(2.0)), 2000)
    found, other = (dp.accounting.epsilon(event, 1e-6, to) for to in ("replace-one", "add-remove"))
    interval = f"[{found.lower:.4g}, {found.upper:.4g}]"
    return Found(
        interval,
        "no dominating pair is better from above; steps of one kind reach the lower end",
        found.lower >= 0.99 * other.lower and found.upper <= 1.3 * found.lower,
    )


@item("N3", "filters", "accounting.adaptive.ZCDPFilter")
def filters() -> Found:
    budget, admitted = adaptive.ZCDPFilter(0.5, "replace-one"), 0
    while budget.affords(Gaussian(20.0)):
        budget.spend(Gaussian(20.0))
        admitted += 1
    return Found(f"{admitted} releases", "ρ/(2/20²) = 100, sums rounded up", admitted in (99, 100))


@item("N3", "private selection", "accounting.epsilon(PrivateSelection(…))")
def private_selection() -> Found:
    found = dp.accounting.epsilon(PrivateSelection(PureDP(1.0), 3.0), 0.0, "add-remove").upper
    return below(found, 3.0, "3ε of Liu and Talwar")


@item("N3", "last iterate, accounting", "accounting.LastIterate")
def last_iterate_accounting() -> Found:
    hidden = dp.accounting.epsilon(LastIterate(60.0, 300, 0.96), 1e-6, "replace-one").upper
    return below(hidden, dp.accounting.epsilon(Repeat(Gaussian(60.0), 300), 1e-6, "replace-one").upper, "every step")


@item("N3", "last iterate, solver", "descent, iterate='last'")
def last_iterate() -> Found:
    return against_bound("descent", {"iterate": "last"}, alpha=0.02)


@item("N0–N4", "printed formulas", "accounting.textbook.table")
def printed_formulas() -> Found:
    known = {
        "noisy gradient descent, rank bound",
        "objective perturbation, noise term",
        "noisy gradient descent, factor of the rank",
    }
    wrong = [t.name for t in textbook.table(1.0, 1e-5, 100) if not t.holds]
    wrong += [m.name for m in textbook.misprints(1e-5, 100, 1000, rank=5) if not m.holds]
    return Found(f"{len(wrong)} false at ε = 1, δ = 1e-5", "; ".join(sorted(known)), set(wrong) == known)


# --- N0: losses and geometry ------------------------------------------------------------------------------------


@item("N0", "robust losses, not convex", "LinearRegression(loss='welsch')")
def robust_losses() -> Found:
    X, y, theta = numbers()
    y = np.where(np.random.default_rng(2).random(len(y)) < 0.3, 1.0, y)
    common = {"row_norm": 1.0, "target_bounds": (-1.0, 1.0), "random_state": 0}
    errors = [
        float(np.mean((dp.LinearRegression(EPSILON, DELTA, loss=loss, **common).fit(X, y).predict(X) - X @ theta) ** 2))
        for loss in ("welsch", "huber")
    ]
    return below(errors[0], errors[1] / 2, "squared error, three of ten targets wrong; half of Huber's")


@item("N0", "stationary points", "plan of loss='tukey'")
def stationary_points() -> Found:
    plan = planned(dp.LinearRegression(1.0, DELTA, row_norm=1.0, target_bounds=(0, 1), loss="tukey"), 20_000, 8)
    bound = predicted_bound(plan.solver, plan.problem)
    return below(float(bound), plan.problem.loss.lipschitz(dp.losses.Domain()) ** 2, "trivial L²")


# --- solvers ----------------------------------------------------------------------------------------------------


@item("N0 Alg 1, N2 Alg 2", "noisy gradient descent", "solver='descent'")
def descent() -> Found:
    return against_bound("descent", {"iterate": "average"})


@item("N2", "DP-SGD", "descent, rate=0.05")
def dp_sgd() -> Found:
    return against_bound("descent", {"rate": 0.05})


def _optimizer(rule: str) -> Callable[[], Found]:
    return lambda: against_bound("descent", {"update": rule})


for rule in ("momentum", "adam", "adamw", "adafactor", "svrg"):
    item("N2", f"optimizer: {rule}", f"descent, update='{rule}'")(_optimizer(rule))


@item("N1 Alg 2", "private Frank–Wolfe", "solver='frank_wolfe'")
def frank_wolfe() -> Found:
    return against_bound("frank_wolfe", domain=dp.geometry.L1Ball(3.0))


@item("N1 Alg 4", "hard thresholding", "SparseLinearRegression")
def hard_thresholding() -> Found:
    return below(*regression_error("SparseLinearRegression", {"sparsity": 4}, n=50_000, d=40, sparsity=4), "zero model")


@item("N1 Alg 5", "peeling", "dp.largest_sums")
def peeling() -> Found:
    rng = np.random.default_rng(0)
    X = (rng.random((5000, 300)) < np.where(np.arange(300) < 3, 0.5, 0.1)).astype(float)
    found = dp.largest_sums(X, 3, epsilon=1.0, entry_bound=1.0, adjacency="add-remove", random_state=0)
    return Found(
        str(np.flatnonzero(found).tolist()), "largest are [0, 1, 2]", np.flatnonzero(found).tolist() == [0, 1, 2]
    )


@item("N1 Alg 7, N3", "objective perturbation", "solver='objective_perturbation'")
def objective_perturbation() -> Found:
    return against_bound("objective_perturbation", {"slope_bound": 1.2})


@item("N3", "output perturbation", "solver='output_perturbation'")
def output_perturbation() -> Found:
    return against_bound("output_perturbation")


@item("N0, N3", "exponential mechanism: median", "dp.quantile")
def median() -> Found:
    values = np.random.default_rng(3).normal(50, 10, 5000)
    found = dp.quantile(values, epsilon=1.0, bounds=(0, 100), adjacency="replace-one", random_state=0)
    rank = abs(float(np.mean(values < found)) - 0.5) * 5000
    return below(rank, 2 * 2 * math.log(2**20 / 0.01), "ranks but for 1 %:")


@item("beyond", "least squares from moments", "solver='sufficient_statistics'")
def sufficient_statistics() -> Found:
    return below(*regression_error("LinearRegression", {"solver": "sufficient_statistics"}), "zero model")


# --- N4: sparse gradients ---------------------------------------------------------------------------------------


@item("N4", "mean of sparse rows: projection", "MeanEstimator")
def sparse_mean() -> Found:
    rng, n, d, s = np.random.default_rng(4), 20_000, 5000, 10
    columns = np.minimum(rng.zipf(1.3, (n, s)) - 1, d // s - 1) + np.arange(s) * (d // s)
    X = sp.csr_array((np.full(n * s, s**-0.5), (np.repeat(np.arange(n), s), columns.ravel())), shape=(n, d))
    model = dp.MeanEstimator(EPSILON, DELTA, sparsity=s, row_norm=1.0, random_state=0).fit(X)
    error = float(np.linalg.norm(model.mean_ - np.asarray(X.mean(axis=0)).ravel()))
    noise_std = dp.accounting.calibrate(Gaussian, EPSILON, DELTA, "replace-one") / n
    bound = dp.theory.sparse_mean_gaussian(d=d, s=s, bound=1.0, noise_std=noise_std).value
    return below(error, bound, "bound")


@item("N4", "lower bound, (ε, δ): s^¼", "theory.sparse_mean_lower_bound")
def lower_bound() -> Found:
    args = {"n": 10**8, "d": 10**14, "bound": 1.0, "epsilon": 1.0, "delta": 1e-8, "adjacency": "replace-one"}
    low, high = (dp.theory.sparse_mean_lower_bound(s=s, **args).value for s in (2**10, 2**18))
    return Found(f"×{high / low:.3g} for 256 s", "256^¼ = 4", 3.3 < high / low < 4.3)


@item("N4", "empirical risk, one release", "theory.sparse_erm_gaussian")
def sparse_erm() -> Found:
    args = {"d": 10**6, "s": 50, "bound": 1.0, "rho": 0.01, "adjacency": "replace-one", "radius": 1.0}
    few, many = (dp.theory.sparse_erm_gaussian(n=n, **args).value for n in (10**6, 10**8))
    exponent = math.log(many / few) / math.log(100)
    return Found(f"n^{exponent:.3f}", "n^−½", abs(exponent + 0.5) < 1e-3)


# --- N0, N2: theorems -------------------------------------------------------------------------------------------


@item("N0 Thm 4.1", "rank instead of dimension", "theory.rank_bound")
def rank_bound() -> Found:
    args = {"distance": 1.0, "lipschitz": 1.0, "noise_std": 0.1, "iterations": 1000, "step": 0.01}
    low, high = (dp.theory.rank_bound(rank=rank, **args).value for rank in (5, 500))
    return below(low, high, "that of rank 500")


@item("N2 Thm 2.6", "RG√(d ln(1/δ))/(εn)", "theory.gradient_descent_rate")
def descent_rate() -> Found:
    rate = dp.theory.gradient_descent_rate(
        n=10_000, d=100, distance=1.0, lipschitz=1.0, rho=dp.theory.zcdp_budget(0.1, 1e-6), adjacency="add-remove",
        iterations=10**7,
    ).value  # fmt: skip
    return below(rate, 1.5 * math.sqrt(100 * math.log(1e6)) / (0.1 * 10_000), "1.5 times the printed rate")


# --- table ------------------------------------------------------------------------------------------------------


def measured(chosen: list[Item]) -> list[tuple[Item, Found, float]]:
    """Run the items; what fails is a row that says why."""
    rows = []
    for one in chosen:
        start = time.perf_counter()
        try:
            found = one.run()
        except Exception as problem:  # a row for every item, whatever it does
            found = Found(f"failed: {problem!r}"[:120], "", False)
        rows.append((one, found, time.perf_counter() - start))
        print(f"{'ok ' if found.holds else 'NO '} {one.what}: {found.figure} ({found.reference}), {rows[-1][2]:.1f} s")
    return rows


def as_markdown(rows: list[tuple[Item, Found, float]]) -> str:
    """The table of ``docs/notes.md``."""
    lines = ["| notes | item | public way | figure | bound or reference | verdict |", "|---|---|---|---|---|---|"]
    for one, found, _ in rows:
        verdict = "holds" if found.holds else "**does not hold**"
        lines.append(f"| {one.place} | {one.what} | `{one.way}` | {found.figure} | {found.reference} | {verdict} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run all items, or those with a word in their name, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="run items whose name contains this word; nothing is written")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = measured([one for one in ITEMS if arguments.only in one.what])
    if not arguments.only:
        (arguments.out / "notes.md").write_text(as_markdown(rows), encoding="utf-8")
    sys.exit(not all(found.holds for _, found, _ in rows))


if __name__ == "__main__":
    main()
