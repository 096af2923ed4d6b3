"""Descent with momentum on rows centred and scaled column by column: what "auto" takes for several classes.

Three kinds of Gaussian releases, whose shares of the budget (in 1/σ²) are fixed beforehand:

1. the *mean* row: what all rows have in common does not separate classes, takes up their length, and is a direction of
   so much more curvature than the others that steps would have to be short because of it;
2. *second moments* f_j of the columns (`discreet.solvers.parts.column_weights`), and from them weights
   w_j ∝ (f_j + τ)^−½: columns whose second moment exceeds the noise are brought to one scale, so that the same noise
   and the same step size are right for all of them;
3. *gradients* of rows centred and weighted so (`discreet.queries.sums.scaled_gradient`), with momentum; the last
   iterate is the answer. The clip is less than a row's gradient at θ = 0, so at first most rows have the same
   influence. Of many rows each step takes a Poisson sample: amplification makes up for the smaller sum.

The noise in a row's score depends on the steps by the *path length* (the sum of all step sizes) alone: whatever d, T or
the clip, its standard deviation is c = path length·κ·C·R/n (κ the noise multiplier of one release with the whole
budget, C the clip, R a row's length).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.losses import Softmax
from discreet.measurements import Noisy, PoissonSampling
from discreet.mechanisms import Gaussian
from discreet.queries.sums.scaled_gradient import LARGEST_WEIGHT, ScaledGradientSum, Scaling
from discreet.rows import RowSpec
from discreet.solvers.base import Problem, Steps
from discreet.solvers.parts.column_weights import column_weights, lengthening, released_mean, released_moments
from discreet.solvers.parts.requirements import require_bounded_rows, require_no_ridge, require_unconstrained
from discreet.updates import Momentum

__all__ = ["ScaledDescent", "check", "on_grid"]


@dataclass(frozen=True)
class ScaledDescent:
    """Mean row, second moments of the columns, then ``iterations`` gradients with momentum.

    Args:
        noise_multiplier: noise over ``clip`` in each gradient; 0 runs without privacy.
        centre_multiplier: noise over the bound of `RowSum`.
        moment_multiplier: noise over the bound of `ColumnSecondMoment`.
        iterations: number of gradients.
        clip: ℓ2 bound on the gradient of a row as centred and scaled.
        step: step size in the scaled coordinates.
        decay: of the momentum.
        damping: τ in units of the squared row norm.
        power: weights are (f_j + τ)^−power, f_j the second moment of a column.
        constant_weight: weight of the constant column, which takes up length as any other column does.
        spread: see `ColumnSecondMoment`.
        centred: whether rows are centred; needs a constant column.
        sampling: batches of the gradients; None takes all rows each step.
    """

    noise_multiplier: float
    centre_multiplier: float
    moment_multiplier: float
    iterations: int
    clip: float
    step: float
    decay: float
    damping: float
    power: float
    constant_weight: float
    spread: float
    centred: bool = True
    sampling: PoissonSampling | None = None

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise InvalidInput(f"iterations must be at least 1, got {self.iterations}.")
        if not 0 < self.damping < math.inf:
            raise InvalidInput(f"damping must be positive and finite, got {self.damping!r}.")
        if not 0 <= self.power <= 1:
            raise InvalidInput(f"power must be between 0 and 1, got {self.power!r}.")

    def steps(self, problem: Problem) -> Steps:
        """2 + iterations releases, or one less where rows are not centred."""
        check(problem)
        rows, n = problem.rows, problem.n
        centre, explained = np.zeros(rows.n_features), np.zeros(rows.n_features)
        if self.centred:
            centre, explained = yield from released_mean(problem, self.centre_multiplier)
        moments = yield from released_moments(problem, self.moment_multiplier, self.spread)
        weights = column_weights(moments, rows, self.damping, self.power, explained) / lengthening()
        scaling, unit = on_grid(rows, weights, centre, self.constant_weight)
        update = Momentum(self.step * unit**2, self.decay)  # the query's rows are longer by 1/unit
        used = self.sampling.expected_rows(n) if self.sampling else n
        theta, state = problem.start, update.init(math.prod(rows.shape))
        for _ in range(self.iterations):
            query = ScaledGradientSum(scaling, problem.loss, theta, self.clip / unit)
            total = yield Noisy(query, Gaussian(self.noise_multiplier), self.sampling)
            moved, state = update(theta.ravel(), total.ravel() / used, state)
            theta = moved.reshape(rows.shape)
        return scaling.scores(theta)


def on_grid(
    rows: RowSpec, weights: NDArray[np.float64], centre: NDArray[np.float64], constant_weight: float
) -> tuple[Scaling, float]:
    """Weights (with the constant column's) in whole multiples of the unit returned, and the centre in row steps."""
    full = np.concatenate([weights, np.full(rows.dimension - rows.n_features, constant_weight)])
    unit = float(full.max()) / LARGEST_WEIGHT
    length = float(np.linalg.norm(centre))
    inside = centre * min(1.0, rows.norm / length) if length > 0 else centre
    steps = np.trunc(inside / rows.unit).astype(np.int64)
    return Scaling(rows, np.clip(np.rint(full / unit), 1, LARGEST_WEIGHT).astype(np.int64), steps), unit


def check(problem: Problem) -> None:
    """Refuses all but several classes without constraint or ridge, on rows of bounded length."""
    method, other = "scaled descent", "descent"
    require_unconstrained(problem, method, other)
    require_no_ridge(problem, method, other)
    if not isinstance(problem.loss, Softmax):
        raise InvalidInput("scaled descent is for several classes; for two use solver='weighted_perturbation'.")
    require_bounded_rows(problem, method)
