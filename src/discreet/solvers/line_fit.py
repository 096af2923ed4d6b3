"""Scale and offset of a score, fitted anew: two private histograms, and everything else is post-processing.

A minimiser under much noise is shrunk: its direction is worth more than its length, and the majority wins wherever an
offset outweighs shrunken scores. Given a public θ,

1. a histogram of scores over octaves tells where most of them lie;
2. a histogram of scores there, for each label, tells how the odds of the labels change with the score.

A row counts once in each (`ScoreHistogram`). Counts are brought back to ones that are possible (none negative, n in
all) by the nearest such, and the loss of scale·score + offset over them is minimised, with a ridge towards leaving the
scores as they are: where noise outweighs the counts nothing is changed.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from discreet.geometry.simplex import Simplex
from discreet.losses import Loss
from discreet.measurements import Noisy
from discreet.mechanisms import Gaussian
from discreet.queries.score_histogram import ScoreHistogram
from discreet.solvers.base import Problem, Steps

__all__ = ["OCTAVES", "fitted_line"]

OCTAVES = 12
_BINS = 12
_QUANTILES, _WIDEN = (0.1, 0.9), 2.0
"""Bins reach twice as far from the middle as the tenth and the ninth decile of scores."""
_RIDGE = 4.0
"""The ridge is 4·ν²/n: two coefficients of about 1 in units of the bins' reach, against noise ν in every count."""

Array = NDArray[np.float64]


def fitted_line(problem: Problem, theta: Array, place_multiplier: float, line_multiplier: float) -> Steps:
    """θ with its scale and offset fitted: two releases."""
    longest = _longest_score(problem, theta)
    octaves = longest * 2.0 ** -np.arange(OCTAVES, -1.0, -1.0)
    edges = np.concatenate([-octaves[::-1], octaves])
    rows = problem.rows
    seen = yield Noisy(ScoreHistogram(rows, theta, edges), Gaussian(place_multiplier))
    middle, reach = _place(_possible(np.asarray(seen, dtype=np.float64), problem.n), edges)
    reach = max(reach, octaves[0])
    bins = np.linspace(middle - reach, middle + reach, _BINS + 1)
    counts = yield Noisy(ScoreHistogram(rows, theta, bins, labelled=True), Gaussian(line_multiplier))
    possible = _possible(np.asarray(counts, dtype=np.float64), problem.n)
    ridge = _RIDGE * line_multiplier**2 / problem.n
    centres = (bins[1:] + bins[:-1]) / 2
    if not rows.intercept:
        (scale,) = _fit(problem.loss, possible, (centres / reach)[:, None], np.array([reach]), ridge)
        return theta * (scale / reach)
    design = np.column_stack([(centres - middle) / reach, np.ones_like(centres)])
    scale, offset = _fit(problem.loss, possible, design, np.array([reach, middle]), ridge)
    found = theta * (scale / reach)
    found[-1] += (offset - scale * middle / reach) / rows.intercept
    return found


def _longest_score(problem: Problem, theta: Array) -> float:
    rows, d = problem.rows, problem.rows.n_features
    norm = rows.norm if rows.bounded else 1.0
    longest = float(np.linalg.norm(theta[:d])) * norm + float(np.abs(theta[d:]).sum()) * rows.intercept
    return longest if 0 < longest < math.inf else 1.0


def _possible(counts: Array, n: float) -> Array:
    """The nearest counts that are not negative and add up to n."""
    return np.asarray(Simplex(n).project(counts.ravel())).reshape(counts.shape)


def _place(counts: Array, edges: Array) -> tuple[float, float]:
    """Middle and reach of the bins that follow."""
    shares = np.concatenate([[0.0], np.cumsum(counts)]) / counts.sum()
    # where no row lies the quantile function jumps: take it as rising a little everywhere
    low, high = np.interp(_QUANTILES, shares + 1e-12 * np.arange(len(shares)), edges)
    return float(low + high) / 2, _WIDEN * float(high - low) / 2


def _fit(loss: Loss, counts: Array, design: Array, prior: Array, ridge: float) -> Array:
    """argmin Σ counts·ℓ + (ridge/2)‖w − prior‖², by Newton's method with halved steps."""
    labels = np.array([[-1.0], [1.0]])

    def value(w: Array) -> float:
        return float((counts * loss.value(design @ w, labels)).sum() + ridge / 2 * ((w - prior) ** 2).sum())

    w, least = prior.copy(), 1e-9 * counts.sum() + ridge
    for _ in range(100):
        z = design @ w
        gradient = design.T @ (counts * loss.slope(z, labels)).sum(axis=0) + ridge * (w - prior)
        bend = (counts * loss.curvature(z, labels)).sum(axis=0)
        step = np.linalg.solve((design.T * bend) @ design + least * np.eye(len(w)), -gradient)
        now, t = value(w), 1.0
        while t > 1e-6 and not value(w + t * step) <= now + 1e-4 * t * float(gradient @ step):
            t /= 2
        if t <= 1e-6:
            break
        w = w + t * step
        if float(np.abs(step).max()) < 1e-10 * (1 + float(np.abs(w).max())):
            break
    return w
