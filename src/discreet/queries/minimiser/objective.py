"""A ridge-regularised sum of losses on prepared rows: its gradient with an error bound, and its Hessian."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from discreet.data.base import Block, Dataset
from discreet.floats import UNIT_ROUNDOFF
from discreet.losses import Domain, Loss
from discreet.queries.minimiser.held_rows import CHUNK, HeldRows, held_rows, two_sum
from discreet.queries.minimiser.problem import Array, RidgeProblem

__all__ = ["Objective"]

_LARGEST_HESSIAN = 640  # parameters; beyond, Newton steps are found by conjugate gradients


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # comes with scikit-learn

    return ThreadpoolController()


@dataclass(frozen=True)
class _Held:
    """How the rows of a block are held: a key by which a block knows again what it has held, in any process."""

    loss: Loss
    slope_bound: float
    rounded: bool
    weighted: bool

    def of(self, block: Block) -> HeldRows:
        """The rows of a block."""
        given = (self.loss, self.slope_bound)
        return block.latest(
            "held rows", self, lambda: held_rows(block, *given, rounded=self.rounded, weighted=self.weighted)
        )

    def at(self, block: Block, theta: Array) -> HeldRows:
        """The rows of a block, with the curvature at θ: that of the last gradient, or computed anew."""
        rows = self.of(block)
        if rows.theta is None or not np.array_equal(rows.theta, theta):
            rows.gradient(theta)
        return rows


_Part = tuple[Array, Array, float, int]


def _gradient(held: _Held, theta: Array, block: Block) -> _Part:
    """The sum of a run, its largest target and the most entries of a row."""
    rows = held.of(block)
    high, low = rows.gradient(theta)
    return high, low, rows.largest_target, rows.most_entries


def _joined(one: _Part, two: _Part) -> _Part:
    high, low = one[0].copy(), one[1] + two[1]
    two_sum(high, low, two[0])
    return high, low, max(one[2], two[2]), max(one[3], two[3])


def _hessian(held: _Held, theta: Array, kind: Any, block: Block) -> Array:
    return held.at(block, theta).hessian(kind)


def _product(held: _Held, theta: Array, direction: Array, block: Block) -> Array:
    return held.at(block, theta).product(direction)


def _diagonal(held: _Held, theta: Array, block: Block) -> Array:
    return held.at(block, theta).diagonal()


def _sum(one: Array, two: Array) -> Array:
    return np.asarray(one + two)


class Objective:
    """J of a `RidgeProblem` on the rows of a dataset, tilted by ⟨tilt, θ⟩.

    Sums over rows are taken in fixed runs (`Dataset.fold`), so that they have the same bits wherever the rows are.

    Args:
        problem: loss, regularisation and bounds.
        data: the rows.
        tilt: b, of the parameter's shape.
        rounded: whether rows are taken on the grid, which every certificate needs, or as they are.
    """

    def __init__(self, problem: RidgeProblem, data: Dataset, tilt: Array, *, rounded: bool) -> None:
        self.problem, self.data, self.tilt, self.ridge = problem, data, tilt, problem.regularisation
        self.held = _Held(problem.loss, problem.slope_bound, rounded, problem.weighted)
        self.n = len(data)
        self.unit = problem.rows.unit
        self.weight = 1.0  # of each row
        self.smoothness = problem.loss.smoothness(Domain())
        self.theta = np.zeros(problem.rows.shape)
        self.largest_target, self.most_entries = 0.0, problem.rows.dimension

    def _folded(self, function: Callable[[Block], Array]) -> Array:
        with _blas().limit(limits=1, user_api="blas"):  # the rows are shared out among threads already
            found = self.data.fold(function, _sum)
        return np.zeros(()) if found is None else found

    def gradient(self, theta: Array) -> Array:
        """∇J(θ). The curvature there is remembered for `hessian` and `product`."""
        self.theta = np.array(theta)
        with _blas().limit(limits=1, user_api="blas"):
            found = self.data.fold(partial(_gradient, self.held, self.theta), _joined)
        if found is None:
            return np.asarray(self.ridge * theta + self.tilt)
        high, low, self.largest_target, self.most_entries = found
        return np.asarray(self.weight * self.unit * (high + low) + (self.ridge * theta + self.tilt))

    def rounding_error(self, theta: Array) -> float:
        """A bound on ‖computed ∇J(θ) − ∇J(θ)‖, after a gradient was computed.

        A dot product of m terms errs by m·u·‖x‖‖θ‖ in any order; scaling and subtracting the target by two more
        roundings, two more for weighted rows; the slope function by 16 u (or what the loss says); each of these reaches
        the gradient through the smoothness of the loss, times ‖x‖ ≤ R, for n rows: a weighted row's score is t times as
        wrong, and its slope is divided by t. A sum over at most 1024 rows errs by 1024·u·Σ‖a·x‖, and the sums of those
        not at all.
        """
        u, steepest = UNIT_ROUNDOFF, self.problem.gradient_bound
        radius, length = self.problem.rows.radius, float(np.linalg.norm(theta))
        largest_score = radius * length + self.largest_target + 1
        slope_error = u * (
            self.smoothness * ((self.most_entries + 6) * radius * length + 4 * largest_score)
            + self.problem.loss.slope_rounding
        )
        sums = self.n * (radius * slope_error + (CHUNK + 16) * u * steepest)
        ends = 8 * u * (self.n * steepest + self.ridge * length + float(np.linalg.norm(self.tilt)))
        return 1.01 * (sums + ends)

    def certified(self, gradient: Array, theta: Array, tolerance: float) -> bool:
        """Whether ‖∇J(θ)‖ ≤ tolerance in exact arithmetic."""
        computed = float(np.linalg.norm(gradient)) * (1 + gradient.size * UNIT_ROUNDOFF)
        return computed + self.rounding_error(theta) <= tolerance

    def thinned(self, strides: Sequence[int]) -> list[Objective]:
        """Estimates of this objective from every k-th row, each with weight k, for each k of ``strides``."""
        places = [np.arange(stride // 2, self.n, stride) for stride in strides]
        together = np.unique(np.concatenate(places)) if places else np.empty(0, np.int64)
        some = self.data.gather(together) if len(together) else self.data  # rows far away are read once
        found = []
        for stride, chosen in zip(strides, places, strict=True):
            coarse = copy(self)
            coarse.data = some.gather(np.searchsorted(together, chosen))
            coarse.n, coarse.weight = len(chosen), self.weight * stride
            found.append(coarse)
        return found

    @property
    def small(self) -> bool:
        """Whether the Hessian is worth forming."""
        return self.problem.rows.outputs == 1 and math.prod(self.problem.rows.shape) <= _LARGEST_HESSIAN

    def hessian(self, kind: Any) -> Array:
        """∇²J at the last gradient's θ, its sums over rows in working precision ``kind``."""
        found = self._folded(partial(_hessian, self.held, self.theta, kind))
        total = np.zeros((self.theta.size,) * 2) + self.weight * self.unit**2 * found
        total.flat[:: len(total) + 1] += self.ridge
        return np.asarray(total, dtype=np.float64)

    def diagonal(self) -> Array:
        """The diagonal of ∇²J at the last gradient's θ, positive also without regularisation."""
        total = self._folded(partial(_diagonal, self.held, self.theta))
        return np.asarray(np.zeros_like(self.theta) + self.weight * self.unit**2 * total + max(self.ridge, 1e-300))

    def product(self, direction: Array) -> Array:
        """∇²J at the last gradient's θ, times a direction."""
        total = self._folded(partial(_product, self.held, self.theta, direction))
        return np.asarray(self.weight * self.unit**2 * total + self.ridge * direction)
