"""Two small fits around a descent: the offset before it, scale and offset after it.

At θ = 0 the mean gradient of classes of unequal size is mostly the larger class's mean row, and a descent whose noise
allows few or short steps ends where the larger class always wins. In one or two dimensions noise is all but nothing, so
a small share of the budget cures both ends:

* *before*: the constant alone is fitted. Slopes then add up to about 0, and gradients are differences of the classes;
* *after*: the direction found makes every row one number, and a private Newton method fits the coefficients of that
  number and of the constant. How far the descent went, and where it cut the classes, no longer matters.

How large those numbers are is not public. The noise in them is; three Gaussian releases of their mean squares, cut at
4, 16 and 64 times that noise, tell which of the three reaches is wide enough. Every release is a sum over rows that a
public map made (`Mapped`), and their number is fixed.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.geometry.whole_space import WholeSpace
from discreet.losses import Domain
from discreet.measurements import Measurement, Noisy
from discreet.mechanisms import Gaussian
from discreet.queries.energy import ColumnEnergy
from discreet.queries.gradient import GradientSum
from discreet.queries.mapped import ColumnWeights, Mapped, OntoLine, RowMap
from discreet.queries.moments import SecondMoment
from discreet.rows import RowSpec
from discreet.solvers.base import Problem, Steps

__all__ = ["Line", "fits"]

_SHARES = {"offset": 0.25, "reach": 0.125, "line": 0.625}
_OFFSET_STEPS = 16
_REACHES = (4.0, 16.0, 64.0)
_WIDE_ENOUGH = 1 / 8  # mean square over the square of the reach
_LINE_STEPS, _LINE_MOMENT = 24, 0.1


def fits(problem: Problem) -> bool:
    """Whether offset and scale may be fitted: one output, bounded curvature, nothing else that θ has to obey."""
    free = isinstance(problem.domain, WholeSpace) and problem.ridge == 0 and problem.rows.bounded
    return free and problem.rows.outputs == 1 and math.isfinite(problem.loss.smoothness(Domain()))


@dataclass(frozen=True)
class Line:
    """The fits before and after.

    Args:
        noise_multiplier: noise of all its releases together: Σ 1/ν_i² = 1/``noise_multiplier``².
        slope: bound on a row's slope; larger ones are clipped.
    """

    noise_multiplier: float
    slope: float

    def __post_init__(self) -> None:
        if not (self.noise_multiplier > 0 and 0 < self.slope < math.inf):
            raise InvalidInput(
                "noise_multiplier and slope must be positive, slope finite, got "
                f"{self.noise_multiplier!r} and {self.slope!r}."
            )

    def _noise(self, stage: str, releases: float = 1.0) -> float:
        return self.noise_multiplier * math.sqrt(releases / _SHARES[stage])

    def before(self, problem: Problem) -> Steps:
        """θ of the best offset alone: 16 gradients of the constant, the last half averaged. 0 without a constant."""
        start, rows = problem.start, RowSpec(1, 1.0, 1.0)
        if not problem.rows.intercept:
            return start
        constant = OntoLine(rows, _unchanged(problem.rows), np.zeros(problem.rows.n_features))
        noise = Gaussian(self._noise("offset", _OFFSET_STEPS))
        curvature = problem.loss.smoothness(Domain())
        offset, kept = 0.0, []
        for _ in range(_OFFSET_STEPS):
            query = GradientSum(rows, problem.loss, np.array([0.0, offset]), rows.radius * self.slope)
            total = yield Noisy(Mapped(query, constant), noise)
            offset -= float(total[-1]) / (curvature * problem.n)
            kept.append(offset)
        start[-1] = np.mean(kept[_OFFSET_STEPS // 2 :]) / problem.rows.intercept
        return start

    def after(self, problem: Problem, theta: NDArray[np.float64], noise_std: float) -> Steps:
        """θ with its scale and offset fitted anew; ``noise_std`` is the noise in each coefficient, public.

        Newton's steps start at the descent's own scale and offset, which is what remains where noise leaves nothing to
        be seen, and the scale never falls below its start: descent stops short under noise, and never turns θ round.
        """
        rows, d = problem.rows, problem.rows.n_features
        through = _unchanged(rows)
        reach = yield from self._reach(problem, through, theta[:d], noise_std)
        line = Problem(RowSpec(1, 1.0, 1.0 if rows.intercept else 0.0), problem.loss, problem.n)
        onto = OntoLine(line.rows, through, theta[:d] / reach)
        fitted = start = np.array([reach, theta[-1] * rows.intercept] if rows.intercept else [reach])
        solve = yield from self._inverse_curvature(line, onto)
        clip, noise = line.rows.radius * self.slope, Gaussian(self._noise("line", _LINE_STEPS / (1 - _LINE_MOMENT)))
        kept = []
        for _ in range(_LINE_STEPS):
            total = yield Noisy(Mapped(GradientSum(line.rows, line.loss, fitted, clip), onto), noise)
            fitted = fitted - solve @ (total / line.n)
            fitted[0] = max(fitted[0], start[0])
            kept.append(fitted)
        fitted = np.mean(kept[_LINE_STEPS // 2 :], axis=0)
        found = theta * (fitted[0] / reach)
        if rows.intercept:
            found[-1] = fitted[-1] / rows.intercept
        return found

    def _inverse_curvature(self, line: Problem, onto: RowMap) -> Generator[Measurement, Any, NDArray[np.float64]]:
        """The inverse of the mean loss's largest Hessian, damped by the noise in it as in `preconditioned`."""
        moment, noise = SecondMoment(line.rows), self._noise("line", 1 / _LINE_MOMENT)
        packed = yield Noisy(Mapped(moment, onto), Gaussian(noise))
        values, vectors = np.linalg.eigh(moment.matrix(packed))
        damped = np.maximum(values, 0.0) + moment.noise_norm(noise)
        return np.asarray(line.n / line.loss.smoothness(Domain()) * (vectors / damped) @ vectors.T)

    def _reach(
        self, problem: Problem, through: RowMap, direction: NDArray[np.float64], noise_std: float
    ) -> Generator[Measurement, Any, float]:
        """The least of the three reaches that is not plainly too narrow."""
        rows, least = RowSpec(1, 1.0), problem.rows.norm * noise_std
        query, noise = ColumnEnergy(rows), self._noise("reach", len(_REACHES))
        chance = noise / problem.n
        reach, wide = _REACHES[-1] * least, False
        for times in _REACHES:
            onto = OntoLine(rows, through, direction / (times * least))
            answer = yield Noisy(Mapped(query, onto), Gaussian(noise))
            if not wide and float(answer[0]) / problem.n <= _WIDE_ENOUGH + 2 * chance:
                reach, wide = times * least, True
        return reach


def _unchanged(rows: RowSpec) -> ColumnWeights:
    return ColumnWeights(rows, np.ones(rows.n_features))
