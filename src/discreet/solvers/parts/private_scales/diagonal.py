"""Second moments of the columns, with or without the mean row: rows are centred and scaled column by column.

1. The *mean* row: what all rows have in common is not informative, takes up their length, and is a direction of so much
   more curvature than the others that steps would have to be short because of it;
2. *second moments* f_j of the columns (`discreet.solvers.parts.column_weights`), and from them weights
   w_j ∝ (f_j + τ)^−power: columns whose second moment exceeds the noise are brought nearer to one scale, so that the
   same noise and the same step size are right for all of them.

A descent takes gradients of such rows by `discreet.queries.sums.scaled_gradient`, which never makes one, so that sparse
rows stay sparse; a minimiser needs the rows themselves (`discreet.queries.mapped.ColumnWeights`).
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from discreet.errors import InvalidInput
from discreet.measurements import Measurement
from discreet.queries.base import Query
from discreet.queries.mapped import ColumnWeights
from discreet.queries.sums.scaled_gradient import LARGEST_WEIGHT, ScaledGradientSum, Scaling
from discreet.rows import RowSpec
from discreet.solvers.base import Problem
from discreet.solvers.parts.column_weights import (
    column_weights,
    lengthening,
    released_mean,
    released_moments,
    weighted_moments,
)
from discreet.solvers.parts.private_scales.base import Array, Coordinates
from discreet.solvers.parts.requirements import require_bounded_rows, require_unconstrained

__all__ = ["ColumnScales", "Diagonal", "ScaledColumns", "check", "on_grid"]


def check(problem: Problem) -> None:
    """Refuses a constraint, which scaled columns would deform, and rows without a bound, from which scales start."""
    require_unconstrained(problem, "descent on scaled columns", "descent")
    require_bounded_rows(problem, "descent on scaled columns")


@dataclass(frozen=True)
class Diagonal:
    """The mean row, where rows are centred, and the second moments of the columns: two Gaussian releases, or one.

    Args:
        moment_multiplier: noise over the bound of `ColumnSecondMoment`; 0 without privacy.
        damping: τ in units of the squared row norm.
        power: weights are (f_j + τ)^−power, f_j the second moment of a column. ½ brings all columns whose second moment
            exceeds τ to one scale, best where rare columns are the informative ones; 0 leaves them as they are.
        spread: see `ColumnSecondMoment`.
        centred: whether rows are centred; needs a constant column.
        centre_multiplier: noise over the bound of `RowSum`.
        constant_weight: weight of the constant column in a descent, which takes up length as any other column does.
    """

    moment_multiplier: float
    damping: float
    power: float
    spread: float
    centred: bool = False
    centre_multiplier: float = 0.0
    constant_weight: float = 1.0
    kind: str = field(default="diagonal", init=False)

    def __post_init__(self) -> None:
        if not 0 < self.damping < math.inf:
            raise InvalidInput(f"damping must be positive and finite, got {self.damping!r}.")
        if not 0 <= self.power <= 1:
            raise InvalidInput(f"power must be between 0 and 1, got {self.power!r}.")

    def check(self, problem: Problem) -> None:
        """Refuses a constraint, rows without a bound, and a centre for rows that cannot be centred."""
        check(problem)
        if self.centred and not problem.rows.constant:
            raise InvalidInput("rows without a constant column cannot be centred; fit an intercept, or centre_share=0.")

    def estimated(self, problem: Problem) -> Generator[Measurement, Any, ColumnScales]:
        """Centre and weights of the columns."""
        self.check(problem)
        centre, explained = None, np.zeros(problem.rows.n_features)
        if self.centred:
            centre, explained = yield from released_mean(problem, self.centre_multiplier)
        moments = yield from released_moments(problem, self.moment_multiplier, self.spread)
        weights = column_weights(moments, problem.rows, self.damping, self.power, explained)
        return ColumnScales(problem.rows, weights, centre, moments, explained)

    def known(self, problem: Problem, mean: Array, moments: Array, length: float) -> ColumnScales:
        """Centre and weights of columns whose mean and second moments are public already: no release.

        Args:
            problem: public facts.
            mean: of each feature.
            moments: the second moment of each feature.
            length: root mean square length of weighted rows over the row norm. 1 shortens few rows and by little, so
                that scores keep their size.
        """
        self.check(problem)
        centre, explained = (mean, mean**2) if self.centred else (None, np.zeros_like(mean))
        square = problem.rows.norm**2
        left = np.maximum(moments - explained, 0.0) / square
        weights = (left + self.damping) ** -self.power
        whole = float(left @ weights**2)
        weights *= length / math.sqrt(whole) if whole > 0 else 1.0
        return ColumnScales(problem.rows, weights, centre, moments, explained, length)

    def released(self, problem: Problem, iterations: int) -> Generator[Measurement, Any, ScaledColumns]:
        """Coordinates in which gradients of centred and weighted rows are taken."""
        scales = yield from self.estimated(problem)
        centre = np.zeros(problem.rows.n_features) if scales.centre is None else scales.centre
        scaling, unit = on_grid(problem.rows, scales.weights / lengthening(), centre, self.constant_weight)
        return ScaledColumns(problem, scaling, unit)


@dataclass(frozen=True, eq=False)
class ColumnScales:
    """What was released of the columns: public.

    Args:
        rows: public facts about the given rows.
        weights: one a feature, such that weighted rows are ``length`` (or `lengthening`) times the row norm long in
            root mean square.
        centre: the mean row, shrunk by its noise; None where rows are not centred.
        moments: second moments of the columns.
        explained: the part of them that the centre explains.
        length: root mean square length of weighted rows over the row norm, where moments are known of all columns;
            None where they were estimated, and what is below the noise is taken to be spread evenly.
    """

    rows: RowSpec
    weights: Array
    centre: Array | None
    moments: Array
    explained: Array
    length: float | None = None

    @property
    def row_map(self) -> ColumnWeights:
        """The map from a given row to a centred and weighted one, which is clipped anew."""
        return ColumnWeights(self.rows, self.weights, self.centre)

    def coefficients(self, theta: Array) -> Array:
        """The coefficients of the given columns; on average over rows as they are given, scores of clipped ones."""
        d, found = self.rows.n_features, theta.copy()
        found[:d] *= self.weights / (self.length or lengthening())
        if self.centre is not None:
            found[-1] -= float(found[:d] @ self.centre) / self.rows.intercept
        return found

    def held(self) -> Array:
        """Approximate second moments of the columns of weighted and clipped rows."""
        if self.length is not None:
            return np.asarray(np.maximum(self.moments - self.explained, 0.0) * (self.weights / self.length) ** 2)
        return weighted_moments(self.moments, self.rows, self.weights, self.explained)


@dataclass(frozen=True, eq=False)
class ScaledColumns(Coordinates):
    """Columns centred and scaled by whole weights.

    Args:
        problem: public facts.
        scaling: weights and centre on the grid.
        unit: what a whole weight of 1 stands for: the query's rows are longer than weighted rows by 1/unit.
    """

    problem: Problem
    scaling: Scaling
    unit: float

    def query(self, theta: Array, clip: float) -> Query:
        """The gradient sum over centred and scaled rows; ``clip`` is in units of weighted rows."""
        return ScaledGradientSum(self.scaling, self.problem.loss, theta, clip / self.unit)

    def direction(self, gradient: Array, theta: Array) -> Array:
        """The gradient in units of weighted rows; the ridge is on the coefficients of the given columns."""
        ridge = self.problem.ridge
        whole = gradient + self.scaling.of_sum(ridge * self.scaling.scores(theta)) if ridge else gradient
        return np.asarray(self.unit**2 * whole)

    def coefficients(self, theta: Array) -> Array:
        """The coefficients with which given rows have the scores that θ gives to scaled ones."""
        return self.scaling.scores(theta)

    def anchor(self, coefficients: Array) -> float:
        """The score of the mean row, or of a row of zeros where rows are not centred."""
        rows = self.problem.rows
        return super().anchor(coefficients) + float(coefficients[: rows.n_features] @ self.scaling.centre) * rows.unit

    @property
    def leverage(self) -> float:
        """The mean squared length of weighted rows: the squared row norm, and the constant column's."""
        rows = self.problem.rows
        constant = self.unit * float(self.scaling.weights[rows.n_features :].sum()) * rows.intercept
        return rows.norm**2 + constant**2


def on_grid(rows: RowSpec, weights: Array, centre: Array, constant_weight: float) -> tuple[Scaling, float]:
    """Weights (with the constant column's) in whole multiples of the unit returned, and the centre in row steps."""
    full = np.concatenate([weights, np.full(rows.dimension - rows.n_features, constant_weight)])
    unit = float(full.max()) / LARGEST_WEIGHT
    length = float(np.linalg.norm(centre))
    inside = centre * min(1.0, rows.norm / length) if length > 0 else centre
    steps = np.trunc(inside / rows.unit).astype(np.int64)
    return Scaling(rows, np.clip(np.rint(full / unit), 1, LARGEST_WEIGHT).astype(np.int64), steps), unit
