"""Recalibration: scale and offset of a score, fitted anew by private histograms; all else is post-processing.

What a solver finds under much noise is shrunk: its direction is more accurate than its length, and where an offset
outweighs shrunken scores every row is predicted to be of the larger class. Given a public θ,

1. a histogram of scores over octaves shows in which range most of them lie;
2. a histogram of scores in that range and of targets shows how targets change with the score. For the logistic loss it
   is a histogram of scores and three sums of labels, whose noise does not grow with the number of bins
   (`discreet.solvers.parts.logistic_recalibration`), and the range is as wide as noise lets quantiles be seen: a rare
   class lies beyond the deciles.

A row counts once in each (`ScoreHistogram`, `LabelledScores`). Noisy counts are replaced by the nearest possible ones
(none negative, n in all), and the loss of scale·score + offset over them is minimised, with a ridge towards leaving the
scores as they are.

Three things keep a score that is not informative from doing worse than a constant. Every bin adds its noise to the
odds, so under much noise there are few of them; that depends on public facts alone. θ was found from the same targets,
so it fits them better than others: the loss of scores scaled by α is α·Σ_i cov(score_i, −slope_i) too low (Efron 2004),
of which the solver knows a bound, and that is added. And the scale is never negative: where counts say so, it is 0.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import events
from discreet.errors import InvalidInput
from discreet.events import Event
from discreet.geometry.simplex import Simplex
from discreet.geometry.whole_space import WholeSpace
from discreet.losses import Domain, Logistic, Loss, Tabulated
from discreet.measurements import Measurement, Noisy
from discreet.mechanisms import Gaussian
from discreet.queries.histograms.labelled_scores import LabelledScores
from discreet.queries.histograms.score_histogram import ScoreHistogram
from discreet.rows import RowSpec
from discreet.solvers.base import Problem, Steps
from discreet.solvers.parts.damped_newton import damped_newton
from discreet.solvers.parts.logistic_recalibration import Expected, ScoreSums, SlopeSum, fitted_line
from discreet.tuned import Tuned, current, tuned

__all__ = ["NUMBERS", "Recalibration", "RecalibrationNumbers", "fits", "fitted_offset", "recalibrated"]


@dataclass(frozen=True)
class RecalibrationNumbers(Tuned):
    """Tuned numbers of recalibration."""

    bins: int = tuned(
        6,
        "most bins of scores, and bins of targets that are not labels",
        "judgement: two coefficients need few, and every bin has noise of its own",
    )
    tail: float = tuned(
        0.1,
        "the range of the bins is from this quantile of scores to that of its complement; bins are as many as leave "
        "the noise in the sum over them, √bins·ν, below this share of n",
        "judgement: deciles are seen through much noise",
    )
    widening: float = tuned(
        1.25,
        "half the range of the bins over half the distance of those quantiles",
        "judgement: most of the scores beyond the deciles are within a quarter more",
    )
    optimism: float = tuned(
        0.5,
        "share of the solver's bound on the optimism (Efron 2004) that is added to the loss",
        "judgement: the bound is for rows that have nothing in common; chosen once on bench/synthetic.py",
    )
    place_share: float = tuned(
        0.2,
        "share of the recalibration's budget for the range of the scores, and for the offset before a descent",
        "judgement: the range may err by half without harm, and a count of targets is more accurate than bins",
    )


NUMBERS = RecalibrationNumbers()

_PLACES = 16  # bins of scores for the logistic loss: 12 to 24 are alike on simulated scores

Array = NDArray[np.float64]


def fits(problem: Problem) -> bool:
    """Whether offset and scale may be fitted: one output, a convex loss of bounded curvature, θ free of all else."""
    if not problem.loss.convex or isinstance(problem.loss, Tabulated):
        return False
    free = isinstance(problem.domain, WholeSpace) and problem.ridge == 0 and problem.rows.bounded
    return free and problem.rows.outputs == 1 and math.isfinite(problem.loss.smoothness(Domain()))


def recalibrated(
    problem: Problem,
    theta: Array,
    place_multiplier: float,
    recalibration_multiplier: float,
    leverage: float = 0.0,
    anchor: float = 0.0,
    expected: Expected | None = None,
    slopes: SlopeSum | None = None,
) -> Steps:
    """θ with its scale and offset fitted: two releases.

    Args:
        problem: public facts; one score a row.
        theta: public.
        place_multiplier: noise in the counts that show the range of the scores.
        recalibration_multiplier: noise in the counts and sums by which scale and offset are fitted.
        leverage: at most what rows' own slopes moved their own scores, added up over rows, for slopes of 1.
        anchor: a public score about which others lie, such as that of a row of zeros.
        expected: the scale that the solver expects, given the mean curvature of a row, to which the fit for a logistic
            loss is shrunk; None expects 1.
        slopes: the sum of all rows' slopes at θ, where the solver knows it and the loss is logistic.
    """
    rows, n, numbers = problem.rows, problem.n, current(NUMBERS)
    octaves = _longest_score(problem, theta, anchor) * 2.0 ** -np.arange(_octaves(n), -1.0, -1.0)
    edges = anchor + np.concatenate([-octaves[::-1], octaves])
    seen = yield Noisy(ScoreHistogram(rows, theta, edges), Gaussian(place_multiplier))
    scores = _possible(np.asarray(seen, dtype=np.float64), n)
    optimism = numbers.optimism * leverage
    if isinstance(problem.loss, Logistic):
        visible = min(numbers.tail, place_multiplier * math.sqrt(len(scores)) / n)
        middle, half_range = _score_range(scores, edges, visible, 1.0)
        half_range = max(half_range, octaves[0])
        sums = yield from _labelled(problem, theta, middle, half_range, recalibration_multiplier)
        line = fitted_line(sums, half_range, middle, optimism, expected, slopes, intercept=bool(rows.intercept))
        return _moved(problem, theta, *line)
    middle, half_range = _score_range(scores, edges, numbers.tail, numbers.widening)
    half_range = max(half_range, octaves[0])
    bins = np.linspace(middle - half_range, middle + half_range, _bins(n, recalibration_multiplier) + 1)
    counts = yield from _counted(problem, theta, bins, recalibration_multiplier)
    centres, ridge, gained = (bins[1:] + bins[:-1]) / 2, recalibration_multiplier**2 / n, optimism / half_range
    if not rows.intercept:
        design, prior = (centres / half_range)[:, None], np.array([half_range])
        return _moved(problem, theta, float(_fit(problem.loss, counts, design, prior, ridge, gained)[0]) / half_range)
    design = np.column_stack([(centres - middle) / half_range, np.ones_like(centres)])
    scale, offset = _fit(problem.loss, counts, design, np.array([half_range, middle]), ridge, gained)
    return _moved(problem, theta, scale / half_range, offset - scale * middle / half_range)


def _moved(problem: Problem, theta: Array, scale: float, offset: float = 0.0) -> Array:
    """θ of the scores scale·s + offset."""
    found = theta * scale
    if offset:
        found[-1] += offset / problem.rows.intercept
    return found


def _labelled(
    problem: Problem, theta: Array, middle: float, half_range: float, multiplier: float
) -> Generator[Measurement, Any, ScoreSums]:
    """Scores counted in bins whose outermost centres are the ends of the range, and sums of labels: one release."""
    beyond = half_range * _PLACES / (_PLACES - 1)
    query = LabelledScores(problem.rows, theta, np.linspace(middle - beyond, middle + beyond, _PLACES + 1))
    answer = np.asarray((yield Noisy(query, Gaussian(multiplier))), dtype=np.float64)
    noise, counts = multiplier * query.bound * query.grid, _possible(answer[:-3], problem.n)
    return ScoreSums(counts, float(answer[-3]), (float(answer[-2]), float(answer[-1])), noise)


def fitted_offset(problem: Problem, multiplier: float) -> Steps:
    """θ of the best offset alone, by one histogram of targets; 0, without a release, for rows without a constant."""
    start = problem.start
    if not problem.rows.intercept:
        return start
    counts = yield from _counted(problem, start, np.array([-1.0, 1.0]), multiplier)
    ridge = multiplier**2 / problem.n
    start[-1] = _newton(problem.loss, counts, np.ones((1, 1)), np.zeros(1), ridge, np.zeros(1))[0]
    start[-1] /= problem.rows.intercept
    return start


@dataclass(frozen=True)
class Recalibration:
    """The fit of the offset before a descent, and of scale and offset after it.

    At θ = 0 the mean gradient of classes of unequal size is mostly the larger class's mean row; with the offset fitted
    first, slopes add up to about 0 and gradients are differences of the classes.

    Args:
        noise_multiplier: noise of its three releases together, Σ 1/ν_i² = 1/``noise_multiplier``².
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        if not 0 < self.noise_multiplier < math.inf:
            raise InvalidInput(f"noise_multiplier must be positive and finite, got {self.noise_multiplier!r}.")

    def event(self, loss: Loss) -> Event:
        """One release that costs as much as the three: Σ (factor/ν)² is the same under either relation."""
        factor = ScoreHistogram.replace_one_factor
        if isinstance(loss, Logistic):
            fit = 1 - 2 * current(NUMBERS).place_share
            factor = math.sqrt((1 - fit) * factor**2 + fit * _label_factor() ** 2) * (1 + 1e-15)
        return events.Gaussian(self.noise_multiplier, factor)

    def _noise(self, share: float) -> float:
        return self.noise_multiplier / math.sqrt(share)

    def before(self, problem: Problem) -> Steps:
        """θ of the best offset alone."""
        return (yield from fitted_offset(problem, self._noise(current(NUMBERS).place_share)))

    def after(self, problem: Problem, theta: Array, leverage: float) -> Steps:
        """θ with its scale and offset fitted anew."""
        share = current(NUMBERS).place_share
        place, fit = self._noise(share), self._noise(1 - 2 * share)
        anchor = float(theta[-1]) * problem.rows.intercept
        return (yield from recalibrated(problem, theta, place, fit, leverage, anchor))


