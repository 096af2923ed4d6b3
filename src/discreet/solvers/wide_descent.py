"""Least squares with more columns than can be whitened: scales first, then gradients in those scales, then the offset.

The noise that T gradients of n rows leave in a row's score does not grow with the number of columns. Let ν be the noise
multiplier of one release with the whole budget, C = c·r the clip on rows of length r, and K = ηTc the *travel* (how far
scores go if every row pulls one way). Then scores differ from row to row by noise of K·(ν/n)·r·R, R being the standard
deviation of rows around their mean in one random direction, whatever d is. How far one may go thus depends on two
numbers that are not public, R and the spread s of the targets: K = κ·s·n/(ν·r·R) keeps that noise at a share κ of s,
and what cannot be learnt within it would not have been learnt by going further. All releases are Gaussian:

1. *Survey*: centre and spread of the targets and of one fixed projection of the rows, each by a search that asks
   only for signs (`SignSums`; Robbins–Monro 1951). Errors are in proportion to the spread, not to the public bounds.
2. *Gradients* from the centre found, clipped at 0.08·s, over the travel K. A clip below the spread makes least squares
   a median regression, whose noise is in proportion to s too (`GradientSum`).
3. *Offset*: the mean residual, cut at 2·s to 4·s only (`ResidualSum`), brings the median back to the mean; as much of
   it is taken as its noise leaves credible.

If noise is so strong that the survey would take most of the budget, weights cannot be learnt, but the centre of the
targets can: it then has the whole budget, and the model is that constant.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.calibration.calibrate import calibrated
from discreet.calibration.guarantee import PURE_REFUSED, Guarantee
from discreet.errors import InvalidInput
from discreet.geometry.whole_space import WholeSpace
from discreet.losses import Squared
from discreet.measurements import Measurement, Noisy
from discreet.mechanisms import Gaussian
from discreet.queries.sums.gradient import GradientSum
from discreet.queries.sums.residual import ResidualSum
from discreet.queries.sums.sign_sums import SignSums
from discreet.solvers.base import Problem, Steps

__all__ = ["Survey", "WideDescent", "default"]

# constants were chosen on the problems of bench/synthetic.py; bench/defaults.py sweeps them
_SURVEY_STEPS, _GAIN = 16, 0.5
_FIRST_SPREADS = 0.2, 0.4
"""Where the searches for half-widths begin: of the target's bound and of the row norm."""
_TO_DEVIATION = 1.48  # half of a normal law is within its standard deviation over 1.48
_LONGEST_STEP = 1.5
"""No step moves a score by more than this many spreads."""
_OFFSET_TRAVEL = 2.0
_WIDE, _WIDEST, _CREDIBLE = 2.0, 4.0, 0.1
"""The offset is expected to be 0.1 spreads off. Residuals are cut for it at two spreads, or at up to four where noise
leaves as much credible."""
_CENTRE_STEPS, _CENTRE_CLIP = 16, 0.05
_CENTRE_TRAVEL, _CENTRE_NOISE = 1.5, 0.2
"""The centre alone: a travel of 1.5 bounds, or less, so that its noise is at most a fifth of the bound."""


@dataclass(frozen=True)
class Survey:
    """What was found: centre and spread of the targets, and the spread of rows in one direction, the reach R."""

    centre: float
    spread: float
    reach: float


