"""Rows of ``bench/notes.py``: sparse gradients (N4) and theorems."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

import discreet as dp
from discreet.events import Gaussian
from notes_base import DELTA, EPSILON, Found, below, item


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


@item("N4", "mean of sparse rows: ℓ1 recovery", "MeanEstimator(method='l1-recovery')")
def l1_recovery() -> Found:
    rng, n, d, s = np.random.default_rng(4), 20_000, 2000, 2
    columns = np.minimum(rng.zipf(1.3, (n, s)) - 1, d // s - 1) + np.arange(s) * (d // s)
    X = sp.csr_array((np.full(n * s, s**-0.5), (np.repeat(np.arange(n), s), columns.ravel())), shape=(n, d))
    model = dp.MeanEstimator(EPSILON, DELTA, sparsity=s, row_norm=1.0, method="l1-recovery", random_state=0).fit(X)
    error = float(np.linalg.norm(model.mean_ - np.asarray(X.mean(axis=0)).ravel()))
    noise = dp.accounting.calibrate(Gaussian, EPSILON, DELTA, "replace-one")
    bound = dp.theory.l1_recovery(n=n, d=d, s=s, bound=1.0, noise_multiplier=noise, sketch_rows=1000).value
    return below(error, bound, "bound with 1000 rows")


@item("N4", "pure ε, means in 10⁸ columns", "theory.sparse_mean_laplace")
def large_laplace() -> Found:
    args = {"n": 10**6, "d": 10**8, "s": 10, "bound": 1.0, "epsilon": 1.0, "adjacency": "replace-one"}
    found = dp.theory.sparse_mean_laplace(**args).value
    return below(dp.theory.sparse_mean_lower_bound(**args).value, found, f"lower bound; upper {found:.3g}, so")


@item("N4", "descent with projected gradients, rate", "theory.sparse_descent_gaussian")
def sparse_descent_rate() -> Found:
    args = {"d": 10**6, "s": 50, "bound": 1.0, "rho": 0.01, "adjacency": "replace-one"}
    n = 10**8
    descent = min(
        dp.theory.sparse_descent_gaussian(n=n, **args, diameter=2.0, iterations=2**k).value for k in range(1, 25)
    )
    return below(dp.theory.sparse_erm_gaussian(n=n, **args, radius=1.0).value, descent, "one release; by descent")


@item("N1 16.3", "Frank–Wolfe, rate", "theory.frank_wolfe_rate")
def frank_wolfe_rate() -> Found:
    args = {"atoms": 2000, "curvature": 1.0, "score_bound": 1.0, "rho": 0.01, "adjacency": "replace-one"}
    few, many = (dp.theory.frank_wolfe_rate(n=n, **args).value for n in (10**6, 10**9))
    exponent = math.log(many / few) / math.log(1000)
    return Found(f"n^{exponent:.3f}", "n^−⅔", abs(exponent + 2 / 3) < 0.01)


@item("N1 16.3", "Frank–Wolfe, with high probability", "theory.frank_wolfe_tail")
def frank_wolfe_tail() -> Found:
    args = {"curvature": 1.0, "iterations": 98}
    mean = dp.theory.frank_wolfe(**args, gap=dp.theory.selection_gap(atoms=2000, scale=0.001)).value
    tail = dp.theory.frank_wolfe_tail(**args, atoms=2000, scale=0.001, failure=0.05).value
    return below(mean, tail, "mean; but for 5 %")


@item("N1 16.5, 16.6", "hard thresholding", "theory.hard_thresholding")
def hard_thresholding() -> Found:
    rng, d, s, noise_std = np.random.default_rng(0), 1000, 5, 0.05
    truth, errors = np.where(np.arange(d) < s, 1.0, 0.0), []
    for _ in range(200):  # squared loss with the identity as design: one step from anywhere is the truth and noise
        noisy = truth + noise_std * rng.normal(size=d)
        noisy[np.argsort(np.abs(noisy))[:-s]] = 0.0
        errors.append(float(np.linalg.norm(noisy - truth)))
    design = {"s": s, "target_sparsity": s, "d": d, "strong_convexity": 1.0, "smoothness": 1.0, "step": 1.0}
    bound = dp.theory.hard_thresholding(distance=2.0, iterations=1, noise_std=noise_std, **design).value
    return below(float(np.mean(errors)), bound, "bound")


@item("N1 16.6", "heavy tails", "theory.heavy_tailed")
def heavy_tailed() -> Found:
    design = {"s": 4, "target_sparsity": 4, "d": 100, "strong_convexity": 1.0, "smoothness": 1.0, "step": 1.0}
    tails = {"moment": 3.0, "entry_bound": 20.0, "radius": 1.0, "selection_multiplier": 8.0, "value_multiplier": 4.0}
    few, many = (dp.theory.heavy_tailed(distance=1.0, parts=2, rows=m, **design, **tails).value for m in (1e6, 1e8))
    return below(many, few / 2, "10⁸ rows; half of that for 10⁶")


@item("N1 16.9", "objective perturbation by the Gaussian width", "theory.objective_perturbation_constrained")
def width() -> Found:
    from discreet.geometry import L1Ball, L2Ball

    ball, cross = L2Ball(1.0).gaussian_width(10_000).value, L1Ball(1.0).gaussian_width(10_000).value
    return below(cross, ball / 10, "width of the ℓ1 ball; a tenth of the ℓ2 ball's")
