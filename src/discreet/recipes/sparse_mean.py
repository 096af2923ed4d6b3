"""Settings of the mean of sparse rows: which noise, how much, and what is made of the noisy sum."""

from __future__ import annotations

import math
from typing import Literal

from discreet import events
from discreet.calibration import Guarantee
from discreet.errors import InvalidInput
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.sparse_mean import NoisyMean, RecoveredMean
from discreet.theory.sparse import sparse_mean_gaussian, sparse_mean_laplace

__all__ = ["METHODS", "gaussian_noise", "laplace_noise", "predicted_errors", "recipe", "sketch_width"]

Method = Literal["auto", "gaussian", "laplace", "projection", "threshold", "l1-recovery"]
METHODS: tuple[Method, ...] = ("auto", "gaussian", "laplace", "projection", "threshold", "l1-recovery")
_BLOCKS = RecoveredMean.blocks
_MOST_SKETCH_ROWS = 1 << 20  # a sketch of a million rows fills a few megabytes


def recipe(
    problem: Problem,
    guarantee: Guarantee,
    *,
    method: Method = "auto",
    sparsity: int | None = None,
    seed: int = 0,
) -> NoisyMean | RecoveredMean:
    """The release and the post-processing of `discreet.estimators.MeanEstimator`.

    Every mean lies in the balls ‖·‖₁ ≤ L√s and ‖·‖₂ ≤ L, so projecting is never worse than not; thresholding adapts to
    means that are sparser than s says; and the proved error of a recovery is twice the projection's. So ``"auto"``
    thresholds, with that noise whose projection has the smaller proved error.

    Args:
        problem: public facts about the rows, and their number.
        guarantee: what to keep; ε = ∞ takes no noise.
        method: see `discreet.estimators.MeanEstimator`.
        sparsity: s, the most entries of a row; None takes all.
        seed: public seed of the sketch of ``"l1-recovery"``.

    Raises:
        InvalidInput: an unknown method, or Gaussian noise where δ = 0 asks for pure DP.
    """
    rows, n = problem.rows, problem.n
    s = rows.n_features if sparsity is None else min(sparsity, rows.n_features)
    if method == "gaussian":
        return NoisyMean(gaussian_noise(guarantee), s, "gaussian", "nothing")
    if method == "laplace":
        return NoisyMean(laplace_noise(guarantee), s, "laplace", "nothing")
    if method == "l1-recovery":
        noise = gaussian_noise(guarantee)
        width = sketch_width(rows, s, n, noise)
        if width is None:
            return NoisyMean(noise, s, "gaussian", "threshold")
        return RecoveredMean(noise, s, width, seed=seed)
    finish: Literal["projection", "threshold"] = "projection" if method == "projection" else "threshold"
    if not guarantee.private:
        return NoisyMean(0.0, s, "gaussian", finish)
    errors = predicted_errors(rows, s, n, guarantee)
    if errors["laplace"] < errors.get("gaussian", math.inf):
        return NoisyMean(laplace_noise(guarantee), s, "laplace", finish)
    return NoisyMean(gaussian_noise(guarantee), s, "gaussian", finish)


def predicted_errors(rows: RowSpec, sparsity: int, n: float, guarantee: Guarantee) -> dict[str, float]:
    """Proved root mean square error of the projection under each kind of noise; without Gaussian for δ = 0."""
    d, whole = rows.n_features, max(1, round(n))
    laplace = sparse_mean_laplace(
        n=whole, d=d, s=sparsity, bound=rows.norm, epsilon=guarantee.epsilon, adjacency=guarantee.unit
    ).value
    if guarantee.delta == 0:
        return {"laplace": laplace}
    noise_std = gaussian_noise(guarantee) * rows.norm / n
    gaussian = sparse_mean_gaussian(d=d, s=sparsity, bound=rows.norm, noise_std=noise_std).value
    return {"laplace": laplace, "gaussian": gaussian}


def gaussian_noise(guarantee: Guarantee) -> float:
    """The least noise multiplier of one Gaussian release; 0 without privacy."""
    if not guarantee.private:
        return 0.0
    if guarantee.delta == 0:
        raise InvalidInput("delta = 0 asks for pure DP, which Gaussian noise cannot give; use method='laplace'.")
    from discreet.accounting import calibrate

    return calibrate(events.Gaussian, guarantee.epsilon, guarantee.delta, guarantee.unit)


def laplace_noise(guarantee: Guarantee) -> float:
    """The noise multiplier of one Laplace release, pure ε-DP; 0 without privacy."""
    return guarantee.unit.sensitivity(1.0) / guarantee.epsilon * (1 + 1e-12)


def sketch_width(rows: RowSpec, sparsity: int, n: float, noise_multiplier: float) -> int | None:
    """Rows a block for m = (R/σ)·√ln(ed/m) in all, R = L√s: where the loss R√(ln(ed/m)/m) meets the noise σ√m.

    At most 2^20 rows. None where m reaches d: nothing is saved by sketching, the identity is the best sketch.
    """
    d = rows.n_features
    if noise_multiplier == 0:
        m = math.inf
    else:
        ratio, m = math.sqrt(sparsity) * n / noise_multiplier, float(d)
        for _ in range(50):
            m = min(d, max(1.0, ratio * math.sqrt(math.log(math.e * d / m))))
    width = max(8, math.ceil(min(m, _MOST_SKETCH_ROWS) / _BLOCKS))
    return width if width * _BLOCKS < d else None