@dataclass(frozen=True)
class WideDescent:
    """A survey, ``iterations`` gradients, and the offset; without gradients, the centre of the targets alone.

    Args:
        noise_multiplier: noise over the clip in each gradient (without gradients: in each step to the centre);
            0 is plain gradient descent.
        survey_multiplier: noise over the bound of `SignSums` in each of 16 releases.
        offset_multiplier: noise over the largest residual in the offset's release.
        iterations: number of gradients; 0 finds the centre of the targets alone.
        travel: K in units of spread/reach.
        clip: slope at which residuals are clipped, in spreads of the targets.
        target_bound: public bound on |y|; targets beyond it are allowed.
    """

    noise_multiplier: float
    survey_multiplier: float
    offset_multiplier: float
    iterations: int
    travel: float
    clip: float
    target_bound: float = 1.0

    def __post_init__(self) -> None:
        if self.iterations < 0:
            raise InvalidInput(f"iterations must be at least 0, got {self.iterations}.")
        for name in ("travel", "clip", "target_bound"):
            if not getattr(self, name) > 0:
                raise InvalidInput(f"{name} must be positive, got {getattr(self, name)!r}.")

    def steps(self, problem: Problem) -> Steps:
        """16 + iterations + 1 releases, or 16 for the centre alone."""
        _check(problem)
        if not self.iterations:
            return (yield from self._centre(problem))
        if not self.noise_multiplier:
            size = 1 / problem.rows.radius**2
            return (yield from self._descend(problem, problem.start, math.inf, size, size))
        survey = yield from self._survey(problem)
        theta = problem.start
        theta[-1] = survey.centre / _constant(problem)
        clip, weights, offset = self.sizes(problem, survey)
        theta = yield from self._descend(problem, theta, clip, weights, offset)
        return (yield from self._with_offset(problem, theta, survey.spread))

    def sizes(self, problem: Problem, survey: Survey) -> tuple[float, float, float]:
        """(clip of a row's gradient, step size of weights, step size of the constant's coefficient)."""
        rows, slope = problem.rows, self.clip * survey.spread
        most = _LONGEST_STEP * self.iterations * survey.spread
        way = min(self.travel * survey.spread * rows.norm / survey.reach, most)
        weights = way / (self.iterations * slope * rows.norm**2)
        offset = min(_OFFSET_TRAVEL * survey.spread, most) / (self.iterations * slope * rows.intercept**2)
        return slope * rows.radius, weights, offset

    def _survey(self, problem: Problem) -> Generator[Measurement, Any, Survey]:
        """Searches for the medians of v and |v − median|, the latter by its logarithm; the last half is averaged."""
        rows, n = problem.rows, problem.n
        scales = np.array([self.target_bound, rows.norm])
        centres, logs = np.zeros(2), np.log(_FIRST_SPREADS * scales)
        found, kept = np.zeros((2, 2)), 0
        for t in range(_SURVEY_STEPS):
            c, w = centres.tolist(), np.exp(logs).tolist()
            query = SignSums(rows, _direction(rows.n_features), (c[0], c[1]), (w[0], w[1]))
            answer = yield Noisy(query, Gaussian(self.survey_multiplier))
            sides = np.asarray(answer, dtype=np.float64).reshape(2, 2) / n
            centres = np.clip(centres + _GAIN * np.exp(logs) * sides[:, 0], -scales * (1, 3), scales * (1, 3))
            logs = np.clip(logs + _GAIN * sides[:, 1], np.log(0.01 * scales), np.log(scales))
            if 2 * (t + 1) > _SURVEY_STEPS:
                kept += 1
                found += (np.stack([centres, logs]) - found) / kept
        spreads = np.minimum(_TO_DEVIATION * np.exp(found[1]), scales)
        return Survey(float(found[0, 0]), float(spreads[0]), float(spreads[1]))

    def _descend(
        self, problem: Problem, theta: NDArray[np.float64], clip: float, weights: float, offset: float
    ) -> Steps:
        """Noisy gradients from ``theta``; the last half of the iterates is averaged."""
        sizes = np.full(theta.shape, weights)
        sizes[-1] = offset
        mean, kept = np.zeros_like(theta), 0
        for t in range(self.iterations):
            query = GradientSum(problem.rows, problem.loss, theta, clip)
            total = yield Noisy(query, Gaussian(self.noise_multiplier))
            theta = theta - sizes * total / problem.n
            if 2 * (t + 1) > self.iterations:
                kept += 1
                mean += (theta - mean) / kept
        return mean

    def _with_offset(self, problem: Problem, theta: NDArray[np.float64], spread: float) -> Steps:
        """θ with its intercept moved by as much of the mean residual as is credible."""
        noise = self.offset_multiplier / problem.n
        cut = min(_WIDEST, _CREDIBLE / noise) if noise else _WIDEST
        query = ResidualSum(problem.rows, theta, max(_WIDE, cut) * spread)
        total = yield Noisy(query, Gaussian(self.offset_multiplier))
        credible = 1 / (1 + (noise * query.clip / (_CREDIBLE * spread)) ** 2)
        theta = theta.copy()
        theta[-1] += credible * float(total) / problem.n / _constant(problem)
        return theta

    def _centre(self, problem: Problem) -> Steps:
        """The constant model: steps of clipped residuals, the last half averaged."""
        bound, constant, n = self.target_bound, _constant(problem), problem.n
        clip = _CENTRE_CLIP * bound
        size = self.travel * bound / (_CENTRE_STEPS * clip)
        theta, centre, mean, kept = problem.start, 0.0, 0.0, 0
        for t in range(_CENTRE_STEPS):
            theta[-1] = centre / constant
            total = yield Noisy(ResidualSum(problem.rows, theta.copy(), clip), Gaussian(self.noise_multiplier))
            centre = min(bound, max(-bound, centre + size * float(total) / n))
            if 2 * (t + 1) > _CENTRE_STEPS:
                kept += 1
                mean += (centre - mean) / kept
        theta[-1] = mean / constant
        return theta


