"""Rows of ``bench/notes.py``: losses, sets, and what solvers are asked for beside their defaults."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp

import discreet as dp
from discreet.geometry import Box, GroupL1Ball, L1Ball, L2Ball, Polytope, Simplex
from notes_base import (
    DELTA,
    EPSILON,
    RUNS,
    Found,
    against_bound,
    below,
    item,
    labelled,
    numbers,
    regression_error,
    risk,
)

NUMBERS = {"row_norm": 1.0, "target_bounds": (-1.0, 1.0)}


# --- losses -----------------------------------------------------------------------------------------------------


def _share_explained(estimator: str, **settings: Any) -> Callable[[], Found]:
    """Squared error of predictions over that of zero, of a linear model that is private or not."""

    def run() -> Found:
        X, y, theta = numbers()
        model = getattr(dp, estimator)(EPSILON, DELTA, **NUMBERS, **settings, random_state=0).fit(X, y)
        error = float(np.mean((model.predict(X) - X @ theta) ** 2) / np.mean((X @ theta) ** 2))
        return below(error, 0.1, "squared error over that of zero, below")

    return run


for estimator in ("LinearRegression", "HuberRegression", "QuantileRegression"):
    item("N0", f"loss of {estimator}", f"dp.{estimator}")(_share_explained(estimator))


@item("N0", "smoothed hinge", "dp.LinearSVC")
def hinge() -> Found:
    X, y = labelled()
    model = dp.LinearSVC(EPSILON, DELTA, row_norm=1.0, classes=[0, 1], random_state=0).fit(X, y)
    best = dp.LinearSVC(math.inf, row_norm=1.0, classes=[0, 1]).fit(X, y)
    return below(1 - model.score(X, y), 1 - best.score(X, y) + 0.01, "errors; without privacy, and 1 % more")


@item("N0", "softmax, three classes", "dp.LogisticRegression(classes=[0, 1, 2])")
def softmax() -> Found:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(20_000, 5))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    y = np.argmax(X @ rng.normal(size=(5, 3)) * 6 + rng.gumbel(size=(20_000, 3)), axis=1)
    private, best = (
        dp.LogisticRegression(eps, delta, row_norm=1.0, classes=[0, 1, 2], random_state=0 if delta else None).fit(X, y)
        for eps, delta in ((EPSILON, DELTA), (math.inf, None))
    )
    return below(1 - private.score(X, y), 1 - best.score(X, y) + 0.02, "errors; without privacy, and 2 % more")


@item("N0", "counts", "dp.PoissonRegression")
def counts() -> Found:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(20_000, 3)) / 3
    y = np.minimum(rng.poisson(np.exp(1 + X @ [0.5, -0.5, 0.3])), 20)
    common = {"row_norm": 1.0, "target_bounds": (0, 20)}
    private = dp.PoissonRegression(EPSILON, DELTA, **common, random_state=0).fit(X, y)
    best = dp.PoissonRegression(math.inf, **common).fit(X, y)
    gap = float(np.mean((private.predict(X) - best.predict(X)) ** 2))
    return below(gap, float(np.var(best.predict(X))) / 4, "squared; a quarter of the variance of means")


# --- sets -------------------------------------------------------------------------------------------------------


def _over(domain: Any, solver: str = "descent") -> Callable[[], Found]:
    """The excess risk over the minimiser in a set, which the private model must be in as well."""

    def run() -> Found:
        X, y = labelled()
        common = {"row_norm": 1.0, "classes": [0, 1], "domain": domain, "fit_intercept": False}
        best = dp.LogisticRegression(math.inf, **common, solver="descent").fit(X, y)
        fits = [
            dp.LogisticRegression(EPSILON, DELTA, **common, solver=solver, random_state=k).fit(X, y)
            for k in range(RUNS)
        ]
        inside = all(domain.contains(fit.coef_.ravel(), tolerance=1e-6) for fit in fits)
        excess = float(np.mean([risk(fit, X, y) for fit in fits])) - risk(best, X, y)
        found = below(excess, 0.01, "over the minimiser of the set, below")
        return Found(found.figure, found.reference, found.holds and inside)

    return run


_CORNERS = np.vstack([3 * np.eye(8), -3 * np.eye(8), np.full((1, 8), 0.5)])
for name, domain in {
    "ℓ2 ball": L2Ball(2.0),
    "box": Box(-0.5, 0.5),
    "box without 0": Box(1.0, 2.0),
    "ℓ1 ball": L1Ball(2.0),
    "simplex": Simplex(2.0),
    "grouped ℓ1 ball": GroupL1Ball([0, 0, 1, 1, 2, 2, 3, 3], 2.0),
}.items():
    item("N1, N2", f"projected descent: {name}", f"domain={domain!r}"[:60])(_over(domain))
item("N1 Alg 2", "private Frank–Wolfe: polytope by its vertices", "domain=Polytope(…)")(
    _over(Polytope(_CORNERS), "frank_wolfe")
)


def _without_noise(solver: str, domain: Any, options: dict[str, Any] | None = None) -> Callable[[], Found]:
    """A solver at ε = ∞ against projected descent of many steps."""

    def run() -> Found:
        X, y = labelled()
        common = {"row_norm": 1.0, "classes": [0, 1], "domain": domain, "fit_intercept": False}
        best = dp.LogisticRegression(math.inf, **common, solver="descent", solver_options={"iterations": 2000}).fit(
            X, y
        )
        found = dp.LogisticRegression(math.inf, **common, solver=solver, solver_options=options).fit(X, y)
        return below(risk(found, X, y) - risk(best, X, y), 2e-3, "over 2000 projected steps, below")

    return run


item("N1, N2", "gradient descent without noise", "epsilon=inf, solver='descent'")(
    _without_noise("descent", L2Ball(2.0))
)
item("N2", "stochastic descent without noise", "epsilon=inf, rate=0.1")(
    _without_noise("descent", L2Ball(2.0), {"rate": 0.1, "iterations": 500})
)
item("N1 Alg 1", "Frank–Wolfe without noise: ℓ1 ball", "epsilon=inf, solver='frank_wolfe'")(
    _without_noise("frank_wolfe", L1Ball(2.0))
)
item("N1 Alg 1", "Frank–Wolfe without noise: ℓ2 ball", "epsilon=inf, domain=L2Ball(2)")(
    _without_noise("frank_wolfe", L2Ball(2.0))
)


@item("N1 Alg 3", "hard thresholding without noise", "SparseLinearRegression(epsilon=inf)")
def hard_threshold_without_noise() -> Found:
    X, y, theta = numbers(n=5000, d=40, sparsity=4)
    model = dp.SparseLinearRegression(math.inf, **NUMBERS, sparsity=4, fit_intercept=False).fit(X, y)
    return below(float(np.sum((model.coef_ - theta) ** 2)), 0.01, "squared distance from the model, below")


# --- what descent may be asked for -------------------------------------------------------------------------------


for options, what in (
    ({"iterate": "last", "cyclic": 10}, "last iterate, cyclic batches, solver"),
    ({"iterate": "last", "rate": 0.5}, "last iterate, Poisson batches, solver"),
    ({"iterate": "last", "batch_size": 2000}, "last iterate, batches of fixed size, solver"),
    ({"iterate": "best"}, "best iterate by private selection"),
    ({"batches": 10}, "epochs, every row in one batch, solver"),
):
    way = "descent, " + ", ".join(f"{k}={v!r}" for k, v in options.items())
    item("N3" if "iterate" in options else "N2", what, way)(
        lambda options=options: against_bound(
            "descent", options, alpha=0.02 if options.get("iterate") == "last" else 0.0
        )
    )


@item("N2", "start from a public model", "descent, start=model")
def warm_start() -> Found:
    X, y = labelled()
    public = dp.LogisticRegression(math.inf, row_norm=1.0, classes=[0, 1]).fit(X[:500], y[:500])
    few, labels = X[500:1500], y[500:1500]
    common = {"row_norm": 1.0, "classes": [0, 1], "solver": "descent"}

    def loss(options: dict[str, Any]) -> float:
        models = (dp.LogisticRegression(0.1, DELTA, **common, solver_options=options, random_state=k) for k in range(3))
        return float(np.mean([risk(model.fit(few, labels), X, y) for model in models]))

    return below(loss({"start": public}), loss({}), "1000 rows, ε = 0.1; from zero")


@item("N2", "clip from the domain", "descent, domain=L2Ball(r)")
def clip_of_domain() -> Found:
    from discreet.estimators.planned import planned

    common = {"row_norm": 1.0, "target_bounds": (-1.0, 1.0), "solver": "descent", "fit_intercept": False}
    clips = [
        planned(dp.LinearRegression(1.0, DELTA, **common, **extra), 20_000, 8).solver.clip
        for extra in ({"domain": L2Ball(0.1)}, {"domain": L2Ball(3.0)})
    ]
    largest = 1.0 + 0.1  # |⟨x, θ⟩ − y| over rows of length 1, θ in the ball and targets within ±1
    return Found(
        f"{clips[0]:.3g}, {clips[1]:.3g}", f"largest gradient in the small ball {largest}", clips[0] <= largest
    )


# --- other solvers ----------------------------------------------------------------------------------------------


@item("N1 Alg 6", "hard thresholding by peeling", "hard_threshold, peel=True")
def peeled() -> Found:
    settings = {"sparsity": 4, "solver": "hard_threshold", "solver_options": {"peel": True}}
    return below(*regression_error("SparseLinearRegression", settings, n=100_000, d=40, sparsity=4), "zero model")


@item("N1 Alg 6", "heavy-tailed sparse regression", "solver='heavy_tailed'")
def heavy_tailed() -> Found:
    rng, n, d = np.random.default_rng(0), 50_000, 50
    theta = np.where(np.arange(d) < 2, 0.5, 0.0)
    X = rng.standard_t(2.1, (n, d))
    y = X @ theta + 0.5 * rng.standard_t(2.1, n)
    errors = [
        float(np.sum((dp.SparseLinearRegression(
            2.0, DELTA, row_norm=20.0, target_bounds=(-50.0, 50.0), sparsity=5, solver=solver, random_state=0
        ).fit(X, y).coef_ - theta) ** 2))
        for solver in ("heavy_tailed", "auto")
    ]  # fmt: skip
    return below(errors[0], errors[1], "squared distance, rows and noise t₂.₁; of auto")


@item("N1 Alg 6", "heavy tails, bounds a hundred times too wide", "solver='heavy_tailed'")
def heavy_tailed_far() -> Found:
    rng, n, d = np.random.default_rng(0), 50_000, 50
    theta = np.where(np.arange(d) < 2, 0.5, 0.0)
    X = rng.standard_t(2.1, (n, d))
    model = dp.SparseLinearRegression(
        2.0, DELTA, row_norm=2e3, target_bounds=(-2e3, 2e3), sparsity=5, solver="heavy_tailed", random_state=0
    ).fit(X, X @ theta + 0.5 * rng.standard_t(2.1, n))
    return below(float(np.sum((model.coef_ - theta) ** 2)), 0.025, "squared distance, a twentieth of the zero model's")


@item("N1", "bound on entries", "SparseLinearRegression(feature_bound=1)")
def feature_bound() -> Found:
    rng, d = np.random.default_rng(0), 500
    X = rng.uniform(-1, 1, (10_000, d))
    theta = np.where(np.arange(d) < 5, 0.4, 0.0)
    y = X @ theta + 0.1 * rng.normal(size=10_000)
    common = {"row_norm": 0.6 * math.sqrt(d), "target_bounds": (-2.0, 2.0), "sparsity": 6, "random_state": 0}
    with_bound, without = (
        float(np.sum((dp.SparseLinearRegression(8.0, DELTA, **common, feature_bound=f).fit(X, y).coef_ - theta) ** 2))
        for f in (1.0, None)
    )
    return below(with_bound, without / 2, "squared distance; half of that without")


@item("N1 Alg 7", "objective perturbation, pure ε", "objective_perturbation, delta=0")
def pure_objective_perturbation() -> Found:
    return against_bound("objective_perturbation", {"slope_bound": 1.2}, delta=0.0)


@item("N3", "output perturbation, pure ε", "output_perturbation, delta=0")
def pure_output_perturbation() -> Found:
    return against_bound("output_perturbation", delta=0.0)


@item("N0, N3", "exponential mechanism over a grid", "solver='exponential_mechanism'")
def exponential_mechanism() -> Found:
    X, y = labelled(n=5000, d=2)
    common = {"row_norm": 1.0, "classes": [0, 1], "fit_intercept": False}
    best = risk(dp.LogisticRegression(math.inf, **common).fit(X, y), X, y)
    model = dp.LogisticRegression(EPSILON, 0.0, **common, solver="exponential_mechanism", random_state=0).fit(X, y)
    return below(risk(model, X, y) - best, (math.log(2) - best) / 2, "half the excess of the zero model")


@item("N4", "boosting by private selection", "solver='boosted'")
def boosted() -> Found:
    return against_bound("boosted")


# --- N4: sparse rows --------------------------------------------------------------------------------------------


@lru_cache
def words(n: int = 20_000, d: int = 5000, s: int = 10) -> tuple[Any, Any]:
    """Bags of ten words and labels of which some words tell."""
    rng = np.random.default_rng(0)
    ranks = np.floor(np.exp(rng.random((n, s)) * np.log(d + 1))).astype(np.int64) - 1
    X = sp.csr_array((np.ones(n * s), ranks.ravel(), s * np.arange(n + 1)), shape=(n, d))
    X.sum_duplicates()
    X = sp.csr_array(sp.diags_array(1 / np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())) @ X)
    truth = np.where(np.arange(d) < 200, 4.0 * (np.arange(d) % 10 == 0) - 4.0 * (np.arange(d) % 10 == 5), 0.0)
    return X, (rng.random(n) < 1 / (1 + np.exp(-(X @ truth)))).astype(int)


def _words(solver: str, delta: float, options: dict[str, Any]) -> Callable[[], Found]:
    """The log-loss of a solver on bags of words; θ = 0 has ln 2."""

    def run() -> Found:
        X, y = words()
        model = dp.LogisticRegression(
            EPSILON, delta, row_norm=1.0, classes=[0, 1], solver=solver, solver_options=options, random_state=0
        ).fit(X, y)
        return below(risk(model, X, y), math.log(2) - 0.02, "log-loss, bags of words; zero model less 0.02")

    return run


for solver, delta, options, what in (
    ("sparse_descent", DELTA, {"sparsity": 10}, "descent with projected gradients"),
    ("sparse_descent", 0.0, {"sparsity": 10}, "descent with projected gradients, pure ε"),
    ("output_perturbation", 0.0, {"sparsity": 10}, "output perturbation, Laplace noise, pure ε"),
    ("bias_reduced", DELTA, {"sparsity": 10}, "bias-reduced gradients"),
):
    shown = f"{solver}, delta={'0' if delta == 0 else '1e-6'}"
    item("N4", what, shown)(_words(solver, delta, options))
