"""Settings of private means (`discreet.solvers.sparse_mean`) from public facts: which noise, how much, which finish."""

from __future__ import annotations

import math
from typing import Literal

from discreet.calibration.guarantee import Guarantee
from discreet.calibration.one_release import gaussian_multiplier, laplace_multiplier
from discreet.errors import InvalidInput
from discreet.queries.sums.gaussian_sketch import MOST_ENTRIES, MOST_ROWS, GaussianSketch
from discreet.queries.sums.sketch import Sketch
from discreet.rows import RowSpec
from discreet.solvers import Problem
from discreet.solvers.sparse_mean import NoisyMean, RecoveredMean
from discreet.theory.recovery import recovery_stretch
from discreet.theory.sparse import sparse_mean_gaussian, sparse_mean_laplace

__all__ = ["METHODS", "Method", "predicted_errors", "recipe", "sketch_rows"]

_MOST_SKETCH_ROWS = 1 << 20  # a vector of 8 MB
_LEAST_SKETCH_ROWS = 32  # however strong the noise
_LEAST_SKETCH_WIDTH = 8  # of a block

Method = Literal["auto", "gaussian", "laplace", "projection", "threshold", "l1-recovery"]
METHODS: tuple[Method, ...] = ("auto", "gaussian", "laplace", "projection", "threshold", "l1-recovery")
"""What `recipe` takes as its method."""


def recipe(
    problem: Problem, guarantee: Guarantee, *, method: Method = "auto", sparsity: int | None = None, seed: int = 0
) -> NoisyMean | RecoveredMean:
    """The release and the post-processing of a private mean.

    Every mean lies in the balls ‖·‖₁ ≤ L√s and ‖·‖₂ ≤ L, so projecting is never worse than not; thresholding adapts to
    means that are sparser than s says; and the proved error of a recovery is twice the projection's. So ``"auto"``
    thresholds, with that noise whose projection has the smaller proved error.

    Args:
        problem: public facts about the rows, and their number.
        guarantee: what to keep; ε = ∞ takes no noise.
        method: see `discreet.MeanEstimator`.
        sparsity: s, the most entries of a row; None takes all.
        seed: public seed of the sketch of ``"l1-recovery"``.

    Raises:
        InvalidInput: Gaussian noise where δ = 0 asks for pure DP.
    """
    rows, n = problem.rows, problem.n
    s = rows.n_features if sparsity is None else min(sparsity, rows.n_features)
    if method == "gaussian":
        return NoisyMean(_gaussian(guarantee), s, "gaussian", "nothing")
    if method == "laplace":
        return NoisyMean(laplace_multiplier(guarantee), s, "laplace", "nothing")
    if method == "l1-recovery":
        noise = _gaussian(guarantee)
        size = sketch_rows(rows, s, n, noise)
        if size is None:
            return NoisyMean(noise, s, "gaussian", "threshold")
        return RecoveredMean(noise, s, _sketch(rows.n_features, size, n, seed))
    finish: Literal["projection", "threshold"] = "projection" if method == "projection" else "threshold"
    if not guarantee.private:
        return NoisyMean(0.0, s, "gaussian", finish)
    errors = predicted_errors(rows, s, n, guarantee)
    if errors["laplace"] < errors.get("gaussian", math.inf):
        return NoisyMean(laplace_multiplier(guarantee), s, "laplace", finish)
    return NoisyMean(_gaussian(guarantee), s, "gaussian", finish)


def predicted_errors(rows: RowSpec, sparsity: int, n: float, guarantee: Guarantee) -> dict[str, float]:
    """Proved root mean square error of the projection under each kind of noise; without Gaussian for δ = 0."""
    d, whole = rows.n_features, max(1, round(n))
    laplace = sparse_mean_laplace(
        n=whole, d=d, s=sparsity, bound=rows.norm, epsilon=guarantee.epsilon, adjacency=guarantee.unit
    ).value
    if guarantee.delta == 0:
        return {"laplace": laplace}
    noise_std = _gaussian(guarantee) * rows.norm / n
    gaussian = sparse_mean_gaussian(d=d, s=sparsity, bound=rows.norm, noise_std=noise_std).value
    return {"laplace": laplace, "gaussian": gaussian}


def _sketch(d: int, size: int, n: float, seed: int) -> Sketch | GaussianSketch:
    """A Gaussian matrix that lengthens none of n rows too much, if it fits into memory; else a hashed one."""
    if size <= MOST_ROWS and size * d <= MOST_ENTRIES:
        return GaussianSketch(d, size, seed, recovery_stretch(round(max(n, 1.0)), size))
    return Sketch(d, max(_LEAST_SKETCH_WIDTH, math.ceil(size / Sketch.blocks)), seed=seed)


def sketch_rows(rows: RowSpec, sparsity: int, n: float, noise_multiplier: float) -> int | None:
    """m = (R/σ)·√ln(ed/m) rows, R = L√s: there the loss R√(ln(ed/m)/m) equals the noise σ√m.

    At least 32 and at most 2^20 rows. None where m is d or more: nothing is saved by sketching, the identity is the
    best sketch.
    """
    d = rows.n_features
    if noise_multiplier == 0:
        m = math.inf
    else:
        ratio, m = math.sqrt(sparsity) * n / noise_multiplier, float(d)
        for _ in range(50):  # a fixed point
            m = min(d, max(1.0, ratio * math.sqrt(math.log(math.e * d / m))))
    size = max(_LEAST_SKETCH_ROWS, math.ceil(min(m, _MOST_SKETCH_ROWS)))
    return size if size < d else None


def _gaussian(guarantee: Guarantee) -> float:
    """The noise multiplier of one Gaussian release; where δ = 0 the refusal names a method that is pure DP."""
    if guarantee.private and guarantee.delta == 0:
        raise InvalidInput("delta = 0 asks for pure DP, which Gaussian noise cannot give; use method='laplace'.")
    return gaussian_multiplier(guarantee)
