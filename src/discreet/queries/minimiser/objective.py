"""A ridge-regularised sum of losses on prepared rows: its gradient with an error bound, and its Hessian."""

from __future__ import annotations

import math
from copy import copy
from functools import cache, partial
from typing import Any

import numpy as np

from discreet.data.base import Dataset
from discreet.data.threads import on_all_cores
from discreet.floats import UNIT_ROUNDOFF
from discreet.losses import Domain
from discreet.queries.minimiser.held_rows import CHUNK, HeldRows, held_rows, two_sum
from discreet.queries.minimiser.problem import Array, RidgeProblem

__all__ = ["Objective"]

_LARGEST_HESSIAN = 640  # parameters; beyond, Newton steps are found by conjugate gradients


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # comes with scikit-learn

    return ThreadpoolController()


def _hessian(kind: Any, rows: HeldRows) -> Array:
    return rows.hessian(kind)


def _product(direction: Array, rows: HeldRows) -> Array:
    return rows.product(direction)


class Objective:
    """J of a `RidgeProblem` on the rows of a dataset, tilted by ⟨tilt, θ⟩.

    Args:
        problem: loss, regularisation and bounds.
        data: the rows.
        tilt: b, of the parameter's shape.
        rounded: whether rows are taken on the grid, which every certificate needs, or as they are.
    """

    def __init__(self, problem: RidgeProblem, data: Dataset, tilt: Array, *, rounded: bool) -> None:
        self.problem, self.tilt, self.ridge = problem, tilt, problem.regularisation
        self.blocks: list[HeldRows] = data.map_blocks(
            lambda block: held_rows(
                block, problem.loss, problem.slope_bound, rounded=rounded, weighted=problem.weighted
            )
        )
        self.n = sum(rows.n for rows in self.blocks)
        self.unit = problem.rows.unit
        self.weight = 1.0  # of each row
        self.smoothness = problem.loss.smoothness(Domain())

    def gradient(self, theta: Array) -> Array:
        """∇J(θ). The curvature there is remembered for `hessian` and `product`."""
        high, low = np.zeros_like(theta), np.zeros_like(theta)
        for block_high, block_low in on_all_cores(lambda rows: rows.gradient(theta), self.blocks):
            two_sum(high, low, block_high)
            low += block_low
        return self.weight * self.unit * (high + low) + (self.ridge * theta + self.tilt)

    def rounding_error(self, theta: Array) -> float:
        """A bound on ‖computed ∇J(θ) − ∇J(θ)‖.

        A dot product of m terms errs by m·u·‖x‖‖θ‖ in any order; scaling and subtracting the target by two more
        roundings, two more for weighted rows; the slope function by 16 u (or what the loss says); each of these reaches
        the gradient through the smoothness of the loss, times ‖x‖ ≤ R, for n rows: a weighted row's score is t times as
        wrong, and its slope is divided by t. A sum over at most 1024 rows errs by 1024·u·Σ‖a·x‖, and the sums of those
        not at all.
        """
        u, steepest = UNIT_ROUNDOFF, self.problem.gradient_bound
        radius, length = self.problem.rows.radius, float(np.linalg.norm(theta))
        target = max((rows.largest_target for rows in self.blocks), default=0.0)
        entries = max((rows.most_entries for rows in self.blocks), default=0)
        largest_score = radius * length + target + 1
        slope_error = u * (
            self.smoothness * ((entries + 6) * radius * length + 4 * largest_score) + self.problem.loss.slope_rounding
        )
        sums = self.n * (radius * slope_error + (CHUNK + 16) * u * steepest)
        ends = 8 * u * (self.n * steepest + self.ridge * length + float(np.linalg.norm(self.tilt)))
        return 1.01 * (sums + ends)

    def certified(self, gradient: Array, theta: Array, tolerance: float) -> bool:
        """Whether ‖∇J(θ)‖ ≤ tolerance in exact arithmetic."""
        computed = float(np.linalg.norm(gradient)) * (1 + gradient.size * UNIT_ROUNDOFF)
        return computed + self.rounding_error(theta) <= tolerance

    def thinned(self, stride: int) -> Objective:
        """An estimate of this objective from every k-th row, k = ``stride``, each with weight k."""
        coarse = copy(self)
        coarse.blocks = [rows.thinned(stride) for rows in self.blocks]
        coarse.n = sum(rows.n for rows in coarse.blocks)
        coarse.weight = self.weight * stride
        return coarse

    @property
    def small(self) -> bool:
        """Whether the Hessian is worth forming."""
        return self.problem.rows.outputs == 1 and math.prod(self.problem.rows.shape) <= _LARGEST_HESSIAN

    def hessian(self, kind: Any) -> Array:
        """∇²J at the last gradient's θ, its sums over rows in working precision ``kind``."""
        with _blas().limit(limits=1, user_api="blas"):  # the rows are shared out among threads already
            total = self.weight * self.unit**2 * np.sum(on_all_cores(partial(_hessian, kind), self.blocks), axis=0)
        total.flat[:: len(total) + 1] += self.ridge
        return np.asarray(total, dtype=np.float64)

    def diagonal(self) -> Array:
        """The diagonal of ∇²J at the last gradient's θ, positive also without regularisation."""
        total = np.sum([rows.diagonal() for rows in self.blocks], axis=0)
        return np.asarray(self.weight * self.unit**2 * total + max(self.ridge, 1e-300))

    def product(self, direction: Array) -> Array:
        """∇²J at the last gradient's θ, times a direction."""
        products = on_all_cores(partial(_product, direction), self.blocks)
        return np.asarray(self.weight * self.unit**2 * np.sum(products, axis=0) + self.ridge * direction)