def _label_factor() -> float:
    """The replace-one factor of `LabelledScores`, which depends on the number of bins alone."""
    return LabelledScores(RowSpec(1, 1.0), np.zeros(1), np.arange(_PLACES + 1.0)).replace_one_factor


@dataclass(frozen=True, eq=False)
class _Counts:
    """Possible counts: one row for each bin of targets, one column for each bin of scores."""

    counts: Array
    targets: Array

    def squared_slope(self, loss: Loss, scores: Array) -> float:
        """The mean of the squared slope, given one score for each bin."""
        return float((self.counts * loss.slope(scores, self.targets[:, None]) ** 2).sum() / self.counts.sum())


def _counted(problem: Problem, theta: Array, bins: Array, noise: float) -> Generator[Measurement, Any, _Counts]:
    """Rows counted by score and target, brought to possible counts: one release."""
    labels = problem.loss.slope_sign_fixed
    edges = np.linspace(-2.0, 2.0, 3) if labels else np.linspace(-1.0, 1.0, current(NUMBERS).bins + 1)
    answer = yield Noisy(ScoreHistogram(problem.rows, theta, bins, edges), Gaussian(noise))
    return _Counts(_possible(np.asarray(answer, dtype=np.float64), problem.n), (edges[1:] + edges[:-1]) / 2)