def _direction(columns: int) -> NDArray[np.float64]:
    """Signs that go with no pattern of the columns: the same for all data, so public."""
    return np.where(np.cos(1.7 * np.arange(columns, dtype=np.float64) ** 2 + 0.3) >= 0, 1.0, -1.0)


def _constant(problem: Problem) -> float:
    """The constant column's value."""
    return problem.rows.constant * problem.rows.unit


def _check(problem: Problem) -> None:
    """Least squares with an intercept, and nothing else."""
    if not isinstance(problem.loss, Squared):
        raise InvalidInput(
            f"wide descent is for squared loss, not {type(problem.loss).__name__}; use solver='descent'."
        )
    if not isinstance(problem.domain, WholeSpace) or problem.ridge:
        what = f"ridge {problem.ridge:g}" if problem.ridge else type(problem.domain).__name__
        raise InvalidInput(f"wide descent has no constraint and no ridge, but the problem has {what}; use 'descent'.")
    if not problem.rows.intercept:
        raise InvalidInput("wide descent centres the targets, which takes an intercept; use solver='descent' without.")
    if not problem.rows.bounded:
        raise InvalidInput("wide descent needs a row_norm to choose its steps; give one, or another solver.")


_NOISE_SHARE, _CLIP = 0.25, 0.08
_SURVEY_NOISE, _LEAST_SHARE, _MOST_SHARE = 0.24, 0.1, 0.35
"""The survey has that share of the budget with which its mean signs are off by 0.24, were they one release, and at
least 0.1; where that would be more than 0.35, the centre is all that is looked for."""
_OFFSET_SHARE = 0.05
_LEAST_ITERATIONS, _MOST_ITERATIONS, _EXACT_ITERATIONS = 32, 400, 2000
_LEAST_REACH = 0.15