def _octaves(n: float) -> int:
    """Halvings of the largest possible score that the first histogram distinguishes: down to 1/n of it."""
    return max(1, math.ceil(math.log2(max(n, 2.0))))


def _bins(n: float, noise: float) -> int:
    """As many bins as leave √bins·noise below the noise share of n, within the limits."""
    numbers = current(NUMBERS)
    many, share = numbers.bins, numbers.tail
    return many if noise * math.sqrt(many) <= share * n else max(2, int((share * n / noise) ** 2))  # a line needs 2


def _longest_score(problem: Problem, theta: Array, anchor: float) -> float:
    """The largest distance of a score from the anchor that rows within the norm allow."""
    rows, d = problem.rows, problem.rows.n_features
    norm = rows.norm if rows.bounded else 1.0
    longest = float(np.linalg.norm(theta[:d])) * norm + abs(float(theta[d:].sum()) * rows.intercept - anchor)
    return longest if 0 < longest < math.inf else 1.0


def _possible(counts: Array, n: float) -> Array:
    """The nearest counts that are not negative and add up to n."""
    return np.asarray(Simplex(n).project(counts.ravel())).reshape(counts.shape)


def _score_range(counts: Array, edges: Array, tail: float, widening: float) -> tuple[float, float]:
    """Middle of the range of most scores, and half its width: from quantiles of the counts, widened."""
    shares = np.concatenate([[0.0], np.cumsum(counts)]) / counts.sum()
    # where no row lies the quantile function jumps: take it as rising a little everywhere
    low, high = np.interp((tail, 1 - tail), shares + 1e-12 * np.arange(len(shares)), edges)
    return float(low + high) / 2, widening * float(high - low) / 2


def _fit(loss: Loss, table: _Counts, design: Array, prior: Array, ridge: float, optimism: float) -> Array:
    """argmin Σ counts·ℓ + optimism·v·w_0 + (ridge/2)‖w − prior‖², w_0 ≥ 0, v the mean squared slope.

    v is that of the best constant first, then that of the fit found with it. The sum is convex, so its minimiser is on
    the boundary if it is beyond it.
    """
    rest = design.shape[1] - 1

    def at(scale: float) -> Array:
        """The best rest for a scale."""
        given = scale * design[:, 0]
        others = _newton(loss, table, design[:, 1:], prior[1:], ridge, np.zeros(rest), given) if rest else np.zeros(0)
        return np.append(scale, others)

    found = at(0.0)
    for _ in range(2):
        drift = np.append(optimism * table.squared_slope(loss, design @ found), np.zeros(rest))
        found = _newton(loss, table, design, prior, ridge, drift)
        if found[0] < 0:
            return at(0.0)
    return found


def _newton(
    loss: Loss, table: _Counts, design: Array, prior: Array, ridge: float, drift: Array, given: Array | float = 0.0
) -> Array:
    """argmin Σ counts·ℓ + ⟨drift, w⟩ + (ridge/2)‖w − prior‖² beside given scores, by Newton's method, steps halved."""
    counts, targets = table.counts, table.targets[:, None]

    def value(w: Array) -> float:
        losses = float((counts * loss.value(given + design @ w, targets)).sum())
        return losses + float(drift @ w) + ridge / 2 * float(((w - prior) ** 2).sum())

    least = 1e-9 * counts.sum() + ridge

    def derivatives(w: Array) -> tuple[Array, Array]:
        z = given + design @ w
        gradient = design.T @ (counts * loss.slope(z, targets)).sum(axis=0) + drift + ridge * (w - prior)
        bend = (counts * loss.curvature(z, targets)).sum(axis=0)
        return gradient, (design.T * bend) @ design + least * np.eye(len(w))

    return damped_newton(value, derivatives, prior)