def default(
    problem: Problem,
    guarantee: Guarantee,
    *,
    iterations: int | None = None,
    clip: float | None = None,
    noise_share: float | None = None,
    survey_share: float | None = None,
    offset_share: float | None = None,
    target_bound: float | None = None,
) -> WideDescent:
    """Noise from the accountant, scales from the survey, everything else from public facts.

    T = κ·n·norm/(1.5·R·ν·r) steps with R at 0.15 of the row norm, between 32 and 400, are enough for a travel of K at
    1.5 spreads a step; with less reach, or a T of your own, travel ends where T steps lead.

    Args:
        problem: squared loss, an intercept, no constraint, no ridge.
        guarantee: what to keep.
        iterations: number of gradients; given one, weights are learnt however strong the noise.
        clip: slope at which residuals are clipped, in spreads of the targets; None takes 0.08.
        noise_share: κ, the noise of gradients in scores over the spread of targets; None takes 0.25.
        survey_share: of the budget (in 1/σ²) for the survey; given one, weights are learnt however strong the noise.
        offset_share: of the budget for the offset; None takes 0.05.
        target_bound: public bound on |y|, where searches begin and end; None takes 1.

    Raises:
        InvalidInput: another loss, a constraint, a ridge, no intercept, pure DP, or shares that leave nothing.

    Example:
        >>> from discreet.rows import RowSpec
        >>> from discreet.units import Unit
        >>> problem = Problem(RowSpec(4000, 1.0, 0.5), Squared(), 60.0)
        >>> [default(problem, Guarantee(e, 1e-4, Unit("add-remove"))).iterations for e in (0.5, 8.0)]
        [0, 102]
    """
    _check(problem)
    bound = 1.0 if target_bound is None else target_bound
    if not guarantee.private:
        steps = _EXACT_ITERATIONS if iterations is None else iterations
        return WideDescent(0.0, 0.0, 0.0, steps, math.inf, math.inf, bound)
    rows, n, one = problem.rows, problem.n, _one_release(guarantee)
    asked = (SignSums.bound * SignSums.grid * one / n / _SURVEY_NOISE) ** 2
    weights = iterations is not None or survey_share is not None or asked <= _MOST_SHARE
    survey = min(_MOST_SHARE, max(_LEAST_SHARE, asked)) if survey_share is None else survey_share
    offset = _OFFSET_SHARE if offset_share is None else offset_share
    if not (survey > 0 and offset > 0 and survey + offset < 1):
        raise InvalidInput(
            f"shares must leave some budget for gradients, got {survey!r} for the survey and {offset!r} for the offset."
        )
    if not weights:
        if clip is not None or noise_share is not None or offset_share is not None:
            raise InvalidInput(
                f"with {n:g} rows at this budget only the targets' centre can be learnt, so that clip, noise_share and "
                "offset_share would have no effect; give iterations or survey_share to learn weights all the same."
            )

        def centre(noise: float) -> WideDescent:
            way = min(_CENTRE_TRAVEL, _CENTRE_NOISE * n / noise)
            return WideDescent(noise * math.sqrt(_CENTRE_STEPS), 0.0, 0.0, 0, way, _CENTRE_CLIP, bound)

        return calibrated(centre, problem, guarantee)
    left = 1 - survey - offset
    share = _NOISE_SHARE if noise_share is None else noise_share

    def travel(noise: float) -> float:
        return share * n * rows.norm / (noise / math.sqrt(left) * rows.radius)

    count = math.ceil(travel(one) / (_LONGEST_STEP * _LEAST_REACH)) if iterations is None else iterations
    count = min(_MOST_ITERATIONS, max(_LEAST_ITERATIONS, count)) if iterations is None else count

    def make(noise: float) -> WideDescent:
        """All noise in proportion: ``noise`` is that of one release with the whole budget."""
        return WideDescent(
            noise_multiplier=noise * math.sqrt(count / left),
            survey_multiplier=noise * math.sqrt(_SURVEY_STEPS / survey),
            offset_multiplier=noise / math.sqrt(offset),
            iterations=count,
            travel=travel(noise),
            clip=_CLIP if clip is None else clip,
            target_bound=bound,
        )

    return calibrated(make, problem, guarantee)


def _one_release(guarantee: Guarantee) -> float:
    """The noise multiplier of one Gaussian release with the whole budget."""
    if guarantee.delta == 0:
        raise InvalidInput(PURE_REFUSED)
    from discreet import events
    from discreet.accounting import calibrate

    return calibrate(events.Gaussian, guarantee.epsilon, guarantee.delta, guarantee.unit)
